#include "python/bindings/arrays.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "fairdraw/limits.h"
#include "reference/integer_model.h"

namespace fairdraw::python {
namespace {

using nb::dlpack::dtype_code;

bool is(nb::dlpack::dtype dtype, dtype_code code) {
  return dtype.code == static_cast<std::uint8_t>(code) && dtype.lanes == 1;
}

bool is_integer(nb::dlpack::dtype dtype) {
  return is(dtype, dtype_code::Int) || is(dtype, dtype_code::UInt);
}

std::string class_of(nb::handle object) {
  return nb::cast<std::string>(nb::handle(object.type()).attr("__name__"));
}

// Converts integers to T by clamping. Seeds keep their 64 bits, which torch stores as int64.
template <class T, class Source>
T converted_integer(Source value) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  } else {
    if (std::cmp_less(value, std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (std::cmp_greater(value, std::numeric_limits<T>::max())) {
      return std::numeric_limits<T>::max();
    }
    return static_cast<T>(value);
  }
}

template <class Source, class T, class Convert>
void convert_all(const InputArray& array, std::vector<T>& target, Convert convert) {
  const std::int64_t step = array.ndim() == 0 ? 0 : array.stride(0);
  const auto* const first = static_cast<const std::byte*>(array.data());
  for (std::size_t i = 0; i < target.size(); ++i) {
    Source value{};
    std::memcpy(&value, first + static_cast<std::int64_t>(i) * step * std::int64_t{sizeof(Source)},
                sizeof(value));
    target[i] = convert(value);
  }
}

template <class T>
bool convert_integers(const InputArray& array, std::vector<T>& target) {
  const nb::dlpack::dtype dtype = array.dtype();
  const bool is_signed = is(dtype, dtype_code::Int);
  const auto as = [&]<class Source>(Source) {
    convert_all<Source>(array, target, [](Source v) { return converted_integer<T>(v); });
    return true;
  };
  switch (dtype.bits) {
    case 8:
      return is_signed ? as(std::int8_t{}) : as(std::uint8_t{});
    case 16:
      return is_signed ? as(std::int16_t{}) : as(std::uint16_t{});
    case 32:
      return is_signed ? as(std::int32_t{}) : as(std::uint32_t{});
    case 64:
      return is_signed ? as(std::int64_t{}) : as(std::uint64_t{});
    default:
      return false;
  }
}

bool convert_floats(const InputArray& array, std::vector<float>& target) {
  const nb::dlpack::dtype dtype = array.dtype();
  if (is_integer(dtype)) {
    std::vector<std::int64_t> integers(target.size());
    if (!convert_integers(array, integers)) return false;
    std::transform(integers.begin(), integers.end(), target.begin(),
                   [](std::int64_t v) { return static_cast<float>(v); });
    return true;
  }
  if (is(dtype, dtype_code::Float) && dtype.bits == 32) {
    convert_all<float>(array, target, [](float v) { return v; });
  } else if (is(dtype, dtype_code::Float) && dtype.bits == 64) {
    convert_all<double>(array, target, [](double v) { return static_cast<float>(v); });
  } else if (is(dtype, dtype_code::Float) && dtype.bits == 16) {
    convert_all<std::uint16_t>(array, target, reference::float_from_half);
  } else if (is(dtype, dtype_code::Bfloat) && dtype.bits == 16) {
    convert_all<std::uint16_t>(array, target, reference::float_from_bfloat16);
  } else {
    return false;
  }
  return true;
}

void expect_place(const char* name, int device_type, int device_id, const Place& place) {
  if (device_type == place.device_type && device_id == place.device_id) return;
  throw_value_error(fmt::format("{} is on {}; the rows are on {}", name,
                                device_name(device_type, device_id),
                                device_name(place.device_type, place.device_id)));
}

// Refuses array strides that reach beyond the address space. A caller can set any strides
// (numpy.lib.stride_tricks). After this check no arithmetic with strides overflows.
template <class Array>
void expect_extent(const char* name, const Array& array) {
  const std::int64_t bytes = std::max<std::int64_t>(1, array.dtype().bits / 8);
  std::int64_t most = kMaxArrayBytes / bytes;  // number of elements that the axes read so far allow
  std::int64_t room = most;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) {
    const auto length = static_cast<std::int64_t>(array.shape(axis));
    if (length == 0) return;
    if (length > most) {
      throw_value_error(
          fmt::format("{}: the length of axis {} is {}; allowed: 0 to {} (an array "
                      "has at most 2^48 bytes)",
                      name, axis, length, most));
    }
    most /= length;
    if (length == 1) continue;
    const std::int64_t stride = array.stride(axis);
    const std::int64_t largest = room / (length - 1);
    if (stride > largest || stride < -largest) {
      throw_value_error(
          fmt::format("{}: the stride along axis {} is {}; allowed: -{} to {} (an "
                      "array spans at most 2^48 bytes)",
                      name, axis, stride, largest, largest));
    }
    room -= (length - 1) * (stride < 0 ? -stride : stride);
  }
}

// Reads a Python float or int. NumPy's scalars are read as arrays without axes. The method
// __index__ does not make an object a number here, because arrays have __index__, too.
template <class T>
bool read_scalar(const char* name, nb::handle object, T& value) {
  const bool is_float = PyFloat_Check(object.ptr());
  if (!is_float && !PyLong_Check(object.ptr())) return false;
  if constexpr (std::is_same_v<T, float>) {
    const double number = PyFloat_AsDouble(object.ptr());
    if (number == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
    value = static_cast<float>(number);
    return true;
  } else {
    if (is_float) throw_type_error(fmt::format("{}: an integer is needed, not a float", name));
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      value = PyLong_AsUnsignedLongLong(object.ptr());
      if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw_value_error(fmt::format("{} is {}; allowed: 0 to 2^64 - 1", name,
                                      nb::cast<std::string>(nb::str(object))));
      }
    } else {
      int overflow = 0;
      const long long number = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
      const long long limit = overflow < 0   ? std::numeric_limits<long long>::min()
                              : overflow > 0 ? std::numeric_limits<long long>::max()
                                             : number;
      value = converted_integer<T>(limit);
    }
    return true;
  }
}

}  // namespace

