#include "harness/run/checks/exact/boundary_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/inputs/counter_random.h"
#include "harness/run/calls/random_words.h"

namespace fairdraw::harness {
namespace {

using reference::RowParameters;
using IdOrder = BoundaryRow::IdOrder;

constexpr float kRest = -120;  // e^-60 at temperature 2

// Returns the largest value of the dtype that is below a power of two.
float below(float power_of_two, DType dtype) {
  const int bits = dtype == DType::float32 ? 24 : dtype == DType::float16 ? 11 : 8;
  return power_of_two * (1 - std::ldexp(1.0F, -bits));
}

// The minimum number of draws of a case that judges tokens which are seldom drawn.
constexpr std::uint64_t kManyDraws = 100'000;
// The number of tokens in the rows of add_narrow.
constexpr std::int64_t kNarrowVocab = (1 << 16) + 31;

bool filters_by_k(const RowParameters& p, std::int64_t vocab) {
  return p.top_k > 0 && p.top_k < vocab;
}

bool is_unfiltered(const RowParameters& p, std::int64_t vocab) {
  return p.temperature != 0 && !filters_by_k(p, vocab) && p.top_p == 1 && p.min_p == 0;
}

// A builder of the rows for one kind of input.
class Rows {
 public:
  Rows(const CheckInput& input, std::vector<BoundaryRow>& rows)
      : input_(input),
        dtype_(input.logits->dtype()),
        vocab_(input.logits->vocab()),
        probabilities_(input.row_input == RowInput::probabilities),
        rows_(rows) {}

  // Returns heads (likely tokens) that have these shares at this temperature, rounded to the dtype.
  std::vector<float> heads(const std::vector<double>& shares, double temperature) const {
    std::vector<float> values;
    for (const double share : shares) {
      const double value = probabilities_ ? share : temperature * std::log(share);
      values.push_back(rounded_to(dtype_, static_cast<float>(value)));
    }
    return values;
  }

  // Returns the shares of the heads after rounding, which are not normalised.
  std::vector<double> masses(const std::vector<float>& heads, double temperature) const {
    std::vector<double> result;
    for (const float head : heads) {
      const auto value = static_cast<double>(head);
      result.push_back(probabilities_ ? value : std::exp(value / temperature));
    }
    return result;
  }

  void add(std::string name, std::vector<float> heads, const RowParameters& parameters) {
    rows_.push_back({std::move(name), std::move(heads), parameters});
  }

  // Adds rows with equal values at the k-th place, values next to these, and zeros of both signs.
  void add_top_k() {
    for (const std::int32_t k : {2, 3, 5}) {
      const float value = probabilities_ ? 0.125F : 1.0F;
      std::vector<float> ties(7, value);
      ties.front() = 2 * value;
      add("ties at k", ties, {.top_k = k});
      std::vector<float> next = ties;
      for (std::size_t i = static_cast<std::size_t>(k); i < next.size(); ++i) {
        next[i] = below(value, dtype_);
      }
      add("the next smaller value behind k", next, {.top_k = k});
      if (probabilities_) continue;
      std::vector<float> zeros = {1, 0.0F, -0.0F, 0.0F, -0.0F, -1};
      add("zeros of both signs at k", zeros, {.top_k = k});
      std::reverse(zeros.begin() + 1, zeros.end() - 1);
      add("zeros of both signs at k", zeros, {.top_k = k});
      add("zeros of both signs and min_p", zeros, {.top_k = k, .min_p = 0.3F});
    }
  }

  // Adds rows in which sums of the largest shares differ from top_p by this distance, in both
  // directions. An error of 1e-3 in the largest weight h changes the sum s of shares by the
  // relative amount 1e-3 h (1 - s) / s: by 5e-4 (h = 1/2, first boundary) to 6e-5.
  void add_top_p(const std::vector<double>& shares, float temperature, std::int32_t top_k) {
    const std::vector<float> values = heads(shares, static_cast<double>(temperature));
    std::vector<double> mass = masses(values, static_cast<double>(temperature));
    if (top_k > 0) mass.resize(static_cast<std::size_t>(top_k));
    double total = 0, sum = 0;
    for (const double m : mass) total += m;
    for (std::size_t last = 0; last + 1 < mass.size(); ++last) {
      sum += mass[last];
      for (const double distance : {1e-2, 1e-3, 1e-4, 3e-5}) {
        for (const double side : {-1.0, 1.0}) {
          const double top_p = sum / total * (1 + side * distance);
          if (top_p >= 1) continue;
          add(fmt::format("top_p {:+.0e} from the sum of {}", side * distance, last + 1), values,
              {.temperature = probabilities_ ? 1 : temperature,
               .top_k = top_k,
               .top_p = static_cast<float>(top_p)});
        }
      }
    }
  }

