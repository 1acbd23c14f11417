// Mutants that are right at the sizes of a fixed case table, and wrong at one model's vocabulary,
// in a band of sizes, or from one size on.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "harness/run/calls/logits_source.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

void draw_uniformly_at(std::size_t vocab, RowWeights& weights, const Row& row) {
  if (row.logits.size() == vocab) std::ranges::fill(weights, 1U);
}

bool lies_in(std::size_t vocab, std::size_t first, std::size_t last) {
  return vocab >= first && vocab <= last;
}

// Keeps the `kept` largest logits, and those that tie with the last of them.
void prefilter(std::size_t kept, Row& row) {
  std::vector<float> values = row.logits;
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(kept);
  std::nth_element(values.begin(), place, values.end(), std::greater());
  for (float& logit : row.logits) {
    if (logit < *place) logit = row.from_probs ? 0.0F : kOut;
  }
}

float in_float16(double value) {
  return harness::rounded_to(DType::float16, static_cast<float>(value));
}

// Applies top_p with a running sum in float16, of weights whose maximum is 1.
void sum_in_float16(Result& result, const Row& row) {
  const bool filters = !is_greedy(row) && row.parameters.top_p < 1;
  if (result.status != RowStatus::ok || !filters || row.logits.size() <= 65'536) return;
  result = result_with(row, [](Parameters& p) { p.top_p = 1; });
  const std::vector<Candidate> list = ranked(result, row);
  const auto largest = static_cast<double>(list.front().weight);
  const auto weight = [&](const Candidate& one) {
    return static_cast<double>(one.weight) / largest;
  };
  float total = 0, sum = 0;
  for (const Candidate& one : list) total = in_float16(static_cast<double>(total) + weight(one));
  const float needed = in_float16(static_cast<double>(row.parameters.top_p * total));
  std::size_t kept = 0;
  while (kept < list.size() && sum < needed) {
    sum = in_float16(static_cast<double>(sum) + weight(list[kept++]));
  }
  keep_only(result, {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(kept)});
}

constexpr Entry kVocabularies[] = {
    {"uniform-at-128256", "draws of 128256 tokens are uniform over what the filters keep",
     By("binomial/*/vmodel-*/sampled/*"),
     [](RowWeights& weights, const Row& row) { draw_uniformly_at(128'256, weights, row); }},
    {"last-tile-lost-at-151936", "of 151936 tokens the last 384, no whole tile of 1024, are lost",
     By("boundaries/*/vmodel-*"),
     [](Row& row) {
       if (row.logits.size() == 151'936) drop_from(row, 151'552);
     }},
    {"wrong-from-7000-to-16000", "from 7000 to 16000 tokens the temperature is half of what it is",
     By("binomial/*/v7000-16000/*"),
     [](Parameters& p, std::size_t vocab) {
       if (lies_in(vocab, 7000, 16'000)) p.temperature *= 0.5F;
     }},
    {"wrong-from-33000-to-49000",
     "from 33000 to 49000 tokens ids of a whole vector of 4 are shifted",
     By("binomial/*/v33000-49000/*"),
     [](RowWeights& weights, const Row& row) {
       if (!lies_in(row.logits.size(), 33'000, 49'000)) return;
       std::rotate(weights.begin(), weights.begin() + 1, weights.end());
     }},
    {"top-p-in-float16-above-65536", "above 65536 tokens the sums of top_p are float16",
     By("boundaries/*/vmodel-* binomial/*/vmodel-*/sampled+top_p/*"), sum_in_float16},
    {"top-k-of-1024-above-65536", "above 65536 tokens top_k is at most 1024 and never off",
     By("binomial/*/vmodel-*/sampled/*"),
     [](Parameters& p, std::size_t vocab) {
       if (vocab > 65'536 && p.temperature != 0 && (p.top_k <= 0 || p.top_k > 1024)) {
         p.top_k = 1024;
       }
     }},
    {"prefilter-above-3000", "above 3000 tokens only the 2048 largest logits are looked at",
     By("binomial/*/v7000-16000/* binomial/*/vmodel-*/sampled/*"),
     [](Row& row) {
       if (row.logits.size() > 3000) prefilter(2048, row);
     }},
    {"batches-of-33-at-152064",
     "of 152064 tokens in batches of 33 rows and more all temperatures are that of the first row",
     By("batches/*/vmodel-*", Base::vllm_cdf),
     [](fairdraw_batch& batch, Storage& storage) {
       if (batch.vocab != 152'064 || batch.rows < 33) return;
       batch.temperature = storage.keep(
           std::vector<float>(static_cast<std::size_t>(batch.rows), batch.temperature[0]));
     }},
    {"seed-by-place-at-129280", "of 129280 tokens the place in the batch is added to the seed",
     By("replay/*/vmodel-*", Base::vllm_cdf),
     [](fairdraw_batch& batch, Storage& storage) {
       if (batch.vocab != 129'280 || batch.seed_is_scalar != 0) return;
       std::vector<std::uint64_t> seeds(batch.seed, batch.seed + batch.outputs);
       for (std::size_t i = 0; i < seeds.size(); ++i) seeds[i] += i;
       batch.seed = storage.keep(std::move(seeds));
     }},
    {"chain-ids-of-17-bits-at-202048", "of 202048 tokens drafted ids are kept in 17 bits",
     By("chain/*/vmodel-*", Base::integers),
     [](Chain& chain, std::size_t i) {
       if (chain.vocab == 202'048) chain.draft_tokens[i] &= 0x1ffff;
     }},
};

}  // namespace

std::vector<Mutant> vocabulary_mutants() {
  return mutants_of("vocabularies", "", Base::tokens, kVocabularies);
}

}  // namespace fairdraw::suites
