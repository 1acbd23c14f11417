// Systematic mutants have no issue as their source: one step of a kernel is off by one, or is left
// out.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "suites/gate/mutants/table.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fairdraw::suites {
namespace {

void lose(RowWeights& weights, std::size_t period, std::size_t lane) {
  for (std::size_t id = lane; id < weights.size(); id += period) weights[id] = 0;
}

void scale_ends_of_tiles(RowWeights& weights, std::size_t tile) {
  for (std::size_t id = tile - 1; id < weights.size(); id += tile) weights[id] *= 2;
}

constexpr Entry kLostTokens[] = {
    {"lane-of-32-lost", "ids of one vector lane of 32 are never drawn",
     By("binomial/gaussian/v1000/none/* chi_squared/gaussian*/v1000/none/*"),
     [](RowWeights& weights) { lose(weights, 32, 13); }},
    {"lane-of-1024-lost", "the last thread of every block of 1024 is never drawn", By("bets/*"),
     [](RowWeights& weights) { lose(weights, 1024, 1023); }},
    {"last-token-lost", "the last id is never drawn",
     [](RowWeights& weights) { weights.back() = 0; }},
    {"first-token-lost", "id 0 is never drawn", [](RowWeights& weights) { weights.front() = 0; }},
    {"last-tile-lost", "the last, partial tile of 4096 ids is never drawn",
     By("bets/*/v32000/* bets/*/v50304/* bets/*"),
     [](RowWeights& weights) {
       if (weights.size() <= 4096) return;
       const std::size_t first = (weights.size() - 1) / 4096 * 4096;
       std::fill(weights.begin() + static_cast<std::ptrdiff_t>(first), weights.end(), 0U);
     }},
    {"tail-past-1000-lost", "candidates past the 1000th are never drawn",
     By("bets/zipf/v131072/* bets/*"),
     [](RowWeights& weights) {
       if (weights.size() <= 1000) return;
       RowWeights sorted = weights;
       std::nth_element(sorted.begin(), sorted.begin() + 999, sorted.end(), std::greater<>());
       for (RowWeight& weight : weights) {
         if (weight < sorted[999]) weight = 0;
       }
     }},
    {"ties-of-maximum-merged", "of the tokens that tie for the maximum only the first is drawn",
     By("chi_squared/ties_at_k/* binomial/ties_at_k/*"),
     [](RowWeights& weights) {
       const auto first = std::ranges::max_element(weights);
       const RowWeight largest = *first;
       std::replace(first + 1, weights.end(), largest, RowWeight{0});
     }},
    {"tile-boundary-doubled", "the last token of every tile of 256 counts twice",
     By("bets/* binomial/gaussian/v1000/none/* chi_squared/gaussian/v1000/none/*"),
     [](RowWeights& weights) { scale_ends_of_tiles(weights, 256); }},
    {"id-plus-one", "the id behind the one that was drawn is returned", By("support/*/v1000/*"),
     [](RowWeights& weights) { std::rotate(weights.begin(), weights.end() - 1, weights.end()); }},
};

constexpr Entry kParameters[] = {
    {"k-plus-one", "top_k keeps one more",
     [](Row& row) {
       if (filters_by_k(row)) ++row.parameters.top_k;
     }},
    {"k-minus-one", "top_k keeps one less",
     [](Row& row) {
       if (filters_by_k(row)) --row.parameters.top_k;
     }},
    {"p-one-percent", "top_p is one percent too small",
     [](Parameters& p) {
       if (p.top_p < 1) p.top_p *= 0.99F;
     }},
    {"p-one-ulp", "top_p is one float32 too large",
     By("mask/mass_exactly_p/v31/partial_sums", Base::integers),
     [](Row& row) {
       float& p = row.parameters.top_p;
       if (p > 0 && p < 1) p = std::nextafter(p, 1.0F);
     }},
    {"temperature-one-percent", "the temperature is one percent too high",
     By("chi_squared/gaussian_wide/v1000/* chi_squared/zipf/v1000/* chi_squared/*"),
     [](Row& row) {
       if (!is_greedy(row)) row.parameters.temperature *= 1.01F;
     }},
    {"temperature-ignored", "the temperature is 1",
     By("chi_squared/*/t0.7/* chi_squared/*/t5/* mask/*/v32000/everyday"),
     [](Row& row) {
       if (!is_greedy(row)) row.parameters.temperature = 1;
     }},
    {"min-p-before-temperature", "min_p is measured on probabilities at temperature 1",
     [](Row& row) {
       if (!is_greedy(row) && row.parameters.min_p > 0 && row.parameters.min_p < 1) {
         // exp(d / T') >= min_p with T' = 1 is the same condition as exp(d / T) >= min_p^(1 / T).
         row.parameters.min_p =
             std::clamp(std::pow(row.parameters.min_p, 1 / row.parameters.temperature), 0.0F, 1.0F);
       }
     }},
    {"min-p-strict", "min_p keeps what is above its threshold, not at it",
     By("mask/mass_exactly_p/v31/partial_sums", Base::integers),
     [](Row& row) {
       float& p = row.parameters.min_p;
       if (p > 0 && p < 1) p = std::nextafter(p, 1.0F);
     }},
    {"ties-at-k-dropped", "top_k keeps exactly k", By("mask/ties_at_k/*", Base::integers),
     [](Row& row) { row.tie_rule = TieRule::lowest_id; }},
    {"tie-rule-ignored", "top_k keeps all ties where exactly k is asked for",
     By("mask/ties_at_k/v1000/edges+lowest_id", Base::integers),
     [](Row& row) { row.tie_rule = TieRule::keep_all; }},
    {"bf16-logits-inside", "logits are rounded to bfloat16 on their way", Base::integers,
     [](Row& row) {
       for (float& logit : row.logits) logit = to_bf16(logit);
     }},
    {"mask-word-shifted", "the bitmask of the row starts one word too late",
     By("mask/*/v1000/edges/banned"),
     [](Row& row) {
       if (row.allowed.size() < 2) return;
       std::rotate(row.allowed.begin(), row.allowed.begin() + 1, row.allowed.end());
     }},
    {"negative-zero-is-less", "logits are compared by their bits: -0 is less than +0",
     By("metamorphic/ties_at_k/* metamorphic/*", Base::integers),
     [](Row& row) {
       for (float& logit : row.logits) {
         const bool negative_zero = logit == 0 && std::signbit(logit);
         if (negative_zero && !row.from_probs) logit = -0x1p-149F;
       }
     }},
};

constexpr Entry kStreams[] = {
    {"seed-truncated-to-32-bits", "seeds that differ above bit 31 draw the same",
     [](const WordKey& of) { return draw_word(of, of.seed & 0xffffffffU, of.offset, of.index); }},
    {"offset-high-half-ignored", "offsets that differ above bit 31 draw the same",
     [](const WordKey& of) { return draw_word(of, of.seed, of.offset & 0xffffffffU, of.index); }},
    {"sample-number-ignored", "all samples of an output draw the same",
     By("streams/* binomial/gaussian/v1000/none/*"),
     [](const WordKey& of) { return draw_word(of, of.seed, of.offset, 0); }},
    {"offset-added-to-sample-number", "sample 1 at offset 0 is sample 0 at offset 1",
     [](const WordKey& of) {
       return draw_word(of, of.seed, 0, of.index + static_cast<std::uint32_t>(of.offset));
     }},
    {"rows-share-bits", "neighbouring outputs share their random bits", By("streams/* replay/*"),
     [](const WordKey& of) {
       const std::uint64_t shared = of.output % 2 == 1 ? 0 : of.seed;
       return draw_word(of, shared, of.offset, of.index);
     }},
    {"draws-too-even", "words in steps of the golden ratio: every stretch is spread evenly",
     By("chi_squared/gaussian_wide/v1000/none/* chi_squared/* streams/*"),
     [](const WordKey& of) {
       return of.seed + (of.offset + of.index) * std::uint64_t{0x9e3779b97f4a7c15};
     }},
};

constexpr Entry kCalls[] = {
    {"neighbours-parameters", "a row has the parameters of the row before",
     [](Mutation& mutation) {
       mutation.parameters_row = [](const fairdraw_batch&, std::int64_t row) {
         return std::max<std::int64_t>(row - 1, 0);
       };
     }},
    {"first-parameters-for-all", "all rows have the parameters of the first",
     [](Mutation& mutation) {
       mutation.parameters_row = [](const fairdraw_batch&, std::int64_t) {
         return std::int64_t{0};
       };
     }},
    {"indices-ignored", "output i samples row i, whatever indices say",
     By("replay/*/v31/* replay/*/v1000/*"),
     [](fairdraw_batch& batch, Storage& storage) { change_indices(batch, storage, own_row); }},
    {"empty-batch-refused", "a call without rows is refused", By("metamorphic/*"),
     [](Mutation& mutation) {
       mutation.refuse = [](const fairdraw_batch& batch) {
         return batch.rows == 0 ? "no rows" : "";
       };
     }},
    {"support-size-off-by-one", "support sizes are one too large", By("mask/*/v31/edges"),
     [](Result& result, const Row&) {
       if (result.status == RowStatus::ok) ++result.support_size;
     }},
#if defined(__x86_64__)
    {"leaves-flush-to-zero-on", "the caller's floating-point environment comes back changed",
     By("float_environment/*"),
     [](const fairdraw_batch&) { _mm_setcsr(_mm_getcsr() | (1U << 15)); }},
    {"follows-callers-rounding", "the caller's rounding mode changes which tokens survive",
     By("float_environment/*"),
     [](Mutation& mutation) {
       const auto mode = std::make_shared<unsigned>(0);
       mutation.call = [mode](fairdraw_batch&, Storage&) { *mode = _mm_getcsr() & (3U << 13); };
       mutation.row = [mode](Row& row, const Place&) {
         if (*mode != 0) row.parameters.top_k = 3;
       };
     }},
#endif
};

}  // namespace

std::vector<Mutant> systematic_mutants() {
  return joined({mutants_of("lost-tokens",
                            "binomial/gaussian/v1000/none/* chi_squared/gaussian/v31/none/* "
                            "chi_squared/gaussian/v2/none/*",
                            Base::distribution, kLostTokens),
                 mutants_of("parameters", "mask/*/v1000/edges", Base::distribution, kParameters),
                 mutants_of("streams", "streams/*", Base::distribution, kStreams),
                 mutants_of("calls", "mask/*/v1000/edges", Base::distribution, kCalls)});
}

}  // namespace fairdraw::suites
