// Finds the rows of logits that drafted requests need, and the sampling parameters of these rows
// (fairdraw/speculative.h).
//
// Contract. For every request, the kernel stores the request's first row and first draft, or its
// fault. Every row of the target model that belongs to a request without a fault gets the request's
// filters, its seed, and the offset of the row's position. The position is the row's number in a
// chain, or its depth in a tree. All other rows are inactive, so that they cost no time. If the
// distribution of the draft is known, its rows get their filters, too; in trees, only the rows of
// nodes with children get filters.
//
// Algorithm and cost. Each request has one warp, whose lanes read drafts and write settings in
// parallel. A single lane computes the depths of a tree, in which every parent precedes its
// children. The kernel reads and writes only a few bytes per row, before the row kernel reads the
// rows themselves.
//
// Randomness: none here. Determinism: a packed request ends where the next request begins, so two
// requests share no row unless the begins decrease. If requests share rows, the depths and the
// numbers of children come from one or the other request, and may contradict the tree. The kernels
// that walk the trees do not use them for addresses of writes.
#include "common/parameters.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/speculation/drafted_rows.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kRequestsOfBlock = kThreads / kWarp;
/// Maximum number of rows that one block clears in a negligible time; if there are more rows, a
/// memset runs before the kernel.
constexpr std::int64_t kFewRows = 16384;
constexpr std::int64_t kFewRequests = 256;

__device__ RowParameters parameters_of(const LawFilters& filters, std::int64_t b) {
  return {filters.temperature.at(b), filters.top_k.at(b), filters.top_p.at(b), filters.min_p.at(b)};
}

__device__ void write_settings(const RowSettings& settings, std::int64_t row,
                               const RowParameters& parameters) {
  settings.temperature[row] = parameters.temperature;
  settings.top_k[row] = parameters.top_k;
  settings.top_p[row] = parameters.top_p;
  settings.min_p[row] = parameters.min_p;
  settings.active[row] = 1;
}

/// Returns whether a request has so many drafts that a node of its tree may have more children than
/// allowed.
__device__ bool counts_children(const DraftTask& task, const DraftedRequest& request) {
  return task.children != nullptr && request.drafts > kMaxSiblings;
}

/// Finds the depths of the drafts in a tree, which begin with 1, or returns the fault of the tree.
/// A single lane calls this function. The counters of children, if there are any, must be 0 at the
/// beginning.
__device__ RowStatus find_depths(const DraftTask& task, const DraftedRequest& request) {
  const std::int32_t* parents = task.parents.data + request.place;
  std::int32_t* depths = task.depths + request.place;
  const bool counts = counts_children(task, request);
  std::int32_t* children = counts ? task.children + request.row : nullptr;  // node j at j + 1
  bool fits = true;
  for (std::int64_t j = 0; j < request.drafts; ++j) {
    const std::int32_t parent = parents[j];
    if (parent < -1 || parent >= j) return RowStatus::invalid_draft_tree;
    if (counts && ++children[parent + 1] > kMaxSiblings) return RowStatus::invalid_draft_tree;
    depths[j] = parent < 0 ? 1 : depths[parent] + 1;
    fits = fits && depths[j] <= task.max_depth;
  }
  return fits ? RowStatus::ok : RowStatus::invalid_draft_length;
}

