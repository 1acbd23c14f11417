// Mutants whose draws depend on more than the request's seed and offset, or whose requests share
// random words.
#include <algorithm>
#include <map>
#include <memory>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

bool any_row(const fairdraw_batch& batch,
             bool (*holds)(const fairdraw_batch& batch, std::int64_t row)) {
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    if (holds(batch, row)) return true;
  }
  return false;
}

bool has_temperature_0(const fairdraw_batch& batch, std::int64_t row) {
  return batch.temperature[row] == 0;
}
bool is_padding(const fairdraw_batch& batch, std::int64_t row) { return !is_active(batch, row); }

constexpr Entry kSeedDeterminism[] = {
    {"partial-seed-batch-ignored", "vLLM issue #51226, PR #51206",
     "a batch with a row that needs no seed (greedy or padding) draws every row from one generator "
     "of its own",
     [](Mutation& mutation) {
       const auto ignored = std::make_shared<bool>(false);
       const auto count = std::make_shared<std::uint64_t>(0);
       mutation.call = [ignored](fairdraw_batch& batch, Storage&) {
         *ignored = any_row(batch, has_temperature_0) || any_row(batch, is_padding);
       };
       mutation.word = [ignored, count](const WordKey& of) {
         return *ignored ? harness::mixed(1, (*count)++) : word_of(of);
       };
     }},
    {"only-seed0-read", "FlashInfer PR #4861; TensorRT-LLM PR #17172",
     "seed and offset of the first output serve the whole batch",
     [](Mutation& mutation) {
       mutation.seed_index = [](const fairdraw_batch&, std::int64_t) { return std::int64_t{0}; };
     }},
    {"seed-indexed-by-slot", "TensorRT-LLM PR #1742; tensorrtllm_backend #468",
     "seeds are looked up in the order of another table",
     [](Mutation& mutation) {
       mutation.seed_index = [](const fairdraw_batch& batch, std::int64_t output) {
         return batch.outputs - 1 - output;
       };
     }},
    {"rows-2plus-identical", "TensorRT-LLM issue #212",
     "all outputs but the first share the state of one generator", By("streams/* replay/*"),
     [](const WordKey& of) {
       return of.output == 0 ? word_of(of) : draw_word(of, 7, 7, of.index);
     }},
    {"masked-index-write-lost", "vLLM PR #10863",
     "in a batch that mixes greedy and random rows the noise of random rows is written to a copy: "
     "they give token 0",
     [](const fairdraw_batch& batch) {
       if (!any_row(batch, has_temperature_0)) return;
       for (std::int64_t output = 0; output < batch.outputs; ++output) {
         const std::int64_t row = row_of(batch, output);
         if (row < 0 || batch.temperature[row] == 0) continue;
         std::int32_t& token = batch.tokens[output * batch.num_samples];
         if (token >= 0) token = 0;
       }
     }},
    {"first-call-differs", "lmdeploy issue #2459",
     "the first call of an instance draws one number more than later ones",
     [](Mutation& mutation) {
       const auto calls = std::make_shared<int>(0);
       mutation.call = [calls](fairdraw_batch& batch, Storage&) {
         *calls += batch.rows > 0 ? 1 : 0;
       };
       mutation.word = [calls](const WordKey& of) {
         const bool extra = *calls == 1 && of.output == 0;
         return draw_word(of, of.seed, of.offset + (extra ? 1 : 0), of.index);
       };
     }},
    {"set-seed-not-deterministic", "CTranslate2 issue #1757",
     "the generator of the thread that draws has a seed of its own",
     [](Mutation& mutation) {
       const auto count = std::make_shared<std::uint64_t>(0);
       mutation.word = [count](const WordKey& of) { return harness::mixed(of.seed, (*count)++); };
     }},
    {"seed-int64-truncated", "onnxruntime-genai PR #1729", "64-bit seeds are cut off to 32 bits",
     By("tokens/*", Base::integers),
     [](const WordKey& of) { return draw_word(of, of.seed & 0xffffffffU, of.offset, of.index); }},
    {"salted-by-slot", "tt-metal issue #53802", "the position in the batch is mixed into the seed",
     [](const WordKey& of) {
       return draw_word(of, of.seed ^ static_cast<std::uint64_t>(of.output), of.offset, of.index);
     }},
    {"scan-nondeterministic", "FlashInfer PR #417; PyTorch #152854",
     "float32 prefix sums are made in blocks in one call and in one go in another, so that a token "
     "at the edge of its bin moves",
     By("replay/gaussian/v131072/*", Base::vllm_cdf),
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
     }},
    {"seeds-not-remapped-on-condense", "tt-metal issue #46350, #51981",
     "a slot of the batch keeps the seed that it had first",
     [](Mutation& mutation) {
       const auto of_slot = std::make_shared<std::map<std::int64_t, std::uint64_t>>();
       mutation.word = [of_slot](const WordKey& of) {
         return draw_word(of, of_slot->emplace(of.output, of.seed).first->second, of.offset,
                          of.index);
       };
     }},
};