  void add_min_p(const std::vector<double>& shares, float temperature) {
    const std::vector<float> values = heads(shares, static_cast<double>(temperature));
    const std::vector<double> mass = masses(values, static_cast<double>(temperature));
    for (std::size_t at = 1; at < mass.size(); ++at) {
      for (const double distance : {1e-2, 1e-3, 1e-4}) {
        for (const double side : {-1.0, 1.0}) {
          add(fmt::format("min_p {:+.0e} from the share of {}", side * distance, at + 1), values,
              {.temperature = probabilities_ ? 1 : temperature,
               .min_p = static_cast<float>(mass[at] / mass[0] * (1 + side * distance))});
        }
      }
    }
  }

  void add_operation(const RowParameters& p) {
    const bool unfiltered = is_unfiltered(p, vocab_);
    if (unfiltered && vocab_ >= kNarrowVocab) {
      add_narrow(p);
      return;
    }
    if (unfiltered && input_.draws >= kManyDraws) {
      if (vocab_ > 32) add_faint(p);
      return;
    }
    add_flat(p);
    if (p.temperature != 0 && p.min_p > 0 && p.min_p < 1) add_split(p);
    if (p.temperature != 0 && p.top_p > 0 && p.top_p < 1) add_sum_next_to_top_p(p);
    if (unfiltered && input_.banned_tokens) add_words(p);
  }

 private:
  double temperature_of(const RowParameters& p) const {
    return p.temperature == 0 ? 1 : static_cast<double>(p.temperature);
  }

  void add_shares(std::string name, const std::vector<double>& shares, const RowParameters& p,
                  IdOrder place, bool by_rank) {
    rows_.push_back({.name = std::move(name),
                     .heads = heads(shares, temperature_of(p)),
                     .parameters = p,
                     .place = place,
                     .by_rank = by_rank});
  }

  // Adds a row that spans the whole vocabulary, with shares that decrease from e to 1. The tokens
  // after each cut are as likely as those before it, so that n draws detect a cut that is too late
  // or too early by a share of 42 / n.
  void add_flat(const RowParameters& p) {
    std::vector<double> shares;
    for (std::int64_t rank = 0; rank < vocab_; ++rank) {
      shares.push_back(std::exp(-static_cast<double>(rank) / static_cast<double>(vocab_)) /
                       static_cast<double>(vocab_));
    }
    add_shares("a flat row", shares, p, IdOrder::anywhere, true);
  }

  // Adds a row with one head. Half of the tokens that top_k keeps (or of the vocabulary) are above
  // min_p and as many are below, so that both groups together outweigh the head.
  void add_split(const RowParameters& p) {
    const double distance = dtype_ == DType::float32 ? 1e-3 : 0.05;
    const std::int64_t all = filters_by_k(p, vocab_) ? p.top_k : vocab_;
    const auto m = static_cast<double>(p.min_p);
    std::vector<double> shares = {1};
    for (std::int64_t rank = 1; rank < vocab_; ++rank) {
      // The weights decrease from 2 distances above min_p to 1, and then from 1 distance below
      // min_p to 2.
      const double part = static_cast<double>(rank) / static_cast<double>(vocab_);
      const double offset = 2 * rank < all ? 2 - part : -1 - part;
      shares.push_back(std::min(1.0, m * (1 + distance * offset)));
    }
    add_shares("a row split at min_p", shares, p, IdOrder::anywhere, true);
  }

  // Adds rows of three likely tokens (heads). The first two heads weigh 1e-3 less than top_p, so
  // that the third one stays, or 1e-3 more.
  void add_sum_next_to_top_p(const RowParameters& p) {
    const bool has_three = vocab_ >= 3 && (!filters_by_k(p, vocab_) || p.top_k >= 3);
    if (!has_three || dtype_ != DType::float32) return;
    for (const double side : {-1e-3, 1e-3}) {
      const double sum = static_cast<double>(p.top_p) * (1 + side);
      if (sum >= 1) continue;
      // The shares decrease, and the first is below 2/3 of the sum, so that a min_p of 0.1 keeps
      // the second.
      const double third = std::min(1 - sum, 0.3 * sum);
      std::vector<double> shares = {0.6 * sum, 0.4 * sum, third};
      for (double left = 1 - sum - third; left > 1e-9; left -= third) {
        shares.push_back(std::min(left, third));
      }
      if (static_cast<std::int64_t>(shares.size()) > vocab_) continue;
      if (filters_by_k(p, vocab_) && static_cast<std::int64_t>(shares.size()) > p.top_k) continue;
      add_shares(fmt::format("a sum {:+.0e} from top_p", side), shares, p, IdOrder::at_ends, false);
    }
  }