void throw_type_error(const std::string& message) { throw nb::type_error(message.c_str()); }
void throw_value_error(const std::string& message) { throw nb::value_error(message.c_str()); }

void raise(const Error& error) {
  if (!error) return;
  if (error.code == ErrorCode::invalid_argument) throw_value_error(error.message);
  throw std::runtime_error(error.message);
}

std::string dtype_name(nb::dlpack::dtype dtype) {
  const int bits = dtype.bits;
  if (is(dtype, dtype_code::Float)) return fmt::format("float{}", bits);
  if (is(dtype, dtype_code::Bfloat)) return fmt::format("bfloat{}", bits);
  if (is(dtype, dtype_code::Int)) return fmt::format("int{}", bits);
  if (is(dtype, dtype_code::UInt)) return fmt::format("uint{}", bits);
  if (is(dtype, dtype_code::Bool)) return "bool";
  if (is(dtype, dtype_code::Complex)) return fmt::format("complex{}", bits);
  return fmt::format("dtype {} of {} bits", dtype.code, bits);
}

std::string device_name(int device_type, int device_id) {
  if (device_type == nb::device::cpu::value) return "cpu";
  if (device_type == nb::device::cuda::value) return fmt::format("cuda:{}", device_id);
  return fmt::format("device {} of type {}", device_id, device_type);
}

Place place_of(const InputArray& rows, std::uint64_t stream, nb::handle workspace) {
  Place place;
  place.device_type = rows.device_type();
  place.device_id = rows.device_id();
  if (place.device_type == nb::device::cpu::value) return place;
  if (!place.on_cuda()) {
    throw_type_error(fmt::format("arrays live on the CPU or on an NVIDIA GPU, not on {}",
                                 device_name(place.device_type, place.device_id)));
  }
  place.cuda.stream = reinterpret_cast<void*>(stream);  // NOLINT: Python has pointers as integers
  if (!workspace.is_none()) {
    place.workspace = nb::cast<OutputArray>(workspace);
    place.cuda.workspace = place.workspace.data();
    place.cuda.workspace_bytes = static_cast<std::int64_t>(place.workspace.nbytes());
  }
  return place;
}

void bring_workspace(Place& place, nb::handle allocate, std::int64_t bytes) {
  if (!place.on_cuda() || bytes == 0) return;
  place.workspace = nb::cast<OutputArray>(allocate(bytes));
  place.cuda.workspace = place.workspace.data();
  place.cuda.workspace_bytes = static_cast<std::int64_t>(place.workspace.nbytes());
}