// --- Wrong keys and counters: special values, ends of ranges, two mixed parts -------------------

// Makes seeds for which `special` returns true draw from a generator that no call can repeat.
void forget_seed(Mutation& mutation, bool (*special)(std::uint64_t)) {
  const auto count = std::make_shared<std::uint64_t>(0);
  mutation.word = [special, count](const WordKey& of) {
    return special(of.seed) ? harness::mixed(4711, (*count)++) : word_of(of);
  };
}

// If `holds` is true, returns one word for all draws in a call with one seed and one sample per
// output.
std::uint64_t shared_where(bool holds, const WordKey& of) {
  const bool shared = holds && of.call->seed_is_scalar != 0 && of.call->num_samples == 1;
  return draw_word(of, of.seed, of.offset, shared ? 0 : of.index);
}

// Returns the number of the sample within its output. Precondition: the call has one seed.
std::uint64_t sample_of(const WordKey& of) {
  return of.index - static_cast<std::uint64_t>(of.output * of.call->num_samples);
}

constexpr Entry kSeeds[] = {
    {"seed-0-is-no-seed", "SGLang #35697", "seed 0 means that no seed was given",
     By("replay/* streams/*"),
     [](Mutation& mutation) {
       forget_seed(mutation, [](std::uint64_t seed) { return seed == 0; });
     }},
    {"seed-minus-1-is-no-seed", "llama.cpp, LLAMA_DEFAULT_SEED",
     "seed -1, of 32 or 64 bits, means that no seed was given", By("replay/* streams/*"),
     [](Mutation& mutation) {
       forget_seed(mutation, [](std::uint64_t seed) {
         return seed == 0xffffffffU || seed == ~std::uint64_t{0};
       });
     }},
    {"seed-0-becomes-1", "seed 0 is replaced by 1",
     [](const WordKey& of) {
       return draw_word(of, of.seed == 0 ? 1 : of.seed, of.offset, of.index);
     }},
    {"seed-without-sign", "TensorRT-LLM PR #17172",
     "a seed is read as a signed number, and its sign dropped",
     [](const WordKey& of) {
       const bool negative = (of.seed >> 63) != 0;
       return draw_word(of, negative ? ~of.seed + 1 : of.seed, of.offset, of.index);
     }},
    {"seed-in-float64", "a seed passes through float64, and loses its last bits above 2^53",
     [](const WordKey& of) {
       const auto rounded = static_cast<std::uint64_t>(static_cast<double>(of.seed >> 1));
       return draw_word(of, rounded, of.offset, of.index);
     }},
    {"offset-xored-into-seed", "seed and offset are mixed by exclusive or",
     [](const WordKey& of) { return draw_word(of, of.seed ^ of.offset, 0, of.index); }},
    {"offset-added-to-high-half", "the offset is added to the upper half of the seed",
     [](const WordKey& of) { return draw_word(of, of.seed + (of.offset << 32), 0, of.index); }},
    {"offset-in-24-bits", "an offset passes through float32, and loses its last bits above 2^24",
     [](const WordKey& of) {
       const auto wide = static_cast<float>(of.offset >> 1);
       return draw_word(of, of.seed, static_cast<std::uint64_t>(wide) * 2 + (of.offset & 1),
                        of.index);
     }},
    {"seed-and-offset-folded", "aws-neuron-sdk issue #724",
     "key and counter are folded: seed + d at offset o is seed at offset o + d above bit 8",
     [](const WordKey& of) {
       return draw_word(of, of.seed + (of.offset >> 8 << 8), of.offset & 0xff, of.index);
     }},
};

constexpr Entry kSamples[] = {
    {"sample-number-in-16-bits", "sample 65536 of an output is sample 0 again",
     By("replay/* tokens/*"),
     [](const WordKey& of) { return draw_word(of, of.seed, of.offset, of.index & 0xffff); }},
    {"sample-number-in-8-bits", "sample 256 of an output is sample 0 again", By("chi_squared/*"),
     [](const WordKey& of) { return draw_word(of, of.seed, of.offset, of.index & 0xff); }},
    {"outputs-samples-overlap",
     "with one seed, sample s of output i has number i + s: neighbours share all but one",
     [](const WordKey& of) {
       if (of.call->seed_is_scalar == 0) return word_of(of);
       return draw_word(of, of.seed, of.offset,
                        static_cast<std::uint64_t>(of.output) + sample_of(of));
     }},
    {"samples-before-outputs", "with one seed, sample s of output i has number s * outputs + i",
     By("tokens/*", Base::integers),
     [](const WordKey& of) {
       if (of.call->seed_is_scalar == 0) return word_of(of);
       const auto outputs = static_cast<std::uint64_t>(of.call->outputs);
       return draw_word(of, of.seed, of.offset,
                        sample_of(of) * outputs + static_cast<std::uint64_t>(of.output));
     }},
    {"sample-number-added-to-offset", "sample s is drawn at offset + s, as if it were a later step",
     By("tokens/*", Base::integers),
     [](const WordKey& of) {
       const bool scalar = of.call->seed_is_scalar != 0;
       return scalar ? word_of(of) : draw_word(of, of.seed, of.offset + of.index, 0);
     }},
    {"rows-without-indices-share", "vLLM #50440",
     "with one seed and no indices, all rows draw with the same word",
     [](const WordKey& of) { return shared_where(of.call->indices == nullptr, of); }},
    {"few-outputs-share",
     "in calls of at most four outputs with one seed, all draw with the same word",
     [](const WordKey& of) { return shared_where(of.call->outputs <= 4, of); }},
    {"antithetic-samples", "every second sample is drawn with one minus the uniform of the first",
     By("streams/* pit/*"),
     [](const WordKey& of) {
       const std::uint64_t word = draw_word(of, of.seed, of.offset, of.index / 2);
       return of.index % 2 == 0 ? word : ~word;
     }},
};

