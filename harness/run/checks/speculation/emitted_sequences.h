// What every lossless rule of acceptance gives: the distribution of emitted sequences. For samplers
// that declare no rule, or one that is not token-wise.
//
// A request emits one to three tokens. Completed to three by draws of our own from the target's
// rows, they are three draws from the target, p_0(x) p_1(y | x) p_2(z | x, y): that is what
// lossless means, whatever the rule does. It follows that an emitted token has the target's
// distribution given the tokens before it and that it is emitted. For the completed pair (x, y) has
// probability
//     P(x, y emitted) + P(x, no second token) p_1(y | x) = p_0(x) p_1(y | x),
// so that P(x, y emitted) = P(x, some second token) p_1(y | x); and so on for the third.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/run/checks/speculation/chain_tables.h"

namespace fairdraw::harness {

/// Tables of completed sequences, and of emitted tokens given that they are:
///   first           the first token: p_0;
///   sequence        the first two of the completed sequence;
///   later           its last two;
///   whole           all three, each as its id modulo 3;
///   second_emitted  the place of the second token in its row's distribution, where one is emitted:
///                   a point of the token's interval, drawn uniformly, and so uniform in [0, 1);
///   third_emitted   the same of the third;
///   neighbours      the first tokens of two requests that are neighbours in the batch.
class EmittedSequences {
 public:
  static constexpr std::size_t kLength = 3;
  /// The target's row after a prefix of tokens that it can give.
  using RowAfter = std::function<Distribution(std::span<const std::int32_t> prefix)>;

  /// `suffix`: of the tables' names.
  EmittedSequences(const std::string& suffix, std::size_t width, const RowAfter& row_after);

  /// One request. `emitted`: its one to three tokens, each in [0, width); `word`: the request's own
  /// random bits for completion, which depend on nothing that the sampler is given.
  void count(std::span<const std::int32_t> emitted, std::uint64_t word);
  /// Call at the end of a batch: neighbours are of one call.
  void end_of_call() { before_ = -1; }

  const std::vector<Table>& tables() const { return tables_; }
  /// An emitted token that its row gives probability 0, in words; empty: there was none. Tables of
  /// pairs and classes may have room for it elsewhere.
  const std::string& impossible() const { return impossible_; }

 private:
  const Distribution& row_after(std::span<const std::size_t> prefix) const;

  std::size_t width_;
  Distribution first_;
  std::vector<Distribution> second_, third_;  ///< [width], [width^2]; empty where none comes there
  std::vector<Table> tables_;
  std::int64_t before_ = -1;
  std::string impossible_;
};

/// The table of a chain of two drafts under block verification (Sun et al. 2024, Algorithm 2): how
/// many are accepted, 0 to 2, and which token was drafted first. With r_1 = min(1, p_0(x) / q_0(x))
/// and r_2 = min(1, r_1 p_1(y) / q_1(y)) both are accepted with probability r_2, else the first
/// with probability s / (s + 1 - r_1), s = sum over z of max(r_1 p_1(z) - q_1(z), 0). First drafts
/// after which float32 cannot tell that probability have one cell for none and one accepted.
class BlockAcceptance {
 public:
  /// The target's row after the first draft; empty where that is never accepted.
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
  std::vector<std::uint8_t> undecided_;  ///< by the first draft
};

}  // namespace fairdraw::harness
