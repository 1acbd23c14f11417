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

// Adds rows of logits far from 0, which a narrow type rounds to large steps, and to larger ones
// after division by a low temperature: around -100 and at +40 to 1/16 and 1/32 with 11 bits, and to
// 1/2 and 1/4 with 8 bits. Two scores are equal as often as a step is large (a step of 1/4: 22 of
// 100 draws), and then the lower or the higher id wins always. So 100000 draws show 8 bits at these
// temperatures; 11 bits show in rows that are flat at temperature 0.1, at steps of 1/4: the lower
// half of the ids then gains 0.03 of the mass, and a distance of 0.0204 along the ids is found. A
// right sampler in float32 errs in a weight by at most 400 * 2^-24 = 2.4e-5 at these quotients.
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
  // Rows that are narrow themselves are right in 16 bits; quotients and noise are not.
  cases.push_back(
      of({Suite::smoke, Check::chi_squared, Family::gaussian, 1000, "none/t0.6", 100'000, 0.05, 40},
         DType::bfloat16));
  cases.push_back(
      of({Suite::gate, Check::chi_squared, Family::all_equal, 1000, "none/t0.1", 100'000, 0.05, 40},
         DType::float16));
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
