// Tests of the fuzzer itself: it must find every mutant, shrink each finding to a few tokens, and
// find nothing in correct samplers.
#include "suites/gate/fuzz/fuzzer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/run/tests/mutants.h"
#include "suites/gate/fuzz/shrink.h"

namespace fairdraw::suites::fuzz {
namespace {

const reference::Semantics& fairdraw_semantics() { return *reference::find_profile("fairdraw"); }

FuzzOptions options(std::uint64_t cases) {
  FuzzOptions result;
  // Shrinking ends at a case from which no single step gives a failing case. For about half of all
  // seeds this case exceeds the bounds below for some mutant, because the failure depends on the
  // salt or on a word.
  result.seed = 20240608;
  result.cases = cases;
  return result;
}

bool needs_long_rows(const harness::RunMutant& mutant) {
  // this mutant needs longer rows than the fuzzer's
  return mutant.name == "tail beyond rank 1000 never drawn";
}

TEST(Fuzzer, FindsEveryMutant) {
  for (const harness::RunMutant& mutant : harness::mutants()) {
    if (needs_long_rows(mutant)) continue;
    SCOPED_TRACE(mutant.name);
    const auto sampler = mutant.make();
    // The first three fuzz cases find most of the mutants. The seventeenth case finds the mutant of
    // the caller's float environment, because it is the second case on which that property is
    // judged.
    const FuzzResult result = fuzz(*sampler, fairdraw_semantics(), options(1000));
    ASSERT_EQ(result.findings.size(), 1U);
    const Finding& finding = result.findings.front();
    EXPECT_FALSE(finding.message.empty());
    // The mutant of lanes needs a token of lane 11 of 16, drawn by a word that is not shrunk, so
    // that at most two rounds of lanes are needed. All other mutants need at most four tokens.
    const bool lanes = mutant.name == "one lane of 16 never drawn";
    EXPECT_LE(vocab_of(finding.shrunk), lanes ? 32 : 4);
    EXPECT_LE(rows_of(finding.shrunk), 3);
    const Capsule capsule = from_json(to_json(capsule_of(finding, *sampler, fairdraw_semantics())));
    EXPECT_TRUE(replay(capsule, *sampler, fairdraw_semantics()).failed());
    const auto model = harness::make_builtin_sampler("model");
    EXPECT_EQ(replay(capsule, *model, fairdraw_semantics()).outcome, Outcome::holds);
  }
}

TEST(Fuzzer, FindsNothingInWhatIsRight) {
  for (const std::string& name : harness::builtin_sampler_names()) {
    if (name.starts_with("cuda")) continue;
    SCOPED_TRACE(name);
    const auto sampler = harness::make_builtin_sampler(name);
    const FuzzResult result = fuzz(*sampler, fairdraw_semantics(), options(3000));
    for (const Finding& finding : result.findings) {
      ADD_FAILURE() << finding.property << ": " << finding.message << "\n"
                    << describe(finding.shrunk);
    }
    // Every property of single calls must have been judged more than once.
    for (const Property& property : properties()) {
      const bool needs_more =
          property.kind == CaseKind::chain ? !sampler->description().chains
          : property.kind == CaseKind::speculation
              ? !sampler->description().speculation
              : property.name.starts_with("probs.") && !sampler->description().from_probs;
      if (property.kind == CaseKind::distribution || needs_more) continue;
      const auto judged = result.statistics.judged_by_property.find(property.name);
      ASSERT_NE(judged, result.statistics.judged_by_property.end()) << property.name;
      EXPECT_GE(judged->second, 30U) << property.name;
    }
  }
}

TEST(Fuzzer, IsAFunctionOfItsSeedAndCases) {
  const auto run = [](std::uint64_t first, std::uint64_t cases) {
    const auto sampler = harness::make_mutant("ties at k dropped");
    FuzzOptions some = options(cases);
    some.first_case = first;
    return fuzz(*sampler, fairdraw_semantics(), some);
  };
  const FuzzResult once = run(0, 1000), again = run(0, 1000);
  ASSERT_EQ(once.findings.size(), 1U);
  ASSERT_EQ(again.findings.size(), 1U);
  const Finding& finding = once.findings.front();
  EXPECT_EQ(describe(finding.shrunk), describe(again.findings.front().shrunk));
  EXPECT_EQ(finding.case_number, again.findings.front().case_number);
  EXPECT_EQ(once.statistics.judged, again.statistics.judged);
  // A case does not depend on the first case of the run, so that it can be found again.
  const FuzzResult alone = run(finding.case_number, 1);
  ASSERT_EQ(alone.findings.size(), 1U);
  EXPECT_EQ(describe(alone.findings.front().shrunk), describe(finding.shrunk));
}

TEST(Fuzzer, ShrinksDistributionsToSmallVocabularies) {
  FuzzOptions distributions = options(60);
  distributions.statistical = true;
  distributions.generate.max_vocab = 257;
  std::vector<std::int64_t> vocabs;
  for (const char* const name :
       {"temperature 1.05 times too high", "one lane of 16 never drawn", "crossing token dropped",
        "ties at k dropped", "token outside of the mask drawn"}) {
    SCOPED_TRACE(name);
    const auto sampler = harness::make_mutant(name);
    const FuzzResult result = fuzz(*sampler, fairdraw_semantics(), distributions);
    ASSERT_EQ(result.findings.size(), 1U);
    const FuzzCase& shrunk = result.findings.front().shrunk;
    vocabs.push_back(vocab_of(shrunk));
    const Capsule capsule =
        from_json(to_json(capsule_of(result.findings.front(), *sampler, fairdraw_semantics())));
    EXPECT_TRUE(replay(capsule, *sampler, fairdraw_semantics()).failed());
    const auto model = harness::make_builtin_sampler("model");
    EXPECT_EQ(replay(capsule, *model, fairdraw_semantics()).outcome, Outcome::holds);
  }
  std::sort(vocabs.begin(), vocabs.end());
  EXPECT_LE(vocabs[vocabs.size() / 2], 64);
}

TEST(Fuzzer, DistributionsOfTheModelHold) {
  FuzzOptions distributions = options(30);
  distributions.statistical = true;
  distributions.generate.max_vocab = 257;
  distributions.generate.max_draws = 1 << 14;
  const auto model = harness::make_builtin_sampler("model");
  const FuzzResult result = fuzz(*model, fairdraw_semantics(), distributions);
  EXPECT_TRUE(result.findings.empty());
  EXPECT_GE(result.statistics.judged, 25U);
}

// --- Generators and shrinking -------------------------------------------------------------------

FuzzCase generated(std::uint64_t number) {
  const auto model = harness::make_builtin_sampler("model");
  return batch_cases(model->description(), {})(rc::Random(number), 100).value();
}

// Expects that arrays have the lengths that a request needs to be run.
void expect_well_formed(const harness::Request& request) {
  const auto rows = static_cast<std::size_t>(request.rows);
  const auto outputs = static_cast<std::size_t>(request.outputs());
  EXPECT_EQ(request.logits.size(), rows * static_cast<std::size_t>(request.vocab));
  EXPECT_EQ(request.parameters.size(), rows);
  EXPECT_TRUE(request.active.empty() || request.active.size() == rows);
  const auto words = static_cast<std::size_t>(harness::words_for(request.vocab));
  EXPECT_TRUE(request.allowed.empty() || request.allowed.size() == rows * words);
  EXPECT_EQ(request.seed.size(), request.seed_is_scalar ? 1 : outputs);
  EXPECT_EQ(request.offset.size(), request.seed.size());
  const auto samples = static_cast<std::size_t>(request.num_samples);
  EXPECT_TRUE(request.words.empty() || request.words.size() == outputs * samples);
  EXPECT_TRUE(request.row_stride == 0 || request.row_stride >= request.vocab);
  EXPECT_GE(request.vocab, 1);
  EXPECT_GE(request.num_samples, 1);
}

TEST(Generators, MeetTheTroubleThatTheyAreFor) {
  std::uint64_t ok = 0, rows = 0, ties = 0, cut_at_a_tie = 0, exact_mass = 0, bad = 0, wide = 0;
  for (std::uint64_t number = 0; number < 3000; ++number) {
    const harness::Request request = generated(number).request;
    expect_well_formed(request);
    if (request.vocab >= 1000) ++wide;
    for (std::int64_t row = 0; row < request.rows; ++row) {
      ++rows;
      const reference::IntegerRow model = harness::model_of(request, row);
      const bool fails = model.status != RowStatus::ok;
      ++(fails ? bad : ok);
      if (fails) continue;
      std::vector<float> values(request.row(row), request.row(row) + request.vocab);
      std::sort(values.begin(), values.end());
      if (std::adjacent_find(values.begin(), values.end()) != values.end()) ++ties;
      const reference::RowParameters& p = request.parameters[static_cast<std::size_t>(row)];
      const auto support = static_cast<std::int64_t>(model.support_size);
      if (p.top_k > 1 && support > p.top_k) ++cut_at_a_tie;
      // The threshold of top_p is met with equality if the mass above some token is exactly p.
      reference::RowWeight above = 0;
      std::vector<std::pair<float, reference::RowWeight>> ranked;
      for (std::int64_t id = 0; id < request.vocab; ++id) {
        ranked.emplace_back(request.row(row)[id], model.weight[static_cast<std::size_t>(id)]);
      }
      std::sort(ranked.begin(), ranked.end(),
                [](const auto& a, const auto& b) { return a.first > b.first; });
      bool met = false;
      for (const auto& [value, weight] : ranked) {
        const double mass =
            static_cast<double>(above) / static_cast<double>(model.total_unfiltered);
        met = met || (p.top_p > 0 && p.top_p < 1 && mass == static_cast<double>(p.top_p));
        above += weight;
      }
      if (met) ++exact_mass;
    }
  }
  // The seeds are fixed, so that the counts of rows are deterministic. The counts show that no kind
  // of difficult row is rare.
  EXPECT_GT(ok, rows / 2);
  EXPECT_GT(bad, rows / 50);
  EXPECT_GT(ties, rows / 4);
  EXPECT_GT(cut_at_a_tie, rows / 100);
  EXPECT_GT(exact_mass, rows / 200);
  EXPECT_GT(wide, 3000U / 100);
}

TEST(Shrinking, MakesWellFormedCasesAndEnds) {
  for (std::uint64_t number = 0; number < 60; ++number) {
    const FuzzCase start = generated(number);
    if (start.request.rows == 0) continue;
    // Every candidate fails, so that the search ends at the simplest case.
    const Shrunk shrunk = shrink(with_shrinks(start), 100000, [](FuzzCase& candidate) {
      expect_well_formed(candidate.request);
      return true;
    });
    EXPECT_LT(shrunk.evaluations, 100000U);
    EXPECT_EQ(shrunk.fuzz_case.request.rows, 1);
    EXPECT_EQ(shrunk.fuzz_case.request.vocab, 1);
    EXPECT_EQ(shrunk.fuzz_case.request.logits.front(), 0);
    EXPECT_EQ(shrunk.fuzz_case.salt, 0U);
  }
}

FuzzCase generated_speculation(std::uint64_t number) {
  const auto model = harness::make_builtin_sampler("model");
  return speculation_cases(model->description(), {.max_vocab = 33})(rc::Random(number), 100)
      .value();
}

void expect_well_formed(const harness::SpeculationRequest& request) {
  const auto rows = static_cast<std::size_t>(request.rows());
  const auto batch = static_cast<std::size_t>(request.batch);
  const auto vocab = static_cast<std::size_t>(request.vocab);
  const std::size_t places = rows - batch;
  EXPECT_EQ(request.target.size(), rows * vocab);
  EXPECT_EQ(request.draft_tokens.size(), places);
  EXPECT_EQ(request.draft.size(), request.draft_law == DraftLaw::none ? 0 : places * vocab);
  EXPECT_EQ(request.parents.size(), request.trees ? places : 0);
  EXPECT_EQ(request.parameters.size(), batch);
  EXPECT_EQ(request.draft_parameters.size(), request.draft_law == DraftLaw::logits ? batch : 0);
  EXPECT_EQ(request.seed.size(), request.seed_is_scalar ? 1 : batch);
  EXPECT_TRUE(request.processing.empty() || request.processing.size() == rows);
  const auto words = static_cast<std::size_t>(harness::words_for(request.vocab));
  EXPECT_TRUE(request.allowed.empty() || request.allowed.size() == rows * words);
  if (request.row_begins.empty()) {
    EXPECT_EQ(rows, batch * static_cast<std::size_t>(request.max_draft + 1));
  } else {
    EXPECT_EQ(request.row_begins.size(), batch + 1);
    EXPECT_EQ(request.row_begins.back(), request.rows());
  }
}

TEST(Generators, MakeDraftsThatMeetTheTarget) {
  std::uint64_t requests = 0, processed = 0, stand = 0, bad = 0;
  for (std::uint64_t number = 0; number < 1000; ++number) {
    const harness::SpeculationRequest request = generated_speculation(number).speculation;
    expect_well_formed(request);
    for (std::int64_t b = 0; b < request.batch; ++b) {
      ++requests;
      const reference::SpeculationOutcome outcome = outcome_of(split_request(request, b));
      if (!request.processing.empty()) ++processed;
      if (outcome.accepted > 0) ++stand;
      if (outcome.status != RowStatus::ok) ++bad;
    }
  }
  EXPECT_GT(processed, requests / 3);
  EXPECT_GT(stand, requests / 8);
  EXPECT_GT(bad, requests / 20);
  EXPECT_LT(bad, requests / 2);
}

TEST(Shrinking, EndsForRequestsWithDrafts) {
  for (std::uint64_t number = 0; number < 60; ++number) {
    const Shrunk shrunk =
        shrink(with_shrinks(generated_speculation(number)), 100000, [](FuzzCase& candidate) {
          expect_well_formed(candidate.speculation);
          return true;
        });
    EXPECT_LT(shrunk.evaluations, 100000U);
    const harness::SpeculationRequest& request = shrunk.fuzz_case.speculation;
    EXPECT_EQ(request.batch, 1);
    EXPECT_EQ(request.rows(), 1);
    EXPECT_EQ(request.vocab, 1);
    EXPECT_EQ(request.target.front(), 0);
    EXPECT_TRUE(request.processing.empty());
  }
}

TEST(Shrinking, KeepsWhatTheFailureNeeds) {
  // The predicate fails if some row holds two equal values above 3 and its top_k is at least 5.
  const auto fails = [](FuzzCase& c) {
    const harness::Request& request = c.request;
    for (std::int64_t row = 0; row < request.rows; ++row) {
      if (request.parameters[static_cast<std::size_t>(row)].top_k < 5) continue;
      std::vector<float> values(request.row(row), request.row(row) + request.vocab);
      std::erase_if(values, [](float value) { return !(value > 3); });
      std::sort(values.begin(), values.end());
      if (std::adjacent_find(values.begin(), values.end()) != values.end()) return true;
    }
    return false;
  };
  std::uint64_t shrunk_cases = 0;
  for (std::uint64_t number = 0; number < 3000; ++number) {
    FuzzCase start = generated(number);
    if (!fails(start)) continue;
    ++shrunk_cases;
    FuzzCase small = shrink(with_shrinks(start), 100000, fails).fuzz_case;
    ASSERT_TRUE(fails(small));
    EXPECT_EQ(small.request.rows, 1);
    EXPECT_EQ(small.request.vocab, 2);
    EXPECT_EQ(small.request.parameters.front().top_p, 1);
  }
  EXPECT_GT(shrunk_cases, 20U);
}

}  // namespace
}  // namespace fairdraw::suites::fuzz
