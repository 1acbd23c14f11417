#include "harness/adapters/sharded.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "harness/adapters/describe.h"
#include "harness/adapters/sample_view.h"
#include "harness/contract/usage_error.h"

namespace fairdraw::harness {
namespace {

constexpr int kMostShards = 64;

bool bit_at(const std::uint32_t* words, std::int64_t bit) {
  return ((words[bit / 32] >> (bit % 32)) & 1U) != 0;
}
void set_bit(std::uint32_t* words, std::int64_t bit, bool value) {
  const std::uint32_t mask = 1U << (bit % 32);
  words[bit / 32] = value ? words[bit / 32] | mask : words[bit / 32] & ~mask;
}

/// Columns begin to end of packed rows, from bit 0 on.
template <class Word>
std::vector<std::uint32_t> bits_of(const BitRows<Word>& rows, std::int64_t begin,
                                   std::int64_t end) {
  const std::int64_t stride = std::max<std::int64_t>(words_for(end - begin), 1);
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(rows.rows * stride));
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    for (std::int64_t id = begin; id < end; ++id) {
      set_bit(bits.data() + row * stride, id - begin,
              bit_at(rows.data + row * rows.row_stride, id));
    }
  }
  return bits;
}

/// One shard: its part of the request, and its own results.
class Shard {
 public:
  Shard(const SampleRequest& whole, const SampleResult& wanted,
        const std::vector<std::int64_t>& boundaries, int number)
      : begin_(boundaries[static_cast<std::size_t>(number)]),
        end_(boundaries[static_cast<std::size_t>(number) + 1]) {
    request.rows = whole;
    request.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
    request.shard = number;
    split_rows(whole);
    make_results(whole, wanted);
  }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  /// The mask's columns into the whole one. Padding was left as it was.
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

  /// The shard's own output into the whole result.
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
  void split_rows(const SampleRequest& whole) {
    SampleRequest& rows = request.rows;
    const std::int64_t value_bytes = whole.logits.dtype == DType::float32 ? 4 : 2;
    rows.logits.data = static_cast<const std::uint8_t*>(whole.logits.data) + begin_ * value_bytes;
    rows.logits.vocab = end_ - begin_;
    const std::int64_t stride = std::max<std::int64_t>(words_for(end_ - begin_), 1);
    if (whole.allowed.given()) {
      allowed_ = bits_of(whole.allowed, begin_, end_);
      rows.allowed = {at_least_one(allowed_), whole.allowed.rows, stride};
    }
    LogitsProcessing& processing = rows.processing;
    if (whole.processing.prompt_mask.given()) {
      prompt_mask_ = bits_of(whole.processing.prompt_mask, begin_, end_);
      processing.prompt_mask = {at_least_one(prompt_mask_), whole.processing.prompt_mask.rows,
                                stride};
    }
    if (processing.output_counts.given()) processing.output_counts.data += begin_;
  }

  static const std::uint32_t* at_least_one(std::vector<std::uint32_t>& words) {
    if (words.empty()) words.resize(1);
    return words.data();
  }

