#include "cuda/batch/batch_on_device.h"

#include "common/arguments.h"
#include "common/bump_allocator.h"
#include "cuda/device/device_pointers.h"

namespace fairdraw::cuda {

using serving::ListArrays;
using serving::ListName;
using serving::SlotArrays;

namespace {

/// Returns the address that an array of the host's block has in another block of the same layout.
template <class T>
T* in_block(std::byte* block, const std::byte* host_block, T* array) {
  return reinterpret_cast<T*>(block + (reinterpret_cast<const std::byte*>(array) - host_block));
}

}  // namespace

Error BatchOnDevice::create(const FusedSamplingOptions& options) {
  stream_ = static_cast<cudaStream_t>(options.stream);
  const std::int64_t bytes = serving::place_slot_arrays(options_, nullptr).bytes;
  if (Error error = block_.reserve(bytes)) return error;
  arrays_ = serving::place_slot_arrays(options_, static_cast<std::byte*>(block_.data()));

  const std::int64_t capacity = options_.capacity;
  const auto place = [&](BumpAllocator memory) {
    memory.allocate(staged_, arrays_.table_bytes);
    memory.allocate(from_, capacity);
    memory.allocate(changed_, capacity);
    memory.allocate(kept_offsets_, capacity);
    memory.allocate(kept_lengths_, capacity);
    memory.allocate(may_draw_, capacity);
    memory.allocate(epoch_, 1);
    if (options.logit_offsets) memory.allocate(offsets_, capacity + 1);
    if (options.bitmask) {
      memory.allocate(allowed_, capacity * words_of(options_.vocab));
      memory.allocate(moved_allowed_, capacity * words_of(options_.vocab));
    }
    return memory.bytes();
  };
  if (Error error = rest_.reserve(place(BumpAllocator(nullptr)))) return error;
  place(BumpAllocator(rest_.data()));

  if (Error error = uploads_.create(stream_)) return error;
  const auto fill = [this](const DeviceBuffer& buffer) {
    return check_call(
        "an empty batch on the device",
        cudaMemsetAsync(buffer.data(), 0, static_cast<std::size_t>(buffer.size()), stream_));
  };
  if (Error error = fill(block_)) return error;
  if (Error error = fill(rest_)) return error;
  if (options.bitmask) {
    if (Error error = clear_bitmask()) return error;
  }
  return check_call("an empty batch on the device", cudaStreamSynchronize(stream_));
}

Error BatchOnDevice::bring_changes() {
  if (mirror_.is_current()) return {};
  mirror_.update();
  const std::vector<std::int32_t>& from = mirror_.from();
  for (const std::int32_t slot : mirror_.changed()) {
    if (from[static_cast<std::size_t>(slot)] >= 0) continue;
    if (Error error = bring_lists(slot)) return error;
  }
  if (Error error = bring_table()) return error;
  return bring_rows_of_slots();
}

/// Enqueues copies of the lists of a request that enters the batch, to the same places as on the
/// host.
Error BatchOnDevice::bring_lists(std::int32_t slot) {
  const SlotArrays& host = mirror_.slots().arrays;
  const auto bring = [&](ListName name, std::int64_t length) {
    const ListArrays& list = host.list(name);
    return uploads_.put(arrays_.list(name).data + list.begins[slot], list.list(slot), length * 4);
  };
  // In the history, the output tokens follow the prompt.
  const std::int64_t history = std::int64_t{host.list(ListName::prompt).length(slot)} +
                               host.list(ListName::output).length(slot);
  if (Error error = bring(ListName::prompt, history)) return error;
  for (const ListName name :
       {ListName::bias, ListName::stop_ids, ListName::bad_words, ListName::bad_word_lengths,
        ListName::allowed_ids, ListName::forced_tokens, ListName::dry_breakers}) {
    if (Error error = bring(name, host.list(name).length(slot))) return error;
  }
  const ListArrays& bias = host.list(ListName::bias);
  const std::int64_t begin = bias.begins[slot];
  return uploads_.put(arrays_.bias_values + begin, host.bias_values + begin,
                      std::int64_t{bias.length(slot)} * 4);
}

Error BatchOnDevice::bring_table() {
  const SlotArrays& host = mirror_.slots().arrays;
  const std::byte* const host_table = mirror_.slots().block.get();  // the slot table is at the
                                                                    // beginning of the block
  const auto capacity = static_cast<std::int64_t>(options_.capacity);
  const std::vector<std::int32_t>& changed = mirror_.changed();
  if (Error error = uploads_.put(staged_, host_table, arrays_.table_bytes)) return error;
  if (Error error = uploads_.put(from_, mirror_.from().data(), capacity * 4)) return error;
  if (Error error =
          uploads_.put(changed_, changed.data(), static_cast<std::int64_t>(changed.size()) * 4)) {
    return error;
  }
  // This call must precede the merge of the table: take_moved_rows finds the rows by `from` alone,
  // and no row may have been written yet.
  if (allowed_ != nullptr && !changed.empty()) {
    if (Error error = check_launch("take_moved_rows", take_moved_rows(rows_of_slots(), stream_))) {
      return error;
    }
  }
  MergeTask task;
  task.capacity = options_.capacity;
  task.max_length = options_.max_length;
  task.new_epoch = mirror_.epoch();
  task.table_bytes = arrays_.table_bytes;
  task.staged = staged_;
  task.table = block_.data();
  task.from = from_;
  task.staged_offsets = in_block(staged_, host_table, host.offset);
  task.staged_lengths = in_block(staged_, host_table, host.list(ListName::output).lengths);
  task.offsets = arrays_.offset;
  task.output_lengths = arrays_.list(ListName::output).lengths;
  task.occupied = arrays_.active;
  task.prompt_lengths = arrays_.list(ListName::prompt).lengths;
  task.kept_offsets = kept_offsets_;
  task.kept_lengths = kept_lengths_;
  task.may_draw = may_draw_;
  task.epoch = epoch_;
  return check_launch("merge_table", merge_table(task, stream_));
}

Error BatchOnDevice::bring_rows_of_slots() {
  const serving::BatchSlots& slots = mirror_.slots();
  const std::vector<std::int32_t>& changed = mirror_.changed();
  const bool is_dense = options_.history == HistoryForm::dense;
  if (!changed.empty() && (allowed_ != nullptr || is_dense)) {
    if (Error error =
            check_launch("fill_rows_of_slots", fill_rows_of_slots(rows_of_slots(), stream_))) {
      return error;
    }
  }
  if (allowed_ == nullptr || slots.allowed.empty()) return {};
  const std::int64_t words = slots.words();
  const auto bring_row = [&](std::int32_t slot) {
    uses_bitmask_ = true;
    return uploads_.put(allowed_ + slot * words, slots.allowed.data() + slot * words, words * 4);
  };
  for (std::int32_t slot = 0; slot < options_.capacity; ++slot) {
    if (!slots.is_occupied(slot)) continue;
    const bool has_entered = mirror_.from()[static_cast<std::size_t>(slot)] < 0;
    if (!has_entered && !mirror_.has_new_bitmask()) continue;
    if (Error error = bring_row(slot)) return error;
  }
  return {};
}

RowsOfSlots BatchOnDevice::rows_of_slots() const {
  RowsOfSlots task;
  task.changed = changed_;
  task.count = static_cast<std::int32_t>(mirror_.changed().size());
  task.from = from_;
  task.vocab = options_.vocab;
  task.allowed = allowed_;
  task.moved_allowed = moved_allowed_;
  task.output_counts = arrays_.output_counts;  // null if histories are lists of tokens instead of
                                               // counts
  task.prompt_mask = arrays_.prompt_mask;
  task.histories = arrays_.list(ListName::prompt).data;
  task.prompt_begins = arrays_.list(ListName::prompt).begins;
  task.prompt_lengths = arrays_.penalised_prompt;
  task.output_begins = arrays_.list(ListName::output).begins;
  task.output_lengths = arrays_.list(ListName::output).lengths;
  return task;
}

Error BatchOnDevice::bring_bitmask(const BitRows<const std::uint32_t>& packed) {
  if (packed.rows == 0) return {};
  const auto width = static_cast<std::size_t>(words_of(options_.vocab) * 4);
  uses_bitmask_ = true;
  return check_call(
      "a copy of the bitmask",
      cudaMemcpy2DAsync(allowed_, width, packed.data,
                        static_cast<std::size_t>(packed.row_stride * 4), width,
                        static_cast<std::size_t>(packed.rows), cudaMemcpyDefault, stream_));
}

Error BatchOnDevice::clear_bitmask() {
  uses_bitmask_ = false;
  const std::int64_t bytes = std::int64_t{options_.capacity} * words_of(options_.vocab) * 4;
  return check_call("a bitmask of ones",
                    cudaMemsetAsync(allowed_, 0xff, static_cast<std::size_t>(bytes), stream_));
}

SampleRequest BatchOnDevice::call(const RowsView& logits, bool with_processing,
                                  bool with_bitmask) const {
  SampleRequest request = serving::call_over(arrays_, options_, logits);
  request.active = {may_draw_, logits.rows};
  if (!with_processing) request.processing = {};
  if (with_bitmask) request.allowed = {allowed_, logits.rows, words_of(options_.vocab)};
  return request;
}

Error BatchOnDevice::bring_offsets(const std::int64_t* offsets, std::int64_t count) {
  return uploads_.put(offsets_, offsets, count * 8);
}

ChooseTask BatchOnDevice::choose_task() const {
  ChooseTask task;
  task.max_length = options_.max_length;
  task.occupied = arrays_.active;
  task.prompt_lengths = arrays_.list(ListName::prompt).lengths;
  task.output_lengths = arrays_.list(ListName::output).lengths;
  return task;
}

AdvanceTask BatchOnDevice::advance_task() const {
  AdvanceTask task;
  task.capacity = options_.capacity;
  task.max_length = options_.max_length;
  task.vocab = options_.vocab;
  task.occupied = arrays_.active;
  task.prompt_lengths = arrays_.list(ListName::prompt).lengths;
  task.output_begins = arrays_.list(ListName::output).begins;
  task.may_draw = may_draw_;
  task.output = arrays_.list(ListName::output).data;
  task.output_lengths = arrays_.list(ListName::output).lengths;
  task.offsets = arrays_.offset;
  task.output_counts = arrays_.output_counts;
  task.epoch = epoch_;
  return task;
}

}  // namespace fairdraw::cuda
