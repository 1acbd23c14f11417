// What repeats in short sequences of tokens from a flat distribution over a large vocabulary, where
// nothing should: the cheapest proof that random bits are shared. For streams.cpp.
//
// Let every draw be independent of all others, and no token more likely than m. Then, by union
// bounds over the places where something could repeat:
//
// - A gram of g tokens that comes back. Two grams that do not overlap are equal with probability
//   (sum p^2)^g <= m^g. Two that overlap at lag l < g are equal where the g + l tokens have period
//   l: a product over the l residues of sum p^(count) <= m^(count - 1), in all m^g again.
// - Steps x_{t+1} - x_t (modulo the vocabulary) within sequences, and differences y_t - x_t between
//   two. Each ends with a draw of its own, so that given everything before it it takes a given
//   value with probability at most m. That k given ones lie within 1 of a given one among them has
//   probability at most (3 m)^(k - 1): summed over the value d of that one, the first in time is in
//   d - 1, d, d + 1 (three times 1 in all), the others are (3 m each), and d itself is m. There are
//   k choices of it. The same with exclusive or in the place of the difference, and m for 3 m.
// - Tokens of one sequence that it had before. Draw j is one of those before it with probability at
//   most (j - 1) m, whatever they are; that k draws are, with at most the sum over sets of k draws
//   of the products, which is at most choose(n (n - 1) / 2, k) m^k: one pair for each of them.
//
// A shared or frozen stream repeats grams, at any lag; outputs or samples that share some of their
// bits repeat tokens; an affine stream (a linear congruence of seed plus step, noise read at a
// stride) repeats steps; a hash that is linear over bits repeats the exclusive or between two
// seeds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fairdraw::harness {

/// How much must repeat to be proof.
struct ProbeDesign {
  std::size_t gram = 0;    ///< tokens of a gram that comes twice
  std::size_t within = 0;  ///< equal steps, over all sequences
  std::size_t across = 0;  ///< equal differences between the tokens of two sequences
  std::size_t again = 0;   ///< tokens of a sequence that occur in it before
  double null_rate = 0;    ///< bound on the rate at which independent draws do any of it
};

/// For `sequences` sequences of `length` tokens, none more likely than `most_likely`: the smallest
/// repetitions with a null rate of at most false_fail_rate in all. Nothing where even whole
/// sequences that repeat, and two full of equal steps, would be no proof. The null rate holds at
/// every stopping point.
std::optional<ProbeDesign> design_probes(std::size_t sequences, std::size_t length,
                                         double most_likely, double false_fail_rate);

class StreamProbes {
 public:
  StreamProbes(const ProbeDesign& design, std::int64_t vocab) : design_(design), vocab_(vocab) {}

  /// Compares a sequence with itself and with all before it. Returns what repeats, or nothing.
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
