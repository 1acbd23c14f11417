// Several sampled outputs of one prompt, with their seeds, scores and ranking.
//
// Contract. Seeds are computed with integers. Sums and scores are doubles, and each operation on
// them is rounded once. Only the function `pow` of the C library may round differently if the
// library is another one. The function `pow` is called only if the length penalty is neither 0 nor
// 1.
//
// Algorithm. A prompt has few candidates, so a plain sort by (score, number) suffices.
#include "fairdraw/parallel_sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "common/arguments.h"
#include "cpu/float_environment.h"
#include "serving/rules/child_seeds.h"

namespace fairdraw {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

RowStatus status_of_sum(double value) {
  if (std::isnan(value)) return RowStatus::nan_input;
  return value == kInfinity ? RowStatus::infinite_input : RowStatus::ok;
}

/// Adds the values to `sum`, unless one of the values is not a log-probability. The function is not
/// inlined, because its arithmetic must stay inside the floating-point environment that the caller
/// sets.
[[gnu::noinline]] RowStatus add_in_order(const float* values, std::int64_t count, double& sum) {
  double added = sum;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    const RowStatus status = status_of_sum(value);
    if (status != RowStatus::ok) return status;
    added += value;
  }
  sum = added;
  return RowStatus::ok;
}

double length_score(double cumulative, std::int32_t length, double penalty) {
  if (penalty == 0) return cumulative;
  const double by = penalty == 1 ? length : std::pow(static_cast<double>(length), penalty);
  return cumulative / by;
}

/// Eligible candidates of a prompt, with their scores.
struct Ranking {
  std::vector<std::int32_t> order;
  std::vector<double> scores;

  /// The function is not inlined, for the reason that is given at add_in_order.
  [[gnu::noinline]] RowStatus read(const BestOfRequest& request, std::int64_t prompt) {
    order.clear();
    scores.assign(static_cast<std::size_t>(request.candidates), -kInfinity);
    const double penalty = request.length_penalty.at(prompt);
    if (!std::isfinite(penalty)) return RowStatus::invalid_penalty;
    for (std::int32_t j = 0; j < request.candidates; ++j) {
      const std::int64_t at = prompt * request.candidates + j;
      if (request.statuses.given() && request.statuses.data[at] != RowStatus::ok) continue;
      const double cumulative = request.cumulative.data[at];
      const RowStatus status = status_of_sum(cumulative);
      if (status != RowStatus::ok) return status;
      const std::int32_t length = request.lengths.given() ? request.lengths.data[at] : 1;
      if (penalty != 0 && length < 1) return RowStatus::invalid_history;
      const double score = length_score(cumulative, length, penalty);
      if (std::isnan(score)) return RowStatus::invalid_penalty;  // 0 / 0, or infinity / infinity
      scores[static_cast<std::size_t>(j)] = score;
      order.push_back(j);
    }
    return RowStatus::ok;
  }

  void sort() {
    std::stable_sort(order.begin(), order.end(), [this](std::int32_t a, std::int32_t b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
  }
};

Error check(const BestOfRequest& request, const BestOfResult& result) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (request.prompts < 0 || request.prompts > kMax) {
    return out_of_range("prompts", std::to_string(request.prompts), "0 to 2^31 - 1");
  }
  if (request.candidates < 1) {
    return out_of_range("candidates", std::to_string(request.candidates), ">= 1");
  }
  if (request.n < 1 || request.n > request.candidates) {
    return out_of_range("n", std::to_string(request.n),
                        "1 to candidates (" + std::to_string(request.candidates) + ")");
  }
  const std::int64_t all = request.prompts * request.candidates;
  const char* each = "prompts * candidates";
  if (Error e = check_needed(request.cumulative, "cumulative", all, each)) return e;
  if (Error e = check_optional(request.lengths, "lengths", all, each)) return e;
  if (Error e = check_optional(request.statuses, "statuses", all, each)) return e;
  if (Error e = check_per_request(request.length_penalty, "length_penalty", request.prompts,
                                  "one per prompt")) {
    return e;
  }
  if (!request.lengths.given() && request.prompts > 0 &&
      (request.length_penalty.is_array() || request.length_penalty.scalar != 0)) {
    return out_of_range("lengths", "null", "an array where length_penalty is not 0");
  }
  const std::int64_t wanted = request.prompts * request.n;
  if (Error e = check_needed(result.chosen, "chosen", wanted, "prompts * n")) return e;
  if (Error e = check_optional(result.scores, "scores", wanted, "prompts * n")) return e;
  return check_optional(result.statuses, "result.statuses", request.prompts, "one per prompt");
}

}  // namespace

