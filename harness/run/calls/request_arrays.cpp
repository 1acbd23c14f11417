#include "harness/run/calls/request_arrays.h"

#include <sys/mman.h>

#include <stdexcept>

#include "harness/inputs/families.h"

namespace fairdraw::harness {
namespace {

// A matrix above this number of bytes is placed in memory that is only reserved.
constexpr std::size_t kSparseFrom = std::size_t{1} << 30;

// Mixes a word into a state, by a bijection of the state for each word and of the word for each
// state.
std::uint64_t step(std::uint64_t state, std::uint64_t word) {
  const std::uint64_t product = (state ^ word) * 0xff51afd7ed558ccd;
  return product ^ (product >> 32);
}

// Returns a hash that changes if any word changes. Inputs are hashed twice per call, so the hash
// must be fast. Each step of a hash depends on the step before, so the code uses four independent
// states in turn.
std::uint64_t hash_of(const void* data, std::size_t size) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const auto* const bytes = static_cast<const std::byte*>(data);
  const auto word_at = [bytes](std::size_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, kWord);
    return word;
  };
  std::uint64_t a = 0, b = 0, c = 0, d = 0;
  std::size_t at = 0;
  for (; size - at >= 4 * kWord; at += 4 * kWord) {
    a = step(a, word_at(at));
    b = step(b, word_at(at + kWord));
    c = step(c, word_at(at + 2 * kWord));
    d = step(d, word_at(at + 3 * kWord));
  }
  for (; at < size; at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min(kWord, size - at));
    a = step(a, word);
  }
  return step(step(step(a, b), c), d);
}

}  // namespace

std::size_t element_size(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

void encode(DType dtype, const float* values, std::size_t count, std::byte* target) {
  if (count == 0) return;  // because memcpy must not get a null `target`
  if (dtype == DType::float32) {
    std::memcpy(target, values, count * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t bits =
        dtype == DType::float16 ? to_float16(values[i]) : to_bfloat16(values[i]);
    std::memcpy(target + i * sizeof(bits), &bits, sizeof(bits));
  }
}

Memory* result_memory(Memory* memory, std::size_t bytes) {
  if (memory != std::pmr::get_default_resource()) return memory;
  ArraySlots* const slots = result_slots();
  return slots != nullptr && slots->has_room(bytes) ? slots : memory;
}

std::string touched_around(const Memory* memory, const char* name, const void* place) {
  const auto* const slots = dynamic_cast<const ArraySlots*>(memory);
  if (slots == nullptr) return {};
  switch (slots->around(place)) {
    case ArraySlots::Touched::in_front:
      return std::string("touched memory in front of ") + name;
    case ArraySlots::Touched::behind:
      return std::string("touched memory behind ") + name;
    case ArraySlots::Touched::nothing:
      break;
  }
  return {};
}

SparseMemory::SparseMemory(Memory* memory, std::size_t size) : memory_(memory), size_(size) {
  if (memory != std::pmr::get_default_resource()) {  // because the sampler's own memory is sparse
    data_ = static_cast<std::byte*>(memory->allocate(size));
    return;
  }
  void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped != MAP_FAILED) data_ = static_cast<std::byte*>(mapped);
}

SparseMemory::~SparseMemory() {
  if (memory_ != std::pmr::get_default_resource()) {
    memory_->deallocate(data_, size_);
    return;
  }
  if (data_ != nullptr) munmap(data_, size_);
}

EncodedLogits::EncodedLogits(Memory* memory, const Request& request)
    : stride_(request.row_stride == 0 ? request.vocab : request.row_stride), storage_(memory) {
  const std::size_t size = element_size(request.dtype);
  const auto stride = static_cast<std::size_t>(stride_);
  const auto rows = static_cast<std::size_t>(request.rows);
  const auto vocab = static_cast<std::size_t>(request.vocab);
  // An empty batch also needs a pointer that is not null.
  const bool as_it_is = rows > 0 && request.dtype == DType::float32 && stride_ == request.vocab &&
                        request.misalignment == 0 && memory == std::pmr::get_default_resource();
  if (as_it_is) {
    data_ = request.logits.data();
    size_ = rows * vocab * size;
    return;
  }
  const std::size_t bytes = rows * stride * size;
  std::byte* first = nullptr;
  if (bytes >= kSparseFrom) {
    sparse_ = std::make_unique<SparseMemory>(memory, bytes + 64);
    if (sparse_->data() == nullptr) throw std::bad_alloc();
    first = sparse_->data() + request.misalignment;
  } else {
    storage_.resize(bytes + 128);
    void* aligned = storage_.data();
    std::size_t space = storage_.size();
    aligned = std::align(64, bytes, aligned, space);
    first = static_cast<std::byte*>(aligned) + request.misalignment;
    std::memset(first, 0xff, bytes);  // this pattern is NaN in all three dtypes
    size_ = bytes;
  }
  for (std::size_t row = 0; row < rows; ++row) {
    encode(request.dtype, request.logits.data() + row * vocab, vocab, first + row * stride * size);
  }
  data_ = first;
}

Encoded::Encoded(DType dtype, std::span<const float> values) {
  if (dtype == DType::float32) {
    wide_ = std::as_bytes(values);
    return;
  }
  narrow_.resize(values.size() * element_size(dtype));
  encode(dtype, values.data(), values.size(), narrow_.data());
}

FilterArrays::FilterArrays(std::span<const reference::RowParameters> parameters) {
  for (const reference::RowParameters& row : parameters) {
    temperature.push_back(row.temperature);
    top_k.push_back(row.top_k);
    top_p.push_back(row.top_p);
    min_p.push_back(row.min_p);
  }
}

void PlacedArrays::expect_size(const CallArray& array, std::size_t bytes) {
  if (static_cast<std::int64_t>(bytes) >= array.bytes()) return;
  throw std::logic_error(std::string(array.name) + " has " + std::to_string(bytes) +
                         " bytes; allowed: at least the " + std::to_string(array.bytes()) +
                         " that the call describes");
}

void PlacedArrays::watch(const char* name, const void* data, std::size_t size) {
  if (size > 0) inputs_.push_back({name, data, size, hash_of(data, size)});
}

std::string PlacedArrays::damage() const {
  for (const Watched& array : inputs_) {
    if (hash_of(array.data, array.size) != array.hash) {
      return std::string("changed ") + array.name + ", which it may only read";
    }
    std::string touched = touched_around(memory_, array.name, array.data);
    if (!touched.empty()) return touched;
  }
  for (const auto& result : results_) {
    if (std::string damage = result->damage(); !damage.empty()) return damage;
  }
  return {};
}

void PlacedArrays::take() const {
  for (const auto& result : results_) result->take();
}

}  // namespace fairdraw::harness
