// The part of a row that a block owns: how it gets on chip, and how threads walk over it.
//
// A row is cut into vectors of 16 bytes, aligned in memory; where the row does not start or end at
// a boundary, the first and last vector hold values that are absent. All warps of the row's blocks
// own as many consecutive vectors, lane l of step i a warp's vector i * 32 + l: so blocks, warps,
// steps, lanes and components follow one another in token-id order.
//
// The first `resident` steps of every warp lie in shared memory. On compute capability 9.0 one
// bulk copy a warp brings them, without registers and with one instruction; elsewhere each lane
// copies its own (cp.async). The other steps are read from global memory each time, which is L2
// after the first.
//
// Banned tokens become absent in the first scan, which has seen their values for NaN and +inf.
// Every later walk sees values that are finite, or absent: -inf for logits, 0 for probabilities.
//
// A processed row (edit_rows.cu) differs from memory at its edits. Where a float32 is resident the
// first scan writes its edited value into its slot; values that come from memory, and those of 16
// bits, which a float32 does not fit into, are edited each time they are read. That costs a load of
// 8 bytes for each vector, of a word that its neighbours share.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/device/warp_sums.cuh"
#include "cuda/processing/edit_planes.h"
#include "cuda/row_filter/row_shape.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// The largest of two, NaN where one is NaN.
__device__ inline float max_or_nan(float a, float b) {
  float largest = 0;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(largest) : "f"(a), "f"(b));
  return largest;
}

/// The edits of one row. `bits` null: the row is as the caller has it.
struct RowEditsView {
  const EditBits* bits = nullptr;
  const float* values = nullptr;
};

template <DType kType, bool kFromProbs, int kThreads, bool kProcessed>
class RowSegment {
 public:
  static constexpr int kPerVector = kType == DType::float32 ? 4 : 8;
  static constexpr int kValueBytes = kType == DType::float32 ? 4 : 2;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr std::uint32_t kAbsent = kFromProbs                ? 0U
                                           : kType == DType::float32 ? 0xff800000U
                                           : kType == DType::float16 ? 0xfc00fc00U
                                                                     : 0xff80ff80U;

  /// What the first scan finds in one thread's vectors.
  struct Found {
    float max;           ///< largest allowed value
    float even, odd;     ///< the same of the even and of the odd components alone
    float streamed_max;  ///< of the steps that are not resident
    float raw_max;       ///< largest value, banned or not; NaN where there is one
    bool negative;       ///< some value is below zero (probabilities only)
  };

  /// Reads of steps that are not resident, kStepsAhead of them under way.
  struct Stream {
    uint4 ahead[kStepsAhead];
    int vector, end, step;
  };

  /// Resident steps hold processed values after the scan.
  static constexpr bool kStoresEdits = kType == DType::float32;

  /// `allowed`: null where there are edits, which hold it. `store`: shared memory of the block,
  /// resident * kWarps * 512 bytes, 16-byte aligned.
  __device__ __forceinline__ RowSegment(const RowsView& rows, std::int64_t row,
                                        const std::uint32_t* allowed, const RowEditsView& edits,
                                        const RowShape& shape, int rank, uint4* store)
      : allowed_(allowed),
        edits_(edits),
        store_(store),
        vocab_(static_cast<int>(rows.vocab)),
        warp_vectors_(shape.warp_vectors),
        steps_(shape.steps),
        resident_(shape.resident),
        rank_(rank) {
    row_ = static_cast<const std::uint8_t*>(rows.data) + row * rows.row_stride * kValueBytes;
    const bool element_aligned = reinterpret_cast<std::uintptr_t>(row_) % kValueBytes == 0;
    head_ = place_of_first_token(row_, kType);
    vectors_ = (vocab_ + head_ + kPerVector - 1) / kPerVector;
    whole_begin_ = head_ > 0 ? 1 : 0;
    whole_end_ = element_aligned ? (vocab_ + head_) / kPerVector : whole_begin_;
  }

