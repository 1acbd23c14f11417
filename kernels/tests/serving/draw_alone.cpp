// A request's next token comes from the integer model of its processed row. The model does not
// depend on batches, nor on the kernels except for the random word.
#include "common/proposals.h"
#include "reference/processing_model.h"
#include "tests/serving/batch_model.h"

namespace fairdraw::suites::batches {

ModelToken draw_alone(const RequestSnapshot& of, const std::vector<float>& logits,
                      const BatchStateOptions& options) {
  const BatchRequest& request = of.request;
  reference::RowProcessing processing;
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) processing.name = request.name;
#include "fairdraw/processing_parameters.inc"
  if (request.repetition_of_prompt) processing.prompt = request.prompt;
  processing.output = of.output;
  processing.output_length = static_cast<std::int32_t>(of.output.size());
  for (const TokenBias& entry : request.bias) {
    processing.biases.push_back({entry.token, entry.bias});
  }
  processing.stop_ids = request.stop_ids;
  for (const std::vector<std::int32_t>& word : request.bad_words) {
    processing.bad_words.insert(processing.bad_words.end(), word.begin(), word.end());
    processing.bad_word_lengths.push_back(static_cast<std::int32_t>(word.size()));
  }
  processing.allowed_ids = request.allowed_ids;
  processing.forced_tokens = request.forced_tokens;
  processing.dry_breakers = request.dry_breakers;

  const reference::IntegerRow row =
      reference::integer_model(logits, of.allowed, processing,
                               {request.temperature, request.top_k, request.top_p, request.min_p},
                               options.tie_rule, options.filter_order);
  const std::uint64_t offset = request.first_offset + of.output.size();
  const DrawWords words{request.seed, offset, Purpose::draw, 0};
  return {row.status,
          row.token_by_attempts([&](std::uint32_t attempt) { return words.of_attempt(attempt); })};
}

}  // namespace fairdraw::suites::batches
