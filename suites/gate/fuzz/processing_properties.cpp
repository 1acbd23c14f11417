// Properties of logits processing: a call with processing is compared with equivalent calls without
// it, or with processing in another form. (The properties of the oracles judge the processing steps
// themselves.)
#include <algorithm>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/check.h"
#include "suites/gate/fuzz/property_lists.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::Request;
using reference::RowProcessing;

// Adds processing that must not change the answer: penalties of 1 and 0, a history, and stop ids
// without a minimum length.
Judgement neutral(Subject& subject) {
  const Request& request = subject.request();
  if (!subject.description().processing || !request.processing.empty() ||
      request.input != harness::RowInput::logits) {
    return not_applicable("has processing, or cannot have it");
  }
  Request changed = request;
  for (std::int64_t row = 0; row < request.rows; ++row) {
    const auto any = static_cast<std::int32_t>(
        harness::mixed(subject.fuzz_case().salt, static_cast<std::uint64_t>(row)) %
        static_cast<std::uint64_t>(request.vocab));
    RowProcessing processing;
    processing.prompt = {any, -1, 0};
    processing.output = {any};
    processing.output_length = 1;
    processing.stop_ids = {any};
    changed.processing.push_back(processing);
  }
  return expect_same(subject, "neutral processing", changed);
}

// Processes the row with the reference beforehand, and gives the sampler the processed logits.
Judgement beforehand(Subject& subject) {
  const Request& request = subject.request();
  if (request.processing.empty()) return not_applicable("has no processing");
  Request changed = request;
  changed.dtype = DType::float32;
  changed.processing.clear();
  changed.allowed.clear();
  for (std::int64_t row = 0; row < request.rows; ++row) {
    const reference::ProcessedRow processed = harness::processed_row(request, row);
    if (processed.status != RowStatus::ok && processed.status != RowStatus::no_allowed_token) {
      return not_applicable("a row fails by its processing");
    }
    std::copy(processed.logits.begin(), processed.logits.end(),
              changed.logits.begin() + static_cast<std::ptrdiff_t>(row * request.vocab));
    changed.parameters[static_cast<std::size_t>(row)] = harness::parameters_now(request, row);
  }
  return expect_same(subject, "rows processed beforehand", changed);
}

bool has_history_rule(const Request& request) {
  return std::ranges::any_of(request.processing, reference::has_history_rule);
}

Judgement forms(Subject& subject) {
  const Request& request = subject.request();
  if (request.processing.empty()) return not_applicable("has no processing");
  if (!has_tokens_alone(request)) return not_applicable("masks and counts have tokens alone");
  if (has_history_rule(request)) return not_applicable("rules of histories need lists");
  Request changed = request;
  changed.history_form.prompt_mask = !request.history_form.prompt_mask;
  changed.history_form.output_counts = !request.history_form.output_counts;
  return expect_same(subject, "histories as masks and counts", changed);
}

// Reorders and repeats lists whose order has no meaning: prompt, stop ids, allowed ids.
Judgement lists(Subject& subject) {
  const Request& request = subject.request();
  if (request.processing.empty()) return not_applicable("has no processing");
  if (has_history_rule(request)) return not_applicable("order has a meaning");
  Request changed = request;
  for (RowProcessing& row : changed.processing) {
    for (auto* const list : {&row.prompt, &row.stop_ids, &row.allowed_ids}) {
      const std::vector<std::int32_t> once = *list;
      list->insert(list->end(), once.rbegin(), once.rend());
    }
  }
  return expect_same(subject, "lists with every id twice", changed);
}

}  // namespace

bool has_tokens_alone(const Request& request) {
  const auto is_token = [&request](std::int32_t id) { return id >= 0 && id < request.vocab; };
  const auto may_be_in_a_history = [&](std::int32_t id) { return id == -1 || is_token(id); };
  return std::ranges::all_of(request.processing, [&](const RowProcessing& row) {
    return std::ranges::all_of(row.prompt, may_be_in_a_history) &&
           std::ranges::all_of(row.output, may_be_in_a_history) &&
           std::ranges::all_of(row.stop_ids, is_token) &&
           std::ranges::all_of(row.allowed_ids, is_token) &&
           std::ranges::all_of(row.bad_words, is_token) &&
           std::ranges::all_of(row.biases, [&](const auto& bias) { return is_token(bias.id); });
  });
}

std::vector<Property> processing_properties() {
  return {
      {"processing.neutral", "neutral processing changes nothing", CaseKind::batch, 1, neutral},
      {"processing.beforehand", "a row that was processed beforehand gives the same answer",
       CaseKind::batch, 1, beforehand},
      {"processing.forms", "histories as lists, or as masks and counts, are one history",
       CaseKind::batch, 1, forms},
      {"processing.lists", "order and repetitions of ids change nothing where they mean nothing",
       CaseKind::batch, 1, lists},
  };
}

}  // namespace fairdraw::suites::fuzz
