#include "harness/run/checks/exact/processing_filters.h"

#include <cstdint>
#include <iterator>

namespace fairdraw::harness {

using reference::RowProcessing;

namespace {

// Chains of two or three filters, most of which keep other tokens in another order.
constexpr std::uint64_t kChains[] = {
    filter_chain_of({FilterStep::top_k, FilterStep::typical_p, FilterStep::xtc}),
    filter_chain_of({FilterStep::temperature, FilterStep::top_p, FilterStep::min_p}),
    filter_chain_of({FilterStep::min_p, FilterStep::temperature, FilterStep::typical_p}),
    filter_chain_of(
        {FilterStep::top_p, FilterStep::xtc, FilterStep::temperature, FilterStep::min_p}),
    filter_chain_of({FilterStep::xtc, FilterStep::top_k}),
    filter_chain_of({FilterStep::top_p, FilterStep::top_k, FilterStep::top_p}),
    filter_chain_of({FilterStep::epsilon_cutoff, FilterStep::temperature,
                     FilterStep::epsilon_cutoff, FilterStep::top_n_sigma}),
};

// Gives a row a chain with its filters.
void filter_by_chain(RowProcessing& processing, std::size_t number) {
  constexpr std::int32_t kTopK[] = {5, 2, 20};
  constexpr float kTemperatures[] = {2, 0.5F};
  processing.filter_chain = kChains[number % std::size(kChains)];
  processing.chain_top_k = kTopK[number % std::size(kTopK)];
  processing.chain_temperature = kTemperatures[number % std::size(kTemperatures)];
  processing.chain_top_p = 0.75F;
  processing.chain_min_p = 0.1F;
  processing.typical_p = 0.5F;
  processing.epsilon_cutoff = 0.01F;
  processing.top_n_sigma = 1;
  processing.xtc_probability = 1;
  processing.xtc_threshold = 0.05F;
}

}  // namespace

void filter_by_probability(RowProcessing& processing, std::size_t number) {
  constexpr float kShares[] = {0.5F, 0.9F, 0.2F, 0.99F, 0};
  constexpr float kCutoffs[] = {0x1p-10F, 0.01F, 0.25F, 1};
  constexpr float kEntropies[] = {0.4F, 0.9F, 0.1F, 0, 0.99F};
  constexpr float kThresholds[] = {0.1F, 0.02F, 0x1p-10F, 0.3F, 0};
  constexpr float kRanges[] = {0.5F, 4, 0.1F, 1.5F};
  constexpr float kExponents[] = {1, 0.5F, 3};
  constexpr float kTargets[] = {0.3F, 0.05F, 0.9F, 0, 0.5F};
  constexpr std::size_t kKinds = 10;
  const std::size_t value = number / kKinds;
  switch (number % kKinds) {
    case 0:
      processing.typical_p = kShares[value % std::size(kShares)];
      if (value % 4 == 3) processing.p_less = 1;
      break;
    case 1:
      processing.epsilon_cutoff = kCutoffs[value % std::size(kCutoffs)];
      break;
    case 2:
      processing.eta_cutoff = kCutoffs[value % std::size(kCutoffs)];
      break;
    case 3:
      processing.p_less = 1;
      break;
    case 4:
      processing.top_h = kEntropies[value % std::size(kEntropies)];
      break;
    case 5:
      processing.dynatemp_range = kRanges[value % std::size(kRanges)];
      processing.dynatemp_exponent = kExponents[value % std::size(kExponents)];
      if (value % 2 == 1) filter_by_chain(processing, value);
      break;
    case 6:
    case 7:
      filter_by_chain(processing, number % kKinds + 2 * value);
      break;
    case 8:
      processing.filter_chain =
          filter_chain_of({FilterStep::top_k, FilterStep::temperature, FilterStep::adaptive_p});
      processing.chain_top_k = value % 2 == 0 ? 8 : 0;
      processing.chain_temperature = value % 3 == 2 ? 2.0F : 1.0F;
      processing.adaptive_target = kTargets[value % std::size(kTargets)];
      break;
    default:
      processing.xtc_probability = value % 4 == 3 ? 1 : 0.5F;
      processing.xtc_threshold = kThresholds[value % std::size(kThresholds)];
      processing.xtc_seed = value;
      break;
  }
}

}  // namespace fairdraw::harness
