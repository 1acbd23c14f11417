// Single draw from a row by prefix sums in the order of token ids, with 1 to 8 blocks: from the
// weights of the target, or from the residual that remains of them after a draft.
//
// The row is divided into chunks of 512 tokens. Each chunk has one warp, of which every lane loads
// 8 values at once. Each block turns the sums of its chunks into prefix sums, and the blocks
// exchange their totals. The block whose range contains the drawn sum finds the chunk, and one warp
// of the block finds the token. The row is read once, and the chunk with the token a second time.
//
// A Measure defines what is summed for a token: load() reads and weighs the tokens of a lane, add()
// adds one token to a Part, and of_part() converts a Part to a Sum. A Sum is an integer, or a
// struct of several integers that has `+=` and value_of_lane(). Sums that are not kept for each
// chunk form the Rest of a lane; send() sends the Rest to all blocks before their barrier.
//
// The total of a row is not known at the beginning, but its bounds are known (relative_weight.cuh),
// and they decide nearly every test of a draft. So exact totals are added up, by one more pass over
// the rows, only when they are needed: to draw a token in place of a draft, or if the bounds leave
// a test undecided.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/read_value.cuh"
#include "cuda/device/row_cluster.cuh"
#include "cuda/speculation/relative_weight.cuh"

namespace fairdraw::cuda {

inline constexpr int kLaneTokens = 8;  ///< number of tokens that a lane loads at once
inline constexpr int kLoads = 2;       ///< number of loads that a lane makes for a chunk
inline constexpr int kTokensOfLoad = kLaneTokens * kWarp;
inline constexpr int kChunk = kLoads * kTokensOfLoad;

/// Number of threads of an SM that work on draws at the same time.
inline constexpr int kThreadsAtOnce = 512;

/// Returns the number of blocks for which an SM must have registers. The result is one more than
/// the number of blocks that draw at the same time, because all blocks of a cluster must be
/// scheduled together: without free registers, a cluster would have to wait for the end of a whole
/// draw.
constexpr int blocks_with_registers(int threads) { return kThreadsAtOnce / threads + 1; }

/// Returns the number of blocks per draw. Every warp has at least one chunk, and there are at most
/// as many blocks as about 128 SMs can run in `rounds` waves.
constexpr int blocks_of_draw(std::int64_t vocab, std::int64_t requests, int threads,
                             int rounds = 1) {
  const std::int64_t at_once = std::int64_t{128} * kThreadsAtOnce / threads * rounds;
  int blocks = 1;
  while (blocks < kMaxBlocks && vocab > std::int64_t{blocks} * (threads / kWarp) * kChunk &&
         2 * blocks * requests <= at_once) {
    blocks *= 2;
  }
  return blocks;
}

/// Distribution of a row. The function weigh(token, x) must return the weight of a token whose
/// value in memory is x, and weigh.lane() the weights of several tokens. A weight is a float with
/// at most 24 significant bits, because 64-bit integer arithmetic takes four times as many
/// instructions.
template <class Weigh>
struct Distribution {
  RowValues values;
  Weigh weigh;
  TotalBounds bounds;

