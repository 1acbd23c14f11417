// Computes chain speculative sampling (Leviathan et al. 2023; Chen et al. 2023) in the integers of
// the specification. The acceptance test multiplies instead of dividing, so "accept with
// probability min(1, p / q)" is exact.
#include <boost/multiprecision/cpp_int.hpp>
#include <stdexcept>
#include <vector>

#include "reference/integer_model.h"

namespace fairdraw::reference {
namespace {

__extension__ typedef unsigned __int128 Wide;
using boost::multiprecision::uint256_t;

// Returns floor(word * value / 2^64), which is below `value`.
Wide scale(std::uint64_t word, Wide value) {
  return static_cast<Wide>((uint256_t(value) * word) >> 64);
}

bool accepts(const IntegerRow& target, const IntegerRow& draft, std::size_t token,
             std::uint64_t word) {
  const std::uint64_t p = target.speculation_weight[token];
  const Wide a = static_cast<Wide>(p) * draft.speculation_total();
  const Wide b = static_cast<Wide>(draft.speculation_weight[token]) * target.speculation_total();
  return p > 0 && (a >= b || scale(word, b) < a);
}

// Draws from the residual max(target - draft, 0). All residual weights are zero only if both
// distributions are equal and the drafted token has weight 0. A draft that was really drawn from
// its distribution never has weight 0; if another draft has weight 0, the token is drawn from the
// target itself.
std::int32_t recover(const IntegerRow& target, const IntegerRow& draft, std::uint64_t word) {
  std::vector<Wide> residual(target.mask.size());
  const Wide target_total = target.speculation_total(), draft_total = draft.speculation_total();
  Wide total = 0;
  for (std::size_t j = 0; j < residual.size(); ++j) {
    const Wide p = target.speculation_weight[j] * draft_total;
    const Wide q = draft.speculation_weight[j] * target_total;
    residual[j] = p > q ? p - q : 0;
    total += residual[j];
  }
  if (total == 0) return target.speculation_token_for(word);
  const Wide t = scale(word, total);
  Wide sum = 0;
  std::size_t j = 0;
  for (;; ++j) {
    sum += residual[j];
    if (sum > t) return static_cast<std::int32_t>(j);
  }
}

std::vector<IntegerRow> weigh_rows(std::span<const float> probs, std::size_t rows,
                                   std::size_t vocab) {
  std::vector<IntegerRow> weighed;
  for (std::size_t i = 0; i < rows; ++i) {
    weighed.push_back(integer_model_from_probs(probs.subspan(i * vocab, vocab), RowParameters{}));
  }
  return weighed;
}

// Returns the first failed status by position; at each position the draft's row comes before the
// target's.
RowStatus first_failure(std::span<const IntegerRow> draft, std::span<const IntegerRow> target) {
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (i < draft.size() && draft[i].status != RowStatus::ok) return draft[i].status;
    if (target[i].status != RowStatus::ok) return target[i].status;
  }
  return RowStatus::ok;
}

}  // namespace

ChainOutcome chain_speculative_model(std::span<const float> draft_probs,
                                     std::span<const std::int32_t> draft_tokens,
                                     std::span<const float> target_probs, std::size_t vocab,
                                     std::span<const std::uint64_t> accept_words,
                                     std::span<const std::uint64_t> recover_words,
                                     std::uint64_t bonus_word) {
  const std::size_t n = draft_tokens.size();
  if (draft_probs.size() != n * vocab || target_probs.size() != (n + 1) * vocab ||
      accept_words.size() != n || recover_words.size() != n) {
    throw std::invalid_argument("chain_speculative_model: an array has the wrong length");
  }
  ChainOutcome outcome;
  outcome.tokens.assign(n + 1, -1);
  for (const std::int32_t token : draft_tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocab) {
      outcome.status = RowStatus::index_out_of_range;
      return outcome;
    }
  }
  const std::vector<IntegerRow> draft = weigh_rows(draft_probs, n, vocab);
  const std::vector<IntegerRow> target = weigh_rows(target_probs, n + 1, vocab);
  outcome.status = first_failure(draft, target);
  if (outcome.status != RowStatus::ok) return outcome;

  bool chain_stands = true;
  for (std::size_t i = 0; i < n; ++i) {
    const bool accepted =
        accepts(target[i], draft[i], static_cast<std::size_t>(draft_tokens[i]), accept_words[i]);
    if (accepted) ++outcome.accepted;
    if (!chain_stands) continue;
    if (accepted) {
      outcome.tokens[i] = draft_tokens[i];
      ++outcome.emitted;
    } else {
      outcome.tokens[i] = recover(target[i], draft[i], recover_words[i]);
      chain_stands = false;
    }
  }
  if (chain_stands) outcome.tokens[n] = target[n].speculation_token_for(bonus_word);
  return outcome;
}

}  // namespace fairdraw::reference
