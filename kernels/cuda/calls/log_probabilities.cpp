// Reports of log-probabilities on the GPU (fairdraw/log_probabilities.h): which launches a call
// needs. The kernels are row_logprobs.cu, and filter_rows.cuh for the n largest.

#include <algorithm>

#include "common/arguments.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"

namespace fairdraw::cuda {

void keep_largest(std::int32_t top_n, RowsTask& task) {
  task.top_k = std::max(top_n, 2);
  task.top_p = 1.0F;
  task.min_p = 0.0F;
  task.tie_rule = TieRule::lowest_id;
  task.top_k_1_keeps_ties = false;
}

Error enqueue_reports(const RowsTask& rows, bool rows_are_raw, LogprobsTask report,
                      const Workspace& workspace, Path path, cudaStream_t stream) {
  RowsTask tops;
  tops.rows = rows.rows;
  tops.active = rows.active;
  tops.records = workspace.tops;
  tops.heads = workspace.heads;
  keep_largest(report.result.top_n, tops);
  report.tops = workspace.tops;
  report.heads = workspace.heads;
  if (rows.rows.rows == 0) return check_launch("report_logprobs", report_logprobs(report, stream));
  if (is_raw(report.result.mode)) {
    tops.total_of_row = true;
    if (rows_are_raw) {
      report.tops = rows.records;
    } else if (Error error = check_launch("filter_rows", filter_rows(tops, path, stream))) {
      return error;
    }
  } else if (report.result.top_n > 0 && report.heads.given()) {
    tops.temperature = rows.temperature;
    tops.allowed = rows.allowed;
    tops.processing = rows.processing;
    tops.edits = rows.edits;
    tops.noted = rows.heads.counts;
    if (Error error = check_launch("filter_rows", filter_rows(tops, path, stream))) return error;
  }
  return check_launch("report_logprobs", report_logprobs(report, stream));
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

/// Processed rows as a report: the logits at temperature 1, nothing filtered.
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
  LogprobsResult report;  // one that reports anything
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
