#include "harness/adapters/kept_batch.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "harness/adapters/sample_view.h"
#include "reference/processing_model.h"

namespace fairdraw::harness {
namespace {

// Maximum number of tokens of a request, prompt and output together.
constexpr std::int32_t kMaxTokens = 8192;

BatchRequest request_of(const fairdraw_event& event, std::int64_t row,
                        const reference::RowProcessing& processing) {
  BatchRequest request;
  request.temperature = event.temperature[row];
  request.top_k = event.top_k[row];
  request.top_p = event.top_p[row];
  request.min_p = event.min_p[row];
  request.seed = event.seed[row];
  request.first_offset = event.offset[row] - processing.output.size();
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) request.name = processing.name;
#include "fairdraw/processing_parameters.inc"
  request.stop_ids = processing.stop_ids;
  for (const auto& [id, value] : processing.biases) request.bias.push_back({id, value});
  auto word = processing.bad_words.begin();
  for (const std::int32_t length : processing.bad_word_lengths) {
    request.bad_words.emplace_back(word, word + length);
    word += length;
  }
  request.allowed_ids = processing.allowed_ids;
  request.forced_tokens = processing.forced_tokens;
  request.dry_breakers = processing.dry_breakers;
  request.prompt = processing.prompt;
  return request;
}

}  // namespace

RequestSnapshot snapshot_of(const fairdraw_event& event, std::int64_t row, RequestId id) {
  const LogitsProcessing given = processing_of(event.processing, event.rows, event.vocab);
  reference::RowProcessing processing;
  if (given.given()) {
    processing = reference::processing_of_row(given, row, static_cast<std::size_t>(event.vocab));
  }
  return {id, request_of(event, row, processing), processing.output, {}};
}

Error KeptBatch::begin(const fairdraw_event& event, const Execution& execution) {
  BatchStateOptions options;
  options.vocab = event.vocab;
  options.capacity = static_cast<std::int32_t>(event.slots);
  options.max_length = kMaxTokens;
  options.tie_rule = static_cast<TieRule>(event.tie_rule);
  options.filter_order = static_cast<FilterOrder>(event.filter_order);
  processor_.reset();
  if (Error error = BatchState::make(options, state_)) return error;
  processor_ = std::make_unique<FusedSamplingProcessor>(*state_, execution);
  return {};
}

Error KeptBatch::take(const fairdraw_event& event) {
  const RequestSnapshot snapshot = snapshot_of(event, 0, ++last_);
  if (event.kind == FAIRDRAW_EVENT_RESTORE) return state_->restore(snapshot, event.slot[0]);
  return state_->add(snapshot.id, snapshot.request, event.slot[0]);
}

Error KeptBatch::step(const fairdraw_event& event) {
  return sample_ ? step_by_call(event) : step_processor(event);
}

/// Makes a step by one call of the sampler, whose row i is slot i.
Error KeptBatch::step_by_call(const fairdraw_event& event) {
  const auto slots = static_cast<std::size_t>(event.slots);
  const auto words = static_cast<std::size_t>(words_for(event.vocab));
  const auto row_bytes = static_cast<std::size_t>(event.vocab * element_bytes(event.dtype));
  std::vector<std::byte> logits(slots * row_bytes);
  std::vector<std::uint32_t> allowed(slots * words, ~0U);
  std::vector<std::uint8_t> active(slots, 0);
  for (std::int64_t row = 0; row < event.rows; ++row) {
    const auto slot = static_cast<std::size_t>(event.slot[row]);
    const auto at = static_cast<std::size_t>(row);
    std::memcpy(logits.data() + slot * row_bytes,
                static_cast<const std::byte*>(event.logits) + at * row_bytes, row_bytes);
    active[slot] = 1;
    if (event.allowed == nullptr) continue;
    std::memcpy(allowed.data() + slot * words, event.allowed + at * words, words * 4);
  }
  if (event.allowed == nullptr) {
    state_->clear_allowed();
  } else if (Error error = state_->set_allowed(
                 {allowed.data(), event.slots, static_cast<std::int64_t>(words)})) {
    return error;
  }
  SampleRequest request;
  const RowsView rows{logits.data(), static_cast<DType>(event.dtype), event.slots, event.vocab,
                      event.vocab};
  if (Error error = state_->sample_request(rows, request)) return error;
  request.active = {active.data(), event.slots};
  std::vector<std::int32_t> tokens(slots, -1);
  std::vector<RowStatus> statuses(slots, RowStatus::inactive);
  SampleResult result;
  result.tokens = {tokens.data(), event.slots};
  result.statuses = {statuses.data(), event.slots};
  if (Error error = sample_(request, result)) return error;
  if (Error error = state_->append_step({tokens.data(), event.slots})) return error;
  for (std::int64_t row = 0; row < event.rows; ++row) {
    const auto slot = static_cast<std::size_t>(event.slot[row]);
    event.tokens[row] = tokens[slot];
    if (event.statuses != nullptr) {
      event.statuses[row] = static_cast<std::int32_t>(statuses[slot]);
    }
  }
  return {};
}

