// sample_marked: `sample`, whose marked rows take the winner of a race by keyed words
// (fairdraw/watermark.h).
//
// Algorithm. The call is `sample`'s, with a callback between a row's filters and its draw. In a
// marked row the callback computes the keyed word and the bounds of each survivor
// (watermark_rules.h), lists those that the bounds leave in the race, decides among these exactly,
// and makes the winner the row's token. Everything else is `sample`'s: log-probabilities, masks and
// rows without a key.
#include "fairdraw/watermark.h"

#include <limits>
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

std::int32_t winner_of(cpu::IndexedRow& row, std::uint64_t context_key) {
  std::vector<Contender> contenders;
  double least_upper = std::numeric_limits<double>::infinity();
  row.for_each_weight([&](std::int32_t token, uint128_t weight) {
    if (weight == 0) return;
    const std::uint64_t word = keyed_word(context_key, token);
    if (arrives_after(word, weight, least_upper)) return;
    const ArrivalBounds bounds = arrival_bounds(word, weight);
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

}  // namespace

Error sample_marked(const SampleRequest& request, const Watermark& watermark,
                    const SampleResult& result, const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_request(request, "logits")) return error;
  if (Error error = check_watermark(request, watermark)) return error;
  const std::int32_t window = watermark.window;
  const cpu::RowSurvivors mark = [&](std::int64_t row, cpu::IndexedRow& sampler) {
    std::uint64_t key = watermark.key.at(row);
    if (key == 0) return RowStatus::ok;
    const RowList output = list_of(request.processing.output, row);
    if (!all_are_tokens(output, request.logits.vocab)) return RowStatus::invalid_history;
    if (watermark.mask_repeated.at(row) != 0 &&
        context_is_repeated(output.ids, output.length, window)) {
      return RowStatus::ok;
    }
    const std::uint64_t second_key = watermark.second_key.at(row);
    const auto index = static_cast<std::uint32_t>(request.seed.is_array() ? 0 : row);
    if (second_key != 0 &&
        takes_second_key(watermark.second_share,
                         random_word(request.seed.at(row), request.offset.at(row), request.purpose,
                                     index, kAttempts + 1))) {
      key = second_key;
    }
    sampler.choose(winner_of(sampler, context_key(key, window, output.ids, output.length)));
    return RowStatus::ok;
  };
  return cpu::run_batch(request, result, execution, "logits", /*options=*/{},
                        /*wants_tokens=*/true, /*given_tokens=*/{}, /*logit_rows=*/nullptr, &mark);
}

}  // namespace fairdraw
