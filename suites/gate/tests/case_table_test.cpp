// The tests cover the case table: ids, suites, powers, and the numbers that are promised.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "fairdraw/types.h"
#include "harness/contract/sampler.h"
#include "harness/contract/usage_error.h"
#include "harness/run/tests/mutants.h"
#include "suites/gate/cases/case.h"
#include "suites/gate/cases/operation_lists.h"
#include "suites/gate/cases/row_operation_cases.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {
namespace {

std::shared_ptr<const harness::CapturedLogits> captured(const std::string& name) {
  auto logits = std::make_shared<harness::CapturedLogits>();
  logits->name = name;
  logits->rows = 3;
  logits->vocab = 4;
  const float values[] = {0, 1, 2, 3, 3, 2, 1, 0, 0, 0, 9, 0};
  const auto bytes = std::as_bytes(std::span(values));
  logits->data.assign(bytes.begin(), bytes.end());
  return logits;
}

std::set<std::string> ids(Suite suite) {
  std::set<std::string> all;
  for (const Case& entry : case_table(suite, {captured("a")})) {
    EXPECT_TRUE(all.insert(entry.id).second) << entry.id << " comes twice";
  }
  return all;
}

TEST(CaseTable, IdsAreUniqueAndSuitesAreNested) {
  const std::set<std::string> smoke = ids(Suite::smoke);
  const std::set<std::string> gate = ids(Suite::gate);
  const std::set<std::string> nightly = ids(Suite::nightly);
  EXPECT_LT(smoke.size(), gate.size());
  EXPECT_LT(gate.size(), nightly.size());
  EXPECT_TRUE(std::includes(gate.begin(), gate.end(), smoke.begin(), smoke.end()));
  EXPECT_TRUE(std::includes(nightly.begin(), nightly.end(), gate.begin(), gate.end()));
}

// Two metamorphic relations hold bit for bit only if no weight depends on its tile. A case table
// without such rows would not test the relations, without a sign of this.
TEST(CaseTable, MetamorphicCasesHaveExactShiftsAndRowsThatMayBePermuted) {
  PlanOptions options;
  options.suite = Suite::smoke;
  options.samplers = {"model"};
  options.make_sampler = harness::make_builtin_sampler;
  options.case_glob = "metamorphic/*/v1000/partial_sums";
  options.seed = 1;
  const harness::RunRecord record = run_plan(make_plan(options), options, 1, {});
  double exact_shifts = 0, permuted_rows = 0;
  for (const harness::CaseRecord& one : record.cases) {
    EXPECT_EQ(one.verdict, harness::Verdict::passed) << one.id << ": " << one.message;
    const auto measure = [&one](const char* name) {
      const auto found = one.measures.find(name);
      return found == one.measures.end() ? 0.0 : found->second;
    };
    exact_shifts += measure("exact_shifts");
    permuted_rows += measure("permuted_rows");
  }
  EXPECT_GT(exact_shifts, 0);
  EXPECT_GT(permuted_rows, 0);
}

TEST(CaseTable, GateMakesTheDrawsThatItPromises) {
  std::uint64_t draws = 0, large_draws = 0;
  std::int64_t large_rows = 0;
  for (const Case& entry : case_table(Suite::gate)) {
    draws += entry.draws;
    if (entry.input.vocab < 32000) continue;
    large_draws += entry.draws;
    if (entry.check == Check::pit) large_rows += entry.rows;
  }
  EXPECT_GE(draws, 10'000'000U);
  EXPECT_GE(large_draws, 1'000'000U);
  EXPECT_GE(large_rows, 100'000);
}

TEST(CaseTable, NightlyComparesTenMillionRows) {
  std::int64_t rows = 0, large_rows = 0;
  for (const Case& entry : case_table(Suite::nightly)) {
    if (entry.check != Check::tokens) continue;
    rows += entry.rows;
    if (entry.input.vocab >= 128) large_rows += entry.rows;
  }
  EXPECT_GE(rows, 10'000'000);
  EXPECT_GE(2 * large_rows, rows);
}

TEST(CaseTable, CoversEveryCheckFamilyAndVocab) {
  std::set<Check> checks;
  std::set<harness::Family> families;
  std::set<std::int64_t> vocabs;
  for (const Case& entry : case_table(Suite::gate)) {
    checks.insert(entry.check);
    families.insert(entry.input.family);
    vocabs.insert(entry.input.vocab);
  }
  EXPECT_EQ(checks.size(), std::size(harness::kChecks));
  EXPECT_EQ(families.size(), harness::all_families().size());
  for (const std::int64_t vocab : {1, 2, 31, 32000, 50304, 131072, 1 << 20}) {
    EXPECT_TRUE(vocabs.count(vocab)) << vocab;
  }
}

TEST(CaseTable, StatisticalCasesStateWhatTheyFind) {
  for (const Case& entry : case_table(Suite::nightly)) {
    if (!is_statistical(entry.check) || entry.check == Check::streams) continue;
    EXPECT_GT(entry.declared_discrepancy, 0) << entry.id;
    EXPECT_LT(entry.declared_discrepancy, 0.06) << entry.id;
  }
}

// Each value that users type must be tested by directed rows, and by draws whose distribution is
// judged.
TEST(TypedValues, AreCasesOfSmokeWithASourceEach) {
  std::set<std::string> names, in_rows, in_draws, kinds;
  for (const TypedValues& typed : typed_values()) {
    const Operation operation = parse_operation(typed.operation);
    EXPECT_NE(std::string(typed.source), "");
    EXPECT_TRUE(names.insert(typed.operation).second) << typed.operation << " comes twice";
    kinds.insert(filter_name(operation));
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"none", "greedy", "min_p", "top_k", "top_p",
                                          "min_p+top_k", "top_k+top_p", "min_p+top_k+top_p"}));
  for (const Case& entry : case_table(Suite::smoke)) {
    if (entry.banned_tokens || entry.input.dtype != DType::float32) continue;
    std::set<std::string>* const met = entry.check == Check::boundaries ? &in_rows
                                       : entry.check == Check::pit      ? &in_draws
                                                                        : nullptr;
    for (const Operation& operation : entry.operations) {
      const float temperature = operation.parameters.temperature;
      const std::string name = operation_name(operation);
      if (met == nullptr) continue;
      met->insert(temperature == 0 ? name : name + "/" + temperature_tag(temperature));
    }
  }
  EXPECT_TRUE(std::includes(in_rows.begin(), in_rows.end(), names.begin(), names.end()));
  EXPECT_TRUE(std::includes(in_draws.begin(), in_draws.end(), names.begin(), names.end()));
}

