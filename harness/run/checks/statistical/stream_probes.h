// Repetitions in short sequences of tokens from a flat distribution over a large vocabulary, where
// nothing should repeat: the cheapest proof of shared random bits. For streams.cpp.
//
// Assume that every draw is independent of all others, and no token more likely than m. Then, by
// union bounds over the places of possible repetitions:
//
// - A gram of g tokens comes again. Two grams that do not overlap are equal with probability
//   (sum p^2)^g <= m^g. Two that overlap at lag l < g are equal if the g + l tokens have period l:
//   a product over the l residues of sum p^(count) <= m^(count - 1), in total m^g again.
// - Steps x_{t+1} - x_t (modulo the vocabulary) within sequences, and differences y_t - x_t between
//   two, are equal. Each ends with a new draw, so that, given everything before, it has a given
//   value with probability at most m. That k given ones are within 1 of a given one among them has
//   probability at most (3 m)^(k - 1). To see this, sum over the value d of that one: the first in
//   time is in d - 1, d, d + 1 (three times 1 in total), the others are too (3 m each), and d
//   itself has m. There are k choices of that one. For exclusive or in place of the difference the
//   same holds with m for 3 m.
// - Tokens of one sequence occur in it again. Draw j repeats an earlier one with probability at
//   most (j - 1) m, given all of these. For k draws that is at most the sum over sets of k draws of
//   the products, which is at most choose(n (n - 1) / 2, k) m^k: one pair for each of the draws.
//
// A shared or frozen stream repeats grams, at any lag. Outputs or samples that share some of their
// bits repeat tokens. An affine stream (a linear congruence of seed plus step, noise read at a
// stride) repeats steps. A hash that is linear over bits repeats the exclusive or between two
// seeds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fairdraw::harness {

/// Amount of repetition in short sequences that proves a fault.
struct ProbeDesign {
  std::size_t gram = 0;    ///< length of a repeated gram, in tokens
  std::size_t within = 0;  ///< number of equal steps, over all sequences
  std::size_t across = 0;  ///< number of equal differences between tokens of two sequences
  std::size_t again = 0;   ///< number of tokens of a sequence that occur in it before
  double null_rate = 0;    ///< bound on the rate at which independent draws do any of these
};

/// Returns the smallest repetitions for `sequences` sequences of `length` tokens, none more likely
/// than `most_likely`, with a null rate of at most false_fail_rate in total. Returns no value if
/// even whole sequences that repeat, and two full of equal steps, would be no proof. The null rate
/// holds for every number of sequences at which the comparison stops.
std::optional<ProbeDesign> design_probes(std::size_t sequences, std::size_t length,
                                         double most_likely, double false_fail_rate);

class StreamProbes {
 public:
  StreamProbes(const ProbeDesign& design, std::int64_t vocab) : design_(design), vocab_(vocab) {}

  /// Compares a sequence with itself and all earlier ones. Returns the repetition that was found;
  /// empty if there is none.
  std::string add(const std::string& name, std::span<const std::int32_t> tokens);

 private:
  struct Sequence {
    std::string name;
    std::vector<std::int32_t> tokens;
  };
  std::string repeated_gram(const Sequence& sequence);
  std::string repeated_step(const Sequence& sequence);
  std::string repeated_tokens(const Sequence& sequence) const;
  std::string repeated_difference(const Sequence& one, const Sequence& other) const;

  ProbeDesign design_;
  std::int64_t vocab_;
  std::vector<Sequence> sequences_;
  std::map<std::vector<std::int32_t>, std::string> grams_;
  std::map<std::int64_t, std::size_t> steps_, xors_;
};

}  // namespace fairdraw::harness
