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

// A sampler that accepts a dtype may also compute in it. Noise of 8- or 11-bit arithmetic shows in
// flat rows of many tokens; sums with 8 or 11 bits show if the mass is in the tail.
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

// Adds rows of logits around -100, where the step is 1/16 with 11 bits and 1/2 with 8 bits, and
// larger after division by this temperature. Noise added in a type with so few bits produces ties.
void add_large_logits(std::vector<NamedCase>& cases) {
  for (const Row& row : {Row{Suite::smoke, Check::chi_squared, Family::all_negative, 1000,
                             "none/t0.7", 100'000, 0.05},
                         Row{Suite::gate, Check::binomial, Family::all_negative, 32000,
                             "top_k_50+top_p_0.9/t1", 100'000, 0.02}}) {
    cases.push_back(of(row));
  }
}

// Cases with the vocabularies of today's models, and the largest that is allowed. Each draw may
// cost a pass over the row, above all in a plugin that draws one token per call, so there are few
// draws and the longest rows are only in suite nightly. Suite gate has a few draws at the
// vocabulary of each model (vocabulary_cases.cpp). A loss of all ids above 2^17 affects at least a
// seventh of the mass, so directed bets and groups of ids find a fifth of it with some ten thousand
// draws.
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
  // All other cases of suite smoke test samplers without filters at temperature 1 only.
  cases.push_back(of(
      {Suite::smoke, Check::chi_squared, Family::gaussian_wide, 1000, "none/t0.7", 100'000, 0.05}));
  add_large_logits(cases);
  add_large_vocabularies(cases);
  return cases;
}

}  // namespace fairdraw::suites
