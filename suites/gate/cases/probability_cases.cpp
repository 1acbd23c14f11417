#include "suites/gate/cases/probability_cases.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "suites/gate/cases/operation_lists.h"

namespace fairdraw::suites {
namespace {

using harness::Family;

void add(std::vector<NamedCase>& cases, Case entry, const char* operation) {
  cases.push_back(named_case(std::move(entry), operation));
}

void add_list(std::vector<NamedCase>& cases, Case entry, const std::string& name,
              std::vector<Operation> operations) {
  if (entry.check == Check::tokens) entry.draws = 8 * operations.size();
  entry.rows = std::max(entry.rows, static_cast<std::int64_t>(operations.size()));
  entry.operations = std::move(operations);
  entry.literal = name.starts_with("edges");
  cases.push_back({std::move(entry), name});
}

// Splits a list into the two combinations of filters that operations on probabilities support.
void add_lists(std::vector<NamedCase>& cases, const Case& entry, const std::string& name,
               const std::vector<Operation>& operations) {
  add_list(cases, entry, name, without_min_p(operations));
  add_list(cases, entry, name + "+min_p", min_p_alone(operations));
}

void add_exact(std::vector<NamedCase>& cases) {
  const auto entry = [](Suite suite, Check check, const Input& input) {
    return Case{.suite = suite, .check = check, .input = input, .from_probs = true};
  };
  for (const Family family : harness::all_families()) {
    add_lists(cases, entry(Suite::smoke, Check::tokens, family_input(family, 1000)), "edges",
              edge_operations(1000));
    add_lists(cases, entry(Suite::gate, Check::tokens, family_input(family, 31)), "edges",
              edge_operations(31));
  }
  for (const std::int64_t vocab : {1, 2}) {
    add_lists(cases, entry(Suite::smoke, Check::tokens, family_input(Family::gaussian, vocab)),
              "edges", edge_operations(vocab));
  }
  for (const Family family : {Family::mass_exactly_p, Family::dyadic}) {
    for (const std::int64_t vocab : {31, 1000, 50304}) {
      add_lists(cases,
                entry(vocab > 1000 ? Suite::gate : Suite::smoke, Check::tokens,
                      family_input(family, vocab)),
                "partial_sums", partial_sum_operations());
    }
  }
  for (const Family family : {Family::peaked, Family::ties_at_k, Family::bf16_rounded}) {
    add_lists(cases, entry(Suite::gate, Check::tokens, family_input(family, kLargeVocab)),
              "everyday", everyday_operations());
  }
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    add_lists(cases,
              entry(Suite::smoke, Check::tokens, family_input(Family::gaussian_wide, 1000, dtype)),
              "edges", edge_operations(1000));
  }
  Case banned = entry(Suite::smoke, Check::tokens, family_input(Family::gaussian, 1000));
  banned.banned_tokens = true;
  add_lists(cases, banned, "everyday", everyday_operations());
  std::vector<Operation> joint = without_min_p(edge_operations(1000));
  for (Operation& operation : joint) operation.filter_order = FilterOrder::joint;
  add_list(cases, entry(Suite::gate, Check::tokens, family_input(Family::ties_at_k, 1000)),
           "edges+joint", joint);

