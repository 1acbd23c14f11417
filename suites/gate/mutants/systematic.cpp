// Not from a tracker: what goes wrong when one step of a kernel is off by one, or left out.
#include <algorithm>
#include <cmath>
#include <memory>

#include "harness/run/calls/logits_source.h"
#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/catalogue.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;
using Weights = RowWeights;

bool is_greedy(const Row& row) {
  return row.parameters.temperature == 0 || row.parameters.top_k == 1 || row.parameters.top_p == 0;
}

bool filters_k(const Row& row) {
  return row.parameters.top_k > 1 &&
         static_cast<std::size_t>(row.parameters.top_k) < row.logits.size();
}

Mutant of_row(MutantText text, void (*change)(Row&)) {
  return mutated_distribution(std::move(text), [change](Mutation& mutation) {
    mutation.row = [change](Row& row, const Place&) { change(row); };
  });
}

// A mutant of what is drawn, while masks and support sizes stay right. A row that would be left
// with nothing keeps what it has.
Mutant of_weights(MutantText text, void (*change)(Weights&)) {
  return mutated_distribution(std::move(text), [change](Mutation& mutation) {
    mutation.weights = [change](Weights& weights, const Result&) {
      const Weights right = weights;
      change(weights);
      const bool empty =
          std::all_of(weights.begin(), weights.end(), [](RowWeight weight) { return weight == 0; });
      if (empty) weights = right;
    };
  });
}

void lose(Weights& weights, std::size_t period, std::size_t lane) {
  for (std::size_t id = lane; id < weights.size(); id += period) weights[id] = 0;
}

void scale_ends_of_tiles(Weights& weights, std::size_t tile) {
  for (std::size_t id = tile - 1; id < weights.size(); id += tile) weights[id] *= 2;
}

std::vector<Mutant> lost_tokens() {
  const std::string kind = "lost-tokens";
  const std::vector<std::string> flat = {"binomial/gaussian/v1000/none/*",
                                         "chi_squared/gaussian*/v1000/none/*"};
  const std::vector<std::string> fine = {"bets/*"};
  return {
      of_weights({"lane-of-32-lost", "systematic", kind,
                  "ids of one vector lane of 32 are never drawn", flat},
                 [](Weights& weights) { lose(weights, 32, 13); }),
      of_weights({"lane-of-1024-lost", "systematic", kind,
                  "the last thread of every block of 1024 is never drawn", fine},
                 [](Weights& weights) { lose(weights, 1024, 1023); }),
      of_weights({"last-token-lost",
                  "systematic",
                  kind,
                  "the last id is never drawn",
                  {"binomial/gaussian/v1000/none/*", "chi_squared/gaussian/v31/none/*",
                   "chi_squared/gaussian/v2/none/*"}},
                 [](Weights& weights) { weights.back() = 0; }),
      of_weights({"first-token-lost",
                  "systematic",
                  kind,
                  "id 0 is never drawn",
                  {"binomial/gaussian/v1000/none/*", "chi_squared/gaussian/v31/none/*",
                   "chi_squared/gaussian/v2/none/*"}},
                 [](Weights& weights) { weights.front() = 0; }),
      of_weights({"last-tile-lost",
                  "systematic",
                  kind,
                  "the last, partial tile of 4096 ids is never drawn",
                  {"bets/*/v32000/*", "bets/*/v50304/*", "bets/*"}},
                 [](Weights& weights) {
                   if (weights.size() <= 4096) return;
                   const std::size_t first = (weights.size() - 1) / 4096 * 4096;
                   std::fill(weights.begin() + static_cast<std::ptrdiff_t>(first), weights.end(),
                             0U);
                 }),
      of_weights({"tail-past-1000-lost",
                  "systematic",
                  kind,
                  "candidates past the 1000th are never drawn",
                  {"bets/zipf/v131072/*", "bets/*"}},
                 [](Weights& weights) {
                   if (weights.size() <= 1000) return;
                   Weights sorted = weights;
                   std::nth_element(sorted.begin(), sorted.begin() + 999, sorted.end(),
                                    std::greater<>());
                   for (RowWeight& weight : weights) {
                     if (weight < sorted[999]) weight = 0;
                   }
                 }),
      of_weights({"ties-of-maximum-merged",
                  "systematic",
                  kind,
                  "of the tokens that tie for the maximum only the first is drawn",
                  {"chi_squared/ties_at_k/*", "binomial/ties_at_k/*"}},
                 [](Weights& weights) {
                   const auto first = std::max_element(weights.begin(), weights.end());
                   const RowWeight largest = *first;
                   std::replace(first + 1, weights.end(), largest, RowWeight{0});
                 }),
      of_weights(
          {"tile-boundary-doubled",
           "systematic",
           kind,
           "the last token of every tile of 256 counts twice",
           {"bets/*", "binomial/gaussian/v1000/none/*", "chi_squared/gaussian/v1000/none/*"}},
          [](Weights& weights) { scale_ends_of_tiles(weights, 256); }),
      of_weights(
          {"id-plus-one",
           "systematic",
           kind,
           "the id behind the one that was drawn is returned",
           {"support/*/v1000/*"}},
          [](Weights& weights) { std::rotate(weights.begin(), weights.end() - 1, weights.end()); }),
  };
}

