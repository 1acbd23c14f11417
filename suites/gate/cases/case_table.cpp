// This file has the table of cases. The cases of the table cannot detect errors smaller than their
// declared discrepancies, nor errors that occur only on rows unlike all families.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "suites/gate/cases/batch_cases.h"
#include "suites/gate/cases/case.h"
#include "suites/gate/cases/distribution_cases.h"
#include "suites/gate/cases/mark_cases.h"
#include "suites/gate/cases/narrow_speculation_cases.h"
#include "suites/gate/cases/operation_lists.h"
#include "suites/gate/cases/probability_cases.h"
#include "suites/gate/cases/range_cases.h"
#include "suites/gate/cases/row_operation_cases.h"
#include "suites/gate/cases/sampled/sampled_cases.h"
#include "suites/gate/cases/sequence_cases.h"
#include "suites/gate/cases/serving_cases.h"
#include "suites/gate/cases/speculation_cases.h"
#include "suites/gate/cases/vocabulary_cases.h"

namespace fairdraw::suites {
namespace {

using harness::Family;

class Table {
 public:
  explicit Table(Suite suite) : suite_(suite) {}

  // Adds a case if the requested suite includes it.
  void add(Case entry, const std::string& operations_name) {
    if (entry.suite > suite_) return;
    std::string input =
        entry.input.captured ? entry.input.captured->name : harness::to_string(entry.input.family);
    if (entry.input.added != 0) input += fmt::format("+{}", entry.input.added);
    entry.id = fmt::format("{}/{}/v{}", to_string(entry.check), input, vocab_name(entry));
    if (entry.input.dtype != DType::float32) {
      entry.id += fmt::format("/{}", to_string(entry.input.dtype));
    }
    entry.id += "/" + operations_name;
    if (entry.from_probs) entry.id += "/probs";
    if (entry.processed) entry.id += "/processed";
    if (entry.marked) entry.id += fmt::format("/marked_{}", to_string(*entry.marked));
    if (entry.banned_tokens) entry.id += "/banned";
    if (is_statistical(entry.check) && entry.draws > 0) {
      entry.id += fmt::format("/n{}", entry.draws);
    }
    cases_.push_back(std::move(entry));
  }

  void add(NamedCase named) { add(std::move(named.entry), named.operations_name); }

  // Adds a case in which all rows have the same operation.
  void add(Case entry, const char* operation) { add(named_case(std::move(entry), operation)); }

  // Adds a case with one operation per row, and with enough rows to use each operation once.
  void add_list(Case entry, const std::string& name, std::vector<Operation> operations) {
    entry.rows = std::max(entry.rows, static_cast<std::int64_t>(operations.size()));
    entry.operations = std::move(operations);
    entry.literal = name.starts_with("edges");
    add(std::move(entry), name);
  }

  std::vector<Case> take() { return std::move(cases_); }

 private:
  static std::string vocab_name(const Case& entry) {
    if (!entry.sampled) return fmt::format("{}", entry.input.vocab);
    if (entry.sampled->turn) return fmt::format("model-{}", *entry.sampled->turn);
    return fmt::format("{}-{}", entry.sampled->smallest_vocab, entry.sampled->largest_vocab);
  }

