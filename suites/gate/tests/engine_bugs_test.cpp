// The tests require that the engine bugs that reports name (harness/run/evidence/engine_bugs.inc)
// agree with the catalogue of mutants, in the same words.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "harness/run/evidence/cause_texts.h"
#include "suites/gate/mutants/catalogue.h"
#include "suites/gate/mutants/cause_classes.h"

namespace fairdraw::suites {
namespace {

TEST(EngineBugs, AreMutantsOfTheCatalogue) {
  for (const harness::EngineBug& bug : harness::engine_bugs()) {
    const auto mutant = std::ranges::find(catalogue(), bug.mutant, &Mutant::name);
    ASSERT_NE(mutant, catalogue().end()) << bug.mutant;
    EXPECT_EQ(bug.source, mutant->source) << bug.mutant;
    EXPECT_EQ(bug.wrong, mutant->wrong) << bug.mutant;
    EXPECT_NE(mutant->source, "systematic") << bug.mutant;
    EXPECT_TRUE(names_class(bug.suspect, mutant->kind))
        << bug.mutant << ": " << bug.suspect << " names no cause of class " << mutant->kind;
  }
}

TEST(EngineBugs, HaveTheDocumentedOnesAmongThem) {
  std::set<std::string_view> named;
  for (const harness::EngineBug& bug : harness::engine_bugs()) {
    EXPECT_TRUE(named.insert(bug.mutant).second) << bug.mutant << " comes twice";
  }
  std::size_t documented = 0, shown = 0;
  for (const KnownBug& bug : known_bugs()) {
    if (bug.state != EntryState::mutant) continue;
    ++documented;
    shown += named.contains(bug.name);
  }
  // For all other bugs, the first suspect is not a cause of their class, so that naming them would
  // mislead.
  EXPECT_GE(4 * shown, 3 * documented) << shown << " of " << documented;
}

// A cause without a sentence is shown by its bare name, so every cause of a mutant's class must
// have a sentence.
TEST(CauseTexts, EveryCauseHasASentenceAndSaysWhatToChange) {
  std::set<std::string> kinds;
  for (const Mutant& mutant : catalogue()) kinds.insert(mutant.kind);
  for (const std::string& kind : kinds) {
    for (const std::string_view cause : causes_of_class(kind)) {
      const harness::CauseText text = harness::text_of_cause(cause);
      EXPECT_NE(text.sentence, cause) << kind;
      EXPECT_FALSE(text.change.empty()) << cause;
      EXPECT_TRUE(text.sentence.ends_with('.')) << text.sentence;
      EXPECT_EQ(text.sentence.find('%'), std::string::npos) << text.sentence;
    }
  }
}

TEST(CauseTexts, TheWholeNameComesBeforeItsCause) {
  EXPECT_EQ(harness::text_of_cause("temperature: ignored").sentence, "The temperature is ignored.");
  EXPECT_EQ(harness::text_of_cause("temperature: 1 % larger").sentence,
            "The temperature of the request is not applied as given: 1 % larger.");
  EXPECT_EQ(harness::text_of_cause("temperature").sentence,
            "The temperature of the request is not applied as given.");
  EXPECT_EQ(harness::text_of_cause("definition of rows of one value: may_stay").sentence,
            "The sampler follows another definition of rows of one value: may_stay.");
  EXPECT_EQ(harness::text_of_cause("definition of top_k 0: greedy").sentence,
            "top_k 0 means something else here (greedy).");
  EXPECT_EQ(harness::text_of_cause("something new: x").sentence, "something new: x");
}

TEST(EngineBugs, OfTheSameNameComeBeforeThoseOfTheCause) {
  const auto same = harness::engine_bugs_like(
      "definition of mass exactly at top_p: inclusive_mass_at_most_p", 10);
  ASSERT_FALSE(same.empty());
  EXPECT_EQ(same.front().mutant, "topp-drops-crossing");
  for (const harness::EngineBug& bug : same) EXPECT_EQ(bug.suspect, same.front().suspect);
  EXPECT_EQ(harness::engine_bugs_like("shared random bits: of a new kind", 2).size(), 2U);
  EXPECT_TRUE(harness::engine_bugs_like("something new", 10).empty());
}

}  // namespace
}  // namespace fairdraw::suites
