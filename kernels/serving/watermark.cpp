// sample_marked: `sample`, whose marked rows take a token that keyed words choose
// (fairdraw/watermark.h).
//
// Algorithm. The call is `sample`'s, with a callback between a row's filters and its draw. In the
// race, the callback computes the keyed word and the bounds of each survivor (watermark_rules.h),
// lists those that the bounds leave in the race, decides among these exactly, and makes the winner
// the row's token. In a tournament, it lists the survivors with their weights, and goes over the
// list twice per layer. A green list is a list of biases, with a word for each token of the
// vocabulary. Everything else is `sample`'s: log-probabilities, masks and rows without a key.
#include "fairdraw/watermark.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "common/arguments.h"
#include "common/proposals.h"
#include "cpu/batch.h"
#include "serving/rules/watermark_rules.h"

namespace fairdraw {
namespace {

/// A survivor that may win.
struct Contender {
  std::int32_t token;
  std::uint64_t word;
  uint128_t weight;
  double lower;
};

std::int32_t winner_of_race(cpu::IndexedRow& row, std::uint64_t context_key) {
  std::vector<Contender> contenders;
  double least_upper = std::numeric_limits<double>::infinity();
  row.for_each_weight([&](std::int32_t token, uint128_t weight) {
    if (weight == 0) return;
    const std::uint64_t word = keyed_word(context_key, token);
    const double unit = nearest_double(weight);
    if (arrives_after(word, unit, least_upper)) return;
    const ArrivalBounds bounds = arrival_bounds(word, unit);
    if (bounds.lower > least_upper) return;
    least_upper = bounds.upper < least_upper ? bounds.upper : least_upper;
    contenders.push_back({token, word, weight, bounds.lower});
  });
  const Contender* first = nullptr;
  ArrivalTime time_of_first{};
  for (const Contender& contender : contenders) {
    if (contender.lower > least_upper) continue;
    const ArrivalTime time = arrival_time(contender.word);
    if (first != nullptr && !arrives_before(time, contender.weight, time_of_first, first->weight)) {
      continue;
    }
    first = &contender;
    time_of_first = time;
  }
  return first->token;
}

/// Survivors of a tournament, by ascending id.
class Candidates {
 public:
  Candidates(cpu::IndexedRow& row, std::uint64_t context_key) {
    std::vector<uint128_t> exact;
    uint128_t all = 0;
    row.for_each_weight([&](std::int32_t token, uint128_t weight) {
      tokens_.push_back(token);
      words_.push_back(keyed_word(context_key, token));
      exact.push_back(weight);
      all += weight;
    });
    const int shift = tournament_shift(all);
    for (const uint128_t weight : exact) {
      weights_.push_back(static_cast<std::uint64_t>(weight >> shift));
      total_ += weights_.back();
    }
  }

  void play(int layer) {
    std::uint64_t of_ones = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (is_one_in_layer(words_[i], layer)) of_ones += weights_[i];
    }
    const std::uint64_t share = share_of_zeros(total_, of_ones);
    total_ = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      weights_[i] = weight_after_layer(weights_[i], is_one_in_layer(words_[i], layer), share);
      total_ += weights_[i];
    }
  }

  std::int32_t draw(std::uint64_t word) const {
    const std::uint64_t place = multiply_high(word, total_);
    std::uint64_t sum = 0;
    std::size_t i = 0;
    while ((sum += weights_[i]) <= place) ++i;  // place is below the sum of all
    return tokens_[i];
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> weights_;
  std::uint64_t total_ = 0;
};

/// Marks of a call's rows.
class RowMarks {
 public:
  RowMarks(const SampleRequest& request, const Watermark& watermark)
      : request_(request), watermark_(watermark) {}

  /// Returns whether the output of a row that has a key has an id that is no token.
  bool has_stranger(std::int64_t row) const {
    return watermark_.key.at(row) != 0 && !all_are_tokens(output_of(row), request_.logits.vocab);
  }

  /// Returns the key of the words of a row's context, or nothing if the row is not marked.
  std::optional<std::uint64_t> context(std::int64_t row) const {
    std::uint64_t key = watermark_.key.at(row);
    if (key == 0) return {};
    const std::int32_t window = watermark_.rule.window;
    const RowList output = output_of(row);
    if (watermark_.mask_repeated.at(row) != 0 &&
        context_is_repeated(output.ids, output.length, window)) {
      return {};
    }
    const std::uint64_t second_key = watermark_.second_key.at(row);
    if (second_key != 0 && takes_second_key(watermark_.second_share, word(row, kAttempts + 1))) {
      key = second_key;
    }
    return context_key(key, window, output.ids, output.length);
  }