  Suite suite_;
  std::vector<Case> cases_;
};

// --- Exact checks -------------------------------------------------------------------------------

void add_masks_and_tokens(Table& table) {
  const auto add_both = [&table](Suite suite, const Input& input, const std::string& name,
                                 const std::vector<Operation>& operations, bool banned = false) {
    table.add_list({.suite = suite, .check = Check::mask, .input = input, .banned_tokens = banned},
                   name, operations);
    table.add_list({.suite = suite,
                    .check = Check::tokens,
                    .input = input,
                    .banned_tokens = banned,
                    .draws = 8 * operations.size()},
                   name, operations);
  };
  for (const Family family : harness::all_families()) {
    add_both(Suite::smoke, family_input(family, 1000), "edges", edge_operations(1000));
    add_both(Suite::gate, family_input(family, 31), "edges", edge_operations(31));
    add_both(Suite::gate, family_input(family, 1000), "edges", edge_operations(1000), true);
    add_both(Suite::gate, family_input(family, 32000), "everyday", everyday_operations());
  }
  for (const std::int64_t vocab : {1, 2}) {
    add_both(Suite::smoke, family_input(Family::gaussian, vocab), "edges", edge_operations(vocab));
  }
  // Everyday filters keep all or all but one of a few tokens, which no edge operation does.
  for (const std::int64_t vocab : {31, 1000}) {
    add_both(Suite::smoke, family_input(Family::few_allowed, vocab), "everyday",
             everyday_operations());
  }
  for (const Family family : {Family::mass_exactly_p, Family::dyadic}) {
    for (const std::int64_t vocab : {31, 1000, 50304}) {
      add_both(vocab > 1000 ? Suite::gate : Suite::smoke, family_input(family, vocab),
               "partial_sums", partial_sum_operations());
    }
  }
  for (const Family family :
       {Family::gaussian, Family::peaked, Family::flat, Family::ties_at_k, Family::bf16_rounded}) {
    add_both(Suite::gate, family_input(family, kLargeVocab), "everyday", everyday_operations());
  }
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    add_both(Suite::smoke, family_input(Family::gaussian_wide, 1000, dtype), "edges",
             edge_operations(1000));
    add_both(Suite::gate, family_input(Family::peaked, 50304, dtype), "everyday",
             everyday_operations());
  }
  const std::vector<Operation> largest = {parse_operation("top_k_50+top_p_0.9/t0.7"),
                                          parse_operation("top_p_0.95/t1"),
                                          parse_operation("none/t1")};
  add_both(Suite::gate, family_input(Family::gaussian, kMaxVocab), "largest", largest);

  // These cases make many calls of one instance, in which the parameters of a slot change from call
  // to call (the number of rows per call, 2^20 / 250, is not a multiple of 16 operations). Such
  // cases detect a parameter that takes effect one call late, even if this happens once in a
  // thousand rows.
  table.add_list({.suite = Suite::gate,
                  .check = Check::tokens,
                  .input = family_input(Family::gaussian_wide, 250),
                  .rows = 40'000,
                  .draws = 40'000},
                 "everyday+many", everyday_operations());

  // Tie rule and filter order apply to a whole call, so that each needs cases of its own.
  for (const Family family : {Family::ties_at_k, Family::bf16_rounded, Family::gaussian}) {
    for (const char* option : {"lowest_id", "joint", "lowest_id+joint"}) {
      const Operation rules = parse_operation(option);
      const auto add_under_rules = [&](const char* name, std::vector<Operation> operations) {
        for (Operation& operation : operations) {
          operation.tie_rule = rules.tie_rule;
          operation.filter_order = rules.filter_order;
        }
        add_both(Suite::gate, family_input(family, 1000), fmt::format("{}+{}", name, option),
                 operations);
      };
      add_under_rules("edges", edge_operations(1000));
      // on these rows the order of filters matters
      add_under_rules("everyday", everyday_operations());
    }
  }
}

void add_contracts(Table& table) {
  for (const std::int64_t vocab : {1, 2, 31, 1000, 50304}) {
    table.add_list({.suite = vocab > 1000 ? Suite::gate : Suite::smoke,
                    .check = Check::status,
                    .input = family_input(Family::gaussian, vocab),
                    .rows = 5},
                   "everyday",
                   {parse_operation("top_k_50+top_p_0.9/t0.7"), parse_operation("none/t1"),
                    parse_operation("greedy")});
  }
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    table.add_list({.suite = Suite::smoke,
                    .check = Check::replay,
                    .input = family_input(Family::gaussian_wide, 1000, dtype)},
                   "everyday", everyday_operations());
    table.add_list({.suite = Suite::gate,
                    .check = Check::replay,
                    .input = family_input(Family::peaked, 32000, dtype)},
                   "everyday", everyday_operations());
  }
  table.add_list({.suite = Suite::smoke,
                  .check = Check::replay,
                  .input = family_input(Family::gaussian, 31),
                  .banned_tokens = true},
                 "everyday", everyday_operations());
  table.add_list({.suite = Suite::gate,
                  .check = Check::replay,
                  .input = family_input(Family::gaussian, kLargeVocab)},
                 "everyday", everyday_operations());

