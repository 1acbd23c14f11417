// Boundary tokens seen in tokens alone: rows of a few heavy tokens, the last one that a filter
// keeps and the first one that it drops among them.
//
// A token that must go and does not is drawn, and one draw of it is proof. One that must stay and
// does not is missing: with probability q it stays away from n draws of a right sampler with
// (1 - q)^n, which is below kMissing for every token that is asked for.
//
// What it cannot see: boundaries among tokens of little mass; those are in masks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/run/calls/draws.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;
using reference::RowParameters;

// At most this for each token that is missed: some 300 tokens a case, and some 20 cases, come to
// 1e-14 of the run's 1e-9.
constexpr double kMissing = 1e-18;

// The heavy tokens of a row, by falling logit, and what is asked of it.
struct Row {
  std::string name;
  std::vector<float> heads;  // logits, or probabilities
  RowParameters parameters;
};

// The next smaller value of the dtype below a power of two.
float below(float power_of_two, DType dtype) {
  const int bits = dtype == DType::float32 ? 24 : dtype == DType::float16 ? 11 : 8;
  return power_of_two * (1 - std::ldexp(1.0F, -bits));
}

// Rows under construction, for one kind of input.
class Rows {
 public:
  Rows(const CheckInput& input, std::vector<Row>& rows)
      : dtype_(input.logits->dtype()),
        probabilities_(input.row_input == RowInput::probabilities),
        rows_(rows) {}

  // Heads of these shares at this temperature, as the dtype holds them.
  std::vector<float> heads(const std::vector<double>& shares, double temperature) const {
    std::vector<float> values;
    for (const double share : shares) {
      const double value = probabilities_ ? share : temperature * std::log(share);
      values.push_back(rounded_to(dtype_, static_cast<float>(value)));
    }
    return values;
  }

  // Their shares after rounding, not normalised.
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

  // Equal values at the k-th place, values next to it, and zeros of both signs.
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

  // Sums of the largest shares this far from top_p, on both sides. An error of 1e-3 in the largest
  // weight moves the sum s of shares, the largest of them h, by h (1 - s) / s of 1e-3: from 5e-4 of
  // itself (h = 1/2, first boundary) to 6e-5.
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

 private:
  DType dtype_;
  bool probabilities_;
  std::vector<Row>& rows_;
};

std::vector<Row> all_rows_of(const CheckInput& input) {
  std::vector<Row> list;
  Rows rows(input, list);
  const bool probabilities = input.row_input == RowInput::probabilities;
  rows.add_top_k();
  rows.add_top_p({0.5, 0.3, 0.12, 0.08}, 1, 0);
  rows.add_top_p({0.9, 0.06, 0.04}, 1, 0);
  rows.add_top_p({0.4, 0.25, 0.2, 0.15}, 1, 3);
  rows.add_min_p({0.5, 0.25, 0.15, 0.1}, 1);
  if (probabilities) return list;
  for (const float temperature : {0.05F, 0.7F, 2.0F}) {
    rows.add_top_p({0.5, 0.3, 0.2}, temperature, 0);
    rows.add_min_p({0.6, 0.3, 0.1}, temperature);
  }
  rows.add("equal maxima, greedy", {1, 1, 1, 0.5F}, {.temperature = 0});
  rows.add("zeros of both signs, greedy", {-0.0F, 0.0F, -0.0F, -1}, {.temperature = 0});
  return list;
}

// A case of several rows asks for so many of them, from all kinds: which ones its seed decides.
bool is_asked(const CheckInput& input, std::uint64_t number, std::size_t all) {
  if (input.rows == 1) return true;
  const std::uint64_t step = std::max<std::uint64_t>(1, all / static_cast<std::uint64_t>(input.rows));
  return number % step == mixed(input.seed, 6) % step;
}

