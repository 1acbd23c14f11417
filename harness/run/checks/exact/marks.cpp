// Judges rows that a secret key marks (watermarks): the token depends on the row, its key, its
// context and, if the scheme says so, its seed. Nothing else of a call changes it.
//
// The relations hold for every sampler that marks, whatever its words are. How often marked tokens
// are drawn is judged by the statistical checks, whose draws vary_marks() marks. This check cannot
// detect words that are not random.
#include "harness/run/calls/marks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

constexpr std::int32_t kWindows[] = {kMarkWindow, 1};

// Tokens that should differ may all be equal by chance. The check takes this for a mistake if the
// chance is at most that of two equal hashes of 64 bits, by which inputs are watched.
constexpr double kLog2OfChance = -64;

class MarkedRows {
 public:
  MarkedRows(const CheckInput& input, MarkScheme scheme, std::int32_t window, CheckOutcome& outcome)
      : input_(input), outcome_(outcome), base_(make_request(input, 0, input.rows)) {
    mark_rows(scheme, mixed(input.seed + 21, static_cast<std::uint64_t>(scheme)), base_);
    base_.mark_window = window;
    // A quarter of the requests have generated fewer ids than a context has.
    for (std::int64_t row = 0; row < base_.rows; row += 4) {
      const std::int64_t ids = (row / 4) % window;
      std::fill_n(ids_of(base_, row), kMarkOutput - ids, -1);
    }
  }

  const Request& base() const { return base_; }

  void judge() {
    tokens_ = answer(base_);
    if (outcome_.failed()) return;
    expect_survivors();
    if (repeats()) {
      compare("marked rows in another order", reversed(base_), tokens_, /*in_reverse=*/true);
      if (base_.mark_scheme == MarkScheme::by_key) {
        compare("marked rows with other seeds", with_other_seeds(base_), tokens_);
      }
      compare("marked rows after other ids", with_other_past(), tokens_);
      compare("marked rows among other keys", with_other_keys_of_odd_rows(), tokens_,
              /*in_reverse=*/false, /*step=*/2);
    }
    compare_unmarked();
    if (!repeats()) return;
    Request keys = base_;
    for (std::uint64_t& key : keys.mark_key) key = ~key;
    expect_other_tokens("marked rows with other keys", keys);
    for (std::int32_t place = 1; place <= base_.mark_window; ++place) {
      expect_other_tokens(fmt::format("marked rows with another id {} before the end", place),
                          with_other_id(place));
    }
  }

 private:
  using Tokens = std::vector<std::int32_t>;

  static std::int32_t* ids_of(Request& request, std::int64_t row) {
    return request.mark_output.data() + row * kMarkOutput;
  }

  // Returns whether marked rows with equal seeds have equal tokens.
  bool repeats() const {
    return base_.mark_scheme == MarkScheme::by_key ||
           input_.sampler->description().per_request_seeds;
  }

  Tokens answer(const Request& request) {
    const Response response = run_request(*input_.sampler, request, {});
    outcome_.draws += response.tokens.size();
    if (!response.ran()) outcome_.fail(response.trouble());
    return response.tokens;
  }

  static Request with_other_seeds(Request request) {
    for (std::uint64_t& seed : request.seed) seed = ~seed;
    return request;
  }

  // Returns the request with the seeds of one of several calls; its own seeds for turn 0.
  static Request with_seeds(Request request, std::uint64_t turn) {
    for (std::uint64_t& seed : request.seed) seed += turn << 32;
    return request;
  }

  static Request reversed(Request request) {
    const std::int64_t rows = request.rows;
    const auto reverse = [rows](auto& values) {
      const auto width = static_cast<std::int64_t>(values.size()) / rows;
      for (std::int64_t row = 0; row < rows / 2; ++row) {
        std::swap_ranges(values.begin() + row * width, values.begin() + (row + 1) * width,
                         values.begin() + (rows - 1 - row) * width);
      }
    };
    reverse(request.logits);
    reverse(request.parameters);
    reverse(request.allowed);
    reverse(request.seed);
    reverse(request.offset);
    reverse(request.mark_key);
    reverse(request.mark_output);
    return request;
  }

