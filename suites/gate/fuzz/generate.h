// Generators of cases that seek trouble: ties at the cut, dyadic mass exactly p, adjacent floats,
// masked blocks, bad rows, widths around those of vectors and tiles, extreme parameters.
#pragma once

#include <rapidcheck/Gen.h>

#include <span>
#include <vector>

#include "harness/contract/sampler.h"
#include "harness/inputs/dice.h"
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

// The parts, for those who make cases of their own.

/// A vocabulary size: small ones mostly, and those around SIMD and tile widths.
std::int64_t generate_vocab(Dice& dice, std::int64_t max_vocab);

/// Values of one row, each exactly a value of dtype; one row in sixteen is bad.
std::vector<float> generate_logits(Dice& dice, std::int64_t vocab, DType dtype);
std::vector<float> generate_probabilities(Dice& dice, std::int64_t vocab, DType dtype);

/// Processing of a row of that many tokens; one in sixteen is bad. `row` may get a value that a
/// penalty makes infinite.
reference::RowProcessing generate_processing(Dice& dice, std::span<float> row, DType dtype);

/// Parameters for such a row: half of them aim at its ties, gaps and masses.
reference::RowParameters generate_parameters(Dice& dice, std::vector<float>& row,
                                             harness::RowInput input, DType dtype);

}  // namespace fairdraw::suites::fuzz
