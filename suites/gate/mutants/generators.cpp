// Samplers with a generator of their own, as most engines have: no draw can be asked for again, so
// what is wrong must be seen in tokens that may not come at all, or in the distribution.
#include <algorithm>
#include <cmath>
#include <memory>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;

const std::string kOwnGenerator = "own-generator";

Mutant of_call(MutantText text, void (*change)(fairdraw_batch&, Storage&)) {
  return mutated_generator(std::move(text),
                           [change](Mutation& mutation) { mutation.call = change; });
}

Mutant of_row(MutantText text, void (*change)(Row&, const Place&)) {
  return mutated_generator(std::move(text),
                           [change](Mutation& mutation) { mutation.row = change; });
}

// Every row becomes the row in front of it, parameters aside.
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

}  // namespace

std::vector<Mutant> generator_mutants() {
  const std::vector<std::string> support = {"support/*/v1000/*", "support/*"};
  return {
      of_call({"generator-row-stride-assumed", "vLLM #42684, prime-rl #2497", kOwnGenerator,
               "rows are taken to lie one vocabulary apart, whatever their stride", support},
              [](fairdraw_batch& batch, Storage&) { batch.row_stride = batch.vocab; }),
      of_call({"generator-misaligned-rows-shifted", "systematic", kOwnGenerator,
               "rows that do not start at a multiple of 16 bytes are read from the one "
               "below",
               support},
              [](fairdraw_batch& batch, Storage&) {
                const auto address = reinterpret_cast<std::uintptr_t>(batch.logits);
                const std::uintptr_t size = batch.dtype == 0 ? 4 : 2;
                if (batch.rows < 2 || address % 16 == 0) return;
                // What is in front of row 0 is not ours: shown by the others.
                const std::uintptr_t back = address % 16 / size * size;
                if (back == 0 || batch.row_stride * static_cast<std::int64_t>(size) <
                                     static_cast<std::int64_t>(back)) {
                  return;
                }
                batch.row_stride -= 1;
              }),
      of_call({"generator-indices-ignored", "systematic", kOwnGenerator,
               "output i samples row i, whatever indices say", support},
              [](fairdraw_batch& batch, Storage& storage) {
                if (batch.indices == nullptr || batch.rows == 0) return;
                std::vector<std::int32_t> own;
                for (std::int64_t i = 0; i < batch.outputs; ++i) {
                  own.push_back(static_cast<std::int32_t>(i % batch.rows));
                }
                batch.indices = storage.keep(std::move(own));
              }),
      of_row({"generator-bans-ignored",
              "vllm-tt-plugin issue #59",
              kOwnGenerator,
              "a row of the bitmask that was not matched means: no constraint",
              {"support/*/banned", "support/*"}},
             [](Row& row, const Place&) { row.allowed.clear(); }),
      of_row({"generator-bans-of-large-vocab",
              "vLLM-gaudi PR #1200",
              kOwnGenerator,
              "the bitmask covers the first 65536 ids, the others are free",
              {"support/*/banned", "support/*"}},
             [](Row& row, const Place&) {
               for (std::size_t word = 2048; word < row.allowed.size(); ++word) {
                 row.allowed[word] = 0xffffffffU;
               }
             }),
      of_row({"generator-bans-of-last-word",
              "modular PR #5498",
              kOwnGenerator,
              "ids in the last, partial word of the bitmask are free",
              {"support/*/banned", "support/*"}},
             [](Row& row, const Place&) {
               if (row.logits.size() % 32 != 0 && row.allowed.size() > 1) {
                 row.allowed.back() = 0xffffffffU;
               }
             }),
      of_row({"generator-padding-shifts-rows",
              "vLLM PR #50952",
              kOwnGenerator,
              "rows behind one of padding have the parameters of the row in front",
              {"support/*"}},
             [](Row& row, const Place& place) {
               if (place.call->active == nullptr || place.row == 0) return;
               if (place.call->active[place.row - 1] != 0) return;
               const auto before = static_cast<std::size_t>(place.row - 1);
               row.parameters = {place.call->temperature[before], place.call->top_k[before],
                                 place.call->top_p[before], place.call->min_p[before]};
             }),
      of_call({"generator-all-greedy-batch-shifted", "vllm-ascend PR #16430", kOwnGenerator,
               "where greedy and random rows share a batch, each row has the logits of "
               "the one in front",
               support},
              [](fairdraw_batch& batch, Storage& storage) {
                shift_logits(batch, storage, [](const fairdraw_batch& call) {
                  const auto greedy =
                      std::count(call.temperature, call.temperature + call.rows, 0.0F);
                  return greedy > 0 && greedy < call.rows;
                });
              }),
      of_call({"generator-second-chunk-shifted", "systematic", kOwnGenerator,
               "in batches of more than 64 rows each row has the logits of the one in "
               "front",
               support},
              [](fairdraw_batch& batch, Storage& storage) {
                shift_logits(batch, storage,
                             [](const fairdraw_batch& call) { return call.rows > 64; });
              }),
      mutated_generator(
          {"generator-filters-off-for-samples",
           "vLLM issue #4934",
           kOwnGenerator,
           "where more than one sample is asked for, the draws are from the row without filters",
           {"chi_squared/*"}},
          [](Mutation& mutation) {
            const auto many = std::make_shared<bool>(false);
            mutation.call = [many](fairdraw_batch& batch, Storage&) {
              *many = batch.num_samples > 1;
            };
            mutation.weights = [many](RowWeights& weights, const Result& row) {
              if (*many) weights = row.weight;
            };
          }),
      mutated_generator({"generator-one-word-a-call",
                         "Megatron-LM PR #5697",
                         kOwnGenerator,
                         "all outputs of a call draw with one word",
                         {"streams/*"}},
                        [](Mutation& mutation) {
                          const auto calls = std::make_shared<std::uint64_t>(0);
                          mutation.call = [calls](fairdraw_batch&, Storage&) { ++*calls; };
                          mutation.word = [calls](std::uint64_t start, std::uint64_t, std::uint32_t,
                                                  std::int64_t) {
                            return harness::mixed(start, *calls);
                          };
                        }),
      mutated_generator({"generator-constant-above-65536",
                         "swift-transformers PR #384",
                         kOwnGenerator,
                         "of more than 65536 ids the search over the prefix sums gives a constant",
                         {"support/*/v131072/*", "binomial/*/v131072/*"}},
                        [](Mutation& mutation) {
                          mutation.pick = [](const DrawWeights& drawn, std::uint64_t word) {
                            return drawn.token_at(drawn.vocab() > 65536 ? drawn.total() / 2
                                                                        : drawn.position(word));
                          };
                        }),
      mutated_generator({"generator-garbage-one-in-50000",
                         "vllm-metal issue #622",
                         kOwnGenerator,
                         "one draw in 50000 is the token just behind the cut of top_k",
                         {"chi_squared/*/top_k*"}},
                        [](Mutation& mutation) {
                          const auto count = std::make_shared<std::uint64_t>(0);
                          mutation.pick = [count](const DrawWeights& drawn, std::uint64_t word) {
                            const bool garbage = harness::mixed(622, (*count)++) % 50'000 == 0;
                            if (!garbage) return drawn.token_at(drawn.position(word));
                            std::int32_t id = 0;  // the first one that cannot be drawn
                            RowWeight before = 0;
                            while (id < drawn.vocab() &&
                                   drawn.prefix[static_cast<std::size_t>(id)] > before) {
                              before = drawn.prefix[static_cast<std::size_t>(id++)];
                            }
                            return id < drawn.vocab() ? id : drawn.token_at(drawn.position(word));
                          };
                        }),
      of_row({"generator-vector-tail-lost",
              "systematic",
              kOwnGenerator,
              "the ids behind the last whole vector of eight are never drawn where a "
              "row needs more than one block of 1024",
              {"binomial/*", "bets/*"}},
             [](Row& row, const Place&) {
               const std::size_t size = row.logits.size();
               if (size <= 1024 || size % 8 == 0) return;
               std::fill(row.logits.begin() + static_cast<std::ptrdiff_t>(size / 8 * 8),
                         row.logits.end(), row.from_probs ? 0.0F : kOut);
             }),
  };
}

}  // namespace fairdraw::suites
