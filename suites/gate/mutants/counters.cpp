// Random words whose key or counter is made wrongly: at values that are special, at ends of ranges,
// and where two of its parts are mixed.
#include <functional>
#include <memory>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

const std::string kCounters = "counters";

using Word = std::uint64_t (*)(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                               std::int64_t output);

Mutant of_word(const char* name, const char* source, const char* wrong,
               std::vector<std::string> expected, Word word) {
  return mutated_distribution({name, source, kCounters, wrong, std::move(expected)},
                              [word](Mutation& mutation) { mutation.word = word; });
}

std::uint64_t draw(std::uint64_t seed, std::uint64_t offset, std::uint64_t index) {
  return harness::random_word(seed, offset, Purpose::draw, static_cast<std::uint32_t>(index));
}

// Seeds for which `special` holds draw from a generator that no call repeats.
Mutant of_special_seed(const char* name, const char* source, const char* wrong,
                       bool (*special)(std::uint64_t)) {
  return mutated_distribution(
      {name, source, kCounters, wrong, {"replay/*", "streams/*"}}, [special](Mutation& mutation) {
        const auto count = std::make_shared<std::uint64_t>(0);
        mutation.word = [special, count](std::uint64_t seed, std::uint64_t offset,
                                         std::uint32_t index, std::int64_t) {
          if (special(seed)) return harness::mixed(4711, (*count)++);
          return draw(seed, offset, index);
        };
      });
}

// Calls with one seed, one sample an output, for which `where` holds draw all of them with one
// word.
std::function<void(Mutation&)> sharing_where(bool (*where)(const fairdraw_batch&)) {
  return [where](Mutation& mutation) {
    const auto shared = std::make_shared<bool>(false);
    mutation.call = [where, shared](fairdraw_batch& batch, Storage&) {
      *shared = batch.seed_is_scalar != 0 && batch.num_samples == 1 && where(batch);
    };
    mutation.word = [shared](std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                             std::int64_t) { return draw(seed, offset, *shared ? 0 : index); };
  };
}

std::vector<Mutant> seeds() {
  const std::vector<std::string> streams = {"streams/*"};
  return {
      of_special_seed("seed-0-is-no-seed", "SGLang #35697", "seed 0 means that no seed was given",
                      [](std::uint64_t seed) { return seed == 0; }),
      of_special_seed(
          "seed-minus-1-is-no-seed", "llama.cpp, LLAMA_DEFAULT_SEED",
          "seed -1, of 32 or 64 bits, means that no seed was given",
          [](std::uint64_t seed) { return seed == 0xffffffffU || seed == ~std::uint64_t{0}; }),
      of_word("seed-0-becomes-1", "systematic", "seed 0 is replaced by 1", streams,
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                return draw(seed == 0 ? 1 : seed, offset, index);
              }),
      of_word("seed-without-sign", "TensorRT-LLM PR #17172",
              "a seed is read as a signed number, and its sign dropped", streams,
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                const bool negative = (seed >> 63) != 0;
                return draw(negative ? ~seed + 1 : seed, offset, index);
              }),
      of_word("seed-in-float64", "systematic",
              "a seed passes through float64, and loses its last bits above 2^53", streams,
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                const auto rounded = static_cast<std::uint64_t>(static_cast<double>(seed >> 1));
                return draw(rounded, offset, index);
              }),
      of_word("offset-xored-into-seed", "systematic", "seed and offset are mixed by exclusive or",
              streams,
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                return draw(seed ^ offset, 0, index);
              }),
      of_word("offset-added-to-high-half", "systematic",
              "the offset is added to the upper half of the seed", streams,
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                return draw(seed + (offset << 32), 0, index);
              }),
      of_word("offset-in-24-bits", "systematic",
              "an offset passes through float32, and loses its last bits above 2^24", streams,
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                const auto wide = static_cast<float>(offset >> 1);
                return draw(seed, static_cast<std::uint64_t>(wide) * 2 + (offset & 1), index);
              }),
      of_word("seed-and-offset-folded", "aws-neuron-sdk issue #724",
              "key and counter are folded: seed + d at offset o is seed at offset o + d "
              "above bit 8",
              streams,
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                return draw(seed + (offset >> 8 << 8), offset & 0xff, index);
              }),
  };
}

