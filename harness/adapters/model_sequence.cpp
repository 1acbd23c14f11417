// Implements the events of a running batch for the sampler `model`, which keeps the requests. A
// step is one call with the rows of all requests of the step.
#include <fmt/format.h>

#include "harness/adapters/decode.h"
#include "harness/adapters/sample_view.h"
#include "harness/adapters/serving_model.h"
#include "harness/run/calls/request.h"

namespace fairdraw::harness {

std::string ServingModel::run_event(const fairdraw_event& event) {
  if (event.kind == FAIRDRAW_EVENT_BEGIN) {
    kept_.assign(static_cast<std::size_t>(event.slots), std::nullopt);
    return {};
  }
  if (kept_.empty()) return "no batch has begun";
  for (std::int64_t row = 0; row < event.rows; ++row) {
    const std::int32_t slot = event.slot[row];
    if (slot < 0 || static_cast<std::size_t>(slot) >= kept_.size()) {
      return fmt::format("slot is {}; allowed: 0 to {}", slot, kept_.size() - 1);
    }
    const bool takes = event.kind == FAIRDRAW_EVENT_ADD || event.kind == FAIRDRAW_EVENT_RESTORE;
    std::optional<KeptRequest>& kept = kept_[static_cast<std::size_t>(slot)];
    if (kept.has_value() == takes)
      return fmt::format("slot {} is {}", slot, takes ? "taken" : "free");
    if (event.kind == FAIRDRAW_EVENT_STEP) continue;
    if (!takes) {
      kept.reset();
      continue;
    }
    kept = KeptRequest{.parameters = {event.temperature[row], event.top_k[row], event.top_p[row],
                                      event.min_p[row]},
                       .seed = event.seed[row],
                       .offset = event.offset[row],
                       .processing = {}};
    const LogitsProcessing processing = processing_of(event.processing, event.rows, event.vocab);
    if (processing.given()) {
      kept->processing =
          reference::processing_of_row(processing, row, static_cast<std::size_t>(event.vocab));
    }
  }
  return event.kind == FAIRDRAW_EVENT_STEP ? step(event) : std::string();
}

std::string ServingModel::step(const fairdraw_event& event) {
  Request request;
  request.dtype = static_cast<DType>(event.dtype);
  request.rows = event.rows;
  request.vocab = event.vocab;
  request.tie_rule = static_cast<TieRule>(event.tie_rule);
  request.filter_order = static_cast<FilterOrder>(event.filter_order);
  for (std::int64_t at = 0; at < event.rows * event.vocab; ++at) {
    request.logits.push_back(decode(event.logits, event.dtype, at));
  }
  if (event.allowed != nullptr) {
    request.allowed.assign(event.allowed, event.allowed + event.rows * words_for(event.vocab));
  }
  bool processed = false;
  for (std::int64_t row = 0; row < event.rows; ++row) {
    const KeptRequest& kept = *kept_[static_cast<std::size_t>(event.slot[row])];
    request.parameters.push_back(kept.parameters);
    request.seed.push_back(kept.seed);
    request.offset.push_back(kept.offset);
    request.processing.push_back(kept.processing.value_or(reference::RowProcessing{}));
    processed = processed || kept.processing.has_value();
  }
  if (!processed) request.processing.clear();
  const Response response = run_request(*this, request, {.statuses = true});
  if (!response.ran()) return response.trouble();
  for (std::size_t row = 0; row < response.tokens.size(); ++row) {
    const std::int32_t token = response.tokens[row];
    event.tokens[row] = token;
    if (event.statuses != nullptr) event.statuses[row] = response.statuses[row];
    if (token < 0) continue;
    KeptRequest& kept = *kept_[static_cast<std::size_t>(event.slot[row])];
    ++kept.offset;
    if (!kept.processing) continue;
    kept.processing->output.push_back(token);
    ++kept.processing->output_length;
  }
  return {};
}

}  // namespace fairdraw::harness
