#include "cuda/batch/token_copies.h"

#include <algorithm>
#include <string>

#include "common/arguments.h"
#include "common/bump_allocator.h"
#include "cuda/device/device_pointers.h"

namespace fairdraw::cuda {

using serving::CallRecord;

/// Waits for copies in flight, because they still write to the memory of this object.
TokenCopies::~TokenCopies() {
  if (own_.get() != nullptr) static_cast<void>(own_.synchronise());
}

Error TokenCopies::create(std::int32_t capacity, const FusedSamplingOptions& options) {
  capacity_ = capacity;
  max_calls_ = options.most_unread_calls;
  stream_ = static_cast<cudaStream_t>(options.stream);
  const auto slots = static_cast<std::size_t>(capacity);
  tokens_.assign(slots, -1);
  counts_.assign(slots, 0);
  statuses_.assign(slots, RowStatus::inactive);

  if (Error error = own_.create()) return error;
  const auto place = [&](BumpAllocator memory) {
    memory.allocate(records_, std::int64_t{max_calls_} * capacity_);
    memory.allocate(calls_, 1);
    memory.allocate(points_, options.most_copies);
    return memory.bytes();
  };
  if (Error error = memory_.reserve(place(BumpAllocator(nullptr)))) return error;
  place(BumpAllocator(memory_.data()));
  // At first, no record belongs to any call, because no call has a number in which all bits are
  // set.
  if (Error error = check_call(
          "a ring of records",
          cudaMemsetAsync(records_, 0xff, static_cast<std::size_t>(ring_bytes()), stream_))) {
    return error;
  }
  if (Error error =
          check_call("a number of calls", cudaMemsetAsync(calls_, 0, sizeof(*calls_), stream_))) {
    return error;
  }
  copies_.resize(static_cast<std::size_t>(options.most_copies));
  for (Copy& copy : copies_) {
    const std::int64_t bytes = ring_bytes() + static_cast<std::int64_t>(sizeof(std::uint64_t));
    if (Error error = copy.memory.allocate(bytes)) return error;
    std::fill_n(copy.memory.data(), bytes, std::byte{0xff});
    if (Error error = copy.ready.create()) return error;
    if (Error error = copy.done.create()) return error;
  }
  return check_call("a ring of records", cudaStreamSynchronize(stream_));
}

std::int64_t TokenCopies::ring_bytes() const {
  return std::int64_t{max_calls_} * capacity_ * static_cast<std::int64_t>(sizeof(CallRecord));
}

void TokenCopies::add_to(AdvanceTask& task) const {
  task.records = records_;
  task.max_calls = max_calls_;
  task.calls = calls_;
}

Error TokenCopies::start(std::int64_t slots) {
  if (on_their_way_ == copies_.size()) {
    return out_of_range(
        "copies on their way", std::to_string(on_their_way_ + 1),
        "0 to " + std::to_string(copies_.size()) + " (most_copies); wait_for_tokens() makes room");
  }
  const std::size_t number = (oldest_ + on_their_way_) % copies_.size();
  Copy& copy = copies_[number];
  copy.slots = slots;
  copy.end = enqueued_;
  copy.host_counted = host_counts_;
  const auto own = static_cast<cudaStream_t>(own_.get());
  if (!host_counts_) {
    if (Error error = check_launch("mark_calls", mark_calls(calls_, points_ + number, stream_))) {
      return error;
    }
  }
  if (Error error = check_call("the event of a step", cudaEventRecord(copy.ready.get(), stream_))) {
    return error;
  }
  if (Error error =
          check_call("the event of a step", cudaStreamWaitEvent(own, copy.ready.get(), 0))) {
    return error;
  }
  if (host_counts_) {
    if (Error error = copy_calls(copy, copied_, enqueued_)) return error;
    copied_ = enqueued_;
  } else {
    if (Error error = copy_to_host(copy.records(), records_, ring_bytes())) return error;
    if (Error error =
            copy_to_host(copy.memory.data() + ring_bytes(), points_ + number, sizeof(*points_))) {
      return error;
    }
  }
  if (Error error = check_call("the event of a copy", cudaEventRecord(copy.done.get(), own))) {
    return error;
  }
  ++on_their_way_;
  return {};
}

/// Copies the records of some calls from the ring to the same positions in host memory.
Error TokenCopies::copy_calls(Copy& copy, std::uint64_t begin, std::uint64_t end) {
  const auto most = static_cast<std::uint64_t>(max_calls_);
  const std::uint64_t first = end - begin >= most ? 0 : begin % most;
  const std::uint64_t count = std::min(end - begin, most);
  const auto part = [&](std::uint64_t place, std::uint64_t calls) {
    const std::int64_t at = static_cast<std::int64_t>(place) * capacity_;
    return copy_to_host(copy.records() + at, records_ + at,
                        static_cast<std::int64_t>(calls * sizeof(CallRecord)) * capacity_);
  };
  const std::uint64_t before_end = std::min(count, most - first);
  if (Error error = part(first, before_end)) return error;
  return part(0, count - before_end);
}

Error TokenCopies::copy_to_host(void* target, const void* source, std::int64_t bytes) {
  if (bytes == 0) return {};
  return check_call("a copy of tokens",
                    cudaMemcpyAsync(target, source, static_cast<std::size_t>(bytes),
                                    cudaMemcpyDeviceToHost, static_cast<cudaStream_t>(own_.get())));
}

Error TokenCopies::wait(serving::BatchMirror& mirror, CopiedStep& step) {
  if (on_their_way_ > 0) {
    const Copy& copy = copies_[oldest_];
    if (Error error = check_call("a copy of tokens", cudaEventSynchronize(copy.done.get()))) {
      return error;
    }
    oldest_ = (oldest_ + 1) % copies_.size();
    --on_their_way_;
    const auto* const point =
        reinterpret_cast<const std::uint64_t*>(copy.memory.data() + ring_bytes());
    if (Error error = read(copy, copy.host_counted ? copy.end : *point, mirror)) return error;
    slots_ = copy.slots;
  }
  step.tokens = {tokens_.data(), slots_};
  step.counts = {counts_.data(), slots_};
  step.statuses = {statuses_.data(), slots_};
  return {};
}

bool TokenCopies::is_of(const CallRecord* records, std::uint64_t call) const {
  const auto stamp = static_cast<std::uint32_t>(call) & ~serving::kFirstOfStep;
  return std::all_of(records, records + capacity_, [stamp](const CallRecord& record) {
    return (record.call & ~serving::kFirstOfStep) == stamp;
  });
}

Error TokenCopies::read(const Copy& copy, std::uint64_t end, serving::BatchMirror& mirror) {
  for (; read_ < end; ++read_) {
    const CallRecord* const records =
        copy.records() +
        static_cast<std::int64_t>(read_ % static_cast<std::uint64_t>(max_calls_)) * capacity_;
    const bool is_there =
        end - read_ <= static_cast<std::uint64_t>(max_calls_) && is_of(records, read_);
    if (read_ >= delivered_) {
      if (!is_there) {
        return {ErrorCode::unsupported,
                "tokens of call " + std::to_string(read_) + " were overwritten by call " +
                    std::to_string(read_ + static_cast<std::uint64_t>(max_calls_)) +
                    " before they were copied (most_unread_calls); catch_up() brings them"};
      }
      if (Error error = mirror.deliver(records)) return error;
      delivered_ = read_ + 1;
    }
    if (is_there) add_to_step(records);
  }
  return {};
}

void TokenCopies::add_to_step(const CallRecord* records) {
  const bool first = (records[0].call & serving::kFirstOfStep) != 0;
  for (std::size_t slot = 0; slot < tokens_.size(); ++slot) {
    const CallRecord& record = records[slot];
    if (first) {
      tokens_[slot] = -1;
      counts_[slot] = 0;
    }
    statuses_[slot] = record.status;
    if (record.token < 0) continue;
    tokens_[slot] = record.token;
    ++counts_[slot];
  }
}

Error TokenCopies::count_calls(std::uint64_t& calls) {
  if (Error error = check_call(
          "a number of calls",
          cudaMemcpyAsync(&calls, calls_, sizeof(calls), cudaMemcpyDeviceToHost, stream_))) {
    return error;
  }
  return check_call("steps", cudaStreamSynchronize(stream_));
}

}  // namespace fairdraw::cuda
