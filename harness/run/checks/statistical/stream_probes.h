// Finds repetitions in short sequences of tokens from a flat distribution over a large vocabulary,
// in which nothing should repeat. A repetition is the cheapest proof of shared
// random bits. For
// streams.cpp.
//
// Assume that every draw is independent of all others, and that no token is more likely than m.
// Union bounds over the places of possible repetitions then bound the probability of each of three
// kinds of repetition.
//
// The first kind is a gram of g tokens that occurs again. Two grams that do not overlap are equal
// with probability (sum p^2)^g <= m^g. Two grams that overlap at lag l < g are equal if the g + l
// tokens have period l. The probability of this is a product over the l residues of
// sum p^(count) <= m^(count - 1), which is m^g in total again.
//
// The second kind is equal steps x_{t+1} - x_t (modulo the vocabulary) within sequences, or equal
// differences y_t - x_t between two sequences. Each of them ends with a new draw, so that, given
// all earlier draws, it has a given value with probability at most m. The probability that k given
// differences are all within 1 of a given one of them is at most (3 m)^(k - 1). To see this, sum
// over the value d of the given one: the first difference in time is d - 1, d or d + 1 (three times
// 1 in total), so are the others (3 m each), and the given one is d with probability m. There are k
// choices of the given one. If exclusive or replaces the difference, the same holds with m in place
// of 3 m.
//
// The third kind is tokens of one sequence that occur in it again. Draw j repeats an earlier draw
// with probability at most (j - 1) m, given all earlier draws. For k draws, sum the products of
// these probabilities over all sets of k draws: the sum is at most choose(n (n - 1) / 2, k) m^k,
// with one pair for each draw.
//
// A shared or frozen stream repeats grams, at any lag. Outputs or samples that share some of their
// bits repeat tokens. An affine stream (a linear congruence of seed plus step, or noise that is
// read at a stride) repeats steps. A hash that is linear over bits repeats the exclusive or between
// two seeds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fairdraw::harness {

/// The amount of repetition in short sequences that proves a fault.
struct ProbeDesign {
  std::size_t gram = 0;    ///< length of a repeated gram, in tokens
  std::size_t within = 0;  ///< number of equal steps, over all sequences
  std::size_t across = 0;  ///< number of equal differences between tokens of two sequences
  std::size_t again = 0;   ///< number of tokens of a sequence that occur in it before
  double null_rate = 0;    ///< bound on the rate at which independent draws fail any of these tests
};

/// Returns the smallest repetitions that prove a fault for `sequences` sequences of `length`
/// tokens, with no token more likely than `most_likely` and a null rate of at most false_fail_rate
/// in total. Returns no value if not even repetitions of whole sequences, and two sequences that
/// are full of equal steps, would be proof. The null rate holds for every number of sequences at
/// which the comparison stops.
std::optional<ProbeDesign> design_probes(std::size_t sequences, std::size_t length,
                                         double most_likely, double false_fail_rate);

class StreamProbes {
 public:
  StreamProbes(const ProbeDesign& design, std::int64_t vocab) : design_(design), vocab_(vocab) {}

  /// Compares a sequence with itself and with all earlier sequences. Returns a text about the
  /// repetition that was found, or an empty string if there is none.
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