TEST(TopKNextToVocab, IsAskedForBySmokeInSmallAndLargeVocabularies) {
  std::set<std::int64_t> by_rows, by_draws;
  for (const Case& entry : case_table(Suite::smoke)) {
    const std::int64_t vocab = entry.input.vocab;
    std::set<std::pair<std::int64_t, bool>> met;  // pairs of (excess over the vocabulary, whether
                                                  // top_p is on)
    for (const Operation& operation : entry.operations) {
      const reference::RowParameters& row = operation.parameters;
      met.insert({row.top_k - vocab, row.top_p != 1});
    }
    bool all = true;
    for (const bool top_p : {false, true}) {
      for (const std::int64_t beyond : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1},
                                        std::int64_t{1000}, 0x7fffffff - vocab}) {
        all = all && met.count({beyond, top_p}) > 0;
      }
    }
    if (all && entry.check == Check::boundaries) by_rows.insert(vocab);
    if (all && entry.check == Check::pit) by_draws.insert(vocab);
  }
  EXPECT_LT(*by_rows.begin(), 100);
  EXPECT_GT(*by_rows.rbegin(), 30'000);
  EXPECT_EQ(by_draws.count(1000), 1U);
}

TEST(EdgeOperations, HoldEveryEdge) {
  std::set<std::int32_t> top_k;
  std::set<float> top_p, temperature, min_p;
  for (const Operation& operation : edge_operations(1000)) {
    top_k.insert(operation.parameters.top_k);
    top_p.insert(operation.parameters.top_p);
    temperature.insert(operation.parameters.temperature);
    min_p.insert(operation.parameters.min_p);
  }
  for (const std::int32_t k : {1, 0, -1, 999, 1000, 1001}) EXPECT_TRUE(top_k.count(k)) << k;
  for (const float p : {0.0F, 0x1p-149F, 1 - 0x1p-24F, 1.0F}) EXPECT_TRUE(top_p.count(p)) << p;
  for (const float p : {0.0F, 0x1p-149F, 1 - 0x1p-24F, 1.0F}) EXPECT_TRUE(min_p.count(p)) << p;
  for (const float t : {0.0F, 0x1p-126F, 1e-4F, 1.0F, 5.0F, 0x1p64F}) {
    EXPECT_TRUE(temperature.count(t)) << t;
  }
}

