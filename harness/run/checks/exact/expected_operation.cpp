#include "harness/run/checks/exact/expected_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/run/calls/kept_answers.h"
#include "harness/run/calls/row_probabilities.h"
#include "reference/float32_bound.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

constexpr auto kOk = static_cast<std::int32_t>(RowStatus::ok);
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

constexpr bool is_top_k(OperationKind kind) {
  return kind == OperationKind::top_k_mask_logits || kind == OperationKind::top_k_renorm_probs;
}

// Returns the row's parameters with only the filter of this operation; all other filters are off.
reference::RowParameters own_parameter(OperationKind kind,
                                       const reference::RowParameters& parameters) {
  reference::RowParameters own;
  own.temperature = kind == OperationKind::softmax ? parameters.temperature : 1.0F;
  own.top_k = is_top_k(kind) ? parameters.top_k : 0;
  own.top_p = kind == OperationKind::top_p_renorm_probs ? parameters.top_p : 1.0F;
  own.min_p = kind == OperationKind::min_p_mask_logits ? parameters.min_p : 0.0F;
  return own;
}

}  // namespace

reference::Semantics operation_semantics(const CheckInput& input, OperationKind kind) {
  reference::Semantics semantics = input.semantics;
  const bool integers = input.sampler->description().exact_integer;
  if (!integers && semantics.relative_weight_error == 0) {
    // The profile allows no rounding error, but the sampler may use float32 and any order of
    // additions.
    const auto vocab = static_cast<std::size_t>(input.logits->vocab());
    semantics =
        reference::in_float32(semantics, {.additions = reference::sequential_additions(vocab)});
    semantics.extremes_are_open = input.semantics.extremes_are_open;
  }
  if (is_top_k(kind)) {  // top_k compares values without scaling them
    const double sum = semantics.relative_sum_error, weight = semantics.relative_weight_error;
    semantics.rounds_scaled_logits = false;
    semantics.relative_weight_error = takes_probabilities(kind) ? weight : 0;
    semantics.relative_sum_error = sum;
  } else {
    semantics.top_k_zero = reference::TopKZero::off;
    semantics.top_k_limit = 0;
  }
  if (kind != OperationKind::top_p_renorm_probs) {
    semantics.top_p_one = reference::TopPOne::off;
    semantics.probability_sum = reference::ProbabilitySum::any;
  }
  semantics.top_k_one = reference::TopKOne::filter;
  semantics.min_p_one = reference::MinPOne::filter;
  semantics.boundary_mass = reference::BoundaryMass::whole;
  semantics.temperature_place = reference::TemperaturePlace::before_filters;
  semantics.masked_probability_floor = 0;
  return semantics;
}

OperationRows operation_rows(const CheckInput& input, OperationKind kind) {
  OperationRows made;
  made.dtype = input.logits->dtype();
  made.vocab = input.logits->vocab();
  made.values.resize(static_cast<std::size_t>(input.rows * made.vocab));
  const bool any_scale =
      operation_semantics(input, kind).probability_sum == reference::ProbabilitySum::any;
  for (std::int64_t row = 0; row < input.rows; ++row) {
    made.parameters.push_back(
        input.parameters[static_cast<std::size_t>(row) % input.parameters.size()]);
    const std::span<float> values = made.row(row);
    input.logits->fill(input.first_row + row, values);
    if (!takes_probabilities(kind)) continue;
    to_probabilities(values, made.parameters.back().temperature, made.dtype);
    constexpr float kScales[] = {1, 0x1p-5F, 8};  // rows sum to about 1, 1/32 and 8
    const float scale = any_scale ? kScales[row % 3] : 1;
    for (float& value : values) value = rounded_to(made.dtype, value * scale);
  }
  return made;
}

