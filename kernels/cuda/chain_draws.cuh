// What verification of a chain draws: of a residual, or of a target's row, by 1 to 8 blocks; and
// the test of a drafted token. In integers (fairdraw/sampling.h, chain_speculative_sampling).
//
// With target weights P (sum Zp) and draft weights Q (sum Zq), x the drafted token:
//   accept    if P_x > 0 and (P_x Zq >= Q_x Zp or floor(r Q_x Zp / 2^64) < P_x Zq),
//   residual  R_j = max(P_j Zq - Q_j Zp, 0), drawn by its prefix sums in token-id order,
// exactly: products have up to 100 bits, sums of residuals 120, products with a random word 192.
// Where all residuals are 0 the two laws are equal, and the token is drawn from the target.
//
// A draw: the row is cut into chunks of 512 tokens, a warp a chunk, of which every lane loads 8
// values at once; the chunks' sums become prefix sums, the blocks tell each other theirs, and the
// block in which the drawn sum lies finds the chunk, and one warp the token. The row is read once,
// and one chunk twice.
#pragma once

#include <cstdint>

#include "block_sums.cuh"
#include "read_value.cuh"
#include "row_cluster.cuh"
#include "row_weights.cuh"
#include "wide_integers.h"

namespace fairdraw::cuda {

inline constexpr int kLaneTokens = 8;  ///< that a lane loads together
inline constexpr int kLoads = 2;       ///< of a chunk
inline constexpr int kTokensOfLoad = kLaneTokens * kWarpSize;
inline constexpr int kChunk = kLoads * kTokensOfLoad;

/// Blocks that share the draw from a row: each of the warps has a chunk at least; and no more than
/// are all at work at once, four on each of some 128 multiprocessors.
constexpr int blocks_of_draw(std::int64_t vocab, std::int64_t requests, int warps) {
  constexpr std::int64_t kAtOnce = 512;
  int blocks = 1;
  while (blocks < kMostBlocks && vocab > std::int64_t{blocks} * warps * kChunk &&
         2 * blocks * requests <= kAtOnce) {
    blocks *= 2;
  }
  return blocks;
}

/// The law of a row: weigh(token, x) is the weight of a token whose value in memory is x. A weight
/// has 24 bits at most, so that it is a float: arithmetic with integers of 64 bits takes four times
/// the instructions.
template <class Weigh>
struct Law {
  RowValues values;
  Weigh weigh;
  std::uint64_t total;

  __device__ std::uint64_t weight(std::int64_t token) const {
    return static_cast<std::uint64_t>(weigh(token, values[token]));
  }
};

/// The float of an integer weight, from v in [0, 1) (row_weights.cuh).
__device__ inline float float_weight(float v) { return truncf(v * 0x1p40F); }

template <class Target, class Draft>
__device__ bool accepts_draft(const Law<Target>& target, const Law<Draft>& draft,
                              std::int32_t token, std::uint64_t word) {
  const std::uint64_t weight = target.weight(token);
  const uint128_t p = static_cast<uint128_t>(weight) * draft.total;
  const uint128_t q = static_cast<uint128_t>(draft.weight(token)) * target.total;
  return weight > 0 && (p >= q || multiply_high(word, q) < p);
}

/// This lane's values of a load: x[i] of token first + 32 i. Those behind the row are 0.
__device__ inline void load_lane(const RowValues& row, std::int64_t first, std::int64_t vocab,
                                 float (&x)[kLaneTokens]) {
  // Of 32 bits, and one address: a load is one instruction.
  const int left = static_cast<int>(min(vocab - first, std::int64_t{kTokensOfLoad}));
  const auto with = [&](auto&& read) {
#pragma unroll
    for (int i = 0; i < kLaneTokens; ++i) x[i] = i * kWarpSize < left ? read(i * kWarpSize) : 0.0F;
  };
  if (!row.aligned) {
    with([&](int i) { return row[first + i]; });
  } else if (row.dtype == DType::float32) {
    const float* values = reinterpret_cast<const float*>(row.bytes) + first;
    with([values](int i) { return values[i]; });
  } else {
    const std::uint16_t* values = reinterpret_cast<const std::uint16_t*>(row.bytes) + first;
    std::uint32_t bits[kLaneTokens];
#pragma unroll
    for (int i = 0; i < kLaneTokens; ++i) {
      bits[i] = i * kWarpSize < left ? values[i * kWarpSize] : 0;
    }
#pragma unroll
    for (int i = 0; i < kLaneTokens; ++i) x[i] = float_of(bits[i], row.dtype);
  }
}

/// The target's own weights, as a draw takes them. A Part is what tokens weigh together.
template <class Target>
struct TargetMeasure {
  using Part = double;  // exact: 512 weights of 2^40 at most
  const Law<Target>& target;
  struct Values {
    float x[kLaneTokens];
  };
  __device__ void load(std::int64_t first, std::int64_t vocab, Values& values) const {
    load_lane(target.values, first, vocab, values.x);
  }
  __device__ void add(Part& part, std::int64_t token, const Values& values, int i) const {
    part += static_cast<double>(target.weigh(token, values.x[i]));
  }
  __device__ uint128_t of_part(Part part) const { return static_cast<std::uint64_t>(part); }
  __device__ static Part reduce(Part part) { return reduce_warp(part, Add{}); }
};

/// Residuals. Those of many tokens are Zq sum P - Zp sum Q over the tokens with P Zq > Q Zp, so
/// that a token costs a comparison and two additions of 64 bits.
template <class Target, class Draft>
struct ResidualMeasure {
  struct Part {
    double p = 0, q = 0;  // exact: 512 weights of 2^40 at most
  };
  const Law<Target>& target;
  const Law<Draft>& draft;
  float target_total, draft_total;