std::uint64_t child_seed(std::uint64_t seed, std::uint64_t child, ChildSeedRule rule) noexcept {
  return rule == ChildSeedRule::seed_plus_index ? seed + child : threefry_child(seed, child);
}

Error child_seeds(View<const std::uint64_t> seeds, std::int32_t n, View<std::uint64_t> children,
                  ChildSeedRule rule) {
  if (n < 1) return out_of_range("n", std::to_string(n), ">= 1");
  if (static_cast<std::uint32_t>(rule) > 1) {
    return out_of_range("rule", std::to_string(static_cast<std::uint32_t>(rule)),
                        "0 (threefry) or 1 (seed_plus_index)");
  }
  if (seeds.size < 0 || seeds.size > std::numeric_limits<std::int32_t>::max()) {
    return out_of_range("length of seeds", std::to_string(seeds.size), "0 to 2^31 - 1");
  }
  if (Error e = check_needed(seeds, "seeds", seeds.size, "one per prompt")) return e;
  if (Error e = check_needed(children, "children", seeds.size * n, "prompts * n")) return e;
  for (std::int64_t i = 0; i < children.size; ++i) {
    children.data[i] = child_seed(seeds.data[i / n], static_cast<std::uint64_t>(i % n), rule);
  }
  return {};
}

Error add_logprobs(const LogprobStep& step, View<double> cumulative, View<RowStatus> statuses) {
  const std::int64_t outputs = cumulative.size;
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (step.tokens_per_step < 0 || step.tokens_per_step > kMax) {
    return out_of_range("tokens_per_step", std::to_string(step.tokens_per_step), "0 to 2^31 - 1");
  }
  if (outputs < 0 || outputs > kMax) {
    return out_of_range("length of cumulative", std::to_string(outputs), "0 to 2^31 - 1");
  }
  if (Error e = check_needed(cumulative, "cumulative", outputs, "one per output")) return e;
  if (Error e = check_needed(step.logprobs, "logprobs", outputs * step.tokens_per_step,
                             "outputs * tokens_per_step")) {
    return e;
  }
  if (Error e = check_optional(step.kept, "kept", outputs, "one per output")) return e;
  if (Error e = check_optional(statuses, "statuses", outputs, "one per output")) return e;
  const cpu::FloatEnvironment environment;
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::int64_t count = step.kept.given() ? step.kept.data[i] : step.tokens_per_step;
    RowStatus status = RowStatus::invalid_history;
    if (count >= 0 && count <= step.tokens_per_step) {
      status =
          add_in_order(step.logprobs.data + i * step.tokens_per_step, count, cumulative.data[i]);
    }
    if (statuses.given()) statuses.data[i] = status;
  }
  return {};
}

Error best_of(const BestOfRequest& request, const BestOfResult& result) {
  if (Error error = check(request, result)) return error;
  const cpu::FloatEnvironment environment;
  Ranking ranking;
  for (std::int64_t p = 0; p < request.prompts; ++p) {
    const RowStatus status = ranking.read(request, p);
    if (status != RowStatus::ok) ranking.order.clear();
    ranking.sort();
    if (result.statuses.given()) result.statuses.data[p] = status;
    for (std::int32_t i = 0; i < request.n; ++i) {
      const bool there = static_cast<std::size_t>(i) < ranking.order.size();
      const std::int32_t chosen = there ? ranking.order[static_cast<std::size_t>(i)] : -1;
      result.chosen.data[p * request.n + i] = chosen;
      if (!result.scores.given()) continue;
      result.scores.data[p * request.n + i] =
          there ? ranking.scores[static_cast<std::size_t>(chosen)] : -kInfinity;
    }
  }
  return {};
}

}  // namespace fairdraw