// The row in a vocabulary: its heads at ends of tiles and anywhere, falling values at rising ids in
// half of the rows and at falling ones in the others. Of the rest nothing is ever drawn.
Request request_of(const CheckInput& input, const Row& row, std::uint64_t number) {
  Request request = make_request(input, 0, 1);
  const auto vocab = static_cast<std::uint64_t>(request.vocab);
  constexpr float kRest = -120;  // e^-60 at temperature 2
  std::fill(request.logits.begin(), request.logits.end(),
            input.row_input == RowInput::logits ? kRest : 0.0F);
  const std::uint64_t seed = mixed(input.seed + 4, number);
  std::vector<std::uint64_t> ids;
  for (const std::uint64_t end : {vocab - 1, std::uint64_t{0}, vocab / 1024 * 1024}) {
    if (mixed(seed, end) % 2 == 0 && end < vocab) ids.push_back(end);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.size() > row.heads.size()) ids.resize(row.heads.size());
  for (std::uint64_t i = 0; ids.size() < row.heads.size(); ++i) {
    const std::uint64_t id = mixed(~seed, i) % vocab;
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  if (number % 2 != 0) std::reverse(ids.begin(), ids.end());
  for (std::size_t i = 0; i < ids.size(); ++i) request.logits[ids[i]] = row.heads[i];
  request.parameters = {row.parameters};
  const bool off_is_zero = input.semantics.top_k_zero == reference::TopKZero::off;
  std::int32_t& top_k = request.parameters.front().top_k;
  if (!off_is_zero && top_k == 0) top_k = static_cast<std::int32_t>(request.vocab);
  request.processing.clear();
  request.allowed.clear();
  return request;
}

void judge(const CheckInput& input, const Row& row, const Request& request, std::uint64_t number,
           CheckOutcome& outcome) {
  const reference::RealDistribution distribution = distribution_of(input, request, 0);
  if (!distribution.defined || distribution.must_fail) return;  // judged by `status`
  const Counts counts =
      count_draws(*input.sampler, request, input.draws, mixed(input.seed + 5, number));
  ++outcome.rows;
  outcome.draws += counts.draws;
  const std::string where =
      fmt::format("row {} ({}; {})", number, row.name, describe(row.parameters));
  if (!counts.trouble.empty()) {
    outcome.fail(where + ": " + counts.trouble);
    return;
  }
  if (counts.no_token > 0) {
    outcome.fail(fmt::format("{}: {} of {} draws are outside of the vocabulary", where,
                             counts.no_token, counts.draws));
    return;
  }
  for (std::size_t token = 0; token < counts.of_token.size() && !outcome.failed(); ++token) {
    const Membership membership = distribution.membership[token];
    const auto drawn = static_cast<double>(counts.of_token[token]);
    if (membership == Membership::out && drawn > 0) {
      outcome.fail(
          fmt::format("{}: token {} (logit {}) was drawn {} times, and is outside of the "
                      "support",
                      where, token, request.logits[token], drawn));
    }
    if (membership != Membership::in) continue;
    // The least that a sampler within its profile gives the token.
    const double least = distribution.probability[token] - distribution.total_variation_bound;
    if (least <= 0) continue;
    const double missing = std::exp(static_cast<double>(counts.draws) * std::log1p(-least));
    if (missing > kMissing) continue;
    if (missing > 0) outcome.spend(missing);
    ++outcome.measures["tokens_expected"];
    if (drawn > 0) continue;
    outcome.fail(fmt::format("{}: token {} (logit {}, probability {:.3f}) is missing from {} draws",
                             where, token, request.logits[token], distribution.probability[token],
                             counts.draws));
  }
}

}  // namespace

CheckOutcome check_boundaries(const CheckInput& input) {
  CheckOutcome outcome;
  std::uint64_t number = 0;
  const std::vector<Row> rows = all_rows_of(input);
  for (const Row& row : rows) {
    if (outcome.failed()) return outcome;
    if (!is_asked(input, ++number, rows.size())) continue;
    const std::int64_t vocab = input.logits->vocab();
    if (static_cast<std::int64_t>(row.heads.size()) > vocab) continue;
    const Request request = request_of(input, row, number);
    if (is_left_out(input, request, outcome)) continue;
    judge(input, row, request, number, outcome);
  }
  if (outcome.failed()) return outcome;
  if (outcome.rows == 0) {
    return outcome.lacks.empty()
               ? skipped("semantics " + input.semantics.name + " defines none of these rows")
               : skipped(lack_of(outcome.lacks.back()));
  }
  outcome.message = fmt::format(
      "{} rows draw what their filters keep, and nothing else: {} tokens "
      "were expected in {} draws",
      outcome.rows, outcome.measures["tokens_expected"], outcome.draws);
  return outcome;
}

}  // namespace fairdraw::harness
