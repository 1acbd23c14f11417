// Adapts fairdraw/cuda_sharded.h to the contract as the sampler cuda:sharded:N, with all shards on
// one GPU. The shards exchange blocks of data through device memory that all shards address. If
// that memory would be too large for one GPU, blocks go through the host instead.
//
// Each shard has a device state of its own, and a copy of the call from which it reads its columns.
// All shards finish sending before any shard receives, because kernels that wait for another
// shard's kernels could fill the GPU. All shards must return the same results, except masks, of
// which each shard returns its columns.
#include "fairdraw/cuda_sharded.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fairdraw/logits_processing.h"
#include "harness/adapters/cuda.h"
#include "harness/adapters/describe.h"
#include "harness/adapters/device_arrays.h"
#include "harness/adapters/sample_view.h"
#include "harness/adapters/sharded.h"
#include "harness/contract/call_arrays.h"
#include "harness/contract/usage_error.h"

namespace fairdraw::harness {
namespace {

using cuda::ShardedExchange;

/// Maximum number of bytes of peer memory of all shards together. Without this limit, a million
/// rows of two tokens would take 100 GB of peer memory.
constexpr std::int64_t kMaxPeerBytes = std::int64_t{4} << 30;

constexpr int kBitsOfWord = 32;

/// Moves the pointers of a call's processing arrays to column `first`, a multiple of 32.
void split_processing(std::int64_t first, LogitsProcessing& processing) {
  if (processing.prompt_mask.given()) processing.prompt_mask.data += first / kBitsOfWord;
  if (processing.output_counts.given()) processing.output_counts.data += first;
}

/// Returns the columns at which the vocabulary is split: at whole words of masks, in shards as
/// equal as possible.
std::vector<std::int64_t> word_boundaries(std::int64_t vocab, int shards) {
  std::vector<std::int64_t> boundaries;
  const std::int64_t words = words_for(vocab);
  for (int shard = 0; shard <= shards; ++shard) {
    boundaries.push_back(std::min(words * shard / shards * kBitsOfWord, vocab));
  }
  boundaries.back() = vocab;
  return boundaries;
}

/// Runs `call` with one device state per shard, and releases the states afterwards. Returns the
/// message of the first error, or an empty string.
std::string on_devices(int shards,
                       const std::function<Error(const std::vector<DeviceState*>&)>& call) {
  std::vector<DeviceState*> states;
  const std::function<std::string()> with_states = [&] {
    std::string message;
    const std::string failed = on_device([&](DeviceState& state) -> Error {
      states.push_back(&state);
      if (static_cast<int>(states.size()) == shards) return call(states);
      message = with_states();
      return {};
    });
    return message.empty() ? failed : message;
  };
  return with_states();
}

/// A copy of a call with result arrays of its own, which start with the contents of the caller's.
class OwnResults {
 public:
  explicit OwnResults(const fairdraw_batch& given) : call_(given) {
    each_array(call_, [this](auto& pointer, const CallArray& array) {
      using Value = std::remove_pointer_t<std::remove_reference_t<decltype(pointer)>>;
      if constexpr (!std::is_const_v<Value>) {
        if (pointer == nullptr) return;
        const auto* bytes = reinterpret_cast<const std::byte*>(pointer);
        arrays_.emplace_back(bytes, bytes + array.bytes());
        pointer = reinterpret_cast<Value*>(arrays_.back().data());
      }
    });
  }
  OwnResults(const OwnResults&) = delete;
  OwnResults& operator=(const OwnResults&) = delete;

  fairdraw_batch& call() { return call_; }
  const std::deque<std::vector<std::byte>>& arrays() const { return arrays_; }

 private:
  fairdraw_batch call_;
  std::deque<std::vector<std::byte>> arrays_;
};

/// One shard of a sharded call on the GPU.
class ShardOnGpu {
 public:
  ShardOnGpu(const fairdraw_batch& given, DeviceState& state)
      : results_(given), device_(results_.call()), state_(state) {}

