#include "harness/run/request.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "harness/inputs/families.h"

namespace fairdraw::harness {
namespace {

constexpr std::size_t kGuard = 16;  // elements after each result array that must stay untouched

// A result array with a guard behind it. Null when it is not wanted.
template <class T>
class Guarded {
 public:
  Guarded(bool wanted, std::int64_t size, T pattern) : pattern_(pattern) {
    if (!wanted) return;
    values_.assign(static_cast<std::size_t>(size) + kGuard, pattern);
  }
  T* data() { return values_.empty() ? nullptr : values_.data(); }
  bool damaged() const {
    if (values_.empty()) return false;
    return std::any_of(
        values_.end() - static_cast<std::ptrdiff_t>(kGuard), values_.end(),
        [this](const T& value) { return std::memcmp(&value, &pattern_, sizeof(T)) != 0; });
  }
  std::vector<T> take() {
    if (!values_.empty()) values_.resize(values_.size() - kGuard);
    return std::move(values_);
  }

 private:
  T pattern_;
  std::vector<T> values_;
};

std::size_t element_size(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

// The logits in their dtype, at the alignment and stride that the request asks for.
class EncodedLogits {
 public:
  explicit EncodedLogits(const Request& request)
      : stride_(request.row_stride == 0 ? request.vocab : request.row_stride) {
    const bool as_it_is =
        request.dtype == DType::float32 && stride_ == request.vocab && request.misalignment == 0;
    if (as_it_is) {
      data_ = request.logits.data();
      return;
    }
    const std::size_t size = element_size(request.dtype);
    const auto stride = static_cast<std::size_t>(stride_);
    const auto rows = static_cast<std::size_t>(request.rows);
    const auto vocab = static_cast<std::size_t>(request.vocab);
    storage_ = std::make_unique<std::byte[]>(rows * stride * size + 128);
    void* aligned = storage_.get();
    std::size_t space = 64 + rows * stride * size;
    aligned = std::align(64, rows * stride * size, aligned, space);
    std::byte* const first = static_cast<std::byte*>(aligned) + request.misalignment;
    std::memset(first, 0xff, rows * stride * size);  // NaN in all three dtypes
    for (std::size_t row = 0; row < rows; ++row) {
      const float* const values = request.logits.data() + row * vocab;
      std::byte* const target = first + row * stride * size;
      if (request.dtype == DType::float32) {
        std::memcpy(target, values, vocab * size);
        continue;
      }
      for (std::size_t i = 0; i < vocab; ++i) {
        const std::uint16_t bits =
            request.dtype == DType::float16 ? to_float16(values[i]) : to_bfloat16(values[i]);
        std::memcpy(target + i * size, &bits, size);
      }
    }
    data_ = first;
  }
  const void* data() const { return data_; }
  std::int64_t stride() const { return stride_; }

 private:
  std::int64_t stride_;
  std::unique_ptr<std::byte[]> storage_;
  const void* data_ = nullptr;
};

}  // namespace

std::int64_t Request::outputs() const {
  return with_indices ? static_cast<std::int64_t>(indices.size()) : rows;
}

std::int64_t Request::row_of(std::int64_t output) const {
  return with_indices ? indices[static_cast<std::size_t>(output)] : output;
}

bool Response::kept(std::int64_t row, std::int64_t vocab, std::int64_t token) const {
  const auto word = static_cast<std::size_t>(row * words_for(vocab) + token / 32);
  return ((mask[word] >> (token % 32)) & 1U) != 0;
}

Response run_request(Sampler& sampler, const Request& request, const Wanted& wanted) {
  const EncodedLogits logits(request);
  const auto rows = static_cast<std::size_t>(request.rows);
  const std::size_t length = std::max<std::size_t>(rows, 1);  // never NULL, in an empty batch too
  std::vector<float> temperature(length), top_p(length), min_p(length);
  std::vector<std::int32_t> top_k(length);
  for (std::size_t row = 0; row < rows; ++row) {
    temperature[row] = request.parameters[row].temperature;
    top_k[row] = request.parameters[row].top_k;
    top_p[row] = request.parameters[row].top_p;
    min_p[row] = request.parameters[row].min_p;
  }

  const std::int64_t outputs = request.outputs();
  const std::int64_t tokens_out = outputs * request.num_samples;
  const float unwritten = std::numeric_limits<float>::quiet_NaN();
  Guarded<std::int32_t> tokens(true, tokens_out, kUnwritten);
  Guarded<std::int32_t> statuses(wanted.statuses, outputs, kUnwritten);
  Guarded<std::int32_t> support_size(wanted.support_size, outputs, kUnwritten);
  Guarded<float> logprob(wanted.logprobs, tokens_out, unwritten);
  Guarded<float> logprob_filtered(wanted.logprobs, tokens_out, unwritten);
  const std::int64_t words = words_for(request.vocab);
  Guarded<std::uint32_t> mask(wanted.mask, request.rows * words, 0xdeadbeefU);
  Guarded<float> probs(wanted.probs, request.rows * request.vocab, unwritten);

  fairdraw_batch batch{};
  batch.struct_size = sizeof(batch);
  batch.dtype = static_cast<std::uint32_t>(request.dtype);
  batch.input = static_cast<std::uint32_t>(request.input);
  batch.logits = logits.data();
  batch.rows = request.rows;
  batch.vocab = request.vocab;
  batch.row_stride = logits.stride();
  batch.temperature = temperature.data();
  batch.top_k = top_k.data();
  batch.top_p = top_p.data();
  batch.min_p = min_p.data();
  batch.tie_rule = static_cast<std::uint32_t>(request.tie_rule);
  batch.filter_order = static_cast<std::uint32_t>(request.filter_order);
  batch.allowed = request.allowed.empty() ? nullptr : request.allowed.data();
  batch.allowed_stride = words;
  batch.active = request.active.empty() ? nullptr : request.active.data();
  // Never NULL where there are indices, in an empty batch too: NULL means that there are none.
  constexpr std::int32_t kNoIndex = 0;
  batch.indices = !request.with_indices     ? nullptr
                  : request.indices.empty() ? &kNoIndex
                                            : request.indices.data();
  batch.outputs = outputs;
  batch.num_samples = request.num_samples;
  batch.seed_is_scalar = request.seed_is_scalar ? 1 : 0;
  batch.seed = request.seed.data();
  batch.offset = request.offset.data();
  batch.words = request.words.empty() ? nullptr : request.words.data();
  batch.tokens = tokens.data();
  batch.statuses = statuses.data();
  batch.support_size = support_size.data();
  batch.logprob = logprob.data();
  batch.logprob_filtered = logprob_filtered.data();
  batch.mask = mask.data();
  batch.mask_stride = words;
  batch.probs = probs.data();
  batch.probs_stride = request.vocab;

  Response response;
  response.refused = sampler.run(batch);
  const auto note = [&response](bool damaged, const char* array) {
    if (damaged) response.damage = std::string("wrote behind the end of ") + array;
  };
  note(tokens.damaged(), "tokens");
  note(statuses.damaged(), "statuses");
  note(support_size.damaged(), "support_size");
  note(logprob.damaged(), "logprob");
  note(logprob_filtered.damaged(), "logprob_filtered");
  note(mask.damaged(), "mask");
  note(probs.damaged(), "probs");
  response.tokens = tokens.take();
  response.statuses = statuses.take();
  response.support_size = support_size.take();
  response.logprob = logprob.take();
  response.logprob_filtered = logprob_filtered.take();
  response.mask = mask.take();
  response.probs = probs.take();
  return response;
}

ChainResponse run_chain_request(Sampler& sampler, const ChainRequest& request) {
  const std::int64_t tokens_out = request.batch * (request.num_draft_tokens + 1);
  Guarded<std::int32_t> tokens(true, tokens_out, kUnwritten);
  Guarded<std::int32_t> accepted(true, request.batch, kUnwritten);
  Guarded<std::int32_t> emitted(true, request.batch, kUnwritten);
  Guarded<std::int32_t> statuses(sampler.description().reports_status, request.batch, kUnwritten);

  const auto words = [](const std::vector<std::uint64_t>& given) {
    return given.empty() ? nullptr : given.data();
  };
  fairdraw_chain chain{};
  chain.struct_size = sizeof(chain);
  chain.dtype = static_cast<std::uint32_t>(DType::float32);
  chain.batch = request.batch;
  chain.num_draft_tokens = request.num_draft_tokens;
  chain.vocab = request.vocab;
  chain.draft_probs = request.draft_probs.data();
  chain.draft_tokens = request.draft_tokens.data();
  chain.target_probs = request.target_probs.data();
  chain.seed_is_scalar = request.seed_is_scalar ? 1 : 0;
  chain.seed = request.seed.data();
  chain.offset = request.offset.data();
  chain.accept_words = words(request.accept_words);
  chain.recover_words = words(request.recover_words);
  chain.bonus_words = words(request.bonus_words);
  chain.tokens = tokens.data();
  chain.accepted = accepted.data();
  chain.emitted = emitted.data();
  chain.statuses = statuses.data();

  ChainResponse response;
  response.refused = sampler.run_chain(chain);
  const auto note = [&response](bool damaged, const char* array) {
    if (damaged) response.damage = std::string("wrote behind the end of ") + array;
  };
  note(tokens.damaged(), "tokens");
  note(accepted.damaged(), "accepted");
  note(emitted.damaged(), "emitted");
  note(statuses.damaged(), "statuses");
  response.tokens = tokens.take();
  response.accepted = accepted.take();
  response.emitted = emitted.take();
  response.statuses = statuses.take();
  return response;
}

namespace {

std::string missing_for_probabilities(const SamplerDescription& sampler, const Request& request) {
  if (!sampler.from_probs) return "takes no probabilities";
  if (request.tie_rule == TieRule::lowest_id) return "lowest_id is no rule for probabilities";
  if (!request.allowed.empty()) return "probabilities come without a mask of allowed ids";
  if (!request.active.empty()) return "probabilities come without inactive rows";
  bool min_p = false, others = false;
  for (const reference::RowParameters& row : request.parameters) {
    min_p = min_p || row.min_p != 0;
    others = others || row.top_k != 0 || row.top_p != 1;
  }
  if (min_p && others && !sampler.from_probs_all_filters) {
    return "has no min_p beside top_k or top_p for probabilities";
  }
  return {};
}

}  // namespace

std::string missing_ability(const SamplerDescription& sampler, const Request& request) {
  const auto lacks = [](bool needed, bool declared) { return needed && !declared; };
  if (lacks(request.dtype == DType::float16, sampler.float16)) return "takes no float16 logits";
  if (lacks(request.dtype == DType::bfloat16, sampler.bfloat16)) return "takes no bfloat16 logits";
  if (request.input == RowInput::probabilities) {
    if (const std::string reason = missing_for_probabilities(sampler, request); !reason.empty()) {
      return reason;
    }
  }
  if (lacks(!request.words.empty(), sampler.scripted_words)) return "takes no random words";
  if (lacks(!request.allowed.empty(), sampler.allowed_mask)) return "takes no mask of allowed ids";
  if (lacks(!request.active.empty(), sampler.active_rows)) return "takes no inactive rows";
  if (lacks(request.with_indices, sampler.indices)) return "takes no indices";
  if (lacks(request.num_samples > 1, sampler.num_samples)) return "draws one token an output";
  if (lacks(request.tie_rule == TieRule::lowest_id, sampler.lowest_id_ties)) {
    return "has no tie rule lowest_id";
  }
  if (lacks(request.filter_order == FilterOrder::joint, sampler.joint_order)) {
    return "has no joint filter order";
  }
  return {};
}

Wanted reported(const SamplerDescription& sampler, Wanted wanted) {
  wanted.statuses = wanted.statuses && sampler.reports_status;
  wanted.support_size = wanted.support_size && sampler.reports_support;
  wanted.mask = wanted.mask && sampler.reports_mask;
  wanted.probs = wanted.probs && sampler.reports_probs;
  wanted.logprobs = wanted.logprobs && sampler.reports_logprobs;
  return wanted;
}

Wanted reported(const SamplerDescription& sampler, const Request& request, Wanted wanted) {
  if (request.input == RowInput::probabilities) wanted = {.statuses = wanted.statuses};
  return reported(sampler, wanted);
}

}  // namespace fairdraw::harness
