// Makes one step of beam search on the GPU (fairdraw/beam_search.h).
//
// Contract. The rules are those of the CPU (kernels/serving/beam_search.cpp, beam_rules.h):
// requests are independent of each other, and a request that fails does not affect others. At most
// kMaxOfBeam candidates of each beam may be considered; a request that considers more fails with
// invalid_beam.
//
// Algorithm and cost. The expensive kernel finds the largest values of the row of every live beam
// and sums the row's weights (beam_rows.cu). A small kernel runs before the expensive kernel, and
// another small kernel runs after it.
//   before   One thread per request reads its terms, and sets the number of values wanted of its
//            rows: kMargin more than the candidates that count.
//   after    One block per request, one warp per beam with few values. Values become scores. A
//            score is a sum of float32, so different values may have equal scores, among which the
//            lower id comes first: the values of a beam are sorted again, by counting. If the last
//            of them still has the score of the last candidate that counts, other tokens with lower
//            ids may have it too: the row is walked in id order until enough with that score are
//            found. A candidate's place among all beams is the sum of its places in the sorted
//            lists, by bisection, and one thread walks over the first candidates, as on the CPU.
//
// Randomness: none. Numerics: the rules are those of fairdraw/beam_search.h. The logarithm of the
// sum and the power of the length are computed on the device and rounded to float32; before the
// rounding, they differ from the host's results by at most one unit in the last place of a float64.
// Determinism: candidates are totally ordered, so the result does not depend on the order of
// threads.
#include <math_constants.h>

#include <cfloat>
#include <cstdint>

#include "cuda/beams/beam_search.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/read_value.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/rows/filtered_row.cuh"  // log_probability

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;
/// Number of values that are requested from a row in addition to the number of candidates that are
/// considered. More than kMargin additional values rarely have the same score as the last
/// candidate.
constexpr std::int32_t kMargin = 8;
/// Maximum number of rows for which one block clears `wanted` in a negligible time; if there are
/// more rows, a memset runs before the kernel.
constexpr std::int64_t kFewRows = 4096;
constexpr std::int64_t kFewRequests = 256;

// --- Before the rows -----------------------------------------------------------------------------

__global__ void __launch_bounds__(kThreads)
    prepare_beam_rows_kernel(const __grid_constant__ BeamTask task, bool clears) {
  if (clears) {
    for (std::int64_t row = threadIdx.x; row < task.step.rows.rows; row += kThreads) {
      task.wanted[row] = 0;
    }
    __syncthreads();
  }
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t r = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; r < task.step.requests;
       r += threads) {
    BeamTerms terms = read_beam_terms(task.step, task.result, r);
    if (terms.status == RowStatus::ok && terms.max_candidates > kMaxOfBeam) {
      terms.status = RowStatus::invalid_beam;
    }
    task.terms[r] = terms;
    if (terms.status != RowStatus::ok) continue;
    const auto most = static_cast<std::int32_t>(terms.max_candidates) + kMargin;
    const std::int64_t first = task.step.row_begins.data[r];
    for (std::int32_t beam = 0; beam < terms.live; ++beam) {
      // If several beams use one row, the largest number of entries is requested.
      atomicMax(&task.wanted[first + beam], most < kMaxOfBeam ? most : kMaxOfBeam);
    }
  }
}

// --- After them ----------------------------------------------------------------------------------

/// Maximum number of beams whose sorted candidates fit into shared memory, unless a beam has many
/// candidates.
constexpr int kFewBeams = 16;

struct Shared {
  BeamCandidate found[kMaxOfBeam];
  BeamCandidate ranked[kMaxOfBeam];
  std::int32_t count[kMaxBeamWidth];  ///< for each beam, its number of candidates
  std::int32_t warp_hits[kThreads / kWarp];
  std::int32_t status[kMaxBeamWidth];
  BeamCandidate sorted[kFewBeams * kWarp];  ///< sorted candidates, if the request has few beams
};
/// Number that is stored for a beam whose candidates the whole block must find, because a single
/// warp cannot find them.
constexpr std::int32_t kForBlock = -1;

