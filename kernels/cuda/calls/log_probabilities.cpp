// Makes the launches of a call that reports log-probabilities on the GPU
// (fairdraw/log_probabilities.h). The kernels of reports are in row_logprobs.cu and, for rows
// without logits processing, in index_tiles.cu.
#include "common/arguments.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "cuda/outputs/index_tiles.h"

namespace fairdraw::cuda {
namespace {

/// Returns whether a report reads an index of the caller's logits, or the statuses in that index.
bool needs_raw_index(const LogprobsTask& report) {
  if (!report.result.given()) return false;  // statuses alone
  if (!is_raw(report.result.mode) || report.filtered.rows.rows == 0) return false;
  return needs_order(report.result) || is_logprobs(report.result.mode) ||
         report.filtered.records == nullptr;
}

Error index_raw_rows(const LogprobsTask& report, View<const std::uint8_t> active, Path path,
                     cudaStream_t stream) {
  TileIndexRequest raw;
  raw.rows = report.filtered.rows;
  raw.active = active;
  TileSpread spread;
  if (Error error = check_call("best_spread", best_spread(raw.rows, path, spread))) return error;
  return check_launch("index_tiles", index_tiles(raw, report.index, spread, stream));
}

}  // namespace

Error enqueue_reports(const LogprobsTask& report, View<const std::uint8_t> active, Path path,
                      cudaStream_t stream) {
  if (needs_raw_index(report)) {
    if (Error error = index_raw_rows(report, active, path, stream)) return error;
  }
  return check_launch("report_logprobs", report_logprobs(report, path, stream));
}

Error log_probabilities(const SampleRequest& request, View<const std::int32_t> token_ids,
                        const LogprobsResult& result, View<RowStatus> statuses,
                        const Execution& execution) {
  SampleRequest rows = request;
  if (is_raw(result.mode)) remove_filters(rows);
  if (Error error = check_request(rows, "logits")) return error;
  if (Error error = check_token_ids(rows, token_ids)) return error;
  SampleResult reports;
  reports.statuses = statuses;
  reports.logprobs = result;
  SampleOptions options;
  options.wants_tokens = false;
  options.given_tokens = token_ids;
  options.tokens_are_given = true;
  return sample_rows(rows, reports, execution, options);
}

namespace {

/// Returns the request that reports on processed rows, with the logits at temperature 1 and without
/// filters.
SampleRequest rows_of(const ProcessLogitsRequest& request) {
  SampleRequest rows;
  rows.logits = request.logits;
  rows.processing = request.processing;
  rows.allowed = request.allowed;
  rows.active = request.active;
  return rows;
}

}  // namespace

std::int64_t workspace_bytes(const ProcessLogitsRequest& request) noexcept {
  float value = 0;
  LogprobsResult report;  // set to a placeholder, because the size of the workspace depends on
                          // whether anything is reported
  report.values = {&value, 1};
  return workspace_bytes(rows_of(request), report);
}

Error process_logits(const ProcessLogitsRequest& request, const ProcessLogitsResult& result,
                     const Execution& execution) {
  if (Error error = check_process_logits(request, result)) return error;
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  DevicePointers pointers;
  pointers.check("processed", result.processed);
  if (pointers.error()) return pointers.error();
  SampleResult reports;
  reports.statuses = result.statuses;
  reports.logprobs.mode = LogprobsMode::processed_logits;
  reports.logprobs.all = result.processed;
  SampleOptions options;
  options.wants_tokens = false;
  options.reports_statuses = true;
  return sample_rows(rows_of(request), reports, execution, options);
}

}  // namespace fairdraw::cuda
