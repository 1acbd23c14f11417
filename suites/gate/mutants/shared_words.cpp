// Random words of two draws that are one: a sample, an output or a call that is numbered as if it
// were part of another number.
#include <cstdint>
#include <memory>
#include <utility>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

const std::string kSharedWords = "shared-words";

/// Which draw of a call a word is for.
struct Draw {
  std::uint64_t seed, offset;
  std::uint64_t output, sample;
  bool scalar;  ///< the call has one seed
};

std::uint64_t draw(std::uint64_t seed, std::uint64_t offset, std::uint64_t index) {
  return harness::random_word(seed, offset, Purpose::draw, static_cast<std::uint32_t>(index));
}

// As the specification has it.
std::uint64_t right(const Draw& of, std::uint64_t samples) {
  return draw(of.seed, of.offset, of.scalar ? of.output * samples + of.sample : of.sample);
}

using Word = std::uint64_t (*)(const Draw& of, std::uint64_t samples);

Mutant of_draw(const char* name, const char* source, const char* wrong, Word word) {
  return mutated_distribution(
      {name, source, kSharedWords, wrong, {"streams/*"}}, [word](Mutation& mutation) {
        const auto call = std::make_shared<std::pair<std::uint64_t, bool>>();  // samples, scalar
        mutation.call = [call](fairdraw_batch& batch, Storage&) {
          *call = {static_cast<std::uint64_t>(batch.num_samples), batch.seed_is_scalar != 0};
        };
        mutation.word = [call, word](std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                                     std::int64_t output) {
          const auto [samples, scalar] = *call;
          const auto number = static_cast<std::uint64_t>(output);
          const std::uint64_t sample = scalar ? index - number * samples : index;
          return word({seed, offset, number, sample, scalar}, samples);
        };
      });
}

}  // namespace

std::vector<Mutant> shared_word_mutants() {
  return {
      of_draw("sample-1-is-next-offset", "systematic",
              "sample 1 of an output is sample 0 of the next offset; all others are right",
              [](const Draw& of, std::uint64_t samples) {
                const bool shared = !of.scalar && of.sample == 1;
                return shared ? draw(of.seed, of.offset + 1, 0) : right(of, samples);
              }),
      of_draw("samples-are-later-offsets", "systematic",
              "sample j of an output is sample 0 of the offset that is j later",
              [](const Draw& of, std::uint64_t samples) {
                return of.scalar ? right(of, samples) : draw(of.seed, of.offset + of.sample, 0);
              }),
      of_draw("sample-1-is-next-output", "systematic",
              "with one seed, sample 1 of an output is sample 0 of the next one",
              [](const Draw& of, std::uint64_t samples) {
                const bool shared = of.scalar && of.sample == 1;
                return shared ? draw(of.seed, of.offset, (of.output + 1) * samples)
                              : right(of, samples);
              }),
      of_draw("odd-offset-is-next-seed", "systematic",
              "an odd offset of a seed is the even one before it of the next seed",
              [](const Draw& of, std::uint64_t samples) {
                Draw moved = of;
                if (of.offset % 2 != 0) ++moved.seed, --moved.offset;
                return right(moved, samples);
              }),
      of_draw("sample-xored-into-seed", "systematic",
              "the number of a sample is mixed into the seed by exclusive or",
              [](const Draw& of, std::uint64_t samples) {
                return of.scalar ? right(of, samples) : draw(of.seed ^ of.sample, of.offset, 0);
              }),
      of_draw("sample-in-upper-half-of-seed", "systematic",
              "the number of a sample is added to the upper half of the seed",
              [](const Draw& of, std::uint64_t samples) {
                return of.scalar ? right(of, samples)
                                 : draw(of.seed + (of.sample << 32), of.offset, 0);
              }),
      of_draw("sample-above-offset", "systematic",
              "a counter holds the number of a sample above the lower 48 bits of the offset",
              [](const Draw& of, std::uint64_t samples) {
                return of.scalar ? right(of, samples)
                                 : draw(of.seed, of.offset ^ (of.sample << 48), 0);
              }),
      of_draw("output-1-is-next-offset", "systematic",
              "with one seed, output 1 is output 0 of the next offset",
              [](const Draw& of, std::uint64_t samples) {
                Draw moved = of;
                if (of.scalar && of.output == 1) --moved.output, ++moved.offset;
                return right(moved, samples);
              }),
      mutated_generator({"generator-advances-by-outputs",
                         "systematic",
                         kSharedWords,
                         "a call with several samples advances the generator by one word an output",
                         {"streams/*"}},
                        [](Mutation& mutation) {
                          struct State {
                            std::uint64_t begin = 0, next = 0, advance = 0;
                          };
                          const auto state = std::make_shared<State>();
                          mutation.call = [state](fairdraw_batch& batch, Storage&) {
                            state->next = state->begin += state->advance;
                            state->advance = static_cast<std::uint64_t>(batch.outputs);
                          };
                          mutation.word = [state](std::uint64_t start, std::uint64_t, std::uint32_t,
                                                  std::int64_t) {
                            return draw(start, state->next++, 0);
                          };
                        }),
  };
}

}  // namespace fairdraw::suites
