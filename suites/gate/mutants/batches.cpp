// Rows that know of each other, and what is reported with a token.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;

// The allowed-token mask of every row, without gaps, for a mutant to change.
std::vector<std::uint32_t> allowed_words(const fairdraw_batch& batch) {
  const std::int64_t words = (batch.vocab + 31) / 32;
  std::vector<std::uint32_t> all;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const std::uint32_t* const first = batch.allowed + row * batch.allowed_stride;
    all.insert(all.end(), first, first + words);
  }
  return all;
}

void use_words(fairdraw_batch& batch, Storage& storage, std::vector<std::uint32_t> words) {
  if (words.empty()) return;
  batch.allowed = storage.keep(std::move(words));
  batch.allowed_stride = (batch.vocab + 31) / 32;
}

// Makes every output a row of its own, whose parameters are those of row `output` instead of the
// row that it samples: what a kernel does that indexes parameters by its output.
void parameters_by_output(fairdraw_batch& batch, Storage& storage) {
  if (batch.indices == nullptr || batch.rows == 0) return;
  if (batch.mask != nullptr || batch.probs != nullptr) return;  // these belong to rows
  std::vector<float> temperature, top_p, min_p;
  std::vector<std::int32_t> top_k;
  const std::size_t size = batch.dtype == 0 ? 4 : 2;
  const auto row_bytes = static_cast<std::size_t>(batch.vocab) * size;
  std::vector<std::byte> logits;
  std::vector<std::uint32_t> allowed;
  const std::int64_t words = (batch.vocab + 31) / 32;
  for (std::int64_t output = 0; output < batch.outputs; ++output) {
    const std::int64_t row = batch.indices[output];
    if (row < 0 || row >= batch.rows) return;
    const std::int64_t slot = output % batch.rows;
    temperature.push_back(batch.temperature[slot]);
    top_k.push_back(batch.top_k[slot]);
    top_p.push_back(batch.top_p[slot]);
    min_p.push_back(batch.min_p[slot]);
    const auto* const first = static_cast<const std::byte*>(batch.logits) +
                              static_cast<std::size_t>(row * batch.row_stride) * size;
    logits.insert(logits.end(), first, first + row_bytes);
    if (batch.allowed == nullptr) continue;
    const std::uint32_t* const bits = batch.allowed + row * batch.allowed_stride;
    allowed.insert(allowed.end(), bits, bits + words);
  }
  batch.indices = nullptr;
  batch.rows = batch.outputs;
  batch.row_stride = batch.vocab;
  batch.logits = storage.keep(std::move(logits));
  batch.temperature = storage.keep(std::move(temperature));
  batch.top_k = storage.keep(std::move(top_k));
  batch.top_p = storage.keep(std::move(top_p));
  batch.min_p = storage.keep(std::move(min_p));
  batch.active = nullptr;
  use_words(batch, storage, std::move(allowed));
}

// Rows in the order of their kind: greedy ones first.
std::int64_t sorted_row(const fairdraw_batch& batch, std::int64_t row) {
  std::vector<std::int64_t> order;
  for (const bool greedy : {true, false}) {
    for (std::int64_t r = 0; r < batch.rows; ++r) {
      if ((batch.temperature[r] == 0) == greedy) order.push_back(r);
    }
  }
  return order[static_cast<std::size_t>(row)];
}

std::vector<Mutant> logprobs() {
  const std::string kind = "logprobs";
  return {
      mutated_integers({"logprob-zero-with-spec",
                        "llama.cpp issue #27972",
                        kind,
                        "accepted tokens are reported with log-probability 0",
                        {"probabilities/*"}},
                       [](Mutation& mutation) {
                         mutation.finish = [](const fairdraw_batch& batch) {
                           if (batch.logprob == nullptr) return;
                           std::fill_n(batch.logprob, batch.outputs * batch.num_samples, 0.0F);
                         };
                       }),
      mutated_integers({"logprobs-after-filters",
                        "vLLM issue #9453",
                        kind,
                        "log-probabilities are those after temperature and filters, and declared "
                        "as those before",
                        {"probabilities/*"}},
                       [](Mutation& mutation) {
                         mutation.finish = [](const fairdraw_batch& batch) {
                           if (batch.logprob == nullptr) return;
                           std::copy_n(batch.logprob_filtered, batch.outputs * batch.num_samples,
                                       batch.logprob);
                         };
                       }),
      mutated_integers({"probabilities-before-filters",
                        "systematic",
                        kind,
                        "probabilities are not renormalised over the survivors",
                        {"probabilities/*"}},
                       [](Mutation& mutation) {
                         mutation.probability = [](const Result& row, std::int32_t token) {
                           return static_cast<float>(
                               static_cast<double>(row.weight[static_cast<std::size_t>(token)]) /
                               static_cast<double>(row.total_unfiltered));
                         };
                       }),
  };
}

