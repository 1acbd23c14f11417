#include "harness/run/calls/request.h"

#include <algorithm>

#include "harness/run/calls/lack.h"
#include "harness/run/calls/request_arrays.h"

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

// Returns the rows of the bitmask in their layout in memory. All bits in the gaps between rows are
// set, so that a sampler that reads a gap finds no banned token.
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

// The inputs of the batch that the request stores in another form. The fields have the same names
// as in fairdraw_batch.
struct BatchInputs : FilterArrays {
  EncodedLogits logits;
  std::vector<std::uint32_t> allowed;
  std::vector<std::int32_t> indices;
  ProcessingArrays processing;

  BatchInputs(Memory* memory, const Request& request)
      : FilterArrays(request.parameters),
        logits(memory, request),
        allowed(spread(request.allowed, words_for(request.vocab), request.gap)),
        processing(pack(request.processing, request.vocab, request.history_form)) {
    if (request.with_indices) indices = request.indices;
    // An empty batch also needs a pointer, because null would mean that there are no indices.
    if (request.with_indices && indices.empty()) indices = {0};
  }
};

// The results of a batch for which memory is allocated.
struct BatchRoom {
  bool tokens, statuses, support_size, logprob, logprob_filtered, mask, probs;
  bool report_values, report_ranks, report_top_ids, report_top_values, report_all;
};

BatchRoom room_for(const WantedResults& wanted) {
  const WantedReport& report = wanted.report;
  return {.tokens = true,
          .statuses = wanted.statuses,
          .support_size = wanted.support_size,
          .logprob = wanted.logprobs,
          .logprob_filtered = wanted.logprobs,
          .mask = wanted.mask,
          .probs = wanted.probs,
          .report_values = report.values,
          .report_ranks = report.values && report.ranks,
          .report_top_ids = report.values,
          .report_top_values = report.values,
          .report_all = report.values && report.all};
}

}  // namespace

Response run_request(Sampler& sampler, const Request& request, const WantedResults& wanted) {
  Response response;
  if (broke(sampler, response)) return response;
  const BatchInputs prepared(sampler.memory(), request);
  const WantedReport& report = wanted.report;

  fairdraw_batch batch{};
  batch.struct_size = sizeof(batch);
  batch.dtype = static_cast<std::uint32_t>(request.dtype);
  batch.input = static_cast<std::uint32_t>(request.input);
  batch.rows = request.rows;
  batch.vocab = request.vocab;
  batch.row_stride = prepared.logits.stride();
  batch.tie_rule = static_cast<std::uint32_t>(request.tie_rule);
  batch.filter_order = static_cast<std::uint32_t>(request.filter_order);
  batch.outputs = request.outputs();
  batch.num_samples = request.num_samples;
  batch.seed_is_scalar = request.seed_is_scalar ? 1 : 0;
  batch.allowed_stride = batch.mask_stride = words_for(request.vocab) + request.gap;
  batch.probs_stride = batch.report_all_stride = request.vocab + request.gap;
  batch.report_mode = static_cast<std::uint32_t>(report.mode);
  batch.rank_rule = static_cast<std::uint32_t>(report.rank_rule);
  batch.top_n = report.values ? report.top_n : 0;
  batch.mark_scheme = static_cast<std::uint32_t>(request.mark_scheme);
  batch.mark_window = request.mark_window;
  if (request.rows > 0) {
    batch.mark_output_size = static_cast<std::int64_t>(request.mark_output.size()) / request.rows;
  }

  PlacedArrays arrays(sampler.memory());
  place_arrays(arrays, batch, prepared, request, room_for(wanted), response);
  answer_call(sampler, arrays, response, [&] { return sampler.run(batch); });
  return response;
}

