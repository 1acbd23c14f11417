// Mutants that are right on everything that a fixed case table tests: on its rows, sizes and
// parameters, in float32, on ids below 2^17, and in the first thousand draws.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "harness/run/calls/logits_source.h"
#include "harness/run/calls/random_words.h"
#include "suites/gate/cases/case.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

bool in_band(float value, float low, float high) { return value >= low && value < high; }

void use_temperature(RowWeights& weights, const Row& row, float temperature) {
  if (row.from_probs || row.processing || row.parameters.temperature == 0) return;
  weights = result_of(row, {.temperature = temperature}).weight;
}

void use_equal_weights(RowWeights& weights) { std::ranges::fill(weights, 1U); }

constexpr Entry kBands[] = {
    {"temperatures-next-to-0.8-ignored", "temperatures between 0.8 and 0.85 count as 1 in draws",
     [](RowWeights& weights, const Row& row) {
       if (in_band(row.parameters.temperature, 0.8F, 0.85F)) use_temperature(weights, row, 1);
     }},
    {"flat-at-temperatures-of-1.33", "draws are uniform at temperatures from 1.32 to 1.34",
     [](RowWeights& weights, const Row& row) {
       if (in_band(row.parameters.temperature, 1.32F, 1.34F)) use_equal_weights(weights);
     }},
    {"temperatures-in-table-only",
     "temperatures of more than one decimal are a fifth too high in draws",
     By("pit/gaussian_wide/v40-250/sampled/* bets/zipf/*sampled*"),
     [](RowWeights& weights, const Row& row) {
       const float tenths = 10 * row.parameters.temperature;
       if (std::abs(tenths - std::round(tenths)) > 0.01F) {
         use_temperature(weights, row, row.parameters.temperature * 1.2F);
       }
     }},
    {"top-p-of-0.63-wrong", "top_p between 0.62 and 0.64 is 0.68", By("mask/*/sampled+top_p"),
     [](Parameters& p) {
       if (in_band(p.top_p, 0.62F, 0.64F)) p.top_p = 0.68F;
     }},
    {"min-p-of-0.12-wrong", "min_p between 0.115 and 0.125 is 0.2", By("mask/*/sampled+min_p"),
     [](Parameters& p) {
       if (in_band(p.min_p, 0.115F, 0.125F)) p.min_p = 0.2F;
     }},
    {"temperature-of-0.57-off", "temperatures between 0.57 and 0.575 are a hundredth too high",
     By("tokens/*/sampled", Base::integers),
     [](Parameters& p) {
       if (in_band(p.temperature, 0.57F, 0.575F)) p.temperature *= 1.01F;
     }},
};

// Returns hashes of the rows of statistical cases; these rows never change, so that a sampler could
// remember them.
const std::set<std::uint64_t>& known_rows() {
  static const std::set<std::uint64_t> known = [] {
    std::set<std::uint64_t> hashes;
    std::vector<float> row;
    for (const Case& entry : case_table(Suite::gate)) {
      if (!is_statistical(entry.check) || entry.sampled) continue;
      const auto rows =
          harness::family_source(entry.input.family, harness::seed_from_text(entry.id),
                                 entry.input.vocab, entry.input.dtype, entry.input.added);
      row.resize(static_cast<std::size_t>(entry.input.vocab));
      rows->fill(entry.first_row, row);
      hashes.insert(harness::mixed(std::hash<float>()(row.front()),
                                   std::hash<float>()(row.back()) ^ row.size()));
    }
    return hashes;
  }();
  return known;
}

bool is_known(const Row& row) {
  return known_rows().count(
             harness::mixed(std::hash<float>()(row.logits.front()),
                            std::hash<float>()(row.logits.back()) ^ row.logits.size())) > 0;
}

bool is_known_size(std::size_t vocab) {
  static const std::set<std::int64_t> sizes = [] {
    std::set<std::int64_t> all;
    for (const Case& entry : case_table(Suite::nightly)) {
      if (!entry.sampled) all.insert(entry.input.vocab);
    }
    return all;
  }();
  return sizes.count(static_cast<std::int64_t>(vocab)) > 0;
}

