// Draws at all combinations of a few seeds, offsets, outputs and samples. If a sampler mixes two of
// these numbers into one (for example, sample 1 is sample 0 of the next offset), tokens coincide at
// points that are one step apart. For streams.cpp.
//
// The code in stream_axes.h changes one axis at a time, while a lattice changes several together.
// Assume that every draw is independent of all others, and that no token is more likely than m.
// Then there are two tests.
//
// The first test compares pairs of draws that are one step apart; a step is a difference of seed,
// of offset, of output and of sample. The pairs of one step form paths, because a step has a
// direction; along a path, the second draw of each pair is new. So k given pairs have equal tokens
// with probability at most m^k, and some k of the P pairs of the step with at most
// choose(P, k) m^k. Each step has the same share of the rate.
//
// The second test counts draws that repeat an earlier draw. Draw j does so with probability at most
// (j - 1) m, given all earlier draws. So the number of repeats is stochastically at most a sum of
// independent indicators with these probabilities. Its upper tail is bounded by Chernoff's bound
// for a Poisson variable. This test finds bits that are shared without a common step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Returns the word with only bit `number` set.
constexpr std::uint64_t bit(int number) { return std::uint64_t{1} << number; }

/// All combinations of these values, in this order: seeds outermost, samples innermost.
struct StreamLattice {
  std::string name;
  std::vector<std::uint64_t> seeds, offsets;
  std::size_t outputs = 1, samples = 1;  ///< number of each in a call with one seed and offset
  /// True: each seed and offset has a call of its own, with a scalar seed. False: seeds and offsets
  /// belong to outputs of one call, with a seed for each output.
  bool a_call_each = false;

  std::size_t size() const { return seeds.size() * offsets.size() * outputs * samples; }
};

/// The amount of repetition in one lattice that proves a fault.
struct LatticeDesign {
  double most_likely = 0;   ///< the largest probability m of a token
  double share = 0;         ///< share of the error rate for each step
  std::size_t repeats = 0;  ///< number of draws that repeat an earlier draw
  double null_rate = 0;     ///< bound on the rate at which independent draws fail either test

  /// Returns how many of `pairs` pairs of one step must be equal to prove a fault; more than
  /// `pairs` if no number suffices.
  std::size_t equal_pairs(std::size_t pairs) const;
};

/// Returns the lattices whose draws are independent by the contract of the input's sampler. Returns
/// no lattice if no two axes can be mixed.
std::vector<StreamLattice> stream_lattices(const CheckInput& input);

/// Returns the design of a lattice, or no value if not even equality of all pairs of neighbouring
/// offsets (or samples) would be proof.
std::optional<LatticeDesign> design_lattice(const StreamLattice& lattice, double most_likely,
                                            double false_fail_rate);

/// Returns a text about a repetition in tokens [lattice.size()], or an empty string if there is
/// none.
std::string shared_in_lattice(const StreamLattice& lattice, const LatticeDesign& design,
                              const std::vector<std::int32_t>& tokens);

}  // namespace fairdraw::harness
