// Generators of difficult cases: whole requests that need only abilities which a sampler declares,
// made from the rows, parameters and lists of harness/inputs.
#pragma once

#include <rapidcheck/Gen.h>
#include <rapidcheck/Random.h>

#include <span>

#include "harness/contract/sampler.h"
#include "harness/inputs/random_rows.h"
#include "suites/gate/fuzz/fuzz_case.h"

namespace fairdraw::suites::fuzz {

struct GenerateOptions {
  std::int64_t max_vocab = 4097;
  /// Largest number of draws of a distribution case.
  std::uint64_t max_draws = std::uint64_t{1} << 16;
};

/// The functions below return generators of cases of each kind, with shrinks (shrink.h). Cases of
/// all kinds use only abilities that the sampler declares. The same rc::Random gives the same case
/// on every machine.
rc::Gen<FuzzCase> batch_cases(const harness::SamplerDescription& sampler,
                              const GenerateOptions& options);
rc::Gen<FuzzCase> chain_cases(const harness::SamplerDescription& sampler,
                              const GenerateOptions& options);
rc::Gen<FuzzCase> speculation_cases(const harness::SamplerDescription& sampler,
                                    const GenerateOptions& options);
rc::Gen<FuzzCase> distribution_cases(const harness::SamplerDescription& sampler,
                                     const GenerateOptions& options);

/// Returns the processing of a row, for cases of every kind; one in sixteen is invalid. The
/// function may change a value of `row` to one that a penalty makes infinite.
reference::RowProcessing generate_processing(harness::Dice& dice, std::span<float> row,
                                             DType dtype);

}  // namespace fairdraw::suites::fuzz
