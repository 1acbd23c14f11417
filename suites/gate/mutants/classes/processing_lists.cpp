// Mutants of logits processing that treat invalid lists and values wrongly, or penalties and biases
// of logits at the ends of float32.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "harness/run/calls/logits_source.h"
#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

std::int32_t clamped(std::int32_t id, const Row& row) {
  return std::clamp(id, 0, static_cast<std::int32_t>(row.logits.size()) - 1);
}

void drop_strays(std::vector<std::int32_t>& ids, const Row& row) {
  std::erase_if(ids, [&row](std::int32_t id) { return id != -1 && id != clamped(id, row); });
}

constexpr Entry kLists[] = {
    {"engine-bias-id-clamped",
     "with a generator of its own: the bias of an id that is no token goes to the last token",
     [](Row& row) {
       if (!row.processing) return;
       for (auto& bias : row.processing->biases) bias.id = clamped(bias.id, row);
     }},
    {"engine-stop-id-dropped",
     "with a generator of its own: stop ids and allowed ids that are no tokens are left out",
     [](Row& row) {
       if (!row.processing) return;
       std::erase_if(row.processing->stop_ids,
                     [&row](std::int32_t id) { return id != clamped(id, row); });
       std::erase_if(row.processing->allowed_ids,
                     [&row](std::int32_t id) { return id != clamped(id, row); });
     }},
    {"engine-history-stray-dropped",
     "with a generator of its own: ids of a history that are no tokens are left out",
     [](Row& row) {
       if (!row.processing) return;
       drop_strays(row.processing->prompt, row);
       drop_strays(row.processing->output, row);
     }},
    {"masked-logits-penalised-as-finite", "in rows with processing -inf is the lowest float32",
     By("processing/few_allowed/*", Base::integers),
     [](Row& row) {
       if (!row.processing) return;
       std::ranges::replace(row.logits, kOut, std::numeric_limits<float>::lowest());
     }},
    {"overflow-downwards-clamped", "a penalty that overflows downwards leaves the lowest float32",
     By("processing/*/v31/*", Base::integers),
     [](Row& row) {
       if (!row.processing) return;
       std::ranges::replace_if(
           row.logits, [](float logit) { return logit < -1e38F && logit > kOut; }, -1e37F);
     }},
};

constexpr float kLarge = 16;

bool is_raised(const Row& row) {
  return !row.from_probs && *std::ranges::min_element(row.logits) > kLarge;
}

// Draws by a race in float16: logits divided by the temperature, plus noise. Only rows are changed
// for which `is_hit` returns true and whose largest value exceeds 16.
void race_in_float16(Mutation& mutation, const std::function<bool(const Row&)>& is_hit) {
  const auto largest = std::make_shared<float>(0.0F);
  mutation.row = [largest, is_hit](Row& row, const Place&) {
    const float value = *std::ranges::max_element(row.logits);
    *largest = is_hit(row) ? value / std::max(row.parameters.temperature, 0x1p-10F) : 0;
  };
  mutation.pick = [largest](const DrawWeights& drawn, std::uint64_t word) {
    if (!(std::abs(*largest) > kLarge) || std::isinf(*largest)) return token_of(drawn, word);
    const auto rounded = [](double value) {
      return harness::rounded_to(DType::float16, static_cast<float>(value));
    };
    double heaviest = 0;
    for (std::size_t id = 0; id < drawn.prefix.size(); ++id) {
      const RowWeight weight = drawn.prefix[id] - (id == 0 ? 0 : drawn.prefix[id - 1]);
      heaviest = std::max(heaviest, static_cast<double>(weight));
    }
    std::int32_t winner = 0;
    float best = -std::numeric_limits<float>::infinity();
    for (std::size_t id = 0; id < drawn.prefix.size(); ++id) {
      const RowWeight weight = drawn.prefix[id] - (id == 0 ? 0 : drawn.prefix[id - 1]);
      if (weight == 0) continue;
      const double logit =
          static_cast<double>(*largest) + std::log(static_cast<double>(weight) / heaviest);
      const double uniform = (static_cast<double>(harness::mixed(word, id) >> 11) + 0.5) * 0x1p-53;
      const float score = rounded(static_cast<double>(rounded(logit)) + gumbel(uniform));
      if (score <= best) continue;
      best = score;
      winner = static_cast<std::int32_t>(id);
    }
    return winner;
  };
}

// Rounds the quotients of logits and temperature to bfloat16.
void divide_in_bfloat16(Row& row) {
  const float temperature = row.parameters.temperature;
  if (!is_raised(row) || temperature == 0) return;
  for (float& logit : row.logits) {
    logit = harness::rounded_to(DType::bfloat16, logit / temperature) * temperature;
  }
}

constexpr Entry kLargeLogits[] = {
    {"noise-in-float16-at-large-logits", "logits beyond 16 and their noise are added in float16",
     By("chi_squared/all_negative/*"),
     [](Mutation& mutation) {
       race_in_float16(mutation, [](const Row& row) { return !row.from_probs; });
     }},
    {"noise-in-float16-above-16",
     "scores and their noise are added in float16 in rows of which all logits exceed 16",
     By("chi_squared/flat+32/*"), [](Mutation& mutation) { race_in_float16(mutation, is_raised); }},
    {"scores-in-bfloat16-above-16",
     "logits are divided by the temperature in bfloat16 in rows of which all exceed 16",
     By("chi_squared/gaussian+40/*"), divide_in_bfloat16},
};

}  // namespace

std::vector<Mutant> processing_list_mutants() {
  return joined({mutants_of("penalties", "processing/*/v31/*", Base::engine, kLists),
                 mutants_of("narrow-draws", "", Base::distribution, kLargeLogits)});
}

}  // namespace fairdraw::suites