std::vector<Mutant> parameters() {
  const std::string kind = "parameters";
  const std::vector<std::string> edges = {"mask/*/v1000/edges"};
  return {
      of_row({"k-plus-one", "systematic", kind, "top_k keeps one more", edges},
             [](Row& row) {
               if (filters_k(row)) ++row.parameters.top_k;
             }),
      of_row({"k-minus-one", "systematic", kind, "top_k keeps one less", edges},
             [](Row& row) {
               if (filters_k(row)) --row.parameters.top_k;
             }),
      of_row({"p-one-percent", "systematic", kind, "top_p is one percent too small", edges},
             [](Row& row) {
               if (row.parameters.top_p < 1) row.parameters.top_p *= 0.99F;
             }),
      mutated_integers({"p-one-ulp",
                        "systematic",
                        kind,
                        "top_p is one float32 too large",
                        {"mask/mass_exactly_p/v31/partial_sums"}},
                       [](Mutation& mutation) {
                         mutation.row = [](Row& row, const Place&) {
                           float& p = row.parameters.top_p;
                           if (p > 0 && p < 1) p = std::nextafter(p, 1.0F);
                         };
                       }),
      of_row({"temperature-one-percent",
              "systematic",
              kind,
              "the temperature is one percent too high",
              {"chi_squared/gaussian_wide/v1000/*", "chi_squared/zipf/v1000/*", "chi_squared/*"}},
             [](Row& row) {
               if (!is_greedy(row)) row.parameters.temperature *= 1.01F;
             }),
      of_row({"temperature-ignored",
              "systematic",
              kind,
              "the temperature is 1",
              {"chi_squared/*/t0.7/*", "chi_squared/*/t5/*", "mask/*/v32000/everyday"}},
             [](Row& row) {
               if (!is_greedy(row)) row.parameters.temperature = 1;
             }),
      mutated_distribution(
          {"min-p-before-temperature",
           "systematic",
           kind,
           "min_p is measured on probabilities at temperature 1",
           {"mask/*/v1000/edges"}},
          [](Mutation& mutation) {
            mutation.row = [](Row& row, const Place&) {
              if (!is_greedy(row) && row.parameters.min_p > 0 && row.parameters.min_p < 1) {
                // exp(d / T') >= min_p with T' = 1 is exp(d / T) >= min_p^(1 / T).
                row.parameters.min_p = std::clamp(
                    std::pow(row.parameters.min_p, 1 / row.parameters.temperature), 0.0F, 1.0F);
              }
            };
          }),
      mutated_integers({"min-p-strict",
                        "systematic",
                        kind,
                        "min_p keeps what is above its threshold, not at it",
                        {"mask/mass_exactly_p/v31/partial_sums"}},
                       [](Mutation& mutation) {
                         mutation.row = [](Row& row, const Place&) {
                           float& p = row.parameters.min_p;
                           if (p > 0 && p < 1) p = std::nextafter(p, 1.0F);
                         };
                       }),
      mutated_integers(
          {"ties-at-k-dropped", "systematic", kind, "top_k keeps exactly k", {"mask/ties_at_k/*"}},
          [](Mutation& mutation) {
            mutation.row = [](Row& row, const Place&) { row.tie_rule = TieRule::lowest_id; };
          }),
      mutated_integers({"tie-rule-ignored",
                        "systematic",
                        kind,
                        "top_k keeps all ties where exactly k is asked for",
                        {"mask/ties_at_k/v1000/edges+lowest_id"}},
                       [](Mutation& mutation) {
                         mutation.row = [](Row& row, const Place&) {
                           row.tie_rule = TieRule::keep_all;
                         };
                       }),
      mutated_integers({"bf16-logits-inside",
                        "systematic",
                        kind,
                        "logits are rounded to bfloat16 on their way",
                        {"mask/*/v1000/edges"}},
                       [](Mutation& mutation) {
                         mutation.row = [](Row& row, const Place&) {
                           for (float& logit : row.logits) logit = to_bf16(logit);
                         };
                       }),
      mutated_distribution({"mask-word-shifted",
                            "systematic",
                            kind,
                            "the bitmask of the row starts one word too late",
                            {"mask/*/v1000/edges/banned"}},
                           [](Mutation& mutation) {
                             mutation.row = [](Row& row, const Place&) {
                               if (row.allowed.size() < 2) return;
                               std::rotate(row.allowed.begin(), row.allowed.begin() + 1,
                                           row.allowed.end());
                             };
                           }),
      mutated_integers({"negative-zero-is-less",
                        "systematic",
                        kind,
                        "logits are compared by their bits: -0 is less than +0",
                        {"metamorphic/ties_at_k/*", "metamorphic/*"}},
                       [](Mutation& mutation) {
                         mutation.row = [](Row& row, const Place&) {
                           for (float& logit : row.logits) {
                             const bool negative_zero = logit == 0 && std::signbit(logit);
                             if (negative_zero && !row.from_probs) logit = -0x1p-149F;
                           }
                         };
                       }),
  };
}

