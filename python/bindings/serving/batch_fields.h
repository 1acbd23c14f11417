// Converts the arguments that the processors of both backends share: a state, a request's fields,
// lists, offsets.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "fairdraw/batch_state.h"
#include "python/bindings/arguments.h"

namespace fairdraw::python {

using Ids = std::vector<std::int32_t>;

/// A batch state that is made from Python's arguments.
struct OwnedState {
  std::unique_ptr<BatchState> state;

  explicit OwnedState(const Named& given);
};

/// Returns the fields of Python's BatchRequest as a dict, by name.
nb::dict fields_of(const BatchRequest& request);

Ids list_of(View<const std::int32_t> view);
Ids numbers_of(View<const RowStatus> statuses);
std::vector<Ids> lists_of(const TokenLists& lists);

/// Returns an array in host memory or on the processor's device. Refuses an array on another GPU.
InputArray array_of_processor(const char* name, nb::handle object, const Place& place);

/// Calls `step` with the offsets as a view of int64 or uint32. The view is empty for None. `place`
/// is the device of the processor.
template <class Step>
void with_offsets(nb::handle offsets, const Place& place, const Step& step) {
  if (offsets.is_none()) return step(View<const std::int64_t>{});
  const InputArray array = array_of_processor("logit_offsets", offsets, place);
  if (array.ndim() == 1 && array.size() == 0) {
    throw_value_error("logit_offsets has 0 values; allowed: >= 1 (requests + 1)");
  }
  const bool contiguous = array.ndim() == 1 && (array.size() == 1 || array.stride(0) == 1);
  const auto size = static_cast<std::int64_t>(array.size());
  if (contiguous && array.dtype() == nb::dtype<std::int64_t>()) {
    return step(View<const std::int64_t>{static_cast<const std::int64_t*>(array.data()), size});
  }
  if (contiguous && array.dtype() == nb::dtype<std::uint32_t>()) {
    return step(View<const std::uint32_t>{static_cast<const std::uint32_t*>(array.data()), size});
  }
  throw_type_error(fmt::format(
      "logit_offsets holds {} along {} axes; contiguous int64 or uint32 [requests + 1] is needed",
      dtype_name(array.dtype()), array.ndim()));
}

}  // namespace fairdraw::python
