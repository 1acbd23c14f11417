// Finds differences between the model of a batch and the state under test, in every value that a
// state returns, for every slot.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <numeric>
#include <set>

#include "tests/serving/batch_model.h"

namespace fairdraw::suites::batches {
namespace {

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

using Ids = std::vector<std::int32_t>;

/// Records the first difference, with the name of the value.
class Differences {
 public:
  template <class T>
  void expect(const std::string& what, const T& actual, const T& expected) {
    if (first_.empty() && !(actual == expected)) {
      first_ = fmt::format("{} is {}, not {}", what, actual, expected);
    }
  }
  std::string first() const { return first_; }

 private:
  std::string first_;
};

Ids list_of(const TokenLists& lists, std::int64_t row) {
  const std::int32_t* first = lists.data + lists.begins.data[row];
  return {first, first + lists.lengths.data[row]};
}

bool lies_in_buffer(const TokenLists& lists, std::int64_t row) {
  const std::int64_t begin = lists.begins.data[row];
  return begin >= 0 && lists.lengths.data[row] >= 0 &&
         begin + lists.lengths.data[row] <= lists.size;
}

template <class T>
std::vector<T> values_of(const View<const T>& view) {
  return {view.data, view.data + view.size};
}

std::vector<int> numbers_of(const View<const RowStatus>& view) {
  std::vector<int> numbers;
  for (std::int64_t i = 0; i < view.size; ++i) numbers.push_back(static_cast<int>(view.data[i]));
  return numbers;
}

/// Rebuilds a request from the views that a call has for one row.
RequestSnapshot read_back(const SampleRequest& call, std::int64_t row) {
  const LogitsProcessing& p = call.processing;
  RequestSnapshot read;
  BatchRequest& r = read.request;
  r.temperature = call.temperature.at(row);
  r.top_k = call.top_k.at(row);
  r.top_p = call.top_p.at(row);
  r.min_p = call.min_p.at(row);
  r.seed = call.seed.at(row);
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) r.name = p.name.at(row);
#include "fairdraw/processing_parameters.inc"
  r.stop_ids = list_of(p.stop_ids, row);
  r.allowed_ids = list_of(p.allowed_ids, row);
  if (p.forced_tokens.given()) {  // not with dense histories
    r.forced_tokens = list_of(p.forced_tokens, row);
    r.dry_breakers = list_of(p.dry_breakers, row);
  }
  const Ids biased = list_of(p.bias_ids, row);
  for (std::size_t i = 0; i < biased.size(); ++i) {
    const std::int64_t at = p.bias_ids.begins.data[row] + static_cast<std::int64_t>(i);
    r.bias.push_back({biased[i], p.bias_values.data[at]});
  }
  const Ids tokens = list_of(p.bad_words, row);
  auto word = tokens.begin();
  for (const std::int32_t length : list_of(p.bad_word_lengths, row)) {
    r.bad_words.emplace_back(word, word + length);
    word += length;
  }
  read.output = list_of(p.output, row);
  r.first_offset = call.offset.at(row) - read.output.size();
  return read;
}

/// Returns the prompt in the form that a call with lists has: whole if the request has a rule of
/// histories, and otherwise its distinct tokens if the repetition penalty reads them.
Ids prompt_to_read(const BatchRequest& request) {
  if (!request.repetition_of_prompt) return {};
#define FAIRDRAW_HISTORY_RULE(type, name, neutral) \
  if (request.name != (neutral)) return request.prompt;
#include "fairdraw/processing_parameters.inc"
  std::set<std::int32_t> ids;
  if (request.repetition_penalty != 1.0F) {
    ids.insert(request.prompt.begin(), request.prompt.end());
    ids.erase(-1);
  }
  return {ids.begin(), ids.end()};
}

/// Compares the counts and the prompt mask of a row with a dense history with the lists.
void expect_dense(const LogitsProcessing& p, std::int64_t row, std::int64_t vocab,
                  const Ids& prompt, const Ids& output, Differences& differences) {
  Ids counts(static_cast<std::size_t>(vocab));
  Ids in_prompt(static_cast<std::size_t>(vocab));
  for (const std::int32_t token : output) ++counts[static_cast<std::size_t>(token)];
  for (const std::int32_t token : prompt) {
    if (token >= 0) in_prompt[static_cast<std::size_t>(token)] = 1;
  }
  const std::int32_t* kept = p.output_counts.data + row * p.output_counts.row_stride;
  differences.expect("output_counts", Ids(kept, kept + vocab), counts);
  Ids bits_kept;
  for (std::int64_t t = 0; t < vocab; ++t) {
    const std::uint32_t word = p.prompt_mask.data[row * p.prompt_mask.row_stride + t / 32];
    bits_kept.push_back(static_cast<std::int32_t>((word >> (t % 32)) & 1U));
  }
  differences.expect("prompt_mask", bits_kept, in_prompt);
}

}  // namespace