  __device__ ResidualMeasure(const Law<Target>& target_, const Law<Draft>& draft_)
      : target(target_),
        draft(draft_),
        target_total(static_cast<float>(target.total)),
        draft_total(static_cast<float>(draft.total)) {}

  struct Values {
    float x[kLaneTokens], y[kLaneTokens];
  };
  __device__ void load(std::int64_t first, std::int64_t vocab, Values& values) const {
    load_lane(target.values, first, vocab, values.x);
    load_lane(draft.values, first, vocab, values.y);
  }
  __device__ void add(Part& part, std::int64_t token, const Values& values, int i) const {
    const float p = target.weigh(token, values.x[i]);
    const float q = draft.weigh(token, values.y[i]);
    if (!is_positive(p, q)) return;
    part.p += static_cast<double>(p);
    part.q += static_cast<double>(q);
  }
  __device__ uint128_t of_part(const Part& part) const {
    return static_cast<uint128_t>(static_cast<std::uint64_t>(part.p)) * draft.total -
           static_cast<uint128_t>(static_cast<std::uint64_t>(part.q)) * target.total;
  }
  __device__ static Part reduce(Part part) {
    return {reduce_warp(part.p, Add{}), reduce_warp(part.q, Add{})};
  }

 private:
  /// P Zq > Q Zp. Each float32 product is two roundings off at most, 2 * 2^-24 of it; what lies
  /// closer than 2^-20 is compared exactly. Products are below 2^101.
  __device__ bool is_positive(float p, float q) const {
    constexpr float kBand = 0x1p-20F;
    const float a = p * draft_total;
    const float b = q * target_total;
    if (fabsf(a - b) > kBand * fmaxf(a, b)) return a > b;
    return p > 0.0F && exceeds(static_cast<std::uint64_t>(p), static_cast<std::uint64_t>(q));
  }
  __device__ __noinline__ bool exceeds(std::uint64_t p, std::uint64_t q) const {
    return static_cast<uint128_t>(p) * draft.total > static_cast<uint128_t>(q) * target.total;
  }
};

/// Shared memory of a block that draws.
struct ChainSums {
  static constexpr int kMostChunks = static_cast<int>(kMaxVocab / kChunk);
  uint128_t chunk[kMostChunks];  ///< of the block: then up to the end of each
  uint128_t of_block[kMostBlocks];
};

/// One draw from a row, shared by the blocks of a cluster.
class ChainDraw {
 public:
  static constexpr std::int32_t kNothing = -1;    ///< all weights are 0; all blocks know
  static constexpr std::int32_t kElsewhere = -2;  ///< another block has the token

  __device__ ChainDraw(const RowCluster& cluster, ChainSums& sums, std::int64_t vocab)
      : cluster_(cluster), sums_(sums), vocab_(vocab) {
    const auto chunks = static_cast<int>((vocab + kChunk - 1) / kChunk);
    const int of_block = (chunks + cluster.blocks - 1) / cluster.blocks;
    begin_ = min(cluster.rank * of_block, chunks);
    count_ = min(of_block, chunks - begin_);
  }