  /// Starts bringing the resident steps of this warp. `loaded` is this warp's barrier.
  __device__ __forceinline__ void start_load(std::uint64_t* loaded, bool bulk_copies) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int begin = first_vector(warp);
    const int end = min(begin + min(resident_ * kWarp, warp_vectors_), vectors_);
    const int whole_begin = max(begin, whole_begin_);
    const int whole_end = max(whole_begin, min(end, whole_end_));
    uint4* mine = store_ + warp * resident_ * kWarp;
    bool bulk = false;
#if __CUDA_ARCH__ >= 900
    bulk = bulk_copies;
    if (bulk && lane == 0) {
      const auto barrier = static_cast<std::uint32_t>(__cvta_generic_to_shared(loaded));
      const std::uint32_t bytes = static_cast<std::uint32_t>(whole_end - whole_begin) * 16U;
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                   "r"(bytes)
                   : "memory");
      if (bytes > 0) {
        const auto to =
            static_cast<std::uint32_t>(__cvta_generic_to_shared(mine + (whole_begin - begin)));
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
            "[%3];" ::"r"(to),
            "l"(vector_address(whole_begin)), "r"(bytes), "r"(barrier)
            : "memory");
      }
    }
    __syncwarp();  // the barrier is initialised
#endif
    if (bulk && whole_begin == begin && whole_end == begin + resident_ * kWarp) return;
    for (int step = 0; step < resident_; ++step) {
      const int vector = begin + step * kWarp + lane;
      uint4* slot = mine + step * kWarp + lane;
      if (vector >= whole_begin && vector < whole_end) {
        if (!bulk) {
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                           static_cast<std::uint32_t>(__cvta_generic_to_shared(slot))),
                       "l"(vector_address(vector))
                       : "memory");
        }
      } else {
        *slot = vector < end ? load_edge(vector) : absent_vector();
      }
    }
  }

  /// Waits for the resident steps of this warp.
  __device__ __forceinline__ void finish_load(std::uint64_t* loaded, bool bulk_copies) const {
#if __CUDA_ARCH__ >= 900
    if (bulk_copies) {
      const auto barrier = static_cast<std::uint32_t>(__cvta_generic_to_shared(loaded));
      std::uint32_t done = 0;
      while (done == 0) {
        asm volatile(
            "{\n\t.reg .pred p;\n\t"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n\t"
            "selp.u32 %0, 1, 0, p;\n\t}"
            : "=r"(done)
            : "r"(barrier)
            : "memory");
      }
      return;
    }
#endif
    asm volatile("cp.async.wait_all;" ::: "memory");
  }

  /// Starts to bring the warp's words of bits into L2, before the row is asked for.
  __device__ __forceinline__ void prefetch_changes() const {
    if (allowed_ == nullptr) return;  // edits are there: they have just been written
    constexpr int kTokensOfLine = 1024;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int end = min(end_of(warp) * kPerVector, vocab_);
    for (int token = first_vector(warp) * kPerVector + lane_of() * kTokensOfLine; token < end;
         token += kWarp * kTokensOfLine) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(allowed_ + token / 32));
    }
  }

  /// Starts to read the steps that are not resident.
  __device__ __forceinline__ Stream open_stream(bool wanted) const {
    Stream stream;
    stream.vector =
        first_vector(static_cast<int>(threadIdx.x) / kWarp) + lane_of() + resident_ * kWarp;
    stream.end = wanted ? end_of(static_cast<int>(threadIdx.x) / kWarp) : 0;
    stream.step = resident_;
    if (resident_ >= steps_) return stream;
#pragma unroll
    for (int i = 0; i < kStepsAhead; ++i) stream.ahead[i] = fetch(stream, i);
    return stream;
  }

  /// Waits for the load and takes the first walk: the largest values, and banned tokens out of the
  /// way. sample is called with each vector
  /// and the thread's largest value so far.
  template <class Sample>
  __device__ __forceinline__ Found scan(Stream& stream, std::uint64_t* loaded, bool bulk_copies,
                                        Sample&& sample) {
    constexpr float kNone = kFromProbs ? 0.0F : -INFINITY;
    struct Largest {
      float even = kNone, odd = kNone;
    };
    Largest seen;  // banned or not, NaN where there is one
    Largest kept;  // allowed
    bool negative = false;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const auto see = [&](const float(&x)[kPerVector]) {
#pragma unroll
      for (int j = 0; j < kPerVector; ++j) {
        float& largest = j % 2 == 0 ? seen.even : seen.odd;
        largest = max_or_nan(largest, x[j]);
        if constexpr (kFromProbs) negative |= x[j] < 0.0F;
      }
    };
    const auto keep = [&](const float(&x)[kPerVector]) {
#pragma unroll
      for (int j = 0; j < kPerVector; ++j) {
        float& largest = j % 2 == 0 ? kept.even : kept.odd;
        largest = fmaxf(largest, x[j]);
      }
      sample(x, fmaxf(kept.even, kept.odd));
    };
    const int begin = first_vector(warp) + lane_of();
    uint4* slot = own_slot(warp);
    finish_load(loaded, bulk_copies);
    if (!differs()) {
#pragma unroll 4
      for (int step = 0; step < resident_; ++step) {
        float x[kPerVector];
        unpack(slot[step * kWarp], x);
        see(x);
        sample(x, fmaxf(seen.even, seen.odd));
      }
    } else {
      // Edited values come apart, from memory: few vectors have one.
      std::uint32_t edited_steps = 0;
      const int end = end_of(warp);
      const ChangeWalk walk = walk_changes(begin);
#pragma unroll 4
      for (int step = 0; step < resident_; ++step) {
        const Changes changes = walk.at(step, begin + step * kWarp < end);
        uint4 raw = slot[step * kWarp];
        float x[kPerVector];
        unpack(raw, x);
        see(x);
        raw = without(raw, changes.banned | changes.edited);
        unpack(raw, x);
        keep(x);
        slot[step * kWarp] = raw;
        if constexpr (kProcessed) edited_steps |= (changes.edited != 0 ? 1U : 0U) << step;
      }
      if constexpr (kProcessed) {
        for (; edited_steps != 0; edited_steps &= edited_steps - 1) {
          const int step = __ffs(static_cast<int>(edited_steps)) - 1;
          float x[kPerVector];
          edited_alone(begin + step * kWarp, x);
          keep(x);
          if constexpr (kStoresEdits) store_over(slot[step * kWarp], x);
        }
      }
    }
    const auto look = [&](uint4 raw, int vector) {
      float x[kPerVector];
      unpack(raw, x);
      see(x);
      if (!differs()) {
        sample(x, fmaxf(seen.even, seen.odd));
        return;
      }
      unpack(allowed_ == nullptr ? raw : ban(raw, vector), x);
      if constexpr (kProcessed) edit(x, vector, end_of(warp));
      keep(x);
    };
    // The streamed steps apart: where they hold nothing of interest they are not read again.
    const Largest resident = differs() ? kept : seen;
    const float resident_raw_max = max_or_nan(seen.even, seen.odd);
    seen = kept = {};
    drain(stream, [&](uint4 raw, int, int vector) { look(raw, vector); });
    const Largest streamed = differs() ? kept : seen;
    Found found;
    found.even = fmaxf(resident.even, streamed.even);
    found.odd = fmaxf(resident.odd, streamed.odd);
    found.max = fmaxf(found.even, found.odd);
    found.streamed_max = fmaxf(streamed.even, streamed.odd);
    found.raw_max = max_or_nan(resident_raw_max, max_or_nan(seen.even, seen.odd));
    found.negative = negative;
    return found;
  }

  /// Calls visit(x, position of x[0]) for each vector of this thread, in order. A thread that wants
  /// nothing sees absent values where looking would cost a read of global memory.
  template <class Visit>
  __device__ __forceinline__ void for_each(Visit&& visit, bool wanted = true) const {
    Stream stream = open_stream(wanted);
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int position = position_of(warp, 0);
    const uint4* slot = own_slot(warp);
#pragma unroll 2
    for (int step = 0; step < resident_; ++step) {
      float x[kPerVector];
      unpack(slot[step * kWarp], x);
      if constexpr (kProcessed && !kStoresEdits) edit_read(warp, step, lane_of(), x);
      visit(x, position + step * kWarp * kPerVector);
    }
    drain(stream, [&](uint4 raw, int step, int vector) {
      if (allowed_ != nullptr) raw = ban(raw, vector);
      float x[kPerVector];
      unpack(raw, x);
      if constexpr (kProcessed) edit(x, vector, end_of(warp));
      visit(x, position + step * kWarp * kPerVector);
    });
  }

  /// This lane's vector of any warp and step of the block; absent after the last step.
  __device__ __forceinline__ void read(int warp, int step, float (&x)[kPerVector]) const {
    uint4 raw = absent_vector();
    if (step < resident_) {
      raw = own_slot(warp)[step * kWarp];
    } else {
      raw = read_from_memory(warp, step * kWarp + lane_of());
    }
    unpack(raw, x);
    edit_read(warp, step, lane_of(), x);
  }

  /// A vector of this thread's warp; absent after the last step.
  __device__ __forceinline__ void read_of_lane(int lane, int step, float (&x)[kPerVector]) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    uint4 raw = absent_vector();
    if (step < resident_) {
      raw = store_[(warp * resident_ + step) * kWarp + lane];
    } else {
      raw = read_from_memory(warp, step * kWarp + lane);
    }
    unpack(raw, x);
    edit_read(warp, step, lane, x);
  }

  /// A value of a warp by its number there: (step * 32 + lane) * kPerVector + component. Not
  /// banned.
  __device__ __forceinline__ float value(int warp, int number) const {
    const auto* of_warp = reinterpret_cast<const std::uint8_t*>(store_ + warp * resident_ * kWarp);
    const std::uint8_t* at = of_warp + number * kValueBytes;
    const bool in_memory = number >= resident_ * kWarp * kPerVector;
    if constexpr (kProcessed) {
      if (edits_.bits != nullptr && (in_memory || !kStoresEdits)) {
        const int place = first_vector(warp) * kPerVector + number;
        const EditBits word = edits_.bits[place / 32];
        if (((word.x >> (place % 32)) & 1U) != 0) return edits_.values[place];
      }
    }
    if (in_memory) {
      const int vector = first_vector(warp) + number / kPerVector;
      at = vector_address(vector) + number % kPerVector * kValueBytes;
      if (vector < whole_begin_ || vector >= whole_end_) return value_of_bytes(at);
    }
    if constexpr (kType == DType::float32) {
      return *reinterpret_cast<const float*>(at);
    } else {
      return widen(*reinterpret_cast<const std::uint16_t*>(at));
    }
  }
  /// Token id of a warp's value number 0.
  __device__ __forceinline__ int first_position(int warp) const {
    return first_vector(warp) * kPerVector - head_;
  }

  /// Token id of component 0 of this lane's vector.
  __device__ __forceinline__ int position_of(int warp, int step) const {
    return (first_vector(warp) + step * kWarp + lane_of()) * kPerVector - head_;
  }

  __device__ __forceinline__ int steps() const { return steps_; }
  __device__ __forceinline__ int resident() const { return resident_; }

 private:
  __device__ __forceinline__ static int lane_of() { return static_cast<int>(threadIdx.x) % kWarp; }

  __device__ __forceinline__ int first_vector(int warp) const {
    return (rank_ * kWarps + warp) * warp_vectors_;
  }
  __device__ __forceinline__ int end_of(int warp) const {
    return min(first_vector(warp) + warp_vectors_, vectors_);
  }

  /// A vector of a warp by its number there; absent after the last.
  __device__ __forceinline__ uint4 read_from_memory(int warp, int number) const {
    const int vector = first_vector(warp) + number;
    if (vector >= end_of(warp)) return absent_vector();
    const uint4 raw = load(vector);
    return allowed_ == nullptr ? raw : ban(raw, vector);
  }

  __device__ __forceinline__ uint4* own_slot(int warp) const {
    return store_ + warp * resident_ * kWarp + lane_of();
  }

  __device__ __forceinline__ static uint4 absent_vector() {
    return make_uint4(kAbsent, kAbsent, kAbsent, kAbsent);
  }

  /// Of an element-aligned row.
  __device__ __forceinline__ const std::uint8_t* vector_address(int vector) const {
    return row_ + (static_cast<std::int64_t>(vector) * kPerVector - head_) * kValueBytes;
  }

  /// Any vector; after the row's end it is absent.
  __device__ __forceinline__ uint4 load(int vector) const {
    if (vector >= whole_begin_ && vector < whole_end_) {
      // Volatile, so that reads that were started early stay early.
      uint4 raw;
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
                   : "l"(vector_address(vector)));
      return raw;
    }
    return load_edge(vector);
  }

  __device__ __forceinline__ uint4 load_edge(int vector) const {
    if (vector >= vectors_) return absent_vector();
    return read_bytes(row_, vector * kPerVector - head_, vocab_);
  }

  /// A vector that is not whole, or of a row whose values are not aligned: byte by byte.
  __device__ __noinline__ static uint4 read_bytes(const std::uint8_t* row, int first, int vocab) {
    constexpr int kPerWord = 4 / kValueBytes;
    std::uint32_t words[4];
    for (int w = 0; w < 4; ++w) {
      std::uint32_t word = 0;
      for (int part = 0; part < kPerWord; ++part) {
        const int position = first + w * kPerWord + part;
        std::uint32_t bits = kValueBytes == 4 ? kAbsent : kAbsent & 0xffffU;
        if (position >= 0 && position < vocab) {
          bits = 0;
          const std::uint8_t* at = row + static_cast<std::int64_t>(position) * kValueBytes;
          for (int byte = 0; byte < kValueBytes; ++byte) {
            bits |= static_cast<std::uint32_t>(at[byte]) << (8 * byte);
          }
        }
        word |= bits << (16 * part);
      }
      words[w] = word;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  /// Whether the row that is seen may differ from the caller's.
  __device__ __forceinline__ bool differs() const {
    return allowed_ != nullptr || (kProcessed && edits_.bits != nullptr);
  }

  /// What of a vector differs from memory, a bit a component. Edited ones are not banned.
  struct Changes {
    unsigned banned, edited;
  };

  /// The changes of a lane's vectors, step by step: 32 vectors on, bits lie in the same place of a
  /// word.
  struct ChangeWalk {
    static constexpr int kWordsOfStep = kPerVector;
    static constexpr unsigned kOfVector = (1U << kPerVector) - 1U;

    const EditBits* edits;         ///< of step 0; null: of a row that is not processed
    const std::uint32_t* allowed;  ///< of the row
    int word, words, shift;        ///< of `allowed`: of step 0, of the row

    /// `there`: the vector is the warp's own. After its end are absent values, whose places are
    /// another warp's.
    __device__ __forceinline__ Changes at(int step, bool there) const {
      if (kProcessed && edits != nullptr) {
        const EditBits bits = there ? edits[step * kWordsOfStep] : make_uint2(0U, 0U);
        const unsigned banned = (bits.y >> shift) & kOfVector;
        return {banned, (bits.x >> shift) & kOfVector & ~banned};
      }
      // Bits beyond the vocabulary mean nothing: there is no value either.
      const int first = word + step * kWordsOfStep;
      const auto read = [&](int i) { return i >= 0 && i < words ? allowed[i] : ~0U; };
      const unsigned low = read(first);
      const unsigned high = shift > 32 - kPerVector ? read(first + 1) : 0U;
      return {~__funnelshift_r(low, high, shift) & kOfVector, 0U};
    }
  };

  __device__ __forceinline__ ChangeWalk walk_changes(int vector) const {
    const int place = vector * kPerVector;
    if (kProcessed && edits_.bits != nullptr) {
      return {edits_.bits + place / 32, nullptr, 0, 0, place % 32};
    }
    const int token = place - head_;
    return {nullptr, allowed_, token >> 5, (vocab_ + 31) / 32, token & 31};
  }

  /// Of one vector; `end`: of the warp that owns it.
  __device__ __forceinline__ Changes changes_of(int vector, int end) const {
    return walk_changes(vector).at(0, vector < end);
  }

  /// A vector with some components made absent.
  __device__ __forceinline__ static uint4 without(const uint4& raw, unsigned components) {
    std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (kValueBytes == 4) {
        words[w] = ((components >> w) & 1U) != 0 ? kAbsent : words[w];
      } else {
        const std::uint32_t mask = (((components >> (2 * w)) & 1U) != 0 ? 0xffffU : 0U) |
                                   (((components >> (2 * w + 1)) & 1U) != 0 ? 0xffff0000U : 0U);
        words[w] = (words[w] & ~mask) | (kAbsent & mask);
      }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  /// The edited values of a vector; the others are absent.
  __device__ __forceinline__ void edited_alone(int vector, float (&x)[kPerVector]) const {
    const Changes changes = changes_of(vector, vector + 1);
#pragma unroll
    for (int j = 0; j < kPerVector; ++j) {
      const bool edited = ((changes.edited >> j) & 1U) != 0;
      x[j] = edited ? edits_.values[vector * kPerVector + j] : -INFINITY;
    }
  }
  __device__ __forceinline__ static void store_over(uint4& slot, const float (&x)[kPerVector]) {
    std::uint32_t* words = &slot.x;
#pragma unroll
    for (int j = 0; j < kPerVector; ++j) {
      if (x[j] != -INFINITY) words[j] = __float_as_uint(x[j]);
    }
  }

  /// A vector's values as its edits make them. `end`: as for changes_of.
  __device__ __forceinline__ void edit(float (&x)[kPerVector], int vector, int end) const {
    if (edits_.bits == nullptr) return;
    const Changes changes = changes_of(vector, end);
#pragma unroll
    for (int j = 0; j < kPerVector; ++j) {
      x[j] = ((changes.banned >> j) & 1U) != 0 ? -INFINITY : x[j];
    }
    if (changes.edited == 0) return;
#pragma unroll
    for (int quad = 0; quad < kPerVector; quad += 4) {
      const float4 made =
          edited_quad(make_float4(x[quad], x[quad + 1], x[quad + 2], x[quad + 3]),
                      changes.edited >> quad, edits_.values + vector * kPerVector + quad);
      x[quad] = made.x;
      x[quad + 1] = made.y;
      x[quad + 2] = made.z;
      x[quad + 3] = made.w;
    }
  }
  __device__ __noinline__ static float4 edited_quad(float4 x, unsigned edited,
                                                    const float* values) {
    const auto made = [&](float value, int j) {
      return ((edited >> j) & 1U) != 0 ? values[j] : value;
    };
    return make_float4(made(x.x, 0), made(x.y, 1), made(x.z, 2), made(x.w, 3));
  }

  /// The edits of what read() gives.
  __device__ __forceinline__ void edit_read(int warp, int step, int lane,
                                            float (&x)[kPerVector]) const {
    if constexpr (kProcessed) {
      if (step < resident_ && kStoresEdits) return;
      edit(x, first_vector(warp) + step * kWarp + lane, end_of(warp));
    }
  }

  __device__ __forceinline__ uint4 ban(uint4 raw, int vector) const {
    return without_banned(raw, allowed_, vector * kPerVector - head_, vocab_);
  }

  /// Banned tokens of a vector made absent. Bits beyond the vocabulary mean nothing.
  __device__ __noinline__ static uint4 without_banned(uint4 raw, const std::uint32_t* allowed,
                                                      int first, int vocab) {
    std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int j = 0; j < kPerVector; ++j) {
      const int position = first + j;
      if (position < 0 || position >= vocab) continue;
      if (((allowed[position / 32] >> (position % 32)) & 1U) != 0) continue;
      if constexpr (kValueBytes == 4) {
        words[j] = kAbsent;
      } else {
        const std::uint32_t half = j % 2 == 0 ? 0xffffU : 0xffff0000U;
        words[j / 2] = (words[j / 2] & ~half) | (kAbsent & half);
      }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  __device__ __noinline__ static float value_of_bytes(const std::uint8_t* at) {
    std::uint32_t bits = 0;
    for (int byte = 0; byte < kValueBytes; ++byte) {
      bits |= static_cast<std::uint32_t>(at[byte]) << (8 * byte);
    }
    if constexpr (kType == DType::float32) {
      return __uint_as_float(bits);
    } else {
      return widen(static_cast<std::uint16_t>(bits));
    }
  }

  /// A 16-bit value as the float of equal value.
  __device__ __forceinline__ static float widen(std::uint16_t bits) {
    if constexpr (kType == DType::float16) return __half2float(__ushort_as_half(bits));
    return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
  }

  __device__ __forceinline__ static void unpack(const uint4& raw, float (&x)[kPerVector]) {
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (kType == DType::float32) {
        x[w] = __uint_as_float(words[w]);
      } else if constexpr (kType == DType::bfloat16) {
        x[2 * w] = __uint_as_float(words[w] << 16);
        x[2 * w + 1] = __uint_as_float(words[w] & 0xffff0000U);
      } else {
        x[2 * w] = widen(static_cast<std::uint16_t>(words[w]));
        x[2 * w + 1] = widen(static_cast<std::uint16_t>(words[w] >> 16));
      }
    }
  }

  __device__ __forceinline__ uint4 fetch(const Stream& stream, int ahead) const {
    const int vector = stream.vector + ahead * kWarp;
    return vector < stream.end ? load(vector) : absent_vector();
  }
  template <class Visit>
  __device__ __forceinline__ void drain(Stream& stream, Visit&& visit) const {
#pragma unroll 1
    while (stream.step < steps_) {
      const uint4 raw = stream.ahead[0];
#pragma unroll
      for (int i = 0; i + 1 < kStepsAhead; ++i) stream.ahead[i] = stream.ahead[i + 1];
      stream.ahead[kStepsAhead - 1] = fetch(stream, kStepsAhead);
      visit(raw, stream.step, stream.vector);
      ++stream.step;
      stream.vector += kWarp;
    }
  }

  const std::uint8_t* row_;
  const std::uint32_t* allowed_;
  RowEditsView edits_;
  uint4* store_;
  int vocab_, vectors_, whole_begin_, whole_end_, head_, warp_vectors_, steps_, resident_, rank_;
};

}  // namespace fairdraw::cuda