ExpectedRow::ExpectedRow(const CheckInput& input, OperationKind kind, std::span<const float> values,
                         const reference::RowParameters& parameters, DType dtype)
    : kind_(kind),
      values_(values),
      parameters_(own_parameter(kind, parameters)),
      result_(result_dtype(input.sampler->description(), kind, dtype)),
      semantics_(operation_semantics(input, kind)),
      integers_(input.sampler->description().exact_integer),
      exact_(input.exact()) {
  if (!integers_) {
    bound_ = reference::kFloat32Weights;
    if (is_top_k(kind)) bound_.per_octave = 0;
  }
  const auto from_probs = [&] {
    return reference::real_oracle_from_probs(values, parameters_, semantics_, integers_);
  };
  const auto from_logits = [&] {
    return reference::real_oracle(values, {}, parameters_, semantics_, bound_);
  };
  const std::span<const std::uint32_t> allowed;
  real_ = takes_probabilities(kind) ? kept_answer("real_oracle_from_probs", from_probs, values,
                                                  parameters_, semantics_, integers_)
                                    : kept_answer("real_oracle", from_logits, values, allowed,
                                                  parameters_, semantics_, bound_);
  if (kind == OperationKind::min_p_mask_logits &&
      semantics_.min_p_place == reference::MinPPlace::none) {
    real_.defined = real_.must_fail = false;
  }
  if (!exact_) return;
  const reference::IntegerRow model =
      takes_probabilities(kind) ? model_of_probs(values, parameters_)
                                : model_of_logits(values, allowed, parameters_, TieRule::keep_all,
                                                  FilterOrder::top_k_first);
  model_status_ = model.status;
  // With k = 1 the model draws greedily, while the operation keeps ties. Logarithms are not
  // compared bit for bit.
  const bool has_bits = (kind == OperationKind::softmax || takes_probabilities(kind)) &&
                        parameters_.top_k != 1 && result_ == DType::float32;
  if (model.status != RowStatus::ok || !has_bits) return;
  for (std::size_t id = 0; id < values.size(); ++id) {
    model_.push_back(model.mask[id] != 0 ? model.probability(static_cast<std::int32_t>(id)) : 0);
  }
}

std::int64_t ExpectedRow::ambiguous() const {
  return std::ranges::count(real_.membership, Membership::ambiguous);
}

double ExpectedRow::dropped() const {
  const bool logits = masks_logits(kind_) || kind_ == OperationKind::log_softmax;
  return logits ? static_cast<double>(kMinusInfinity) : 0;
}

OperationTrouble ExpectedRow::compare(std::span<const float> result,
                                      std::optional<std::int32_t> status) const {
  if (real_.must_fail && status) return compare_bad_row(result, *status);
  if (!is_judged()) return {};
  if (status && *status != kOk) {
    return {fmt::format("status {} for a row without a fault", *status), "bad values",
            "a good row is refused"};
  }
  OperationTrouble trouble = masks_logits(kind_)                   ? compare_mask(result)
                             : kind_ == OperationKind::log_softmax ? compare_logarithms(result)
                                                                   : compare_quotients(result);
  if (!trouble.what.empty() || model_.empty()) return trouble;
  for (std::size_t id = 0; id < model_.size(); ++id) {
    if (std::memcmp(&model_[id], &result[id], sizeof(float)) == 0) continue;
    return {fmt::format("token {} has {}, the integer model says {}", id, result[id], model_[id]),
            "numeric precision", "within the bound, but not the specification's bits"};
  }
  return {};
}

OperationTrouble ExpectedRow::compare_bad_row(std::span<const float> result,
                                              std::int32_t status) const {
  const char* const reason = "an invalid row is not reported, or its results are not blank";
  if (status == kOk) return {"status 0 for a row that must fail", "bad values", reason};
  if (exact_ && status != static_cast<std::int32_t>(model_status_)) {
    return {fmt::format("status {}, expected {}", status, to_string(model_status_)), "bad values",
            reason};
  }
  for (std::size_t id = 0; id < result.size(); ++id) {
    if (static_cast<double>(result[id]) == dropped()) continue;
    return {fmt::format("token {} of a failed row has {}, expected {}", id, result[id], dropped()),
            "bad values", reason};
  }
  return {};
}

