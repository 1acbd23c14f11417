// Finds the best sequences of a beam search on the GPU, by reading the history from its end to its
// beginning.
//
// Contract. The rules are those of the CPU (kernels/serving/beam_result.cpp, beam_result_rules.h):
// requests are independent of each other, and a request that fails does not affect others.
//
// Algorithm and cost. Each request has one thread block. All sequences that may be chosen, at most
// 2 * kMaxBeamWidth, are ranked by counting. The place of a sequence is the number of sequences
// before it, by score and then by number, as in a stable sort. Then one thread per chosen sequence
// walks from the last token of the sequence to the first. Each token takes one read that depends on
// the read before. A cache line of the history has the data of several steps. So the call, which
// runs once per search, takes as long as its longest sequence. If the history were first copied to
// shared memory, the walk would be faster, but not noticeably so compared with the steps of the
// search.
//
// Randomness: none. Numerics: the rules are those of fairdraw/beam_result.h. The power of the
// length is computed on the device and rounded to float32; before the rounding, it differs from the
// host's result by at most one unit in the last place of a float64. Determinism: sequences are
// totally ordered, so the result does not depend on the order of threads.
#include <cstdint>

#include "cuda/beams/beam_search.h"
#include "cuda/device/row_launch.h"
#include "serving/rules/beam_result_rules.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;

struct Shared {
  float score[2 * kMaxBeamWidth];      ///< scores of the sequences that may be chosen
  std::int32_t chosen[kMaxBeamWidth];  ///< numbers of the best sequences, in the order of their
                                       ///< places
};

class BestSequences {
 public:
  __device__ BestSequences(const BeamResultRequest& request, const BeamSequences& result,
                           std::int64_t r, Shared& shared)
      : request_(request), result_(result), r_(r), shared_(shared) {}

  __device__ void run() {
    const BeamResultTerms terms = read_result_terms(request_, r_);
    RowStatus status = terms.status;
    if (status == RowStatus::ok) status = load_scores(terms);
    write_none();
    if (status == RowStatus::ok) {
      rank(terms.count());
      status = write_chosen(terms);
      if (status != RowStatus::ok) write_none();
    }
    if (threadIdx.x == 0 && result_.statuses.given()) result_.statuses.data[r_] = status;
  }

 private:
  /// Loads the scores of the sequences, which other threads may read after the next barrier. All
  /// threads must call this function.
  __device__ RowStatus load_scores(const BeamResultTerms& terms) {
    bool any_nan = false;
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < terms.count(); i += kThreads) {
      const float score = sequence_of(request_, r_, terms, i).score;
      shared_.score[i] = score;
      any_nan = any_nan || score != score;
    }
    return __syncthreads_or(any_nan ? 1 : 0) != 0 ? RowStatus::nan_input : RowStatus::ok;
  }

  /// Writes a result that has no sequences. All threads must call this function.
  __device__ void write_none() const {
    const std::int64_t places = std::int64_t{request_.best} * request_.history.max_steps;
    std::int32_t* tokens = result_.tokens.data + r_ * places;
    for (std::int64_t i = threadIdx.x; i < places; i += kThreads) tokens[i] = -1;
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < request_.best; i += kThreads) {
      write_no_sequence(request_, result_, r_, i);
    }
    __syncthreads();
  }

  /// Finds the numbers of the best sequences among the first `count` sequences. All threads must
  /// call this function.
  __device__ void rank(std::int32_t count) {
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count; i += kThreads) {
      const float mine = shared_.score[i];
      std::int32_t place = 0;
      for (std::int32_t j = 0; j < count; ++j) {
        const float other = shared_.score[j];
        place += other > mine || (other == mine && j < i) ? 1 : 0;
      }
      if (place < request_.best) shared_.chosen[place] = i;
    }
    __syncthreads();
  }

  /// Writes the sequences that were chosen. All threads must call this function.
  __device__ RowStatus write_chosen(const BeamResultTerms& terms) const {
    const std::int32_t there = terms.count() < request_.best ? terms.count() : request_.best;
    bool broken = false;
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < there; i += kThreads) {
      const FinishedBeam sequence = sequence_of(request_, r_, terms, shared_.chosen[i]);
      broken = !write_sequence(request_, result_, r_, i, sequence) || broken;
    }
    return __syncthreads_or(broken ? 1 : 0) != 0 ? RowStatus::invalid_history : RowStatus::ok;
  }

  const BeamResultRequest& request_;
  const BeamSequences& result_;
  std::int64_t r_;
  Shared& shared_;
};

__global__ void __launch_bounds__(kThreads)
    write_sequences_kernel(const __grid_constant__ BeamResultRequest request,
                           const __grid_constant__ BeamSequences result) {
  __shared__ Shared shared;
  for (std::int64_t r = blockIdx.x; r < request.requests; r += gridDim.x) {
    BestSequences(request, result, r, shared).run();
  }
}

}  // namespace

cudaError_t write_sequences(const BeamResultRequest& request, const BeamSequences& result,
                            cudaStream_t stream) {
  return launch_blocks(write_sequences_kernel, request.requests, kThreads, stream, request, result);
}

}  // namespace fairdraw::cuda