bool same(const BatchRequest& a, const BatchRequest& b) {
  const auto same_bias = [&] {
    if (a.bias.size() != b.bias.size()) return false;
    for (std::size_t i = 0; i < a.bias.size(); ++i) {
      if (a.bias[i].token != b.bias[i].token || bits(a.bias[i].bias) != bits(b.bias[i].bias)) {
        return false;
      }
    }
    return true;
  };
  return bits(a.temperature) == bits(b.temperature) && a.top_k == b.top_k &&
         bits(a.top_p) == bits(b.top_p) && bits(a.min_p) == bits(b.min_p) &&
         bits(a.repetition_penalty) == bits(b.repetition_penalty) &&
         a.repetition_of_prompt == b.repetition_of_prompt &&
         bits(a.frequency_penalty) == bits(b.frequency_penalty) &&
         bits(a.presence_penalty) == bits(b.presence_penalty) && a.seed == b.seed &&
         a.first_offset == b.first_offset && a.min_tokens == b.min_tokens &&
         a.stop_ids == b.stop_ids && a.bad_words == b.bad_words && a.allowed_ids == b.allowed_ids &&
         a.prompt == b.prompt && same_bias();
}

bool same(const RequestSnapshot& a, const RequestSnapshot& b) {
  return a.id == b.id && same(a.request, b.request) && a.output == b.output &&
         a.allowed == b.allowed;
}

std::string BatchModel::difference(const BatchState& state) const {
  Differences differences;
  differences.expect("size", state.size(), static_cast<std::int32_t>(by_slot_.size()));
  differences.expect("slots", state.slots(), slots());

  const std::int64_t vocab = options_.vocab;
  SampleRequest call;
  // The rows of logits are only passed on, not read.
  const float nothing = 0;
  if (const Error error =
          state.sample_request({&nothing, DType::float32, options_.capacity, vocab, vocab}, call)) {
    return error.message;
  }
  const LogitsProcessing& p = call.processing;
  const bool dense = state.options().history == HistoryForm::dense;
  for (std::int32_t slot = 0; slot < options_.capacity; ++slot) {
    const auto found = by_slot_.find(slot);
    const bool occupied = found != by_slot_.end();
    RequestSnapshot expected;
    expected.request.seed = 0;
    if (occupied) expected = found->second;
    const std::string place = fmt::format("slot {}: ", slot);
    differences.expect(place + "occupied", state.is_occupied(slot), occupied);
    differences.expect(place + "active", call.active.data[slot] != 0, occupied);
    differences.expect(place + "id", state.id_at(slot), expected.id);
    if (occupied) differences.expect(place + "slot of its id", state.slot_of(expected.id), slot);
    for (const TokenLists* lists :
         {&p.output, &p.stop_ids, &p.allowed_ids, &p.bias_ids, &p.bad_words, &p.bad_word_lengths}) {
      differences.expect(place + "lists lie in their buffers", lies_in_buffer(*lists, slot), true);
    }
    if (!differences.first().empty()) return differences.first();

    RequestSnapshot read = read_back(call, slot);
    read.id = state.id_at(slot);
    read.request.prompt = values_of(state.prompt(slot));
    read.request.repetition_of_prompt = expected.request.repetition_of_prompt;  // in `penalised`
    const Ids penalised = expected.request.repetition_of_prompt ? expected.request.prompt : Ids();
    differences.expect(place + "prompt", read.request.prompt, expected.request.prompt);
    differences.expect(place + "output", values_of(state.output(slot)), expected.output);
    differences.expect(place + "offset", state.offset(slot),
                       expected.request.first_offset + expected.output.size());
    differences.expect(place + "output_lengths", p.output_lengths.data[slot],
                       static_cast<std::int32_t>(expected.output.size()));
    differences.expect(place + "prompt as a list", p.prompt.given(), !dense);
    differences.expect(place + "output_counts given", p.output_counts.given(), dense);
    if (dense) {
      expect_dense(p, slot, vocab, penalised, expected.output, differences);
    } else {
      differences.expect(place + "prompt", list_of(p.prompt, slot),
                         prompt_to_read(expected.request));
    }
    const std::vector<std::uint32_t> all(static_cast<std::size_t>(words()), 0xffffffffU);
    if (call.allowed.given()) {
      const std::uint32_t* row = call.allowed.data + slot * call.allowed.row_stride;
      read.allowed.assign(row, row + words());
    }
    differences.expect(place + "bitmask", read.allowed.empty() ? all : read.allowed,
                       expected.allowed.empty() ? all : expected.allowed);
    read.allowed = expected.allowed;
    differences.expect(place + "its views are the request", same(read, expected), true);
  }
  return differences.first();
}

std::string BatchModel::difference(const FusedSamplingProcessor& processor) const {
  Differences differences;
  differences.expect("new_tokens", values_of(processor.new_tokens()), new_tokens_);
  differences.expect("new_token_counts", values_of(processor.new_token_counts()), new_counts_);
  differences.expect("statuses", numbers_of(processor.statuses()),
                     numbers_of({statuses_.data(), static_cast<std::int64_t>(statuses_.size())}));
  const View<const std::int32_t> copied = processor.wait_for_tokens();
  differences.expect("a copy is there", copied.given(), copied_.has_value());
  if (copied_) differences.expect("copied tokens", values_of(copied), *copied_);
  const TokenLists generated = processor.generated_tokens();
  differences.expect("generated_tokens, rows", generated.lengths.size,
                     static_cast<std::int64_t>(new_tokens_.size()));
  for (const auto& [slot, request] : by_slot_) {
    if (slot >= generated.lengths.size) continue;
    differences.expect("generated_tokens", list_of(generated, slot), request.output);
  }
  return differences.first();
}

}  // namespace fairdraw::suites::batches
