#include "python/bindings/row_operation.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <cstring>

#include "harness/inputs/narrow_floats.h"
#include "python/bindings/arrays.h"
#include "python/bindings/lent_call.h"

namespace fairdraw::python {
namespace {

using harness::OperationKind;

// Returns the parameter of a row operation, or an empty object if the kind of operation takes no
// parameter.
nb::object parameter_of(const LentArrays& lent, const fairdraw_operation& call) {
  const auto given = [&](const auto* values) -> nb::object {
    using Value = std::remove_cvref_t<decltype(*values)>;
    if (call.parameter_is_scalar == 0) {
      return lent.vector(values, call.rows, nb::dtype<Value>(), false);
    }
    if constexpr (std::is_same_v<Value, float>) return nb::float_(static_cast<double>(*values));
    return nb::int_(*values);
  };
  switch (static_cast<OperationKind>(call.kind)) {
    case OperationKind::softmax:
      return given(call.temperature);
    case OperationKind::log_softmax:
      break;
    case OperationKind::top_k_mask_logits:
    case OperationKind::top_k_renorm_probs:
      return given(call.top_k);
    case OperationKind::min_p_mask_logits:
      return given(call.min_p);
    case OperationKind::top_p_renorm_probs:
      return given(call.top_p);
  }
  return {};
}

// Reads one element of an array from memory as a double.
double value_at(const std::byte* place, nb::dlpack::dtype dtype) {
  const auto read = [place](auto value) {
    std::memcpy(&value, place, sizeof(value));
    return value;
  };
  if (dtype == nb::dtype<double>()) return read(double{});
  if (dtype == nb::dtype<float>()) return static_cast<double>(read(float{}));
  const auto bits = read(std::uint16_t{});
  const bool is_half = dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float);
  return static_cast<double>(is_half ? harness::from_float16(bits) : harness::from_bfloat16(bits));
}

void write(void* result, std::uint32_t dtype, std::int64_t at, double value) {
  const auto rounded = static_cast<float>(value);
  if (dtype == 0) {
    static_cast<float*>(result)[at] = rounded;
  } else {
    static_cast<std::uint16_t*>(result)[at] =
        dtype == 1 ? harness::to_float16(rounded) : harness::to_bfloat16(rounded);
  }
}

std::string take_rows(const std::string& who, nb::handle returned, const LentArrays& lent,
                      const fairdraw_operation& call) {
  InputArray array;
  if (!nb::try_cast(returned, array, false) || !array.is_valid()) {
    return fmt::format("{} returned a {}; an array [rows, vocab] is needed", who,
                       name_of_type(returned));
  }
  if (array.device_type() != nb::device::cpu::value) {
    return fmt::format("{} returned an array on {}; bring it to the CPU", who,
                       device_name(array.device_type(), array.device_id()));
  }
  const auto length = [&array](std::size_t axis) {
    return static_cast<std::int64_t>(array.shape(axis));
  };
  if (array.ndim() != 2 || length(0) != call.rows || length(1) != call.vocab) {
    std::string shape;
    for (std::size_t axis = 0; axis < array.ndim(); ++axis) {
      shape += fmt::format("{}{}", axis > 0 ? ", " : "", array.shape(axis));
    }
    return fmt::format("{} returned shape [{}]; [{}, {}] is needed", who, shape, call.rows,
                       call.vocab);
  }
  const nb::dlpack::dtype dtype = array.dtype();
  const nb::dlpack::dtype narrow = lent.value_dtype(call.result_dtype);
  const bool is_wide = dtype == nb::dtype<float>() || dtype == nb::dtype<double>();
  if (!is_wide && dtype != narrow) {
    return fmt::format("{} returned {} values; {} or wider floats are needed", who,
                       dtype_name(dtype), dtype_name(narrow));
  }
  const auto* const first = static_cast<const std::byte*>(array.data());
  const auto size = static_cast<std::int64_t>(dtype.bits / 8);
  for (std::int64_t row = 0; row < call.rows; ++row) {
    for (std::int64_t id = 0; id < call.vocab; ++id) {
      const std::int64_t at = row * array.stride(0) + id * array.stride(1);
      write(call.result, call.result_dtype, row * call.result_stride + id,
            value_at(first + at * size, dtype));
    }
  }
  return {};
}

}  // namespace

std::string call_row_operation(Callable& callable, const fairdraw_operation& call) {
  const auto kind = static_cast<OperationKind>(call.kind);
  const auto found = callable.operations.find(kind);
  if (found == callable.operations.end()) return "is no operation that was given";
  const std::string who = harness::to_string(kind);
  Loan loan;
  std::string refused;
  {
    const LentArrays lent(callable.arrays, loan);
    nb::object returned;
    refused = guarded(who.c_str(), [&] {
      const nb::object rows = lent.matrix(call.values, call.rows, call.vocab, call.row_stride,
                                          lent.value_dtype(call.dtype), false);
      const nb::object parameter = parameter_of(lent, call);
      returned = parameter.is_valid() ? found->second(rows, parameter) : found->second(rows);
      return std::string();
    });
    if (refused.empty()) {
      refused = guarded(who.c_str(), [&] { return take_rows(who, returned, lent, call); });
    }
  }
  return given_back(who.c_str(), "call", loan, callable.retained, std::move(refused));
}

}  // namespace fairdraw::python
