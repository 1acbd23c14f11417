// Samplers that are right where a table of cases looks: on its rows, sizes and parameters, in
// float32, on ids below 2^17, in the first thousand draws.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "harness/run/calls/logits_source.h"
#include "harness/run/calls/random_words.h"
#include "suites/gate/cases/case.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;
using Weights = RowWeights;

std::uint64_t hash_of(const Weights& weights) {
  std::uint64_t hash = 0;
  for (const RowWeight weight : weights) {
    hash = harness::mixed(hash ^ static_cast<std::uint64_t>(weight),
                          static_cast<std::uint64_t>(weight >> 64));
  }
  return hash;
}

// A mutant of what is drawn alone: masks, sizes of supports and probabilities stay right.
// `change` gives the weights that a row is drawn with; what is not in the mask stays out. It is
// made anew for each sampler, so that what it remembers is the sampler's own.
using Change = std::function<void(Weights&, const Row&, const Place&)>;
using MakeChange = std::function<Change()>;

Mutant drawn_with(MutantText text, const MakeChange& make) {
  return mutated_distribution(std::move(text), [make](Mutation& mutation) {
    const auto wrong = std::make_shared<std::map<std::uint64_t, Weights>>();
    mutation.call = [wrong](fairdraw_batch&, Storage&) { wrong->clear(); };
    mutation.result = [wrong, change = make()](Result& result, const Row& row, const Place& place) {
      if (result.status != RowStatus::ok) return;
      Weights weights = result.weight;
      for (std::size_t id = 0; id < weights.size(); ++id) weights[id] *= result.mask[id];
      Weights right = weights;
      change(weights, row, place);
      for (std::size_t id = 0; id < weights.size(); ++id) weights[id] *= result.mask[id];
      if (weights != right) (*wrong)[hash_of(right)] = std::move(weights);
    };
    mutation.weights = [wrong](Weights& weights, const Result&) {
      const auto found = wrong->find(hash_of(weights));
      if (found != wrong->end()) weights = found->second;
    };
  });
}

Mutant drawn_as(MutantText text, void (*change)(Weights&, const Row&, const Place&)) {
  return drawn_with(std::move(text), [change] { return Change(change); });
}

bool in_band(float value, float low, float high) { return value >= low && value < high; }

void use_temperature(Weights& weights, const Row& row, float temperature) {
  if (row.from_probs || row.processing || row.parameters.temperature == 0) return;
  weights = result_of(row, {.temperature = temperature}).weight;
}

void use_equal_weights(Weights& weights) { std::fill(weights.begin(), weights.end(), 1U); }

std::vector<Mutant> bands() {
  const std::string kind = "bands";
  const std::vector<std::string> temperatures = {"pit/gaussian_wide/v40-250/sampled/*"};
  return {
      drawn_as({"temperatures-next-to-0.8-ignored", "systematic", kind,
                "temperatures between 0.8 and 0.85 count as 1 in draws", temperatures},
               [](Weights& weights, const Row& row, const Place&) {
                 if (in_band(row.parameters.temperature, 0.8F, 0.85F)) {
                   use_temperature(weights, row, 1);
                 }
               }),
      drawn_as({"flat-at-temperatures-of-1.33", "systematic", kind,
                "draws are uniform at temperatures from 1.32 to 1.34", temperatures},
               [](Weights& weights, const Row& row, const Place&) {
                 if (in_band(row.parameters.temperature, 1.32F, 1.34F)) use_equal_weights(weights);
               }),
      drawn_as({"temperatures-in-table-only",
                "systematic",
                kind,
                "temperatures of more than one decimal are a fifth too high in draws",
                {"pit/gaussian_wide/v40-250/sampled/*", "bets/zipf/*sampled*"}},
               [](Weights& weights, const Row& row, const Place&) {
                 const float tenths = 10 * row.parameters.temperature;
                 if (std::abs(tenths - std::round(tenths)) > 0.01F) {
                   use_temperature(weights, row, row.parameters.temperature * 1.2F);
                 }
               }),
      mutated_distribution({"top-p-of-0.63-wrong",
                            "systematic",
                            kind,
                            "top_p between 0.62 and 0.64 is 0.68",
                            {"mask/*/sampled+top_p"}},
                           [](Mutation& mutation) {
                             mutation.row = [](Row& row, const Place&) {
                               if (in_band(row.parameters.top_p, 0.62F, 0.64F)) {
                                 row.parameters.top_p = 0.68F;
                               }
                             };
                           }),
      mutated_distribution({"min-p-of-0.12-wrong",
                            "systematic",
                            kind,
                            "min_p between 0.115 and 0.125 is 0.2",
                            {"mask/*/sampled+min_p"}},
                           [](Mutation& mutation) {
                             mutation.row = [](Row& row, const Place&) {
                               if (in_band(row.parameters.min_p, 0.115F, 0.125F)) {
                                 row.parameters.min_p = 0.2F;
                               }
                             };
                           }),
      mutated_integers({"temperature-of-0.57-off",
                        "systematic",
                        kind,
                        "temperatures between 0.57 and 0.575 are a hundredth too high",
                        {"tokens/*/sampled"}},
                       [](Mutation& mutation) {
                         mutation.row = [](Row& row, const Place&) {
                           float& temperature = row.parameters.temperature;
                           if (in_band(temperature, 0.57F, 0.575F)) temperature *= 1.01F;
                         };
                       }),
  };
}

