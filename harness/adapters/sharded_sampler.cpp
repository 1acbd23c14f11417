// Adapts calls that run in N shards to the contract, as the sampler sharded:N. Each call is split
// over the shards, and the results of the shards are merged.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "harness/adapters/describe.h"
#include "harness/adapters/kept_batch.h"
#include "harness/adapters/operation_view.h"
#include "harness/adapters/sample_view.h"
#include "harness/adapters/sharded.h"
#include "harness/contract/serving.h"
#include "harness/contract/usage_error.h"

namespace fairdraw::harness {
namespace {

constexpr int kMaxJudgedShards = 64;

/// Returns -inf of a dtype in the low bytes of a word.
std::uint32_t minus_infinity_of(DType dtype) {
  if (dtype == DType::float32) return 0xff800000U;
  return dtype == DType::float16 ? 0xfc00U : 0xff80U;
}

class ShardedSampler final : public Serves<> {
 public:
  ShardedSampler(std::string name, int shards, ShardFaults faults)
      : description_(describe(std::move(name))), shards_(shards), faults_(std::move(faults)) {
    execution_.threads = 1;       // because the runner has one thread per case
    description_.chains = false;  // off, because drafts are tested over whole rows
    description_.acceptance_rule = AcceptanceRule::none_stated;
    description_.from_probs_all_filters = description_.scripted_words = true;
    description_.processing = true;
    description_.reports_raw = description_.reports_processed = true;
    description_.ranks_position = description_.ranks_at_least = true;
    description_.keeps_state = true;
    declare_operations(description_);
    description_.min_p_mask_logits = true;
  }

  const SamplerDescription& description() const override { return description_; }

  std::string run(const fairdraw_batch& batch) override {
    std::vector<RowStatus> statuses(
        static_cast<std::size_t>(batch.statuses != nullptr ? batch.outputs : 0));
    ShardedRequest whole;
    whole.rows = sample_request_of(batch);
    whole.input = batch.input == 0 ? TileInput::logits : TileInput::probs;
    if (whole.input == TileInput::probs) whole.rows.temperature = 1.0F;
    whole.words = view_or_none(batch.words, batch.outputs * batch.num_samples);
    const Error error = sample_all(whole, sample_result_of(batch, view_of(statuses)));
    if (error) return error.message;
    write_statuses(statuses, batch.statuses);
    return {};
  }

  std::string run_event(const fairdraw_event& event) override {
    return batch_.run(event, execution_);
  }

  std::string run_operation(const fairdraw_operation& call) override {
    std::vector<RowStatus> statuses(
        static_cast<std::size_t>(call.statuses != nullptr ? call.rows : 0));
    ShardedRequest whole;
    whole.rows.logits = rows_of(call);
    SampleResult result;
    result.statuses = view_of(statuses);
    std::vector<std::uint32_t> kept;
    switch (call.kind) {
      case FAIRDRAW_OPERATION_SOFTMAX:
        whole.rows.temperature = parameter_of(call, call.temperature);
        result.probs = float_result_of(call);
        break;
      case FAIRDRAW_OPERATION_LOG_SOFTMAX:
        result.logprobs.mode = LogprobsMode::raw_logprobs;
        result.logprobs.all = float_result_of(call);
        break;
      case FAIRDRAW_OPERATION_TOP_K_MASK_LOGITS:
        whole.rows.top_k = parameter_of(call, call.top_k);
        whole.top_k_1_keeps_ties = true;
        kept.resize(static_cast<std::size_t>(call.rows * words_for(call.vocab)) + 1);
        result.mask = {kept.data(), call.rows, words_for(call.vocab)};
        break;
      case FAIRDRAW_OPERATION_MIN_P_MASK_LOGITS:
        whole.rows.min_p = parameter_of(call, call.min_p);
        kept.resize(static_cast<std::size_t>(call.rows * words_for(call.vocab)) + 1);
        result.mask = {kept.data(), call.rows, words_for(call.vocab)};
        break;
      case FAIRDRAW_OPERATION_TOP_K_RENORM_PROBS:
        whole.rows.top_k = parameter_of(call, call.top_k);
        whole.top_k_1_keeps_ties = true;
        whole.input = TileInput::probs;
        result.probs = float_result_of(call);
        break;
      case FAIRDRAW_OPERATION_TOP_P_RENORM_PROBS:
        whole.rows.top_p = parameter_of(call, call.top_p);
        whole.input = TileInput::probs;
        result.probs = float_result_of(call);
        break;
      default:
        return "no operation of fairdraw/sampling.h is this kind";
    }
    const Error error = sample_all(whole, result);
    if (error) return error.message;
    if (result.mask.given()) write_masked(call, result.mask);
    write_statuses(statuses, call.statuses);
    return {};
  }

