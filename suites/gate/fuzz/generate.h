// Generators of cases that seek trouble: whole requests of what a sampler declares, of the rows,
// parameters and lists that harness/inputs makes for every test.
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
  /// Of distribution cases: draws at most.
  std::uint64_t max_draws = std::uint64_t{1} << 16;
};

/// A case of each kind, with its shrinks (shrink.h); cases use what the sampler declares and no
/// more. The same rc::Random gives the same case on every machine.
rc::Gen<FuzzCase> batch_cases(const harness::SamplerDescription& sampler,
                              const GenerateOptions& options);
rc::Gen<FuzzCase> chain_cases(const harness::SamplerDescription& sampler,
                              const GenerateOptions& options);
rc::Gen<FuzzCase> speculation_cases(const harness::SamplerDescription& sampler,
                                    const GenerateOptions& options);
rc::Gen<FuzzCase> distribution_cases(const harness::SamplerDescription& sampler,
                                     const GenerateOptions& options);

/// Processing of a row, for cases of every kind; one in sixteen is bad. `row` may get a value that
/// a penalty makes infinite.
reference::RowProcessing generate_processing(harness::Dice& dice, std::span<float> row,
                                             DType dtype);

}  // namespace fairdraw::suites::fuzz
