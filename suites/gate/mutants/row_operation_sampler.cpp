#include "suites/gate/mutants/row_operation_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "harness/adapters/decode.h"
#include "harness/contract/plugin.h"
#include "harness/inputs/narrow_floats.h"

namespace fairdraw::suites {
namespace {

using harness::OperationKind;
using Kept = RowOperationSampler::Kept;
using Row = RowOperationSampler::Row;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

void write(void* result, std::uint32_t dtype, std::int64_t at, float value) {
  if (dtype == 0) {
    static_cast<float*>(result)[at] = value;
  } else {
    static_cast<std::uint16_t*>(result)[at] =
        dtype == 1 ? harness::to_float16(value) : harness::to_bfloat16(value);
  }
}

template <class T>
T parameter(const T* values, const fairdraw_operation& call, std::int64_t row, T off) {
  if (values == nullptr) return off;
  return values[call.parameter_is_scalar != 0 ? 0 : row];
}

std::size_t argmax(std::span<const float> values) {
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

template <class Real>
Real sum_of(std::span<const Real> terms) {
  Real sum = 0;
  for (const Real term : terms) sum += term;
  return sum;
}

// Returns the nucleus: every token for which less than p of the mass is strictly above it.
template <class Real>
Kept nucleus(const Row& row) {
  Kept kept(row.vocab(), 0);
  if (row.top_p == 0) {
    kept[argmax(row.values)] = 1;
    return kept;
  }
  const std::vector<std::size_t> order = ids_by_value(row.values);
  Real total = 0;
  for (const std::size_t id : order) total += static_cast<Real>(row.values[id]);
  const Real limit = static_cast<Real>(row.top_p) * total;
  Real above = 0, up_to = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || row.values[order[i]] != row.values[order[i - 1]]) above = up_to;
    // the first token stays if p underflows
    if (row.top_p < 1 && above > 0 && above >= limit) break;
    kept[order[i]] = 1;
    up_to += static_cast<Real>(row.values[order[i]]);
  }
  return kept;
}

}  // namespace

std::vector<std::size_t> ids_by_value(std::span<const float> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  return order;
}

RowOperationSampler::RowOperationSampler(Arithmetic arithmetic, Mutation mutation)
    : arithmetic_(arithmetic), mutation_(std::move(mutation)) {
  const bool wide = arithmetic == Arithmetic::float64;
  description_.name = wide ? "operations:float64" : "operations:float32";
  description_.version = "textbook";
  description_.semantics = "fairdraw";
  description_.samples = false;
  description_.float16 = description_.bfloat16 = true;
  description_.reports_status = wide;
  description_.softmax = description_.log_softmax = true;
  description_.top_k_mask_logits = description_.min_p_mask_logits = true;
  description_.top_k_renorm_probs = description_.top_p_renorm_probs = true;
  description_.masks_in_place = description_.operates_in_place = true;
  description_.operations_keep_dtype = !wide;
}

std::string RowOperationSampler::run(const fairdraw_batch& /*batch*/) { return "draws no tokens"; }

std::int32_t RowOperationSampler::status_of(const Row& row) const {
  const bool probabilities = harness::takes_probabilities(row.kind);
  if (!(row.temperature == 0 || (row.temperature >= 0x1p-126F && row.temperature <= 0x1p64F))) {
    return FAIRDRAW_ROW_INVALID_TEMPERATURE;
  }
  if (row.top_k < -1) return FAIRDRAW_ROW_INVALID_TOP_K;
  if (!(row.top_p >= 0 && row.top_p <= 1)) return FAIRDRAW_ROW_INVALID_TOP_P;
  if (!(row.min_p >= 0 && row.min_p <= 1)) return FAIRDRAW_ROW_INVALID_MIN_P;
  const auto any = [&row](auto is) { return std::ranges::any_of(row.values, is); };
  if (any([](float x) { return std::isnan(x); })) return FAIRDRAW_ROW_NAN_INPUT;
  if (any([](float x) { return x == -kMinusInfinity; })) return FAIRDRAW_ROW_INFINITE_INPUT;
  if (probabilities && any([](float x) { return x < 0; })) {
    return FAIRDRAW_ROW_NEGATIVE_PROBABILITY;
  }
  const float nothing = probabilities ? 0 : kMinusInfinity;
  if (!any([nothing](float x) { return x > nothing; })) return FAIRDRAW_ROW_NO_ALLOWED_TOKEN;
  return FAIRDRAW_ROW_OK;
}

