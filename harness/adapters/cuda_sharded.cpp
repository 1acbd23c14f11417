// The sampler cuda:sharded:N behind the contract: fairdraw/cuda_sharded.h with all shards on one
// GPU, which exchange blocks through memory that all of them address.
//
// A shard is a device state of its own: it gets a copy of the call, and reads its columns. Shards
// meet between what they send and what they receive, because kernels of one that wait for another's
// could fill the GPU. All shards have to say the same; of masks each has its columns.
#include "fairdraw/cuda_sharded.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/adapters/cuda.h"
#include "harness/adapters/cuda_shards.h"
#include "harness/adapters/describe.h"
#include "harness/adapters/device_arrays.h"
#include "harness/adapters/sample_view.h"
#include "harness/adapters/sharded.h"
#include "harness/contract/usage_error.h"

namespace fairdraw::harness {
namespace {

using cuda::ShardedExchange;

/// One shard of a call.
class Shard {
 public:
  Shard(const fairdraw_batch& given, DeviceState& state)
      : results_(given), device_(results_.call()), state_(state) {}

  /// boundaries must stay where they are.
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
    request.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
    request.shard = number;
    SampleResult result = sample_result_of(
        moved, view_or_none(reinterpret_cast<RowStatus*>(moved.statuses), moved.outputs));
    if (result.mask.given()) result.mask.data += first / kBitsOfWord;

    cuda::Execution execution;
    const std::int64_t workspace = cuda::workspace_bytes(request, result);
    if (Error error = prepare(state_, workspace, execution)) return error;
    return cuda::make_sharded_call(request, result, execution, call_);
  }

  /// Memory for the others' blocks.
  Error make_peer_memory(std::int64_t rows, cuda::ShardedPeers& peers, int number) {
    peers.most_rows = std::max<std::int64_t>(rows, 1);
    peers.bytes = cuda::peer_bytes(call_, peers.most_rows);
    if (Error error = memory_.reserve(peers.bytes)) return error;
    if (Error error = memory_.fill(0, 0, peers.bytes, state_.stream)) return error;
    peers.memory[number] = static_cast<std::byte*>(memory_.data());
    return {};
  }
  Error use(const cuda::ShardedPeers& peers) { return cuda::use_peers(call_, peers); }
  Error send(ShardedExchange exchange) const { return cuda::sharded_send(call_, exchange); }
  Error receive(ShardedExchange exchange) const { return cuda::sharded_receive(call_, exchange); }
  Error meet() const { return state_.stream.synchronise(); }
  Error read_undecided(std::int32_t& rows) const {
    const auto* at = reinterpret_cast<const std::byte*>(call_.undecided());
    const auto* base = static_cast<const std::byte*>(state_.workspace.data());
    if (Error error = state_.workspace.download(&rows, at - base, sizeof(rows), state_.stream)) {
      return error;
    }
    return meet();
  }
  Error fetch() const { return device_.download(state_); }

  const fairdraw_batch& results() { return results_.call(); }
  const std::deque<std::vector<std::byte>>& arrays() const { return results_.arrays(); }

 private:
  OwnResults<fairdraw_batch> results_;
  DeviceCall<fairdraw_batch> device_;
  DeviceState& state_;
  cuda::DeviceBuffer memory_;
  cuda::ShardedCall call_;
};

class CudaShardedSampler final : public Sampler {
 public:
  CudaShardedSampler(std::string name, int shards)
      : description_(describe(std::move(name))), shards_(shards) {
    description_.from_probs = description_.chains = description_.indices = false;
    description_.reports_probs = false;
    description_.speculation = true;
  }

  const SamplerDescription& description() const override { return description_; }

  std::string run(const fairdraw_batch& batch) override {
    if (batch.words != nullptr) return "takes no random words";
    if (batch.input != 0) return "takes no probabilities";
    return on_devices(
        shards_, [&](const std::vector<DeviceState*>& states) { return run_on(states, batch); });
  }

  std::string run_speculation(const fairdraw_verification& call) override {
    if (call.parents != nullptr) return "takes no trees";
    return on_devices(shards_, [&](const std::vector<DeviceState*>& states) {
      return verify_in_shards(states, call);
    });
  }