  // Returns the request with other ids before the context of each row. None of them is the last id,
  // so that the context is still new.
  Request with_other_past() const {
    Request request = base_;
    for (std::int64_t row = 0; row < request.rows; ++row) {
      std::int32_t* const ids = ids_of(request, row);
      for (std::int64_t i = 0; i < kMarkOutput - request.mark_window; ++i) {
        if (ids[i] >= 0) ids[i] = another_id(ids[i], ids[kMarkOutput - 1]);
      }
    }
    return request;
  }

  // Returns the request with another id at a place of each context that has an id there. Contexts
  // are still new, because a new last id does not occur before.
  Request with_other_id(std::int32_t place) const {
    Request request = base_;
    for (std::int64_t row = 0; row < request.rows; ++row) {
      std::int32_t* const ids = ids_of(request, row);
      std::int32_t& id = ids[kMarkOutput - place];
      if (id < 0) continue;
      id = another_id(id, ids[kMarkOutput - 1]);
      if (place == 1) std::replace(ids, ids + kMarkOutput - 1, id, another_id(id, id));
    }
    return request;
  }

  // Returns an id other than both ids. Precondition: the vocabulary has at least 3 ids.
  std::int32_t another_id(std::int32_t id, std::int32_t other) const {
    const auto next = [this](std::int32_t of) {
      return static_cast<std::int32_t>((of + 1) % base_.vocab);
    };
    const std::int32_t candidate = next(id);
    return candidate == other ? next(candidate) : candidate;
  }

  Request with_other_keys_of_odd_rows() const {
    Request request = base_;
    for (std::size_t row = 1; row < request.mark_key.size(); row += 2) {
      request.mark_key[row] = ~request.mark_key[row];
    }
    return request;
  }

  // Compares the tokens of every `step`-th row with those of the base rows.
  void compare(const char* relation, const Request& request, const Tokens& expected,
               bool in_reverse = false, std::size_t step = 1) {
    if (outcome_.failed()) return;
    const Tokens tokens = answer(request);
    ++outcome_.measures["relations"];
    for (std::size_t row = 0; row < expected.size() && !outcome_.failed(); row += step) {
      const std::int32_t token = tokens[in_reverse ? tokens.size() - 1 - row : row];
      if (token == expected[row]) continue;
      outcome_.fail(fmt::format("{}: {}, row {} ({}) gives token {} instead of {}", relation,
                                to_string(base_.mark_scheme), row, describe(base_.parameters[row]),
                                token, expected[row]));
    }
  }

  // Compares rows without marks, and rows whose context is repeated, with a call without marks.
  void compare_unmarked() {
    if (!input_.sampler->description().per_request_seeds || outcome_.failed()) return;
    Request plain = base_;
    plain.mark_key.clear();
    plain.mark_output.clear();
    const Tokens unmarked = answer(plain);
    Request alternating = base_;
    for (std::size_t row = 0; row < alternating.mark_key.size(); row += 2) {
      alternating.mark_key[row] = 0;
    }
    compare("unmarked rows among marked ones", alternating, unmarked, /*in_reverse=*/false,
            /*step=*/2);
    Request repeated = base_;
    for (std::int64_t row = 0; row < repeated.rows; ++row) {
      std::ranges::copy(
          repeated_context(mixed(input_.seed, static_cast<std::uint64_t>(row)), repeated.vocab),
          ids_of(repeated, row));
    }
    compare("repeated contexts", repeated, unmarked);
  }

  // Expects no token that the filters exclude. A green list is applied before the filters, and so
  // excludes only banned tokens.
  void expect_survivors() {
    for (std::int64_t row = 0; row < base_.rows && !outcome_.failed(); ++row) {
      const reference::RealDistribution& distribution =
          distributions_.emplace_back(distribution_of(input_, base_, row));
      if (!distribution.defined || distribution.must_fail) continue;
      const auto at = static_cast<std::size_t>(row);
      const std::int32_t token = tokens_[at];
      const bool in_range = token >= 0 && token < base_.vocab;
      const bool is_out =
          in_range &&
          (base_.mark_scheme == MarkScheme::green_list
               ? std::isinf(base_.row(row)[token])
               : distribution.membership[static_cast<std::size_t>(token)] == Membership::out);
      if (in_range && !is_out) continue;
      outcome_.fail(
          fmt::format("filters of marked rows: {}, row {} ({}): token {} is outside of "
                      "the {}",
                      to_string(base_.mark_scheme), row, describe(base_.parameters[at]), token,
                      in_range ? "support" : "vocabulary"));
    }
  }

