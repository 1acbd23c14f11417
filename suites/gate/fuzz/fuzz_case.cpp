#include "suites/gate/fuzz/fuzz_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "harness/run/checks/check.h"

namespace fairdraw::suites::fuzz {

using harness::ChainRequest;
using harness::Request;
using harness::words_for;

namespace {

void pick_rows(Request& request, std::span<const std::int64_t> rows) {
  keep_slices(request.logits, rows, request.vocab);
  keep_slices(request.parameters, rows, 1);
  keep_slices(request.allowed, rows, words_for(request.vocab));
  keep_slices(request.processing, rows, 1);
  keep_slices(request.active, rows, 1);
  request.rows = static_cast<std::int64_t>(rows.size());
}

void pick_outputs(Request& request, std::span<const std::int64_t> outputs) {
  keep_slices(request.words, outputs, request.num_samples);
  if (request.seed_is_scalar) return;
  keep_slices(request.seed, outputs, 1);
  keep_slices(request.offset, outputs, 1);
}

}  // namespace

const char* to_string(CaseKind kind) {
  switch (kind) {
    case CaseKind::batch:
      return "batch";
    case CaseKind::chain:
      return "chain";
    case CaseKind::distribution:
      return "law";
    case CaseKind::speculation:
      return "verification";
  }
  return "unknown";
}

std::int64_t vocab_of(const FuzzCase& fuzz_case) {
  if (fuzz_case.kind == CaseKind::speculation) return fuzz_case.speculation.vocab;
  return fuzz_case.kind == CaseKind::chain ? fuzz_case.chain.vocab : fuzz_case.request.vocab;
}

std::int64_t rows_of(const FuzzCase& fuzz_case) {
  if (fuzz_case.kind == CaseKind::speculation) return fuzz_case.speculation.rows();
  if (fuzz_case.kind != CaseKind::chain) return fuzz_case.request.rows;
  return fuzz_case.chain.batch * (2 * fuzz_case.chain.num_draft_tokens + 1);
}

namespace {

std::string missing_ability(const harness::SamplerDescription& sampler,
                            const harness::SpeculationRequest& request) {
  if (!sampler.speculation) return "verifies no requests with drafts";
  if (request.trees && !sampler.draft_trees) return "verifies no trees";
  if (!request.processing.empty() && !sampler.speculation_processing) {
    return "verifies without logits processing";
  }
  Request common;  // the fields that a speculation request and a call have in common
  common.dtype = request.dtype;
  common.allowed = request.allowed;
  common.active = request.active;
  common.tie_rule = request.tie_rule;
  common.filter_order = request.filter_order;
  return harness::missing_ability(sampler, common);
}

}  // namespace

std::string missing_ability(const harness::SamplerDescription& sampler, const FuzzCase& fuzz_case) {
  if (fuzz_case.kind == CaseKind::speculation) {
    return missing_ability(sampler, fuzz_case.speculation);
  }
  if (fuzz_case.kind != CaseKind::chain) {
    if (!fuzz_case.request.processing.empty() && !sampler.processing_buffers) {
      return "takes processing as lists, which cannot be faulty";
    }
    return harness::missing_ability(sampler, fuzz_case.request);
  }
  if (!sampler.chains) return "verifies no drafted chains";
  if (!fuzz_case.chain.bonus_words.empty() && !sampler.scripted_words) {
    return "takes no random words";
  }
  return {};
}

Request with_rows(const Request& request, std::span<const std::int64_t> rows) {
  Request copy = request;
  pick_rows(copy, rows);
  std::vector<std::int64_t> outputs;
  copy.indices.clear();
  for (std::int64_t output = 0; request.with_indices && output < request.outputs(); ++output) {
    const std::int64_t row = request.row_of(output);
    const bool out_of_range = row < 0 || row >= request.rows;
    const auto place = std::ranges::find(rows, row) - rows.begin();
    if (!out_of_range && place == copy.rows) continue;
    copy.indices.push_back(
        static_cast<std::int32_t>(out_of_range ? (row < 0 ? row : row + copy.rows) : place));
    outputs.push_back(output);
  }
  pick_outputs(copy, request.with_indices ? outputs : rows);
  return copy;
}

Request one_output(const Request& request, std::int64_t output) {
  const std::int64_t row[] = {request.row_of(output)}, only[] = {output};
  Request copy = request;
  pick_rows(copy, row);
  pick_outputs(copy, only);
  copy.with_indices = false;
  copy.indices.clear();
  return copy;
}

Request with_outputs(const Request& request, std::span<const std::int64_t> outputs) {
  Request copy = request;
  keep_slices(copy.indices, outputs, 1);
  pick_outputs(copy, outputs);
  return copy;
}

ChainRequest with_chains(const ChainRequest& request, std::span<const std::int64_t> chains,
                         std::span<const std::int64_t> positions) {
  ChainRequest chain = request;
  const std::int64_t n = chain.num_draft_tokens;
  std::vector<std::int64_t> drafted, rows;
  for (const std::int64_t b : chains) {
    for (const std::int64_t i : positions) {
      drafted.push_back(b * n + i);
      rows.push_back(b * (n + 1) + i);
    }
    rows.push_back(b * (n + 1) + n);
  }
  keep_slices(chain.draft_probs, drafted, chain.vocab);
  keep_slices(chain.target_probs, rows, chain.vocab);
  keep_slices(chain.draft_tokens, drafted, 1);
  keep_slices(chain.accept_words, drafted, 1);
  keep_slices(chain.recover_words, drafted, 1);
  keep_slices(chain.bonus_words, chains, 1);
  if (!chain.seed_is_scalar) {
    keep_slices(chain.seed, chains, 1);
    keep_slices(chain.offset, chains, 1);
  }
  chain.batch = static_cast<std::int64_t>(chains.size());
  chain.num_draft_tokens = static_cast<std::int64_t>(positions.size());
  return chain;
}

reference::RowProcessing with_tokens(const reference::RowProcessing& row,
                                     std::span<const std::int64_t> ids, std::int64_t vocab) {
  std::map<std::int64_t, std::int32_t> moved;
  for (std::size_t i = 0; i < ids.size(); ++i) moved[ids[i]] = static_cast<std::int32_t>(i);
  const auto is_token = [vocab](std::int32_t id) { return id >= 0 && id < vocab; };
  const auto kept = [&](std::int32_t id) { return !is_token(id) || moved.contains(id); };
  const auto place = [&](std::int32_t id) {
    if (is_token(id)) return moved.at(id);
    return id < 0 ? id : static_cast<std::int32_t>(ids.size());  // stays outside
  };
  reference::RowProcessing copy = row;
  for (auto* const list : {&copy.prompt, &copy.output, &copy.stop_ids, &copy.allowed_ids,
                           &copy.forced_tokens, &copy.dry_breakers}) {
    const bool had_some = !list->empty();
    std::erase_if(*list, [&](std::int32_t id) { return !kept(id); });
    std::ranges::transform(*list, list->begin(), place);
    // An empty list would allow all ids, so one id stays in the list.
    if (list == &copy.allowed_ids && had_some && list->empty()) list->push_back(0);
  }
  copy.forced_after = kept(copy.forced_after) ? place(copy.forced_after) : -1;
  copy.top_p_reset_id = kept(copy.top_p_reset_id) ? place(copy.top_p_reset_id) : -1;
  std::erase_if(copy.biases, [&](const auto& bias) { return !kept(bias.id); });
  for (auto& bias : copy.biases) bias.id = place(bias.id);
  copy.bad_words.clear();
  copy.bad_word_lengths.clear();
  std::size_t begin = 0;
  for (const std::int32_t length : row.bad_word_lengths) {
    const std::size_t end = begin + static_cast<std::size_t>(std::max(length, 0));
    const auto word =
        std::span(row.bad_words)
            .subspan(std::min(begin, row.bad_words.size()))
            .first(std::min(end, row.bad_words.size()) - std::min(begin, row.bad_words.size()));
    begin = end;
    if (!std::ranges::all_of(word, kept)) continue;
    std::ranges::transform(word, std::back_inserter(copy.bad_words), place);
    copy.bad_word_lengths.push_back(length);
  }
  return copy;
}

std::vector<std::uint32_t> with_tokens(const std::vector<std::uint32_t>& allowed,
                                       std::span<const std::int64_t> ids, std::int64_t vocab) {
  const auto from_width = static_cast<std::size_t>(words_for(vocab));
  const auto to_width = static_cast<std::size_t>(words_for(static_cast<std::int64_t>(ids.size())));
  const std::size_t rows = allowed.size() / from_width;
  std::vector<std::uint32_t> moved(rows * to_width, 0);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t id = 0; id < ids.size(); ++id) {
      const auto from = static_cast<std::size_t>(ids[id]);
      const std::uint32_t bit = (allowed[row * from_width + from / 32] >> (from % 32)) & 1U;
      moved[row * to_width + id / 32] |= bit << (id % 32);
    }
  }
  return moved;
}