OperationTrouble ExpectedRow::compare_mask(std::span<const float> result) const {
  std::int64_t kept = 0;
  for (std::size_t id = 0; id < result.size(); ++id) {
    const float value = values_[id];
    const Membership membership = real_.membership[id];
    const bool is_kept = result[id] != kMinusInfinity;
    kept += is_kept ? 1 : 0;
    if (is_kept && result[id] != value) {
      return suspected(
          fmt::format("token {} has {}, and its logit is {}; expected {}", id, result[id], value,
                      membership == Membership::out ? "-inf" : "the logit itself"),
          result);
    }
    if (membership == Membership::ambiguous || is_kept == (membership == Membership::in)) continue;
    return suspected(fmt::format("token {} with logit {} is {}", id, value,
                                 is_kept ? "kept, but must be masked" : "masked, but must be kept"),
                     result);
  }
  return compare_kept(result, kept);
}

OperationTrouble ExpectedRow::compare_kept(std::span<const float> result, std::int64_t kept) const {
  if (kept < real_.support_low || kept > real_.support_high) {
    return suspected(fmt::format("{} tokens are kept, expected {} to {}", kept, real_.support_low,
                                 real_.support_high),
                     result);
  }
  // Ambiguous tokens may be kept or dropped independently of each other. But a filter by a
  // threshold never keeps a token and drops a larger one, unless the filter's own rounding makes
  // the two equal.
  float least = std::numeric_limits<float>::infinity(), largest = kMinusInfinity;
  for (std::size_t id = 0; id < result.size(); ++id) {
    const bool is_kept = static_cast<double>(result[id]) != dropped();
    if (is_kept) least = std::min(least, values_[id]);
    const bool might_be = real_.membership[id] != Membership::out;
    if (!is_kept && might_be) largest = std::max(largest, values_[id]);
  }
  // Tolerance for two weights, each of which is off by one ulp.
  constexpr double kEqual = 1 + 0x1p-22;
  const auto low = static_cast<double>(least), high = static_cast<double>(largest);
  if (takes_probabilities(kind_) && high > low * kEqual) {
    return suspected(
        fmt::format("a token of probability {} is kept, and one of {} dropped", least, largest),
        result);
  }
  return {};
}

OperationTrouble ExpectedRow::compare_logarithms(std::span<const float> result) const {
  const reference::ResultIntervals& expected = intervals({});
  const double finite = reference::largest_finite(result_);
  for (std::size_t id = 0; id < result.size(); ++id) {
    const auto value = static_cast<double>(result[id]);
    const double low = expected.low[id], high = expected.high[id];
    if (value >= low && value <= high) continue;
    // A result beyond the dtype's range is -inf, or the largest finite number.
    if (low < -finite && (value == -finite || std::isinf(value)) && value < 0) continue;
    return suspected(
        fmt::format("token {} has {}, expected {:.9g} to {:.9g}", id, value, low, high), result);
  }
  return {};
}

const reference::ResultIntervals& ExpectedRow::intervals(std::span<const std::uint8_t> kept) const {
  if (!intervals_ || !std::ranges::equal(kept, kept_)) {
    intervals_ = kept_answer(
        "operation_intervals", [&] { return computed_intervals(kept); }, kind_, values_,
        parameters_, kept, semantics_, integers_, bound_, result_);
    kept_.assign(kept.begin(), kept.end());
  }
  return *intervals_;
}

reference::ResultIntervals ExpectedRow::computed_intervals(
    std::span<const std::uint8_t> kept) const {
  if (kind_ == OperationKind::log_softmax) {
    return reference::log_softmax_intervals(values_, semantics_, bound_, result_);
  }
  if (kind_ != OperationKind::softmax) {
    return reference::renorm_intervals(values_, kept, semantics_, integers_, result_);
  }
  if (one_token()) {  // if only one token is kept, nothing is rounded
    reference::ResultIntervals one;
    for (const std::uint8_t is_kept : kept) one.low.push_back(is_kept);
    one.high = one.low;
    return one;
  }
  const float temperature = parameters_.temperature;
  if (temperature == 0 && semantics_.temperature_zero == reference::TemperatureZero::uniform) {
    const std::vector<float> alike(values_.size(), 0.0F);
    return reference::softmax_intervals(alike, 1, semantics_, bound_, result_);
  }
  const double used = std::max(static_cast<double>(temperature), semantics_.least_temperature);
  return reference::softmax_intervals(values_, used, semantics_, bound_, result_);
}

