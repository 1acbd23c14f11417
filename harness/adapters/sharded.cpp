#include "harness/adapters/sharded.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "harness/adapters/shard_columns.h"
#include "harness/contract/call_arrays.h"

namespace fairdraw::harness {
namespace {

/// A shard on the CPU, with its columns of the request and results of its own.
class ShardOnCpu {
 public:
  ShardOnCpu(const ShardedRequest& whole, const SampleResult& wanted, int number)
      : request(whole),
        begin_(whole.boundaries.data[number]),
        end_(whole.boundaries.data[number + 1]),
        columns_(begin_, end_) {
    request.shard = number;
    SampleRequest& rows = request.rows;
    rows.logits = columns_.of(whole.rows.logits);
    rows.allowed = columns_.of(whole.rows.allowed);
    rows.processing = columns_.of(whole.rows.processing);
    make_results(whole.rows, wanted);
  }
  ShardOnCpu(const ShardOnCpu&) = delete;
  ShardOnCpu& operator=(const ShardOnCpu&) = delete;

  /// Copies the shard's columns of the mask into the whole mask. Rows of the mask that are padding
  /// are not changed.
  void merge_mask(const SampleRequest& whole, const SampleResult& wanted) const {
    if (!wanted.mask.given()) return;
    for (std::int64_t row = 0; row < wanted.mask.rows; ++row) {
      if (whole.active.given() && whole.active.data[row] == 0) continue;
      std::uint32_t* words = wanted.mask.data + row * wanted.mask.row_stride;
      for (std::int64_t id = begin_; id < end_; ++id) {
        set_bit(words, id, bit_at(result.mask.data + row * result.mask.row_stride, id - begin_));
      }
      const std::int64_t vocab = whole.logits.vocab;
      for (std::int64_t bit = vocab; bit < words_for(vocab) * 32; ++bit) set_bit(words, bit, false);
    }
  }

  /// Copies those outputs that are taken from this shard into the whole result.
  void copy_output(const SampleResult& wanted, std::int64_t output, std::int64_t samples) const {
    const auto copy = [output](const auto& from, const auto& to, std::int64_t each) {
      if (!to.given()) return;
      std::copy_n(from.data + output * each, each, to.data + output * each);
    };
    copy(result.tokens, wanted.tokens, samples);
    copy(result.statuses, wanted.statuses, 1);
    copy(result.support_size, wanted.support_size, 1);
    copy(result.logprob, wanted.logprob, samples);
    copy(result.logprob_filtered, wanted.logprob_filtered, samples);
    const LogprobsResult& from = result.logprobs;
    const LogprobsResult& to = wanted.logprobs;
    copy(from.values, to.values, samples);
    copy(from.ranks, to.ranks, samples);
    copy(from.top_ids, to.top_ids, to.top_n);
    copy(from.top_values, to.top_values, to.top_n);
  }

  ShardedRequest request;
  SampleResult result;
  ShardedSample call;

 private:
  void make_results(const SampleRequest& whole, const SampleResult& wanted) {
    const auto own = [](auto& storage, const auto& view) {
      storage.assign(static_cast<std::size_t>(view.given() ? view.size : 0), {});
      if (!view.given()) return view;
      if (storage.empty()) storage.resize(1);  // because an empty array also counts as given
      return std::decay_t<decltype(view)>(storage.data(), view.size);
    };
    result.tokens = own(tokens_, wanted.tokens);
    result.statuses = own(statuses_, wanted.statuses);
    result.support_size = own(support_size_, wanted.support_size);
    result.logprob = own(logprob_, wanted.logprob);
    result.logprob_filtered = own(logprob_filtered_, wanted.logprob_filtered);
    result.logprobs = wanted.logprobs;
    result.logprobs.values = own(values_, wanted.logprobs.values);
    result.logprobs.ranks = own(ranks_, wanted.logprobs.ranks);
    result.logprobs.top_ids = own(top_ids_, wanted.logprobs.top_ids);
    result.logprobs.top_values = own(top_values_, wanted.logprobs.top_values);
    if (result.logprobs.all.given()) result.logprobs.all.data += begin_;
    result.probs = wanted.probs;
    if (result.probs.given()) result.probs.data += begin_;
    if (wanted.mask.given()) {
      const std::int64_t stride = std::max<std::int64_t>(words_for(end_ - begin_), 1);
      mask_.resize(static_cast<std::size_t>(std::max<std::int64_t>(whole.logits.rows, 1) * stride));
      result.mask = {mask_.data(), wanted.mask.rows, stride};
    }
  }

