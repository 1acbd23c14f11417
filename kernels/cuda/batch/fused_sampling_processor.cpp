// Implementation of FusedSamplingProcessor on the GPU, which makes steps over the device's copy of
// a batch.
//
// The contract is given in fairdraw/cuda_fused_sampling_processor.h.
//
// Algorithm. A step consists of a call of `sample`, with one row per slot, over the arrays on the
// device, and of one small kernel that then appends the tokens. All kernels except the kernels of
// `sample` are in batch_kernels.cu. With logit_offsets, another kernel runs before `sample`; it
// finds the rows and copies them side by side. A step with StepRows::all makes as many calls as the
// longest request has rows, because the history of a row includes the token drawn from the row
// before.
//   batch_on_device.h  the copy and its updates
//   batch_mirror.h     changes of the batch, and the requests of the tokens that come back
//   token_copies.h     copies of tokens to the host
//
// Cost on the host. If the batch has not changed, the host visits no slot, and only compares two
// version numbers. Then the host makes the checks and launches of `sample`, one more launch, and
// two queries to the CUDA runtime: whether the stream is captured, and in which memory the logits
// are.
//
// Cost on the device. A feature that no request uses is left out of the call, because logits
// processing makes a call slower even if its lists are empty. A captured step may be replayed for
// later requests, so the step leaves out only features that the options exclude.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/arguments.h"
#include "common/bump_allocator.h"
#include "cuda/batch/batch_on_device.h"
#include "cuda/batch/step_plan.h"
#include "cuda/batch/token_copies.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "fairdraw/cuda_fused_sampling_processor.h"

