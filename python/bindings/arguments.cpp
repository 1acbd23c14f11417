#include "python/bindings/arguments.h"

namespace fairdraw::python {
namespace {

// A scalar is a mistake of the call and raises. An entry of an array fails its own row, with a
// status, as in C++.
void expect_scalar(bool in_range, const char* name, const auto& parameter, const char* allowed) {
  if (parameter.value.is_array() || in_range) return;
  throw_value_error(fmt::format("{} is {}; allowed: {}", name, parameter.value.scalar, allowed));
}

nb::object part_of(nb::handle object, std::size_t part) {
  if (object.is_none()) return nb::none();
  return nb::cast<nb::tuple>(object)[part];
}

}  // namespace

Parameter<float> probability(const char* name, nb::handle object, const Place& place) {
  Parameter<float> parameter;
  read_parameter(name, object, place, parameter);
  const float value = parameter.value.scalar;
  expect_scalar(value >= 0 && value <= 1, name, parameter, "0 to 1");
  return parameter;
}

Parameter<float> temperature_of(nb::handle object, const Place& place) {
  Parameter<float> parameter;
  read_parameter("temperature", object, place, parameter);
  const float value = parameter.value.scalar;
  expect_scalar(value == 0 || (value >= 0x1p-126F && value <= 0x1p64F), "temperature", parameter,
                "0 (greedy), or 2^-126 to 2^64");
  return parameter;
}

Parameter<std::int32_t> top_k_of(nb::handle object, const Place& place) {
  Parameter<std::int32_t> parameter;
  read_parameter("top_k", object, place, parameter);
  expect_scalar(parameter.value.scalar >= -1, "top_k", parameter, ">= -1 (0 and -1 are off)");
  return parameter;
}

Options::Options(nb::handle seed_object, nb::handle offset_object, nb::handle indices_object,
                 std::int32_t num_samples, const Place& place) {
  read_parameter("seed", seed_object, place, seed);
  read_parameter("offset", offset_object, place, offset);
  read_indices("indices", indices_object, place, indices);
  draw = {seed.value, offset.value, indices.view, num_samples};
}

bool is_contiguous(const InputArray& array) {
  std::int64_t stride = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0;
       stride *= static_cast<std::int64_t>(array.shape(axis))) {
    if (array.shape(axis) > 1 && array.stride(axis) != stride && array.size() > 0) return false;
  }
  return true;
}

Lists::Lists(const char* name, nb::handle object, const Place& place)
    : ids_(name, part_of(object, 0), place),
      begins_(name, part_of(object, 1), place),
      lengths_(name, part_of(object, 2), place) {
  view = {ids_.view.data, ids_.view.size, begins_.view, lengths_.view};
}

View<const std::uint8_t> flags_of(const char* name, const InputArray& array) {
  const bool bytes = array.dtype().bits == 8 && array.ndim() == 1 && is_contiguous(array);
  if (!bytes) {
    throw_type_error(
        fmt::format("{} holds {} along {} axes; contiguous bool or uint8 along one axis is needed",
                    name, dtype_name(array.dtype()), array.ndim()));
  }
  return {static_cast<const std::uint8_t*>(array.data()), static_cast<std::int64_t>(array.size())};
}

}  // namespace fairdraw::python