InputArray input_array(const char* name, nb::handle object, const Place* place) {
  InputArray array;
  if (!nb::try_cast(object, array, false) || !array.is_valid()) {
    throw_type_error(
        fmt::format("{}: a NumPy array, a torch tensor or another array that speaks DLPack is "
                    "needed, not {}",
                    name, class_of(object)));
  }
  if (place != nullptr) expect_place(name, array.device_type(), array.device_id(), *place);
  expect_extent(name, array);
  return array;
}

OutputArray output_array(const char* name, nb::handle object, nb::dlpack::dtype dtype,
                         std::int64_t size, const Place& place) {
  OutputArray array;
  if (!nb::try_cast(object, array, false)) {
    static_cast<void>(input_array(name, object, &place));  // raises for any other error
    throw_value_error(fmt::format("{} is read-only; a writable array is needed", name));
  }
  expect_place(name, array.device_type(), array.device_id(), place);
  expect_extent(name, array);
  if (array.dtype() != dtype) {
    throw_type_error(fmt::format("{} holds {}; {} is needed", name, dtype_name(array.dtype()),
                                 dtype_name(dtype)));
  }
  if (std::cmp_not_equal(array.size(), size)) {
    throw_value_error(fmt::format("{} has {} elements; {} are needed", name, array.size(), size));
  }
  std::int64_t expected = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) > 1 && array.stride(axis) != expected && array.size() > 0) {
      throw_value_error(
          fmt::format("{} is not contiguous: its stride along axis {} is {}; {} is "
                      "needed",
                      name, axis, array.stride(axis), expected));
    }
    expected *= static_cast<std::int64_t>(array.shape(axis));
  }
  return array;
}

Rows rows_of(const char* name, nb::handle object, std::size_t axes, const Place* place) {
  Rows rows;
  rows.array = input_array(name, object, place);
  const InputArray& array = rows.array;
  const nb::dlpack::dtype dtype = array.dtype();
  if (is(dtype, dtype_code::Float) && dtype.bits == 32) {
    rows.view.dtype = DType::float32;
  } else if (is(dtype, dtype_code::Float) && dtype.bits == 16) {
    rows.view.dtype = DType::float16;
  } else if (is(dtype, dtype_code::Bfloat) && dtype.bits == 16) {
    rows.view.dtype = DType::bfloat16;
  } else {
    throw_type_error(
        fmt::format("{} holds {}; allowed: float32, float16, bfloat16 (which are read "
                    "exactly)",
                    name, dtype_name(dtype)));
  }
  if (array.ndim() != axes) {
    throw_type_error(fmt::format("{} has {} axes; {} are needed: {}", name, array.ndim(), axes,
                                 axes == 2 ? "[rows, vocab]" : "[batch, positions, vocab]"));
  }
  const auto length = [&array](std::size_t axis) {
    return static_cast<std::int64_t>(array.shape(axis));
  };
  const std::size_t last = axes - 1;
  rows.batch = length(0);
  rows.positions = axes == 3 ? length(1) : 1;
  rows.view.vocab = length(last);
  rows.view.rows = rows.batch * rows.positions;
  rows.view.data = array.data();
  rows.view.row_stride = rows.view.vocab;
  if (rows.view.rows == 0 || rows.view.vocab == 0) return rows;
  if (rows.view.vocab > 1 && array.stride(last) != 1) {
    throw_value_error(
        fmt::format("{}: the values of a row must lie side by side; their stride is "
                    "{}, 1 is needed",
                    name, array.stride(last)));
  }
  if (axes == 3 && rows.positions > 1) rows.view.row_stride = array.stride(1);
  if (rows.batch > 1) {
    const std::int64_t stride = array.stride(0);
    if (rows.positions == 1) {
      rows.view.row_stride = stride;
    } else if (stride != rows.positions * rows.view.row_stride) {
      throw_value_error(fmt::format("{}: stride {} between requests is not {} rows of {}", name,
                                    stride, rows.positions, rows.view.row_stride));
    }
  }
  if (rows.view.row_stride < rows.view.vocab) {
    throw_value_error(fmt::format("{}: the stride between rows is {}; allowed: >= {} (vocab)", name,
                                  rows.view.row_stride, rows.view.vocab));
  }
  return rows;
}