std::vector<Mutant> samples() {
  return {
      of_word("sample-number-in-16-bits", "systematic",
              "sample 65536 of an output is sample 0 again", {"replay/*", "tokens/*"},
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                return draw(seed, offset, index & 0xffff);
              }),
      of_word("sample-number-in-8-bits", "systematic", "sample 256 of an output is sample 0 again",
              {"chi_squared/*"},
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                return draw(seed, offset, index & 0xff);
              }),
      mutated_distribution(
          {"outputs-samples-overlap",
           "systematic",
           kCounters,
           "with one seed, sample s of output i has number i + s: neighbours share all but one",
           {"streams/*"}},
          [](Mutation& mutation) {
            const auto call = std::make_shared<fairdraw_batch>();
            mutation.call = [call](fairdraw_batch& batch, Storage&) { *call = batch; };
            mutation.word = [call](std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                                   std::int64_t output) {
              if (call->seed_is_scalar == 0) return draw(seed, offset, index);
              const auto number = static_cast<std::uint64_t>(output);
              const std::uint64_t sample =
                  index - number * static_cast<std::uint64_t>(call->num_samples);
              return draw(seed, offset, number + sample);
            };
          }),
      mutated_integers(
          {"samples-before-outputs",
           "systematic",
           kCounters,
           "with one seed, sample s of output i has number s * outputs + i",
           {"tokens/*"}},
          [](Mutation& mutation) {
            const auto call = std::make_shared<fairdraw_batch>();
            mutation.call = [call](fairdraw_batch& batch, Storage&) { *call = batch; };
            mutation.word = [call](std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                                   std::int64_t output) {
              if (call->seed_is_scalar == 0) return draw(seed, offset, index);
              const auto samples = static_cast<std::uint64_t>(call->num_samples);
              const auto number = static_cast<std::uint64_t>(output);
              return draw(
                  seed, offset,
                  (index - number * samples) * static_cast<std::uint64_t>(call->outputs) + number);
            };
          }),
      mutated_integers({"sample-number-added-to-offset",
                        "systematic",
                        kCounters,
                        "sample s is drawn at offset + s, as if it were a later step",
                        {"tokens/*"}},
                       [](Mutation& mutation) {
                         const auto scalar = std::make_shared<bool>(false);
                         mutation.call = [scalar](fairdraw_batch& batch, Storage&) {
                           *scalar = batch.seed_is_scalar != 0;
                         };
                         mutation.word = [scalar](std::uint64_t seed, std::uint64_t offset,
                                                  std::uint32_t index, std::int64_t) {
                           return *scalar ? draw(seed, offset, index)
                                          : draw(seed, offset + index, 0);
                         };
                       }),
      mutated_distribution(
          {"rows-without-indices-share",
           "vLLM #50440",
           kCounters,
           "with one seed and no indices, all rows draw with the same word",
           {"streams/*"}},
          sharing_where([](const fairdraw_batch& batch) { return batch.indices == nullptr; })),
      mutated_distribution(
          {"few-outputs-share",
           "systematic",
           kCounters,
           "in calls of at most four outputs with one seed, all draw with the same word",
           {"streams/*"}},
          sharing_where([](const fairdraw_batch& batch) { return batch.outputs <= 4; })),
      of_word("antithetic-samples", "systematic",
              "every second sample is drawn with one minus the uniform of the first",
              {"streams/*", "pit/*"},
              [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index, std::int64_t) {
                const std::uint64_t word = draw(seed, offset, index / 2);
                return index % 2 == 0 ? word : ~word;
              }),
  };
}

}  // namespace

std::vector<Mutant> counter_mutants() { return joined({seeds(), samples()}); }

}  // namespace fairdraw::suites
