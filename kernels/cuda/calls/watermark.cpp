// Marks rows on the GPU (fairdraw/cuda_watermark.h), in a call of `sample`.
//   race        One kernel (mark_rows.cu) replaces the tokens of marked rows after the row kernel,
//               before all kernels that read tokens or statuses. If rows may have top_p alone, and
//               tokens and statuses are the only results, find_marks runs first, so that the row
//               kernel does not look for thresholds.
//   tournament  find_marks runs before the row kernel, and play_rows.cu in place of mark_rows.cu.
//   green_list  find_marks and find_green_tokens run before edit_rows, which raises the biases of
//               green tokens; after the row kernel, fail_marked_rows fails rows with wrong outputs.
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

class MarkTask final : public SurvivorsTask {
 public:
  MarkTask(const Watermark& watermark, const TokenLists& output)
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
    const auto vocab = std::clamp<std::int64_t>(request.logits.vocab, 0, kMaxVocab);
    const std::int64_t tiles = tiles_of(vocab);
    open_ = {};
    marks_ = nullptr;
    if (scheme() != WatermarkScheme::race || may_open(request)) memory.allocate(marks_, rows);
    if (scheme() == WatermarkScheme::race && may_open(request)) memory.allocate(open_.top_p, rows);
    if (scheme() == WatermarkScheme::tournament) {
      play_.tokens_of_row = tiles * kTileSize;
      const std::int64_t tokens = std::min(rows, kRowsOfPlay) * play_.tokens_of_row;
      memory.allocate(play_.weights, tokens);
      memory.allocate(play_.words, tokens);
      memory.allocate(play_.tokens, tokens);
    }
    if (scheme() == WatermarkScheme::green_list) {
      green_.words_of_row = (vocab + 31) / 32;
      memory.allocate(green_.bits, product_of(rows, green_.words_of_row));
    }
    return {memory.allocate<std::int32_t>(product_of(rows, tiles)), rows, tiles};
  }

  Error prepare(const SampleRequest& request, bool has_tokens_alone, RowChanges& changes,
                cudaStream_t stream) override {
    const bool opens = open_.top_p != nullptr && has_tokens_alone;
    if (!opens) open_ = {};
    if (scheme() == WatermarkScheme::race && !opens) {
      marks_ = nullptr;  // mark_rows finds them itself
      return {};
    }
    open_.asked = changes.top_p;
    open_.top_k = request.top_k;
    open_.min_p = request.min_p;
    MarkRowsTask task = task_of(request);
    task.filtered.rows = request.logits;
    task.filtered.temperature = request.temperature;
    if (Error error = check_launch("find_marks", find_marks(task, stream))) return error;
    if (opens) changes.top_p = {open_.top_p, request.logits.rows};
    if (scheme() != WatermarkScheme::green_list) return {};
    GreenTask green = green_;
    green.marks = marks_;
    green.rows = request.logits.rows;
    green.vocab = static_cast<int>(request.logits.vocab);
    green.limit = green_limit(watermark_.rule.green_share);
    changes.green = {green.bits, watermark_.green_bias};
    return check_launch("find_green_tokens", find_green_tokens(green, stream));
  }

  Error enqueue(const SampleRequest& request, const SampleResult& result, const SurvivorRows& rows,
                cudaStream_t stream) const override {
    if (request.logits.rows == 0) return {};
    MarkRowsTask task = task_of(request);
    task.filtered = rows.filtered;
    task.keys = {rows.keys.data, rows.keys.rows, rows.keys.row_stride};
    task.starts_early =
        request.top_k.is_array() || !top_k_is_on(request.top_k.scalar, request.logits.vocab);
    task.records = rows.records;
    task.tokens = result.tokens.data;
    task.statuses = result.statuses.data;
    if (scheme() == WatermarkScheme::green_list) {
      return check_launch("fail_marked_rows", fail_marked_rows(task, stream));
    }
    const bool plays = scheme() == WatermarkScheme::tournament;
    RowsView at_once = request.logits;
    if (plays) at_once.rows = std::min(at_once.rows, kRowsOfPlay);
    TileSpread spread;
    if (Error error = check_call("best_spread", best_spread(at_once, rows.path, spread))) {
      return error;
    }
    if (!plays) return check_launch("mark_rows", mark_rows(task, spread, stream));
    PlayRowsTask play = play_;
    play.rows = task;
    return check_launch("play_rows", play_rows(play, spread, stream));
  }

 private:
  WatermarkScheme scheme() const { return watermark_.rule.scheme; }

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
    task.marks = marks_;
    task.open = open_;
    return task;
  }

  Watermark watermark_;
  TokenLists output_;
  RowMark* marks_ = nullptr;  ///< null if find_marks does not run
  OpenRows open_;
  PlayRowsTask play_;
  GreenTask green_;
};

/// Returns the request whose rows are filtered: that of a green list has its output, so that rows
/// are processed.
SampleRequest filtered_request(const SampleRequest& request, const Watermark& watermark) {
  return watermark.rule.scheme == WatermarkScheme::green_list ? request
                                                              : without_unread_output(request);
}

}  // namespace

std::int64_t workspace_bytes(const SampleRequest& request, const LogprobsResult& logprobs,
                             const Watermark& watermark) noexcept {
  BumpAllocator memory(nullptr);
  const SampleRequest rows = filtered_request(request, watermark);
  Workspace::of(rows, logprobs.given(), memory);
  MarkTask(watermark, request.processing.output).allocate(rows, memory);
  return memory.bytes();
}

Error sample_marked(const SampleRequest& request, const Watermark& watermark,
                    const SampleResult& result, const Execution& execution) {
  if (Error error = check_request(request, "logits")) return error;
  if (Error error = check_watermark(request, watermark)) return error;
  MarkTask task(watermark, request.processing.output);
  SampleOptions options;
  options.survivors = &task;
  return sample_rows(filtered_request(request, watermark), result, execution, options);
}

}  // namespace fairdraw::cuda