  /// Returns the random word of an attempt of a row's draw.
  std::uint64_t word(std::int64_t row, std::uint32_t attempt) const {
    const auto index = static_cast<std::uint32_t>(request_.seed.is_array() ? 0 : row);
    return random_word(request_.seed.at(row), request_.offset.at(row), request_.purpose, index,
                       attempt);
  }

 private:
  RowList output_of(std::int64_t row) const { return list_of(request_.processing.output, row); }

  const SampleRequest& request_;
  const Watermark& watermark_;
};

/// Biases of a call's rows, with those of green tokens. Each list has the row's own entries first,
/// because a wrong entry must fail its row, and of an id that is listed twice the last entry
/// counts.
class GreenBiases {
 public:
  GreenBiases(const SampleRequest& request, const Watermark& watermark, const RowMarks& marks) {
    const std::uint64_t limit = green_limit(watermark.rule.green_share);
    const auto vocab = static_cast<std::int32_t>(request.logits.vocab);
    std::vector<float> own(static_cast<std::size_t>(vocab));
    for (std::int64_t row = 0; row < request.logits.rows; ++row) {
      const auto begin = static_cast<std::int64_t>(ids_.size());
      const RowList given = list_of(request.processing.bias_ids, row);
      begins_.push_back(given.in_buffer ? begin : -1);
      std::fill(own.begin(), own.end(), 0.0F);
      for (std::int32_t i = 0; i < given.length; ++i) {
        const std::int32_t id = given.ids[i];
        add(id, request.processing.bias_values.data[given.begin + i]);
        if (is_token(id, vocab)) own[static_cast<std::size_t>(id)] = values_.back();
      }
      const bool is_active = !request.active.given() || request.active.data[row] != 0;
      const auto context = marks.context(row);
      if (is_active && context && !marks.has_stranger(row)) {
        for (std::int32_t id = 0; id < vocab; ++id) {
          if (keyed_word(*context, id) >= limit) continue;
          add(id, own[static_cast<std::size_t>(id)] + watermark.green_bias);
        }
      }
      lengths_.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(ids_.size()) - begin));
    }
  }

  void put_into(LogitsProcessing& processing) const {
    const auto size = static_cast<std::int64_t>(ids_.size());
    const auto rows = static_cast<std::int64_t>(begins_.size());
    processing.bias_ids = {ids_.data(), size, {begins_.data(), rows}, {lengths_.data(), rows}};
    processing.bias_values = {values_.data(), size};
  }

 private:
  void add(std::int32_t id, float value) {
    ids_.push_back(id);
    values_.push_back(value);
  }

  std::vector<std::int32_t> ids_;
  std::vector<float> values_;
  std::vector<std::int64_t> begins_;
  std::vector<std::int32_t> lengths_;
};

}  // namespace

Error sample_marked(const SampleRequest& request, const Watermark& watermark,
                    const SampleResult& result, const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_request(request, "logits")) return error;
  if (Error error = check_watermark(request, watermark)) return error;
  const WatermarkRule& rule = watermark.rule;
  const RowMarks marks(request, watermark);
  const cpu::RowSurvivors mark = [&](std::int64_t row, cpu::IndexedRow& sampler) {
    if (marks.has_stranger(row)) return RowStatus::invalid_history;
    if (rule.scheme == WatermarkScheme::green_list) return RowStatus::ok;  // biases mark the row
    const std::optional<std::uint64_t> context = marks.context(row);
    if (!context) return RowStatus::ok;
    if (rule.scheme == WatermarkScheme::race) {
      sampler.choose(winner_of_race(sampler, *context));
      return RowStatus::ok;
    }
    Candidates candidates(sampler, *context);
    for (int layer = 1; layer <= rule.layers; ++layer) candidates.play(layer);
    sampler.choose(candidates.draw(marks.word(row, kAttempts)));
    return RowStatus::ok;
  };
  std::optional<GreenBiases> biases;
  SampleRequest marked = request;
  if (rule.scheme == WatermarkScheme::green_list) {
    biases.emplace(request, watermark, marks);
    biases->put_into(marked.processing);
  }
  return cpu::run_batch(marked, result, execution, "logits", /*options=*/{},
                        /*wants_tokens=*/true, /*given_tokens=*/{}, /*logit_rows=*/nullptr, &mark);
}

}  // namespace fairdraw
