// Mutants of samplers that have a random generator of their own, as most engines do. No draw can be
// repeated, so a bug is visible only in forbidden tokens or in the distribution.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

// Replaces the logits of every row by those of the previous row.
void shift_logits(fairdraw_batch& batch, Storage& storage, bool (*applies)(const fairdraw_batch&)) {
  if (batch.rows < 2 || batch.dtype != 0 || !applies(batch)) return;
  const auto* const logits = static_cast<const float*>(batch.logits);
  std::vector<float> shifted;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const float* const from = logits + std::max<std::int64_t>(row - 1, 0) * batch.row_stride;
    shifted.insert(shifted.end(), from, from + batch.vocab);
  }
  batch.logits = storage.keep(std::move(shifted));
  batch.row_stride = batch.vocab;
}

constexpr Entry kGenerators[] = {
    {"generator-row-stride-assumed", "vLLM #42684, prime-rl #2497",
     "rows are taken to lie one vocabulary apart, whatever their stride",
     [](fairdraw_batch& batch) { batch.row_stride = batch.vocab; }},
    {"generator-misaligned-rows-shifted",
     "rows that do not start at a multiple of 16 bytes are read from the one below",
     [](fairdraw_batch& batch) {
       const auto address = reinterpret_cast<std::uintptr_t>(batch.logits);
       const std::uintptr_t size = batch.dtype == 0 ? 4 : 2;
       if (batch.rows < 2 || address % 16 == 0) return;
       // Row 0 is not shifted, because the memory before it belongs to other arrays; all other rows
       // reveal the bug.
       const std::uintptr_t back = address % 16 / size * size;
       if (back == 0 ||
           batch.row_stride * static_cast<std::int64_t>(size) < static_cast<std::int64_t>(back)) {
         return;
       }
       batch.row_stride -= 1;
     }},
    {"generator-indices-ignored", "output i samples row i, whatever indices say",
     [](fairdraw_batch& batch, Storage& storage) { change_indices(batch, storage, own_row); }},
    {"generator-bans-ignored", "vllm-tt-plugin issue #59",
     "a row of the bitmask that was not matched means: no constraint",
     By("support/*/banned support/*"), [](Row& row) { row.allowed.clear(); }},
    {"generator-bans-of-large-vocab", "vLLM-gaudi PR #1200",
     "the bitmask covers the first 65536 ids, the others are free",
     By("support/*/banned support/*"),
     [](Row& row) {
       for (std::size_t word = 2048; word < row.allowed.size(); ++word) {
         row.allowed[word] = 0xffffffffU;
       }
     }},
    {"generator-bans-of-last-word", "modular PR #5498",
     "ids in the last, partial word of the bitmask are free", By("support/*/banned support/*"),
     [](Row& row) {
       if (row.logits.size() % 32 != 0 && row.allowed.size() > 1) row.allowed.back() = 0xffffffffU;
     }},
    {"generator-padding-shifts-rows", "vLLM PR #50952",
     "rows behind one of padding have the parameters of the row in front", By("support/*"),
     [](Row& row, const Place& place) {
       if (place.call->active == nullptr || place.row == 0) return;
       if (place.call->active[place.row - 1] != 0) return;
       const auto before = static_cast<std::size_t>(place.row - 1);
       row.parameters = {place.call->temperature[before], place.call->top_k[before],
                         place.call->top_p[before], place.call->min_p[before]};
     }},
    {"generator-all-greedy-batch-shifted", "vllm-ascend PR #16430",
     "where greedy and random rows share a batch, each row has the logits of the one in front",
     [](fairdraw_batch& batch, Storage& storage) {
       shift_logits(batch, storage, [](const fairdraw_batch& call) {
         const auto greedy = std::count(call.temperature, call.temperature + call.rows, 0.0F);
         return greedy > 0 && greedy < call.rows;
       });
     }},
    {"generator-second-chunk-shifted",
     "in batches of more than 64 rows each row has the logits of the one in front",
     [](fairdraw_batch& batch, Storage& storage) {
       shift_logits(batch, storage, [](const fairdraw_batch& call) { return call.rows > 64; });
     }},
    {"generator-filters-off-for-samples", "vLLM issue #4934",
     "where more than one sample is asked for, the draws are from the row without filters",
     By("chi_squared/*"), [](const fairdraw_batch& batch) { return batch.num_samples > 1; }},
    {"generator-one-word-a-call", "Megatron-LM PR #5697",
     "all outputs of a call draw with one word", By("streams/*"),
     [](Mutation& mutation) {
       const auto calls = std::make_shared<std::uint64_t>(0);
       mutation.call = [calls](fairdraw_batch&, Storage&) { ++*calls; };
       mutation.word = [calls](const WordKey& of) {
         return harness::mixed(of.seed + of.attempt, *calls);
       };
     }},
    {"generator-constant-above-65536", "swift-transformers PR #384",
     "of more than 65536 ids the search over the prefix sums gives a constant",
     By("support/*/v131072/* binomial/*/v131072/*"),
     [](const DrawWeights& drawn, std::uint64_t word) {
       return drawn.token_at(drawn.vocab() > 65536 ? drawn.total() / 2 : drawn.position(word));
     }},
    {"generator-garbage-one-in-50000", "vllm-metal issue #622",
     "one draw in 50000 is the token just behind the cut of top_k", By("chi_squared/*/top_k*"),
     [](Mutation& mutation) {
       const auto count = std::make_shared<std::uint64_t>(0);
       mutation.pick = [count](const DrawWeights& drawn, std::uint64_t word) {
         const bool garbage = harness::mixed(622, (*count)++) % 50'000 == 0;
         if (!garbage) return token_of(drawn, word);
         std::int32_t id = 0;  // becomes the first id that cannot be drawn
         RowWeight before = 0;
         while (id < drawn.vocab() && drawn.prefix[static_cast<std::size_t>(id)] > before) {
           before = drawn.prefix[static_cast<std::size_t>(id++)];
         }
         return id < drawn.vocab() ? id : token_of(drawn, word);
       };
     }},
    {"generator-vector-tail-lost",
     "the ids behind the last whole vector of eight are never drawn where a row needs more than "
     "one block of 1024",
     By("binomial/* bets/*"),
     [](Row& row) {
       if (row.logits.size() > 1024) drop_from(row, row.logits.size() / 8 * 8);
     }},
};