std::vector<Mutant> dependence() {
  const std::string kind = "batch-dependence";
  const std::vector<std::string> replay = {"replay/*/v31/*", "replay/*/v1000/*"};
  return {
      mutated_distribution({"mask-swap-aliases",
                            "vLLM PR #48419",
                            kind,
                            "swapping two rows through views leaves both with one bitmask",
                            {"mask/*/v1000/edges/banned"}},
                           [](Mutation& mutation) {
                             mutation.call = [](fairdraw_batch& batch, Storage& storage) {
                               if (batch.allowed == nullptr || batch.rows < 2) return;
                               std::vector<std::uint32_t> words = allowed_words(batch);
                               const auto row =
                                   static_cast<std::ptrdiff_t>((batch.vocab + 31) / 32);
                               std::copy(words.begin(), words.begin() + row, words.begin() + row);
                               use_words(batch, storage, std::move(words));
                             };
                           }),
      mutated_integers({"stale-mask-in-recycled-row",
                        "vLLM issue #43894, PR #51890",
                        kind,
                        "a row without a bitmask inherits that of the slot's last request",
                        {"status/*"}},
                       [](Mutation& mutation) {
                         struct Last {
                           std::vector<std::uint32_t> words;
                           std::int64_t rows = 0, vocab = 0;
                         };
                         const auto last = std::make_shared<Last>();
                         mutation.call = [last](fairdraw_batch& batch, Storage& storage) {
                           if (batch.allowed != nullptr) {
                             *last = {allowed_words(batch), batch.rows, batch.vocab};
                           } else if (batch.rows == last->rows && batch.vocab == last->vocab) {
                             use_words(batch, storage, last->words);
                           }
                         };
                       }),
      mutated_integers(
          {"bitmask-init-zeros",
           "vLLM PR #22896, #22963; vllm-gaudi PR #1199",
           kind,
           "in a batch with a bitmask, rows that ban nothing get one that bans everything: token 0",
           {"status/*"}},
          [](Mutation& mutation) {
            mutation.row = [](Row& row, const Place&) {
              const bool free = !row.allowed.empty() &&
                                std::all_of(row.allowed.begin(), row.allowed.end(),
                                            [](std::uint32_t word) { return word == 0xffffffffU; });
              if (!free) return;
              std::fill(row.allowed.begin(), row.allowed.end(), 0U);
              row.allowed[0] = 1;
            };
          }),
      mutated_distribution({"params-in-wrong-order",
                            "lmms-eval PR #1326; vLLM #1179",
                            kind,
                            "parameters are sorted by kind of request, and rows are not",
                            {"mask/*/v1000/edges"}},
                           [](Mutation& mutation) { mutation.parameters_row = sorted_row; }),
      mutated_distribution(
          {"row-stride-assumed", "vLLM #42684, PR #42739; prime-rl #2497; xgrammar PR #699", kind,
           "rows are taken to lie one vocabulary apart, whatever their stride", replay},
          [](Mutation& mutation) {
            mutation.call = [](fairdraw_batch& batch, Storage&) { batch.row_stride = batch.vocab; };
          }),
      mutated_distribution(
          {"thresholds-by-slot-not-row", "FlashInfer issue #5339, PR #5340, #5324", kind,
           "with indices, parameters are those of the output's number and not of the row", replay},
          [](Mutation& mutation) { mutation.call = parameters_by_output; }),
      mutated_integers(
          {"pinned-buffer-race",
           "vLLM PR #25279",
           kind,
           "one row in a thousand still has the parameters that its slot had a call before",
           {"tokens/*/everyday+many", "tokens/*"}},
          [](Mutation& mutation) {
            using Parameters = reference::RowParameters;
            const auto before = std::make_shared<std::map<std::int64_t, Parameters>>();
            const auto count = std::make_shared<std::uint64_t>(0);
            mutation.row = [before, count](Row& row, const Place& place) {
              const Parameters now = row.parameters;
              const auto found = before->find(place.row);
              const bool late = harness::mixed(25279, (*count)++) % 1000 == 0;
              if (late && found != before->end()) row.parameters = found->second;
              before->insert_or_assign(place.row, now);
            };
          }),
      mutated_distribution({"first-token-other-sampler",
                            "vllm-mlx PR #404",
                            kind,
                            "the first token, offset 0, comes from a sampler without filters",
                            {"support/*/v1000/*", "tokens/*"}},
                           [](Mutation& mutation) {
                             mutation.weights = {};
                             const auto first = std::make_shared<bool>(false);
                             mutation.call = [first](fairdraw_batch& batch, Storage&) {
                               *first = batch.outputs > 0 && batch.offset[0] == 0;
                             };
                             mutation.weights = [first](RowWeights& weights, const Result& row) {
                               if (*first) weights = row.weight;
                             };
                           }),
      mutated_distribution({"rng-advance-depends-on-size", "PyTorch issue #90006", kind,
                            "one stream of random numbers is used up row by row, by an amount that "
                            "depends on the batch",
                            replay},
                           [](Mutation& mutation) {
                             const auto outputs = std::make_shared<std::uint64_t>(0);
                             mutation.call = [outputs](fairdraw_batch& batch, Storage&) {
                               *outputs = static_cast<std::uint64_t>(batch.outputs);
                             };
                             mutation.word = [outputs](std::uint64_t seed, std::uint64_t offset,
                                                       std::uint32_t index, std::int64_t) {
                               return harness::random_word(seed, offset + *outputs, Purpose::draw,
                                                           index);
                             };
                           }),
  };
}

}  // namespace

std::vector<Mutant> batch_mutants() { return joined({dependence(), logprobs()}); }

}  // namespace fairdraw::suites
