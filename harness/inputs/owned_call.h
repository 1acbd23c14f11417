// A struct that owns the arrays of a call of `sample`, which tests run on several backends: the
// arrays are on the host, and views of them are in host or device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fairdraw/sample.h"
#include "harness/inputs/processing_arrays.h"
#include "reference/integer_model.h"

namespace fairdraw::harness {

/// A parameter of requests: one value per request if is_array is true, otherwise one scalar.
template <class T>
struct CallParameter {
  T scalar{};
  std::vector<T> values;
  bool is_array = false;

  /// Sets the parameter to one scalar.
  CallParameter& operator=(T value) {
    scalar = value;
    values.clear();
    is_array = false;
    return *this;
  }
  T at(std::int64_t i) const { return is_array ? values[static_cast<std::size_t>(i)] : scalar; }
  T& set(std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
  void make_array(std::int64_t size) {
    values.assign(static_cast<std::size_t>(size), scalar);
    is_array = true;
  }
  template <class Arrays>
  PerRequest<T> in(Arrays& arrays) const {
    if (!is_array) return scalar;
    return {arrays.in(values), static_cast<std::int64_t>(values.size())};
  }
};

/// A call that owns its arrays. An empty vector means that the call does not give the array.
struct OwnedCall {
  DType dtype = DType::float32;
  std::int64_t rows = 0, vocab = 0, row_stride = 0;
  std::size_t shift = 0;             ///< bytes before the first value of `values`
  std::vector<std::uint8_t> values;  ///< values of the dtype, from byte `shift` on
  CallParameter<float> temperature{1.0F, {}}, top_p{1.0F, {}}, min_p{0.0F, {}};
  CallParameter<std::int32_t> top_k{0, {}};
  CallParameter<std::uint64_t> seed, offset;
  CallParameter<TieRule> tie_rule;
  CallParameter<FilterOrder> filter_order;
  Purpose purpose = Purpose::draw;
  std::vector<std::uint32_t> allowed;
  std::int64_t allowed_stride = 0;
  ProcessingArrays processing;
  std::vector<std::uint8_t> active;
  std::vector<std::int32_t> indices;
  std::int32_t num_samples = 1;

  std::int64_t outputs() const {
    return indices.empty() ? rows : static_cast<std::int64_t>(indices.size());
  }
  std::int64_t row_of(std::int64_t output) const {
    return indices.empty() ? output : indices[static_cast<std::size_t>(output)];
  }
  /// Gives each request its own temperature, top_k, top_p and min_p.
  void make_parameter_arrays(std::int64_t requests);
  void set_parameters(std::int64_t request, const reference::RowParameters& parameters);
  /// Allocates the rows. The bytes between rows are NaN in every dtype.
  void allocate(DType type, std::int64_t row_count, std::int64_t vocabulary, std::int64_t stride,
                std::size_t shift_bytes);
  /// Stores a row, rounded to the dtype.
  void set_row(std::int64_t row, const float* logits);
};

template <class Arrays>
SampleRequest request_in(const OwnedCall& call, Arrays& arrays) {
  SampleRequest request;
  const std::uint8_t* values = arrays.in(call.values);
  request.logits = {values + call.shift, call.dtype, call.rows, call.vocab, call.row_stride};
  request.temperature = call.temperature.in(arrays);
  request.top_k = call.top_k.in(arrays);
  request.top_p = call.top_p.in(arrays);
  request.min_p = call.min_p.in(arrays);
  request.seed = call.seed.in(arrays);
  request.offset = call.offset.in(arrays);
  request.tie_rule = call.tie_rule.in(arrays);
  request.filter_order = call.filter_order.in(arrays);
  if (!call.allowed.empty()) {
    request.allowed = {arrays.in(call.allowed), call.rows, call.allowed_stride};
  }
  request.processing = call.processing.in(arrays);
  request.active = view_in(call.active, arrays);
  request.indices = view_in(call.indices, arrays);
  request.num_samples = call.num_samples;
  request.purpose = call.purpose;
  return request;
}

}  // namespace fairdraw::harness
