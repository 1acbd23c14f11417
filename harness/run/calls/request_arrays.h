// Places the arrays of one call as contract/call_arrays.h describes them: results between guards,
// logits in their layout in memory, and a watch over all arrays that may only be read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/contract/call_arrays.h"
#include "harness/run/calls/array_slots.h"
#include "harness/run/calls/kept_float_environment.h"
#include "harness/run/calls/request.h"

namespace fairdraw::harness {

using Memory = std::pmr::memory_resource;

/// Returns the value that a result has before the call.
template <class T>
constexpr T unwritten() {
  if constexpr (std::is_same_v<T, float>) return std::numeric_limits<float>::quiet_NaN();
  if constexpr (std::is_same_v<T, std::uint32_t>) return kUnwrittenMask;
  if constexpr (std::is_same_v<T, std::int32_t>) return kUnwritten;
  if constexpr (std::is_same_v<T, std::uint16_t>) return 0xffff;  // NaN in both 16-bit dtypes
}

/// Returns the memory for results: `memory` itself if it is the sampler's own memory, otherwise
/// slots of this process. Results that do not fit into any slot are on the heap.
Memory* result_memory(Memory* memory, std::size_t bytes);

/// Returns a message about accesses around the array of `memory` that contains `place`, or an empty
/// string if there were none.
std::string touched_around(const Memory* memory, const char* name, const void* place);

/// A result with guards before it, after it and between its rows. Bytes outside of the result must
/// keep a pattern, and memory farther around it must not be touched (array_slots.h).
class GuardedResult {
 public:
  virtual ~GuardedResult() = default;
  /// Returns where bytes outside of the results were written, or an empty string if none were.
  virtual std::string damage() const = 0;
  /// Copies the results to the target vector.
  virtual void take() const = 0;
};

template <class T>
class Guarded final : public GuardedResult {
 public:
  Guarded(Memory* memory, const CallArray& array, std::vector<T>& target)
      : name_(array.name),
        rows_(static_cast<std::size_t>(array.rows)),
        width_(static_cast<std::size_t>(array.width)),
        stride_(static_cast<std::size_t>(array.stride)),
        target_(target),
        memory_(result_memory(memory, (rows_ * stride_ + 2 * kGuard) * sizeof(T))),
        values_(rows_ * stride_ + 2 * kGuard, kPattern, memory_) {}

  T* data() { return values_.data() + kGuard; }

  std::string damage() const override {
    const std::size_t end = values_.size() - kGuard;
    if (touched(0, kGuard)) return std::string("wrote in front of ") + name_;
    if (touched(end, values_.size())) return std::string("wrote past the end of ") + name_;
    for (std::size_t row = 0; row < rows_ && stride_ > width_; ++row) {
      const std::size_t first = kGuard + row * stride_;
      if (touched(first + width_, first + stride_)) {
        return std::string("wrote between two rows of ") + name_;
      }
    }
    return touched_around(memory_, name_, values_.data());
  }

  void take() const override {
    target_.clear();
    for (std::size_t row = 0; row < rows_; ++row) {
      const T* const first = values_.data() + kGuard + row * stride_;
      target_.insert(target_.end(), first, first + width_);
    }
  }

 private:
  static constexpr std::size_t kGuard = 16;
  static constexpr T kPattern = unwritten<T>();

  bool touched(std::size_t first, std::size_t last) const {
    return std::any_of(values_.data() + first, values_.data() + last, [](const T& value) {
      return std::memcmp(&value, &kPattern, sizeof(T)) != 0;
    });
  }

  const char* name_;
  std::size_t rows_, width_, stride_;
  std::vector<T>& target_;
  Memory* memory_;
  std::pmr::vector<T> values_;
};

/// Writes values in a dtype, as bytes.
void encode(DType dtype, const float* values, std::size_t count, std::byte* target);
std::size_t element_size(DType dtype);

/// Memory for rows that are gigabytes apart, of which the system allocates only the touched pages.
class SparseMemory {
 public:
  SparseMemory(Memory* memory, std::size_t size);  ///< data() is null if there is no memory
  ~SparseMemory();
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  Memory* memory_;
  std::byte* data_ = nullptr;
  std::size_t size_;
};

/// The logits in their dtype, with the alignment and the stride of the request.
class EncodedLogits {
 public:
  EncodedLogits(Memory* memory, const Request& request);
  const void* data() const { return data_; }
  std::int64_t stride() const { return stride_; }
  std::size_t size() const { return size_; }  ///< number of bytes from data() on; 0 if too many

 private:
  std::int64_t stride_;
  std::pmr::vector<std::byte> storage_;
  std::unique_ptr<SparseMemory> sparse_;
  const void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Values in a dtype, stored as bytes. For float32 no copy is made, because the bytes are those of
/// the given values.
class Encoded {
 public:
  Encoded(DType dtype, std::span<const float> values);
  std::span<const std::byte> bytes() const {
    return wide_.empty() ? std::span<const std::byte>(narrow_) : wide_;
  }