/// Scores of the values of a beam (fairdraw/beam_search.h, Arithmetic).
struct BeamScore {
  float of_beam;
  bool from_logits;
  float max;
  double log_mass;

  __device__ float operator()(float x) const {
    if (!from_logits) return __fadd_rn(of_beam, x);
    return __fadd_rn(of_beam, static_cast<float>(log_probability(x, max, 1.0F, log_mass)));
  }
};

class BeamStep {
 public:
  __device__ BeamStep(const BeamTask& task, std::int64_t r, Shared& shared)
      : task_(task), r_(r), terms_(task.terms[r]), shared_(shared) {}

  __device__ void run() {
    RowStatus status = terms_.status;
    int count = 0;
    if (status == RowStatus::ok) status = find_candidates();
    if (status == RowStatus::ok) {
      count = rank();
      if (count == 0) status = RowStatus::no_allowed_token;
    }
    if (threadIdx.x != 0) return;
    if (status == RowStatus::ok) {
      write_beam_step(task_.step, task_.result, r_, terms_, shared_.ranked, count);
    } else {
      write_unstepped(task_.step, task_.result, r_,
                      status == RowStatus::inactive ? terms_.live : 0);
    }
    if (task_.result.statuses.given()) task_.result.statuses.data[r_] = status;
  }

 private:
  __device__ std::int64_t row_of(int beam) const { return task_.step.row_begins.data[r_] + beam; }
  __device__ float score_of_beam(int beam) const {
    return task_.step.scores.data[r_ * task_.step.max_width + beam];
  }
  __device__ BeamCandidate* candidates_of(int beam) const {
    if (terms_.live <= kFewBeams && terms_.max_candidates <= kWarp) {
      return shared_.sorted + beam * kWarp;
    }
    return task_.candidates + (r_ * task_.step.max_width + beam) * kMaxOfBeam;
  }

  /// Returns the status with which a beam's row or score makes the request fail, or
  /// no_allowed_token if the beam has no candidate.
  __device__ RowStatus status_of(int beam, RowStatus row) const {
    const float score = score_of_beam(beam);
    if (row == RowStatus::nan_input || score != score) return RowStatus::nan_input;
    if (row == RowStatus::infinite_input || score == CUDART_INF_F) return RowStatus::infinite_input;
    return score == -CUDART_INF_F ? RowStatus::no_allowed_token : row;
  }

  /// Finds the first candidates of each beam, sorted, and writes their number for each beam to
  /// shared memory. All threads must call this function. Beams with few values are processed at the
  /// same time, with one warp for each beam; then the whole block processes the other beams one
  /// after another.
  __device__ RowStatus find_candidates() {
    for (int beam = warp_of_thread(); beam < terms_.live; beam += kThreads / kWarp) {
      const BeamRow row = task_.rows[row_of(beam)];
      const RowStatus status = status_of(beam, row.status);
      const int found = find_by_warp(beam, row);
      const int count = status == RowStatus::ok ? found : 0;
      if (lane_of_thread() == 0) {
        shared_.status[beam] = static_cast<std::int32_t>(status);
        shared_.count[beam] = count;
      }
    }
    __syncthreads();
    for (int beam = 0; beam < terms_.live; ++beam) {
      const auto status = static_cast<RowStatus>(shared_.status[beam]);
      if (status != RowStatus::ok && status != RowStatus::no_allowed_token) return status;
      if (shared_.count[beam] != kForBlock) continue;
      const int count = find_in_row(beam);
      __syncthreads();
      if (threadIdx.x == 0) shared_.count[beam] = count;
    }
    __syncthreads();
    return RowStatus::ok;
  }

  __device__ BeamScore score_of(int beam, const BeamRow& row) const {
    return {score_of_beam(beam), task_.step.input == BeamInput::logits, row.max, row.log_mass};
  }

