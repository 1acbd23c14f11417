#include "suites/gate/fuzz/fuzz_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "harness/run/checks/check.h"

namespace fairdraw::suites::fuzz {

using harness::Request;
using harness::words_for;

namespace {

template <class T>
void append_slice(std::vector<T>& target, const std::vector<T>& source, std::int64_t index,
                  std::int64_t width) {
  if (source.empty()) return;
  const auto first = source.begin() + index * width;
  target.insert(target.end(), first, first + width);
}

// The request without anything that belongs to a row or an output.
Request without_contents(const Request& request) {
  Request copy;
  copy.input = request.input;
  copy.dtype = request.dtype;
  copy.vocab = request.vocab;
  copy.row_stride = request.row_stride;
  copy.misalignment = request.misalignment;
  copy.history_form = request.history_form;
  copy.tie_rule = request.tie_rule;
  copy.filter_order = request.filter_order;
  copy.with_indices = request.with_indices;
  copy.seed_is_scalar = request.seed_is_scalar;
  copy.num_samples = request.num_samples;
  if (request.seed_is_scalar) {
    copy.seed = request.seed;
    copy.offset = request.offset;
  }
  return copy;
}

void append_row(Request& target, const Request& source, std::int64_t row) {
  ++target.rows;
  append_slice(target.logits, source.logits, row, source.vocab);
  append_slice(target.parameters, source.parameters, row, 1);
  append_slice(target.allowed, source.allowed, row, words_for(source.vocab));
  append_slice(target.processing, source.processing, row, 1);
  append_slice(target.active, source.active, row, 1);
}

void append_output(Request& target, const Request& source, std::int64_t output) {
  append_slice(target.words, source.words, output, source.num_samples);
  if (source.seed_is_scalar) return;
  append_slice(target.seed, source.seed, output, 1);
  append_slice(target.offset, source.offset, output, 1);
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
  if (!request.allowed.empty() && !sampler.allowed_mask) return "takes no mask of allowed ids";
  if (!request.active.empty() && !sampler.active_rows) return "takes no inactive rows";
  if (request.dtype == DType::float16 && !sampler.float16) return "takes no float16";
  if (request.dtype == DType::bfloat16 && !sampler.bfloat16) return "takes no bfloat16";
  if (request.tie_rule == TieRule::lowest_id && !sampler.lowest_id_ties) {
    return "has no tie rule lowest_id";
  }
  if (request.filter_order == FilterOrder::joint && !sampler.joint_order) {
    return "has no joint filter order";
  }
  return {};
}

}  // namespace

std::string missing_ability(const harness::SamplerDescription& sampler, const FuzzCase& fuzz_case) {
  if (fuzz_case.kind == CaseKind::speculation) {
    return missing_ability(sampler, fuzz_case.speculation);
  }
  if (fuzz_case.kind != CaseKind::chain) {
    return harness::missing_ability(sampler, fuzz_case.request);
  }
  if (!sampler.chains) return "verifies no drafted chains";
  if (!fuzz_case.chain.bonus_words.empty() && !sampler.scripted_words) {
    return "takes no random words";
  }
  return {};
}

Request with_rows(const Request& request, std::span<const std::int64_t> rows) {
  Request copy = without_contents(request);
  for (const std::int64_t row : rows) append_row(copy, request, row);
  if (!request.with_indices) {
    for (const std::int64_t row : rows) append_output(copy, request, row);
    return copy;
  }
  for (std::int64_t output = 0; output < request.outputs(); ++output) {
    const std::int64_t row = request.row_of(output);
    const bool out_of_range = row < 0 || row >= request.rows;
    std::int64_t place = 0;
    while (place < copy.rows && rows[static_cast<std::size_t>(place)] != row) ++place;
    if (!out_of_range && place == copy.rows) continue;
    copy.indices.push_back(
        static_cast<std::int32_t>(out_of_range ? (row < 0 ? row : row + copy.rows) : place));
    append_output(copy, request, output);
  }
  return copy;
}

Request one_output(const Request& request, std::int64_t output) {
  Request copy = without_contents(request);
  copy.with_indices = false;
  append_row(copy, request, request.row_of(output));
  append_output(copy, request, output);
  return copy;
}

Request with_outputs(const Request& request, std::span<const std::int64_t> outputs) {
  Request copy = request;
  copy.indices.clear();
  copy.words.clear();
  if (!request.seed_is_scalar) {
    copy.seed.clear();
    copy.offset.clear();
  }
  for (const std::int64_t output : outputs) {
    append_slice(copy.indices, request.indices, output, 1);
    append_output(copy, request, output);
  }
  return copy;
}

reference::RowProcessing with_tokens(const reference::RowProcessing& row,
                                     std::span<const std::int64_t> ids, std::int64_t vocab) {
  std::map<std::int64_t, std::int32_t> moved;
  for (std::size_t i = 0; i < ids.size(); ++i) moved[ids[i]] = static_cast<std::int32_t>(i);
  const auto is_token = [vocab](std::int32_t id) { return id >= 0 && id < vocab; };
  const auto kept = [&](std::int32_t id) { return !is_token(id) || moved.contains(id); };
  const auto place = [&](std::int32_t id) {
    if (is_token(id)) return moved.at(id);
    return id < 0 ? id : static_cast<std::int32_t>(ids.size());  // outside still
  };
  reference::RowProcessing copy = row;
  for (auto* const list : {&copy.prompt, &copy.output, &copy.stop_ids, &copy.allowed_ids}) {
    const bool had_some = !list->empty();
    std::erase_if(*list, [&](std::int32_t id) { return !kept(id); });
    std::ranges::transform(*list, list->begin(), place);
    // None allowed at all would mean that all are.
    if (list == &copy.allowed_ids && had_some && list->empty()) list->push_back(0);
  }
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

Request with_tokens(const Request& request, std::span<const std::int64_t> ids) {
  Request copy = request;
  const auto vocab = static_cast<std::int64_t>(ids.size());
  copy.vocab = vocab;
  for (reference::RowProcessing& row : copy.processing) {
    row = with_tokens(row, ids, request.vocab);
  }
  if (request.row_stride != 0) copy.row_stride = request.row_stride - request.vocab + vocab;
  copy.allowed = with_tokens(request.allowed, ids, request.vocab);
  copy.logits.clear();
  for (std::int64_t row = 0; row < request.rows; ++row) {
    for (const std::int64_t id : ids) copy.logits.push_back(request.row(row)[id]);
  }
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