// Rows of the statistical cases whose rows never change, as a sampler would remember them.
const std::set<std::uint64_t>& known_rows() {
  static const std::set<std::uint64_t> known = [] {
    std::set<std::uint64_t> hashes;
    std::vector<float> row;
    for (const Case& entry : case_table(Suite::gate)) {
      if (!is_statistical(entry.check) || entry.sampled) continue;
      const auto rows =
          harness::family_source(entry.input.family, harness::seed_from_text(entry.id),
                                 entry.input.vocab, entry.input.dtype);
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

std::vector<Mutant> memorised() {
  const std::string kind = "memorised-cases";
  const std::vector<std::string> fresh = {"chi_squared/*/sampled/*", "pit/*/v40-250/*sampled*",
                                          "b*/sampled*"};
  return {
      drawn_as(
          {"right-on-known-rows", "systematic", kind,
           "the rows of the table's distributions are drawn from; of others a uniform token of "
           "the support comes",
           fresh},
          [](Weights& weights, const Row& row, const Place&) {
            if (!is_known(row)) use_equal_weights(weights);
          }),
      drawn_as(
          {"right-on-known-sizes", "systematic", kind,
           "at vocabularies that the table does not have the temperature is 1 in draws", fresh},
          [](Weights& weights, const Row& row, const Place&) {
            if (!is_known_size(row.logits.size())) use_temperature(weights, row, 1);
          }),
      drawn_as({"odd-sizes-uniform", "systematic", kind,
                "draws of vocabularies that are no multiple of 4 are uniform, but for those of the "
                "table",
                fresh},
               [](Weights& weights, const Row& row, const Place&) {
                 if (row.logits.size() % 4 != 0 && !is_known_size(row.logits.size())) {
                   use_equal_weights(weights);
                 }
               }),
      drawn_as({"temperature-of-draws-ignored",
                "systematic",
                kind,
                "the temperature is 1 in draws without filters",
                {"chi_squared/gaussian_wide/v1000/none/t0.7/n100000"}},
               [](Weights& weights, const Row& row, const Place&) {
                 const reference::RowParameters& p = row.parameters;
                 if (p.top_k == 0 && p.top_p == 1 && p.min_p == 0) use_temperature(weights, row, 1);
               }),
  };
}

// After `draws` draws of an instance words keep their first 6 bits.
Mutant worse_after(const std::string& name, std::uint64_t draws, const std::string& wrong,
                   std::vector<std::string> expected) {
  return mutated_distribution(
      {name, "systematic", "degrades", wrong, std::move(expected)}, [draws](Mutation& mutation) {
        const auto made = std::make_shared<std::uint64_t>(0);
        mutation.pick = [made, draws](const DrawWeights& weights, std::uint64_t word) {
          if (++*made > draws) word &= ~std::uint64_t{0} << 58;
          return weights.token_at(weights.position(word));
        };
      });
}

std::vector<Mutant> degrading() {
  return {
      worse_after("coarse-after-1000-draws", 1000, "after 1000 draws the random words have 6 bits",
                  {"pit/*", "chi_squared/*"}),
      worse_after("coarse-after-50000-draws", 50'000,
                  "after 50000 draws the random words have 6 bits", {"chi_squared/*/n100000"}),
      worse_after("coarse-after-200000-draws", 200'000,
                  "after 200000 draws the random words have 6 bits", {"chi_squared/*/n1000000"}),
  };
}

// The draw's uniform number as a value of `dtype`.
std::int32_t pick_with_uniform_in(DType dtype, const DrawWeights& weights, std::uint64_t word) {
  const float uniform = static_cast<float>(static_cast<double>(word >> 11) * 0x1p-53);
  const double rounded =
      std::min(static_cast<double>(harness::rounded_to(dtype, uniform)), 1 - 0x1p-12);
  const auto total = static_cast<double>(weights.total());
  return weights.token_at(static_cast<RowWeight>(rounded * total));
}

// Gumbel's race in float16: the uniform number has 11 bits, and noise and scores are rounded.
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

Mutant narrow(MutantText text, DType dtype,
              const std::function<std::int32_t(const DrawWeights&, std::uint64_t word)>& picked) {
  return mutated_distribution(std::move(text), [dtype, picked](Mutation& mutation) {
    const auto applies = std::make_shared<bool>(false);
    mutation.call = [applies, dtype](fairdraw_batch& batch, Storage&) {
      *applies = batch.dtype == static_cast<std::uint32_t>(dtype) && batch.words == nullptr;
    };
    mutation.pick = [applies, pick = picked](const DrawWeights& weights, std::uint64_t word) {
      return *applies ? pick(weights, word) : weights.token_at(weights.position(word));
    };
  });
}

std::vector<Mutant> narrow_types() {
  const std::string kind = "narrow-draws";
  return {
      narrow({"uniform-in-bfloat16",
              "systematic",
              kind,
              "with logits in bfloat16 the uniform number of a draw is one too",
              {"bets/*/bfloat16/*"}},
             DType::bfloat16,
             [](const DrawWeights& weights, std::uint64_t word) {
               return pick_with_uniform_in(DType::bfloat16, weights, word);
             }),
      narrow({"uniform-in-float16",
              "systematic",
              kind,
              "with logits in float16 the uniform number of a draw is one too",
              {"bets/*/float16/*"}},
             DType::float16,
             [](const DrawWeights& weights, std::uint64_t word) {
               return pick_with_uniform_in(DType::float16, weights, word);
             }),
      narrow({"noise-in-float16",
              "systematic",
              kind,
              "with logits in float16 Gumbel noise and scores are float16 too",
              {"chi_squared/*/float16/*", "bets/*/float16/*"}},
             DType::float16, RaceInFloat16()),
  };
}

void scale_from(Weights& weights, std::size_t first, std::uint64_t tenths) {
  for (std::size_t id = 0; id < weights.size(); ++id) {
    weights[id] = weights[id] * (id < first ? 10 : tenths);
  }
}

std::vector<Mutant> large_ids() {
  const std::string kind = "large-ids";
  return {
      drawn_as({"ids-from-2-17-drawn-less",
                "systematic",
                kind,
                "ids from 2^17 are drawn a fifth too rarely",
                {"bets/gaussian/v131073-262143/*", "binomial/*/v202048/*"}},
               [](Weights& weights, const Row&, const Place&) {
                 scale_from(weights, std::size_t{1} << 17, 8);
               }),
      drawn_as({"ids-from-2-18-drawn-less",
                "systematic",
                kind,
                "ids from 2^18 are drawn a fifth too rarely",
                {"binomial/gaussian/v1048576/*"}},
               [](Weights& weights, const Row&, const Place&) {
                 scale_from(weights, std::size_t{1} << 18, 8);
               }),
      drawn_as({"temperature-ignored-above-2-17",
                "systematic",
                kind,
                "above 2^17 tokens the temperature is 1 in draws",
                {"bets/gaussian/v131073-262143/*", "binomial/*/v202048/*"}},
               [](Weights& weights, const Row& row, const Place&) {
                 if (row.logits.size() > std::size_t{1} << 17) use_temperature(weights, row, 1);
               }),
  };
}

}  // namespace

std::vector<Mutant> sampled_mutants() {
  return joined({bands(), memorised(), degrading(), narrow_types(), large_ids()});
}

}  // namespace fairdraw::suites
