// From Python objects to the views of fairdraw/types.h, without copying what is large.
//
// Every function takes the argument's name first, and an error names it: TypeError where the kind
// of object, dtype or rank is wrong, ValueError where a length, a stride or a value is. Rows come
// through DLPack or the buffer protocol, whatever library they belong to.
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
/// Raises what a kernel's error means in Python: ValueError for arguments, RuntimeError for what
/// this build or device cannot do. Nothing where there is no error.
void raise(const Error& error);

/// "float32", "int64", "bfloat16": a dtype as Python's libraries name it.
std::string dtype_name(nb::dlpack::dtype dtype);
/// "cpu", "cuda:0": where an array lives.
std::string device_name(int device_type, int device_id);

/// Where a call runs: the device of its rows. All other arrays must live there too.
struct Place {
  int device_type = nb::device::cpu::value;
  int device_id = 0;
  fairdraw::Execution cpu;
  cuda::Execution cuda;
  OutputArray workspace;  ///< keeps cuda.workspace alive

  bool on_cuda() const { return device_type == nb::device::cuda::value; }
};

/// `stream`: a cudaStream_t as an integer; `workspace`: an array of bytes on the device, or None.
/// Both mean nothing on the CPU. TypeError for a device that is neither a CPU nor an NVIDIA GPU.
Place place_of(const InputArray& rows, std::uint64_t stream, nb::handle workspace);
/// For operations whose workspace depends on more than the rows: `allocate`, called with a number
/// of bytes, gives an array of so many on the device. Not called on the CPU.
void bring_workspace(Place& place, nb::handle allocate, std::int64_t bytes);

/// An array that is read; `expect_place` null: any device.
InputArray input_array(const char* name, nb::handle object, const Place* expect_place);
/// An array that is written: contiguous, of exactly this dtype and number of elements.
OutputArray output_array(const char* name, nb::handle object, nb::dlpack::dtype dtype,
                         std::int64_t size, const Place& place);

/// A matrix of logits or probabilities. `axes` 2: [rows, vocab]; 3: [batch, positions, vocab],
/// whose first two axes must be one run of rows. `expect_place` null: on any device.
struct Rows {
  InputArray array;
  RowsView view;
  std::int64_t batch = 0, positions = 1;
};
Rows rows_of(const char* name, nb::handle object, std::size_t axes = 2,
             const Place* expect_place = nullptr);

/// The matrix that a call writes: float32, or of `dtype` where it is a copy of the input.
FloatRows float_rows(const char* name, nb::handle object, const RowsView& like, const Place& place,
                     OutputArray& keep);

/// A parameter: a Python number, or an array of one value each. Arrays on the CPU are converted to
/// T, which costs what a copy of so few values costs; those on a GPU must be T already. An array of
/// one value on the CPU is a number.
/// Integers beyond T's range become its nearest values, whose meaning is the same (top_k) or an
/// error of that row (indices).
template <class T>
struct Parameter {
  PerRequest<T> value;
  std::vector<T> converted;
  InputArray array;
};
template <class T>
void read_parameter(const char* name, nb::handle object, const Place& place, Parameter<T>& result);

/// Optional array of `size` elements: empty View for None. Signed 32-bit, from int32 or int64.
struct Indices {
  View<const std::int32_t> view;
  std::vector<std::int32_t> converted;
  InputArray array;
};
void read_indices(const char* name, nb::handle object, const Place& place, Indices& result);

}  // namespace fairdraw::python
