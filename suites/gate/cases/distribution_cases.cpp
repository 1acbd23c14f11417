#include "suites/gate/cases/distribution_cases.h"

namespace fairdraw::suites {
namespace {

using harness::Family;

struct Row {
  Suite suite;
  Check check;
  Family family;
  std::int64_t vocab;
  const char* operation;
  std::uint64_t draws;
  double declared;
};

NamedCase of(const Row& row, DType dtype = DType::float32) {
  return named_case({.suite = row.suite,
                     .check = row.check,
                     .input = family_input(row.family, row.vocab, dtype),
                     .draws = row.draws,
                     .declared_discrepancy = row.declared,
                     .once = true},
                    row.operation);
}

// Whoever takes a dtype may compute in it. Noise of 8 or 11 bits shows in flat rows of many tokens,
// sums of so few where the mass lies in a tail.
void add_dtypes(std::vector<NamedCase>& cases) {
  const Row rows[] = {
      {Suite::smoke, Check::chi_squared, Family::gaussian_wide, 1000, "none/t1", 100'000, 0.05},
      {Suite::gate, Check::bets, Family::gaussian, 32000, "none/t0.8", 100'000, 0.045},
      {Suite::gate, Check::binomial, Family::zipf, 50304, "top_p_0.95/t1", 100'000, 0.02},
      {Suite::gate, Check::bets, Family::peaked, 32000, "top_k_50+top_p_0.9/t3", 100'000, 0.045},
  };
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    for (const Row& row : rows) cases.push_back(of(row, dtype));
  }
}

// Logits around -100, in which 11 bits leave steps of 1/16 and 8 bits steps of 1/2, at this
// temperature twice as much: noise that is added in such a type comes to ties.
void add_large_logits(std::vector<NamedCase>& cases) {
  for (const Row& row : {Row{Suite::smoke, Check::chi_squared, Family::all_negative, 1000,
                             "none/t0.7", 100'000, 0.05},
                         Row{Suite::gate, Check::binomial, Family::all_negative, 32000,
                             "top_k_50+top_p_0.9/t1", 100'000, 0.02}}) {
    cases.push_back(of(row));
  }
}

// The vocabularies of today's models, and the largest that is allowed. Few draws: each may cost a
// pass over the row, and a plugin that draws one token a call pays it for each; so the longest are
// for the night, and suite gate has a few draws at the vocabulary of each model
// (vocabulary_cases.cpp). What is wrong above 2^17 has a seventh of the mass and more, so that
// directed bets and groups of ids see a fifth of it with some ten thousand draws.
void add_large_vocabularies(std::vector<NamedCase>& cases) {
  const Row rows[] = {
      {Suite::nightly, Check::bets, Family::gaussian, 151'936, "none/t1", 60'000, 0.055},
      {Suite::gate, Check::binomial, Family::gaussian_wide, 202'048, "top_p_0.9/t0.8", 40'000,
       0.035},
      {Suite::nightly, Check::bets, Family::gaussian, 262'144, "min_p_0.02/t1.2", 60'000, 0.055},
      {Suite::gate, Check::binomial, Family::gaussian, kMaxVocab, "none/t1", 20'000, 0.05},
  };
  for (const Row& row : rows) cases.push_back(of(row));
}

}  // namespace

std::vector<NamedCase> distribution_cases() {
  std::vector<NamedCase> cases;
  add_dtypes(cases);
  // Samplers without filters meet no other temperature than 1 in the rest of suite smoke.
  cases.push_back(of(
      {Suite::smoke, Check::chi_squared, Family::gaussian_wide, 1000, "none/t0.7", 100'000, 0.05}));
  add_large_logits(cases);
  add_large_vocabularies(cases);
  return cases;
}

}  // namespace fairdraw::suites