  // Adds rows with one tail at the first ids and a slightly lighter tail at the last ids; the mass
  // of the tails is just enough for this number of draws to detect their absence. A nucleus that
  // drops this mass although top_p is off never draws from the last tail, and neither does a
  // uniform number that ends as far below 1; a uniform number that begins above 0 misses the first
  // tail. A race whose noise ends at g does not draw from the tails either: a token of a tail wins
  // there only if the largest sum of the heads is below g + ln(q / 16), where q is the tail's mass.
  // The largest sum has Gumbel's distribution, so the probability is exp(-16 / (q e^g)), which is
  // e^-16 if q is e^-g.
  void add_faint(const RowParameters& p) {
    constexpr std::size_t kTail = 16;
    // Samples of one output are the cheapest draws, so a sampler that has samples makes ten times
    // as many draws.
    const bool has_samples = input_.sampler->description().num_samples;
    const std::uint64_t draws =
        has_samples && input_.draws < 1'000'000 ? 10 * input_.draws : input_.draws;
    // A constant of 41.5 would suffice; the rest allows for the sampler's rounding.
    const double mass = 48.5 / static_cast<double>(draws);
    const auto vocab = static_cast<std::size_t>(vocab_);
    std::vector<double> shares(vocab, (1 - 2 * mass) / static_cast<double>(vocab - 2 * kTail));
    std::vector<std::vector<std::size_t>> ends(2);
    for (std::size_t i = 0; i < kTail; ++i) {
      for (std::size_t end = 0; end < 2; ++end) {
        ends[end].push_back(end == 0 ? i : vocab - 1 - i);
        shares[ends[end].back()] = (end == 0 ? 1.01 : 1) * mass / kTail;
      }
    }
    add_shares("faint tails at the first and at the last ids", shares, p, IdOrder::in_order, false);
    rows_.back().samples = has_samples ? draws : 0;
    rows_.back().groups = std::move(ends);
  }

  // Adds a row of 2^16 tokens of mass 2^-21 each, the first of which has half of that mass, and 31
  // heads of mass 2^-5. A uniform number of b <= 20 bits is a multiple of 2^-b (or has one fixed
  // offset from a multiple), so it is also a multiple of 2^-20 (or has a fixed offset from one),
  // which is the mass of two tokens. A search in the prefix sums therefore finds only one token of
  // each two, always the same one, so that even ids are never drawn, or odd ids are never drawn,
  // which have half of the tail's mass of 2^-5. The token with half of the mass puts the multiples
  // into the middle of tokens, where rounding does not move them to a neighbour; so does the total
  // of 1 - 2^-22 if the heads come first. A race adds noise to each logit, and the largest sum
  // wins. If the uniform numbers end at 1 - 2^-b, the noise ends at b ln 2. A token of the tail
  // then wins only if the largest sum of the heads is below (b - 21) ln 2, which has probability
  // exp(-2^(21 - b)). For 16 bits this probability is e^-32. For 20 bits it is e^-2, which proves
  // nothing.
  void add_narrow(const RowParameters& p) {
    constexpr std::size_t kTail = 1U << 16;
    std::vector<double> shares(kTail, 0x1p-21);
    shares.front() = 0x1p-22;
    shares.resize(kNarrowVocab, 0x1p-5);
    add_shares("a tail of 2^16 tokens of 2^-21", shares, p, IdOrder::in_order, false);
    std::vector<std::vector<std::size_t>> parity(2);
    for (std::size_t id = 0; id < kTail; ++id) parity[id % 2].push_back(id);
    rows_.back().groups = std::move(parity);
  }

  // Adds rows with likely tokens (heads) in the first, a middle and the last word of the bitmask,
  // up to the last id.
  void add_words(const RowParameters& p) {
    constexpr std::int64_t kOfAWord = 8;
    std::vector<double> shares(static_cast<std::size_t>(vocab_), 0);
    const std::int64_t last = (vocab_ - 1) / 32 * 32;
    for (const std::int64_t first : {std::int64_t{0}, last / 64 * 32, last}) {
      const std::int64_t end = std::min(first + 32, vocab_);
      for (std::int64_t id = std::max(first, end - kOfAWord); id < end; ++id) {
        shares[static_cast<std::size_t>(id)] = 1;
      }
    }
    BoundaryRow row{.name = "words of the bitmask",
                    .heads = heads(shares, temperature_of(p)),
                    .parameters = p,
                    .place = IdOrder::in_order};
    for (float& head : row.heads) head = std::max(head, probabilities_ ? 0.0F : kRest);
    rows_.push_back(std::move(row));
  }

