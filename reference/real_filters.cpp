// The first part of this file decides which tokens top_p keeps. Let F be the mass in front of a
// token (above it, or up to and including it, as the profile says), R the rest of the mass that
// top_p refers to, and Z = F + R. The rule "F < p Z" reads
//
//     margin = p R - (1 - p) F = p Z - F > 0.
//
// A sampler computes sums F' and R' instead of F and R. The sums F' and R' are over different
// tokens, so their errors are independent: |F' - F| <= EF and |R' - R| <= ER, where EF and ER are
// sums of the errors of single weights; so the sampler's margin differs from the oracle's by at
// most (1 - p) EF + p ER. If the error band around the margin does not contain 0, every sampler
// within the bound decides alike. The band has three more terms: the uncertainty of the base itself
// (p times its mass), the rounding of sums in a float32 sampler and in the oracle (fractions of Z),
// and the mass that a sampler may treat as tied and therefore not count as strictly above. A
// sampler that sums from the smallest token on compares R' with (1 - p) Z'. All terms are positive,
// so the rounding error of such a sampler is a fraction of R, and at p = 1 it drops no token whose
// weight is above 0.
//
// A weight that is an integer multiple of the unit (probabilities within 32 octaves of the largest)
// has no error. If the sum of all weights also has at most 63 bits, sums and margin are exact, and
// a token whose mass equals the boundary is decided instead of ambiguous.
#include "reference/real_filters.h"

#include <algorithm>
#include <cmath>

namespace fairdraw::reference {
namespace {

std::size_t tie_begin(const RankedWeights& row, std::size_t i) {
  std::size_t begin = i;
  while (begin > 0 && row.may_tie(begin - 1, i)) --begin;
  return begin;
}

std::size_t tie_end(const RankedWeights& row, std::size_t i) {
  std::size_t end = i + 1;
  while (end < row.size() && row.may_tie(end, i)) ++end;
  return end;
}

std::size_t equal_end(const RankedWeights& row, std::size_t i) {
  std::size_t end = i + 1;
  while (end < row.size() && row.value[end] == row.value[i]) ++end;
  return end;
}

Cut prefix_cut(const RankedWeights& row, std::size_t certain, std::size_t exact,
               std::size_t possible) {
  return {certain, exact, possible, certain, possible, row.mass[certain], row.mass[possible]};
}

enum class Decision { in, maybe_in, maybe_out, out };

// The rule of top_p, with all values that are the same for every token of the row.
class TopPRule {
 public:
  TopPRule(const RankedWeights& row, const Cut& base, float top_p, const Semantics& semantics)
      : top_p_(top_p),
        total_(row.mass[base.exact]),
        sampler_slack_(row.sampler_slack),
        equality_stays_(semantics.top_p_boundary != TopPBoundary::mass_above_below_p),
        inclusive_(semantics.top_p_boundary == TopPBoundary::inclusive_mass_at_most_p),
        from_the_smallest_(semantics.sums_from_the_smallest) {
    total_error_ = row.mass_error[base.exact];
    // The product p * total is computed without rounding, as a sum of two numbers.
    target_ = top_p_ * total_;
    target_rest_ = std::fma(top_p_, total_, -target_);
    base_error_ = std::max(total_ - base.mass_low, base.mass_high - total_);
    own_error_ = row.own_slack * (total_ + total_error_);
  }

  bool inclusive() const { return inclusive_; }

  // Decides about a token. The argument `tied` is the mass in front of the token that the sampler
  // may count as tied instead.
  Decision decide(long double front, long double front_error, long double tied) const {
    const long double margin = (target_ - front) + target_rest_;
    const long double rest_error = std::max(total_error_ - front_error, 0.0L);
    // This is the sum of weights that the sampler itself computes.
    const long double summed =
        from_the_smallest_ ? total_ - front + rest_error : total_ + total_error_;
    const long double band = (1 - top_p_) * front_error + top_p_ * (rest_error + base_error_) +
                             sampler_slack_ * summed + own_error_ + tied;
    // With p = 1 the mass in front of every token is less than the whole mass, even if float64
    // underflows.
    const bool stays = margin > 0 || (equality_stays_ && margin == 0) || top_p_ == 1;
    if (stays) return margin > band || band == 0 ? Decision::in : Decision::maybe_in;
    return margin < -band || band == 0 ? Decision::out : Decision::maybe_out;
  }