 private:
  Error run_on(const std::vector<DeviceState*>& states, const fairdraw_batch& batch) const {
    const std::vector<std::int64_t> boundaries = word_boundaries(batch.vocab, shards_);
    std::deque<Shard> shards;
    for (DeviceState* state : states) {
      shards.emplace_back(batch, *state);
      const int number = static_cast<int>(shards.size()) - 1;
      if (Error error = shards.back().begin(batch, boundaries, number)) return error;
    }
    if (batch.rows > 0) {
      cuda::ShardedPeers peers;
      for (int number = 0; number < shards_; ++number) {
        Shard& shard = shards[static_cast<std::size_t>(number)];
        if (Error error = shard.make_peer_memory(batch.rows, peers, number)) return error;
      }
      if (Error error = each(shards, [&](Shard& shard) { return shard.use(peers); })) return error;
      if (Error error = exchange_all(shards)) return error;
    }
    if (Error error = each(shards, [](Shard& shard) { return shard.fetch(); })) return error;
    return put_together(shards, boundaries, batch);
  }

  template <class Call>
  static Error each(std::deque<Shard>& shards, const Call& call) {
    for (Shard& shard : shards) {
      if (Error error = call(shard)) return error;
    }
    return {};
  }

  static Error exchange(std::deque<Shard>& shards, ShardedExchange kind) {
    const auto meet = [](Shard& shard) { return shard.meet(); };
    if (Error error = each(shards, [kind](Shard& shard) { return shard.send(kind); })) return error;
    if (Error error = each(shards, meet)) return error;
    if (Error error = each(shards, [kind](Shard& shard) { return shard.receive(kind); })) {
      return error;
    }
    return each(shards, meet);
  }

  static Error exchange_all(std::deque<Shard>& shards) {
    constexpr int kMostRounds = 64;  // of windows that shrink to a sixtieth each
    if (Error error = each(shards, [](Shard& shard) { return shard.meet(); })) return error;
    if (Error error = exchange(shards, ShardedExchange::summary)) return error;
    std::int32_t left = 0;
    for (int round = 0; round < kMostRounds; ++round) {
      if (Error error = shards.front().read_undecided(left)) return error;
      if (left == 0) return {};
      if (left < 0) return {ErrorCode::unsupported, "shards disagree about the call"};
      if (Error error = exchange(shards, ShardedExchange::threshold)) return error;
      if (Error error = exchange(shards, ShardedExchange::tokens)) return error;
    }
    return {ErrorCode::unsupported, "rows are undecided after 64 rounds"};
  }

  /// The results of the first shard, if all have the same, and of masks the columns of each.
  static Error put_together(std::deque<Shard>& shards, const std::vector<std::int64_t>& boundaries,
                            const fairdraw_batch& batch) {
    std::size_t number = 0;
    Error disagreement;
    each_array(batch, [&](const auto& pointer, const CallArray& array) {
      using Value = std::remove_pointer_t<std::remove_reference_t<decltype(pointer)>>;
      if constexpr (!std::is_const_v<Value>) {
        if (pointer == nullptr) return;
        const std::vector<std::byte>& first = shards.front().arrays()[number];
        const bool is_mask = static_cast<const void*>(pointer) == batch.mask;
        for (Shard& shard : shards) {
          if (is_mask || shard.arrays()[number] == first) continue;
          disagreement = {ErrorCode::unsupported,
                          std::string("shards disagree about ") + array.name};
        }
        if (!is_mask) std::memcpy(pointer, first.data(), first.size());
        ++number;
      }
    });
    if (disagreement || batch.mask == nullptr) return disagreement;
    for (int shard = 0; shard + 1 < static_cast<int>(boundaries.size()); ++shard) {
      const std::int64_t begin = boundaries[static_cast<std::size_t>(shard)] / kBitsOfWord;
      const std::int64_t end = words_for(boundaries[static_cast<std::size_t>(shard) + 1]);
      const std::uint32_t* from = shards[static_cast<std::size_t>(shard)].results().mask;
      for (std::int64_t row = 0; row < batch.rows; ++row) {
        const std::int64_t at = row * batch.mask_stride;
        std::copy(from + at + begin, from + at + std::max(begin, end), batch.mask + at + begin);
      }
    }
    return {};
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
