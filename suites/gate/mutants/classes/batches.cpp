// Mutants whose rows affect each other, whose reported values are wrong, or that are wrong at one
// batch size.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

// Returns the masks of allowed tokens of all rows, without gaps between rows, so that a mutant can
// change them.
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

// Returns the row at position `row` in an order that puts greedy rows first.
std::int64_t sorted_row(const fairdraw_batch& batch, std::int64_t row) {
  std::vector<std::int64_t> order;
  for (const bool greedy : {true, false}) {
    for (std::int64_t r = 0; r < batch.rows; ++r) {
      if ((batch.temperature[r] == 0) == greedy) order.push_back(r);
    }
  }
  return order[static_cast<std::size_t>(row)];
}

constexpr Entry kLogprobs[] = {
    {"logprob-zero-with-spec", "llama.cpp issue #27972",
     "accepted tokens are reported with log-probability 0",
     [](const fairdraw_batch& batch) {
       if (batch.logprob == nullptr) return;
       std::fill_n(batch.logprob, batch.outputs * batch.num_samples, 0.0F);
     }},
    {"logprobs-after-filters", "vLLM issue #9453",
     "log-probabilities are those after temperature and filters, and declared as those before",
     [](const fairdraw_batch& batch) {
       if (batch.logprob == nullptr) return;
       std::copy_n(batch.logprob_filtered, batch.outputs * batch.num_samples, batch.logprob);
     }},
    {"probabilities-before-filters", "probabilities are not renormalised over the survivors",
     [](Mutation& mutation) {
       mutation.probability = [](const Result& row, std::int32_t token) {
         const auto weight = static_cast<double>(row.weight[static_cast<std::size_t>(token)]);
         return static_cast<float>(weight / static_cast<double>(row.total_unfiltered));
       };
     }},
};

constexpr Entry kDependence[] = {
    {"mask-swap-aliases", "vLLM PR #48419",
     "swapping two rows through views leaves both with one bitmask",
     By("mask/*/v1000/edges/banned"),
     [](fairdraw_batch& batch, Storage& storage) {
       if (batch.allowed == nullptr || batch.rows < 2) return;
       std::vector<std::uint32_t> words = allowed_words(batch);
       const auto row = static_cast<std::ptrdiff_t>((batch.vocab + 31) / 32);
       std::copy(words.begin(), words.begin() + row, words.begin() + row);
       use_words(batch, storage, std::move(words));
     }},
    {"stale-mask-in-recycled-row", "vLLM issue #43894, PR #51890",
     "a row without a bitmask inherits that of the slot's last request",
     By("status/*", Base::integers),
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
     }},
    {"bitmask-init-zeros", "vLLM PR #22896, #22963; vllm-gaudi PR #1199",
     "in a batch with a bitmask, rows that ban nothing get one that bans everything: token 0",
     By("status/*", Base::integers),
     [](Row& row) {
       const auto allows_all = [](std::uint32_t word) { return word == 0xffffffffU; };
       if (row.allowed.empty() || !std::ranges::all_of(row.allowed, allows_all)) return;
       std::ranges::fill(row.allowed, 0U);
       row.allowed[0] = 1;
     }},
    {"params-in-wrong-order", "lmms-eval PR #1326; vLLM #1179",
     "parameters are sorted by kind of request, and rows are not", By("mask/*/v1000/edges"),
     [](Mutation& mutation) { mutation.parameters_row = sorted_row; }},
    {"row-stride-assumed", "vLLM #42684, PR #42739; prime-rl #2497; xgrammar PR #699",
     "rows are taken to lie one vocabulary apart, whatever their stride",
     [](fairdraw_batch& batch) { batch.row_stride = batch.vocab; }},
    // Makes every output a row of its own. The parameters of the row are those of row `output`
    // instead of the sampled row, as in a kernel that indexes parameters by output.
    {"thresholds-by-slot-not-row", "FlashInfer issue #5339, PR #5340, #5324",
     "with indices, parameters are those of the output's number and not of the row",
     [](fairdraw_batch& batch, Storage& storage) {
       if (batch.indices == nullptr || batch.rows == 0) return;
       // masks and probabilities belong to rows
       if (batch.mask != nullptr || batch.probs != nullptr) return;
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
     }},
    {"pinned-buffer-race", "vLLM PR #25279",
     "one row in a thousand still has the parameters that its slot had a call before",
     By("tokens/*/everyday+many tokens/*", Base::integers),
     [](Mutation& mutation) {
       const auto before = std::make_shared<std::map<std::int64_t, Parameters>>();
       const auto count = std::make_shared<std::uint64_t>(0);
       mutation.row = [before, count](Row& row, const Place& place) {
         const Parameters now = row.parameters;
         const auto found = before->find(place.row);
         const bool late = harness::mixed(25279, (*count)++) % 1000 == 0;
         if (late && found != before->end()) row.parameters = found->second;
         before->insert_or_assign(place.row, now);
       };
     }},
    {"first-token-other-sampler", "vllm-mlx PR #404",
     "the first token, offset 0, comes from a sampler without filters",
     By("support/*/v1000/* tokens/*"),
     [](const fairdraw_batch& batch) { return batch.outputs > 0 && batch.offset[0] == 0; }},
    {"rng-advance-depends-on-size", "PyTorch issue #90006",
     "one stream of random numbers is used up row by row, by an amount that depends on the batch",
     [](const WordKey& of) {
       const auto outputs = static_cast<std::uint64_t>(of.call->outputs);
       return draw_word(of, of.seed, of.offset + outputs, of.index);
     }},
};