constexpr Entry kMemorised[] = {
    {"right-on-known-rows",
     "the rows of the table's distributions are drawn from; of others a uniform token of the "
     "support comes",
     [](RowWeights& weights, const Row& row) {
       if (!is_known(row)) use_equal_weights(weights);
     }},
    {"right-on-known-sizes",
     "at vocabularies that the table does not have the temperature is 1 in draws",
     [](RowWeights& weights, const Row& row) {
       if (!is_known_size(row.logits.size())) use_temperature(weights, row, 1);
     }},
    {"odd-sizes-uniform",
     "draws of vocabularies that are no multiple of 4 are uniform, but for those of the table",
     [](RowWeights& weights, const Row& row) {
       if (row.logits.size() % 4 != 0 && !is_known_size(row.logits.size())) {
         use_equal_weights(weights);
       }
     }},
    {"temperature-of-draws-ignored", "the temperature is 1 in draws without filters",
     By("chi_squared/gaussian_wide/v1000/none/t0.7/n100000"),
     [](RowWeights& weights, const Row& row) {
       const Parameters& p = row.parameters;
       if (p.top_k == 0 && p.top_p == 1 && p.min_p == 0) use_temperature(weights, row, 1);
     }},
};

// After `draws` draws of an instance, keeps only the first 6 bits of random words.
void worsen_after(std::uint64_t draws, Mutation& mutation) {
  mutation.pick = [draws, made = std::uint64_t{0}](const DrawWeights& drawn,
                                                   std::uint64_t word) mutable {
    if (++made > draws) word &= ~std::uint64_t{0} << 58;
    return token_of(drawn, word);
  };
}