 private:
  long double top_p_, total_, sampler_slack_, target_ = 0, target_rest_ = 0;
  long double total_error_ = 0, base_error_ = 0, own_error_ = 0;
  bool equality_stays_, inclusive_, from_the_smallest_;
};

// Widens the end of the nucleus, among the first `positions` tokens, by `resolution` times the
// largest weight. Tokens within this distance of the last token of the nucleus, or of the first
// token after it, may or may not be kept. If no token follows the nucleus, 0 is used as the next
// token's weight, so last tokens with such small weights are ambiguous too. The token with the
// maximum always stays.
void widen(const RankedWeights& row, std::size_t positions, double resolution, Cut& cut) {
  if (cut.exact == 0) return;
  const double reach = resolution * row.weight_at(0);
  const double last = row.weight_at(cut.exact - 1);
  const double next = cut.exact < positions ? row.weight_at(cut.exact) : 0;
  while (cut.certain > 1 && row.weight_at(cut.certain - 1) <= next + reach) --cut.certain;
  while (cut.possible < positions && row.weight_at(cut.possible) >= last - reach) ++cut.possible;
  cut.count_low = cut.certain;
  cut.count_high = cut.possible;
  cut.mass_low = row.mass[cut.certain];
  cut.mass_high = row.mass[cut.possible];
}

}  // namespace

Cut whole_row(const RankedWeights& row) {
  return prefix_cut(row, row.size(), row.size(), row.size());
}

Cut greedy_cut(const RankedWeights& row, GreedyTies ties, bool of_weights) {
  Cut cut = prefix_cut(row, 1, 1, 1);
  const std::size_t end = of_weights ? tie_end(row, 0) : equal_end(row, 0);
  if (ties == GreedyTies::any && end > 1) {
    cut.certain = 0;
    cut.possible = end;
  }
  return cut;
}

Cut min_p_cut(const RankedWeights& row) {
  return prefix_cut(row, row.min_p.certain, row.min_p.exact, row.min_p.possible);
}

Cut top_k_cut(const RankedWeights& row, std::size_t k, TopKTies ties, bool counts_are_open) {
  if (k >= row.size()) return whole_row(row);
  const std::size_t last = k - 1;
  if (ties == TopKTies::keep_all) {
    const std::size_t end = equal_end(row, last);
    return prefix_cut(row, end, end, tie_end(row, last));
  }
  Cut cut = prefix_cut(row, k, k, k);
  // Exactly k stay. It is ambiguous which tokens stay among real ties (any_k), and among ties that
  // the sampler's rounding may create.
  const std::size_t begin = tie_begin(row, last);
  const std::size_t end = tie_end(row, last);
  const bool all_equal = row.value[begin] == row.value[end - 1];
  if (end > k && (ties == TopKTies::any_k || !all_equal)) {
    cut.certain = begin;
    cut.possible = end;
    const auto chosen = static_cast<long double>(k - begin);
    cut.mass_low = std::min(cut.mass_low, row.mass[begin] + chosen * row.weight_at(end - 1));
    if (counts_are_open) {
      cut.count_high = end;
      cut.mass_high = row.mass[end];
    }
  }
  return cut;
}

Cut top_p_cut(const RankedWeights& row, const Cut& base, float top_p, const Semantics& semantics) {
  const TopPRule rule(row, base, top_p, semantics);
  const bool ties_stay = semantics.top_p_ties == TopPTies::keep_all;
  const std::size_t positions = base.count_high;
  std::size_t certain = 0, exact = 0, possible = 0;
  std::size_t tied_from = 0;  // first token that may tie with the token at `begin`
  for (std::size_t begin = 0; begin < positions;) {
    const std::size_t end = ties_stay ? std::min(equal_end(row, begin), positions) : begin + 1;
    while (!row.may_tie(tied_from, begin)) ++tied_from;
    const long double tied = ties_stay ? row.mass[begin] - row.mass[tied_from] : 0.0L;
    const std::size_t front = rule.inclusive() ? end : begin;
    const Decision decision =
        begin == 0 ? Decision::in : rule.decide(row.mass[front], row.mass_error[front], tied);
    if (decision == Decision::out) break;
    if (decision == Decision::in && certain == begin) certain = end;
    if (decision != Decision::maybe_out && exact == begin) exact = end;
    possible = end;
    begin = end;
  }
  Cut cut = prefix_cut(row, certain, exact, possible);
  if (semantics.top_p_resolution > 0) widen(row, positions, semantics.top_p_resolution, cut);
  // Inside a tie it is ambiguous which tokens stay. If equal values are taken by id, the choice is
  // ambiguous only among tokens that the sampler's rounding may make equal.
  certain = cut.certain, possible = cut.possible;
  if (!ties_stay || base.open()) {
    const bool by_id = semantics.top_p_ties == TopPTies::lowest_id && !base.open();
    const auto open_at = [&](std::size_t end) {
      if (end == 0 || end >= row.size() || !row.may_tie(end - 1, end)) return false;
      return !by_id || row.value[tie_begin(row, end)] != row.value[tie_end(row, end) - 1];
    };
    if (open_at(certain)) cut.certain = tie_begin(row, certain);
    if (open_at(possible)) cut.possible = tie_end(row, possible - 1);
    if (semantics.tie_counts_are_open) {
      cut.count_high = cut.possible;
      cut.mass_high = row.mass[cut.possible];
    }
  }
  return intersection(cut, base);
}

Cut intersection(const Cut& a, const Cut& b) {
  Cut cut;
  cut.certain = std::min(a.certain, b.certain);
  cut.exact = std::min(a.exact, b.exact);
  cut.possible = std::min(a.possible, b.possible);
  cut.count_low = std::min(a.count_low, b.count_low);
  cut.count_high = std::min(a.count_high, b.count_high);
  cut.mass_low = std::min(a.mass_low, b.mass_low);
  cut.mass_high = std::min(a.mass_high, b.mass_high);
  return cut;
}

}  // namespace fairdraw::reference