// Mutants whose kernels are chosen by the number of rows. The kernel for small batches is right,
// and another kernel is wrong.

// Keeps only the first of the tokens that tie with the last kept token.
void lose_ties(Result& result, const Row& row) {
  std::vector<Candidate> list = ranked(result, row);
  if (result.status != RowStatus::ok || list.size() < 2) return;
  const auto first = std::ranges::find(list, list.back().value, &Candidate::value);
  list.erase(first + 1, list.end());
  keep_only(result, list);
}

// Bugs at certain batch sizes, each on one sampler of every claim that can reveal the bug. Without
// seeds, batches_law/gaussian_wide/* detects the bug, unless the row of the table names other
// cases.
constexpr Entry kBatchSizes[] = {
    {"last-tile-from-64-rows",
     "from 64 rows on a kernel is used that leaves out the last, partial tile of 256",
     [](Row& row, const Place& place) {
       if (place.call->rows >= 64) drop_from(row, row.logits.size() / 256 * 256);
     }},
    {"first-temperature-beyond-132-rows",
     "rows beyond the first for each multiprocessor, of 132, have the temperature of row 0",
     [](fairdraw_batch& batch, Storage& storage) {
       if (batch.rows <= 132) return;
       std::vector<float> temperature(batch.temperature, batch.temperature + batch.rows);
       std::fill(temperature.begin() + 132, temperature.end(), temperature.front());
       batch.temperature = storage.keep(std::move(temperature));
     }},
    {"split-row-loses-ties",
     "a row alone is split over blocks, and of ties at the boundary one block's first stays",
     By("batches_law/ties_at_k/*"),
     [](Result& result, const Row& row, const Place& place) {
       const bool filters = row.parameters.top_k > 1 || row.parameters.top_p < 1;
       const bool split = place.call->rows == 1 && row.parameters.temperature != 0;
       if (filters && split) lose_ties(result, row);
     }},
    {"row-number-of-8-bits", "parameters are looked up by the row's number in 8 bits",
     [](Mutation& mutation) {
       mutation.parameters_row = [](const fairdraw_batch&, std::int64_t row) { return row % 256; };
     }},
    {"grid-of-512-rows", "the grid ends at 512 rows: those behind are not drawn",
     [](const fairdraw_batch& batch) {
       for (std::int64_t output = 512; output < batch.outputs; ++output) {
         std::fill_n(batch.tokens + output * batch.num_samples, batch.num_samples, 0);
       }
     }},
    {"nucleus-off-in-groups-of-three",
     "where the rows are a multiple of 3 and above 64 the nucleus is left out",
     [](Row& row, const Place& place) {
       if (place.call->rows > 64 && place.call->rows % 3 == 0) row.parameters.top_p = 1;
     }},
};

// Bugs at medium batch sizes, in features that `batches` does not use: strided rows,
// log-probabilities, the caller's float environment, signed zeros, bad rows, drafted tokens. Below
// 128 rows, and from 16384 rows on, the kernel is right.
constexpr std::int64_t kMedium = 128, kLarge = 16384;

bool is_medium(std::int64_t rows) { return rows >= kMedium && rows < kLarge; }

