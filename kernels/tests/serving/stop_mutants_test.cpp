// The tests of stop criteria are tested themselves: random requests must detect each of the
// mistakes that engines have made or could make.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "reference/stop_model.h"

namespace fairdraw::suites {
namespace {

using reference::stop_model;
using reference::StopAnswer;
using reference::StopRules;
using Ids = std::vector<std::int32_t>;
using Implementation = std::function<StopAnswer(const Ids&, const Ids&, const StopRules&)>;

struct StopMutant {
  const char* name;
  Implementation answer;
};

Ids random_ids(std::mt19937_64& random, std::size_t least, std::size_t most) {
  Ids ids(least + random() % (most - least + 1));
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 3);
  return ids;
}

/// Returns the number of requests until an implementation differs from the model; -1 if it never
/// does.
int requests_until_found(const Implementation& implementation) {
  constexpr int kRequests = 20000;
  std::mt19937_64 random(20261122);
  for (int i = 0; i < kRequests; ++i) {
    StopRules rules;
    rules.eos_id = random() % 2 == 0 ? 2 : -1;
    rules.ignore_eos = random() % 3 == 0;
    if (random() % 3 == 0) rules.stop_ids = random_ids(random, 1, 3);
    for (std::uint64_t words = random() % 3; words > 0; --words) {
      rules.stop_sequences.push_back(random_ids(random, 1, 4));
    }
    rules.min_tokens = static_cast<std::int32_t>(random() % 6);
    rules.max_tokens = rules.min_tokens + static_cast<std::int32_t>(random() % 8);
    const Ids output = random_ids(random, 0, 6);
    const Ids step = random_ids(random, 0, 4);
    if (implementation(output, step, rules) != stop_model(output, step, rules)) return i + 1;
  }
  return -1;
}

/// Returns the model's implementation with changed rules.
Implementation with_rules(const std::function<void(StopRules&)>& change) {
  return [change](const Ids& output, const Ids& step, const StopRules& rules) {
    StopRules changed = rules;
    change(changed);
    return stop_model(output, step, changed);
  };
}

bool is_stop(FinishReason reason) {
  return reason == FinishReason::eos || reason == FinishReason::stop_id ||
         reason == FinishReason::stop_sequence;
}

const std::vector<StopMutant>& mutants() {
  static const std::vector<StopMutant> list = {
      {"min_tokens_ignored", with_rules([](StopRules& r) { r.min_tokens = 0; })},  // PR 7808
      {"min_tokens_one_late", with_rules([](StopRules& r) { ++r.min_tokens; })},
      {"max_tokens_one_late", with_rules([](StopRules& r) { ++r.max_tokens; })},
      {"eos_despite_ignore_eos", with_rules([](StopRules& r) { r.ignore_eos = false; })},
      {"eos_never", with_rules([](StopRules& r) { r.ignore_eos = true; })},
      // ends at the wrong token: PR 12358
      {"ignore_eos_drops_stop_ids", with_rules([](StopRules& r) {
         if (r.ignore_eos) std::erase(r.stop_ids, r.eos_id);
       })},
      {"one_stop_id",
       with_rules([](StopRules& r) { r.stop_ids.resize(r.stop_ids.empty() ? 0 : 1); })},
      {"one_stop_sequence", with_rules([](StopRules& r) {
         if (r.stop_sequences.size() > 1) r.stop_sequences.pop_back();
       })},
      {"sequences_forget_earlier_steps",
       [](const Ids& output, const Ids& step, const StopRules& rules) {
         return stop_model(Ids(output.size(), -1), step, rules);
       }},
      {"sequences_only_at_the_end_of_a_step",
       [](const Ids& output, const Ids& step, const StopRules& rules) {
         StopRules without = rules;
         without.stop_sequences.clear();
         const StopAnswer answer = stop_model(output, step, without);
         const StopAnswer whole = stop_model(output, step, rules);
         const bool at_end = whole.kept == static_cast<std::int32_t>(step.size());
         return whole.reason == FinishReason::stop_sequence && at_end ? whole : answer;
       }},
      {"sequences_must_begin_behind_min_tokens",
       [](const Ids& output, const Ids& step, const StopRules& rules) {
         Ids hidden = output;  // this is vLLM's rule for stop strings
         for (std::size_t i = 0; i < hidden.size(); ++i) {
           if (static_cast<std::int32_t>(i) < rules.min_tokens) hidden[i] = -1;
         }
         return stop_model(hidden, step, rules);
       }},
      {"length_of_the_step_alone",
       [](const Ids&, const Ids& step, const StopRules& rules) {
         return stop_model({}, step, rules);
       }},
      {"length_before_stops",
       [](const Ids& output, const Ids& step, const StopRules& rules) {
         StopAnswer answer = stop_model(output, step, rules);
         const auto length = static_cast<std::int32_t>(output.size()) + answer.kept;
         if (is_stop(answer.reason) && length >= rules.max_tokens) {
           answer = {FinishReason::length, answer.kept, -1, 0};
         }
         return answer;
       }},
      {"stop_is_not_kept",
       [](const Ids& output, const Ids& step, const StopRules& rules) {
         StopAnswer answer = stop_model(output, step, rules);
         if (is_stop(answer.reason)) --answer.kept;
         return answer;
       }},
      {"step_is_not_cut",
       [](const Ids& output, const Ids& step, const StopRules& rules) {
         StopAnswer answer = stop_model(output, step, rules);
         answer.kept = static_cast<std::int32_t>(step.size());
         return answer;
       }},
      {"only_the_last_token_is_looked_at",
       [](const Ids& output, const Ids& step, const StopRules& rules) {
         if (step.size() < 2) return stop_model(output, step, rules);
         Ids before = output;
         before.insert(before.end(), step.begin(), step.end() - 1);
         StopAnswer answer = stop_model(before, {step.back()}, rules);
         answer.kept += static_cast<std::int32_t>(step.size()) - 1;
         return answer;
       }},
      {"last_of_several_sequences",
       [](const Ids& output, const Ids& step, const StopRules& rules) {
         StopRules reversed = rules;
         std::reverse(reversed.stop_sequences.begin(), reversed.stop_sequences.end());
         StopAnswer answer = stop_model(output, step, reversed);
         if (answer.reason == FinishReason::stop_sequence) {
           answer.matched =
               static_cast<std::int32_t>(rules.stop_sequences.size()) - 1 - answer.matched;
         }
         return answer;
       }},
  };
  return list;
}

TEST(StopMutants, EachIsFound) {
  EXPECT_EQ(requests_until_found(stop_model), -1);
  for (const StopMutant& mutant : mutants()) {
    EXPECT_GT(requests_until_found(mutant.answer), 0) << mutant.name;
  }
}

}  // namespace
}  // namespace fairdraw::suites
