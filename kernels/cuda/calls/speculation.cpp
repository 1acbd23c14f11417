// verify_chain and verify_tree on the GPU (fairdraw/cuda_speculative.h): checks, workspace, and
// which kernels a call needs.
//
//   drafted_rows   which rows count, and their parameters;
//   edit_rows      what processing changes in them, where it is asked for;
//   filter_rows    the target's rows, all at once, a token drawn at each; and the draft's, where
//                  its distribution is known and is needed;
//   verify_chain, verify_tree, tree_distribution   the walk over the drafts;
//   emitted_rows, mark_kept, pack_kept   kept sets of the rows at which tokens were emitted.
// Rows after the first draft that is rejected are filtered for nothing: to wait for the walk
// would take longer.
#include <cstddef>
#include <string>

#include "common/kept_arguments.h"
#include "common/speculative_arguments.h"
#include "cuda/calls/kept_workspace.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/calls/workspace.h"
#include "cuda/device/device_pointers.h"
#include "cuda/processing/edit_rows.h"
#include "cuda/speculation/drafted_rows.h"
#include "fairdraw/cuda_kept_sets.h"

namespace fairdraw::cuda {
namespace {

/// Room for the parameters of rows.
RowSettings place_settings(BumpAllocator& memory, std::int64_t rows) {
  RowSettings settings;
  memory.allocate(settings.temperature, rows);
  memory.allocate(settings.top_k, rows);
  memory.allocate(settings.top_p, rows);
  memory.allocate(settings.min_p, rows);
  memory.allocate(settings.active, rows);
  return settings;
}

/// The workspace of a call.
struct DraftWorkspace {
  Workspace target;                    ///< records and edits of the target's rows
  KeptWorkspace kept;                  ///< of calls with kept sets
  RowRecord* draft_records = nullptr;  ///< [draft rows], where the distribution is known
  DraftedState* requests = nullptr;
  RowSettings of_target, of_draft;
  RowDraws draws;
  std::int32_t* depths = nullptr;
  std::int32_t* children = nullptr;
  std::int32_t* emitted_rows = nullptr;  ///< [places of tokens], of kept sets
  std::int32_t* nodes = nullptr;         ///< of a tree with kept sets