/// Makes a step with the processor, which takes rows in the order of slots.
Error KeptBatch::step_processor(const fairdraw_event& event) {
  const auto slots = static_cast<std::size_t>(event.slots);
  const auto words = static_cast<std::size_t>(words_for(event.vocab));
  const auto row_bytes = static_cast<std::size_t>(event.vocab * element_bytes(event.dtype));
  constexpr std::int64_t kNone = -1;
  std::vector<std::int64_t> row_of(slots, kNone);
  for (std::int64_t row = 0; row < event.rows; ++row) {
    row_of[static_cast<std::size_t>(event.slot[row])] = row;
  }
  std::vector<std::byte> logits;
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::uint32_t> allowed(slots * words, ~0U);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const std::int64_t row = row_of[slot];
    offsets.push_back(offsets.back() + (row == kNone ? 0 : 1));
    if (row == kNone) continue;
    const auto at = static_cast<std::size_t>(row);
    const auto* const first = static_cast<const std::byte*>(event.logits) + at * row_bytes;
    logits.insert(logits.end(), first, first + row_bytes);
    if (event.allowed == nullptr) continue;
    std::memcpy(allowed.data() + slot * words, event.allowed + at * words, words * 4);
  }
  if (event.allowed == nullptr) {
    processor_->clear_bitmask();
  } else if (Error error = processor_->update_bitmask(
                 {allowed.data(), event.slots, static_cast<std::int64_t>(words)})) {
    return error;
  }
  const RowsView rows{logits.data(), static_cast<DType>(event.dtype), event.rows, event.vocab,
                      event.vocab};
  if (Error error = processor_->step(
          rows, View<const std::int64_t>(offsets.data(), static_cast<std::int64_t>(slots + 1)))) {
    return error;
  }
  for (std::int64_t row = 0; row < event.rows; ++row) {
    const std::int32_t slot = event.slot[row];
    event.tokens[row] = processor_->new_tokens().data[slot];
    if (event.statuses != nullptr) {
      event.statuses[row] = static_cast<std::int32_t>(processor_->statuses().data[slot]);
    }
  }
  return {};
}

std::string KeptBatch::run(const fairdraw_event& event, const Execution& execution) {
  if (event.kind != FAIRDRAW_EVENT_BEGIN && state_ == nullptr) return "no batch has begun";
  Error error;
  switch (event.kind) {
    case FAIRDRAW_EVENT_BEGIN:
      error = begin(event, execution);
      break;
    case FAIRDRAW_EVENT_ADD:
    case FAIRDRAW_EVENT_RESTORE:
      error = take(event);
      break;
    case FAIRDRAW_EVENT_STEP:
      error = step(event);
      break;
    default:  // the request was evicted or finished; a restored request brings its whole state
      error = state_->remove(state_->id_at(event.slot[0]));
  }
  return error ? error.message : std::string();
}

}  // namespace fairdraw::harness