  std::int64_t begin_, end_;
  ShardColumns columns_;
  std::vector<std::uint32_t> mask_;
  std::vector<std::int32_t> tokens_, support_size_, ranks_, top_ids_;
  std::vector<RowStatus> statuses_;
  std::vector<float> logprob_, logprob_filtered_, values_, top_values_;
};

/// Copies blocks between the shards until all calls are done.
Error exchange_all(const std::vector<std::unique_ptr<ShardOnCpu>>& shards,
                   const ShardFaults& faults, ShardTraffic& sent) {
  while (shards.front()->call.block_bytes() > 0) {
    const std::int64_t bytes = shards.front()->call.block_bytes();
    std::vector<std::byte> gathered;
    gathered.reserve(shards.size() * static_cast<std::size_t>(bytes));
    for (const auto& shard : shards) {
      if (shard->call.block_bytes() != bytes) {
        return {ErrorCode::invalid_argument, "shards send blocks of different sizes"};
      }
      gathered.insert(gathered.end(), shard->call.block(), shard->call.block() + bytes);
    }
    sent.bytes += static_cast<std::int64_t>(gathered.size());
    std::vector<std::byte> spoilt;
    for (const auto& shard : shards) {
      const std::byte* got = gathered.data();
      if (faults.blocks) {
        spoilt = gathered;
        faults.blocks(shard->request, sent.exchanges, spoilt.data(), bytes);
        got = spoilt.data();
      }
      if (Error error = shard->call.receive(got)) return error;
    }
    ++sent.exchanges;
  }
  sent.gathered_rows = shards.front()->call.gathered_rows();
  return {};
}

}  // namespace

std::vector<std::int64_t> equal_boundaries(std::int64_t vocab, int shards) {
  std::vector<std::int64_t> boundaries;
  for (std::int64_t shard = 0; shard <= shards; ++shard) {
    boundaries.push_back(vocab * shard / shards);
  }
  return boundaries;
}

Error sample_in_shards(const ShardedRequest& whole, const SampleResult& result,
                       const Execution& execution, ShardTraffic* traffic,
                       const ShardFaults& faults) {
  const SampleRequest& request = whole.rows;
  std::vector<std::unique_ptr<ShardOnCpu>> shards;
  for (int s = 0; s + 1 < static_cast<int>(whole.boundaries.size); ++s) {
    shards.push_back(std::make_unique<ShardOnCpu>(whole, result, s));
    ShardOnCpu& shard = *shards.back();
    if (faults.request) faults.request(shard.request);
    if (Error error = shard.call.begin(shard.request, shard.result, execution)) return error;
  }
  ShardTraffic sent;
  if (Error error = exchange_all(shards, faults, sent)) return error;
  const std::int64_t outputs = request.indices.given() ? request.indices.size : request.logits.rows;
  for (int s = 0; s < static_cast<int>(shards.size()); ++s) {
    const ShardOnCpu& shard = *shards[static_cast<std::size_t>(s)];
    if (faults.result) faults.result(shard.request, shard.result);
    for (std::int64_t i = s; i < outputs; i += static_cast<std::int64_t>(shards.size())) {
      shard.copy_output(result, i, request.num_samples);
    }
    shard.merge_mask(request, result);
  }
  if (traffic != nullptr) *traffic = sent;
  return {};
}

Error sample_in_shards(const SampleRequest& request, const SampleResult& result,
                       const std::vector<std::int64_t>& boundaries, const Execution& execution,
                       ShardTraffic* traffic, const ShardFaults& faults) {
  ShardedRequest whole;
  whole.rows = request;
  whole.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
  return sample_in_shards(whole, result, execution, traffic, faults);
}

}  // namespace fairdraw::harness
