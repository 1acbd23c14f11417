// A call of one row with nothing of a batch in it: scalars, lists made for the call, an offset that
// is counted.
#include <numeric>

#include "suites/batches/batch_model.h"

namespace fairdraw::suites::batches {
namespace {

/// One list, as a call of one row takes it.
struct OneList {
  std::vector<std::int32_t> values;
  std::int64_t begin = 0;
  std::int32_t length = 0;

  explicit OneList(const std::vector<std::int32_t>& list)
      : values(list), length(static_cast<std::int32_t>(list.size())) {
    values.push_back(-7);  // no token: whoever reads it fails, and an empty list has a pointer
  }
  TokenLists view() const {
    return {values.data(), static_cast<std::int64_t>(values.size()), {&begin, 1}, {&length, 1}};
  }
};

struct RequestLists {
  OneList prompt, output, stop_ids, allowed_ids, bias_ids, bad_words, bad_word_lengths;
  std::vector<float> bias_values;

  explicit RequestLists(const RequestSnapshot& of)
      : prompt(of.request.prompt),
        output(of.output),
        stop_ids(of.request.stop_ids),
        allowed_ids(of.request.allowed_ids),
        bias_ids(ids_of(of.request.bias)),
        bad_words(joined(of.request.bad_words)),
        bad_word_lengths(lengths_of(of.request.bad_words)) {
    for (const TokenBias& entry : of.request.bias) bias_values.push_back(entry.bias);
    bias_values.push_back(0);  // beside the list's last element
  }

 private:
  static std::vector<std::int32_t> ids_of(const std::vector<TokenBias>& bias) {
    std::vector<std::int32_t> ids;
    for (const TokenBias& entry : bias) ids.push_back(entry.token);
    return ids;
  }
  static std::vector<std::int32_t> joined(const std::vector<std::vector<std::int32_t>>& words) {
    std::vector<std::int32_t> tokens;
    for (const auto& word : words) tokens.insert(tokens.end(), word.begin(), word.end());
    return tokens;
  }
  static std::vector<std::int32_t> lengths_of(const std::vector<std::vector<std::int32_t>>& words) {
    std::vector<std::int32_t> lengths;
    for (const auto& word : words) lengths.push_back(static_cast<std::int32_t>(word.size()));
    return lengths;
  }
};

}  // namespace

Drawn draw_alone(const RequestSnapshot& of, const std::vector<float>& logits) {
  const BatchRequest& r = of.request;
  const RequestLists lists(of);
  const auto vocab = static_cast<std::int64_t>(logits.size());
  SampleRequest call;
  call.logits = {logits.data(), DType::float32, 1, vocab, vocab};
  call.temperature = r.temperature;
  call.top_k = r.top_k;
  call.top_p = r.top_p;
  call.min_p = r.min_p;
  call.seed = {&r.seed, 1};  // an array: index 0 of the counter
  call.offset = r.first_offset + of.output.size();
  if (!of.allowed.empty()) {
    call.allowed = {of.allowed.data(), 1, static_cast<std::int64_t>(of.allowed.size())};
  }
  LogitsProcessing& processing = call.processing;
  processing.repetition_penalty = r.repetition_penalty;
  processing.frequency_penalty = r.frequency_penalty;
  processing.presence_penalty = r.presence_penalty;
  processing.prompt = lists.prompt.view();
  processing.output = lists.output.view();
  processing.bias_ids = lists.bias_ids.view();
  processing.bias_values = {lists.bias_values.data(),
                            static_cast<std::int64_t>(lists.bias_values.size())};
  processing.min_tokens = r.min_tokens;
  processing.stop_ids = lists.stop_ids.view();
  processing.bad_words = lists.bad_words.view();
  processing.bad_word_lengths = lists.bad_word_lengths.view();
  processing.allowed_ids = lists.allowed_ids.view();

  Drawn drawn;
  SampleResult result;
  result.tokens = {&drawn.token, 1};
  result.statuses = {&drawn.status, 1};
  Execution scalar_code;
  scalar_code.target = CpuTarget::scalar;
  scalar_code.threads = 1;
  if (sample(call, result, scalar_code)) return {};
  return drawn;
}

}  // namespace fairdraw::suites::batches
