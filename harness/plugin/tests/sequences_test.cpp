// Tests plugins that keep requests: events are sent to the plugin's process, and guarded like
// calls.
#include <gtest/gtest.h>

#include <utility>

#include "harness/plugin/plugin_sampler.h"
#include "harness/plugin/tests/bad_plugin.h"
#include "harness/run/calls/sequence_event.h"
#include "harness/run/checks/checks.h"

namespace fairdraw::harness::plugin {
namespace {

CheckOutcome judge(Sampler& sampler) {
  const auto logits = family_source(Family::gaussian, 20, 31, DType::float32);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  input.logits = logits.get();
  input.parameters = {{.temperature = 1}};
  input.seed = 12;
  return check_sequences(input);
}

TEST(PluginSequences, areJudgedInBothWays) {
  for (const Options& options : {isolated(), trusted()}) {
    const Bad way("keeps-requests");
    const auto sampler = make(options);
    EXPECT_TRUE(sampler->description().keeps_state);
    EXPECT_EQ(ability_names(sampler->description()),
              "top_k indices num_samples per_request_seeds state");
    const CheckOutcome outcome = judge(*sampler);
    EXPECT_EQ(outcome.verdict, Verdict::passed) << outcome.message;
    EXPECT_GT(outcome.measures.at("events"), 300);
  }
}

TEST(PluginSequences, areSkippedWhereNothingIsKept) {
  const auto sampler = make(isolated());
  EXPECT_EQ(judge(*sampler).verdict, Verdict::skipped);
  SequenceEvent begin;
  begin.slots = 4;
  begin.vocab = 31;
  EXPECT_EQ(run_event(*sampler, begin).refused, "keeps no requests");
}

TEST(PluginSequences, whatGoesWrongIsNamed) {
  const std::pair<const char*, const char*> ways[] = {
      {"keeps-requests-too-long", "in a call that has all values of the request"},
      {"keeps-requests-to-itself", "(restore): call refused: once gone is gone"},
      {"keeps-requests-and-writes", "(step): wrote past the end of tokens"},
      {"keeps-requests-and-crashes", "(end): the plugin "}};
  for (const auto& [name, part] : ways) {
    const Bad way(name);
    const auto sampler = make(isolated());
    const CheckOutcome outcome = judge(*sampler);
    EXPECT_EQ(outcome.verdict, Verdict::failed) << name;
    expect_parts(outcome.message, {part});
  }
}

// An impossible order of events is a mistake of the code that drives a sampler.
TEST(BuiltinSequences, refuseWhatMakesNoSense) {
  for (const char* const name : {"cpu", "model"}) {
    const auto sampler = make_builtin_sampler(name);
    SequenceEvent event;
    event.slots = 4;
    event.vocab = 31;
    const auto tell = [&](std::uint32_t kind, std::int32_t slot) {
      event.kind = kind;
      event.slot = {slot};
      event.parameters.resize(1);
      event.seed = event.offset = {0};
      return run_event(*sampler, event).refused;
    };
    EXPECT_EQ(tell(FAIRDRAW_EVENT_ADD, 0), "no batch has begun") << name;
    event.slot.clear();
    event.kind = FAIRDRAW_EVENT_BEGIN;
    EXPECT_EQ(run_event(*sampler, event).refused, "") << name;
    EXPECT_EQ(tell(FAIRDRAW_EVENT_ADD, 3), "") << name;
    EXPECT_NE(tell(FAIRDRAW_EVENT_RESTORE, 3), "") << name;  // refused: slot 3 holds a request
    EXPECT_NE(tell(FAIRDRAW_EVENT_END, 2), "") << name;      // refused: slot 2 holds no request
    EXPECT_NE(tell(FAIRDRAW_EVENT_ADD, 4), "") << name;      // the slot is beyond the last one
    EXPECT_EQ(tell(FAIRDRAW_EVENT_EVICT, 3), "") << name;
    EXPECT_EQ(tell(FAIRDRAW_EVENT_RESTORE, 3), "") << name;
  }
}

}  // namespace
}  // namespace fairdraw::harness::plugin