  /// For all threads of all blocks, which have announced themselves. The token, valid in the first
  /// warp of the block that has it.
  template <class Measure>
  __device__ std::int32_t draw(std::uint64_t word, const Measure& measure) {
    for (int i = warp_of_thread(); i < count_; i += warps_of_block()) {
      const auto part = Measure::reduce(part_of_lane(begin_ + i, measure));
      if (lane_of_thread() == 0) sums_.chunk[i] = measure.of_part(part);
    }
    __syncthreads();
    if (warp_of_thread() == 0) {
      const uint128_t mine = accumulate();
      if (lane_of_thread() < cluster_.blocks) {
        *cluster_.at(&sums_.of_block[cluster_.rank], lane_of_thread()) = mine;
      }
    }
    cluster_.sync();
    uint128_t total = 0;
    for (int block = 0; block < cluster_.blocks; ++block) total += sums_.of_block[block];
    if (total == 0) return kNothing;
    uint128_t left = multiply_high(word, total);
    int owner = 0;
    for (; left >= sums_.of_block[owner]; ++owner) left -= sums_.of_block[owner];
    if (owner != cluster_.rank || warp_of_thread() != 0) return kElsewhere;
    return find(left, measure);
  }

  /// Before another draw: the blocks' sums have been read.
  __device__ void again() const { cluster_.sync(); }

 private:
  template <class Measure>
  __device__ typename Measure::Part part_of_lane(int chunk, const Measure& measure) const {
    typename Measure::Part part{};
#pragma unroll 1
    for (int load = 0; load < kLoads; ++load) {
      const std::int64_t first =
          std::int64_t{chunk} * kChunk + load * kTokensOfLoad + lane_of_thread();
      typename Measure::Values values;
      measure.load(first, vocab_, values);
      const int left = static_cast<int>(min(vocab_ - first, std::int64_t{kTokensOfLoad}));
#pragma unroll
      for (int i = 0; i < kLaneTokens; ++i) {
        if (i * kWarpSize < left) measure.add(part, first + i * kWarpSize, values, i);
      }
    }
    return part;
  }

  /// Prefix sums of the block's chunks, in place; one warp. The sum of all.
  __device__ uint128_t accumulate() {
    const int of_lane = (count_ + kWarpSize - 1) / kWarpSize;
    const int begin = min(lane_of_thread() * of_lane, count_);
    const int end = min(begin + of_lane, count_);
    uint128_t sum = 0;
    for (int i = begin; i < end; ++i) sum += sums_.chunk[i];
    const uint128_t inclusive = inclusive_sum_of_warp(sum);
    uint128_t before = inclusive - sum;
    for (int i = begin; i < end; ++i) {
      before += sums_.chunk[i];
      sums_.chunk[i] = before;
    }
    __syncwarp();
    return value_of_lane(inclusive, kWarpSize - 1);
  }

  /// One warp: the token at which the block's prefix sum exceeds `left`.
  template <class Measure>
  __device__ std::int32_t find(uint128_t left, const Measure& measure) const {
    int low = 0;
    int high = count_ - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (sums_.chunk[middle] > left) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    uint128_t before = low > 0 ? sums_.chunk[low - 1] : uint128_t{0};
#pragma unroll 1
    for (int load = 0; load < kLoads; ++load) {
      const std::int64_t begin = std::int64_t{begin_ + low} * kChunk + load * kTokensOfLoad;
      const std::int64_t first = begin + lane_of_thread();
      typename Measure::Values values;
      measure.load(first, vocab_, values);
#pragma unroll
      for (int i = 0; i < kLaneTokens; ++i) {
        const std::int64_t token = first + i * kWarpSize;
        typename Measure::Part part{};
        if (token < vocab_) measure.add(part, token, values, i);
        const uint128_t mine = measure.of_part(part);
        const uint128_t upto = before + inclusive_sum_of_warp(mine);
        const unsigned passed = __ballot_sync(kWholeWarp, upto > left);
        if (passed != 0) {
          const std::int64_t step = begin + i * kWarpSize;
          return static_cast<std::int32_t>(step + __ffs(static_cast<int>(passed)) - 1);
        }
        before = value_of_lane(upto, kWarpSize - 1);
      }
    }
    return kNothing;  // not reached: the chunk's sum exceeds what is left
  }

  RowCluster cluster_;
  ChainSums& sums_;
  std::int64_t vocab_;
  int begin_, count_;  ///< of the block's chunks
};

/// A token of the target's row.
template <class Target>
__device__ std::int32_t draw_from_target(ChainDraw& draw, std::uint64_t word,
                                         const Law<Target>& target) {
  return draw.draw(word, TargetMeasure<Target>{target});
}

/// The token in place of one that does not stand.
template <class Target, class Draft>
__device__ std::int32_t draw_residual(ChainDraw& draw, std::uint64_t word,
                                      const Law<Target>& target, const Law<Draft>& draft) {
  const std::int32_t token = draw.draw(word, ResidualMeasure<Target, Draft>(target, draft));
  if (token != ChainDraw::kNothing) return token;
  draw.again();
  return draw_from_target(draw, word, target);
}

}  // namespace fairdraw::cuda