// Gives each row from number kMedium on the values of the row kMedium rows earlier.
template <class T>
const T* repeated(const T* values, std::int64_t rows, Storage& storage) {
  std::vector<T> all(values, values + rows);
  for (std::size_t row = kMedium; row < all.size(); ++row) all[row] = all[row - kMedium];
  return storage.keep(std::move(all));
}

constexpr Entry kMediumBatches[] = {
    {"row-stride-assumed-from-128-rows",
     "from 128 rows on rows are taken to lie one vocabulary apart",
     By("replay/*/b129", Base::distribution),
     [](fairdraw_batch& batch) {
       if (is_medium(batch.rows)) batch.row_stride = batch.vocab;
     }},
    {"top-n-short-from-128-rows", "rows from the 128th on have one token less among the top n",
     By("logprobs/*/b129"),
     [](const fairdraw_batch& batch) {
       if (!is_medium(batch.rows) || batch.report_top_ids == nullptr || batch.top_n == 0) return;
       for (std::int64_t output = kMedium; output < batch.outputs; ++output) {
         const std::int64_t last = (output + 1) * batch.top_n - 1;
         batch.report_top_ids[last] = -1;
         batch.report_top_values[last] = kOut;
       }
     }},
    // From 128 rows on, the threads of a pool have the caller's floating-point modes.
    {"callers-rounding-from-128-rows",
     "from 128 rows on the caller's rounding mode changes the filter",
     By("float_environment/*/b129", Base::distribution),
     [](Mutation& mutation) {
       const auto rounds_up = std::make_shared<bool>(false);
       mutation.call = [rounds_up](fairdraw_batch&, Storage&) {
         const volatile float tiny = 0x1p-40F;
         *rounds_up = 1 + tiny > 1;
       };
       mutation.row = [rounds_up](Row& row, const Place& place) {
         if (is_medium(place.call->rows) && *rounds_up) row.parameters.top_k = 3;
       };
     }},
    {"minus-zero-draws-from-128-rows", "from 128 rows on a temperature of -0 is not greedy",
     By("metamorphic/*/b129"),
     [](Row& row, const Place& place) {
       const float temperature = row.parameters.temperature;
       const bool is_minus_zero = temperature == 0 && std::signbit(temperature);
       if (is_medium(place.call->rows) && is_minus_zero) row.parameters.temperature = 1;
     }},
    {"temperature-not-checked-from-128-rows",
     "from 128 rows on a negative temperature, or none that is a number, is 1", By("status/*/b129"),
     [](Row& row, const Place& place) {
       const float temperature = row.parameters.temperature;
       const bool good = temperature >= 0 && std::isfinite(temperature);
       if (is_medium(place.call->rows) && !good) row.parameters.temperature = 1;
     }},
    {"chain-seeds-repeat-from-128-chains", "chain 128 has the seed of chain 0", By("chain/*/b129"),
     [](fairdraw_chain& call, Storage& storage) {
       const bool applies = is_medium(call.batch) && call.seed_is_scalar == 0;
       if (applies) call.seed = repeated(call.seed, call.batch, storage);
     }},
    {"verify-temperatures-repeat-from-128-requests", "request 128 has the temperature of request 0",
     By("verify/*/b129"),
     [](fairdraw_verification& call, Storage& storage) {
       if (!is_medium(call.batch)) return;
       call.temperature = repeated(call.temperature, call.batch, storage);
     }},
};

}  // namespace

std::vector<Mutant> batch_mutants() {
  return joined({mutants_of("batch-dependence", "replay/*/v31/* replay/*/v1000/*",
                            Base::distribution, kDependence),
                 mutants_of("logprobs", "probabilities/*", Base::integers, kLogprobs)});
}

std::vector<Mutant> batch_size_mutants() {
  std::vector<Mutant> all = mutants_of("batch-size", "", Base::integers, kMediumBatches);
  for (const Entry& entry : kBatchSizes) {
    const char* const by_law = entry.by.cases ? entry.by.cases : "batches_law/gaussian_wide/*";
    all.push_back(mutant_of("batch-size", "", entry, "batches/*", Base::integers));
    all.push_back(mutant_of("batch-size", "tokens-", entry, "batches/*", Base::tokens));
    all.push_back(mutant_of("batch-size", "engine-", entry, by_law, Base::engine));
  }
  return all;
}

}  // namespace fairdraw::suites