std::vector<Mutant> streams() {
  const std::string kind = "streams";
  const auto of_word =
      [&](const char* name, const char* wrong, std::vector<std::string> expected,
          std::uint64_t (*word)(std::uint64_t, std::uint64_t, std::uint32_t, std::int64_t)) {
        return mutated_distribution({name, "systematic", kind, wrong, std::move(expected)},
                                    [word](Mutation& mutation) { mutation.word = word; });
      };
  return {
      of_word("seed-truncated-to-32-bits", "seeds that differ above bit 31 draw the same",
              {"streams/*"},
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                return harness::random_word(seed & 0xffffffffU, offset, Purpose::draw, index);
              }),
      of_word("offset-high-half-ignored", "offsets that differ above bit 31 draw the same",
              {"streams/*"},
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                return harness::random_word(seed, offset & 0xffffffffU, Purpose::draw, index);
              }),
      of_word("sample-number-ignored", "all samples of an output draw the same",
              {"streams/*", "binomial/gaussian/v1000/none/*"},
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t, std::int64_t) {
                return harness::random_word(seed, offset, Purpose::draw, 0);
              }),
      of_word("offset-added-to-sample-number", "sample 1 at offset 0 is sample 0 at offset 1",
              {"streams/*"},
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                return harness::random_word(seed, 0, Purpose::draw,
                                            index + static_cast<std::uint32_t>(offset));
              }),
      of_word(
          "rows-share-bits", "neighbouring outputs share their random bits",
          {"streams/*", "replay/*"},
          [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t output) {
            const std::uint64_t shared = output % 2 == 1 ? 0 : seed;
            return harness::random_word(shared, offset, Purpose::draw, index);
          }),
      of_word("draws-too-even",
              "words in steps of the golden ratio: every stretch is spread evenly",
              {"chi_squared/gaussian_wide/v1000/none/*", "chi_squared/*", "streams/*"},
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                return seed + (offset + index) * std::uint64_t{0x9e3779b97f4a7c15};
              }),
  };
}

