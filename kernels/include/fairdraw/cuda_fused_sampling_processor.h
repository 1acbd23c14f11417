// FusedSamplingProcessor on an NVIDIA GPU: steps of generation over a BatchState, in the verbs of
// fairdraw/fused_sampling_processor.h, with the same tokens bit for bit.
//
// The device has a copy of the batch: parameters, seeds, offsets, lists, histories. A step reads
// and advances that copy: it samples, appends the tokens to the device's histories, and moves
// offsets and counts on, without waiting for the host and without allocating. So steps can be
// enqueued in a row, one ahead of what the host has seen, or captured in a CUDA graph.
//
// Requests come and go through the state, at any time. The next step brings the changes to the
// device, on its stream, from page-locked memory: what entered, and the table of the batch (about
// 200 bytes per slot). A step without changes brings nothing. Addresses never change.
//
// Knowledge of the host. The state gets a step's tokens when the host has waited for their copy:
// start_async_token_copy(), wait_for_tokens(). Until then the state is behind the device: outputs,
// offsets and snapshots end with the last token that was waited for. A request may move meanwhile,
// and its tokens follow it. When it leaves, tokens that were drawn for it and not waited for are
// dropped; evicted and restored, it draws them again. append() on the state is the same as to evict
// the request and to restore it with the longer history.
//
// Graphs. step() may be captured, several times in a row too, and a replay is as many steps. Before
// a capture bring_changes() must have been called after the last change of the batch, and after a
// change before the next replay. A captured step serves whatever requests are in its first
// logits.rows slots when it is replayed. Replay on the stream of the options.
//
// C++17, the standard library alone. One thread at a time.
//
// Errors: A call returns invalid_argument if an argument is out of its range, if memory is of a
// wrong kind, if a request or the state needs an ability that the options leave out, or if the call
// is not allowed while the stream is captured. It returns unsupported if no GPU can run it, if
// memory does not suffice, if tokens were overwritten before they were copied, or if the CUDA
// runtime reports an error. If changes of the batch could not be brought to the device, every later
// step returns the same error. Statuses of rows are those of fairdraw/fused_sampling_processor.h.
//
// Definition: fairdraw/fused_sampling_processor.h.
#pragma once

#include <cstdint>
#include <memory>

#include "fairdraw/batch_state.h"
#include "fairdraw/cuda.h"
#include "fairdraw/fused_sampling_processor.h"

namespace fairdraw::cuda {

/// Room and abilities of a processor. Nothing of it changes while it lives.
struct FusedSamplingOptions {
  void* stream = nullptr;  ///< a cudaStream_t of the current device; null: the default one
  Path path = Path::best;  ///< how rows are spread over the GPU
  /// Penalties, biases and bans of requests. A captured step pays for them whether a request has
  /// some or not, another one only where a request has. false: a request that has some is an error
  /// of the next step.
  bool processing = true;
  /// update_bitmask(), and bitmasks of the state. The same is true of its cost.
  bool bitmask = true;
  /// logit_offsets: room for a row of float32 logits a slot.
  bool logit_offsets = true;
  std::int32_t most_unread_calls = 32;  ///< calls that the device remembers until a copy, >= 1
  std::int32_t most_copies = 4;         ///< copies of tokens on their way at a time, >= 1
};

/// A step as the host has it after wait_for_tokens(): in slot order of that step, n entries. Valid
/// until the next wait.
struct CopiedStep {
  View<const std::int32_t> tokens;  ///< [n]; the last token of the step; -1: none
  View<const std::int32_t> counts;  ///< [n]; tokens that each request got
  View<const RowStatus> statuses;   ///< [n]; as statuses() of that step
};

/// Steps of generation over a BatchState, on the GPU.
class FusedSamplingProcessor {
 public:
  /// The only way to make a processor, on the current device. The state must live at least as long,
  /// and has one GPU processor at a time. invalid_argument where it has one, and where an option is
  /// out of its range, unsupported where there is no GPU or not enough memory.
  static Error make(BatchState& state, const FusedSamplingOptions& options,
                    std::unique_ptr<FusedSamplingProcessor>& processor);
  /// Waits for the device.
  ~FusedSamplingProcessor();
  FusedSamplingProcessor(const FusedSamplingProcessor&) = delete;
  FusedSamplingProcessor& operator=(const FusedSamplingProcessor&) = delete;

  /// One step, enqueued. logits: [rows, vocab] in device memory. Without offsets row i belongs to
  /// slot i, and state.slots() <= rows <= capacity.
  Error step(const RowsView& logits);
  /// logit_offsets: [n + 1], as on the CPU, in host memory (then checked, and copied at the call)
  /// or in device memory (then read when the step runs; a request whose offsets are not
  /// 0 <= begin <= end <= rows gets no token and the status index_out_of_range). While a stream is
  /// captured: device memory. The chosen rows are gathered, a read and a write of each.
  ///
  /// most_rows: of offsets in device memory with StepRows::all, the most rows that a request is
  /// sampled at; further ones are ignored. The step is as many calls. Else not read.
  /// `logits`: [rows, vocab].
  Error step(const RowsView& logits, View<const std::int64_t> logit_offsets,
             StepRows rows = StepRows::last, std::int32_t most_rows = 1);
  /// As the step before, with offsets of 32 bits: `logits` [rows, vocab], `logit_offsets` [n + 1].
  Error step(const RowsView& logits, View<const std::uint32_t> logit_offsets,
             StepRows rows = StepRows::last, std::int32_t most_rows = 1);

  /// Brings changes of the batch to the device, as every step does that is not captured.
  Error bring_changes();

  // Results of the last step, in device memory: in slot order, n entries, at the same address for
  // ever. Until the stream has run they are those of an earlier step.

  /// The last token of the last step; -1: none.
  View<const std::int32_t> new_tokens() const noexcept;
  /// Tokens that each request got in the last step.
  View<const std::int32_t> new_token_counts() const noexcept;
  /// ok, inactive (empty slot, or no rows), or what was wrong with a row.
  View<const RowStatus> statuses() const noexcept;

  /// Tokens of the requests as the host has them: the outputs of the state.
  TokenLists generated_tokens() const noexcept;

  /// Row i of `packed`, in page-locked host memory or in device memory, are the tokens that the
  /// request of slot i may draw, until they are updated or the request leaves. Enqueued: the memory
  /// must stay as it is until the stream has passed. May be captured; a replay reads it again.
  /// state.slots() <= packed.rows <= capacity. The host's state does not learn of it: a snapshot
  /// has the bitmask that was set through the state.
  /// `packed`: [rows, ceil(vocab / 32)] words.
  Error update_bitmask(const BitRows<const std::uint32_t>& packed);
  /// All tokens are allowed again, for every request.
  Error clear_bitmask();

  /// Copies the tokens of all steps that were enqueued and not copied yet, on a stream of the
  /// processor's own: concurrent with work that is enqueued later. invalid_argument before the
  /// first step, while the stream is captured, and where most_copies are on their way.
  Error start_async_token_copy();
  /// Waits for the oldest copy that was not waited for, and for nothing else; appends its tokens to
  /// the state; the last step of it is `step`. With no copy on its way: the step of the last one.
  /// unsupported where more than most_unread_calls had run before the copy: then catch_up().
  Error wait_for_tokens(CopiedStep& step);
  /// Waits for the stream and appends all tokens that the host does not have, however many.
  Error catch_up();

 private:
  struct Device;
  explicit FusedSamplingProcessor(std::unique_ptr<Device> device);
  std::unique_ptr<Device> device_;
};

}  // namespace fairdraw::cuda