  /// Does the work of find_in_row with one warp, if at most one entry per lane was found and no
  /// other entry can be a candidate; otherwise returns kForBlock. No load depends on another, so
  /// that all loads are in flight together.
  __device__ int find_by_warp(int beam, const BeamRow& row) const {
    const std::int64_t number = row_of(beam);
    const int lane = lane_of_thread();
    const std::int64_t at = number * kMaxOfBeam + lane;
    const int n = row.entries;
    const float value = task_.values[at];  // an arbitrary value if the lane has no entry
    const std::int32_t value_id = task_.ids[at];
    const std::int32_t asked = task_.wanted[number];
    const BeamScore score = score_of(beam, row);
    if (n > kWarp) return kForBlock;
    const float x = lane < n ? value : -CUDART_INF_F;
    const std::int32_t id = lane < n ? value_id : -1;
    const float mine = lane < n ? score(x) : -CUDART_INF_F;
    const int finite = __popc(__ballot_sync(kAllLanes, mine > -CUDART_INF_F));
    const auto most = static_cast<int>(terms_.max_candidates);
    const int wanted = finite < most ? finite : most;
    if (wanted == 0) return 0;
    const float last = value_of_lane(mine, wanted - 1);
    const bool whole = n < asked || n == task_.step.rows.vocab;
    if (wanted == most && !whole && value_of_lane(mine, finite - 1) >= last) return kForBlock;
    int before = 0;
    for (int i = 0; i < finite; ++i) {
      const float other = value_of_lane(mine, i);
      const std::int32_t other_id = value_of_lane(id, i);
      before += other > mine || (other == mine && other_id < id) ? 1 : 0;
    }
    if (lane < finite && before < wanted) candidates_of(beam)[before] = {mine, beam, id};
    return wanted;
  }

  __device__ int find_in_row(int beam) {
    const auto thread = static_cast<int>(threadIdx.x);
    const std::int64_t number = row_of(beam);
    const BeamRow& row = task_.rows[number];
    const int n = row.entries;
    const std::int64_t at = number * kMaxOfBeam + thread;
    const BeamScore score = score_of(beam, row);
    const float mine = thread < n ? score(task_.values[at]) : -CUDART_INF_F;
    // A score of -inf is beyond the finite range of float32, and makes no candidate. In the order
    // of candidates, scores of -inf come last.
    const int finite = __syncthreads_count(mine > -CUDART_INF_F ? 1 : 0);
    if (thread < n) shared_.found[thread] = {mine, beam, task_.ids[at]};
    __syncthreads();
    const auto most = static_cast<int>(terms_.max_candidates);
    const int wanted = finite < most ? finite : most;
    if (wanted == 0) return 0;
    // Scores do not increase along the sorted values, so a value after the listed ones may have the
    // same score as the last candidate.
    const float last = shared_.found[wanted - 1].score;
    const bool whole = n < task_.wanted[number] || n == task_.step.rows.vocab;
    const bool complete = wanted < most || whole || shared_.found[finite - 1].score < last;
    int listed = finite;
    if (!complete) {
      const int above =
          __syncthreads_count(thread < finite && shared_.found[thread].score > last ? 1 : 0);
      collect_ties(RowValues::of(task_.step.rows, number), score, last, beam, above, most);
      listed = most;
    }
    sort_into(candidates_of(beam), listed, wanted);
    return wanted;
  }