  for (const Family family : {Family::peaked, Family::masked, Family::head_and_tail}) {
    Case support = entry(Suite::gate, Check::support, family_input(family, 1000));
    support.draws = 1024;
    add_lists(cases, support, "everyday", everyday_operations());
  }
  for (const Family family : {Family::gaussian, Family::ties_at_k, Family::mass_exactly_p}) {
    for (const std::int64_t vocab : {31, 1000}) {
      add_lists(cases, entry(Suite::smoke, Check::metamorphic, family_input(family, vocab)),
                "everyday", everyday_operations());
    }
  }
  for (const std::int64_t vocab : {1, 31, 1000, 50304}) {
    const Suite suite = vocab > 1000 ? Suite::gate : Suite::smoke;
    for (const char* filters : {"top_k_50+top_p_0.9/t0.7", "min_p_0.05/t1"}) {
      Case status = entry(suite, Check::status, family_input(Family::gaussian, vocab));
      status.rows = 5;
      add_list(cases, status, operation_name(parse_operation(filters)),
               {parse_operation(filters), parse_operation("none/t1")});
    }
  }
  for (const auto& [suite, family, vocab] :
       {std::tuple(Suite::smoke, Family::gaussian_wide, std::int64_t{1000}),
        std::tuple(Suite::gate, Family::peaked, std::int64_t{32000})}) {
    add_lists(cases, entry(suite, Check::replay, family_input(family, vocab)), "everyday",
              everyday_operations());
    add_list(cases, entry(suite, Check::float_environment, family_input(family, vocab)), "everyday",
             without_min_p(everyday_operations()));
  }
}

void add_statistical(std::vector<NamedCase>& cases) {
  struct Row {
    Suite suite;
    Check check;
    Family family;
    std::int64_t vocab;
    const char* operation;
    std::int64_t rows;
    std::uint64_t draws;
    double declared;
  };
  // Discrepancies are declared as in the table for logits; for pit, the distance is 6.5 /
  // sqrt(draws), and a tenth more.
  const Row rows[] = {
      {Suite::smoke, Check::chi_squared, Family::gaussian, 1000, "none/t1", 1, 100'000, 0.05},
      {Suite::gate, Check::chi_squared, Family::gaussian_wide, 1000, "top_p_0.9/t1", 1, 1'000'000,
       0.015},
      {Suite::gate, Check::chi_squared, Family::ties_at_k, 1000, "top_k_50/t1", 1, 1'000'000,
       0.015},
      {Suite::gate, Check::chi_squared, Family::zipf, 1000, "min_p_0.01/t1", 1, 1'000'000, 0.015},
      {Suite::gate, Check::chi_squared, Family::peaked, 32000, "top_k_50+top_p_0.9/t5", 1,
       1'000'000, 0.015},
      {Suite::gate, Check::binomial, Family::zipf, 1000, "none/t1", 1, 1'000'000, 0.008},
      {Suite::gate, Check::pit, Family::gaussian_wide, 32000, "top_k_50+top_p_0.9/t0.7", 6400,
       64'000, 1.1 * 6.5 / std::sqrt(64'000.0)},
  };
  for (const Row& row : rows) {
    add(cases,
        {.suite = row.suite,
         .check = row.check,
         .input = family_input(row.family, row.vocab),
         .from_probs = true,
         .rows = row.rows,
         .draws = row.draws,
         .declared_discrepancy = row.declared,
         .once = true},
        row.operation);
  }
  add(cases,
      {.suite = Suite::smoke,
       .check = Check::streams,
       .input = family_input(Family::all_equal, kLargeVocab),
       .from_probs = true},
      "none/t1");
}

void add_chains(std::vector<NamedCase>& cases) {
  struct Exact {
    Suite suite;
    Family family;
    std::int64_t vocab, rows;
  };
  const Exact exact[] = {
      {Suite::smoke, Family::gaussian, 5, 600},
      {Suite::smoke, Family::mass_exactly_p, 31, 300},
      {Suite::smoke, Family::gaussian_wide, 1000, 96},
      {Suite::gate, Family::peaked, 1, 60},
      {Suite::gate, Family::ties_at_k, 257, 600},
      {Suite::gate, Family::masked, 1000, 300},
      {Suite::gate, Family::head_and_tail, 64, 600},
      {Suite::gate, Family::peaked, 32000, 24},
  };
  for (const Exact& row : exact) {
    add(cases,
        {.suite = row.suite,
         .check = Check::chain,
         .input = family_input(row.family, row.vocab),
         .rows = row.rows},
        row.family == Family::mass_exactly_p ? "none/t1.442695" : "none/t1");
  }
  // At a seventh of a case's share, in tables of up to V^2 cells and with half of the chains, the
  // statistic G detects 0.0516, 0.0252 and 0.0312. The declared discrepancies are slightly larger,
  // because the rows depend on the id.
  const DistributionRow distributions[] = {
      {Suite::smoke, Family::gaussian, 5, "none/t1", 50'000, 0.055},
      {Suite::gate, Family::gaussian_wide, 8, "none/t1", 300'000, 0.026},
      {Suite::gate, Family::gaussian, 16, "none/t1", 400'000, 0.032},
  };
  for (const DistributionRow& row : distributions)
    cases.push_back(distribution_case(Check::chain_distribution, row));
}

// Adds cases that supply random words at the ends of the tokens' intervals, for logits and for
// probabilities.
void add_scripted(std::vector<NamedCase>& cases) {
  struct Row {
    Suite suite;
    Family family;
    std::int64_t vocab;
    bool banned;
  };
  const Row rows[] = {
      {Suite::smoke, Family::gaussian, 1, false},
      {Suite::smoke, Family::gaussian, 31, false},
      {Suite::smoke, Family::gaussian, 100, true},
      {Suite::smoke, Family::masked, 1000, false},
      {Suite::smoke, Family::dyadic, 1000, false},
      {Suite::smoke, Family::mass_exactly_p, 31, false},
      {Suite::gate, Family::head_and_tail, 1000, false},
      {Suite::gate, Family::ties_at_k, 32000, false},
  };
  for (const Row& row : rows) {
    Case entry{.suite = row.suite,
               .check = Check::scripted,
               .input = family_input(row.family, row.vocab),
               .banned_tokens = row.banned};
    add_list(cases, entry, "everyday", everyday_operations());
    entry.from_probs = true;
    add_lists(cases, entry, "everyday", everyday_operations());
  }
  // A logit of 1 is 48 octaves. So the maxima of tiles lie at all distances below the row's
  // maximum, also at the distance from which on a tile has no weight in the row. Tokens lie at all
  // distances below the maximum of their tile.
  for (const bool banned : {false, true}) {
    Case entry{.suite = Suite::gate,
               .check = Check::scripted,
               .input = family_input(Family::gaussian, 32000),
               .banned_tokens = banned,
               .rows = 8};
    add(cases, entry, "none/t0.03");
  }
}

}  // namespace

std::vector<NamedCase> probability_cases() {
  std::vector<NamedCase> cases;
  add_exact(cases);
  add_statistical(cases);
  add_chains(cases);
  add_scripted(cases);
  return cases;
}

}  // namespace fairdraw::suites