namespace fairdraw::cuda {

using serving::ListName;

namespace {

constexpr std::int64_t kWidestLogit = 4;  // bytes
constexpr std::int64_t kRowAlignment = 16;

std::int64_t row_bytes_of(std::int64_t vocab, std::int64_t value_bytes) {
  return (vocab * value_bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

Error check_options(const BatchState& state, const FusedSamplingOptions& options) {
  const auto at_least_one = [](const char* field, std::int32_t value) -> Error {
    return value >= 1 ? Error{} : out_of_range(field, std::to_string(value), ">= 1");
  };
  if (Error error = at_least_one("most_unread_calls", options.most_unread_calls)) return error;
  if (Error error = at_least_one("most_copies", options.most_copies)) return error;
  if (state.options().capacity > kMaxRows) {
    return out_of_range("capacity of the batch state", std::to_string(state.options().capacity),
                        "1 to " + std::to_string(kMaxRows));
  }
  Path path = options.path;
  return check_path(path);
}

}  // namespace

struct FusedSamplingProcessor::Device {
  Device(BatchState& of, const FusedSamplingOptions& chosen)
      : state(of),
        slots_of_state(serving::BatchAccess::slots_of(of)),
        options(chosen),
        batch(slots_of_state) {
    plan.host_offsets.resize(static_cast<std::size_t>(of.options().capacity) + 1);
  }

  Error create();
  Error find_capture(bool& is_captured) const;
  Error bring_changes(bool is_captured);
  Error check_features() const;
  Error step();
  Error enqueue_call(std::int64_t call);
  template <class Offset>
  Error step_with(const RowsView& logits, View<const Offset> offsets, StepRows rows,
                  std::int32_t most_rows);

  BatchState& state;
  serving::BatchSlots& slots_of_state;
  FusedSamplingOptions options;
  BatchOnDevice batch;
  TokenCopies copies;
  DeviceBuffer per_slot, gathered, workspace;
  StepPlan plan;  // plan of the step that the host is enqueuing
  Error failure;  // CUDA error during an update, after which the state on the device is unknown

  // Arrays in `per_slot`, each with one value per slot.
  Choice* choices = nullptr;
  std::uint8_t* active = nullptr;
  std::int32_t* drawn = nullptr;
  RowStatus* drawn_statuses = nullptr;
  std::int32_t* tokens = nullptr;
  std::int32_t* counts = nullptr;
  RowStatus* statuses = nullptr;

  int number = 0;          // number of the device that was current when the processor was created
  std::int64_t slots = 0;  // number of slots in the last step
  bool has_stepped = false;

  cudaStream_t stream() const { return static_cast<cudaStream_t>(options.stream); }
};

Error FusedSamplingProcessor::Device::create() {
  if (Error error = check_call("the current device", cudaGetDevice(&number))) return error;
  if (Error error = batch.create(options)) return error;
  if (Error error = copies.create(batch.capacity(), options)) return error;
  const std::int64_t capacity = batch.capacity();
  const std::int64_t vocab = batch.options().vocab;
  const auto place = [&](BumpAllocator memory) {
    memory.allocate(choices, capacity);
    memory.allocate(active, capacity);
    memory.allocate(drawn, capacity);
    memory.allocate(drawn_statuses, capacity);
    memory.allocate(tokens, capacity);
    memory.allocate(counts, capacity);
    memory.allocate(statuses, capacity);
    return memory.bytes();
  };
  if (Error error = per_slot.reserve(place(BumpAllocator(nullptr)))) return error;
  place(BumpAllocator(per_slot.data()));
  if (options.logit_offsets) {
    if (Error error = gathered.reserve(capacity * row_bytes_of(vocab, kWidestLogit))) return error;
    // The padding between rows is copied together with the rows, but never used.
    if (Error error =
            check_call("room for rows",
                       cudaMemsetAsync(gathered.data(), 0,
                                       static_cast<std::size_t>(gathered.size()), stream()))) {
      return error;
    }
  }
  const RowsView widest{nullptr, DType::float32, capacity, vocab, vocab};
  return workspace.reserve(
      cuda::workspace_bytes(batch.call(widest, options.processing, options.bitmask)));
}

Error FusedSamplingProcessor::Device::find_capture(bool& is_captured) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (Error error = check_call("state of the stream", cudaStreamIsCapturing(stream(), &status))) {
    return error;
  }
  is_captured = status != cudaStreamCaptureStatusNone;
  return {};
}

Error FusedSamplingProcessor::Device::bring_changes(bool is_captured) {
  if (failure) return failure;
  if (batch.mirror().is_current()) return check_features();
  if (is_captured) {
    return {ErrorCode::invalid_argument,
            "the batch has changed since the last step, and the stream is captured; "
            "bring_changes() comes before the capture"};
  }
  failure = batch.bring_changes();
  return failure ? failure : check_features();
}

Error FusedSamplingProcessor::Device::check_features() const {
  if (!options.processing && batch.mirror().uses_processing()) {
    return out_of_range("processing of the options", "false",
                        "true: a request has logits processing");
  }
  if (!options.bitmask && !slots_of_state.allowed.empty()) {
    return out_of_range("bitmask of the options", "false", "true: the batch state has a bitmask");
  }
  return {};
}

Error FusedSamplingProcessor::Device::step() {
  has_stepped = true;
  slots = plan.slots;
  if (plan.slots == 0) return {};
  if (plan.rows_by == RowsBy::host_offsets) {
    if (Error error = batch.bring_offsets(plan.host_offsets.data(), plan.slots + 1)) return error;
  }
  for (std::int64_t call = 0; call < plan.calls; ++call) {
    if (Error error = enqueue_call(call)) return error;
    if (plan.is_captured) {
      copies.calls_were_captured();
    } else {
      copies.calls_were_enqueued(1);
    }
  }
  return {};
}

Error FusedSamplingProcessor::Device::enqueue_call(std::int64_t call) {
  RowsView rows = plan.logits;
  if (plan.rows_by != RowsBy::slots) {
    ChooseTask choose = batch.choose_task();
    choose.logits = plan.logits;
    choose.slots = static_cast<std::int32_t>(plan.slots);
    choose.last = plan.rows == StepRows::last;
    choose.call = call;
    choose.offsets = plan.rows_by == RowsBy::host_offsets ? batch.offsets() : plan.device_offsets;
    choose.narrow_offsets = plan.narrow_offsets;
    choose.statuses = statuses;
    choose.choices = choices;
    choose.active = active;
    choose.rows = static_cast<unsigned char*>(gathered.data());
    choose.row_bytes = row_bytes_of(rows.vocab, bytes_of(rows.dtype));
    if (Error error = check_launch("choose_rows", choose_rows(choose, stream()))) return error;
    rows.data = gathered.data();
    rows.rows = plan.slots;
    rows.row_stride = choose.row_bytes / bytes_of(rows.dtype);
  }
  const bool with_processing =
      plan.is_captured ? options.processing : batch.mirror().uses_processing();
  const bool with_bitmask = plan.is_captured ? options.bitmask : batch.uses_bitmask();
  SampleRequest request = batch.call(rows, with_processing, with_bitmask);
  if (!plan.is_captured && !batch.mirror().decays()) request.processing.top_p_decay = 1.0F;
  if (!plan.is_captured && !batch.mirror().follows_entropy()) {
    request.processing.dynatemp_range = 0.0F;
  }
  if (plan.rows_by != RowsBy::slots) request.active = {active, plan.slots};
  SampleResult result;
  result.tokens = {drawn, plan.slots};
  result.statuses = {drawn_statuses, plan.slots};
  const cuda::Execution execution{options.stream, workspace.data(), workspace.size(), options.path};
  if (Error error = cuda::sample(request, result, execution)) return error;

  AdvanceTask advance = batch.advance_task();
  copies.add_to(advance);
  advance.slots = static_cast<std::int32_t>(plan.slots);
  advance.first = call == 0;
  advance.choices = plan.rows_by != RowsBy::slots ? choices : nullptr;
  advance.drawn = drawn;
  advance.drawn_statuses = drawn_statuses;
  advance.tokens = tokens;
  advance.counts = counts;
  advance.statuses = statuses;
  return check_launch("advance_batch", advance_batch(advance, stream()));
}

template <class Offset>
Error FusedSamplingProcessor::Device::step_with(const RowsView& logits, View<const Offset> offsets,
                                                StepRows rows, std::int32_t most_rows) {
  bool is_captured = false;
  if (Error error = find_capture(is_captured)) return error;
  plan.has_room_for_rows = options.logit_offsets;
  plan.is_captured = is_captured;
  if (Error error = plan_step(state, logits, offsets, rows, most_rows, plan)) return error;
  if (Error error = bring_changes(is_captured)) return error;
  return step();
}

// --- The verbs -----------------------------------------------------------------------------------

FusedSamplingProcessor::FusedSamplingProcessor(std::unique_ptr<Device> device)
    : device_(std::move(device)) {}

FusedSamplingProcessor::~FusedSamplingProcessor() {
  // Waits until no work on the device uses the memory that is going to be freed.
  int current = 0;
  static_cast<void>(cudaGetDevice(&current));
  static_cast<void>(cudaSetDevice(device_->number));
  static_cast<void>(cudaDeviceSynchronize());
  device_->slots_of_state.is_mirrored = false;
  device_.reset();
  static_cast<void>(cudaSetDevice(current));
}

Error FusedSamplingProcessor::make(BatchState& state, const FusedSamplingOptions& options,
                                   std::unique_ptr<FusedSamplingProcessor>& processor) {
  if (Error error = check_options(state, options)) return error;
  serving::BatchSlots& slots = serving::BatchAccess::slots_of(state);
  if (slots.is_mirrored) {
    return out_of_range("processors on a GPU of the batch state", "2", "1");
  }
  auto device = std::make_unique<Device>(state, options);
  if (Error error = device->create()) return error;
  processor.reset(new FusedSamplingProcessor(std::move(device)));
  slots.is_mirrored = true;
  return {};
}

Error FusedSamplingProcessor::step(const RowsView& logits) {
  return device_->step_with(logits, View<const std::int64_t>{}, StepRows::last, 1);
}

Error FusedSamplingProcessor::step(const RowsView& logits, View<const std::int64_t> logit_offsets,
                                   StepRows rows, std::int32_t most_rows) {
  return device_->step_with(logits, logit_offsets, rows, most_rows);
}

Error FusedSamplingProcessor::step(const RowsView& logits, View<const std::uint32_t> logit_offsets,
                                   StepRows rows, std::int32_t most_rows) {
  return device_->step_with(logits, logit_offsets, rows, most_rows);
}

Error FusedSamplingProcessor::bring_changes() {
  bool is_captured = false;
  if (Error error = device_->find_capture(is_captured)) return error;
  return device_->bring_changes(is_captured);
}

View<const std::int32_t> FusedSamplingProcessor::new_tokens() const noexcept {
  return {device_->tokens, device_->slots};
}

View<const std::int32_t> FusedSamplingProcessor::new_token_counts() const noexcept {
  return {device_->counts, device_->slots};
}

View<const RowStatus> FusedSamplingProcessor::statuses() const noexcept {
  return {device_->statuses, device_->slots};
}

TokenLists FusedSamplingProcessor::generated_tokens() const noexcept {
  return device_->state.outputs(static_cast<std::int32_t>(device_->slots));
}

Error FusedSamplingProcessor::update_bitmask(const BitRows<const std::uint32_t>& packed) {
  Device& d = *device_;
  if (!d.options.bitmask) {
    return out_of_range("bitmask of the options", "false", "true, for update_bitmask()");
  }
  if (Error error = check_slots(d.state, "packed.rows", packed.rows)) return error;
  if (Error error =
          check_stride("packed.row_stride", packed.row_stride, words_of(d.batch.options().vocab),
                       "words of a row, ceil(vocab / 32)", packed.rows, sizeof(std::uint32_t))) {
    return error;
  }
  if (packed.rows > 0) {
    MemoryKind memory = MemoryKind::other;
    if (packed.data == nullptr) {
      return out_of_range("packed.data", "null", "a pointer to rows of words");
    }
    if (Error error = find_memory("packed.data", packed.data, memory)) return error;
    if (memory == MemoryKind::other) {
      return out_of_range("packed.data", "memory of the host that is not page-locked",
                          "page-locked memory, or memory of the device");
    }
  }
  if (Error error = bring_changes()) return error;  // sets the bitmask rows of new requests
  return d.batch.bring_bitmask(packed);
}

Error FusedSamplingProcessor::clear_bitmask() {
  Device& d = *device_;
  if (!d.options.bitmask) return {};
  if (!d.slots_of_state.allowed.empty()) d.state.clear_allowed();
  if (Error error = bring_changes()) return error;
  return d.batch.clear_bitmask();
}

Error FusedSamplingProcessor::start_async_token_copy() {
  Device& d = *device_;
  if (!d.has_stepped) return out_of_range("number of steps", "0", ">= 1 before tokens are copied");
  bool is_captured = false;
  if (Error error = d.find_capture(is_captured)) return error;
  if (is_captured) {
    return {ErrorCode::invalid_argument,
            "the stream is captured; a copy of tokens is started after a replay"};
  }
  return d.copies.start(d.slots);
}

Error FusedSamplingProcessor::wait_for_tokens(CopiedStep& step) {
  return device_->copies.wait(device_->batch.mirror(), step);
}

Error FusedSamplingProcessor::catch_up() {
  Device& d = *device_;
  serving::BatchMirror& mirror = d.batch.mirror();
  const auto fetch = [&d](void* target, const void* source, std::int64_t count) {
    if (Error error =
            check_call("tokens of the device",
                       cudaMemcpyAsync(target, source, static_cast<std::size_t>(count) * 4,
                                       cudaMemcpyDeviceToHost, d.stream()))) {
      return error;
    }
    return check_call("steps", cudaStreamSynchronize(d.stream()));
  };
  std::uint64_t calls = 0;
  if (Error error = d.copies.count_calls(calls)) return error;
  const std::int32_t capacity = d.batch.capacity();
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(capacity));
  const serving::ListArrays& output = d.batch.arrays().list(ListName::output);
  if (Error error = fetch(lengths.data(), output.lengths, capacity)) return error;
  std::vector<std::int32_t> missing;
  for (std::int32_t slot = 0; slot < capacity; ++slot) {
    const std::int32_t now = mirror.slot_on_host(slot);
    if (now < 0) continue;
    const serving::ListArrays& known = d.slots_of_state.list(ListName::output);
    const std::int32_t count = lengths[static_cast<std::size_t>(slot)] - known.length(now);
    if (count <= 0) continue;
    if (Error error = d.slots_of_state.check_room_for(now, count)) return error;
    missing.resize(static_cast<std::size_t>(count));
    const std::int32_t* const source = output.data + known.begins[now] + known.length(now);
    if (Error error = fetch(missing.data(), source, count)) return error;
    mirror.deliver(now, missing.data(), count);
  }
  mirror.forget_earlier_epochs();
  d.copies.were_delivered(calls);
  return {};
}

}  // namespace fairdraw::cuda