  /// Writes the tokens with the lowest ids that have a given score to the positions [from, to) of
  /// `found`. Precondition: the row has at least as many tokens with this score as there are
  /// positions. All threads must call this function.
  __device__ void collect_ties(const RowValues& row, const BeamScore& score, float tied, int beam,
                               int from, int to) {
    const auto thread = static_cast<int>(threadIdx.x);
    const std::int64_t vocab = task_.step.rows.vocab;
    int place = from;
    __syncthreads();  // wait until all threads have read `found`
    for (std::int64_t first = 0; place < to && first < vocab; first += kThreads) {
      const std::int64_t token = first + thread;
      const float x = token < vocab ? row[token] : -CUDART_INF_F;
      const bool ties = x >= -FLT_MAX && score(x) == tied;
      const unsigned votes = __ballot_sync(kAllLanes, ties);
      if (lane_of_thread() == 0) shared_.warp_hits[warp_of_thread()] = __popc(votes);
      __syncthreads();
      int mine = place + __popc(votes & ((1U << lane_of_thread()) - 1U));
      for (int warp = 0; warp < kThreads / kWarp; ++warp) {
        if (warp < warp_of_thread()) mine += shared_.warp_hits[warp];
        place += shared_.warp_hits[warp];
      }
      if (ties && mine < to) {
        shared_.found[mine] = {tied, beam, static_cast<std::int32_t>(token)};
      }
      __syncthreads();
    }
  }

  /// Sorts the first `wanted` of the `n` candidates in `found` into memory that the whole block can
  /// read.
  __device__ void sort_into(BeamCandidate* sorted, int n, int wanted) {
    const auto thread = static_cast<int>(threadIdx.x);
    if (thread < n) {
      const BeamCandidate mine = shared_.found[thread];
      int before = 0;
      for (int i = 0; i < n; ++i) before += comes_before(shared_.found[i], mine) ? 1 : 0;
      if (before < wanted) sorted[before] = mine;
    }
    __syncthreads();
  }

  /// Ranks the first candidates of all beams together, and returns their number. All threads must
  /// call this function.
  __device__ int rank() {
    int all = 0;
    for (int beam = 0; beam < terms_.live; ++beam) all += shared_.count[beam];
    const auto most = static_cast<int>(terms_.max_candidates);
    const int wanted = all < most ? all : most;
    for (int beam = warp_of_thread(); beam < terms_.live; beam += kThreads / kWarp) {
      for (int i = lane_of_thread(); i < shared_.count[beam]; i += kWarp) {
        const BeamCandidate candidate = candidates_of(beam)[i];
        int place = i;
        for (int other = 0; other < terms_.live && place < wanted; ++other) {
          if (other != beam) place += places_before(other, candidate);
        }
        if (place < wanted) shared_.ranked[place] = candidate;
      }
    }
    __syncthreads();
    return wanted;
  }

  /// Returns the number of candidates of a beam that precede a candidate of another beam.
  __device__ int places_before(int beam, const BeamCandidate& candidate) const {
    const BeamCandidate* sorted = candidates_of(beam);
    int low = 0;
    int high = shared_.count[beam];
    while (low < high) {
      const int middle = (low + high) / 2;
      if (comes_before(sorted[middle], candidate)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  const BeamTask& task_;
  std::int64_t r_;
  BeamTerms terms_;
  Shared& shared_;
};

__global__ void __launch_bounds__(kThreads)
    step_beams_kernel(const __grid_constant__ BeamTask task) {
  __shared__ Shared shared;
  for (std::int64_t r = blockIdx.x; r < task.step.requests; r += gridDim.x) {
    BeamStep(task, r, shared).run();
    __syncthreads();  // wait, because the ranked candidates are read until the results of the step
                      // are written
  }
}

}  // namespace

cudaError_t prepare_beam_rows(const BeamTask& task, cudaStream_t stream) {
  const auto rows = static_cast<std::size_t>(task.step.rows.rows);
  const bool clears = task.step.rows.rows <= kFewRows && task.step.requests <= kFewRequests;
  if (!clears && rows > 0) {
    const cudaError_t error = cudaMemsetAsync(task.wanted, 0, rows * 4, stream);
    if (error != cudaSuccess) return error;
  }
  const std::int64_t blocks = clears ? 1 : (task.step.requests + kThreads - 1) / kThreads;
  return launch_blocks(prepare_beam_rows_kernel, blocks, kThreads, stream, task, clears);
}

cudaError_t step_beams(const BeamTask& task, cudaStream_t stream) {
  return launch_blocks(step_beams_kernel, task.step.requests, kThreads, stream, task);
}

}  // namespace fairdraw::cuda