 private:
  static View<RowStatus> view_of(std::vector<RowStatus>& statuses) {
    return {statuses.data(), static_cast<std::int64_t>(statuses.size())};
  }
  static void write_statuses(const std::vector<RowStatus>& statuses, std::int32_t* target) {
    std::transform(statuses.begin(), statuses.end(), target,
                   [](RowStatus status) { return static_cast<std::int32_t>(status); });
  }

  std::vector<std::int64_t> boundaries_of(std::int64_t vocab) const {
    return faults_.boundaries ? faults_.boundaries(vocab) : equal_boundaries(vocab, shards_);
  }

  /// Samples whole rows, in shards.
  Error sample_all(ShardedRequest& whole, const SampleResult& result) const {
    const std::vector<std::int64_t> boundaries = boundaries_of(whole.rows.logits.vocab);
    whole.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
    return sample_in_shards(whole, result, execution_, nullptr, faults_);
  }

  /// Writes the call's rows, with -inf for tokens that are not in the mask. The result may be the
  /// same memory as the rows.
  static void write_masked(const fairdraw_operation& call, const BitRows<std::uint32_t>& mask) {
    const auto bytes = static_cast<std::size_t>(element_bytes(call.dtype));
    const std::uint32_t dropped = minus_infinity_of(static_cast<DType>(call.dtype));
    for (std::int64_t row = 0; row < call.rows; ++row) {
      const auto* const from = static_cast<const std::byte*>(call.values) +
                               static_cast<std::size_t>(row * call.row_stride) * bytes;
      auto* const to = static_cast<std::byte*>(call.result) +
                       static_cast<std::size_t>(row * call.result_stride) * bytes;
      for (std::int64_t id = 0; id < call.vocab; ++id) {
        const std::uint32_t word = mask.data[row * mask.row_stride + id / 32];
        const bool is_kept = ((word >> (id % 32)) & 1U) != 0;
        const std::size_t at = static_cast<std::size_t>(id) * bytes;
        // On a little-endian machine, the low bytes of `dropped` are those of a 16-bit value.
        std::memmove(to + at, is_kept ? from + at : reinterpret_cast<const std::byte*>(&dropped),
                     bytes);
      }
    }
  }

  SamplerDescription description_;
  int shards_;
  ShardFaults faults_;
  Execution execution_;
  // The batch holds the requests that every rank would keep; a step is one sharded call.
  KeptBatch batch_{[this](const SampleRequest& request, const SampleResult& result) {
    ShardedRequest whole;
    whole.rows = request;
    return sample_all(whole, result);
  }};
};

}  // namespace

std::unique_ptr<Sampler> make_sharded_sampler(std::string name, int shards, ShardFaults faults) {
  return std::make_unique<ShardedSampler>(std::move(name), shards, std::move(faults));
}

int shards_in_name(const std::string& name, const std::string& prefix, int most) {
  if (!name.starts_with(prefix)) return 0;
  int shards = 0;
  const char* begin = name.data() + prefix.size();
  const char* end = name.data() + name.size();
  const auto [parsed, fault] = std::from_chars(begin, end, shards);
  if (fault != std::errc{} || parsed != end || shards < 1 || shards > most) {
    throw UsageError("sampler '" + name + "' is unknown; allowed: " + prefix + "1 to " + prefix +
                     std::to_string(most));
  }
  return shards;
}

std::unique_ptr<Sampler> make_sharded_sampler(const std::string& name) {
  const int shards = shards_in_name(name, "sharded:", kMaxJudgedShards);
  return shards == 0 ? nullptr : make_sharded_sampler(name, shards, {});
}

}  // namespace fairdraw::harness