  __device__ std::uint64_t weight(std::int64_t token) const {
    return static_cast<std::uint64_t>(weigh(token, values[token]));
  }
  /// Loads the values of this lane, where x[i] belongs to the token first + 32 i. Tokens beyond the
  /// end of the row get a value of weight 0.
  __device__ __forceinline__ void load_lane(std::int64_t first, std::int64_t vocab,
                                            float (&x)[kLaneTokens]) const {
    values.load(first, kWarp, vocab, weigh.weightless(), x);
  }
  /// Returns the total. Precondition: the total is known exactly.
  __device__ std::uint64_t total() const { return bounds.high; }
};

/// Packs the sums P and Q, which are both below 2^64, into the two words of one integer.
__device__ inline uint128_t side_by_side(std::uint64_t p, std::uint64_t q) {
  return (static_cast<uint128_t>(p) << 64) | q;
}

/// Rest of a measure that has no sums other than those of chunks.
struct NoRest {
  template <class Part>
  __device__ void add(const Part&) {}
};

/// Measure that sums the weights of the target. A Part is the sum of the weights of some tokens.
template <class Sum, class Target>
struct TargetMeasure {
  using Part = double;  // the sum is exact, because 512 weights of at most 2^40 are added
  using Rest = NoRest;
  const Distribution<Target>& target;
  struct Weights {
    float p[kLaneTokens];
  };
  __device__ void load(std::int64_t first, std::int64_t vocab, Weights& weights) const {
    target.load_lane(first, vocab, weights.p);
    target.weigh.lane(first, vocab, weights.p);
  }
  __device__ void add(Part& part, const Weights& weights, int i) const {
    part += static_cast<double>(weights.p[i]);
  }
  __device__ Sum of_part(Part part) const { return Sum{static_cast<std::uint64_t>(part)}; }
  __device__ static Part reduce(Part part) { return reduce_warp(part, Add{}); }
  __device__ void send(NoRest, const RowCluster&) const {}
};

/// Base of measures that sum the weights of the target and of the draft over selected tokens.
template <class Target, class Draft>
struct PairMeasure {
  struct Part {
    double p = 0, q = 0;  // the sums are exact, because 512 weights of at most 2^40 are added
  };
  struct Weights {
    float p[kLaneTokens], q[kLaneTokens];
    std::int64_t first;  ///< the weights p[i] and q[i] belong to the token first + 32 i
  };
  using Rest = NoRest;
  const Distribution<Target>& target;
  const Distribution<Draft>& draft;

  __device__ void send(NoRest, const RowCluster&) const {}
  __device__ void load(std::int64_t first, std::int64_t vocab, Weights& weights) const {
    weights.first = first;
    target.load_lane(first, vocab, weights.p);
    draft.load_lane(first, vocab, weights.q);
    target.weigh.lane(first, vocab, weights.p);
    draft.weigh.lane(first, vocab, weights.q);
  }
  template <class Keeps>
  __device__ void add_if(Part& part, const Weights& weights, int i, const Keeps& keeps) const {
    const float p = weights.p[i];
    const float q = weights.q[i];
    if (!keeps(p, q)) return;
    part.p += static_cast<double>(p);
    part.q += static_cast<double>(q);
  }
  __device__ static Part reduce(Part part) {
    return {reduce_warp(part.p, Add{}), reduce_warp(part.q, Add{})};
  }
};

/// Measure that sums the weights of the target and of the draft over all tokens, so that one pass
/// finds both totals.
template <class Sum, class Target, class Draft>
struct TotalsMeasure : PairMeasure<Target, Draft> {
  using typename PairMeasure<Target, Draft>::Part;
  using typename PairMeasure<Target, Draft>::Weights;

  __device__ void add(Part& part, const Weights& weights, int i) const {
    this->add_if(part, weights, i, [](float, float) { return true; });
  }
  __device__ Sum of_part(const Part& part) const {
    return Sum(
        side_by_side(static_cast<std::uint64_t>(part.p), static_cast<std::uint64_t>(part.q)));
  }
};

/// Sums of a block that takes part in a draw, in shared memory.
template <class Sum>
struct RowSums {
  static constexpr int kMaxChunks = static_cast<int>(kMaxVocab / kChunk);
  Sum chunk[kMaxChunks];  ///< sums of the block's chunks, which are later replaced by prefix sums
                          ///< up to the end of each chunk
  Sum of_block[2][kMaxBlocks];  ///< sums of all blocks, in two arrays: one is in use while the
                                ///< other is written
};

/// Draw from a row that the blocks of a cluster share, or several draws in sequence if sums decide
/// which draw comes next.
template <class Sum>
class RowDraw {
 public:
  static constexpr std::int32_t kNothing = -1;    ///< result if all weights are 0, which all blocks
                                                  ///< get
  static constexpr std::int32_t kElsewhere = -2;  ///< result in all blocks except the block that
                                                  ///< has the token

  __device__ RowDraw(const RowCluster& cluster, RowSums<Sum>& sums, std::int64_t vocab)
      : cluster_(cluster), sums_(sums), vocab_(vocab) {
    const auto chunks = static_cast<int>((vocab + kChunk - 1) / kChunk);
    const int of_block = (chunks + cluster.blocks - 1) / cluster.blocks;
    begin_ = min(cluster.rank * of_block, chunks);
    count_ = min(of_block, chunks - begin_);
  }