/// Prepares the rows of a request, with one warp.
__device__ void prepare_request(const DraftTask& task, std::int64_t b) {
  DraftedState state{};
  state.status = find_drafted_request(task.target, task.drafts, b, state.request);
  const DraftedRequest& request = state.request;
  const bool is_tree = task.depths != nullptr;
  if (is_tree && state.status == RowStatus::ok) {
    for (std::int64_t i = lane_of_thread(); counts_children(task, request) && i <= request.drafts;
         i += kWarp) {
      task.children[request.row + i] = 0;
    }
    __syncwarp();
    int status = 0;
    if (lane_of_thread() == 0) status = static_cast<int>(find_depths(task, request));
    state.status = static_cast<RowStatus>(value_of_lane(status, 0));
    __syncwarp();  // after this barrier, all lanes see the depths
  }
  const RowParameters parameters = parameters_of(task.target.filters, b);
  state.by_distribution =
      task.draft_law != DraftLaw::none && request.drafts > 0 && !is_greedy(parameters) ? 1 : 0;
  if (lane_of_thread() == 0) task.requests[b] = state;
  if (state.status != RowStatus::ok) return;
  for (std::int64_t i = lane_of_thread(); i <= request.drafts; i += kWarp) {
    const std::int64_t row = request.row + i;
    write_settings(task.of_target, row, parameters);
    const std::int64_t position = is_tree && i > 0 ? task.depths[request.place + i - 1] : i;
    task.draws.words[row] = task.draw_words(b, position);
  }
  if (state.by_distribution == 0) return;
  const RowParameters of_draft =
      task.draft_law == DraftLaw::logits ? parameters_of(task.draft_filters, b) : RowParameters{};
  for (std::int64_t i = lane_of_thread(); i < request.drafts; i += kWarp) {
    // Siblings write the same values to the same row, so the order of their writes does not matter.
    write_settings(task.of_draft, task.draft_row(request, task.parent(request, i)), of_draft);
  }
}

__global__ void __launch_bounds__(kThreads)
    prepare_drafted_rows_kernel(const __grid_constant__ DraftTask task, bool clears) {
  if (clears) {
    const auto clear = [](std::uint8_t* active, std::int64_t rows) {
      if (active == nullptr) return;
      for (std::int64_t row = threadIdx.x; row < rows; row += kThreads) active[row] = 0;
    };
    clear(task.of_target.active, task.target.logits.rows);
    clear(task.of_draft.active, task.draft_rows);
    __syncthreads();
  }
  const std::int64_t first = std::int64_t{blockIdx.x} * kRequestsOfBlock + warp_of_thread();
  for (std::int64_t b = first; b < task.target.batch;
       b += std::int64_t{gridDim.x} * kRequestsOfBlock) {
    prepare_request(task, b);
  }
}

__global__ void __launch_bounds__(kThreads)
    find_emitted_rows_kernel(const DraftedState* requests, const std::int32_t* tokens,
                             const std::int32_t* nodes, std::int64_t width, std::int64_t places,
                             std::int32_t* rows) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (std::int64_t place = first; place < places; place += std::int64_t{gridDim.x} * kThreads) {
    std::int64_t row = -1;
    if (tokens[place] >= 0) {
      const std::int64_t b = place / width;
      const std::int64_t i = place % width;
      // In a tree, row j + 1 of a request belongs to draft j.
      const std::int64_t of_request =
          nodes == nullptr || i == 0 ? i : std::int64_t{nodes[b * (width - 1) + i - 1]} + 1;
      row = requests[b].request.row + of_request;
    }
    rows[place] = static_cast<std::int32_t>(row);
  }
}

}  // namespace

cudaError_t find_emitted_rows(const DraftTask& task, const std::int32_t* tokens,
                              const std::int32_t* nodes, std::int64_t width, std::int32_t* rows,
                              cudaStream_t stream) {
  const std::int64_t places = task.target.batch * width;
  return launch_blocks(find_emitted_rows_kernel, (places + kThreads - 1) / kThreads, kThreads,
                       stream, task.requests, tokens, nodes, width, places, rows);
}

cudaError_t prepare_drafted_rows(const DraftTask& task, cudaStream_t stream) {
  const std::int64_t rows = task.target.logits.rows + task.draft_rows;
  const bool clears = rows <= kFewRows && task.target.batch <= kFewRequests;  // by one block
  const auto clear = [stream](std::uint8_t* active, std::int64_t n) {
    if (active == nullptr || n == 0) return cudaSuccess;
    return cudaMemsetAsync(active, 0, static_cast<std::size_t>(n), stream);
  };
  if (!clears) {
    cudaError_t error = clear(task.of_target.active, task.target.logits.rows);
    if (error == cudaSuccess) error = clear(task.of_draft.active, task.draft_rows);
    if (error != cudaSuccess) return error;
  }
  const std::int64_t blocks = (task.target.batch + kRequestsOfBlock - 1) / kRequestsOfBlock;
  return launch_blocks(prepare_drafted_rows_kernel, clears ? 1 : blocks, kThreads, stream, task,
                       clears);
}

}  // namespace fairdraw::cuda