  /// Begins the call of this shard. The list `boundaries` must exist, at the same address, until
  /// the call ends.
  Error begin(const fairdraw_batch& given, const std::vector<std::int64_t>& boundaries,
              int number) {
    if (Error error = device_.upload(state_)) return error;
    fairdraw_batch& moved = device_.call();
    keep_host_seed(given, moved);
    const std::int64_t first = boundaries[static_cast<std::size_t>(number)];
    const std::int64_t end = boundaries[static_cast<std::size_t>(number) + 1];
    ShardedRequest request;
    request.rows = sample_request_of(moved);
    request.rows.logits.data = static_cast<const std::byte*>(request.rows.logits.data) +
                               first * element_bytes(given.dtype);
    request.rows.logits.vocab = end - first;
    if (request.rows.allowed.given()) request.rows.allowed.data += first / kBitsOfWord;
    split_processing(first, request.rows.processing);
    request.input = given.input == 0 ? TileInput::logits : TileInput::probs;
    if (request.input == TileInput::probs) request.rows.temperature = 1.0F;
    request.words = view_or_none(moved.words, moved.outputs * moved.num_samples);
    request.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
    request.shard = number;
    SampleResult result = sample_result_of(moved, statuses_of(moved.statuses, moved.outputs));
    if (result.mask.given()) result.mask.data += first / kBitsOfWord;
    if (result.logprobs.all.given()) result.logprobs.all.data += first;

    cuda::Execution execution;
    const std::int64_t workspace = cuda::workspace_bytes(request, result);
    if (Error error = prepare(state_, workspace, execution)) return error;
    return cuda::make_sharded_call(request, result, execution, call_);
  }

  std::int64_t peer_bytes(std::int64_t rows) const { return cuda::peer_bytes(call_, rows); }

  /// Allocates and clears the memory that receives the other shards' blocks.
  Error make_peer_memory(std::int64_t rows, cuda::ShardedPeers& peers, int number) {
    peers.most_rows = rows;
    peers.bytes = peer_bytes(rows);
    if (Error error = memory_.reserve(peers.bytes)) return error;
    if (Error error = memory_.fill(0, 0, peers.bytes, state_.stream)) return error;
    peers.memory[number] = static_cast<std::byte*>(memory_.data());
    return {};
  }
  Error use(const cuda::ShardedPeers& peers) { return cuda::use_peers(call_, peers); }
  /// Reads this shard's block to the host.
  Error read_block(ShardedExchange exchange, std::vector<std::byte>& block) const {
    const std::int64_t bytes = call_.bytes(exchange);
    block.resize(static_cast<std::size_t>(bytes));
    if (bytes == 0) return {};
    if (Error error = state_.workspace.download(block.data(), at(call_.send(exchange)), bytes,
                                                state_.stream)) {
      return error;
    }
    return meet();
  }
  /// Writes a shard's block, also this shard's own, to the place where this shard receives it.
  Error write_block(ShardedExchange exchange, int shard, const std::vector<std::byte>& block) {
    const auto bytes = static_cast<std::int64_t>(block.size());
    return state_.workspace.upload(at(call_.receive(exchange)) + shard * bytes, block.data(), bytes,
                                   state_.stream);
  }
  Error send(ShardedExchange exchange) const { return cuda::sharded_send(call_, exchange); }
  Error receive(ShardedExchange exchange) const { return cuda::sharded_receive(call_, exchange); }
  Error meet() const { return state_.stream.synchronise(); }
  Error read_undecided(std::int32_t& rows) const {
    const std::int64_t place = at(reinterpret_cast<const std::byte*>(call_.undecided()));
    if (Error error = state_.workspace.download(&rows, place, sizeof(rows), state_.stream)) {
      return error;
    }
    return meet();
  }
  std::int32_t gathers(std::int32_t rows) const { return call_.gathers(rows); }
  Error fetch() const { return device_.download(state_); }

  const fairdraw_batch& results() { return results_.call(); }
  const std::deque<std::vector<std::byte>>& arrays() const { return results_.arrays(); }

 private:
  /// Returns the offset of an address in the workspace.
  std::int64_t at(const std::byte* place) const {
    return place - static_cast<const std::byte*>(state_.workspace.data());
  }

