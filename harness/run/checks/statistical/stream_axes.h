// Makes sequences of draws that a sampler promises to be independent, for each axis of its
// contract. For streams.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"
#include "harness/run/checks/statistical/stream_lattices.h"

namespace fairdraw::harness {

inline constexpr std::size_t kStreamLength = 8;  ///< number of tokens per short sequence

/// A plan for the draws of one sequence.
struct StreamPlan {
  enum class Kind {
    offsets,  ///< draws with one seed and consecutive offsets
    seeds,    ///< draws with consecutive seeds and one offset
    samples,  ///< several samples of one output
    outputs,  ///< outputs of one call with a scalar seed
    rows,     ///< like `outputs`, but with a row per output
    grid,     ///< three samples per output, in one call with a scalar seed
    calls,    ///< outputs of calls with a scalar seed, by a sampler with its own generator
  };
  Kind kind = Kind::offsets;
  std::string axis, name;
  std::uint64_t seed = 0, offset = 0;  ///< seed and offset of the first draw
  std::size_t a_call = 0;              ///< maximum number of draws per call; 0: the sampler's limit
};

/// Returns the sequences that may be compared under the contract of the input's sampler. No two
/// sequences have the same draw (seed, offset and number within the call), so by the contract all
/// draws of all sequences are independent. Sequences have neighbouring numbers on purpose: if a
/// sampler added up a seed, an offset and a sample's number, or lost the upper bits of one of them,
/// sequences would coincide. The first eight sequences cover every axis. Further sequences flip
/// each bit of seed and offset separately, or have seeds that are special to some samplers.
std::vector<StreamPlan> short_streams(const CheckInput& input);

/// Returns a few long sequences, one for each axis (two for offsets, with two neighbouring seeds).
std::vector<StreamPlan> long_streams(const CheckInput& input);

/// Draws sequences of `length` tokens from the row of `row` (a request of one row), several per
/// call if the contract makes no difference. Sets outcome.draws. A call that fails, or a token
/// outside of the vocabulary, fails the outcome and ends the drawing.
std::vector<std::vector<std::int32_t>> draw_streams(const CheckInput& input, const Request& row,
                                                    const std::vector<StreamPlan>& plans,
                                                    std::size_t length, CheckOutcome& outcome);

/// Draws at every point of the lattice, in the lattice's order, and stops if the outcome fails.
std::vector<std::int32_t> draw_lattice(const CheckInput& input, const Request& row,
                                       const StreamLattice& lattice, CheckOutcome& outcome);

}  // namespace fairdraw::harness