// Makes the generator of each instance start in the same state, so that a user without a seed gets
// the tokens of the last process. The function `start` is called once per instance.
void start_from(Mutation& mutation, std::uint64_t start) {
  mutation.word = [start](const WordKey& of) { return draw_word(of, start, of.offset, 0); };
}

std::uint64_t instances_before() {
  static std::atomic<std::uint64_t> made = 0;
  return made++;
}

constexpr Entry kFreshStarts[] = {
    {"generator-starts-at-zero", "the generator of each process starts from a constant",
     [](Mutation& mutation) { start_from(mutation, 0); }},
    {"generator-starts-at-the-second",
     "the generator starts from the time in seconds: processes that start together draw alike",
     [](Mutation& mutation) {
       const auto now = std::chrono::system_clock::now().time_since_epoch();
       const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
       start_from(mutation, static_cast<std::uint64_t>(seconds));
     }},
    {"generator-starts-one-draw-later", "each instance starts one draw further in the same stream",
     [](Mutation& mutation) {
       mutation.word = [from = instances_before()](const WordKey& of) {
         return draw_word(of, 0, from + of.offset, 0);
       };
     }},
};

}  // namespace

std::vector<Mutant> generator_mutants() {
  return mutants_of("own-generator", "support/*/v1000/* support/*", Base::generator, kGenerators);
}

std::vector<Mutant> fresh_start_mutants() {
  return mutants_of("own-generator", "streams/all_equal/*", Base::generator, kFreshStarts);
}

}  // namespace fairdraw::suites