  OwnResults results_;
  DeviceCall<fairdraw_batch> device_;
  DeviceState& state_;
  cuda::DeviceBuffer memory_;
  cuda::ShardedCall call_;
};

/// Copies the results of the first shard to a call, if all shards have the same results. The caller
/// must merge the arrays for which is_of_columns(place) holds, because each shard has other
/// columns.
template <class IsOfColumns>
Error copy_agreed_results(const std::deque<ShardOnGpu>& shards, const fairdraw_batch& call,
                          const IsOfColumns& is_of_columns) {
  std::size_t number = 0;
  Error disagreement;
  each_array(call, [&](const auto& pointer, const CallArray& array) {
    using Value = std::remove_pointer_t<std::remove_reference_t<decltype(pointer)>>;
    if constexpr (!std::is_const_v<Value>) {
      if (pointer == nullptr) return;
      const std::size_t mine = number++;
      if (is_of_columns(static_cast<const void*>(pointer))) return;
      const std::vector<std::byte>& first = shards.front().arrays()[mine];
      for (const ShardOnGpu& shard : shards) {
        if (shard.arrays()[mine] == first) continue;
        disagreement.code = ErrorCode::unsupported;
        disagreement.message = "shards disagree about ";
        disagreement.message += array.name;
      }
      std::memcpy(pointer, first.data(), first.size());
    }
  });
  return disagreement;
}

class CudaShardedSampler final : public Sampler {
 public:
  CudaShardedSampler(std::string name, int shards)
      : description_(describe(std::move(name))), shards_(shards) {
    description_.chains = false;  // off, because drafts are tested over whole rows
    description_.acceptance_rule = AcceptanceRule::none_stated;
    description_.from_probs_all_filters = true;
    description_.reports_probs = false;
    description_.processing = description_.scripted_words = true;
    description_.reports_raw = description_.reports_processed = true;
    description_.ranks_position = description_.ranks_at_least = true;
  }

  const SamplerDescription& description() const override { return description_; }

  std::string run(const fairdraw_batch& batch) override {
    return on_devices(
        shards_, [&](const std::vector<DeviceState*>& states) { return run_on(states, batch); });
  }

 private:
  Error run_on(const std::vector<DeviceState*>& states, const fairdraw_batch& batch) const {
    const std::vector<std::int64_t> boundaries = word_boundaries(batch.vocab, shards_);
    std::deque<ShardOnGpu> shards;
    for (DeviceState* state : states) {
      shards.emplace_back(batch, *state);
      const int number = static_cast<int>(shards.size()) - 1;
      if (Error error = shards.back().begin(batch, boundaries, number)) return error;
    }
    if (batch.outputs > 0) {
      const bool through_peers = shards_ * shards.front().peer_bytes(batch.rows) <= kMaxPeerBytes;
      if (through_peers) {
        if (Error error = connect(shards, batch.rows)) return error;
      }
      if (Error error = exchange_all(shards, through_peers)) return error;
    }
    if (Error error = each(shards, [](ShardOnGpu& shard) { return shard.fetch(); })) return error;
    return put_together(shards, boundaries, batch);
  }

  static Error connect(std::deque<ShardOnGpu>& shards, std::int64_t rows) {
    cuda::ShardedPeers peers;
    int number = 0;
    for (ShardOnGpu& shard : shards) {
      if (Error error = shard.make_peer_memory(rows, peers, number++)) return error;
    }
    return each(shards, [&](ShardOnGpu& shard) { return shard.use(peers); });
  }

  template <class Call>
  static Error each(std::deque<ShardOnGpu>& shards, const Call& call) {
    for (ShardOnGpu& shard : shards) {
      if (Error error = call(shard)) return error;
    }
    return {};
  }

