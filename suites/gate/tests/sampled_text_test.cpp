// The tests cover the sampled values of a run, which are written into the replay line and read
// back.
#include "suites/gate/cases/sampled/sampled_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/adapters/model_sampler.h"
#include "harness/contract/usage_error.h"
#include "harness/run/calls/random_words.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {
namespace {

constexpr const char* kOneRow = "chi_squared/gaussian_wide/v600-1400/sampled/n100000";
constexpr const char* kManyRows = "mask/gaussian_wide/v40-250/sampled+top_p";
constexpr const char* kModelOfTurn = "streams/all_equal/vmodel-3/none/t1";

Case case_of(const std::string& id) {
  const std::vector<Case> table = case_table(Suite::gate);
  const auto found = std::ranges::find(table, id, &Case::id);
  if (found == table.end()) throw harness::UsageError("no case " + id);
  return *found;
}

TEST(SampledText, SaysEveryValueThatTheSeedChose) {
  std::size_t cases = 0;
  for (const Case& entry : case_table(Suite::gate)) {
    if (!entry.sampled) continue;
    ++cases;
    const bool one = entry.sampled->operations <= 1;
    for (std::uint64_t seed = 0; seed < (one ? 50U : 2U); ++seed) {
      const Case drawn = with_values(entry, seed);
      // If a text is read into values of another seed, it must overwrite all values. If there are
      // many operations, they come from the seed alone.
      const Case other = with_values(entry, one ? seed + 1000 : seed);
      const Case read = with_sampled_text(other, sampled_text(drawn));
      EXPECT_EQ(sampled_text(read), sampled_text(drawn));
      EXPECT_EQ(read.input.vocab, drawn.input.vocab);
      EXPECT_EQ(read.sampled->rows_seed, harness::case_seed(seed, entry.id));
      ASSERT_EQ(read.operations.size(), drawn.operations.size());
      for (std::size_t i = 0; i < read.operations.size(); ++i) {
        const reference::RowParameters& got = read.operations[i].parameters;
        const reference::RowParameters& right = drawn.operations[i].parameters;
        EXPECT_EQ(got.temperature, right.temperature);
        EXPECT_EQ(got.top_k, right.top_k);
        EXPECT_EQ(got.top_p, right.top_p);
        EXPECT_EQ(got.min_p, right.min_p);
      }
    }
  }
  EXPECT_GE(cases, 20U);
}

TEST(SampledText, OtherOperationsThanTheLineSaysAreRefused) {
  const Case entry = case_of(kManyRows);
  const Case drawn = with_values(entry, 1);
  EXPECT_THROW(with_sampled_text(with_values(entry, 2), sampled_text(drawn)), harness::UsageError);
  Case changed = drawn;
  float& top_p = changed.operations.back().parameters.top_p;
  top_p = std::nextafter(top_p, 0.0F);
  EXPECT_THROW(with_sampled_text(drawn, sampled_text(changed)), harness::UsageError);
}

TEST(SampledText, WhatNoLineSaysIsRefused) {
  const Case drawn = with_values(case_of(kOneRow), 1);
  EXPECT_NO_THROW(with_sampled_text(drawn, "vocab=700,temperature=0.5,rows=ff"));
  EXPECT_NO_THROW(with_sampled_text(drawn, "rows=ff,temperature=16,vocab=1400"));
  for (const char* text :
       {"", ",", "vocab", "vocab=700", "vocab=700,temperature=0.5",
        "vocab=599,temperature=1,rows=1", "vocab=1401,temperature=1,rows=1",
        "vocab=7e2,temperature=1,rows=1", "vocab=700,temperature=nan,rows=1",
        "vocab=700,temperature=17,rows=1", "vocab=700,temperature=0.5x,rows=1",
        "vocab=700,temperature=,rows=1", "vocab=700,temperature=0.5,rows=g",
        "vocab=700,temperature=0.5,rows=11111111111111111",
        "vocab=700,vocab=700,temperature=0.5,rows=1", "vocab=700,temperature=0.5,rows=1,",
        "vocab=700,temperature=0.5,top_p=0.5,rows=1"}) {
    EXPECT_THROW(with_sampled_text(drawn, text), harness::UsageError) << text;
  }
  for (const Case& entry : case_table(Suite::smoke)) {
    if (entry.sampled) continue;
    EXPECT_THROW(with_sampled_text(entry, "vocab=700,temperature=0.5,rows=1"), harness::UsageError);
    break;
  }
}

PlanOptions options_for(const char* id, std::uint64_t seed) {
  PlanOptions options;
  options.samplers = {"model"};
  options.make_sampler = [](const std::string&) {
    return std::make_unique<harness::ModelSampler>();
  };
  options.case_glob = id;
  options.seed = seed;
  return options;
}

harness::CaseRecord run_one(const PlanOptions& options) {
  const harness::RunRecord record = run_plan(make_plan(options), options, 1, {});
  EXPECT_EQ(record.cases.size(), 1U);
  return record.cases.front();
}

std::string sampled_part(const std::string& replay) {
  const std::string_view option = " --sampled ";
  const std::size_t at = replay.find(option);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + option.size();
  return replay.substr(begin, replay.find(' ', begin) - begin);
}

TEST(SampledText, AReplayLineRepeatsItsCase) {
  for (const char* id : {kOneRow, kManyRows, kModelOfTurn}) {
    const harness::CaseRecord first = run_one(options_for(id, 7));
    EXPECT_EQ(first.verdict, harness::Verdict::passed) << first.message;
    PlanOptions again = options_for(id, 7);
    again.sampled = sampled_part(first.replay);
    const harness::CaseRecord second = run_one(again);
    EXPECT_EQ(second.replay, first.replay);
    EXPECT_EQ(second.message, first.message);
    EXPECT_EQ(second.measures, first.measures);
    EXPECT_EQ(second.p_value, first.p_value);
    EXPECT_EQ(second.draws, first.draws);
  }
}

// The values in the replay line take precedence over those of the seed, as in a version that draws
// other values from the same seed.
TEST(SampledText, ALineKeepsItsValuesWhateverTheSeedChooses) {
  const std::string text = sampled_part(run_one(options_for(kOneRow, 7)).replay);
  PlanOptions options = options_for(kOneRow, 8);
  const harness::CaseRecord own = run_one(options);
  options.sampled = text;
  const harness::CaseRecord given = run_one(options);
  EXPECT_EQ(sampled_part(given.replay), text);
  EXPECT_NE(sampled_part(own.replay), text);
  const harness::CaseRecord line = run_one(options_for(kOneRow, 7));
  for (const char* measure : {"sampled_vocab", "sampled_temperature", "sampled_rows_refused",
                              "support", "smallest_expected"}) {
    EXPECT_EQ(given.measures.at(measure), line.measures.at(measure)) << measure;
  }
  EXPECT_NE(given.measures.at("smallest_expected"), own.measures.at("smallest_expected"));
}

TEST(SampledText, ValuesAreThoseOfOneCase) {
  PlanOptions options = options_for("chi_squared/*/sampled*", 7);
  options.sampled = "vocab=700,temperature=0.5,rows=1";
  EXPECT_THROW(make_plan(options), harness::UsageError);
  options.case_glob = "mask/gaussian/v31/edges";
  EXPECT_THROW(make_plan(options), harness::UsageError);
}

}  // namespace
}  // namespace fairdraw::suites
