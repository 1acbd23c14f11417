// Implementation of accept_chain and accept_tree on the GPU (fairdraw/cuda_speculative.h): the
// checks, the workspace, and the kernels of a call.
//
//   drafted_rows   finds the rows that count, and their parameters;
//   decay_top_p    changes the top_p of rows whose top_p decays;
//   follow_entropy changes the temperature of rows whose temperature follows the entropy;
//   edit_rows      finds the changes of processing, if it is asked for;
//   filter_rows    filters the target's rows, all at once, and draws a token at each; also the
//                  draft's rows, if its distribution is known and needed;
//   accept_tree    walks over the drafts; accept_chain over chains whose distribution is known, and
//                  accept_blocks over those that are verified by block;
//   emitted_rows, mark_kept, pack_kept   make kept sets of the rows at which tokens were emitted.
// Rows after the first rejected draft token are filtered although no result needs them, because
// waiting for the walk over the drafts would take longer.
#include <cstddef>
#include <string>

#include "cuda/calls/kept_workspace.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/calls/workspace.h"
#include "cuda/device/device_pointers.h"
#include "cuda/processing/decay_top_p.h"
#include "cuda/processing/edit_rows.h"
#include "cuda/processing/follow_entropy.h"
#include "cuda/speculation/drafted_rows.h"
#include "fairdraw/cuda_kept_sets.h"
#include "serving/rules/kept_arguments.h"
#include "serving/rules/speculative_arguments.h"

namespace fairdraw::cuda {
namespace {

/// Allocates the arrays for the sampling parameters of rows.
RowSettings place_settings(BumpAllocator& memory, std::int64_t rows) {
  RowSettings settings;
  memory.allocate(settings.temperature, rows);
  memory.allocate(settings.top_k, rows);
  memory.allocate(settings.top_p, rows);
  memory.allocate(settings.min_p, rows);
  memory.allocate(settings.active, rows);
  return settings;
}

/// Returns the number of token positions of all requests; the call need not have been checked.
std::int64_t token_places(const DraftedCall& call) {
  const bool counts = call.width() > 0 && call.width() <= kMaxArrayBytes;
  return counts ? product_of(call.request.target.batch, call.width()) : 0;
}

/// Task of a call of accept_chain or accept_tree, with its workspace.
struct DraftWorkspace {
  DraftTask task;
  Workspace target;                      ///< records and edits of the target model's rows
  KeptWorkspace kept;                    ///< workspace for kept sets, in calls that request kept
                                         ///< sets
  RowRecord* draft_records = nullptr;    ///< records of the draft rows [draft rows], if the
                                         ///< distribution of the drafts is given
  std::int32_t* emitted_rows = nullptr;  ///< row at which each token was emitted [token positions],
                                         ///< for kept sets
  std::int32_t* nodes = nullptr;  ///< nodes of the tree at which tokens were emitted, for kept sets