 private:
  std::span<const std::byte> wide_;
  std::vector<std::byte> narrow_;
};

/// Filter parameters as arrays, with the same names as in fairdraw_batch.
struct FilterArrays {
  std::vector<float> temperature, top_p, min_p;
  std::vector<std::int32_t> top_k;

  explicit FilterArrays(std::span<const reference::RowParameters> parameters);
};

/// The arrays of one call, in memory that the sampler sees: watched inputs, and results between
/// guards.
class PlacedArrays {
 public:
  explicit PlacedArrays(Memory* memory) : memory_(memory) {}

  /// Returns the given values in place, or a copy of them in the sampler's own memory. The result
  /// is null only if the array is optional and there are no values.
  template <class T>
  const T* input(const CallArray& array, std::span<const T> values) {
    if (values.empty() && array.optional) return nullptr;
    expect_size(array, values.size_bytes());
    const T* data = values.data();
    if (values.empty() || memory_ != std::pmr::get_default_resource()) {
      const auto copy =
          std::make_shared<std::pmr::vector<T>>(values.begin(), values.end(), memory_);
      if (values.empty()) copy->resize(1);
      kept_.push_back(copy);
      data = copy->data();
    }
    watch(array.name, data, values.size_bytes());
    return data;
  }
  const void* input(const CallArray& array, const EncodedLogits& logits) {
    if (logits.size() > 0) expect_size(array, logits.size());
    watch(array.name, logits.data(), logits.size());
    return logits.data();
  }

  /// Returns the memory for a result, which take() copies to `target`.
  template <class T>
  T* result(const CallArray& array, std::vector<T>& target) {
    auto guarded = std::make_unique<Guarded<T>>(memory_, array, target);
    T* const data = guarded->data();
    results_.push_back(std::move(guarded));
    return data;
  }

  /// Returns a message about a write outside of the results, or an empty string if there was none.
  std::string damage() const;
  void take() const;

 private:
  struct Watched {
    const char* name;
    const void* data;
    std::size_t size;
    std::uint64_t hash;
  };

  static void expect_size(const CallArray& array, std::size_t bytes);
  void watch(const char* name, const void* data, std::size_t size);

  Memory* memory_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<Watched> inputs_;
  std::vector<std::unique_ptr<GuardedResult>> results_;
};

/// Sets every array of `call`, whose sizes must already be set. An input array is the field of the
/// same name in `prepared`, or otherwise in `request`. If the field with a result's name is true in
/// `wanted`, memory is allocated for the field of that name in `response`. Code for an array
/// without such a field does not compile.
template <class Call, class Prepared, class Asked, class Wanted, class Answer>
void place_arrays(PlacedArrays& arrays, Call& call, const Prepared& prepared, const Asked& request,
                  const Wanted& wanted, Answer& response) {
  if constexpr (requires { prepared.processing; }) {
    CallArrays<fairdraw_processing>::each_lists([&](const ListNames& /*names*/, auto lists) {
      lists(call.processing).size =
          static_cast<std::int64_t>(lists(prepared.processing).data.size());
    });
  }
  CallArrays<Call>::each(call, [&](auto field, const CallArray& array) {
    auto& pointer = field(call);
    if constexpr (is_result<decltype(pointer)>) {
      if (field(wanted)) pointer = arrays.result(array, field(response));
    } else {
      const auto& values = [&]() -> const auto& {
        if constexpr (requires { field(prepared); }) {
          return field(prepared);
        } else {
          return field(request);
        }
      }();
      using Value = ValueOf<decltype(pointer)>;
      if constexpr (requires { arrays.input(array, values); }) {
        pointer = arrays.input(array, values);
      } else if constexpr (std::is_void_v<Value>) {
        pointer = arrays.input(array, values.bytes());
      } else {
        pointer = arrays.input(array, std::span<const Value>(values));
      }
    }
  });
}

/// Returns whether the sampler broke, so that it has neither refused the call nor answered it.
template <class Answer>
bool broke(const Sampler& sampler, Answer& response) {
  const std::string why = sampler.broken();
  if (why.empty()) return false;
  response.refused.clear();
  response.damage = why;
  return true;
}

/// Runs a call whose arrays are placed, and takes its results unless the sampler broke. Afterwards
/// the caller's floating-point environment is restored, for oracles and statistics.
template <class Answer, class Run>
void answer_call(Sampler& sampler, const PlacedArrays& arrays, Answer& response, const Run& run) {
  {
    const KeptFloatEnvironment scope;
    response.refused = run();
  }
  if (broke(sampler, response)) return;
  response.damage = arrays.damage();
  arrays.take();
}

}  // namespace fairdraw::harness
