// The arrays of one call: results with guards around them, logits as they lie in memory, and a
// watch over everything that is only to be read. For request.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/calls/request.h"

namespace fairdraw::harness {

using Memory = std::pmr::memory_resource;

/// A result array of `rows` rows of `width` values, `gap` values apart, with guards in front,
/// after and between: whatever is not a result keeps its pattern. Null when it is not wanted.
template <class T>
class Guarded {
 public:
  Guarded(Memory* memory, bool wanted, std::int64_t rows, std::int64_t width, std::int64_t gap,
          T pattern)
      : rows_(static_cast<std::size_t>(rows)),
        width_(static_cast<std::size_t>(width)),
        stride_(static_cast<std::size_t>(width + gap)),
        pattern_(pattern),
        values_(memory) {
    if (wanted) values_.assign(rows_ * stride_ + 2 * kGuard, pattern);
  }
  Guarded(Memory* memory, bool wanted, std::int64_t size, T pattern)
      : Guarded(memory, wanted, 1, size, 0, pattern) {}

  T* data() { return values_.empty() ? nullptr : values_.data() + kGuard; }

  /// Where something else than results was written; empty: nowhere.
  std::string damage(const char* name) const {
    if (values_.empty()) return {};
    const std::size_t end = values_.size() - kGuard;
    if (touched(0, kGuard)) return std::string("wrote in front of ") + name;
    if (touched(end, values_.size())) return std::string("wrote past the end of ") + name;
    for (std::size_t row = 0; row < rows_ && stride_ > width_; ++row) {
      const std::size_t first = kGuard + row * stride_;
      if (touched(first + width_, first + stride_)) {
        return std::string("wrote between two rows of ") + name;
      }
    }
    return {};
  }

  std::vector<T> take() const {
    std::vector<T> compact;
    for (std::size_t row = 0; !values_.empty() && row < rows_; ++row) {
      const auto first = values_.begin() + static_cast<std::ptrdiff_t>(kGuard + row * stride_);
      compact.insert(compact.end(), first, first + static_cast<std::ptrdiff_t>(width_));
    }
    return compact;
  }

 private:
  static constexpr std::size_t kGuard = 16;

  bool touched(std::size_t first, std::size_t last) const {
    const auto begin = values_.begin();
    return std::any_of(
        begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last),
        [this](const T& value) { return std::memcmp(&value, &pattern_, sizeof(T)) != 0; });
  }

  std::size_t rows_, width_, stride_;
  T pattern_;
  std::pmr::vector<T> values_;
};

/// Values that a call reads: where they are, or, for a sampler that has memory of its own, there.
template <class T>
class Placed {
 public:
  Placed(Memory* memory, const std::vector<T>& values) : data_(values.data()), copy_(memory) {
    if (memory == std::pmr::get_default_resource() || values.empty()) return;
    copy_.assign(values.begin(), values.end());
    data_ = copy_.data();
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;
  const T* data() const { return data_; }

 private:
  const T* data_;
  std::pmr::vector<T> copy_;
};

/// Values in a dtype, as bytes.
void encode(DType dtype, const float* values, std::size_t count, std::byte* target);
std::size_t element_size(DType dtype);

/// Memory that costs what is touched of it: for rows that lie gigabytes apart.
class SparseMemory {
 public:
  SparseMemory(Memory* memory, std::size_t size);  ///< data() is null where the system gives none
  ~SparseMemory();
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  Memory* memory_;
  std::byte* data_ = nullptr;
  std::size_t size_;
};

/// The logits in their dtype, at the alignment and stride that the request asks for.
class EncodedLogits {
 public:
  EncodedLogits(Memory* memory, const Request& request);
  const void* data() const { return data_; }
  std::int64_t stride() const { return stride_; }
  std::size_t size() const { return size_; }  ///< in bytes, from data() on; 0: too many to look at

 private:
  std::int64_t stride_;
  std::pmr::vector<std::byte> storage_;
  std::unique_ptr<SparseMemory> sparse_;
  const void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Arrays that a call may only read.
class ReadOnly {
 public:
  template <class T>
  void watch(const char* name, const T* values, std::size_t count) {
    if (values != nullptr) watch_bytes(name, values, count * sizeof(T));
  }
  void watch_bytes(const char* name, const void* data, std::size_t size);
  /// Which of them are not what they were; empty: none.
  std::string damage() const;

 private:
  struct Array {
    const char* name;
    const void* data;
    std::size_t size;
    std::uint64_t hash;
  };
  std::vector<Array> arrays_;
};

/// What was written that is no result; empty: nothing.
template <class... Arrays>
std::string damage_of(const ReadOnly& inputs, const std::pair<const char*, Arrays*>&... results) {
  std::string damage = inputs.damage();
  const auto add = [&damage](const std::string& more) {
    if (damage.empty()) damage = more;
  };
  (add(results.second->damage(results.first)), ...);
  return damage;
}

/// A sampler that broke has neither refused the call nor answered it.
template <class Answer>
bool broke(const Sampler& sampler, Answer& response) {
  const std::string why = sampler.broken();
  if (why.empty()) return false;
  response.refused.clear();
  response.damage = why;
  return true;
}

}  // namespace fairdraw::harness
