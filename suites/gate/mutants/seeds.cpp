// A request's draws depend on something else than its seed and offset.
#include <algorithm>
#include <map>
#include <memory>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

bool any_greedy(const fairdraw_batch& batch) {
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    if (batch.temperature[row] == 0) return true;
  }
  return false;
}

bool all_active(const fairdraw_batch& batch) {
  for (std::int64_t row = 0; batch.active != nullptr && row < batch.rows; ++row) {
    if (batch.active[row] == 0) return false;
  }
  return true;
}

std::uint64_t draw_word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index) {
  return harness::random_word(seed, offset, Purpose::draw, index);
}

}  // namespace

std::vector<Mutant> seed_mutants() {
  const std::string kind = "seed-determinism";
  const std::vector<std::string> replay = {"replay/*/v31/*", "replay/*/v1000/*"};
  return {
      mutated_distribution(
          {"partial-seed-batch-ignored", "vLLM issue #51226, PR #51206", kind,
           "a batch with a row that needs no seed (greedy or padding) draws every row from one "
           "generator of its own",
           replay},
          [](Mutation& mutation) {
            const auto ignored = std::make_shared<bool>(false);
            const auto count = std::make_shared<std::uint64_t>(0);
            mutation.call = [ignored](fairdraw_batch& batch, Storage&) {
              *ignored = any_greedy(batch) || !all_active(batch);
            };
            mutation.word = [ignored, count](std::uint64_t seed, std::uint64_t offset,
                                             std::uint32_t index, std::int64_t) {
              return *ignored ? harness::mixed(1, (*count)++) : draw_word(seed, offset, index);
            };
          }),
      mutated_distribution({"only-seed0-read", "FlashInfer PR #4861; TensorRT-LLM PR #17172", kind,
                            "seed and offset of the first output serve the whole batch", replay},
                           [](Mutation& mutation) {
                             mutation.seed_index = [](const fairdraw_batch&, std::int64_t) {
                               return std::int64_t{0};
                             };
                           }),
      mutated_distribution(
          {"seed-indexed-by-slot", "TensorRT-LLM PR #1742; tensorrtllm_backend #468", kind,
           "seeds are looked up in the order of another table", replay},
          [](Mutation& mutation) {
            mutation.seed_index = [](const fairdraw_batch& batch, std::int64_t output) {
              return batch.outputs - 1 - output;
            };
          }),
      mutated_distribution({"rows-2plus-identical",
                            "TensorRT-LLM issue #212",
                            kind,
                            "all outputs but the first share the state of one generator",
                            {"streams/*", "replay/*"}},
                           [](Mutation& mutation) {
                             mutation.word = [](std::uint64_t seed, std::uint64_t offset,
                                                std::uint32_t index, std::int64_t output) {
                               return output == 0 ? draw_word(seed, offset, index)
                                                  : draw_word(7, 7, index);
                             };
                           }),
      mutated_distribution(
          {"masked-index-write-lost", "vLLM PR #10863", kind,
           "in a batch that mixes greedy and random rows the noise of random rows is written to a "
           "copy: they give token 0",
           replay},
          [](Mutation& mutation) {
            mutation.finish = [](const fairdraw_batch& batch) {
              if (!any_greedy(batch)) return;
              for (std::int64_t output = 0; output < batch.outputs; ++output) {
                const std::int64_t row = batch.indices != nullptr ? batch.indices[output] : output;
                if (row < 0 || row >= batch.rows || batch.temperature[row] == 0) continue;
                std::int32_t& token = batch.tokens[output * batch.num_samples];
                if (token >= 0) token = 0;
              }
            };
          }),
      mutated_distribution(
          {"first-call-differs", "lmdeploy issue #2459", kind,
           "the first call of an instance draws one number more than later ones", replay},
          [](Mutation& mutation) {
            const auto calls = std::make_shared<int>(0);
            mutation.call = [calls](fairdraw_batch& batch, Storage&) {
              *calls += batch.rows > 0 ? 1 : 0;
            };
            mutation.word = [calls](std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                                    std::int64_t output) {
              const bool extra = *calls == 1 && output == 0;
              return draw_word(seed, offset + (extra ? 1 : 0), index);
            };
          }),
      mutated_distribution({"set-seed-not-deterministic", "CTranslate2 issue #1757", kind,
                            "the generator of the thread that draws has a seed of its own", replay},
                           [](Mutation& mutation) {
                             const auto count = std::make_shared<std::uint64_t>(0);
                             mutation.word = [count](std::uint64_t seed, std::uint64_t,
                                                     std::uint32_t, std::int64_t) {
                               return harness::mixed(seed, (*count)++);
                             };
                           }),
      mutated_integers({"seed-int64-truncated",
                        "onnxruntime-genai PR #1729",
                        kind,
                        "64-bit seeds are cut off to 32 bits",
                        {"tokens/*"}},
                       [](Mutation& mutation) {
                         mutation.word = [](std::uint64_t seed, std::uint64_t offset,
                                            std::uint32_t index, std::int64_t) {
                           return draw_word(seed & 0xffffffffU, offset, index);
                         };
                       }),
      mutated_distribution({"salted-by-slot", "tt-metal issue #53802", kind,
                            "the position in the batch is mixed into the seed", replay},
                           [](Mutation& mutation) {
                             mutation.word = [](std::uint64_t seed, std::uint64_t offset,
                                                std::uint32_t index, std::int64_t output) {
                               return draw_word(seed ^ static_cast<std::uint64_t>(output), offset,
                                                index);
                             };
                           }),
      mutated_float(
          {"scan-nondeterministic",
           "FlashInfer PR #417; PyTorch #152854",
           kind,
           "float32 prefix sums are made in blocks in one call and in one go in another, so that a "
           "token at the edge of its bin moves",
           {"replay/gaussian/v131072/*"}},
          FloatSampler::Order::vllm_torch, FloatSampler::Draw::inverse_cdf,
          [](FloatMutation& mutation) {
            const auto call = std::make_shared<std::uint64_t>(0);
            mutation.pick = [call](const std::vector<float>& probs) {
              const std::size_t block = harness::mixed(2, ++*call) % 2 == 0 ? 256 : probs.size();
              auto prefix = std::make_shared<std::vector<float>>();
              float carry = 0, sum = 0;
              for (std::size_t id = 0; id < probs.size(); ++id) {
                if (id % block == 0) {
                  carry += sum;
                  sum = 0;
                }
                prefix->push_back(carry + (sum += probs[id]));
              }
              return [prefix](std::uint64_t word) {
                const auto position =
                    static_cast<float>(static_cast<double>(word >> 40) * 0x1p-24) * prefix->back();
                const auto found = std::upper_bound(prefix->begin(), prefix->end() - 1, position);
                return static_cast<std::int32_t>(found - prefix->begin());
              };
            };
          }),
      mutated_distribution(
          {"seeds-not-remapped-on-condense", "tt-metal issue #46350, #51981", kind,
           "a slot of the batch keeps the seed that it had first", replay},
          [](Mutation& mutation) {
            const auto of_slot = std::make_shared<std::map<std::int64_t, std::uint64_t>>();
            mutation.word = [of_slot](std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                                      std::int64_t output) {
              return draw_word(of_slot->emplace(output, seed).first->second, offset, index);
            };
          }),
  };
}

}  // namespace fairdraw::suites
