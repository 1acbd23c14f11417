#include "harness/run/calls/request.h"

#include <limits>
#include <memory>

#include "harness/run/calls/request_arrays.h"
#include "harness/run/calls/request_processing.h"

namespace fairdraw::harness {
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

bool Response::kept_beyond(std::int64_t row, std::int64_t vocab) const {
  const auto last = static_cast<std::size_t>((row + 1) * words_for(vocab) - 1);
  return vocab % 32 != 0 && mask[last] >> (vocab % 32) != 0;
}

namespace {

// Rows of the bitmask as they lie in memory: bits in the gaps allow everything.
std::vector<std::uint32_t> spread(const std::vector<std::uint32_t>& words, std::int64_t width,
                                  std::int64_t gap) {
  if (gap == 0) return words;
  std::vector<std::uint32_t> result;
  for (std::size_t at = 0; at < words.size(); at += static_cast<std::size_t>(width)) {
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(at);
    result.insert(result.end(), first, first + static_cast<std::ptrdiff_t>(width));
    result.insert(result.end(), static_cast<std::size_t>(gap), 0xffffffffU);
  }
  return result;
}

}  // namespace

Response run_request(Sampler& sampler, const Request& request, const WantedResults& wanted) {
  Response response;
  if (broke(sampler, response)) return response;
  Memory* const memory = sampler.memory();
  const EncodedLogits logits(memory, request);
  const auto rows = static_cast<std::size_t>(request.rows);
  const std::size_t length = std::max<std::size_t>(rows, 1);  // never NULL, in an empty batch too
  std::pmr::vector<float> temperature(length, memory), top_p(length, memory), min_p(length, memory);
  std::pmr::vector<std::int32_t> top_k(length, memory);
  for (std::size_t row = 0; row < rows; ++row) {
    temperature[row] = request.parameters[row].temperature;
    top_k[row] = request.parameters[row].top_k;
    top_p[row] = request.parameters[row].top_p;
    min_p[row] = request.parameters[row].min_p;
  }

  const std::int64_t outputs = request.outputs();
  const std::int64_t tokens_out = outputs * request.num_samples;
  const std::int64_t gap = request.gap;
  const float unwritten = std::numeric_limits<float>::quiet_NaN();
  Guarded<std::int32_t> tokens(memory, true, tokens_out, kUnwritten);
  Guarded<std::int32_t> statuses(memory, wanted.statuses, outputs, kUnwritten);
  Guarded<std::int32_t> support_size(memory, wanted.support_size, outputs, kUnwritten);
  Guarded<float> logprob(memory, wanted.logprobs, tokens_out, unwritten);
  Guarded<float> logprob_filtered(memory, wanted.logprobs, tokens_out, unwritten);
  const std::int64_t words = words_for(request.vocab);
  Guarded<std::uint32_t> mask(memory, wanted.mask, request.rows, words, gap, kUnwrittenMask);
  Guarded<float> probs(memory, wanted.probs, request.rows, request.vocab, gap, unwritten);
  const WantedReport& report = wanted.report;
  const std::int64_t entries = outputs * report.top_n;
  const bool wants_all = report.values && report.all;
  Guarded<float> report_values(memory, report.values, tokens_out, unwritten);
  Guarded<std::int32_t> report_ranks(memory, report.values && report.ranks, tokens_out, kUnwritten);
  Guarded<std::int32_t> report_top_ids(memory, report.values, entries, kUnwritten);
  Guarded<float> report_top_values(memory, report.values, entries, unwritten);
  Guarded<float> report_all(memory, wants_all, request.rows, request.vocab, gap, unwritten);
  const std::vector<std::uint32_t> spread_allowed = spread(request.allowed, words, gap);
  const Placed allowed(memory, spread_allowed);
  const Placed active(memory, request.active);
  // Never NULL where there are indices, in an empty batch too: NULL means that there are none.
  const std::vector<std::int32_t> no_index = {0};
  const Placed indices(memory, request.indices.empty() ? no_index : request.indices);
  const Placed seed(memory, request.seed), offset(memory, request.offset);
  const Placed random_words(memory, request.words);

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
  batch.allowed = spread_allowed.empty() ? nullptr : allowed.data();
  batch.allowed_stride = words + gap;
  batch.active = request.active.empty() ? nullptr : active.data();
  batch.indices = request.with_indices ? indices.data() : nullptr;
  batch.outputs = outputs;
  batch.num_samples = request.num_samples;
  batch.seed_is_scalar = request.seed_is_scalar ? 1 : 0;
  batch.seed = seed.data();
  batch.offset = offset.data();
  batch.words = request.words.empty() ? nullptr : random_words.data();
  batch.tokens = tokens.data();
  batch.statuses = statuses.data();
  batch.support_size = support_size.data();
  batch.logprob = logprob.data();
  batch.logprob_filtered = logprob_filtered.data();
  batch.mask = mask.data();
  batch.mask_stride = words + gap;
  batch.probs = probs.data();
  batch.probs_stride = request.vocab + gap;
  batch.report_mode = static_cast<std::uint32_t>(report.mode);
  batch.rank_rule = static_cast<std::uint32_t>(report.rank_rule);
  batch.top_n = report.values ? report.top_n : 0;
  batch.report_values = report_values.data();
  batch.report_ranks = report_ranks.data();
  batch.report_top_ids = report_top_ids.data();
  batch.report_top_values = report_top_values.data();
  batch.report_all = report_all.data();
  batch.report_all_stride = request.vocab + gap;

  ReadOnly inputs;
  PlacedProcessing processing(memory, request.processing, request.vocab, request.history_form);
  processing.give(batch.processing, inputs);
  inputs.watch_bytes("the logits", logits.data(), logits.size());
  inputs.watch("temperature", batch.temperature, rows);
  inputs.watch("top_k", batch.top_k, rows);
  inputs.watch("top_p", batch.top_p, rows);
  inputs.watch("min_p", batch.min_p, rows);
  inputs.watch("the bitmask", batch.allowed, spread_allowed.size());
  inputs.watch("active", batch.active, request.active.size());
  inputs.watch("indices", batch.indices, request.indices.size());
  inputs.watch("seed", batch.seed, request.seed.size());
  inputs.watch("offset", batch.offset, request.offset.size());
  inputs.watch("the random words", batch.words, request.words.size());

  response.refused = sampler.run(batch);
  if (broke(sampler, response)) return response;
  response.damage = damage_of(
      inputs, std::pair("tokens", &tokens), std::pair("statuses", &statuses),
      std::pair("support_size", &support_size), std::pair("logprob", &logprob),
      std::pair("logprob_filtered", &logprob_filtered), std::pair("mask", &mask),
      std::pair("probs", &probs), std::pair("report_values", &report_values),
      std::pair("report_ranks", &report_ranks), std::pair("report_top_ids", &report_top_ids),
      std::pair("report_top_values", &report_top_values), std::pair("report_all", &report_all));
  response.tokens = tokens.take();
  response.statuses = statuses.take();
  response.support_size = support_size.take();
  response.logprob = logprob.take();
  response.logprob_filtered = logprob_filtered.take();
  response.mask = mask.take();
  response.probs = probs.take();
  response.report_values = report_values.take();
  response.report_ranks = report_ranks.take();
  response.report_top_ids = report_top_ids.take();
  response.report_top_values = report_top_values.take();
  response.report_all = report_all.take();
  return response;
}

ChainResponse run_chain_request(Sampler& sampler, const ChainRequest& request) {
  ChainResponse response;
  if (broke(sampler, response)) return response;
  Memory* const memory = sampler.memory();
  const std::int64_t tokens_out = request.batch * (request.num_draft_tokens + 1);
  Guarded<std::int32_t> tokens(memory, true, tokens_out, kUnwritten);
  Guarded<std::int32_t> accepted(memory, request.counts, request.batch, kUnwritten);
  Guarded<std::int32_t> emitted(memory, request.counts, request.batch, kUnwritten);
  Guarded<std::int32_t> statuses(memory, request.counts && sampler.description().reports_status,
                                 request.batch, kUnwritten);

  const auto in_dtype = [&request](const std::vector<float>& values) {
    std::vector<std::byte> bytes;
    if (request.dtype == DType::float32) return bytes;
    bytes.resize(values.size() * element_size(request.dtype));
    encode(request.dtype, values.data(), values.size(), bytes.data());
    return bytes;
  };
  const std::vector<std::byte> narrow_draft = in_dtype(request.draft_probs);
  const std::vector<std::byte> narrow_target = in_dtype(request.target_probs);
  const bool wide = request.dtype == DType::float32;
  const std::vector<float> none;
  const Placed draft(memory, narrow_draft), target(memory, narrow_target);
  const Placed wide_draft(memory, wide ? request.draft_probs : none);
  const Placed wide_target(memory, wide ? request.target_probs : none);
  const Placed draft_tokens(memory, request.draft_tokens);
  const Placed seed(memory, request.seed), offset(memory, request.offset);
  const Placed accept_words(memory, request.accept_words);
  const Placed recover_words(memory, request.recover_words);
  const Placed bonus_words(memory, request.bonus_words);
  fairdraw_chain chain{};
  chain.struct_size = sizeof(chain);
  chain.dtype = static_cast<std::uint32_t>(request.dtype);
  chain.batch = request.batch;
  chain.num_draft_tokens = request.num_draft_tokens;
  chain.vocab = request.vocab;
  chain.draft_probs = wide ? static_cast<const void*>(wide_draft.data()) : draft.data();
  chain.draft_tokens = draft_tokens.data();
  chain.target_probs = wide ? static_cast<const void*>(wide_target.data()) : target.data();
  chain.seed_is_scalar = request.seed_is_scalar ? 1 : 0;
  const auto words = [](const Placed<std::uint64_t>& placed, const auto& given) {
    return given.empty() ? nullptr : placed.data();
  };
  chain.seed = seed.data();
  chain.offset = offset.data();
  chain.accept_words = words(accept_words, request.accept_words);
  chain.recover_words = words(recover_words, request.recover_words);
  chain.bonus_words = words(bonus_words, request.bonus_words);
  chain.tokens = tokens.data();
  chain.accepted = accepted.data();
  chain.emitted = emitted.data();
  chain.statuses = statuses.data();

  ReadOnly inputs;
  const std::size_t size = element_size(request.dtype);
  inputs.watch_bytes("draft_probs", chain.draft_probs, request.draft_probs.size() * size);
  inputs.watch_bytes("target_probs", chain.target_probs, request.target_probs.size() * size);
  inputs.watch("draft_tokens", chain.draft_tokens, request.draft_tokens.size());
  inputs.watch("seed", chain.seed, request.seed.size());
  inputs.watch("offset", chain.offset, request.offset.size());
  inputs.watch("accept_words", chain.accept_words, request.accept_words.size());
  inputs.watch("recover_words", chain.recover_words, request.recover_words.size());
  inputs.watch("bonus_words", chain.bonus_words, request.bonus_words.size());

  response.refused = sampler.run_chain(chain);
  if (broke(sampler, response)) return response;
  response.damage =
      damage_of(inputs, std::pair("tokens", &tokens), std::pair("accepted", &accepted),
                std::pair("emitted", &emitted), std::pair("statuses", &statuses));
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
  if (!request.processing.empty()) return "probabilities are not processed";
  bool min_p = false, others = false;
  for (const reference::RowParameters& row : request.parameters) {
    min_p = min_p || row.min_p != 0;
    others = others || row.top_k != 0 || row.top_p != 1;
  }
  if (min_p && others && !sampler.from_probs_all_filters) {
    return "has no min_p together with top_k or top_p for probabilities";
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
  for (const reference::RowParameters& row : request.parameters) {
    const bool top_k_off = row.top_k == 0 || row.top_k == -1 || row.top_k >= request.vocab;
    if (lacks(!top_k_off, sampler.top_k)) return "has no top_k";
    if (lacks(row.top_p != 1, sampler.top_p)) return "has no top_p";
    if (lacks(row.min_p != 0, sampler.min_p)) return "has no min_p";
  }
  if (lacks(!request.words.empty(), sampler.scripted_words)) return "takes no random words";
  if (lacks(!request.allowed.empty(), sampler.allowed_mask)) return "takes no mask of allowed ids";
  if (lacks(!request.processing.empty(), sampler.processing)) return "takes no logits processing";
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

WantedResults reported(const SamplerDescription& sampler, WantedResults wanted) {
  wanted.statuses = wanted.statuses && sampler.reports_status;
  wanted.support_size = wanted.support_size && sampler.reports_support;
  wanted.mask = wanted.mask && sampler.reports_mask;
  wanted.probs = wanted.probs && sampler.reports_probs;
  wanted.logprobs = wanted.logprobs && sampler.reports_logprobs;
  WantedReport& report = wanted.report;
  report.values =
      report.values && (is_raw(report.mode) ? sampler.reports_raw : sampler.reports_processed);
  report.ranks = report.ranks && (report.rank_rule == RankRule::position ? sampler.ranks_position
                                                                         : sampler.ranks_at_least);
  return wanted;
}

WantedResults reported(const SamplerDescription& sampler, const Request& request,
                       WantedResults wanted) {
  if (request.input == RowInput::probabilities) wanted = {.statuses = wanted.statuses};
  return reported(sampler, wanted);
}

}  // namespace fairdraw::harness
