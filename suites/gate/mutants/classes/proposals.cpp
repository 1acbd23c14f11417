// Mutants of rows with top_p that draw by proposals: attempts use wrong words, or proposed tokens
// are wrongly accepted or rejected. Masks stay right.
#include <cmath>
#include <cstdint>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

// Returns the sum of strictly larger weights in the tiles that are not skipped.
RowWeight above(const Proposal& of, bool (*passed_over)(std::size_t tile)) {
  const RowWeight own = of.row.weight[static_cast<std::size_t>(of.token)];
  RowWeight sum = 0;
  for (std::size_t id = 0; id < of.row.weight.size(); ++id) {
    if (of.row.weight[id] > own && !passed_over(id / reference::kIdsOfATile)) {
      sum += of.row.weight[id];
    }
  }
  return sum;
}

// Returns floor(top_p Z) of a row without min_p.
RowWeight target_of(const Proposal& of) {
  return reference::position_of(
      static_cast<std::uint64_t>(std::ldexp(static_cast<double>(of.parameters.top_p), 64)),
      of.row.total_unfiltered);
}

constexpr Entry kProposals[] = {
    {"attempts-share-a-word", "every attempt has the word of the first",
     By("chi_squared/*/top_p_0.9/*", Base::distribution),
     [](const WordKey& of) {
       return harness::random_word(of.seed, of.offset, Purpose::draw, of.index);
     }},
    {"attempts-by-row", "attempts after the first take the row's number for the request's seed",
     By("batches/*", Base::distribution),
     [](const WordKey& of) {
       const auto row = static_cast<std::uint64_t>(of.output);
       return of.attempt == 0 ? word_of(of) : draw_word(of, row, 0, of.index);
     }},
    {"attempts-are-later-offsets", "attempt i has the first word of the offset that is i later",
     [](const WordKey& of) {
       return harness::random_word(of.seed, of.offset + of.attempt, Purpose::draw, of.index);
     }},
    {"last-attempt-unasked", "the last attempt takes what it proposes",
     By("support/*", Base::distribution),
     [](const Proposal& of) {
       return of.survives() || of.attempt + 1 == reference::kAttemptsOfADraw;
     }},
    {"proposals-at-the-bound", "a proposal is taken where the mass above it is top_p itself",
     By("tokens/*/partial_sums"),
     [](const Proposal& of) {
       const auto none = [](std::size_t) { return false; };
       return of.survives() || (of.parameters.min_p == 0 && above(of, none) <= target_of(of));
     }},
    {"proposals-count-their-ties", "the mass above a proposal includes it and its equals",
     By("boundaries/*", Base::tokens),
     [](const Proposal& of) {
       if (!of.survives()) return false;
       // The mass reaches top_p at the survivors with the smallest weight.
       const RowWeight own = of.row.weight[static_cast<std::size_t>(of.token)];
       for (std::size_t id = 0; id < of.row.mask.size(); ++id) {
         if (of.row.mask[id] != 0 && of.row.weight[id] < own) return true;
       }
       return false;
     }},
    {"pass-forgets-tiles", "the mass above a proposal leaves out every second tile",
     By("support/*", Base::distribution),
     [](const Proposal& of) {
       const auto odd = [](std::size_t tile) { return tile % 2 == 1; };
       return of.survives() || (of.parameters.min_p == 0 && above(of, odd) < target_of(of));
     }},
    {"survivors-by-the-first-word", "where no attempt is taken, the first word draws again",
     [](const WordKey& of) {
       const bool first = of.attempt == reference::kAttemptsOfADraw;
       return first ? harness::random_word(of.seed, of.offset, Purpose::draw, of.index)
                    : word_of(of);
     }},
};

}  // namespace

std::vector<Mutant> proposal_mutants() {
  return mutants_of("proposals", "tokens/*", Base::integers, kProposals);
}

}  // namespace fairdraw::suites