FloatRows float_rows(const char* name, nb::handle object, const RowsView& like, const Place& place,
                     OutputArray& keep) {
  keep = output_array(name, object, nb::dtype<float>(), like.rows * like.vocab, place);
  return {static_cast<float*>(keep.data()), like.rows, like.vocab};
}

template <class T>
void read_parameter(const char* name, nb::handle object, const Place& place, Parameter<T>& result) {
  if (T scalar{}; read_scalar(name, object, scalar)) {
    result.value = scalar;
    return;
  }
  result.array = input_array(name, object, nullptr);
  const InputArray& array = result.array;
  const auto size = static_cast<std::int64_t>(array.size());
  // A CPU array of one value, such as np.float32(0.9), counts as a number, also in calls on a GPU.
  const bool number = size == 1 && array.device_type() == nb::device::cpu::value;
  if (!number) expect_place(name, array.device_type(), array.device_id(), place);
  if (array.ndim() > 1) {
    throw_type_error(
        fmt::format("{} has {} axes; a number or one axis is needed", name, array.ndim()));
  }
  if (std::is_integral_v<T> && !is_integer(array.dtype())) {
    throw_type_error(
        fmt::format("{} holds {}; integers are needed", name, dtype_name(array.dtype())));
  }
  if (place.on_cuda() && !number) {
    const bool exact = array.dtype() == nb::dtype<T>() ||
                       (std::is_same_v<T, std::uint64_t> && array.dtype().bits == 64);
    if (!exact) {
      throw_type_error(fmt::format("{} holds {}; on a GPU {} is needed", name,
                                   dtype_name(array.dtype()), dtype_name(nb::dtype<T>())));
    }
    if (size > 1 && array.stride(0) != 1) {
      throw_value_error(fmt::format("{}: its stride is {}; 1 is needed", name, array.stride(0)));
    }
    result.value = {static_cast<const T*>(array.data()), size};
    return;
  }
  // One more element is allocated, so that data() is not null if the array is empty.
  result.converted.resize(static_cast<std::size_t>(size));
  bool known = false;
  if constexpr (std::is_same_v<T, float>) {
    known = convert_floats(array, result.converted);
  } else {
    known = convert_integers(array, result.converted);
  }
  if (!known) {
    throw_type_error(
        fmt::format("{} holds {}; numbers are needed", name, dtype_name(array.dtype())));
  }
  if (size == 1) {  // a scalar of any type gives one value for all requests
    result.value = result.converted.front();
    return;
  }
  result.converted.reserve(static_cast<std::size_t>(size) + 1);
  result.value = {result.converted.data(), size};
}

template void read_parameter(const char*, nb::handle, const Place&, Parameter<float>&);
template void read_parameter(const char*, nb::handle, const Place&, Parameter<std::int32_t>&);
template void read_parameter(const char*, nb::handle, const Place&, Parameter<std::uint64_t>&);

void read_indices(const char* name, nb::handle object, const Place& place, Indices& result) {
  if (object.is_none()) return;
  result.array = input_array(name, object, &place);
  const InputArray& array = result.array;
  if (array.ndim() != 1) {
    throw_type_error(fmt::format("{} has {} axes; one is needed", name, array.ndim()));
  }
  if (!is_integer(array.dtype())) {
    throw_type_error(
        fmt::format("{} holds {}; int32 or int64 is needed", name, dtype_name(array.dtype())));
  }
  const auto size = static_cast<std::int64_t>(array.size());
  const bool as_it_is = array.dtype() == nb::dtype<std::int32_t>() &&
                        (size <= 1 || array.stride(0) == 1) && array.data() != nullptr;
  if (as_it_is) {
    result.view = {static_cast<const std::int32_t*>(array.data()), size};
    return;
  }
  if (place.on_cuda()) {
    throw_type_error(fmt::format("{} holds {}; on a GPU contiguous int32 is needed", name,
                                 dtype_name(array.dtype())));
  }
  result.converted.resize(static_cast<std::size_t>(size));
  if (!convert_integers(array, result.converted)) {
    throw_type_error(
        fmt::format("{} holds {}; int32 or int64 is needed", name, dtype_name(array.dtype())));
  }
  result.converted.reserve(static_cast<std::size_t>(size) + 1);  // not null if the array is empty
  result.view = {result.converted.data(), size};
}

}  // namespace fairdraw::python
