#include "suites/gate/cases/distribution_cases.h"

#include <utility>

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
  float added = 0;
};

NamedCase of(const Row& row, DType dtype = DType::float32) {
  Input input = family_input(row.family, row.vocab, dtype);
  input.added = row.added;
  return named_case({.suite = row.suite,
                     .check = row.check,
                     .input = std::move(input),
                     .draws = row.draws,
                     .declared_discrepancy = row.declared,
                     .once = true},
                    row.operation);
}

// A sampler that accepts a dtype may also compute in it. Flat rows of many tokens detect noise of
// 8- or 11-bit arithmetic. Rows with their mass in the tail detect sums with 8 or 11 bits.
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

// Adds rows of logits far from 0, which a narrow type rounds to large steps, and to larger steps
// after the division by a low temperature. Around -100 and at +40, a type with 11 bits has steps of
// 1/16 and 1/32, and a type with 8 bits steps of 1/2 and 1/4. The larger a step is, the more often
// two scores are equal (at a step of 1/4, in 22 of 100 draws). If two scores are equal, always the
// lower id wins, or always the higher id. So 100000 draws detect 8 bits at these temperatures. 11
// bits are detected in rows that are flat at temperature 0.1, at steps of 1/4: there the lower half
// of the ids gains 0.03 of the mass, and the test detects a distance of 0.0204 along the ids. At
// these quotients, a correct sampler in float32 has an error of at most 400 * 2^-24 = 2.4e-5 in a
// weight.
void add_large_logits(std::vector<NamedCase>& cases) {
  const Row rows[] = {
      {Suite::smoke, Check::chi_squared, Family::all_negative, 1000, "none/t0.7", 100'000, 0.05},
      {Suite::gate, Check::binomial, Family::all_negative, 32000, "top_k_50+top_p_0.9/t1", 100'000,
       0.02},
      {Suite::smoke, Check::chi_squared, Family::flat, 1000, "none/t0.1", 100'000, 0.05, 32},
      {Suite::smoke, Check::chi_squared, Family::gaussian, 1000, "none/t0.6", 100'000, 0.05, 40},
      {Suite::gate, Check::binomial, Family::gaussian, 32000, "top_k_50+top_p_0.9/t1", 100'000,
       0.02, 32},
  };
  for (const Row& row : rows) cases.push_back(of(row));
  // A correct sampler may have rows of 16 bits, but neither quotients nor noise of 16 bits.
  cases.push_back(
      of({Suite::smoke, Check::chi_squared, Family::gaussian, 1000, "none/t0.6", 100'000, 0.05, 40},
         DType::bfloat16));
  cases.push_back(
      of({Suite::gate, Check::chi_squared, Family::all_equal, 1000, "none/t0.1", 100'000, 0.05, 40},
         DType::float16));
}

// These cases have the vocabularies of models, and the largest vocabulary that is allowed. Each
// draw may cost a pass over the row, above all in a plugin that draws one token per call. So there
// are few draws, and the longest rows are only in suite nightly. Suite gate has a few draws at the
// vocabulary of each model (vocabulary_cases.cpp). If all ids above 2^17 are lost, at least a
// seventh of the mass is lost. Directed bets and groups of ids detect a fifth of that loss with
// about ten thousand draws.
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
