// Chooses the steps of processing of a case's rows. In every mixture of steps, some rows have
// filters or rules of histories that hide much of the others.
#include "harness/run/checks/exact/processing_calls.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "harness/inputs/processing_rows.h"
#include "harness/inputs/processing_steps.h"
#include "harness/inputs/special_floats.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/checks/exact/processing_filters.h"
#include "reference/probability_filters.h"

namespace fairdraw::harness {
namespace {

using reference::RowProcessing;

// One of this many rows has the filter top_n_sigma, which hides much of the other steps, one has
// filters by probability, and in calls whose histories are lists, one has rules of histories.
constexpr std::int64_t kRowsToAFilter = 8;

// Size of the largest vocabulary whose filters are judged in real numbers, which compares each
// token with all others.
constexpr std::int64_t kMostJudged = 4096;

// Turns on filters by probability in a row of a sampler that does not claim exact integers, unless
// its arithmetic decides which tokens they keep. The coin of xtc and the places of a temperature
// among the filters are fairdraw's own: xtc always excludes, and a temperature that follows the
// entropy of the row comes without filters after it.
void filter_in_real_numbers(Request& request, std::int64_t row, std::size_t number,
                            const std::vector<std::string>& lacked) {
  if (request.vocab > kMostJudged) return;
  const auto at = static_cast<std::size_t>(row);
  RowProcessing& processing = request.processing[at];
  const RowProcessing before = processing;
  const reference::RowParameters parameters = request.parameters[at];
  filter_by_probability(processing, number);
  if (processing.xtc_probability != 0) processing.xtc_probability = 1;
  leave_out(lacked, processing);
  if (processing.dynatemp_range != 0) {
    // Every profile has a top_k of the vocabulary's size as off.
    request.parameters[at] = {.temperature = parameters.temperature,
                              .top_k = static_cast<std::int32_t>(request.vocab)};
  }
  const reference::FilterBound bound =
      reference::float32_filter_bound(static_cast<std::size_t>(request.vocab));
  if (!processed_row(request, row, &bound).undecided) return;
  processing = before;
  request.parameters[at] = parameters;
}

// Adds rules of histories whose penalties are those of everyday requests, if no integers decide.
void add_rules(const CheckInput& input, std::int64_t at, std::int64_t vocab,
               RowProcessing& processing) {
  std::mt19937_64 random(mixed(input.seed + 6, static_cast<std::uint64_t>(at)));
  add_random_rules(processing, random, vocab);
  if (input.exact()) return;
  processing.dry_multiplier = std::min(processing.dry_multiplier, 3.0F);
  processing.dry_base = std::min(processing.dry_base, 1.75F);
}

}  // namespace

Request with_processing(const CheckInput& input, std::int64_t first, std::int64_t count,
                        const HistoryArrays& form) {
  Request request = make_request(input, first, count);
  request.history_form = form;
  for (std::int64_t row = first; row < first + count; ++row) {
    // The steps follow from the number of the logits, and not from the place in the call, so that a
    // neighbour of the case has them at other places (suites/gate/identify/neighbours.h).
    const std::int64_t at = input.first_row + row;
    RowProcessing& processing =
        request.processing.emplace_back(processing_for_row(input.seed, at, request.vocab));
    const SamplerDescription& sampler = input.sampler->description();
    leave_out(sampler.lacked_steps, processing);
    const auto number = static_cast<std::size_t>(at / kRowsToAFilter);
    if (sampler.top_n_sigma && at % kRowsToAFilter == 0) {
      constexpr float kSigmas[] = {1, 0.5F, 2.5F, kInfinity, 0.01F, -1, 4};
      processing.top_n_sigma = kSigmas[number % std::size(kSigmas)];
      // The integer form of the filter top_n_sigma is fairdraw's own.
      if (!input.exact() && processed_row(request, row - first).undecided) {
        processing.top_n_sigma = 0;
      }
    }
    if (sampler.probability_filters && at % kRowsToAFilter == 1) {
      if (input.exact()) {
        filter_by_probability(processing, number);
      } else {
        filter_in_real_numbers(request, row - first, number, sampler.lacked_steps);
      }
    }
    const bool has_lists = !form.prompt_mask && !form.output_counts;
    // Their places change, so that they meet all operations of the case, and no row of a filter.
    const std::int64_t place_of_rules = 2 + at / kRowsToAFilter % (kRowsToAFilter - 2);
    if (sampler.history_rules && has_lists && at % kRowsToAFilter == place_of_rules) {
      add_rules(input, at, request.vocab, processing);
    }
    leave_out(sampler.lacked_steps, processing);
  }
  return request;
}

}  // namespace fairdraw::harness
