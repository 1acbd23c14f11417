#include "harness/run/checks/exact/invariances.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace fairdraw::harness {
namespace {

using reference::Membership;

double scale_of(const reference::RowParameters& parameters) {
  return static_cast<double>(
      reference::octaves_per_logit(parameters.temperature == 0 ? 1 : parameters.temperature));
}

std::string in_row(const Request& request, const Response& response,
                   const reference::RealDistribution& distribution, std::int64_t row) {
  for (std::int64_t id = 0; !response.mask.empty() && id < request.vocab; ++id) {
    const Membership membership = distribution.membership[static_cast<std::size_t>(id)];
    const bool kept = response.kept(row, request.vocab, id);
    if (membership == Membership::ambiguous || kept == (membership == Membership::in)) continue;
    return fmt::format("row {}: token {} is {}", row, id, kept ? "kept" : "dropped");
  }
  for (std::int64_t output = 0; output < request.outputs(); ++output) {
    if (request.row_of(output) != row) continue;
    const std::int32_t size = response.support_size.empty()
                                  ? distribution.support_low
                                  : response.support_size[static_cast<std::size_t>(output)];
    if (size < distribution.support_low || size > distribution.support_high) {
      return fmt::format("row {}: support size {}", row, size);
    }
    for (std::int32_t sample = 0; sample < request.num_samples; ++sample) {
      const std::int32_t token =
          response.tokens[static_cast<std::size_t>(output * request.num_samples + sample)];
      const bool may_come =
          token >= 0 && token < request.vocab &&
          distribution.membership[static_cast<std::size_t>(token)] != Membership::out;
      if (!may_come) return fmt::format("row {}: token {}", row, token);
    }
  }
  return {};
}

std::string in_failed_row(const Request& request, const Response& response, std::int64_t row) {
  for (std::int64_t output = 0; output < request.outputs(); ++output) {
    if (request.row_of(output) != row) continue;
    for (std::int32_t sample = 0; sample < request.num_samples; ++sample) {
      const std::int32_t token =
          response.tokens[static_cast<std::size_t>(output * request.num_samples + sample)];
      if (token != -1) return fmt::format("row {}, which must fail: token {}", row, token);
    }
  }
  return {};
}

std::string other_status(const Response& response, const Response& before) {
  for (std::size_t at = 0; at < std::min(response.statuses.size(), before.statuses.size()); ++at) {
    if (response.statuses[at] == before.statuses[at]) continue;
    return fmt::format("output {}: status {}, was {},", at, response.statuses[at],
                       before.statuses[at]);
  }
  return {};
}

}  // namespace

bool shifts_exactly(const reference::RowParameters& parameters, float shift) {
  // The product of two float32 values is exact in float64, because 24 bits times 24 bits fit.
  return std::fmod(static_cast<double>(shift) * scale_of(parameters), 2) == 0;
}

std::optional<float> scaled_exactly(float probability, int octaves) {
  const double product = std::ldexp(static_cast<double>(probability), octaves);  // an exact product
  const auto scaled = static_cast<float>(product);
  const auto is_whole = [](float value) { return value == 0 || std::isnormal(value); };
  if (static_cast<double>(scaled) != product) return std::nullopt;
  if (!is_whole(probability) || !is_whole(scaled)) return std::nullopt;
  return scaled;
}

bool is_free_of_tiles(const Request& request, std::int64_t row) {
  constexpr double kFree = 31;
  const bool logits = request.input == RowInput::logits;
  double smallest = std::numeric_limits<double>::infinity(), largest = -smallest;
  for (std::int64_t id = 0; id < request.vocab; ++id) {
    const auto value = static_cast<double>(request.row(row)[id]);
    if (!std::isfinite(value) || (!logits && value <= 0)) continue;
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
  }
  if (smallest >= largest) return true;
  if (!logits) return largest <= std::ldexp(smallest, static_cast<int>(kFree));
  return (largest - smallest) * scale_of(request.parameters[static_cast<std::size_t>(row)]) <=
         kFree;
}

void widen_vocab(Request& request, std::int64_t columns) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  for (reference::RowParameters& row : request.parameters) {
    if (row.top_k < request.vocab) continue;
    row.top_k = static_cast<std::int32_t>(std::min(row.top_k + columns, kLargest));
  }
  request.vocab += columns;
}

std::string outside_of_band(const CheckInput& input, const Request& changed,
                            const Response& response, const Response& before) {
  // A failed row has no weights, so no error band applies to it.
  if (std::string wrong = other_status(response, before); !wrong.empty()) return wrong;
  for (std::int64_t row = 0; row < changed.rows; ++row) {
    if (!changed.active.empty() && changed.active[static_cast<std::size_t>(row)] == 0) continue;
    const reference::RealDistribution distribution = distribution_of(input, changed, row);
    std::string wrong;
    if (distribution.must_fail) {
      wrong = in_failed_row(changed, response, row);
    } else if (distribution.defined) {
      wrong = in_row(changed, response, distribution, row);
    }
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace fairdraw::harness
