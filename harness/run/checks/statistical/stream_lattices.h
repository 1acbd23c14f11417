// Draws at all combinations of a few seeds, offsets, outputs and samples: where two of these are
// mixed into one number, so that sample 1 is sample 0 of the next offset, say, tokens coincide at
// places that are one step apart. For streams.cpp.
//
// stream_axes.h changes one of them at a time; here they change together. Let every draw be
// independent of all others, and no token more likely than m. Then:
//
// - Two draws are a step apart: a difference of seed, of offset, of output and of sample. The pairs
//   of one step form paths, because a step has a direction; following it, the second draw of each
//   pair is its own. So k given pairs have equal tokens with probability at most m^k, and k of the
//   P pairs of that step with at most choose(P, k) m^k. Each step has the same share of the rate.
// - A draw is one of those before it with probability at most (j - 1) m, whatever they are, so that
//   the number of such draws is at most, in distribution, a sum of independent ones with these
//   probabilities; its upper tail is bounded by Chernoff's bound for that of a Poisson variable.
//   This finds what is shared without a common step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// The word with that bit alone.
constexpr std::uint64_t bit(int number) { return std::uint64_t{1} << number; }

/// All combinations of these, in this order: seeds outermost, samples innermost.
struct StreamLattice {
  std::string name;
  std::vector<std::uint64_t> seeds, offsets;
  std::size_t outputs = 1, samples = 1;  ///< of each call with one seed and offset
  /// Each seed and offset is a call with a scalar seed; else they are outputs with a seed each.
  bool a_call_each = false;

  std::size_t size() const { return seeds.size() * offsets.size() * outputs * samples; }
};

/// What is proof, for one lattice.
struct LatticeDesign {
  double most_likely = 0;   ///< m
  double share = 0;         ///< of the rate, for each step
  std::size_t repeats = 0;  ///< draws that are one of those before
  double null_rate = 0;     ///< bound on the rate at which independent draws do either

  /// How many of so many pairs of one step must be equal; more than `pairs` where none suffices.
  std::size_t equal_pairs(std::size_t pairs) const;
};

/// Those that the contract of the input's sampler promises to be independent throughout. None where
/// nothing can be mixed with anything.
std::vector<StreamLattice> stream_lattices(const CheckInput& input);

/// Nothing where not even all pairs of neighbouring offsets (or samples) would be proof.
std::optional<LatticeDesign> design_lattice(const StreamLattice& lattice, double most_likely,
                                            double false_fail_rate);

/// What tokens [lattice.size()] share; empty: nothing.
std::string shared_in_lattice(const StreamLattice& lattice, const LatticeDesign& design,
                              const std::vector<std::int32_t>& tokens);

}  // namespace fairdraw::harness