// --- Two draws that share a word, because one number overlaps another ---------------------------

bool is_scalar(const WordKey& of) { return of.call->seed_is_scalar != 0; }

constexpr Entry kSharedWords[] = {
    {"sample-1-is-next-offset",
     "sample 1 of an output is sample 0 of the next offset; all others are right",
     [](const WordKey& of) {
       const bool shared = !is_scalar(of) && of.index == 1;
       return shared ? draw_word(of, of.seed, of.offset + 1, 0) : word_of(of);
     }},
    {"samples-are-later-offsets", "sample j of an output is sample 0 of the offset that is j later",
     [](const WordKey& of) {
       return is_scalar(of) ? word_of(of) : draw_word(of, of.seed, of.offset + of.index, 0);
     }},
    {"sample-1-is-next-output", "with one seed, sample 1 of an output is sample 0 of the next one",
     [](const WordKey& of) {
       const auto next = static_cast<std::uint64_t>((of.output + 1) * of.call->num_samples);
       const bool shared = is_scalar(of) && sample_of(of) == 1;
       return shared ? draw_word(of, of.seed, of.offset, next) : word_of(of);
     }},
    {"odd-offset-is-next-seed",
     "an odd offset of a seed is the even one before it of the next seed",
     [](const WordKey& of) {
       const std::uint64_t odd = of.offset % 2;
       return draw_word(of, of.seed + odd, of.offset - odd, of.index);
     }},
    {"sample-xored-into-seed", "the number of a sample is mixed into the seed by exclusive or",
     [](const WordKey& of) {
       return is_scalar(of) ? word_of(of) : draw_word(of, of.seed ^ of.index, of.offset, 0);
     }},
    {"sample-in-upper-half-of-seed",
     "the number of a sample is added to the upper half of the seed",
     [](const WordKey& of) {
       const std::uint64_t upper = std::uint64_t{of.index} << 32;
       return is_scalar(of) ? word_of(of) : draw_word(of, of.seed + upper, of.offset, 0);
     }},
    {"sample-above-offset",
     "a counter holds the number of a sample above the lower 48 bits of the offset",
     [](const WordKey& of) {
       const std::uint64_t above = std::uint64_t{of.index} << 48;
       return is_scalar(of) ? word_of(of) : draw_word(of, of.seed, of.offset ^ above, 0);
     }},
    {"output-1-is-next-offset", "with one seed, output 1 is output 0 of the next offset",
     [](const WordKey& of) {
       const bool shared = is_scalar(of) && of.output == 1;
       return shared ? draw_word(of, of.seed, of.offset + 1, sample_of(of)) : word_of(of);
     }},
    {"generator-advances-by-outputs",
     "a call with several samples advances the generator by one word per output", Base::generator,
     [](Mutation& mutation) {
       struct State {
         std::uint64_t begin = 0, next = 0, advance = 0;
       };
       const auto state = std::make_shared<State>();
       mutation.call = [state](fairdraw_batch& batch, Storage&) {
         state->next = state->begin += state->advance;
         state->advance = static_cast<std::uint64_t>(batch.outputs);
       };
       mutation.word = [state](const WordKey& of) {
         return draw_word(of, of.seed, state->next++, 0);
       };
     }},
};

}  // namespace

std::vector<Mutant> seed_mutants() {
  return mutants_of("seed-determinism", "replay/*/v31/* replay/*/v1000/*", Base::distribution,
                    kSeedDeterminism);
}

std::vector<Mutant> counter_mutants() {
  return joined({mutants_of("counters", "streams/*", Base::distribution, kSeeds),
                 mutants_of("counters", "streams/*", Base::distribution, kSamples)});
}

std::vector<Mutant> shared_word_mutants() {
  return mutants_of("shared-words", "streams/*", Base::distribution, kSharedWords);
}

}  // namespace fairdraw::suites