  /// Returns the sum of a measure over the row. All threads of all blocks must call this function,
  /// after they have called announce(); the blocks wait for each other here.
  template <class Measure>
  __device__ Sum add_up(const Measure& measure) {
    measure.send(add_up_chunks(measure, sums_, vocab_, begin_, count_), cluster_);
    __syncthreads();
    if (warp_of_thread() == 0) accumulate();
    return share();
  }

  /// Returns the number of the chunk that contains a token, counted in the block that has the
  /// token.
  __device__ int chunk_of(std::int64_t token) const {
    return static_cast<int>(token / kChunk) - begin_;
  }
  /// Adds `sum` to a chunk of this block, in the row that was last added up. The first warp of a
  /// block must call this function, and afterwards all blocks must call share().
  __device__ void add_to_chunk(int chunk, const Sum& sum) {
    for (int i = lane_of_thread(); i < count_; i += kWarp) {
      if (i >= chunk) sums_.chunk[i] += sum;
    }
  }
  /// Exchanges the total sums of the blocks. Returns the sum over all blocks.
  __device__ Sum share() {
    slot_ = 1 - slot_;
    if (warp_of_thread() == 0) {
      __syncwarp();
      const Sum mine = count_ > 0 ? sums_.chunk[count_ - 1] : Sum{};
      if (lane_of_thread() < cluster_.blocks) {
        *cluster_.at(&sums_.of_block[slot_][cluster_.rank], lane_of_thread()) = mine;
      }
    }
    cluster_.sync();
    return total();
  }
  /// Replaces all sums of the row that was last added up by change(sum), which must be a linear
  /// function. Returns the new sum over all blocks of the cluster. All threads of all blocks must
  /// call this function.
  template <class Change>
  __device__ Sum change_sums(const Change& change) {
    const auto thread = static_cast<int>(threadIdx.x);
    __syncthreads();  // wait until all threads have read the old sums
    for (int i = thread; i < count_; i += static_cast<int>(blockDim.x)) {
      sums_.chunk[i] = change(sums_.chunk[i]);
    }
    if (thread < cluster_.blocks) {
      sums_.of_block[slot_][thread] = change(sums_.of_block[slot_][thread]);
    }
    __syncthreads();
    return total();
  }

  /// Finds, in the row that was last added up, the first token such that is_enough is true for the
  /// sum of the tokens up to it. The function is_enough(sum) must be true for the sum of the whole
  /// row, and for every sum after one for which it is true. The result is valid in the first warp
  /// of the block that has the token, and all other blocks return kElsewhere.
  template <class Measure, class IsEnough>
  __device__ std::int32_t find(const Measure& measure, const IsEnough& is_enough) const {
    Sum before{};
    int owner = 0;
    for (;; ++owner) {
      Sum upto = before;
      upto += sums_.of_block[slot_][owner];
      if (is_enough(upto)) break;
      before = upto;
    }
    if (owner != cluster_.rank || warp_of_thread() != 0) return kElsewhere;
    return find_here(measure, before, is_enough);
  }

  /// Draws a token in proportion to a measure whose Sum is a single integer.
  template <class Measure>
  __device__ std::int32_t draw(std::uint64_t word, const Measure& measure) {
    const Sum total = add_up(measure);
    if (total == 0) return kNothing;
    const Sum t = multiply_high(word, total);
    return find(measure, [t](const Sum& sum) { return sum > t; });
  }

 private:
  /// Adds up the measure over the chunks of this block, with one warp per chunk. The function is
  /// out of line, because the code that calls it occupies many registers.
  template <class Measure>
  __device__ __noinline__ static typename Measure::Rest add_up_chunks(const Measure& measure,
                                                                      RowSums<Sum>& sums,
                                                                      std::int64_t vocab, int begin,
                                                                      int count) {
    typename Measure::Rest rest{};
#pragma unroll 1
    for (int i = warp_of_thread(); i < count; i += warps_of_block()) {
      const typename Measure::Part mine = part_of_lane(begin + i, vocab, measure);
      rest.add(mine);
      const auto part = Measure::reduce(mine);
      if (lane_of_thread() == 0) sums.chunk[i] = measure.of_part(part);
    }
    return rest;
  }