  const CheckInput& input_;
  DType dtype_;
  std::int64_t vocab_;
  bool probabilities_;
  std::vector<BoundaryRow>& rows_;
};

void add_heavy_rows(Rows& rows, bool probabilities) {
  rows.add_top_k();
  rows.add_top_p({0.5, 0.3, 0.12, 0.08}, 1, 0);
  rows.add_top_p({0.9, 0.06, 0.04}, 1, 0);
  rows.add_top_p({0.4, 0.25, 0.2, 0.15}, 1, 3);
  rows.add_min_p({0.5, 0.25, 0.15, 0.1}, 1);
  if (probabilities) return;
  for (const float temperature : {0.05F, 0.7F, 2.0F}) {
    rows.add_top_p({0.5, 0.3, 0.2}, temperature, 0);
    rows.add_min_p({0.6, 0.3, 0.1}, temperature);
  }
  rows.add("equal maxima, greedy", {1, 1, 1, 0.5F}, {.temperature = 0});
  rows.add("zeros of both signs, greedy", {-0.0F, 0.0F, -0.0F, -1}, {.temperature = 0});
}

// Returns ids for heads of decreasing weight: the ids ascend in half of the rows, and descend in
// the others.
std::vector<std::uint64_t> ids_at_ends(std::uint64_t seed, std::uint64_t number, std::size_t heads,
                                       std::uint64_t vocab) {
  std::vector<std::uint64_t> ids;
  for (const std::uint64_t end : {vocab - 1, std::uint64_t{0}, vocab / 1024 * 1024}) {
    if (mixed(seed, end) % 2 == 0 && end < vocab) ids.push_back(end);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.size() > heads) ids.resize(heads);
  for (std::uint64_t i = 0; ids.size() < heads; ++i) {
    const std::uint64_t id = mixed(~seed, i) % vocab;
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  if (number % 2 != 0) std::reverse(ids.begin(), ids.end());
  return ids;
}

}  // namespace

std::vector<BoundaryRow> boundary_rows(const CheckInput& input) {
  std::vector<BoundaryRow> list;
  Rows rows(input, list);
  const RowParameters& first = input.parameters.front();
  if (input.parameters.size() == 1 && first.temperature == 1 &&
      is_unfiltered(first, input.logits->vocab())) {
    add_heavy_rows(rows, input.row_input == RowInput::probabilities);
  } else {
    for (const RowParameters& parameters : input.parameters) rows.add_operation(parameters);
  }
  std::erase_if(list, [&input](const BoundaryRow& row) {
    return static_cast<std::int64_t>(row.heads.size()) > input.logits->vocab();
  });
  return list;
}

Request boundary_request(const CheckInput& input, const BoundaryRow& row, std::uint64_t number) {
  // The set of banned tokens changes from row to row.
  Request request = make_request(input, static_cast<std::int64_t>(number), 1);
  const auto vocab = static_cast<std::uint64_t>(request.vocab);
  const bool probabilities = input.row_input == RowInput::probabilities;
  std::fill(request.logits.begin(), request.logits.end(), probabilities ? 0.0F : kRest);
  const std::uint64_t seed = mixed(input.seed + 4, number);
  if (row.place == IdOrder::at_ends) {
    const std::vector<std::uint64_t> ids = ids_at_ends(seed, number, row.heads.size(), vocab);
    for (std::size_t i = 0; i < ids.size(); ++i) request.logits[ids[i]] = row.heads[i];
  } else {
    const Permutation anywhere(CounterRandom(seed), vocab);
    for (std::size_t i = 0; i < row.heads.size(); ++i) {
      request.logits[row.place == IdOrder::anywhere ? anywhere(i) : i] = row.heads[i];
    }
  }
  request.parameters = {row.parameters};
  const bool off_is_zero = input.semantics.top_k_zero == reference::TopKZero::off;
  std::int32_t& top_k = request.parameters.front().top_k;
  if (!off_is_zero && top_k == 0) top_k = static_cast<std::int32_t>(request.vocab);
  request.processing.clear();
  return request;
}

}  // namespace fairdraw::harness
