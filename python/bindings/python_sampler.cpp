#include "python/bindings/python_sampler.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <limits>
#include <utility>

#include "harness/adapters/default_float_environment.h"
#include "python/bindings/arrays.h"

namespace fairdraw::python {
namespace {

std::string type_of(nb::handle object) {
  return nb::cast<std::string>(nb::handle(object.type()).attr("__name__"));
}

std::string outside_int32(const std::string& id, std::int64_t at) {
  return fmt::format("the callable returned id {} at position {}, which is outside int32", id, at);
}

template <class Source>
std::string copy_ids(const InputArray& array, std::int64_t samples, std::int32_t* tokens) {
  const std::int64_t step_output = array.stride(0);
  const std::int64_t step_sample = array.ndim() == 2 ? array.stride(1) : 0;
  const auto* const first = static_cast<const std::byte*>(array.data());
  const auto size = static_cast<std::int64_t>(array.size());
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t at = i / samples * step_output + i % samples * step_sample;
    Source id{};
    std::memcpy(&id, first + at * static_cast<std::int64_t>(sizeof(Source)), sizeof(id));
    if (!std::in_range<std::int32_t>(id)) return outside_int32(fmt::format("{}", id), i);
    tokens[i] = static_cast<std::int32_t>(id);
  }
  return {};
}

std::string shape_of(const InputArray& array) {
  std::string text = "[";
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(array.shape(i));
  }
  return text + "]";
}

std::string take_array(const InputArray& array, const fairdraw_batch& batch) {
  if (array.device_type() != nb::device::cpu::value) {
    return fmt::format("the callable returned an array on {}; bring it to the CPU",
                       device_name(array.device_type(), array.device_id()));
  }
  const auto length = [&array](std::size_t i) { return static_cast<std::int64_t>(array.shape(i)); };
  const bool fits =
      (array.ndim() == 1 && batch.num_samples == 1 && length(0) == batch.outputs) ||
      (array.ndim() == 2 && length(0) == batch.outputs && length(1) == batch.num_samples);
  if (!fits) {
    return fmt::format("the callable returned tokens of shape {}; [{}{}] is needed",
                       shape_of(array), batch.outputs,
                       batch.num_samples > 1 ? fmt::format(", {}", batch.num_samples) : "");
  }
  const nb::dlpack::dtype dtype = array.dtype();
  if (array.size() == 0) return {};
  if (dtype == nb::dtype<std::int32_t>()) {
    return copy_ids<std::int32_t>(array, batch.num_samples, batch.tokens);
  }
  if (dtype == nb::dtype<std::int64_t>()) {
    return copy_ids<std::int64_t>(array, batch.num_samples, batch.tokens);
  }
  if (dtype == nb::dtype<std::uint32_t>()) {
    return copy_ids<std::uint32_t>(array, batch.num_samples, batch.tokens);
  }
  if (dtype == nb::dtype<std::uint64_t>()) {
    return copy_ids<std::uint64_t>(array, batch.num_samples, batch.tokens);
  }
  return fmt::format("the callable returned {} values; token ids are int32 or int64",
                     dtype_name(dtype));
}

// A list of integers, or of lists of num_samples integers.
std::string take_sequence(nb::handle sequence, const fairdraw_batch& batch) {
  const auto wrong_length = [](std::size_t got, std::int64_t wanted, const char* what) {
    return fmt::format("the callable returned {} {}; {} are needed", got, what, wanted);
  };
  if (std::cmp_not_equal(nb::len(sequence), batch.outputs)) {
    return wrong_length(nb::len(sequence), batch.outputs, "tokens");
  }
  std::int64_t at = 0;
  const auto put = [&](nb::handle item) -> std::string {
    // NumPy's integers and torch's scalars have __index__; floats do not.
    const nb::object index = nb::steal(PyNumber_Index(item.ptr()));
    if (!index.is_valid()) {
      PyErr_Clear();
      return fmt::format("the callable returned a {} at position {}; token ids are integers",
                         type_of(item), at);
    }
    int overflow = 0;
    const long long id = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow != 0 || !std::in_range<std::int32_t>(id)) {
      return outside_int32(nb::cast<std::string>(nb::str(index)), at);
    }
    batch.tokens[at++] = static_cast<std::int32_t>(id);
    return {};
  };
  for (const nb::handle item : sequence) {
    const bool nested = nb::isinstance<nb::list>(item) || nb::isinstance<nb::tuple>(item);
    if (!nested && batch.num_samples == 1) {
      if (std::string wrong = put(item); !wrong.empty()) return wrong;
      continue;
    }
    if (!nested || std::cmp_not_equal(nb::len(item), batch.num_samples)) {
      return wrong_length(nested ? nb::len(item) : 1, batch.num_samples, "samples of an output");
    }
    for (const nb::handle inner : item) {
      if (std::string wrong = put(inner); !wrong.empty()) return wrong;
    }
  }
  return {};
}

std::string take_tokens(nb::handle result, const fairdraw_batch& batch) {
  if (result.is_none()) {
    return "the callable returned None; token ids are needed (or the batch, where out_tokens was "
           "written)";
  }
  if (nb::isinstance<nb::list>(result) || nb::isinstance<nb::tuple>(result)) {
    return take_sequence(result, batch);
  }
  InputArray array;
  if (!nb::try_cast(result, array, false) || !array.is_valid()) {
    return fmt::format("the callable returned a {}; an array or a list of token ids is needed",
                       type_of(result));
  }
  return take_array(array, batch);
}

// "ValueError: ..." of a Python exception, without its traceback.
std::string text_of(const nb::python_error& error) {
  const std::string name = nb::cast<std::string>(error.type().attr("__name__"));
  try {
    return fmt::format("the callable raised {}: {}", name,
                       nb::cast<std::string>(nb::str(error.value())));
  } catch (const std::exception&) {  // an exception whose __str__ raises
    return fmt::format("the callable raised {}", name);
  }
}

std::string call(Callable& callable, const fairdraw_batch& batch) {
  Loan loan;
  std::string refused;
  {
    const nb::object view = nb::cast(BatchView(batch, callable.arrays, loan), nb::rv_policy::move);
    try {
      const nb::object result = callable.function(view);
      if (!result.is(view)) refused = take_tokens(result, batch);
    } catch (const nb::python_error& error) {
      refused = text_of(error);
    }
    nb::inst_ptr<BatchView>(view)->close();
  }
  bool held = loan.still_held();
  if (held) {  // in a reference cycle, perhaps, that nothing can reach
    nb::module_::import_("gc").attr("collect")();
    held = loan.still_held();
  }
  if (held) {
    callable.retained =
        "the callable kept an array of an earlier batch; they are lent for one call (copy what is "
        "to be kept)";
    if (refused.empty()) refused = callable.retained;
  }
  return refused;
}

}  // namespace

Callable::~Callable() {
  const nb::gil_scoped_acquire lock;
  function.reset();
}

std::string PythonSampler::run(const fairdraw_batch& batch) {
  const std::lock_guard one_call(callable_->one_call);
  if (callable_->cancelled) return "the run was interrupted";
  if (!callable_->retained.empty()) return callable_->retained;
  const harness::DefaultFloatEnvironment scope;
  const nb::gil_scoped_acquire lock;
  try {
    return call(*callable_, batch);
  } catch (const nb::python_error& error) {  // building a view, or reading a result
    return text_of(error);
  }
}

}  // namespace fairdraw::python
