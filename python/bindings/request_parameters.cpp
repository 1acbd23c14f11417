// Engines' requests, as fairdraw/request_parameters.py needs them: dictionaries of their fields.
#include "fairdraw/request_parameters.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fairdraw/batch_request.h"
#include "python/bindings/arrays.h"
#include "python/bindings/batch_fields.h"
#include "python/bindings/bindings.h"
#include "python/bindings/request_fields.h"

namespace fairdraw::python {
namespace {

using Handle = nb::handle;

// Names of enums, in their order; those of Python's arguments where they are arguments.
template <class Enum>
struct Names;
template <>
struct Names<TieRule> {
  static constexpr const char* values[] = {"keep_all", "lowest_id"};
};
template <>
struct Names<FilterOrder> {
  static constexpr const char* values[] = {"top_k_first", "joint"};
};
template <>
struct Names<ChildSeedRule> {
  static constexpr const char* values[] = {"threefry", "seed_plus_index"};
};
template <>
struct Names<LlamaCppSampler> {
  static constexpr const char* values[] = {"penalties", "top_k", "top_p", "min_p", "temperature"};
};

[[noreturn]] void throw_kind(const std::string& name, Handle object, const char* needed) {
  throw_type_error(
      fmt::format("{} is {}; {} is needed", name, nb::cast<std::string>(nb::repr(object)), needed));
}

// --- From Python ---

void read(const std::string& name, Handle object, bool& value) {
  if (!PyBool_Check(object.ptr())) throw_kind(name, object, "True or False");
  value = object.is(Py_True);
}

template <class T>
  requires std::is_integral_v<T>
void read(const std::string& name, Handle object, T& value) {
  // NumPy's integers have __index__, its and Python's floats have not.
  if (PyBool_Check(object.ptr()) || PyIndex_Check(object.ptr()) == 0) {
    throw_kind(name, object, "an integer");
  }
  const auto number = nb::steal(PyNumber_Index(object.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  if (!nb::try_cast(number, value, false)) {
    throw_value_error(fmt::format("{} is {}; allowed: {} to {}", name,
                                  nb::cast<std::string>(nb::repr(number)),
                                  std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
}

template <class T>
  requires std::is_floating_point_v<T>
void read(const std::string& name, Handle object, T& value) {
  const double number = PyFloat_AsDouble(object.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw_kind(name, object, "a number");
  }
  value = static_cast<T>(number);
}

template <class Enum>
  requires std::is_enum_v<Enum>
void read(const std::string& name, Handle object, Enum& value) {
  std::string allowed;
  std::string given;
  const bool is_text = nb::try_cast(object, given, false);
  std::uint32_t number = 0;
  for (const char* const known : Names<Enum>::values) {
    if (is_text && given == known) {
      value = static_cast<Enum>(number);
      return;
    }
    ++number;
    allowed += fmt::format("{}'{}'", allowed.empty() ? "" : ", ", known);
  }
  throw_value_error(
      fmt::format("{} is {}; allowed: {}", name, nb::cast<std::string>(nb::repr(object)), allowed));
}

/// False, True or "never".
void read(const std::string& name, Handle object, HuggingFaceEarlyStopping& value) {
  if (PyBool_Check(object.ptr())) {
    value = object.is(Py_True) ? HuggingFaceEarlyStopping::yes : HuggingFaceEarlyStopping::no;
    return;
  }
  std::string text;
  if (!nb::try_cast(object, text, false) || text != "never") {
    throw_value_error(fmt::format("{} is {}; allowed: False, True, 'never'", name,
                                  nb::cast<std::string>(nb::repr(object))));
  }
  value = HuggingFaceEarlyStopping::never;
}

template <class T>
void read(const std::string& name, Handle object, std::vector<T>& values);

template <class Number>
void read(const std::string& name, Handle object, std::pair<std::int32_t, Number>& value) {
  if (!PyTuple_Check(object.ptr()) || PyTuple_Size(object.ptr()) != 2) {
    throw_kind(name, object, "a pair of a token and a bias");
  }
  const auto pair = nb::cast<nb::tuple>(object);
  read(name, pair[0], value.first);
  read(fmt::format("{}[{}]", name, value.first), pair[1], value.second);
}

void read(const std::string& name, Handle object, std::string& value) {
  if (!nb::try_cast(object, value, false)) throw_kind(name, object, "a text");
}

template <class T>
void read(const std::string& name, Handle object, std::optional<T>& value) {
  value.reset();
  if (!object.is_none()) read(name, object, value.emplace());
}

template <class T>
void read(const std::string& name, Handle object, std::vector<T>& values) {
  values.clear();
  const auto iterator = nb::steal(PyObject_GetIter(object.ptr()));
  if (!iterator.is_valid()) {
    PyErr_Clear();
    throw_kind(name, object, "a sequence");
  }
  std::int64_t place = 0;
  while (const auto item = nb::steal(PyIter_Next(iterator.ptr()))) {
    read(fmt::format("{}[{}]", name, place++), item, values.emplace_back());
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
}

// --- To Python ---

template <class T>
nb::object written(const std::vector<T>& values);

template <class T>
nb::object written(const T& value) {
  if constexpr (std::is_same_v<T, HuggingFaceEarlyStopping>) {
    if (value == HuggingFaceEarlyStopping::never) return nb::str("never");
    return nb::bool_(value == HuggingFaceEarlyStopping::yes);
  } else if constexpr (std::is_enum_v<T>) {
    return nb::str(Names<T>::values[static_cast<std::uint32_t>(value)]);
  } else {
    return nb::cast(value);
  }
}
template <class T>
nb::object written(const std::optional<T>& value) {
  return value ? written(*value) : nb::none();
}
template <class A, class B>
nb::object written(const std::pair<A, B>& value) {
  return nb::make_tuple(value.first, value.second);
}
template <class T>
nb::object written(const std::vector<T>& values) {
  nb::list items;
  for (const T& value : values) items.append(written(value));
  return nb::tuple(items);
}

template <class Struct>
Struct read_struct(const nb::dict& fields) {
  Struct result;
  visit_fields(result, [&](const char* name, auto& field) { read(name, fields[name], field); });
  return result;
}

template <class Struct>
nb::dict write_struct(Struct value) {
  nb::dict fields;
  visit_fields(value, [&](const char* name, const auto& field) { fields[name] = written(field); });
  return fields;
}

/// `from_<engine>(fields, vocab)`, and `<engine>_defaults()`.
template <class Request>
void bind_engine(nb::module_& module, const char* engine,
                 Error (*translate)(const Request&, std::int64_t, RequestParameters&)) {
  module.def(fmt::format("from_{}", engine).c_str(),
             [translate](const nb::dict& fields, std::int64_t vocab) {
               RequestParameters parameters;
               raise(translate(read_struct<Request>(fields), vocab, parameters));
               return write_struct(std::move(parameters));
             });
  module.def(fmt::format("{}_defaults", engine).c_str(), [] { return write_struct(Request()); });
}

}  // namespace

void bind_request_parameters(nb::module_& module) {
  bind_engine<VllmRequest>(module, "vllm", from_vllm);
  bind_engine<SglangRequest>(module, "sglang", from_sglang);
  bind_engine<TensorRtLlmRequest>(module, "tensorrt_llm", from_tensorrt_llm);
  bind_engine<HuggingFaceRequest>(module, "hugging_face", from_hugging_face);
  bind_engine<MaxRequest>(module, "max", from_max);
  bind_engine<LlamaCppRequest>(module, "llama_cpp", from_llama_cpp);
  module.def("parameters_defaults", [] { return write_struct(RequestParameters()); });
  module.def("batch_request_from",
             [](const nb::dict& parameters, Handle prompt, std::int32_t eos_id,
                std::uint64_t fresh_seed, std::int32_t child, Handle tie_rule, Handle order) {
               RequestContext context;
               read("prompt", prompt, context.prompt);
               context.eos_id = eos_id;
               context.fresh_seed = fresh_seed;
               context.child = child;
               BatchStateOptions options;
               read("tie_rule", tie_rule, options.tie_rule);
               read("filter_apply_order", order, options.filter_order);
               BatchRequest request;
               raise(batch_request_from(read_struct<RequestParameters>(parameters), context,
                                        options, request));
               return tuple_of(request);
             });
}

}  // namespace fairdraw::python
