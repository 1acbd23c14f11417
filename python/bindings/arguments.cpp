#include "python/bindings/arguments.h"

#include <string>
#include <unordered_map>

namespace fairdraw::python {
namespace {

// A scalar argument out of range is a mistake of the call, so that the call raises an error. An
// array entry out of range fails only its own row, with a status, as in the C++ API.
void expect_scalar(bool in_range, const char* name, const auto& parameter, const char* allowed) {
  if (parameter.value.is_array() || in_range) return;
  throw_value_error(fmt::format("{} is {}; allowed: {}", name, parameter.value.scalar, allowed));
}

nb::object part_of(nb::handle object, std::size_t part) {
  if (object.is_none()) return nb::none();
  return nb::cast<nb::tuple>(object)[part];
}

// The keys are names and not addresses, because one argument name may be several string literals.
std::unordered_map<std::string, std::size_t>& numbers() {
  static std::unordered_map<std::string, std::size_t> numbers;
  return numbers;
}

}  // namespace

Named::Named(const char* call, nb::handle given)
    : state_(std::make_shared<State>(State{call, nb::cast<nb::dict>(given), {}, {}, {}})) {}

// Caches the interned Python string of each literal. A call has dozens of argument names, and to
// make and hash their strings takes as long as the rest of the call. Precondition: the caller holds
// the Python interpreter's lock.
const Named::Key& Named::key_of(const char* literal) {
  static std::unordered_map<const void*, Key> keys;
  Key& key = keys[literal];
  if (key.name == nullptr) {
    key.name = PyUnicode_InternFromString(literal);
    key.number = numbers().emplace(literal, numbers().size()).first->second;
  }
  return key;
}

nb::handle Named::operator[](const char* name) const {
  const Key& key = key_of(name);
  PyObject* const found = PyDict_GetItemWithError(state_->given.ptr(), key.name);
  if (found == nullptr) throw_type_error(fmt::format("{}: {} is missing", state_->call, name));
  state_->read.set(key.number);
  return found;
}

void Named::refuse(const char* name) const {
  const nb::object value = nb::borrow((*this)[name]);
  throw_type_error(fmt::format("{}: {} is {}, a {}, which cannot be converted", state_->call, name,
                               nb::repr(value).c_str(),
                               nb::cast<nb::str>(value.type().attr("__name__")).c_str()));
}

void Named::expect_all_read() const {
  if (state_->read.count() == state_->given.size()) return;
  for (const auto [name, value] : state_->given) {
    const std::string text = nb::cast<nb::str>(name).c_str();
    const auto number = numbers().find(text);
    if (number != numbers().end() && state_->read.test(number->second)) continue;
    throw_type_error(fmt::format("{}: {} is no argument of it", state_->call, text));
  }
}

Place place_of(const Named& given, const InputArray& rows) {
  const nb::handle workspace = given["workspace"];
  const bool is_array = PyCallable_Check(workspace.ptr()) == 0;
  return place_of(rows, given.as<std::uint64_t>("stream"), is_array ? workspace : nb::none());
}

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

Options::Options(const Named& given, std::int32_t num_samples, const Place& place,
                 bool with_indices) {
  read_parameter("seed", given["seed"], place, seed);
  read_parameter("offset", given["offset"], place, offset);
  if (with_indices) read_indices("indices", given["indices"], place, indices);
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
