#include "tests/sample/random_rows.h"

#include <fmt/format.h>

#include "harness/inputs/random_rows.h"

namespace fairdraw::suites {
RandomRow random_row_of(std::uint64_t number, std::size_t vocab) {
  harness::Dice dice(number);
  RandomRow row;
  row.number = number;
  row.logits = harness::random_logits(dice, static_cast<std::int64_t>(vocab));
  row.parameters = harness::random_parameters(dice, row.logits, {.faults = false, .dense = true});
  if (dice.once_in(4))
    row.allowed = harness::random_allowed(dice, static_cast<std::int64_t>(vocab));
  row.tie_rule = dice.pick({TieRule::keep_all, TieRule::lowest_id});
  row.filter_order = dice.once_in(4) ? FilterOrder::joint : FilterOrder::top_k_first;
  row.seed = harness::random_seed(dice);
  row.offset = dice.once_in(2) ? harness::random_seed(dice) : dice.below(100);
  return row;
}

RandomRow random_row(std::uint64_t number) {
  harness::Dice dice(~number);
  const bool large = number % 2 == 0;
  return random_row_of(number, large ? 128 + dice.below(1920) : 1 + dice.below(127));
}

std::vector<float> random_probs(std::uint64_t number, std::size_t vocab) {
  harness::Dice dice(number);
  return harness::random_probabilities(dice, static_cast<std::int64_t>(vocab));
}

SampleRequest request_of(const RandomRow& row, std::int32_t num_samples) {
  SampleRequest request;
  const auto vocab = static_cast<std::int64_t>(row.logits.size());
  request.logits = {row.logits.data(), DType::float32, 1, vocab, vocab};
  request.temperature = row.parameters.temperature;
  request.top_k = row.parameters.top_k;
  request.top_p = row.parameters.top_p;
  request.min_p = row.parameters.min_p;
  request.tie_rule = row.tie_rule;
  request.filter_order = row.filter_order;
  request.seed = {&row.seed, 1};
  request.offset = {&row.offset, 1};
  request.num_samples = num_samples;
  if (!row.allowed.empty()) {
    request.allowed = {row.allowed.data(), 1, static_cast<std::int64_t>(row.allowed.size())};
  }
  return request;
}

std::string describe(const RandomRow& row) {
  const reference::RowParameters& p = row.parameters;
  return fmt::format(
      "row {} (vocab {}, T {:a}, top_k {}, top_p {:a}, min_p {:a}, tie_rule {}, filter_order {}, "
      "banned {})",
      row.number, row.logits.size(), p.temperature, p.top_k, p.top_p, p.min_p,
      static_cast<int>(row.tie_rule), static_cast<int>(row.filter_order), !row.allowed.empty());
}

std::int32_t token_of(const reference::IntegerRow& model, const DrawWords& words) {
  return model.token_by_attempts(
      [&words](std::uint32_t attempt) { return words.of_attempt(attempt); });
}

std::vector<CpuTarget> available_targets() {
  std::vector<CpuTarget> targets;
  for (const CpuTarget target :
       {CpuTarget::scalar, CpuTarget::avx2, CpuTarget::avx512, CpuTarget::neon}) {
    if (is_available(target)) targets.push_back(target);
  }
  return targets;
}

}  // namespace fairdraw::suites