  for (const Family family : {Family::dyadic, Family::mass_exactly_p, Family::gaussian,
                              Family::ties_at_k, Family::bf16_rounded}) {
    for (const std::int64_t vocab : {1, 31, 1000, 32000}) {
      table.add_list({.suite = vocab == 1000 ? Suite::smoke : Suite::gate,
                      .check = Check::metamorphic,
                      .input = family_input(family, vocab)},
                     "everyday", everyday_operations());
    }
    table.add_list(
        {.suite = Suite::smoke, .check = Check::metamorphic, .input = family_input(family, 1000)},
        "partial_sums", partial_sum_operations());
  }
  for (const Family family : {Family::subnormal, Family::huge_range, Family::gaussian_wide}) {
    table.add_list({.suite = Suite::smoke,
                    .check = Check::float_environment,
                    .input = family_input(family, 1000)},
                   "edges", edge_operations(1000));
    table.add_list({.suite = Suite::gate,
                    .check = Check::float_environment,
                    .input = family_input(family, 32000)},
                   "everyday", everyday_operations());
  }
  for (const Family family : {Family::gaussian_wide, Family::peaked, Family::ties_at_k}) {
    table.add_list(
        {.suite = Suite::smoke, .check = Check::probabilities, .input = family_input(family, 1000)},
        "edges", edge_operations(1000));
    table.add_list(
        {.suite = Suite::gate, .check = Check::probabilities, .input = family_input(family, 32000)},
        "everyday", everyday_operations());
  }
  for (const Family family : {Family::peaked, Family::masked, Family::few_allowed,
                              Family::ties_at_k, Family::single_support, Family::head_and_tail}) {
    for (const std::int64_t vocab : {1000, 32000}) {
      table.add_list({.suite = vocab == 1000 ? Suite::smoke : Suite::gate,
                      .check = Check::support,
                      .input = family_input(family, vocab),
                      .draws = 1024},
                     "everyday", everyday_operations());
    }
  }
}

// Adds lists for samplers that lack a filter, and therefore skip every list that contains it.
void add_fewer_filters(Table& table) {
  const std::pair<const char*, Filters> lists[] = {
      {"unfiltered", {}},
      {"top_k_alone", {.top_k = true}},
      {"top_p_alone", {.top_p = true}},
      {"min_p_alone", {.min_p = true}},
      {"top_k_and_top_p", {.top_k = true, .top_p = true}}};
  constexpr std::int64_t kVocab = 1000;
  for (const auto& [name, filters] : lists) {
    const std::vector<Operation> operations = operations_with(filters, kVocab);
    const auto add = [&](Check check, bool banned, DType dtype) {
      table.add_list({.suite = Suite::smoke,
                      .check = check,
                      .input = family_input(Family::gaussian_wide, kVocab, dtype),
                      .banned_tokens = banned,
                      .draws = (check == Check::support ? 64 : 8) * operations.size()},
                     name, operations);
    };
    for (const Check check :
         {Check::mask, Check::tokens, Check::support, Check::status, Check::replay,
          Check::metamorphic, Check::probabilities, Check::logprobs, Check::float_environment}) {
      add(check, false, DType::float32);
    }
    for (const Check check : {Check::mask, Check::tokens, Check::support}) {
      add(check, true, DType::float32);
      add(check, false, DType::bfloat16);
      add(check, false, DType::float16);
    }
  }
}

// --- Statistical checks -------------------------------------------------------------------------

void add_streams(Table& table) {
  for (const char* operation : {"none/t1", "top_p_0.999/t1", "min_p_0.5/t1"}) {
    table.add({.suite = Suite::smoke,
               .check = Check::streams,
               .input = family_input(Family::all_equal, kLargeVocab)},
              operation);
  }
  table.add({.suite = Suite::gate,
             .check = Check::streams,
             .input = family_input(Family::flat, kMaxVocab)},
            "none/t1");
  // The draws are long streams of tokens, in which 16 x 16 tables of pairs detect discrepancies of
  // 0.17, 0.076 and 0.017.
  const auto add_long = [&table](Suite suite, std::uint64_t draws, double declared) {
    table.add({.suite = suite,
               .check = Check::streams,
               .input = family_input(Family::gaussian, 1000),
               .draws = draws,
               .declared_discrepancy = declared,
               .once = true},
              "none/t1");
  };
  add_long(Suite::smoke, 100'000, 0.18);
  add_long(Suite::gate, 500'000, 0.08);
  add_long(Suite::nightly, 10'000'000, 0.018);
}

void add_goodness_of_fit(Table& table) {
  // The declared discrepancy is a total variation for chi_squared, and a difference in one
  // probability for binomial. The design of the test computes whether the draws have the power to
  // detect this discrepancy.
  const DistributionRow chi_squared[] = {
      {Suite::smoke, Family::gaussian_wide, 1000, "none/t1", 100'000, 0.05},
      {Suite::smoke, Family::gaussian, 1000, "top_k_50+top_p_0.9/t0.7", 100'000, 0.04},
      {Suite::smoke, Family::zipf, 1000, "min_p_0.05/t1", 100'000, 0.04},
      {Suite::gate, Family::peaked, 32000, "top_k_50+top_p_0.9/t5", 1'000'000, 0.012},
      {Suite::gate, Family::gaussian, 1000, "none/t1", 1'000'000, 0.015},
      {Suite::gate, Family::gaussian, 1000, "none/t5", 1'000'000, 0.015},
      {Suite::gate, Family::zipf, 1000, "none/t0.7", 1'000'000, 0.015},
      {Suite::gate, Family::gaussian_wide, 1000, "none/t1.05", 1'000'000, 0.015},
      {Suite::gate, Family::gaussian_wide, 1000, "top_p_0.9/t1", 1'000'000, 0.015},
      {Suite::gate, Family::ties_at_k, 1000, "top_k_50/t1", 1'000'000, 0.015},
      {Suite::gate, Family::bf16_rounded, 1000, "top_k_200+top_p_0.95/t1", 1'000'000, 0.015},
      {Suite::gate, Family::gaussian_wide, 1000, "min_p_0.05+top_k_40+top_p_0.95/t1", 1'000'000,
       0.012},
      {Suite::gate, Family::gaussian, 31, "none/t1", 1'000'000, 0.012},
      {Suite::gate, Family::mass_exactly_p, 31, "top_p_0.875/t1.442695", 1'000'000, 0.012},
      {Suite::gate, Family::gaussian, 2, "none/t1", 1'000'000, 0.008},
      {Suite::gate, Family::gaussian_wide, 1000, "top_k_50+top_p_0.7+joint/t1", 1'000'000, 0.012},
      {Suite::gate, Family::ties_at_k, 1000, "top_k_50+lowest_id/t1", 1'000'000, 0.012},
      {Suite::nightly, Family::gaussian, 1000, "none/t1", 20'000'000, 0.004},
      {Suite::nightly, Family::peaked, 32000, "top_p_0.9/t5", 5'000'000, 0.008},
      {Suite::nightly, Family::gaussian_wide, 1000, "top_p_0.9/t0.7", 20'000'000, 0.004},
  };
  // The declared discrepancy is a total variation over at most 64 cells. If any of about a thousand
  // sets of tokens is never drawn, fewer draws detect this (measure sets_whose_loss_is_found).
  const DistributionRow bets[] = {
      {Suite::smoke, Family::gaussian_wide, 1000, "none/t1", 100'000, 0.04},
      {Suite::smoke, Family::ties_at_k, 1000, "top_k_50+top_p_0.9/t0.7", 100'000, 0.04},
      {Suite::gate, Family::zipf, kLargeVocab, "none/t1", 200'000, 0.03},
      {Suite::gate, Family::gaussian, 32000, "none/t1", 500'000, 0.02},
      {Suite::gate, Family::gaussian_wide, 50304, "top_p_0.9/t1", 200'000, 0.03},
      {Suite::gate, Family::peaked, 32000, "top_k_50+top_p_0.9/t5", 500'000, 0.02},
      {Suite::gate, Family::bf16_rounded, 1000, "top_k_200+top_p_0.95/t1", 500'000, 0.02},
      {Suite::gate, Family::head_and_tail, 32000, "none/t3", 200'000, 0.03},
      {Suite::gate, Family::gaussian, 31, "none/t1", 500'000, 0.015},
      {Suite::nightly, Family::zipf, kLargeVocab, "none/t1", 5'000'000, 0.006},
      {Suite::nightly, Family::gaussian, 1000, "none/t1", 20'000'000, 0.003},
      {Suite::nightly, Family::gaussian_wide, 32000, "top_p_0.95/t0.7", 10'000'000, 0.004},
  };
  const DistributionRow binomial[] = {
      {Suite::smoke, Family::peaked, 1000, "top_k_50+top_p_0.9/t3", 100'000, 0.03},
      {Suite::smoke, Family::gaussian, 1000, "none/t1", 100'000, 0.02},
      {Suite::gate, Family::zipf, 1000, "none/t1", 1'000'000, 0.008},
      {Suite::gate, Family::head_and_tail, kLargeVocab, "none/t1", 200'000, 0.015},
      {Suite::gate, Family::peaked, 32000, "top_p_0.9/t3", 200'000, 0.015},
      // If every filtered token is drawn with a probability of 2^-24 or 10^-9, these add up to at
      // least 10^-4 of the draws.
      {Suite::gate, Family::peaked, kLargeVocab, "top_k_50/t1", 200'000, 0.015},
      {Suite::gate, Family::ties_at_k, 1000, "top_k_50/t1", 1'000'000, 0.008},
      {Suite::gate, Family::gaussian_wide, 50304, "min_p_0.02/t1", 200'000, 0.015},
  };
  for (const DistributionRow& row : chi_squared)
    table.add(distribution_case(Check::chi_squared, row));
  for (const DistributionRow& row : bets) table.add(distribution_case(Check::bets, row));
  for (const DistributionRow& row : binomial) table.add(distribution_case(Check::binomial, row));
}

// Returns the distance that a pit case with n draws declares. The DKWM bound says that the test
// detects a distance of 5.6 / sqrt(n) in two looks, each at the square root of half of 4.9e-14 (a
// tenth of a case's share). A single look misses such a distance with a probability of 5e-7. The
// declared distance is larger by a tenth.
double pit_discrepancy(std::uint64_t draws) {
  return 1.1 * 5.6 / std::sqrt(static_cast<double>(draws));
}

void add_pit(Table& table) {
  struct Row {
    Suite suite;
    Family family;
    std::int64_t vocab;
    const char* operation;
    std::int64_t rows;
    std::uint64_t draws_a_row = 10;
  };
  // A sampler with one token per row needs a pass over the row for each draw. So the case of suite
  // gate with the most rows has the fewest draws per row.
  const Row rows[] = {
      {Suite::smoke, Family::gaussian_wide, 1000, "top_p_0.9/t1", 2560},
      {Suite::gate, Family::gaussian_wide, 32000, "none/t1", 51200, 4},
      {Suite::gate, Family::gaussian_wide, 32000, "top_k_50+top_p_0.9/t0.7", 25600},
      {Suite::gate, Family::gaussian, 32000, "top_p_0.9/t1", 15360},
      {Suite::gate, Family::zipf, 32000, "min_p_0.001/t1", 12800},
      {Suite::gate, Family::peaked, kLargeVocab, "top_k_1000/t1", 2560},
      {Suite::nightly, Family::gaussian_wide, 131072, "none/t1", 102400},
  };
  for (const Row& row : rows) {
    const auto draws = static_cast<std::uint64_t>(row.rows) * row.draws_a_row;
    table.add({.suite = row.suite,
               .check = Check::pit,
               .input = family_input(row.family, row.vocab),
               .rows = row.rows,
               .draws = draws,
               .declared_discrepancy = pit_discrepancy(draws),
               .once = true},
              row.operation);
  }
}

// --- Nightly: ten million rows, sampler against integer model -----------------------------------

void add_differential(Table& table) {
  struct Row {
    std::int64_t vocab;
    std::int64_t rows;
  };
  for (const Family family : harness::all_families()) {
    for (const Row& row : {Row{17, 156'250}, Row{63, 156'250}, Row{128, 156'250}, Row{257, 156'250},
                           Row{1000, 20'000}}) {
      table.add_list({.suite = Suite::nightly,
                      .check = Check::tokens,
                      .input = family_input(family, row.vocab),
                      .rows = row.rows,
                      .draws = static_cast<std::uint64_t>(row.rows)},
                     "edges+many", edge_operations(row.vocab));
    }
  }
}

// Returns the number of the row whose largest probability is the median, so that the row is neither
// almost certain nor flat.
std::int64_t typical_row(const harness::CapturedLogits& captured) {
  std::vector<std::pair<double, std::int64_t>> largest;
  for (std::int64_t row = 0; row < captured.rows; ++row) {
    const std::vector<float> logits = captured.row(row);
    const auto top = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
    largest.emplace_back(1 / sum, row);
  }
  const auto median = largest.begin() + static_cast<std::ptrdiff_t>(largest.size() / 2);
  std::nth_element(largest.begin(), median, largest.end());
  return median->second;
}

void add_captured(Table& table, const std::shared_ptr<const harness::CapturedLogits>& captured) {
  const Input input{.family = Family::gaussian,
                    .captured = captured,
                    .vocab = captured->vocab,
                    .dtype = captured->dtype};
  for (const Check check : {Check::mask, Check::tokens, Check::replay}) {
    table.add_list(
        {.suite = Suite::gate,
         .check = check,
         .input = input,
         .rows = check == Check::replay ? 0 : captured->rows,
         .draws = check == Check::tokens ? 4 * static_cast<std::uint64_t>(captured->rows) : 0},
        "everyday", everyday_operations());
  }
  table.add_list({.suite = Suite::gate,
                  .check = Check::support,
                  .input = input,
                  .rows = captured->rows,
                  .draws = 16 * static_cast<std::uint64_t>(captured->rows)},
                 "everyday", everyday_operations());
  const std::int64_t typical = typical_row(*captured);
  for (const char* operation : {"top_k_50+top_p_0.9/t1", "none/t1"}) {
    table.add({.suite = Suite::gate,
               .check = Check::binomial,
               .input = input,
               .first_row = typical,
               .draws = 200'000,
               .declared_discrepancy = 0.015,
               .once = true},
              operation);
  }
  table.add({.suite = Suite::gate,
             .check = Check::bets,
             .input = input,
             .first_row = typical,
             .draws = 200'000,
             .declared_discrepancy = 0.03,
             .once = true},
            "none/t1");
  // Each row is drawn from once, and no row occurs twice, as in a serving engine.
  constexpr std::int64_t kRows = 12288;
  table.add({.suite = Suite::gate,
             .check = Check::pit,
             .input = input,
             .rows = kRows,
             .draws = kRows,
             .declared_discrepancy = pit_discrepancy(kRows),
             .once = true},
            "top_p_0.95/t1");
}

}  // namespace

std::vector<Case> case_table(
    Suite suite, const std::vector<std::shared_ptr<const harness::CapturedLogits>>& captured) {
  Table table(suite);
  add_masks_and_tokens(table);
  add_contracts(table);
  for (NamedCase& named : serving_cases()) {
    std::vector<Operation> operations = std::move(named.entry.operations);
    table.add_list(std::move(named.entry), named.operations_name, std::move(operations));
  }
  add_fewer_filters(table);
  add_streams(table);
  add_goodness_of_fit(table);
  add_pit(table);
  add_differential(table);
  for (NamedCase& named : probability_cases()) table.add(std::move(named));
  for (NamedCase& named : range_cases()) table.add(std::move(named));
  for (NamedCase& named : batch_cases()) table.add(std::move(named));
  for (NamedCase& named : speculation_cases()) table.add(std::move(named));
  for (NamedCase& named : sampled_cases()) table.add(std::move(named));
  for (NamedCase& named : value_cases()) table.add(std::move(named));
  for (NamedCase& named : vocabulary_cases()) table.add(std::move(named));
  for (NamedCase& named : distribution_cases()) table.add(std::move(named));
  for (NamedCase& named : narrow_speculation_cases()) table.add(std::move(named));
  for (NamedCase& named : sequence_cases()) table.add(std::move(named));
  for (NamedCase& named : row_operation_cases()) table.add(std::move(named));
  for (NamedCase& named : mark_cases()) table.add(std::move(named));
  for (const auto& file : captured) add_captured(table, file);
  return table.take();
}

}  // namespace fairdraw::suites