void keep_columns(std::vector<float>& rows, std::span<const std::int64_t> ids, std::int64_t vocab) {
  std::vector<std::int64_t> places;
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(rows.size()) / vocab; ++row) {
    for (const std::int64_t id : ids) places.push_back(row * vocab + id);
  }
  keep_slices(rows, places, 1);
}

Request with_tokens(const Request& request, std::span<const std::int64_t> ids) {
  Request copy = request;
  const auto vocab = static_cast<std::int64_t>(ids.size());
  copy.vocab = vocab;
  for (reference::RowProcessing& row : copy.processing) {
    row = with_tokens(row, ids, request.vocab);
  }
  if (request.row_stride != 0) copy.row_stride = request.row_stride - request.vocab + vocab;
  copy.allowed = with_tokens(request.allowed, ids, request.vocab);
  keep_columns(copy.logits, ids, request.vocab);
  return copy;
}

std::string describe(const FuzzCase& fuzz_case) {
  if (fuzz_case.kind == CaseKind::speculation) {
    const harness::SpeculationRequest& request = fuzz_case.speculation;
    constexpr const char* kDistributions[] = {"of unknown distribution", "with probabilities",
                                              "with logits"};
    std::string text = fmt::format("{} requests of {} rows, {} {}, vocab {} {}", request.batch,
                                   request.rows(), request.trees ? "trees" : "chains",
                                   kDistributions[static_cast<std::size_t>(request.draft_law)],
                                   request.vocab, to_string(request.dtype));
    if (!request.processing.empty()) text += ", processing";
    if (!request.allowed.empty()) text += ", allowed ids";
    if (!request.parameters.empty()) {
      text += "; request 0: " + harness::describe(request.parameters.front());
    }
    return text;
  }
  if (fuzz_case.kind == CaseKind::chain) {
    const harness::ChainRequest& chain = fuzz_case.chain;
    return fmt::format("{} chains of {} drafted tokens, vocab {}", chain.batch,
                       chain.num_draft_tokens, chain.vocab);
  }
  const Request& request = fuzz_case.request;
  std::string text =
      fmt::format("{} rows of {} {}{}", request.rows, request.vocab, to_string(request.dtype),
                  request.input == harness::RowInput::probabilities ? " probs" : "");
  if (fuzz_case.kind == CaseKind::distribution) text += fmt::format(", {} draws", fuzz_case.draws);
  if (request.with_indices) text += fmt::format(", {} indices", request.indices.size());
  if (request.num_samples != 1) text += fmt::format(", {} samples", request.num_samples);
  if (!request.allowed.empty()) text += ", allowed ids";
  if (!request.processing.empty()) text += ", processing";
  if (!request.active.empty()) text += ", active rows";
  if (request.tie_rule == TieRule::lowest_id) text += ", lowest_id";
  if (request.filter_order == FilterOrder::joint) text += ", joint";
  if (!request.parameters.empty()) {
    text += "; row 0: " + harness::describe(request.parameters.front());
  }
  return text;
}

}  // namespace fairdraw::suites::fuzz