  template <class Measure>
  __device__ __forceinline__ static typename Measure::Part part_of_lane(int chunk,
                                                                        std::int64_t vocab,
                                                                        const Measure& measure) {
    typename Measure::Part part{};
#pragma unroll 1
    for (int load = 0; load < kLoads; ++load) {
      const std::int64_t first =
          std::int64_t{chunk} * kChunk + load * kTokensOfLoad + lane_of_thread();
      typename Measure::Weights weights;
      measure.load(first, vocab, weights);
#pragma unroll
      for (int i = 0; i < kLaneTokens; ++i) measure.add(part, weights, i);
    }
    return part;
  }

  __device__ Sum total() const {
    Sum total{};
    for (int block = 0; block < cluster_.blocks; ++block) total += sums_.of_block[slot_][block];
    return total;
  }

  /// Replaces the sums of the block's chunks by prefix sums, with one warp.
  __device__ void accumulate() {
    const int of_lane = (count_ + kWarp - 1) / kWarp;
    const int begin = min(lane_of_thread() * of_lane, count_);
    const int end = min(begin + of_lane, count_);
    Sum mine{};
    for (int i = begin; i < end; ++i) {
      mine += sums_.chunk[i];
      sums_.chunk[i] = mine;
    }
    const Sum inclusive = warp_inclusive_sum(mine);
    const Sum before = value_of_lane(inclusive, max(lane_of_thread() - 1, 0));
    for (int i = begin; lane_of_thread() > 0 && i < end; ++i) sums_.chunk[i] += before;
  }

  /// Finds a token that is in the range of this block, with one warp. `before` is the sum over the
  /// preceding blocks.
  template <class Measure, class IsEnough>
  __device__ std::int32_t find_here(const Measure& measure, const Sum& before,
                                    const IsEnough& is_enough) const {
    const auto upto_chunk = [&](int i) {
      Sum upto = before;
      upto += sums_.chunk[i];
      return upto;
    };
    int low = 0;
    int high = count_ - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (is_enough(upto_chunk(middle))) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    Sum passed = low > 0 ? upto_chunk(low - 1) : before;
#pragma unroll 1
    for (int load = 0; load < kLoads; ++load) {
      const std::int64_t begin = std::int64_t{begin_ + low} * kChunk + load * kTokensOfLoad;
      const std::int64_t first = begin + lane_of_thread();
      typename Measure::Weights weights;
      measure.load(first, vocab_, weights);
#pragma unroll
      for (int i = 0; i < kLaneTokens; ++i) {
        typename Measure::Part part{};
        measure.add(part, weights, i);
        Sum upto = passed;
        upto += warp_inclusive_sum(measure.of_part(part));
        const unsigned enough = __ballot_sync(kAllLanes, is_enough(upto));
        if (enough != 0) {
          const std::int64_t step = begin + i * kWarp;
          return static_cast<std::int32_t>(step + __ffs(static_cast<int>(enough)) - 1);
        }
        passed = value_of_lane(upto, kWarp - 1);
      }
    }
    return kNothing;  // this line is never reached, because the sum of the chunk is enough
  }

  RowCluster cluster_;
  RowSums<Sum>& sums_;
  std::int64_t vocab_;
  int begin_, count_;  ///< first chunk of this block, and number of its chunks
  int slot_ = 0;       ///< index of the array of the blocks' sums that is in use
};

/// Adds up both rows to find their totals, unless both totals are known. All threads of all blocks
/// must call this function.
template <class Sum, class Target, class Draft>
__device__ void find_totals(RowDraw<Sum>& draw, Distribution<Target>& target,
                            Distribution<Draft>& draft) {
  if (target.bounds.is_known() && draft.bounds.is_known()) return;
  const auto totals =
      static_cast<uint128_t>(draw.add_up(TotalsMeasure<Sum, Target, Draft>{{target, draft}}));
  target.bounds = TotalBounds::known(static_cast<std::uint64_t>(totals >> 64));
  draft.bounds = TotalBounds::known(static_cast<std::uint64_t>(totals));
}

}  // namespace fairdraw::cuda