PlanOptions options_for(Suite suite) {
  PlanOptions options;
  options.suite = suite;
  options.samplers = {"model"};
  options.make_sampler = [](const std::string&) { return harness::make_builtin_sampler("model"); };
  options.seed = 3;
  options.seed_source = "--seed 3";
  return options;
}

TEST(Plan, ShardsPartitionTheCases) {
  const Plan whole = make_plan(options_for(Suite::gate));
  std::map<std::string, int> seen;
  for (std::uint32_t shard = 1; shard <= 3; ++shard) {
    PlanOptions options = options_for(Suite::gate);
    options.shard = shard;
    options.shards = 3;
    for (const harness::Job& job : make_plan(options).jobs) ++seen[job.record.id];
  }
  EXPECT_EQ(seen.size(), whole.jobs.size());
  for (const auto& [id, times] : seen) EXPECT_EQ(times, 1) << id;
}

TEST(Plan, BulkCasesRunOnceForBitIdenticalSamplers) {
  PlanOptions options = options_for(Suite::gate);
  options.samplers = {"model", "model:second", "other"};
  std::map<std::string, std::size_t> bulk;
  for (const harness::Job& job : make_plan(options).jobs) {
    if (job.record.check == "pit") ++bulk[job.record.sampler];
  }
  EXPECT_GT(bulk["model"], 0U);
  EXPECT_EQ(bulk["model:second"], 0U);
  EXPECT_EQ(bulk["other"], bulk["model"]);
}

TEST(Plan, NotesWhatIsJudgedForAnother) {
  PlanOptions options = options_for(Suite::gate);
  options.samplers = {"model", "model:second", "other"};
  const Plan plan = make_plan(options);
  const std::vector<Case> table = case_table(Suite::gate);
  const auto bulk = std::ranges::count_if(table, [](const Case& entry) { return entry.once; });
  ASSERT_EQ(plan.samplers.size(), 3U);
  EXPECT_TRUE(plan.samplers[0].notes.empty());
  EXPECT_TRUE(plan.samplers[2].notes.empty());
  ASSERT_EQ(plan.samplers[1].notes.size(), 1U);
  EXPECT_TRUE(plan.samplers[1].notes[0].starts_with(
      std::to_string(bulk) + " cases of many draws or rows are judged for model alone"))
      << plan.samplers[1].notes[0];
  options.samplers = {"model:second"};
  // a single sampler is judged by all cases
  EXPECT_EQ(make_plan(options).jobs.size(), table.size());
  options.samplers = {"model", "model:second"};
  options.case_glob = "mask/*";
  EXPECT_TRUE(make_plan(options).samplers[1].notes.empty());
}

// CPU instruction sets differ only in their work on a single row. The kernels of a GPU are chosen
// by the number of rows.
TEST(Plan, ManyRowsAreJudgedForOneInstructionSet) {
  PlanOptions options = options_for(Suite::gate);
  options.samplers = {"cpu", "cpu:scalar", "cuda", "cuda:cluster"};
  std::map<std::string, std::size_t> small, large;
  for (const harness::Job& job : make_plan(options).jobs) {
    if (job.record.check != "batches") continue;
    ++(job.record.vocab <= 1000 ? small : large)[job.record.sampler];
  }
  EXPECT_GT(small["cpu"], 0U);
  EXPECT_GT(large["cpu"], 0U);
  EXPECT_EQ(small["cpu:scalar"], small["cpu"]);
  EXPECT_EQ(large["cpu:scalar"], 0U);
  EXPECT_EQ(large["cuda:cluster"], large["cuda"]);
  EXPECT_EQ(large["cuda"], large["cpu"]);
}