  DraftWorkspace(const DraftedCall& call, bool has_kept, BumpAllocator& memory)
      : task{.target = call.request.target,
             .drafts = {call.request.max_draft, call.request.draft_tokens,
                        call.request.draft_lengths},
             .draft_law = call.request.draft_law,
             .draft_filters = call.request.draft_filters,
             .draft_rows = call.draft_rows(),
             .siblings = call.request.siblings,
             .parents = call.request.parents,
             .max_depth = call.request.max_depth,
             .requests = nullptr,
             .of_target = {},
             .draws = {},
             .of_draft = {}},
        target(Workspace::of(rows_of(task.target), /*reports=*/false, memory)) {
    const std::int64_t n = task.target.logits.rows;
    if (has_kept) kept = KeptWorkspace::of(n > 0 ? n : 0, task.target.logits.vocab, memory);
    memory.allocate(task.requests, task.target.batch);
    task.of_target = place_settings(memory, n);
    memory.allocate(task.draws.words, n);
    memory.allocate(task.draws.tokens, n);
    memory.allocate(task.draws.statuses, n);
    if (task.draft_law != DraftLaw::none) {
      memory.allocate(draft_records, task.draft_rows);
      task.of_draft = place_settings(memory, task.draft_rows);
      if (!call.is_chain) memory.allocate(task.children, n);
    }
    const std::int64_t places = task.drafts.tokens.size;
    if (!call.is_chain) memory.allocate(task.depths, places > 0 ? places : 1);
    if (has_kept) memory.allocate(emitted_rows, token_places(call));
    if (has_kept && !call.is_chain) memory.allocate(nodes, token_places(call));
  }
};

std::int64_t bytes_of(const DraftedCall& call, bool has_kept) {
  if (call.request.target.batch <= 0) return 0;
  BumpAllocator memory(nullptr);
  const DraftWorkspace workspace(call, has_kept, memory);
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

/// Checks the numbers of rows and requests; a launch has at most eight blocks for each of them.
Error check_sizes(const DraftedCall& call) {
  const TargetRows& target = call.request.target;
  if (Error error = check_batch(target.logits, "target.logits")) return error;
  if (target.batch > kMaxRows) {
    return out_of_range("target.batch", std::to_string(target.batch),
                        "0 to " + std::to_string(kMaxRows));
  }
  return call.knows_distribution() ? check_batch(call.request.draft, "draft") : Error{};
}

void check_pointers(DevicePointers& pointers, const DraftedCall& call, const KeptSets* kept,
                    const Execution& execution) {
  const AcceptTreeRequest& request = call.request;
  check_target(pointers, request.target);
  pointers.check("draft_tokens", request.draft_tokens);
  pointers.check("draft_lengths", request.draft_lengths);
  pointers.check("accept_rule", call.accept_rule);
  pointers.check("tokens", call.result.tokens);
  pointers.check("accepted", call.result.accepted);
  pointers.check("statuses", call.result.statuses);
  if (kept != nullptr) {
    pointers.check("kept.token_ids", kept->token_ids);
    pointers.check("kept.offsets", kept->offsets);
    pointers.check("kept.overflow", kept->overflow);
  }
  pointers.check_workspace(execution, bytes_of(call, kept != nullptr), request.target.batch);
  if (call.knows_distribution()) {
    pointers.check("draft", request.draft);
    check_filters(pointers, request.draft_filters, "draft_filters.");
  }
  pointers.check("parents", request.parents);
  pointers.check("nodes", call.result.nodes);
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

/// Finds the rows of the requests, filters the rows of the target model, and draws a token from
/// each row.
Error draw_target(const DraftWorkspace& workspace, Path path, cudaStream_t stream) {
  const DraftTask& draft = workspace.task;
  if (Error e = check_launch("drafted_rows", prepare_drafted_rows(draft, stream))) return e;
  const SampleRequest request = rows_of(draft.target);
  const std::int64_t n = request.logits.rows;
  if (n == 0) return {};
  RowsTask task;
  task.rows = request.logits;
  task.allowed = request.allowed;
  task.edits = workspace.target.edits;
  set_filters(draft.of_target, n, draft.target.filters, task);
  task.draws = draft.draws.words;
  task.tokens = draft.draws.tokens;
  task.statuses = draft.draws.statuses;
  task.records = workspace.target.records;
  task.keys = workspace.kept.keys;  // set in calls that request kept sets
  if (float* const now = workspace.target.top_p; now != nullptr) {
    const DecayTask decay{n, task.active, request.processing, task.top_p, now};
    if (Error e = check_launch("decay_top_p", decay_top_p(decay, stream))) return e;
    task.top_p = {now, n};
  }
  if (task.edits.given()) {
    EditTask edits{task.rows, task.allowed, task.active, request.processing, task.edits};
    edits.entropy_shares = workspace.target.entropy_shares;
    if (Error error = check_launch("edit_rows", edit_rows(edits, stream))) return error;
  }
  if (float* const now = workspace.target.temperature; now != nullptr) {
    const TemperatureTask follow{
        n, task.active, request.processing, task.temperature, workspace.target.entropy_shares, now};
    if (Error e = check_launch("follow_entropy", follow_entropy(follow, stream))) return e;
    task.temperature = {now, n};
    task.parameters_come_late = true;
  }
  return check_launch("filter_rows", filter_rows(task, path, stream));
}

/// Computes the weights of the draft model's rows, which are either filtered first or left as they
/// are.
Error weigh_draft(const AcceptTreeRequest& request, const DraftWorkspace& workspace, Path path,
                  cudaStream_t stream) {
  const RowSettings& settings = workspace.task.of_draft;
  const std::int64_t n = request.draft.rows;
  if (n == 0) return {};
  if (request.draft_law == DraftLaw::probs) {
    return check_launch("filter_rows", weigh_probabilities(request.draft, {settings.active, n},
                                                           workspace.draft_records, path, stream));
  }
  RowsTask rows;
  rows.rows = request.draft;
  set_filters(settings, n, request.draft_filters, rows);
  rows.records = workspace.draft_records;
  return check_launch("filter_rows", filter_rows(rows, path, stream));
}

FilteredRows filtered_target(const DraftTask& draft, const DraftWorkspace& workspace) {
  const SampleRequest request = rows_of(draft.target);
  const bool processed = workspace.target.edits.given();
  return {request.logits,
          false,
          {workspace.target.temperature != nullptr ? workspace.target.temperature
                                                   : draft.of_target.temperature,
           request.logits.rows},
          processed ? BitRows<const std::uint32_t>{} : request.allowed,
          workspace.target.edits,
          workspace.target.records};
}

FilteredRows weighed_draft(const AcceptTreeRequest& request, const DraftWorkspace& workspace) {
  FilteredRows draft;
  draft.rows = request.draft;
  draft.from_probs = request.draft_law == DraftLaw::probs;
  draft.temperature = {workspace.task.of_draft.temperature, request.draft.rows};
  draft.records = workspace.draft_records;
  return draft;
}

/// Enqueues the kernels that make the kept sets of the rows at which tokens were emitted.
Error enqueue_kept(const DraftWorkspace& workspace, const AcceptTreeResult& result,
                   const KeptSets& kept, cudaStream_t stream) {
  const DraftTask& task = workspace.task;
  const std::int64_t width = task.max_depth + 1;
  if (Error e = check_launch("emitted_rows",
                             find_emitted_rows(task, result.tokens.data, result.nodes.data, width,
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

/// Enqueues a write of the first offset, for a result that has no sets.
Error enqueue_no_sets(const KeptSets& kept, cudaStream_t stream) {
  PackTask none;
  none.kept = kept;
  return check_launch("pack_kept", pack_kept(none, stream));
}

/// Enqueues the kernels that verify chains of known distribution. If the requests have rules of
/// their own, each kernel verifies the requests of its rule.
Error verify_chains(const DraftedCall& call, const DraftTask& task, const FilteredRows& target,
                    const FilteredRows& draft, Path path, cudaStream_t stream) {
  const AcceptTreeResult& result = call.result;
  const PerRequest<AcceptRule>& rule = call.accept_rule;
  if (rule.is_array() || rule.scalar == AcceptRule::token_wise) {
    const AcceptChainResult of_chain{result.tokens, result.accepted, result.statuses};
    if (Error e = check_launch("accept_chain",
                               walk_chains(task, target, draft, of_chain, rule, path, stream))) {
      return e;
    }
  }
  if (!rule.is_array() && rule.scalar == AcceptRule::token_wise) return {};
  return check_launch("accept_blocks",
                      walk_blocks(task, target, draft, result, rule, path, stream));
}

/// Runs a call; `kept` is either the kept sets to make or null.
Error run(DraftedCall call, const KeptSets* kept, const Execution& execution) {
  const AcceptTreeRequest& request = call.request;
  AcceptTreeResult& result = call.result;
  if (Error error = check_drafted_call(call)) return error;
  if (Error error = check_sizes(call)) return error;
  if (kept != nullptr) {
    if (Error error = check_kept(*kept, token_places(call), call.width_text())) return error;
  }
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  DevicePointers pointers;
  check_pointers(pointers, call, kept, execution);
  if (pointers.error()) return pointers.error();

  const cudaStream_t stream = stream_of(execution);
  if (request.target.batch == 0) return kept != nullptr ? enqueue_no_sets(*kept, stream) : Error{};
  BumpAllocator memory(execution.workspace);
  const DraftWorkspace workspace(call, kept != nullptr, memory);
  const DraftTask& task = workspace.task;
  if (kept != nullptr && !call.is_chain && !result.nodes.given()) {
    result.nodes = {workspace.nodes, request.target.batch * request.max_depth};
  }
  if (Error e = draw_target(workspace, path, stream)) return e;
  FilteredRows draft;
  if (call.knows_distribution()) {
    if (Error e = weigh_draft(request, workspace, path, stream)) return e;
    draft = weighed_draft(request, workspace);
  }
  const FilteredRows target = filtered_target(task, workspace);
  if (call.is_chain && call.knows_distribution()) {
    if (Error e = verify_chains(call, task, target, draft, path, stream)) return e;
  } else if (Error e = check_launch("accept_tree",
                                    walk_trees(task, target, draft, result, path, stream))) {
    return e;
  }
  if (kept == nullptr) return {};
  return enqueue_kept(workspace, result, *kept, stream);
}

}  // namespace

std::int64_t workspace_bytes(const AcceptChainRequest& request) noexcept {
  return bytes_of(DraftedCall(request), false);
}

std::int64_t workspace_bytes(const AcceptTreeRequest& request) noexcept {
  return bytes_of(DraftedCall(request), false);
}

std::int64_t workspace_bytes(const AcceptChainRequest& request, const KeptSets&) noexcept {
  return bytes_of(DraftedCall(request), true);
}

std::int64_t workspace_bytes(const AcceptTreeRequest& request, const KeptSets&) noexcept {
  return bytes_of(DraftedCall(request), true);
}

Error accept_chain(const AcceptChainRequest& request, const AcceptChainResult& result,
                   const Execution& execution) {
  return run(DraftedCall(request, result), nullptr, execution);
}

Error accept_chain_with_kept_sets(const AcceptChainRequest& request,
                                  const AcceptChainResult& result, const KeptSets& kept,
                                  const Execution& execution) {
  return run(DraftedCall(request, result), &kept, execution);
}

Error accept_tree(const AcceptTreeRequest& request, const AcceptTreeResult& result,
                  const Execution& execution) {
  return run(DraftedCall(request, result), nullptr, execution);
}

Error accept_tree_with_kept_sets(const AcceptTreeRequest& request, const AcceptTreeResult& result,
                                 const KeptSets& kept, const Execution& execution) {
  return run(DraftedCall(request, result), &kept, execution);
}

}  // namespace fairdraw::cuda
