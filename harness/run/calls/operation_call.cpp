#include "harness/run/calls/operation_call.h"

#include "harness/contract/usage_error.h"
#include "harness/inputs/narrow_floats.h"
#include "harness/run/calls/request_arrays.h"

namespace fairdraw::harness {
namespace {

struct Named {
  OperationKind kind;
  const char* name;
  bool SamplerDescription::*ability;
};
constexpr Named kOperations[] = {
    {OperationKind::softmax, "softmax", &SamplerDescription::softmax},
    {OperationKind::log_softmax, "log_softmax", &SamplerDescription::log_softmax},
    {OperationKind::top_k_mask_logits, "top_k_mask_logits", &SamplerDescription::top_k_mask_logits},
    {OperationKind::min_p_mask_logits, "min_p_mask_logits", &SamplerDescription::min_p_mask_logits},
    {OperationKind::top_k_renorm_probs, "top_k_renorm_probs",
     &SamplerDescription::top_k_renorm_probs},
    {OperationKind::top_p_renorm_probs, "top_p_renorm_probs",
     &SamplerDescription::top_p_renorm_probs},
};
static_assert(static_cast<std::uint32_t>(OperationKind::top_p_renorm_probs) ==
              FAIRDRAW_OPERATION_TOP_P_RENORM_PROBS);

// Returns the rows in their layout in memory, with a NaN in every gap. The type `T` has the size of
// a value.
template <class T>
std::vector<T> laid_out(const OperationCall& asked, std::int64_t stride, T gap) {
  std::vector<T> laid(static_cast<std::size_t>(asked.rows * stride), gap);
  for (std::int64_t row = 0; row < asked.rows; ++row) {
    encode(asked.dtype, asked.values.data() + row * asked.vocab,
           static_cast<std::size_t>(asked.vocab),
           reinterpret_cast<std::byte*>(laid.data() + row * stride));
  }
  return laid;
}

// Returns the one parameter of the operation, in the form in which the call passes it.
FilterArrays parameter_of(const OperationCall& asked) {
  // A call without rows also passes an array, which must not be read.
  const std::vector<reference::RowParameters> of_no_row(1);
  const std::span<const reference::RowParameters> all(asked.parameters.empty() ? of_no_row
                                                                               : asked.parameters);
  FilterArrays given({});
  const FilterArrays filters(asked.parameter_is_scalar ? all.first(1) : all);
  switch (asked.kind) {
    case OperationKind::softmax:
      given.temperature = filters.temperature;
      break;
    case OperationKind::log_softmax:
      break;
    case OperationKind::top_k_mask_logits:
    case OperationKind::top_k_renorm_probs:
      given.top_k = filters.top_k;
      break;
    case OperationKind::min_p_mask_logits:
      given.min_p = filters.min_p;
      break;
    case OperationKind::top_p_renorm_probs:
      given.top_p = filters.top_p;
      break;
  }
  return given;
}

float widened(DType dtype, std::uint16_t bits) {
  return dtype == DType::float16 ? from_float16(bits) : from_bfloat16(bits);
}

// Runs the call. The type T is float, or the integer type for the bits of a 16-bit dtype.
template <class T>
OperationAnswer run_on(Sampler& sampler, const OperationCall& asked, fairdraw_operation call) {
  OperationAnswer answer;
  std::vector<T> result;
  const FilterArrays parameter = parameter_of(asked);
  const bool wide = asked.dtype == DType::float32;
  const std::vector<float> values =
      wide ? laid_out<float>(asked, call.row_stride, unwritten<float>()) : std::vector<float>();
  const std::vector<std::uint16_t> narrow =
      wide ? std::vector<std::uint16_t>()
           : laid_out<std::uint16_t>(asked, call.row_stride, unwritten<std::uint16_t>());
  const auto bytes = wide ? std::as_bytes(std::span(values)) : std::as_bytes(std::span(narrow));
  // Some values precede the rows, so that the rows are not at a vector boundary. The call itself
  // does not include these leading values.
  std::vector<std::byte> shifted(static_cast<std::size_t>(asked.shift) * element_size(asked.dtype));
  const std::size_t in_front = shifted.size();
  shifted.insert(shifted.end(), bytes.begin(), bytes.end());

  PlacedArrays arrays(sampler.memory());
  CallArrays<fairdraw_operation>::each(call, [&](auto field, const CallArray& array) {
    auto& pointer = field(call);
    using Pointer = std::remove_reference_t<decltype(pointer)>;
    if constexpr (std::is_same_v<Pointer, void*>) {
      T* const first = arrays.result(array, result);
      pointer = first;
      if (!asked.in_place || bytes.empty()) return;
      std::memcpy(first, bytes.data(), static_cast<std::size_t>(array.bytes()));
      call.values = first;
    } else if constexpr (std::is_same_v<Pointer, const void*>) {
      if (asked.in_place) return;  // these fields are set below, with the result
      const std::span<const std::byte> whole =
          shifted.empty() ? bytes : std::span(std::as_const(shifted));
      pointer = static_cast<const std::byte*>(arrays.input(array, whole)) + in_front;
    } else if constexpr (std::is_same_v<Pointer, std::int32_t*>) {
      if (sampler.description().reports_status) pointer = arrays.result(array, answer.statuses);
    } else {
      using Value = ValueOf<decltype(pointer)>;
      pointer = arrays.input(array, std::span<const Value>(field(parameter)));
    }
  });
  answer_call(sampler, arrays, answer, [&] { return sampler.run_operation(call); });
  for (const T value : result) {
    if constexpr (std::is_same_v<T, float>) {
      answer.result.push_back(value);
    } else {
      answer.result.push_back(widened(asked.result_dtype, value));
    }
  }
  return answer;
}

}  // namespace

const char* to_string(OperationKind kind) {
  return kOperations[static_cast<std::size_t>(kind)].name;
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const Named& one : kOperations) names.emplace_back(one.name);
  return names;
}

OperationKind operation_from_name(const std::string& name) {
  for (const Named& one : kOperations) {
    if (name == one.name) return one.kind;
  }
  throw UsageError(unknown_name_message("operation", name, operation_names()));
}

void declare_operation(SamplerDescription& sampler, OperationKind kind) {
  sampler.*kOperations[static_cast<std::size_t>(kind)].ability = true;
}

bool has_operation(const SamplerDescription& sampler, OperationKind kind) {
  return sampler.*kOperations[static_cast<std::size_t>(kind)].ability;
}

DType result_dtype(const SamplerDescription& sampler, OperationKind kind, DType dtype) {
  return masks_logits(kind) || sampler.operations_keep_dtype ? dtype : DType::float32;
}

OperationAnswer run_operation(Sampler& sampler, const OperationCall& asked) {
  OperationAnswer answer;
  if (broke(sampler, answer)) return answer;
  fairdraw_operation call{};
  call.struct_size = sizeof(call);
  call.kind = static_cast<std::uint32_t>(asked.kind);
  call.dtype = static_cast<std::uint32_t>(asked.dtype);
  call.result_dtype = static_cast<std::uint32_t>(asked.result_dtype);
  call.rows = asked.rows;
  call.vocab = asked.vocab;
  call.row_stride = asked.vocab + asked.gap;
  call.result_stride = asked.vocab + (asked.in_place ? asked.gap : asked.result_gap);
  call.parameter_is_scalar = asked.parameter_is_scalar ? 1 : 0;
  return asked.result_dtype == DType::float32 ? run_on<float>(sampler, asked, call)
                                              : run_on<std::uint16_t>(sampler, asked, call);
}

}  // namespace fairdraw::harness