  /// Exchanges the blocks of all shards through the host, as a network transport would.
  static Error gather(std::deque<ShardOnGpu>& shards, ShardedExchange kind) {
    int number = 0;
    std::vector<std::byte> block;
    for (ShardOnGpu& from : shards) {
      if (Error error = from.read_block(kind, block)) return error;
      if (block.empty()) return {};  // this call has no exchange of this number
      for (ShardOnGpu& to : shards) {
        if (Error error = to.write_block(kind, number, block)) return error;
        if (Error error = to.meet()) return error;  // waits, because `block` is used again
      }
      ++number;
    }
    return {};
  }

  static Error exchange(std::deque<ShardOnGpu>& shards, ShardedExchange kind, bool through_peers) {
    const auto meet = [](ShardOnGpu& shard) { return shard.meet(); };
    if (Error error = each(shards, [kind](ShardOnGpu& shard) { return shard.send(kind); })) {
      return error;
    }
    if (Error error = each(shards, meet)) return error;
    if (!through_peers) {
      if (Error error = gather(shards, kind)) return error;
    }
    if (Error error = each(shards, [kind](ShardOnGpu& shard) { return shard.receive(kind); })) {
      return error;
    }
    return each(shards, meet);
  }

  static Error exchange_all(std::deque<ShardOnGpu>& shards, bool through_peers) {
    if (Error error = each(shards, [](ShardOnGpu& shard) { return shard.meet(); })) return error;
    const auto go = [&](ShardedExchange kind) { return exchange(shards, kind, through_peers); };
    if (Error error = go(ShardedExchange::summary)) return error;
    std::int32_t left = 0;
    if (Error error = shards.front().read_undecided(left)) return error;
    if (left < 0) return {ErrorCode::unsupported, "shards disagree about the call"};
    if (left > 0) {  // rows without filters, rows by proposals, undecided rows
      if (Error error = go(ShardedExchange::tokens)) return error;
      if (Error error = go(ShardedExchange::sums)) return error;
      if (Error error = shards.front().read_undecided(left)) return error;
    }
    for (std::int32_t groups = shards.front().gathers(left); groups > 0; --groups) {
      if (Error error = go(ShardedExchange::gather)) return error;
    }
    return go(ShardedExchange::ranks);
  }

  /// Merges the results: takes those of the first shard if all shards agree, and the columns of
  /// each shard for masks and for log-probabilities of whole rows.
  static Error put_together(std::deque<ShardOnGpu>& shards,
                            const std::vector<std::int64_t>& boundaries,
                            const fairdraw_batch& batch) {
    Error disagreement = copy_agreed_results(shards, batch, [&batch](const void* place) {
      return place == batch.mask || place == batch.report_all;
    });
    if (disagreement) return disagreement;
    int number_of_shard = 0;
    for (ShardOnGpu& shard : shards) {
      const auto at = static_cast<std::size_t>(number_of_shard++);
      const std::int64_t begin = boundaries[at];
      const std::int64_t end = boundaries[at + 1];
      const fairdraw_batch& from = shard.results();
      copy_columns(from.mask, batch.mask, batch.rows, batch.mask_stride, begin / kBitsOfWord,
                   words_for(end));
      copy_columns(from.report_all, batch.report_all, batch.rows, batch.report_all_stride, begin,
                   end);
    }
    return {};
  }

  /// Copies the columns from begin to end, exclusive, of each row. Does nothing if `to` is null.
  template <class T>
  static void copy_columns(const T* from, T* to, std::int64_t rows, std::int64_t stride,
                           std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; to != nullptr && row < rows && begin < end; ++row) {
      std::copy(from + row * stride + begin, from + row * stride + end, to + row * stride + begin);
    }
  }

  SamplerDescription description_;
  int shards_;
};

}  // namespace

std::unique_ptr<Sampler> make_cuda_sharded_sampler(const std::string& name) {
  const int shards = shards_in_name(name, "cuda:sharded:", cuda::kMaxDeviceShards);
  if (shards == 0) return nullptr;
  if (!cuda::is_available(cuda::Path::best)) {
    throw UsageError("sampler '" + name +
                     "' cannot run here: " + cuda::why_not_available(cuda::Path::best));
  }
  return std::make_unique<CudaShardedSampler>(name, shards);
}

}  // namespace fairdraw::harness
