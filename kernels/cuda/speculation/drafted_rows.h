// Interface of the kernels that accept or reject drafted tokens on the GPU.
//
// The kernel of drafted_rows.cu finds the rows that are needed and their parameters; the row kernel
// filters these rows and draws tokens from them; and the kernel of accept_tree.cu walks over the
// drafts of each request. A chain is a tree with one child per node. The kernel of accept_chain.cu
// walks over chains whose draft distribution is known, and the kernel of
// chain_speculative_sampling.cu accepts drafts by given probabilities.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/proposals.h"
#include "cuda/rows/filtered_rows.h"
#include "cuda/tiles/filter_rows.h"
#include "serving/rules/drafted_request.h"

namespace fairdraw::cuda {

/// State of a request, as the first kernel has found it.
struct DraftedState {
  DraftedRequest request;
  RowStatus status;
  std::int32_t by_distribution;  ///< whether the distribution of the request's drafts is known and
                                 ///< needed
};

/// Sampling parameters of rows, which are copied from the parameters of their requests.
struct RowSettings {
  float* temperature = nullptr;
  std::int32_t* top_k = nullptr;
  float* top_p = nullptr;
  float* min_p = nullptr;
  std::uint8_t* active = nullptr;
};

/// Tokens and words that the row kernel draws at each row of the target.
struct RowDraws {
  DrawWords* words = nullptr;
  std::int32_t* tokens = nullptr;
  RowStatus* statuses = nullptr;
};

/// Arguments of the kernels of a call, with pointers to device memory.
struct DraftTask {
  TargetRows target;
  Drafts drafts;
  DraftLaw draft_law = DraftLaw::none;
  LawFilters draft_filters;
  std::int64_t draft_rows = 0;  ///< number of rows of the draft's distribution
  SiblingSampling siblings{};
  View<const std::int32_t> parents;  ///< parent of each draft; chains do not have this array
  std::int64_t max_depth = 0;

  // In the workspace.
  DraftedState* requests = nullptr;  ///< [batch]
  RowSettings of_target;             ///< [target rows]
  RowDraws draws;                    ///< [target rows]
  RowSettings of_draft;              ///< settings of the draft rows [draft rows], if the
                                     ///< distribution of the draft is known
  std::int32_t* depths = nullptr;    ///< depths of the drafts [places for drafts], or null for
                                     ///< chains
  std::int32_t* children = nullptr;  ///< number of children of each node [target rows]; null for
                                     ///< chains, and if the distribution of the draft is unknown

  /// Returns the parent of draft `number` of a request as a draft number, or -1 if the parent is
  /// the root.
  __device__ std::int64_t parent(const DraftedRequest& request, std::int64_t number) const {
    return parents.given() ? parents.data[request.place + number] : number - 1;
  }
  /// Returns the words of the random draw that `sample` makes at a position of request b.
  __device__ DrawWords draw_words(std::int64_t b, std::int64_t position) const {
    return {target.seed.at(b), target.offset.at(b) + static_cast<std::uint64_t>(position),
            Purpose::draw, static_cast<std::uint32_t>(target.seed.is_array() ? 0 : b)};
  }
  /// Returns the random word for a purpose at a position of request b.
  __device__ std::uint64_t word(std::int64_t b, std::int64_t position, Purpose purpose) const {
    const DrawWords words = draw_words(b, position);
    return random_word(words.seed, words.offset, purpose, words.index);
  }
  /// Returns the row of the draft's distribution for the children of a node. In trees, this row has
  /// the same number as the target's row; in chains, it is at the request's place.
  __device__ std::int64_t draft_row(const DraftedRequest& request, std::int64_t node) const {
    return (parents.given() ? request.row : request.place) + node + 1;
  }
};

/// Enqueues the first kernel, which finds the requests and writes the settings of their rows; the
/// batch must have at least 1 request.
cudaError_t prepare_drafted_rows(const DraftTask& task, cudaStream_t stream);

/// Enqueues the kernel that walks over the drafts of each request; the batch must have fewer than
/// 2^22 requests. `target` and `draft` are filtered rows; `draft` is needed only if the
/// distribution of the draft is known.
cudaError_t walk_trees(const DraftTask& task, const FilteredRows& target, const FilteredRows& draft,
                       const AcceptTreeResult& result, Path path, cudaStream_t stream);

/// Enqueues the kernel that walks over chains whose draft distribution is known. It writes nothing
/// for requests whose rule is AcceptRule::block. Chains have a
/// kernel of their own, because the kernel for trees takes 48 KB of shared memory for the residuals
/// of siblings, so that fewer of its blocks run at once. For 64 chains of 5 drafts, V = 128256 and
/// one H100, the kernel for chains takes 271 microseconds, and the kernel for trees 334.
cudaError_t walk_chains(const DraftTask& task, const FilteredRows& target,
                        const FilteredRows& draft, const AcceptChainResult& result,
                        const PerRequest<AcceptRule>& rules, Path path, cudaStream_t stream);

/// Enqueues the kernel that verifies chains of known distribution by block, for the requests whose
/// rule is AcceptRule::block. It writes nothing for other requests.
cudaError_t walk_blocks(const DraftTask& task, const FilteredRows& target,
                        const FilteredRows& draft, const AcceptTreeResult& result,
                        const PerRequest<AcceptRule>& rules, Path path, cudaStream_t stream);

/// Enqueues the row kernel for rows of probabilities without filters; for each row, the kernel
/// stores the fault, the largest value and the weight. `active` is optional, and has one flag per
/// row.
inline cudaError_t weigh_probabilities(const RowsView& probs, View<const std::uint8_t> active,
                                       RowRecord* records, Path path, cudaStream_t stream) {
  RowsTask task;
  task.rows = probs;
  task.from_probs = true;
  task.active = active;
  task.records = records;
  return filter_rows(task, path, stream);
}

/// Enqueues the kernel that finds the row at which each token was emitted; places without a token
/// get -1. The shape of `tokens` is [batch, width], and that of `nodes` [batch, width - 1], where
/// null means a chain. The product batch * width must be at least 1.
cudaError_t find_emitted_rows(const DraftTask& task, const std::int32_t* tokens,
                              const std::int32_t* nodes, std::int64_t width, std::int32_t* rows,
                              cudaStream_t stream);

struct ChainTask {
  ChainSpeculativeRequest request;
  ChainSpeculativeResult result;
  RowRecord* records = nullptr;  ///< one record per row, with all target rows before all draft rows

  __host__ __device__ RowRecord* draft_records() const {
    return records + request.target_probs.rows;
  }
  __host__ __device__ FilteredRows target() const { return of(request.target_probs, records); }
  /// Returns the view of the draft rows, which no kernel reads if there are no draft rows.
  __host__ __device__ FilteredRows draft() const {
    return of(request.draft_probs, draft_records());
  }

 private:
  __host__ __device__ static FilteredRows of(const RowsView& rows, const RowRecord* records) {
    FilteredRows filtered;
    filtered.rows = rows;
    filtered.from_probs = true;
    filtered.records = records;
    return filtered;
  }
};

/// Enqueues the kernels of chain_speculative_sampling.cu; `batch` must be in [1, 2^22), with fewer
/// than 2^22 rows of each kind. Returns the first CUDA error of a launch.
cudaError_t accept_chains(const ChainTask& task, Path path, cudaStream_t stream);

}  // namespace fairdraw::cuda
