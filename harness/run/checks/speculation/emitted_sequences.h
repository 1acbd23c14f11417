// The distribution of emitted sequences, which is the same for every lossless rule of acceptance.
// The check of this distribution judges samplers that declare no rule, or a rule that is not
// token-wise.
//
// A request emits one to three tokens. If the harness completes them to three tokens, by its own
// draws from the target's rows, the sequence has the distribution of three draws from the target,
// p_0(x) p_1(y | x) p_2(z | x, y); this is the definition of lossless. It follows that an emitted
// token has the target's distribution, given the tokens before it and given that it is emitted. The
// probability of the completed pair (x, y) is a sum:
//
//     P(x, y emitted) + P(x, no second token) p_1(y | x) = p_0(x) p_1(y | x).
//
// Therefore P(x, y emitted) = P(x, some second token) p_1(y | x). The same holds for the third
// token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/run/checks/speculation/chain_tables.h"

namespace fairdraw::harness {

/// Tables of completed sequences, and of emitted tokens given that they are emitted:
///   first           the first token: p_0;
///   sequence        the first two tokens of the completed sequence;
///   later           its last two;
///   whole           all three, each as its id modulo 3;
///   second_emitted  the place of an emitted second token in its row's distribution: a uniformly
///                   drawn point of the token's interval, and so uniform in [0, 1);
///   third_emitted   the same for the third;
///   neighbours      the first tokens of two neighbouring requests of the batch.
class EmittedSequences {
 public:
  static constexpr std::size_t kLength = 3;
  /// A function that returns the target's row after a prefix of tokens that the target can give.
  using RowAfter = std::function<Distribution(std::span<const std::int32_t> prefix)>;

  /// The names of the tables end with `suffix`.
  EmittedSequences(const std::string& suffix, std::size_t width, const RowAfter& row_after);

  /// Counts one request. The argument `emitted` has the request's one to three tokens, each in
  /// [0, width). The random bits `word` complete the sequence, and are independent of all inputs of
  /// the sampler.
  void count(std::span<const std::int32_t> emitted, std::uint64_t word);
  /// Ends a call, because only requests of the same call are neighbours.
  void end_of_call() { before_ = -1; }

  const std::vector<Table>& tables() const { return tables_; }
  /// Returns a message about an emitted token that has probability 0 in its row, or an empty string
  /// if there was none. Tables of pairs and classes do not detect all impossible tokens, because
  /// other sequences share their cells.
  const std::string& impossible() const { return impossible_; }

 private:
  const Distribution& row_after(std::span<const std::size_t> prefix) const;

  std::size_t width_;
  Distribution first_;
  std::vector<Distribution> second_, third_;  ///< [width], [width^2] rows; empty after impossible
                                              ///< prefixes
  std::vector<Table> tables_;
  std::int64_t before_ = -1;
  std::string impossible_;
};

/// The table of a chain of two drafts under block verification (Sun et al. 2024, Algorithm 2): it
/// counts the number of accepted drafts, 0 to 2, for each first draft. With r_1 = min(1, p_0(x) /
/// q_0(x)) and r_2 = min(1, r_1 p_1(y) / q_1(y)), both drafts are accepted with probability r_2;
/// otherwise the first is accepted with probability s / (s + 1 - r_1), where s is the sum over z of
/// max(r_1 p_1(z) - q_1(z), 0). If float32 does not determine this probability for a first draft, 0
/// and 1 accepted drafts share one cell.
class BlockAcceptance {
 public:
  /// A function that returns the target's row after the first draft, or an empty row if this draft
  /// is never accepted.
  using RowAfter = std::function<Distribution(std::size_t drafted)>;
  BlockAcceptance(const std::string& name, const Distribution& p0, const RowAfter& row_after,
                  const Distribution& q0, const Distribution& q1);
  void count(std::size_t accepted, std::int32_t drafted) {
    table_.count(cell(accepted, static_cast<std::size_t>(drafted)));
  }
  const Table& table() const { return table_; }

 private:
  std::size_t cell(std::size_t accepted, std::size_t drafted) const {
    return table_.pair(accepted == 1 && undecided_[drafted] != 0 ? 0 : accepted, drafted);
  }

  Table table_;
  std::vector<std::uint8_t> undecided_;  ///< per first draft
};

}  // namespace fairdraw::harness