OperationTrouble ExpectedRow::compare_quotients(std::span<const float> result) const {
  std::vector<std::uint8_t> kept(result.size(), 0);
  double sum = 0;
  std::int64_t tokens = 0;
  for (std::size_t id = 0; id < result.size(); ++id) {
    const Membership membership = real_.membership[id];
    const bool positive = result[id] > 0;
    if (!positive && result[id] != 0) {
      return suspected(fmt::format("token {} has {}, which is no probability", id, result[id]),
                       result);
    }
    if (positive && membership == Membership::out) {
      return suspected(
          fmt::format(
              "token {} has {}, expected 0: it is {}", id, result[id],
              values_[id] > 0 || kind_ == OperationKind::softmax ? "dropped" : "of probability 0"),
          result);
    }
    // A token that is certainly kept may be flushed to 0, within its interval.
    const bool counts =
        membership == Membership::in || (membership == Membership::ambiguous && positive);
    kept[id] = counts ? 1 : 0;
    tokens += kept[id];
    sum += static_cast<double>(result[id]);
  }
  if (OperationTrouble trouble = compare_kept(result, tokens); !trouble.what.empty()) {
    return trouble;
  }
  const reference::ResultIntervals& expected = intervals(kept);
  for (std::size_t id = 0; id < result.size(); ++id) {
    const auto value = static_cast<double>(result[id]);
    if (value >= expected.low[id] && value <= expected.high[id]) continue;
    return suspected(fmt::format("token {} has {}, expected {:.9g} to {:.9g}", id, value,
                                 expected.low[id], expected.high[id]),
                     result);
  }
  if (std::abs(sum - 1) > expected.row_sum) {
    return suspected(
        fmt::format("the results sum to {:.9g}, expected 1 within {:.1e}", sum, expected.row_sum),
        result);
  }
  return {};
}

// Names the bug that the whole wrong result resembles.
OperationTrouble ExpectedRow::suspected(std::string what, std::span<const float> result) const {
  const auto trouble = [&what](const char* bug, const char* reason) {
    return OperationTrouble{std::move(what), fmt::format("row operations: {}", bug), reason};
  };
  if (std::ranges::any_of(result, [](float value) { return std::isnan(value); })) {
    return trouble("a NaN", "-inf less -inf, 0 over 0, or an exponential that overflows");
  }
  if (kind_ == OperationKind::log_softmax) {
    return trouble("log-probabilities are off",
                   "by more than rounding explains, or -inf instead of a finite value");
  }
  if (masks_logits(kind_) && !std::ranges::equal(result, values_, [](float masked, float logit) {
        return masked == logit || masked == kMinusInfinity;
      })) {
    return trouble("a value that is neither the logit nor -inf", "masks have no others");
  }
  double came = 0, sum = 0;  // sums over the kept tokens
  std::int64_t kept = 0, low = 0, high = 0;
  for (std::size_t id = 0; id < result.size(); ++id) {
    const bool is_kept = static_cast<double>(result[id]) != dropped();
    kept += is_kept ? 1 : 0;
    low += real_.membership[id] == Membership::in ? 1 : 0;
    high += real_.membership[id] != Membership::out ? 1 : 0;
    if (!is_kept) continue;
    came += static_cast<double>(values_[id]);
    sum += static_cast<double>(result[id]);
  }
  const bool right_set = kept >= low && kept <= high;
  if (!right_set) {
    const char* const bug =
        is_top_k(kind_) ? "the number of kept tokens is not k and its ties"
        : kind_ == OperationKind::softmax
            ? "tokens of probability 0 get a probability, or other tokens lose theirs"
            : "the filter ends at another token";
    return trouble(bug, "no other value of the row is known to be wrong");
  }
  if (masks_logits(kind_)) {
    return trouble("other tokens are kept",
                   "the number is right, but the kept tokens are not the largest");
  }
  if (takes_probabilities(kind_) && std::abs(sum - came) <= 1e-3 * came) {
    return trouble("divided by no sum, or by the sum of the whole row",
                   "the kept probabilities keep their sum");
  }
  if (std::abs(sum - 1) > 1e-3) {
    return trouble("divided by another sum than that of the kept tokens",
                   "the row does not sum to 1");
  }
  return trouble("values are off", "by more than rounding in float32 explains");
}

}  // namespace fairdraw::harness