namespace {

Lack lack_for_probabilities(const SamplerDescription& sampler, const Request& request) {
  if (!sampler.from_probs) return lack_of("from_probs");
  // No library offers the following features for rows of probabilities.
  if (request.tie_rule == TieRule::lowest_id) return {"lowest_id is no rule for probabilities", ""};
  if (!request.allowed.empty()) return {"probabilities come without a mask of allowed ids", ""};
  if (!request.active.empty()) return {"probabilities come without inactive rows", ""};
  if (!request.processing.empty()) return {"probabilities are not processed", ""};
  bool min_p = false, others = false;
  for (const reference::RowParameters& row : request.parameters) {
    min_p = min_p || row.min_p != 0;
    others = others || row.top_k != 0 || row.top_p != 1;
  }
  return min_p && others && !sampler.from_probs_all_filters ? lack_of("from_probs_all_filters")
                                                            : Lack();
}

Lack lack_for_marks(const SamplerDescription& sampler, MarkScheme scheme) {
  switch (scheme) {
    case MarkScheme::by_key:
      return sampler.marks_by_key ? Lack() : lack_of("marks_by_key");
    case MarkScheme::by_key_and_seed:
      return sampler.marks_by_key_and_seed ? Lack() : lack_of("marks_by_key_and_seed");
    case MarkScheme::green_list:
      break;
  }
  return sampler.marks_green_lists ? Lack() : lack_of("marks_green_lists");
}

}  // namespace

Lack lack_for(const SamplerDescription& sampler, const Request& request) {
  const auto lacks = [](bool needed, bool declared) { return needed && !declared; };
  if (lacks(request.dtype == DType::float16, sampler.float16)) return lack_of("float16");
  if (lacks(request.dtype == DType::bfloat16, sampler.bfloat16)) return lack_of("bfloat16");
  if (request.input == RowInput::probabilities) {
    if (Lack lack = lack_for_probabilities(sampler, request); !lack.empty()) return lack;
  }
  for (const reference::RowParameters& row : request.parameters) {
    const bool top_k_off = row.top_k == 0 || row.top_k == -1 || row.top_k >= request.vocab;
    if (lacks(!top_k_off, sampler.top_k)) return lack_of("top_k");
    if (lacks(row.top_p != 1, sampler.top_p)) return lack_of("top_p");
    if (lacks(row.min_p != 0, sampler.min_p)) return lack_of("min_p");
  }
  if (lacks(!request.words.empty(), sampler.scripted_words)) return lack_of("scripted_words");
  if (lacks(!request.allowed.empty(), sampler.allowed_mask)) return lack_of("allowed_mask");
  if (lacks(!request.processing.empty(), sampler.processing)) return lack_of("processing");
  const bool by_sigma = std::ranges::any_of(
      request.processing, [](const reference::RowProcessing& row) { return row.top_n_sigma != 0; });
  if (lacks(by_sigma, sampler.top_n_sigma)) return lack_of("top_n_sigma");
  const bool by_probability =
      std::ranges::any_of(request.processing, reference::has_probability_filter);
  if (lacks(by_probability, sampler.probability_filters)) return lack_of("probability_filters");
  const bool by_history = std::ranges::any_of(request.processing, reference::has_history_rule);
  if (lacks(by_history, sampler.history_rules)) return lack_of("history_rules");
  if (!request.mark_key.empty()) {
    if (Lack lack = lack_for_marks(sampler, request.mark_scheme); !lack.empty()) return lack;
  }
  if (lacks(!request.active.empty(), sampler.active_rows)) return lack_of("active_rows");
  if (lacks(request.with_indices, sampler.indices)) return lack_of("indices");
  if (lacks(request.num_samples > 1, sampler.num_samples)) return lack_of("num_samples");
  if (lacks(request.tie_rule == TieRule::lowest_id, sampler.lowest_id_ties)) {
    return lack_of("lowest_id_ties");
  }
  if (lacks(request.filter_order == FilterOrder::joint, sampler.joint_order)) {
    return lack_of("joint_order");
  }
  return {};
}

std::string missing_ability(const SamplerDescription& sampler, const Request& request) {
  return lack_for(sampler, request).reason;
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