std::string RowOperationSampler::run_operation(const fairdraw_operation& given) {
  fairdraw_operation call = given;
  if (mutation_.call) mutation_.call(call);
  // All results are computed before any of them is written, because results may overwrite the rows.
  std::vector<std::vector<float>> results;
  for (std::int64_t number = 0; number < call.rows; ++number) {
    Row row;
    row.kind = static_cast<OperationKind>(call.kind);
    row.number = number;
    for (std::int64_t id = 0; id < call.vocab; ++id) {
      row.values.push_back(harness::decode(call.values, call.dtype, number * call.row_stride + id));
    }
    row.temperature = parameter(call.temperature, call, number, 1.0F);
    row.top_k = parameter(call.top_k, call, number, 0);
    row.top_p = parameter(call.top_p, call, number, 1.0F);
    row.min_p = parameter(call.min_p, call, number, 0.0F);
    const std::int32_t status = status_of(row);
    if (call.statuses != nullptr) call.statuses[number] = status;
    if (status != FAIRDRAW_ROW_OK) {
      const bool logits = harness::masks_logits(row.kind) || row.kind == OperationKind::log_softmax;
      results.emplace_back(row.vocab(), logits ? kMinusInfinity : 0.0F);
      continue;
    }
    if (mutation_.row) mutation_.row(row);
    results.push_back(compute(row));
    if (mutation_.result) mutation_.result(results.back(), row);
  }
  for (std::int64_t row = 0; row < call.rows; ++row) {
    for (std::int64_t id = 0; id < call.vocab; ++id) {
      write(call.result, call.result_dtype, row * call.result_stride + id,
            results[static_cast<std::size_t>(row)][static_cast<std::size_t>(id)]);
    }
  }
  if (mutation_.finish) mutation_.finish(given);
  return {};
}

std::vector<float> RowOperationSampler::compute(const Row& row) const {
  const bool wide = arithmetic_ == Arithmetic::float64;
  if (row.kind == OperationKind::log_softmax) {
    return wide ? logarithms<double>(row) : logarithms<float>(row);
  }
  if (!harness::masks_logits(row.kind)) {
    return wide ? quotients<double>(row) : quotients<float>(row);
  }
  const Kept stays = wide ? kept<double>(row) : kept<float>(row);
  std::vector<float> masked = row.values;
  for (std::size_t id = 0; id < masked.size(); ++id) {
    if (stays[id] == 0) masked[id] = kMinusInfinity;
  }
  return masked;
}

template <class Real>
std::vector<float> RowOperationSampler::logarithms(const Row& row) const {
  const auto largest = static_cast<Real>(row.values[argmax(row.values)]);
  std::vector<Real> terms;
  for (const float x : row.values) terms.push_back(std::exp(static_cast<Real>(x) - largest));
  const Real log_sum = std::log(sum_of<Real>(terms));
  std::vector<float> result;
  for (const float x : row.values) {
    result.push_back(static_cast<float>((static_cast<Real>(x) - largest) - log_sum));
  }
  return result;
}

template <class Real>
std::vector<float> RowOperationSampler::quotients(const Row& row) const {
  std::vector<Real> terms(row.vocab(), 0);
  if (row.kind != OperationKind::softmax) {
    const Kept stays = kept<Real>(row);
    for (std::size_t id = 0; id < terms.size(); ++id) {
      if (stays[id] != 0) terms[id] = static_cast<Real>(row.values[id]);
    }
  } else if (mutation_.weights) {
    const std::vector<double> weights = mutation_.weights(row);
    std::ranges::transform(weights, terms.begin(),
                           [](double weight) { return static_cast<Real>(weight); });
  } else if (row.temperature == 0) {
    terms[argmax(row.values)] = 1;
  } else {
    const auto temperature = static_cast<Real>(row.temperature);
    const Real largest = static_cast<Real>(row.values[argmax(row.values)]) / temperature;
    for (std::size_t id = 0; id < terms.size(); ++id) {
      terms[id] = std::exp(static_cast<Real>(row.values[id]) / temperature - largest);
    }
  }
  Real sum = sum_of<Real>(terms);
  if (mutation_.sum) {
    sum = static_cast<Real>(mutation_.sum(std::vector<double>(terms.begin(), terms.end()), row));
  }
  std::vector<float> result;
  for (const Real term : terms) result.push_back(static_cast<float>(term / sum));
  return result;
}

template <class Real>
Kept RowOperationSampler::kept(const Row& row) const {
  Kept kept(row.vocab(), 1);
  const float largest = row.values[argmax(row.values)];
  if (row.kind == OperationKind::top_p_renorm_probs) {
    kept = nucleus<Real>(row);
  } else if (row.kind == OperationKind::min_p_mask_logits) {
    const auto min_p = static_cast<Real>(row.min_p);
    for (std::size_t id = 0; id < kept.size(); ++id) {
      const Real ratio = std::exp(static_cast<Real>(row.values[id]) - static_cast<Real>(largest));
      kept[id] = row.min_p == 0 || ratio >= min_p ? 1 : 0;
    }
  } else if (row.top_k > 0 && static_cast<std::size_t>(row.top_k) < row.vocab()) {
    const std::size_t last = ids_by_value(row.values)[static_cast<std::size_t>(row.top_k) - 1];
    for (std::size_t id = 0; id < kept.size(); ++id) {
      kept[id] = row.values[id] >= row.values[last] ? 1 : 0;
    }
  }
  if (mutation_.kept) mutation_.kept(kept, row);
  return kept;
}

}  // namespace fairdraw::suites