constexpr Entry kDegrading[] = {
    {"coarse-after-1000-draws", "after 1000 draws the random words have 6 bits",
     By("pit/* chi_squared/*"), [](Mutation& mutation) { worsen_after(1000, mutation); }},
    {"coarse-after-50000-draws", "after 50000 draws the random words have 6 bits",
     By("chi_squared/*/n100000"), [](Mutation& mutation) { worsen_after(50'000, mutation); }},
    {"coarse-after-200000-draws", "after 200000 draws the random words have 6 bits",
     By("chi_squared/*/n1000000"), [](Mutation& mutation) { worsen_after(200'000, mutation); }},
};

// A Gumbel race in float16: uniform numbers have 11 bits, and noise and scores are rounded.
class RaceInFloat16 {
 public:
  RaceInFloat16() {
    for (std::size_t i = 0; i < noise_.size(); ++i) {
      const double uniform = (static_cast<double>(i) + 0.5) / static_cast<double>(noise_.size());
      noise_[i] = rounded(-std::log(-std::log(uniform)));
    }
  }

  std::int32_t operator()(const DrawWeights& weights, std::uint64_t word) {
    if (prefix_ != weights.prefix) remember(weights);
    std::size_t winner = 0;
    float best = -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < scores_.size(); ++i) {
      const float score = scores_[i] + noise_[harness::mixed(word, i) % noise_.size()];
      if (score <= best) continue;
      best = score;
      winner = i;
    }
    return ids_[winner];
  }

 private:
  static float rounded(double value) {
    return harness::rounded_to(DType::float16, static_cast<float>(value));
  }

  void remember(const DrawWeights& weights) {
    prefix_ = weights.prefix;
    scores_.clear();
    ids_.clear();
    for (std::size_t id = 0; id < prefix_.size(); ++id) {
      const RowWeight weight = prefix_[id] - (id == 0 ? 0 : prefix_[id - 1]);
      if (weight == 0) continue;
      scores_.push_back(rounded(std::log(static_cast<double>(weight)) -
                                std::log(static_cast<double>(weights.total()))));
      ids_.push_back(static_cast<std::int32_t>(id));
    }
  }

  std::array<float, 2048> noise_;
  RowWeights prefix_;
  std::vector<float> scores_;
  std::vector<std::int32_t> ids_;
};

// Applies `pick` to calls with logits of the dtype and without supplied random words.
void pick_narrowly(Mutation& mutation, DType dtype,
                   std::function<std::int32_t(const DrawWeights&, std::uint64_t word)> pick) {
  const auto applies = std::make_shared<bool>(false);
  mutation.call = [applies, dtype](fairdraw_batch& batch, Storage&) {
    *applies = batch.dtype == static_cast<std::uint32_t>(dtype) && batch.words == nullptr;
  };
  mutation.pick = [applies, pick = std::move(pick)](const DrawWeights& drawn, std::uint64_t word) {
    return *applies ? pick(drawn, word) : token_of(drawn, word);
  };
}

// Rounds the uniform number of a draw to `dtype`.
void narrow_uniform(Mutation& mutation, DType dtype) {
  pick_narrowly(mutation, dtype, [dtype](const DrawWeights& weights, std::uint64_t word) {
    const float uniform = static_cast<float>(static_cast<double>(word >> 11) * 0x1p-53);
    const double rounded =
        std::min(static_cast<double>(harness::rounded_to(dtype, uniform)), 1 - 0x1p-12);
    return weights.token_at(static_cast<RowWeight>(rounded * static_cast<double>(weights.total())));
  });
}

constexpr Entry kNarrowDraws[] = {
    {"uniform-in-bfloat16", "with logits in bfloat16 the uniform number of a draw is one too",
     By("bets/*/bfloat16/*"),
     [](Mutation& mutation) { narrow_uniform(mutation, DType::bfloat16); }},
    {"uniform-in-float16", "with logits in float16 the uniform number of a draw is one too",
     By("bets/*/float16/*"), [](Mutation& mutation) { narrow_uniform(mutation, DType::float16); }},
    {"noise-in-float16", "with logits in float16 Gumbel noise and scores are float16 too",
     By("chi_squared/*/float16/* bets/*/float16/*"),
     [](Mutation& mutation) { pick_narrowly(mutation, DType::float16, RaceInFloat16()); }},
};

void scale_from(RowWeights& weights, std::size_t first, std::uint64_t tenths) {
  for (std::size_t id = 0; id < weights.size(); ++id) {
    weights[id] = weights[id] * (id < first ? 10 : tenths);
  }
}

constexpr Entry kLargeIds[] = {
    {"ids-from-2-17-drawn-less", "ids from 2^17 are drawn a fifth too rarely",
     [](RowWeights& weights, const Row&) { scale_from(weights, std::size_t{1} << 17, 8); }},
    {"ids-from-2-18-drawn-less", "ids from 2^18 are drawn a fifth too rarely",
     By("binomial/gaussian/v1048576/*"),
     [](RowWeights& weights, const Row&) { scale_from(weights, std::size_t{1} << 18, 8); }},
    {"temperature-ignored-above-2-17", "above 2^17 tokens the temperature is 1 in draws",
     [](RowWeights& weights, const Row& row) {
       if (row.logits.size() > std::size_t{1} << 17) use_temperature(weights, row, 1);
     }},
};

}  // namespace

std::vector<Mutant> sampled_mutants() {
  return joined(
      {mutants_of("bands", "pit/gaussian_wide/v40-250/sampled/*", Base::distribution, kBands),
       mutants_of("memorised-cases", "chi_squared/*/sampled/* pit/*/v40-250/*sampled* b*/sampled*",
                  Base::distribution, kMemorised),
       mutants_of("degrades", "", Base::distribution, kDegrading),
       mutants_of("narrow-draws", "", Base::distribution, kNarrowDraws),
       mutants_of("large-ids", "binomial/*/vmodel-*/sampled/* binomial/*/v202048/*",
                  Base::distribution, kLargeIds)});
}

}  // namespace fairdraw::suites
