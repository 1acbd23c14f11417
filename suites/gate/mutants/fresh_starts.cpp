// Generators of a sampler's own that start alike in each instance: whoever is given no seed gets
// the tokens that the last process gave.
#include <atomic>
#include <chrono>
#include <cstdint>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

std::uint64_t drawn(std::uint64_t start, std::uint64_t number) {
  return harness::random_word(start, number, Purpose::draw, 0);
}

// `start` is asked once for each instance, when it is made; the word of draw n is drawn(0, n) then
// from that number on, or that of the seed.
Mutant starting(MutantText text, std::uint64_t (*start)(), bool is_seed) {
  text.kind = "own-generator";
  text.expected = {"streams/all_equal/*"};
  return mutated_generator(std::move(text), [start, is_seed](Mutation& mutation) {
    mutation.word = [from = start(), is_seed](std::uint64_t, std::uint64_t number, std::uint32_t,
                                              std::int64_t) {
      return is_seed ? drawn(from, number) : drawn(0, from + number);
    };
  });
}

std::uint64_t seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

std::uint64_t instances_before() {
  static std::atomic<std::uint64_t> made = 0;
  return made++;
}

}  // namespace

std::vector<Mutant> fresh_start_mutants() {
  return {
      starting(
          {.name = "generator-starts-at-zero",
           .source = "systematic",
           .kind = {},
           .wrong = "the generator of each process starts from a constant",
           .expected = {}},
          [] { return std::uint64_t{0}; }, true),
      starting({.name = "generator-starts-at-the-second",
                .source = "systematic",
                .kind = {},
                .wrong = "the generator starts from the time in seconds: processes that start "
                         "together draw alike",
                .expected = {}},
               seconds, true),
      starting({.name = "generator-starts-one-draw-later",
                .source = "systematic",
                .kind = {},
                .wrong = "each instance starts one draw further in the same stream",
                .expected = {}},
               instances_before, false),
  };
}

}  // namespace fairdraw::suites
