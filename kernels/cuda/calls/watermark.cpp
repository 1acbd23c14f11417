// Marks rows on the GPU (fairdraw/cuda_watermark.h). In a call of `sample`, one kernel
// (mark_rows.cu) replaces the tokens of marked rows after the row kernel, before all kernels that
// read tokens or statuses. If rows may have top_p alone, and tokens and statuses are the only
// results, another kernel runs first, so that the row kernel does not look for thresholds.
#include <algorithm>

#include "common/arguments.h"
#include "common/parameters.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "cuda/outputs/mark_rows.h"
#include "fairdraw/cuda_watermark.h"
#include "serving/rules/watermark_rules.h"

namespace fairdraw::cuda {
namespace {

/// Returns the request without its output if no logits processing reads the output, so that rows
/// are not processed.
SampleRequest without_unread_output(const SampleRequest& request) {
  SampleRequest unread = request;
  unread.processing.output = {};
  return is_processed(unread.processing) ? request : unread;
}

class RaceTask final : public SurvivorsTask {
 public:
  RaceTask(const Watermark& watermark, const TokenLists& output)
      : watermark_(watermark), output_(output) {}

  bool writes_sizes() const override { return false; }

  Error check(const SampleRequest& /*request*/) const override { return {}; }

  void check(DevicePointers& pointers) const override {
    pointers.check("key", watermark_.key);
    pointers.check("second_key", watermark_.second_key);
    pointers.check("mask_repeated", watermark_.mask_repeated);
    pointers.check("output", output_);
  }

  TileRows<std::int32_t> allocate(const SampleRequest& request, BumpAllocator& memory) override {
    const std::int64_t rows = std::max<std::int64_t>(request.logits.rows, 0);
    const std::int64_t tiles =
        tiles_of(std::clamp<std::int64_t>(request.logits.vocab, 0, kMaxVocab));
    open_ = {};
    if (may_open(request)) {
      memory.allocate(open_.top_p, rows);
      memory.allocate(open_.marks, rows);
    }
    return {memory.allocate<std::int32_t>(product_of(rows, tiles)), rows, tiles};
  }

  Error prepare(const SampleRequest& request, PerRequest<float>& top_p,
                cudaStream_t stream) override {
    if (open_.top_p == nullptr) return {};
    open_.asked = top_p;
    open_.top_k = request.top_k;
    open_.min_p = request.min_p;
    MarkRowsTask task = task_of(request);
    task.filtered.rows = request.logits;
    task.filtered.temperature = request.temperature;
    task.open = open_;
    if (Error error = check_launch("open_rows", open_rows(task, stream))) return error;
    top_p = {open_.top_p, request.logits.rows};
    is_open_ = true;
    return {};
  }

  Error enqueue(const SampleRequest& request, const SampleResult& result, const SurvivorRows& rows,
                cudaStream_t stream) const override {
    if (request.logits.rows == 0) return {};
    MarkRowsTask task = task_of(request);
    task.filtered = rows.filtered;
    task.keys = {rows.keys.data, rows.keys.rows, rows.keys.row_stride};
    if (is_open_) task.open = open_;
    task.starts_early =
        request.top_k.is_array() || !top_k_is_on(request.top_k.scalar, request.logits.vocab);
    task.records = rows.records;
    task.tokens = result.tokens.data;
    task.statuses = result.statuses.data;
    TileSpread spread;
    if (Error error = check_call("best_spread", best_spread(request.logits, rows.path, spread))) {
      return error;
    }
    return check_launch("mark_rows", mark_rows(task, spread, stream));
  }

 private:
  /// Returns whether a row of the request may have top_p alone, as far as the host knows.
  static bool may_open(const SampleRequest& request) {
    if (!request.top_p.is_array() && !(request.top_p.scalar < 1.0F)) return false;
    if (!request.min_p.is_array() && request.min_p.scalar != 0.0F) return false;
    return request.top_k.is_array() || !top_k_is_on(request.top_k.scalar, request.logits.vocab);
  }

  MarkRowsTask task_of(const SampleRequest& request) const {
    MarkRowsTask task;
    task.output = output_;
    task.watermark = watermark_;
    task.seed = request.seed;
    task.offset = request.offset;
    task.purpose = request.purpose;
    return task;
  }

  Watermark watermark_;
  TokenLists output_;
  OpenRows open_;
  bool is_open_ = false;  ///< whether open_rows was enqueued
};

Error check_scheme(WatermarkScheme scheme) {
  if (scheme == WatermarkScheme::race) return {};
  const char* name = scheme == WatermarkScheme::tournament ? "1 (tournament)" : "2 (green_list)";
  return out_of_range("scheme", name, "0 (race); the CPU has the others");
}

}  // namespace

std::int64_t workspace_bytes(const SampleRequest& request, const LogprobsResult& logprobs,
                             const Watermark& watermark) noexcept {
  BumpAllocator memory(nullptr);
  const SampleRequest rows = without_unread_output(request);
  Workspace::of(rows, logprobs.given(), memory);
  RaceTask(watermark, request.processing.output).allocate(rows, memory);
  return memory.bytes();
}

Error sample_marked(const SampleRequest& request, const Watermark& watermark,
                    const SampleResult& result, const Execution& execution) {
  if (Error error = check_request(request, "logits")) return error;
  if (Error error = check_watermark(request, watermark)) return error;
  if (Error error = check_scheme(watermark.rule.scheme)) return error;
  RaceTask task(watermark, request.processing.output);
  SampleOptions options;
  options.survivors = &task;
  return sample_rows(without_unread_output(request), result, execution, options);
}

}  // namespace fairdraw::cuda
