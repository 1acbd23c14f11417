// FusedSamplingProcessor on an NVIDIA GPU runs steps of generation over a BatchState. The class has
// the functions of fairdraw/fused_sampling_processor.h, and draws the same tokens bit for bit.
//
// The device has a copy of the batch: its parameters, seeds, offsets, lists and histories. A step
// reads and advances that copy: it samples, appends the tokens to the device's histories, and
// advances offsets and counts. A step does not wait for the host, and does not allocate. So one
// step can be enqueued after the other before the host has seen the tokens, and steps can be
// captured in a CUDA graph.
//
// Requests enter and leave through the state, at any time. The next step copies the changes from
// page-locked memory to the device, on its stream: the data of new requests, and the table of the
// batch (about 200 bytes per slot). A step after which no request has changed copies nothing.
// Addresses never change.
//
// Tokens on the host: the state gets a step's tokens when the host has waited for their copy
// (start_async_token_copy(), then wait_for_tokens()). Until then the state is behind the device:
// outputs, offsets and snapshots end with the last token that was waited for. A request may move to
// another slot meanwhile, and its tokens follow it. When a request leaves, the tokens that were
// drawn for it but not waited for are dropped. If the request is evicted and restored, it draws the
// same tokens again. append() on the state has the same effect as evicting the request and
// restoring it with the longer history.
//
// Graphs: step() may be captured, also several times in a row, and a replay runs as many steps.
// Call bring_changes() after the last change of the batch before a capture, and after each later
// change before the next replay. A captured step serves the requests that are in its first
// logits.rows slots at the time of the replay. A graph must be replayed on the stream of the
// options.
//
// The header needs C++17 and the standard library alone. A processor is used by one thread at a
// time.
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

/// Sizes and abilities of a processor. No option changes while the processor lives.
struct FusedSamplingOptions {
  void* stream = nullptr;  ///< stream of the call, a cudaStream_t of the current device; null: the
                           ///< default stream
  Path path = Path::best;  ///< way in which rows are spread over the GPU
  /// true if requests may have logits processing. A captured step pays for processing in
  /// any case; a step that is not captured pays only if a request needs processing. false: the next
  /// step returns an error if a request needs processing.
  bool processing = true;
  /// true if update_bitmask() and bitmasks of the state may be used. The cost is as for
  /// `processing`: a captured step always pays.
  bool bitmask = true;
  /// true if steps may have logit_offsets, which needs room for one row of float32 logits per slot
  bool logit_offsets = true;
  std::int32_t most_unread_calls = 32;  ///< largest number of calls that the device remembers until
                                        ///< a copy, >= 1
  std::int32_t most_copies = 4;         ///< largest number of copies of tokens in flight at a time,
                                        ///< >= 1
};

/// The results of a step as wait_for_tokens() gives them to the host: n entries, in the slot order
/// of that step. The arrays are valid until the next wait.
struct CopiedStep {
  View<const std::int32_t> tokens;  ///< [n]; last token of the step for each slot; -1: none
  View<const std::int32_t> counts;  ///< [n]; number of tokens that each request got
  View<const RowStatus> statuses;   ///< [n]; statuses of the rows, as statuses() of that step gave
                                    ///< them
};

/// Steps of generation over a BatchState, on the GPU.
class FusedSamplingProcessor {
 public:
  /// Makes a processor on the current device; a program cannot construct a processor directly. The
  /// state must live at least as long as the processor, and has at most one GPU processor at a
  /// time. Errors: invalid_argument if the state has a GPU processor already or an option is out of
  /// its range; unsupported if there is no GPU or not enough memory.
  static Error make(BatchState& state, const FusedSamplingOptions& options,
                    std::unique_ptr<FusedSamplingProcessor>& processor);
  /// Waits until the device has done its work.
  ~FusedSamplingProcessor();
  FusedSamplingProcessor(const FusedSamplingProcessor&) = delete;
  FusedSamplingProcessor& operator=(const FusedSamplingProcessor&) = delete;

  /// Enqueues one step. logits: [rows, vocab] in device memory. Without logit_offsets, row i
  /// belongs to slot i, and state.slots() <= rows <= capacity.
  Error step(const RowsView& logits);
  /// logit_offsets: [n + 1], as on the CPU. Offsets in host memory are checked and copied at the
  /// call. Offsets in device memory are read when the step runs; a request whose offsets break 0 <=
  /// begin <= end <= rows gets no token and the status index_out_of_range. While a stream is
  /// captured, offsets must be in device memory. The chosen rows are gathered, which reads and
  /// writes each of them once.
  ///
  /// most_rows: for offsets in device memory with StepRows::all, the largest number of rows at
  /// which a request is sampled; further rows are ignored. The step consists of most_rows calls.
  /// Without such offsets or without StepRows::all, most_rows is not read.
  /// `logits`: [rows, vocab].
  Error step(const RowsView& logits, View<const std::int64_t> logit_offsets,
             StepRows rows = StepRows::last, std::int32_t most_rows = 1);
  /// Enqueues a step with offsets of 32 bits: `logits` [rows, vocab], `logit_offsets` [n + 1].
  Error step(const RowsView& logits, View<const std::uint32_t> logit_offsets,
             StepRows rows = StepRows::last, std::int32_t most_rows = 1);

  /// Copies changes of the batch to the device, as every step does that is not captured.
  Error bring_changes();

  // The functions below return results of the last step, in device memory: n entries in slot order,
  // at an address that never changes. Until the stream has run the step, the arrays have the
  // results of an earlier step.

  /// Returns the last token of the last step for each slot; -1: none.
  View<const std::int32_t> new_tokens() const noexcept;
  /// Returns the number of tokens that each request got in the last step.
  View<const std::int32_t> new_token_counts() const noexcept;
  /// Returns the status of each slot: ok, inactive (empty slot, or no rows), or the fault of a row.
  View<const RowStatus> statuses() const noexcept;

  /// Returns the tokens of the requests that the host has: the outputs of the state.
  TokenLists generated_tokens() const noexcept;

  /// Sets the tokens that requests may draw: row i of `packed`, in page-locked host memory or in
  /// device memory, is the bitmask of the request of slot i. A row holds until the next update, or
  /// until the request leaves. The copy is enqueued: the memory of `packed` must not change until
  /// the stream has run it. The call may be captured; a replay reads `packed` again. state.slots()
  /// <= packed.rows <= capacity. The host's state does not see this bitmask: a snapshot has the
  /// bitmask that was set through the state.
  /// The array `packed` has [rows, ceil(vocab / 32)] words.
  Error update_bitmask(const BitRows<const std::uint32_t>& packed);
  /// Allows all tokens again in the rows of all requests.
  Error clear_bitmask();

  /// Copies the tokens of all steps that were enqueued and not copied yet. The copy runs on a
  /// stream of the processor's own, concurrently with work that is enqueued later. Error:
  /// invalid_argument before the first step, while the stream is captured, or if most_copies copies
  /// are in flight.
  Error start_async_token_copy();
  /// Waits for the oldest copy that was not waited for, and for nothing else. Appends its tokens to
  /// the state, and sets `step` to the last step of the copy. If no copy is in flight, `step` is
  /// the last step that was waited for. Error: unsupported if more than most_unread_calls calls had
  /// run before the copy; then use catch_up().
  Error wait_for_tokens(CopiedStep& step);
  /// Waits for the stream, and appends all tokens that the host does not have yet, whatever their
  /// number.
  Error catch_up();

 private:
  struct Device;
  explicit FusedSamplingProcessor(std::unique_ptr<Device> device);
  std::unique_ptr<Device> device_;
};

}  // namespace fairdraw::cuda
