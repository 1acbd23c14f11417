// Binds the FusedSamplingProcessor of an NVIDIA GPU for fairdraw/fused_sampling_processor.py.
// Results are torch tensors that view the processor's own memory.
#include "fairdraw/cuda_fused_sampling_processor.h"

#include <fmt/format.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>

#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"
#include "python/bindings/serving/batch_fields.h"

namespace fairdraw::python {
namespace {

using Handle = nb::handle;

/// A GPU processor together with its device.
class OwnedCudaProcessor {
 public:
  OwnedCudaProcessor(OwnedState& owned, const Named& given) : vocab(owned.state->options().vocab) {
    place.device_type = nb::device::cuda::value;
    place.device_id = given.as<int>("device_id");
    cuda::FusedSamplingOptions options;
    const auto stream = given.as<std::uint64_t>("stream");
    options.stream = reinterpret_cast<void*>(stream);  // NOLINT: Python has pointers as integers
    options.processing = given.as<bool>("processing");
    options.bitmask = given.as<bool>("bitmask");
    options.logit_offsets = given.as<bool>("logit_offsets");
    options.most_unread_calls = given.as<std::int32_t>("most_unread_calls");
    options.most_copies = given.as<std::int32_t>("most_copies");
    given.expect_all_read();
    run_on_host(
        [&] { return cuda::FusedSamplingProcessor::make(*owned.state, options, processor); });
  }

  std::unique_ptr<cuda::FusedSamplingProcessor> processor;
  Place place;
  std::int64_t vocab;
};

void step(OwnedCudaProcessor& self, Handle logits, Handle offsets, StepRows which,
          std::int32_t most_rows) {
  const Rows rows = rows_of("logits", logits);
  const InputArray& array = rows.array;
  if (array.device_type() != self.place.device_type || array.device_id() != self.place.device_id) {
    throw_value_error(fmt::format("logits is on {}; allowed: the device of the processor, {}",
                                  device_name(array.device_type(), array.device_id()),
                                  device_name(self.place.device_type, self.place.device_id)));
  }
  with_offsets(offsets, self.place, [&](auto view) {
    run_on_host([&] { return self.processor->step(rows.view, view, which, most_rows); });
  });
}

/// Returns a tensor of the processor's device memory. The tensor keeps the processor alive. The
/// address of an empty tensor is never used.
template <class T>
nb::object tensor_of(Handle self, View<const T> view) {
  static_assert(sizeof(T) == sizeof(std::int32_t));
  const auto& owned = nb::cast<const OwnedCudaProcessor&>(self);
  const auto size = static_cast<std::size_t>(view.size);
  // torch has no read-only tensors.
  void* const data = const_cast<void*>(static_cast<const void*>(view.data));  // NOLINT
  return nb::ndarray<nb::pytorch>(data, 1, &size, self, nullptr, nb::dtype<std::int32_t>(),
                                  owned.place.device_type, owned.place.device_id)
      .cast();
}

cuda::FusedSamplingProcessor& processor_of(Handle self) {
  return *nb::cast<const OwnedCudaProcessor&>(self).processor;
}

std::tuple<Ids, Ids, Ids> wait_for_tokens(OwnedCudaProcessor& self) {
  cuda::CopiedStep copied;
  run_on_host([&] { return self.processor->wait_for_tokens(copied); });
  return {list_of(copied.tokens), list_of(copied.counts), numbers_of(copied.statuses)};
}

}  // namespace

void bind_cuda_fused_sampling_processor(nb::module_& module) {
  using Self = OwnedCudaProcessor;
  nb::class_<Self>(module, "CudaFusedSamplingProcessor")
      .def(
          "__init__",
          [](Self* self, OwnedState& owned, const nb::dict& given) {
            new (self) Self(owned, Named("CudaFusedSamplingProcessor", given));
          },
          nb::keep_alive<1, 2>())
      .def("step", &step, nb::arg("logits").none(), nb::arg("logit_offsets").none(),
           nb::arg("rows"), nb::arg("most_rows"))
      .def("bring_changes",
           [](Self& self) { run_on_host([&] { return self.processor->bring_changes(); }); })
      .def("new_tokens",
           [](Handle self) { return tensor_of(self, processor_of(self).new_tokens()); })
      .def("new_token_counts",
           [](Handle self) { return tensor_of(self, processor_of(self).new_token_counts()); })
      .def("statuses", [](Handle self) { return tensor_of(self, processor_of(self).statuses()); })
      .def("generated_tokens",
           [](const Self& self) { return lists_of(self.processor->generated_tokens()); })
      .def(
          "update_bitmask",
          [](Self& self, Handle packed) {
            const InputArray array = array_of_processor("packed", packed, self.place);
            const auto bits = bit_rows<const std::uint32_t>("packed", array, self.vocab);
            run_on_host([&] { return self.processor->update_bitmask(bits); });
          },
          nb::arg("packed").none())
      .def("clear_bitmask",
           [](Self& self) { run_on_host([&] { return self.processor->clear_bitmask(); }); })
      .def(
          "start_async_token_copy",
          [](Self& self) { run_on_host([&] { return self.processor->start_async_token_copy(); }); })
      .def("wait_for_tokens", &wait_for_tokens)
      .def("catch_up", [](Self& self) { run_on_host([&] { return self.processor->catch_up(); }); });
}

}  // namespace fairdraw::python
