#include "suites/gate/cases/vocabulary_cases.h"

#include <utility>

#include "harness/inputs/model_vocabularies.h"
#include "suites/gate/cases/sampled/sampled.h"

namespace fairdraw::suites {
namespace {

using harness::Family;
using Spread = Sampled::Spread;

constexpr std::size_t kModels = harness::kModelVocabularies.size();

// Ranges of vocabulary sizes that lie between the sizes of models, where these are far apart, and
// below all models. The first two ranges contain no model.
struct Range {
  std::int64_t smallest, largest;
};
constexpr Range kRanges[] = {{7000, 16'000},    {33'000, 49'000},   {1500, 6999},
                             {50'305, 100'351}, {100'353, 151'935}, {152'065, 262'143},
                             {16'001, 31'999}};

// One claim that is tested at many sizes of the vocabulary.
struct Kind {
  Check check;
  std::vector<Family> families;  // used in turn
  Filters filters = {};
  std::int64_t rows = 1;
  std::size_t operations = 1;
  std::uint64_t draws = 0;
  double declared = 0;
  const char* fixed = nullptr;   // operation of all rows, unless the seed chooses it
  std::size_t turns = kModels;   // number of turns; with kModels turns, every model's vocabulary
                                 // occurs
  std::size_t ranges = 0;        // number of ranges that are used, beginning with the first range
  std::size_t smoke_ranges = 0;  // number of these ranges in suite smoke
  bool smoke_turn = false;       // true if the first turn is in suite smoke
};

NamedCase case_of(const Kind& kind, std::size_t place, Sampled sampled, bool smoke) {
  sampled.filters = kind.filters;
  sampled.operations = kind.operations;
  // If a row keeps few tokens, its draws say little about how they were made.
  const bool of_draws =
      is_statistical(kind.check) || kind.check == Check::replay || kind.check == Check::batches;
  if (of_draws) sampled.spread = Spread::moderate;
  Case entry{
      .suite = smoke ? Suite::smoke : Suite::gate,
      .check = kind.check,
      .input = family_input(kind.families[place % kind.families.size()], sampled.largest_vocab),
      .rows = kind.rows,
      .draws = kind.draws,
      .declared_discrepancy = kind.declared,
      .once = is_statistical(kind.check) && kind.check != Check::streams,
      .once_a_processor = kind.check == Check::batches};
  std::string name = sampled_name(kind.filters);
  if (kind.fixed != nullptr) {
    sampled.operations = 0;
    NamedCase named = named_case(std::move(entry), kind.fixed);
    entry = std::move(named.entry);
    name = std::move(named.operations_name);
  }
  entry.sampled = sampled;
  return {std::move(entry), std::move(name)};
}

void add(const Kind& kind, std::vector<NamedCase>& cases) {
  std::size_t place = 0;
  for (std::size_t turn = 0; turn < kind.turns; ++turn) {
    Sampled sampled;
    sampled.smallest_vocab = harness::kModelVocabularies.front().size;
    sampled.largest_vocab = harness::kModelVocabularies.back().size;
    sampled.turn = turn;
    cases.push_back(case_of(kind, place++, sampled, kind.smoke_turn && turn == 0));
  }
  for (std::size_t range = 0; range < kind.ranges; ++range) {
    Sampled sampled;
    sampled.smallest_vocab = kRanges[range].smallest;
    sampled.largest_vocab = kRanges[range].largest;
    cases.push_back(case_of(kind, place++, sampled, range < kind.smoke_ranges));
  }
}

}  // namespace

// Each case has few rows and draws, because there are many sizes. These cases detect errors that
// depend on the size of the vocabulary; other cases detect errors in a few rows. The cases use only
// filters that nearly every sampler has.
std::vector<NamedCase> vocabulary_cases() {
  const std::vector<Family> all = {Family::gaussian_wide, Family::peaked, Family::ties_at_k,
                                   Family::tile_ends, Family::bf16_rounded};
  const std::vector<Family> smooth = {Family::gaussian_wide, Family::zipf, Family::gaussian};
  const Filters filters = {.top_k = true, .top_p = true};
  const Kind kinds[] = {
      {.check = Check::mask,
       .families = all,
       .filters = filters,
       .rows = 2,
       .operations = 2,
       .ranges = 3},
      {.check = Check::tokens,
       .families = all,
       .filters = filters,
       .rows = 2,
       .operations = 2,
       .draws = 16,
       .ranges = 3},
      {.check = Check::boundaries,
       .families = {Family::gaussian},
       .rows = 8,
       .draws = 1024,
       .fixed = "none/t1",
       .ranges = 4,
       .smoke_turn = true},
      // 20000 draws detect a discrepancy of 0.0362 at a probability of 1/2, and a smaller one
      // elsewhere. A comparison of two samplers over 17 cells detects 0.0844, which must be at most
      // twice the declared discrepancy.
      {.check = Check::binomial,
       .families = smooth,
       .draws = 20'000,
       .declared = 0.0425,
       .ranges = 7,
       .smoke_ranges = 1},
      {.check = Check::binomial,
       .families = smooth,
       .filters = {.top_p = true},
       .draws = 20'000,
       .declared = 0.0425,
       .turns = 4},
      {.check = Check::replay,
       .families = all,
       .filters = filters,
       .rows = 2,
       .operations = 2,
       .ranges = 2},
      {.check = Check::batches,
       .families = all,
       .filters = filters,
       .rows = 3,
       .operations = 3,
       .ranges = 2},
      {.check = Check::streams, .families = {Family::all_equal}, .fixed = "none/t1", .turns = 4},
      {.check = Check::chain,
       .families = {Family::gaussian_wide, Family::peaked},
       .fixed = "none/t1",
       .ranges = 2},
      {.check = Check::verify,
       .families = all,
       .filters = filters,
       .operations = 5,
       .turns = 3,
       .ranges = 1},
  };
  std::vector<NamedCase> cases;
  for (const Kind& kind : kinds) add(kind, cases);
  return cases;
}

}  // namespace fairdraw::suites