std::vector<Mutant> calls() {
  const std::string kind = "calls";
  const std::vector<std::string> replay = {"replay/*/v31/*", "replay/*/v1000/*"};
  return {
      mutated_distribution({"neighbours-parameters",
                            "systematic",
                            kind,
                            "a row has the parameters of the row before",
                            {"mask/*/v1000/edges"}},
                           [](Mutation& mutation) {
                             mutation.parameters_row = [](const fairdraw_batch&, std::int64_t row) {
                               return std::max<std::int64_t>(row - 1, 0);
                             };
                           }),
      mutated_distribution({"first-parameters-for-all",
                            "systematic",
                            kind,
                            "all rows have the parameters of the first",
                            {"mask/*/v1000/edges"}},
                           [](Mutation& mutation) {
                             mutation.parameters_row = [](const fairdraw_batch&, std::int64_t) {
                               return std::int64_t{0};
                             };
                           }),
      mutated_distribution({"indices-ignored", "systematic", kind,
                            "output i samples row i, whatever indices say", replay},
                           [](Mutation& mutation) {
                             mutation.call = [](fairdraw_batch& batch, Storage& storage) {
                               if (batch.indices == nullptr || batch.rows == 0) return;
                               std::vector<std::int32_t> own;
                               for (std::int64_t i = 0; i < batch.outputs; ++i) {
                                 own.push_back(static_cast<std::int32_t>(i % batch.rows));
                               }
                               batch.indices = storage.keep(std::move(own));
                             };
                           }),
      mutated_distribution({"empty-batch-refused",
                            "systematic",
                            kind,
                            "a call without rows is refused",
                            {"metamorphic/*"}},
                           [](Mutation& mutation) {
                             mutation.refuse = [](const fairdraw_batch& batch) {
                               return batch.rows == 0 ? "no rows" : "";
                             };
                           }),
      mutated_distribution({"support-size-off-by-one",
                            "systematic",
                            kind,
                            "support sizes are one too large",
                            {"mask/*/v31/edges"}},
                           [](Mutation& mutation) {
                             mutation.result = [](Result& result, const Row&, const Place&) {
                               if (result.status == RowStatus::ok) ++result.support_size;
                             };
                           }),
#if defined(__x86_64__)
      mutated_distribution({"leaves-flush-to-zero-on",
                            "systematic",
                            kind,
                            "the caller's floating-point environment comes back changed",
                            {"float_environment/*"}},
                           [](Mutation& mutation) {
                             mutation.finish = [](const fairdraw_batch&) {
                               _mm_setcsr(_mm_getcsr() | (1U << 15));
                             };
                           }),
      mutated_distribution({"follows-callers-rounding",
                            "systematic",
                            kind,
                            "the caller's rounding mode changes which tokens survive",
                            {"float_environment/*"}},
                           [](Mutation& mutation) {
                             const auto mode = std::make_shared<unsigned>(0);
                             mutation.call = [mode](fairdraw_batch&, Storage&) {
                               *mode = _mm_getcsr() & (3U << 13);
                             };
                             mutation.row = [mode](Row& row, const Place&) {
                               if (*mode != 0) row.parameters.top_k = 3;
                             };
                           }),
#endif
  };
}

}  // namespace

std::vector<Mutant> systematic_mutants() {
  return joined({lost_tokens(), parameters(), streams(), calls()});
}

}  // namespace fairdraw::suites
