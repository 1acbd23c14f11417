#include "suites/gate/cases/sampled/sampled.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/inputs/dice.h"
#include "harness/inputs/model_vocabularies.h"
#include "harness/run/calls/random_words.h"
#include "suites/gate/cases/case.h"

namespace fairdraw::suites {
namespace {

using harness::Dice;

constexpr double kUsual = 2;       // three in four temperatures are below this value
constexpr int kHottestOctave = 4;  // the other temperatures reach 2^4, and are uniform over octaves
constexpr double kColdest = kMinSampledTemperature;
static_assert(kMaxSampledTemperature == 1 << kHottestOctave);
constexpr int kNearestOctave = 12;  // fractions are at least 2^-12 from the ends of (0, 1)

double between(Dice& dice, double low, double high) { return low + (high - low) * dice.unit(); }

// Returns a number in [2^low, 2^high): its octave is uniform, and the number is uniform within the
// octave.
double over_octaves(Dice& dice, int low, int high) {
  const auto octave = static_cast<int>(dice.between(low, high - 1));
  return std::ldexp(1 + dice.unit(), octave);
}

// Returns the value, clamped to the open interval (0, 1), because rounding to float32 may give 0 or
// 1, which would switch a filter off.
float inside(double value) {
  return std::clamp(static_cast<float>(value), kMinSampledFraction, kMaxSampledFraction);
}

double any_temperature(Dice& dice) {
  if (dice.once_in(4)) return over_octaves(dice, -kHottestOctave, kHottestOctave);
  return between(dice, kColdest, kUsual);
}

// Returns a fraction: half of the fractions are uniform, and the other half uniform over octaves
// towards 0.
double any_fraction(Dice& dice) {
  return dice.once_in(2) ? over_octaves(dice, -kNearestOctave, 0) : dice.unit();
}

Operation sampled_operation(const Sampled& sampled, std::int64_t vocab, Dice& dice) {
  const bool everywhere = sampled.spread == Sampled::Spread::everywhere;
  const int octaves_of_vocab = std::ilogb(static_cast<double>(vocab)) + 1;
  reference::RowParameters row;
  row.temperature =
      static_cast<float>(everywhere ? any_temperature(dice) : between(dice, 0.5, kUsual));
  if (sampled.filters.top_k) {
    const std::int64_t k = everywhere
                               ? static_cast<std::int64_t>(over_octaves(dice, 0, octaves_of_vocab))
                               : dice.between(vocab / 4, vocab);
    row.top_k = static_cast<std::int32_t>(std::clamp<std::int64_t>(k, 1, vocab));
  }
  if (sampled.filters.top_p) {
    row.top_p = inside(everywhere ? 1 - any_fraction(dice) : between(dice, 0.7, 1));
  }
  if (sampled.filters.min_p) {
    row.min_p = inside(everywhere ? any_fraction(dice) : between(dice, 0, 0.02));
  }
  return {.parameters = row};
}

}  // namespace

std::string sampled_name(const Filters& filters) {
  std::string name = "sampled";
  if (filters.min_p) name += "+min_p";
  if (filters.top_k) name += "+top_k";
  if (filters.top_p) name += "+top_p";
  return name;
}

std::vector<Operation> sampled_operations(const Sampled& sampled, std::int64_t vocab,
                                          std::uint64_t seed) {
  Dice dice(seed);
  std::vector<Operation> operations;
  for (std::size_t i = 0; i < sampled.operations; ++i) {
    operations.push_back(sampled_operation(sampled, vocab, dice));
  }
  return operations;
}

Case with_sampled_values(const Case& entry, std::uint64_t run_seed) {
  Case result = entry;
  const std::uint64_t seed = harness::case_seed(run_seed, entry.id);
  Dice dice(seed);
  result.input.vocab = dice.between(entry.sampled->smallest_vocab, entry.sampled->largest_vocab);
  if (entry.sampled->turn) {
    constexpr std::size_t kModels = harness::kModelVocabularies.size();
    const std::size_t first = run_seed % kModels;
    result.input.vocab = harness::kModelVocabularies[(first + *entry.sampled->turn) % kModels].size;
  }
  if (entry.sampled->operations > 0) {
    result.operations = sampled_operations(*entry.sampled, result.input.vocab, dice.bits());
  }
  result.sampled->rows_seed = seed;
  return result;
}

Case with_values(const Case& entry, std::uint64_t run_seed) {
  const bool draws = entry.sampled && entry.sampled->rows_seed == 0;
  return draws ? with_sampled_values(entry, run_seed) : entry;
}

std::string describe_sampled(const Case& entry) {
  std::string text = fmt::format("vocabulary {}", entry.input.vocab);
  if (entry.sampled->operations == 0) return text;
  if (entry.operations.size() > 1) {
    return text + fmt::format(", {} operations", entry.operations.size());
  }
  const reference::RowParameters& row = entry.operations.front().parameters;
  text += fmt::format(", temperature {}", row.temperature);
  if (entry.sampled->filters.top_k) text += fmt::format(", top_k {}", row.top_k);
  if (entry.sampled->filters.top_p) text += fmt::format(", top_p {}", row.top_p);
  if (entry.sampled->filters.min_p) text += fmt::format(", min_p {}", row.min_p);
  return text;
}

// The uniform part of the distribution has this density at every value, and the other part can only
// increase the density.
double part_of_temperature_band(double width) { return 0.75 * width / (kUsual - kColdest); }
double part_of_fraction_band(double width) { return 0.5 * width; }

}  // namespace fairdraw::suites