  static DraftWorkspace of(const TargetRows& target, std::int64_t places, std::int64_t draft_rows,
                           bool knows_distribution, bool is_tree, bool has_kept,
                           BumpAllocator& memory) {
    const SampleRequest rows = rows_of(target);
    const std::int64_t n = rows.logits.rows;
    DraftWorkspace workspace;
    workspace.target = Workspace::of(rows, /*reports=*/false, memory);
    if (has_kept) workspace.kept = KeptWorkspace::of(n > 0 ? n : 0, rows.logits.vocab, memory);
    memory.allocate(workspace.requests, target.batch);
    workspace.of_target = place_settings(memory, n);
    memory.allocate(workspace.draws.seed, n);
    memory.allocate(workspace.draws.offset, n);
    memory.allocate(workspace.draws.index, n);
    memory.allocate(workspace.draws.tokens, n);
    memory.allocate(workspace.draws.statuses, n);
    if (knows_distribution) {
      memory.allocate(workspace.draft_records, draft_rows);
      workspace.of_draft = place_settings(memory, draft_rows);
      if (is_tree) memory.allocate(workspace.children, n);
    }
    if (is_tree) memory.allocate(workspace.depths, places > 0 ? places : 1);
    return workspace;
  }
};

/// Tokens of a request at most.
std::int64_t width_of(const VerifyChainRequest& request) { return request.max_draft + 1; }
std::int64_t width_of(const VerifyTreeRequest& request) { return request.max_depth + 1; }

/// Places of tokens, of all requests; also of a call that is not checked.
template <class Request>
std::int64_t token_places(const Request& request) {
  const bool counts = width_of(request) > 0 && width_of(request) <= kMaxArrayBytes;
  return counts ? product_of(request.target.batch, width_of(request)) : 0;
}

DraftWorkspace workspace_of(const VerifyChainRequest& request, bool has_kept,
                            BumpAllocator& memory) {
  const std::int64_t places = request.draft_tokens.size;
  DraftWorkspace workspace = DraftWorkspace::of(
      request.target, places, places, request.draft_law != DraftLaw::none, false, has_kept, memory);
  if (has_kept) memory.allocate(workspace.emitted_rows, token_places(request));
  return workspace;
}

DraftWorkspace workspace_of(const VerifyTreeRequest& request, bool has_kept,
                            BumpAllocator& memory) {
  DraftWorkspace workspace =
      DraftWorkspace::of(request.target, request.draft_tokens.size, request.target.logits.rows,
                         request.draft_law != DraftLaw::none, true, has_kept, memory);
  if (has_kept) {
    memory.allocate(workspace.emitted_rows, token_places(request));
    memory.allocate(workspace.nodes, token_places(request));
  }
  return workspace;
}

template <class Request>
std::int64_t bytes_of(const Request& request, bool has_kept) {
  if (request.target.batch <= 0) return 0;
  BumpAllocator memory(nullptr);
  workspace_of(request, has_kept, memory);
  return memory.bytes();
}

void check_filters(DevicePointers& pointers, const LawFilters& filters, const std::string& prefix) {
  pointers.check(prefix + "temperature", filters.temperature);
  pointers.check(prefix + "top_k", filters.top_k);
  pointers.check(prefix + "top_p", filters.top_p);
  pointers.check(prefix + "min_p", filters.min_p);
}

void check_target(DevicePointers& pointers, const TargetRows& target) {
  pointers.check("target.logits", target.logits);
  check_filters(pointers, target.filters, "target.filters.");
  pointers.check("target.allowed", target.allowed);
  pointers.check(target.processing);
  pointers.check("target.row_begins", target.row_begins);
  pointers.check("target.active", target.active);
  pointers.check("target.seed", target.seed);
  pointers.check("target.offset", target.offset);
}

/// Rows and requests are blocks of launches, eight at most each.
Error check_sizes(const TargetRows& target) {
  if (Error error = check_batch(target.logits, "target.logits")) return error;
  if (target.batch <= kMaxRows) return {};
  return out_of_range("target.batch", std::to_string(target.batch),
                      "0 to " + std::to_string(kMaxRows));
}

template <class Request, class Result>
void check_drafts(DevicePointers& pointers, const Request& request, const Result& result,
                  const KeptSets* kept, const Execution& execution) {
  check_target(pointers, request.target);
  pointers.check("draft_tokens", request.draft_tokens);
  pointers.check("draft_lengths", request.draft_lengths);
  pointers.check("tokens", result.tokens);
  pointers.check("accepted", result.accepted);
  pointers.check("statuses", result.statuses);
  if (kept != nullptr) {
    pointers.check("kept.token_ids", kept->token_ids);
    pointers.check("kept.offsets", kept->offsets);
    pointers.check("kept.overflow", kept->overflow);
  }
  pointers.check_workspace(execution, bytes_of(request, kept != nullptr), request.target.batch);
}

/// What chains and trees have alike.
template <class Request>
DraftTask task_of(const Request& request, const DraftWorkspace& workspace) {
  DraftTask task;
  task.target = request.target;
  task.drafts = {request.max_draft, request.draft_tokens, request.draft_lengths};
  task.draft_law = request.draft_law;
  task.draft_filters = request.draft_filters;
  task.requests = workspace.requests;
  task.of_target = workspace.of_target;
  task.draws = workspace.draws;
  task.of_draft = workspace.of_draft;
  task.depths = workspace.depths;
  task.children = workspace.children;
  return task;
}

/// True where rows of a draft are read.
template <class Request>
bool knows_distribution(const Request& request) {
  return request.draft_law != DraftLaw::none && request.draft_tokens.size > 0;
}

template <class Request>
void check_distribution(DevicePointers& pointers, const Request& request) {
  if (!knows_distribution(request)) return;
  pointers.check("draft", request.draft);
  check_filters(pointers, request.draft_filters, "draft_filters.");
}

void set_filters(const RowSettings& settings, std::int64_t rows, const LawFilters& rules,
                 RowsTask& task) {
  task.temperature = {settings.temperature, rows};
  task.top_k = {settings.top_k, rows};
  task.top_p = {settings.top_p, rows};
  task.min_p = {settings.min_p, rows};
  task.active = {settings.active, rows};
  task.tie_rule = rules.tie_rule;
  task.filter_order = rules.filter_order;
}

/// Finds the rows of the requests, filters the target's and draws a token at each.
Error draw_target(const DraftTask& draft, const DraftWorkspace& workspace, Path path,
                  cudaStream_t stream) {
  if (Error e = check_launch("drafted_rows", prepare_drafted_rows(draft, stream))) return e;
  const SampleRequest request = rows_of(draft.target);
  const std::int64_t n = request.logits.rows;
  if (n == 0) return {};
  RowsTask task;
  task.rows = request.logits;
  task.allowed = request.allowed;
  task.processing = request.processing;
  task.edits = workspace.target.edits;
  set_filters(workspace.of_target, n, draft.target.filters, task);
  task.seed = {workspace.draws.seed, n};
  task.offset = {workspace.draws.offset, n};
  task.index = workspace.draws.index;
  task.tokens = workspace.draws.tokens;
  task.statuses = workspace.draws.statuses;
  task.records = workspace.target.records;
  task.keys = workspace.kept.keys;  // of calls with kept sets
  if (task.edits.given()) {
    if (Error error = check_launch("edit_rows", edit_rows(task, stream))) return error;
  }
  return check_launch("filter_rows", filter_rows(task, path, stream));
}

/// Weighs the rows of the draft: as they are, or filtered.
template <class Request>
Error weigh_draft(const Request& request, const DraftWorkspace& workspace, Path path,
                  cudaStream_t stream) {
  const std::int64_t n = request.draft.rows;
  if (n == 0) return {};
  if (request.draft_law == DraftLaw::probs) {
    return check_launch("filter_rows",
                        weigh_probabilities(request.draft, {workspace.of_draft.active, n},
                                            workspace.draft_records, path, stream));
  }
  RowsTask rows;
  rows.rows = request.draft;
  set_filters(workspace.of_draft, n, request.draft_filters, rows);
  rows.records = workspace.draft_records;
  return check_launch("filter_rows", filter_rows(rows, path, stream));
}

FilteredRows filtered_target(const DraftTask& draft, const DraftWorkspace& workspace) {
  const SampleRequest request = rows_of(draft.target);
  const bool processed = workspace.target.edits.given();
  return {request.logits,
          false,
          {workspace.of_target.temperature, request.logits.rows},
          processed ? BitRows<const std::uint32_t>{} : request.allowed,
          workspace.target.edits,
          workspace.target.records};
}

template <class Request>
FilteredRows weighed_draft(const Request& request, const DraftWorkspace& workspace) {
  FilteredRows draft;
  draft.rows = request.draft;
  draft.from_probs = request.draft_law == DraftLaw::probs;
  draft.temperature = {workspace.of_draft.temperature, request.draft.rows};
  draft.records = workspace.draft_records;
  return draft;
}

}  // namespace

std::int64_t workspace_bytes(const VerifyChainRequest& request) noexcept {
  return bytes_of(request, false);
}

std::int64_t workspace_bytes(const VerifyTreeRequest& request) noexcept {
  return bytes_of(request, false);
}

std::int64_t workspace_bytes(const VerifyChainRequest& request, const KeptSets&) noexcept {
  return bytes_of(request, true);
}

std::int64_t workspace_bytes(const VerifyTreeRequest& request, const KeptSets&) noexcept {
  return bytes_of(request, true);
}

namespace {

/// Sets of the rows at which tokens were emitted. `nodes`: of a tree.
Error enqueue_kept(const DraftTask& task, const DraftWorkspace& workspace,
                   const std::int32_t* tokens, const std::int32_t* nodes, std::int64_t width,
                   const KeptSets& kept, cudaStream_t stream) {
  if (Error e = check_launch("emitted_rows", find_emitted_rows(task, tokens, nodes, width,
                                                               workspace.emitted_rows, stream))) {
    return e;
  }
  const KeptWorkspace& of_rows = workspace.kept;
  if (task.target.logits.rows > 0) {
    const MarkTask mark{filtered_target(task, workspace),
                        {of_rows.keys.data, of_rows.keys.rows, of_rows.keys.row_stride},
                        of_rows.marks,
                        of_rows.words};
    if (Error e = check_launch("mark_kept", mark_kept(mark, stream))) return e;
  }
  PackTask pack;
  pack.marks = of_rows.marks;
  pack.outputs = task.target.batch * width;
  pack.indices = {workspace.emitted_rows, pack.outputs};
  pack.kept = kept;
  return check_launch("pack_kept", pack_kept(pack, stream));
}

/// The offset of no sets.
Error enqueue_no_sets(const KeptSets& kept, cudaStream_t stream) {
  PackTask none;
  none.kept = kept;
  return check_launch("pack_kept", pack_kept(none, stream));
}

/// kept: null, or where sets go.
Error run_chain(const VerifyChainRequest& request, const VerifyChainResult& result,
                const KeptSets* kept, const Execution& execution) {
  if (Error error = check_verify_chain(request, result)) return error;
  if (Error error = check_sizes(request.target)) return error;
  if (knows_distribution(request)) {
    if (Error error = check_batch(request.draft, "draft")) return error;
  }
  if (kept != nullptr) {
    const std::int64_t places = token_places(request);
    if (Error error = check_kept(*kept, places, "batch * (max_draft + 1)")) return error;
  }
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  DevicePointers pointers;
  check_drafts(pointers, request, result, kept, execution);
  check_distribution(pointers, request);
  if (pointers.error()) return pointers.error();

  const cudaStream_t stream = stream_of(execution);
  if (request.target.batch == 0) return kept != nullptr ? enqueue_no_sets(*kept, stream) : Error{};
  BumpAllocator memory(execution.workspace);
  const DraftWorkspace workspace = workspace_of(request, kept != nullptr, memory);
  DraftTask task = task_of(request, workspace);
  task.draft_rows = request.draft_tokens.size;
  if (Error e = draw_target(task, workspace, path, stream)) return e;
  FilteredRows draft;
  if (knows_distribution(request)) {
    if (Error e = weigh_draft(request, workspace, path, stream)) return e;
    draft = weighed_draft(request, workspace);
  }
  if (Error e = check_launch("verify_chain", walk_chains(task, filtered_target(task, workspace),
                                                         draft, result, path, stream))) {
    return e;
  }
  if (kept == nullptr) return {};
  return enqueue_kept(task, workspace, result.tokens.data, nullptr, width_of(request), *kept,
                      stream);
}

/// The same of a tree.
Error run_tree(const VerifyTreeRequest& request, VerifyTreeResult result, const KeptSets* kept,
               const Execution& execution) {
  if (Error error = check_verify_tree(request, result)) return error;
  if (Error error = check_sizes(request.target)) return error;  // as many rows of the draft
  if (kept != nullptr) {
    const std::int64_t places = token_places(request);
    if (Error error = check_kept(*kept, places, "batch * (max_depth + 1)")) return error;
  }
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  DevicePointers pointers;
  check_drafts(pointers, request, result, kept, execution);
  check_distribution(pointers, request);
  pointers.check("parents", request.parents);
  pointers.check("nodes", result.nodes);
  if (pointers.error()) return pointers.error();

  const cudaStream_t stream = stream_of(execution);
  if (request.target.batch == 0) return kept != nullptr ? enqueue_no_sets(*kept, stream) : Error{};
  BumpAllocator memory(execution.workspace);
  const DraftWorkspace workspace = workspace_of(request, kept != nullptr, memory);
  DraftTask task = task_of(request, workspace);
  task.parents = request.parents;
  task.max_depth = request.max_depth;
  task.draft_rows = request.target.logits.rows;
  task.siblings = request.siblings;
  if (kept != nullptr && !result.nodes.given()) {
    result.nodes = {workspace.nodes, request.target.batch * request.max_depth};
  }
  if (Error e = draw_target(task, workspace, path, stream)) return e;
  if (!knows_distribution(request)) {
    if (Error e = check_launch("verify_tree", walk_trees(task, result, stream))) return e;
  } else {
    if (Error e = weigh_draft(request, workspace, path, stream)) return e;
    if (Error e = check_launch(
            "verify_tree_law",
            walk_distribution_trees(task, filtered_target(task, workspace),
                                    weighed_draft(request, workspace), result, path, stream))) {
      return e;
    }
  }
  if (kept == nullptr) return {};
  return enqueue_kept(task, workspace, result.tokens.data, result.nodes.data, width_of(request),
                      *kept, stream);
}

}  // namespace

Error verify_chain(const VerifyChainRequest& request, const VerifyChainResult& result,
                   const Execution& execution) {
  return run_chain(request, result, nullptr, execution);
}

Error verify_chain_with_kept_sets(const VerifyChainRequest& request,
                                  const VerifyChainResult& result, const KeptSets& kept,
                                  const Execution& execution) {
  return run_chain(request, result, &kept, execution);
}

Error verify_tree(const VerifyTreeRequest& request, const VerifyTreeResult& result,
                  const Execution& execution) {
  return run_tree(request, result, nullptr, execution);
}

Error verify_tree_with_kept_sets(const VerifyTreeRequest& request, const VerifyTreeResult& result,
                                 const KeptSets& kept, const Execution& execution) {
  return run_tree(request, result, &kept, execution);
}

}  // namespace fairdraw::cuda