  void make_results(const SampleRequest& whole, const SampleResult& wanted) {
    const auto own = [](auto& storage, const auto& view) {
      storage.assign(static_cast<std::size_t>(view.given() ? view.size : 0), {});
      if (!view.given()) return view;
      if (storage.empty()) storage.resize(1);  // an empty array is given, too
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
  std::vector<std::uint32_t> allowed_, prompt_mask_, mask_;
  std::vector<std::int32_t> tokens_, support_size_, ranks_, top_ids_;
  std::vector<RowStatus> statuses_;
  std::vector<float> logprob_, logprob_filtered_, values_, top_values_;
};

}  // namespace

std::vector<std::int64_t> equal_boundaries(std::int64_t vocab, int shards) {
  std::vector<std::int64_t> boundaries;
  for (std::int64_t shard = 0; shard <= shards; ++shard) {
    boundaries.push_back(vocab * shard / shards);
  }
  return boundaries;
}

Error sample_in_shards(const SampleRequest& request, const SampleResult& result,
                       const std::vector<std::int64_t>& boundaries, const Execution& execution,
                       ShardTraffic* traffic, const ShardFaults& faults) {
  std::vector<std::unique_ptr<Shard>> shards;
  for (int s = 0; s + 1 < static_cast<int>(boundaries.size()); ++s) {
    shards.push_back(std::make_unique<Shard>(request, result, boundaries, s));
    Shard& shard = *shards.back();
    if (faults.request) faults.request(shard.request);
    if (Error error = shard.call.begin(shard.request, shard.result, execution)) return error;
  }
  ShardTraffic sent;
  while (shards.front()->call.block_bytes() > 0) {
    const std::int64_t bytes = shards.front()->call.block_bytes();
    std::vector<std::byte> gathered;
    for (const std::unique_ptr<Shard>& shard : shards) {
      if (shard->call.block_bytes() != bytes) {
        return {ErrorCode::invalid_argument, "shards send blocks of different sizes"};
      }
      gathered.insert(gathered.end(), shard->call.block(), shard->call.block() + bytes);
    }
    sent.bytes += static_cast<std::int64_t>(gathered.size());
    for (int s = 0; s < static_cast<int>(shards.size()); ++s) {
      std::vector<std::byte> got = gathered;
      Shard& shard = *shards[static_cast<std::size_t>(s)];
      if (faults.blocks) faults.blocks(shard.request, sent.exchanges, got.data(), bytes);
      if (Error error = shard.call.receive(got.data())) return error;
    }
    ++sent.exchanges;
  }
  const std::int64_t outputs = request.indices.given() ? request.indices.size : request.logits.rows;
  for (int s = 0; s < static_cast<int>(shards.size()); ++s) {
    const Shard& shard = *shards[static_cast<std::size_t>(s)];
    if (faults.result) faults.result(shard.request, shard.result);
    for (std::int64_t i = s; i < outputs; i += static_cast<std::int64_t>(shards.size())) {
      shard.copy_output(result, i, request.num_samples);
    }
    shard.merge_mask(request, result);
  }
  if (traffic != nullptr) *traffic = sent;
  return {};
}

// --- The sampler
// ----------------------------------------------------------------------------------

namespace {

class ShardedSampler final : public Sampler {
 public:
  ShardedSampler(std::string name, int shards, ShardFaults faults)
      : description_(describe(std::move(name))), shards_(shards), faults_(std::move(faults)) {
    execution_.threads = 1;  // the runner has its own, one a case
    description_.from_probs = description_.chains = false;
    description_.acceptance_rule = AcceptanceRule::none_stated;
    description_.processing = true;
    description_.reports_raw = description_.reports_processed = true;
    description_.ranks_position = description_.ranks_at_least = true;
  }

  const SamplerDescription& description() const override { return description_; }

  std::string run(const fairdraw_batch& batch) override {
    if (batch.words != nullptr) return "takes no random words";
    if (batch.input != 0) return "takes no probabilities";
    std::vector<RowStatus> statuses(
        static_cast<std::size_t>(batch.statuses != nullptr ? batch.outputs : 0));
    const SampleRequest request = sample_request_of(batch);
    const SampleResult result =
        sample_result_of(batch, {statuses.data(), static_cast<std::int64_t>(statuses.size())});
    const Error error =
        sample_in_shards(request, result,
                         faults_.boundaries ? faults_.boundaries(batch.vocab)
                                            : equal_boundaries(batch.vocab, shards_),
                         execution_, nullptr, faults_);
    if (error) return error.message;
    std::transform(statuses.begin(), statuses.end(), batch.statuses,
                   [](RowStatus status) { return static_cast<std::int32_t>(status); });
    return {};
  }

 private:
  SamplerDescription description_;
  int shards_;
  ShardFaults faults_;
  Execution execution_;
};

}  // namespace

std::unique_ptr<Sampler> make_sharded_sampler(std::string name, int shards, ShardFaults faults) {
  return std::make_unique<ShardedSampler>(std::move(name), shards, std::move(faults));
}

std::unique_ptr<Sampler> make_sharded_sampler(const std::string& name) {
  const std::string prefix = "sharded:";
  if (!name.starts_with(prefix)) return nullptr;
  int shards = 0;
  const char* begin = name.data() + prefix.size();
  const char* end = name.data() + name.size();
  const auto [parsed, fault] = std::from_chars(begin, end, shards);
  if (fault != std::errc{} || parsed != end || shards < 1 || shards > kMostShards) {
    throw UsageError("sampler '" + name +
                     "' is unknown; allowed: sharded:1 to sharded:" + std::to_string(kMostShards));
  }
  return make_sharded_sampler(name, shards, {});
}

}  // namespace fairdraw::harness
