// Converts Python objects to the views of fairdraw/types.h, without copying large arrays.
//
// The first parameter of every function is the argument's name, for errors. A wrong kind of object,
// dtype or rank raises TypeError, and a wrong length, stride or value ValueError. Rows may come
// from any library that supports DLPack or the buffer protocol.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/cuda.h"
#include "fairdraw/types.h"

namespace fairdraw::python {

namespace nb = nanobind;

using InputArray = nb::ndarray<nb::ro>;
using OutputArray = nb::ndarray<>;

[[noreturn]] void throw_type_error(const std::string& message);
[[noreturn]] void throw_value_error(const std::string& message);
/// Raises a kernel's error as an exception: ValueError for wrong arguments, RuntimeError for a call
/// that this build or device does not support. Returns at once if there is no error.
void raise(const Error& error);

/// Returns the name that Python's libraries use for a dtype: "float32", "int64", "bfloat16".
std::string dtype_name(nb::dlpack::dtype dtype);
/// Returns the name of an array's device: "cpu", "cuda:0".
std::string device_name(int device_type, int device_id);

/// The device that holds a call's rows. All other arrays of the call must be on the same device.
struct Place {
  int device_type = nb::device::cpu::value;
  int device_id = 0;
  fairdraw::Execution cpu;
  cuda::Execution cuda;
  OutputArray workspace;  ///< keeps cuda.workspace alive

  bool on_cuda() const { return device_type == nb::device::cuda::value; }
};

/// `stream` is a cudaStream_t as an integer. `workspace` is an array of bytes on the device, or
/// None. On the CPU, `stream` and `workspace` are ignored. Raises TypeError for a device that is
/// neither a CPU nor an NVIDIA GPU.
Place place_of(const InputArray& rows, std::uint64_t stream, nb::handle workspace);
/// Allocates a workspace whose size depends on more than the rows. `allocate(bytes)` returns an
/// array of that many bytes on the device. `allocate` is not called on the CPU.
void bring_workspace(Place& place, nb::handle allocate, std::int64_t bytes);

/// Returns a view of a Python array for reading. If `expect_place` is null, the array may be on any
/// device.
InputArray input_array(const char* name, nb::handle object, const Place* expect_place);
/// Returns a view of a Python array for writing. The array must be contiguous, with exactly this
/// dtype and number of elements.
OutputArray output_array(const char* name, nb::handle object, nb::dlpack::dtype dtype,
                         std::int64_t size, const Place& place);

/// A matrix of logits or probabilities. With `axes` 2 the shape is [rows, vocab]. With 3 it is
/// [batch, positions, vocab], and the first two axes must be contiguous like one axis.
/// If `expect_place` is null, the rows may be on any device.
struct Rows {
  InputArray array;
  RowsView view;
  std::int64_t batch = 0, positions = 1;
};
Rows rows_of(const char* name, nb::handle object, std::size_t axes = 2,
             const Place* expect_place = nullptr);

/// Returns the matrix that a call writes. The matrix has the dtype float32, or `dtype` if the call
/// copies its input.
FloatRows float_rows(const char* name, nb::handle object, const RowsView& like, const Place& place,
                     OutputArray& keep);

/// A sampling parameter, which is one Python number, or an array with one value per request. Arrays
/// on the CPU are converted to T, which is cheap for so few values. Arrays on a GPU must already
/// have type T. A CPU array of one value counts as a number. Integers outside T's range become the
/// nearest T. The nearest T means the same (top_k), or makes that row fail (indices).
template <class T>
struct Parameter {
  PerRequest<T> value;
  std::vector<T> converted;
  InputArray array;
};
template <class T>
void read_parameter(const char* name, nb::handle object, const Place& place, Parameter<T>& result);

/// Optional array of `size` elements; None gives an empty view. Accepts arrays of int32 and of
/// int64.
struct Indices {
  View<const std::int32_t> view;
  std::vector<std::int32_t> converted;
  InputArray array;
};
void read_indices(const char* name, nb::handle object, const Place& place, Indices& result);

}  // namespace fairdraw::python