TEST(Plan, WithoutANameEachCodeIsJudgedOnce) {
  const std::vector<std::string> names = harness::distinct_sampler_names();
  const auto has = [&names](const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  EXPECT_EQ(names.front(), "cpu");
  EXPECT_FALSE(has("model"));
  EXPECT_FALSE(has(std::string("cpu:") + to_string(best_target())));
  for (const CpuTarget target :
       {CpuTarget::scalar, CpuTarget::avx2, CpuTarget::avx512, CpuTarget::neon}) {
    EXPECT_EQ(has(std::string("cpu:") + to_string(target)),
              is_available(target) && target != best_target());
  }
}

TEST(Plan, RefusesWhatItDoesNotKnow) {
  PlanOptions options = options_for(Suite::gate);
  options.semantics = "farirdraw";
  EXPECT_THROW(make_plan(options), harness::UsageError);
  options = options_for(Suite::gate);
  options.shard = 4;
  options.shards = 3;
  EXPECT_THROW(make_plan(options), harness::UsageError);
  options = options_for(Suite::gate);
  options.case_glob = "mask/no_such_family/v7";
  EXPECT_THROW(make_plan(options), harness::UsageError);
  options = options_for(Suite::gate);
  options.samplers = {"model", "model"};
  EXPECT_THROW(make_plan(options), harness::UsageError);
}

// The sampler of this test is correct by definition, and is judged by the cheapest cases of each
// check.
TEST(RunPlan, SameSeedSameRecordWhateverTheJobs) {
  PlanOptions options = options_for(Suite::smoke);
  options.case_glob = "*/gaussian*/v[13]*";
  Plan plan = make_plan(options);
  // The sampler of these options does not support operations on rows.
  std::set<std::string> of_operations;
  for (const Case& entry : case_table(Suite::smoke)) {
    if (is_row_operation(entry.check)) of_operations.insert(entry.id);
  }
  std::erase_if(plan.jobs,
                [&](const harness::Job& job) { return of_operations.contains(job.record.id); });
  ASSERT_GT(plan.jobs.size(), 5U);
  const harness::RunRecord one = run_plan(plan, options, 1, {});
  const harness::RunRecord three = run_plan(plan, options, 3, {});
  ASSERT_EQ(one.cases.size(), three.cases.size());
  EXPECT_EQ(one.exit_code(), 0);
  EXPECT_EQ(one.draws, three.draws);
  for (std::size_t i = 0; i < one.cases.size(); ++i) {
    EXPECT_EQ(one.cases[i].id, three.cases[i].id);
    EXPECT_STREQ(to_string(one.cases[i].verdict), "passed") << one.cases[i].message;
    EXPECT_EQ(one.cases[i].message, three.cases[i].message);
    EXPECT_EQ(one.cases[i].measures, three.cases[i].measures);
  }
}

TEST(RunPlan, BooksLessThanTheBudget) {
  PlanOptions options = options_for(Suite::smoke);
  options.case_glob = "*/n100000";
  const harness::RunRecord record = run_plan(make_plan(options), options, 1, {});
  ASSERT_GT(record.cases.size(), 0U);
  EXPECT_GT(record.error_budget.spent, 0);
  EXPECT_LE(record.error_budget.spent, 5e-10);  // this is the share of the budget for all cases
                                                // together
  EXPECT_EQ(record.error_budget.false_alarm_rate, 1e-9);
}

TEST(RunPlan, MutantsAreRed) {
  for (const char* name : {"first seed for all outputs", "ties at k dropped", "status missing"}) {
    PlanOptions options = options_for(Suite::smoke);
    options.make_sampler = [name](const std::string&) { return harness::make_mutant(name); };
    options.case_glob = "*/v31/*";
    const harness::RunRecord record = run_plan(make_plan(options), options, 1, {});
    EXPECT_EQ(record.exit_code(), 1) << name;
  }
}

}  // namespace
}  // namespace fairdraw::suites