  // Expects that not all rows whose ids or keys are changed keep their tokens. If a key alone
  // chooses, a row keeps its token with the probability that two draws are equal. Otherwise the
  // seeds, which are the same, may keep a token, and the contract does not say how often: calls
  // with further seeds decide. A sampler whose marks change one of 200 tokens fails with a
  // probability of (1 - 1/200)^4096 < 2e-9.
  void expect_other_tokens(const std::string& relation, const Request& request) {
    if (outcome_.failed()) return;
    constexpr std::uint64_t kDraws = 4096;
    ++outcome_.measures["relations"];
    const std::vector<std::size_t> changed = changed_rows(request);
    const bool by_key = base_.mark_scheme == MarkScheme::by_key;
    double log2_of_chance = 0;
    for (const std::size_t row : changed) {
      log2_of_chance += std::log2(probability_of_equal(distributions_[row]));
    }
    if ((by_key || changed.empty()) && log2_of_chance > kLog2OfChance) {
      outcome_ = underpowered(
          fmt::format("{}: all tokens are equal by chance with a probability of 2^{:.1f}", relation,
                      log2_of_chance));
      return;
    }
    std::uint64_t draws = 0;
    for (std::uint64_t turn = 0; turn == 0 || (!by_key && draws < kDraws); ++turn) {
      const Tokens before = turn == 0 ? tokens_ : answer(with_seeds(base_, turn));
      const Tokens tokens = answer(with_seeds(request, turn));
      if (outcome_.failed()) return;
      draws += changed.size();
      const auto keeps = [&](std::size_t row) { return tokens[row] == before[row]; };
      if (!std::ranges::all_of(changed, keeps)) return;
    }
    outcome_.fail(fmt::format("{}: {}, all {} rows give the same tokens as before", relation,
                              to_string(base_.mark_scheme), draws));
  }

  // Returns the rows whose key or ids differ from those of the base.
  std::vector<std::size_t> changed_rows(const Request& request) const {
    std::vector<std::size_t> changed;
    for (std::size_t row = 0; row < request.mark_key.size(); ++row) {
      const auto first = static_cast<std::ptrdiff_t>(row) * kMarkOutput;
      const bool is_changed = request.mark_key[row] != base_.mark_key[row] ||
                              !std::equal(request.mark_output.begin() + first,
                                          request.mark_output.begin() + first + kMarkOutput,
                                          base_.mark_output.begin() + first);
      if (is_changed) changed.push_back(row);
    }
    return changed;
  }

  // Returns an upper bound on the probability that two independent draws are equal.
  static double probability_of_equal(const reference::RealDistribution& distribution) {
    double sum = 0, certain = 0;
    for (std::size_t token = 0; token < distribution.probability.size(); ++token) {
      if (!distribution.has_frequency(token)) continue;
      sum += distribution.probability[token] * distribution.probability[token];
      certain += distribution.probability[token];
    }
    const double rest = std::max(0.0, 1 - certain);
    return distribution.defined && !distribution.must_fail ? std::min(1.0, sum + rest * rest) : 1;
  }

  const CheckInput& input_;
  CheckOutcome& outcome_;
  Request base_;
  Tokens tokens_;
  std::vector<reference::RealDistribution> distributions_;
};

}  // namespace

CheckOutcome check_marks(const CheckInput& input) {
  CheckOutcome outcome;
  outcome.rows = static_cast<std::uint64_t>(input.rows);
  for (const MarkScheme scheme :
       {MarkScheme::by_key, MarkScheme::by_key_and_seed, MarkScheme::green_list}) {
    for (const std::int32_t window : kWindows) {
      MarkedRows rows(input, scheme, window, outcome);
      if (is_left_out(input, rows.base(), outcome)) break;
      rows.judge();
      if (outcome.verdict != Verdict::passed) return outcome;
    }
  }
  if (outcome.draws == 0) {
    std::vector<std::string> reasons;
    for (const std::string& ability : outcome.lacks) reasons.push_back(lack_of(ability).reason);
    outcome.verdict = Verdict::skipped;
    outcome.message = fmt::format("{}", fmt::join(reasons, ", "));
    return outcome;
  }
  outcome.message = fmt::format("{} rows keep the rules of marks in {} relations", outcome.rows,
                                outcome.measures["relations"]);
  return outcome;
}

}  // namespace fairdraw::harness
