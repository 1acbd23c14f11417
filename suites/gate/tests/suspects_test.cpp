// The tests cover the causes that the gate names, with mutants as bugs of known classes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "suites/gate/mutants/cause_classes.h"
#include "suites/gate/mutants/kill_matrix.h"

namespace fairdraw::suites {
namespace {

std::vector<const Mutant*> mutants_named(const std::vector<std::string>& names) {
  std::vector<const Mutant*> mutants;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(catalogue(), name, &Mutant::name);
    EXPECT_NE(found, catalogue().end()) << name;
    if (found != catalogue().end()) mutants.push_back(&*found);
  }
  return mutants;
}

KillMatrix killed(const std::vector<const Mutant*>& mutants) {
  KillOptions options;
  options.seed = 4;
  return run_kill_matrix(mutants, options, {});
}

// Expects, for each of these mutants, the given first cause after the prefix "`about`: ".
void expect_causes(const std::string& about, const std::map<std::string, std::string>& said) {
  std::vector<std::string> names;
  for (const auto& [name, bug] : said) names.push_back(name);
  for (const MutantOutcome& outcome : killed(mutants_named(names)).mutants) {
    ASSERT_FALSE(outcome.causes.empty()) << outcome.mutant->name << ": " << outcome.message;
    EXPECT_EQ(outcome.causes.front().name, about + ": " + said.at(outcome.mutant->name))
        << outcome.mutant->name << ": " << outcome.message;
  }
}

// The table has each bug of reported values, and its first suspect after "log-probabilities: ".
TEST(Suspects, of_log_probabilities_name_what_is_wrong_with_them) {
  expect_causes(
      "log-probabilities",
      {
          {"raw-logprobs-after-filters", "raw values after temperature and filters"},
          {"raw-logprobs-at-temperature", "raw values after temperature"},
          {"raw-logprobs-after-bans", "raw values after the bitmask"},
          {"processed-logprobs-not-renormalised",
           "processed values that are not renormalised over the survivors"},
          {"processed-logits-undivided", "processed values before the temperature"},
          {"top-n-ties-by-last-id", "of equal values the largest id comes first"},
          {"rank-from-zero", "ranks count from 0"},
          {"rank-counts-ties-as-one", "ranks follow the other rule"},
          {"rank-constant-or-shifted", "ranks"},
          {"top-n-with-the-sampled-token", "the drawn token takes the last place of the largest"},
          {"top-n-filled-with-token-0", "a list that is not full ends in token 0"},
          {"top-n-at-most-20", "the list of the largest tokens ends too early"},
          {"logprobs-of-first-sample", "all samples of an output have the value of the first"},
          {"logprobs-log-of-softmax", "the logarithm of a probability that underflows"},
          {"logprobs-clamped", "what has no value is the smallest float32"},
          {"logprobs-nan-for-banned", "what has no value is NaN"},
          {"logprobs-in-bfloat16", "values have the precision of bfloat16"},
          {"logprobs-of-failed-rows-stale", "an output without a token has values"},
          {"raw-logprobs-after-processing", "raw values after processing and bans"},
          {"raw-logprobs-after-min-tokens", "raw values after bans"},
          {"raw-logprobs-after-penalties", "raw values after penalties"},
          {"processed-logprobs-before-processing", "processed values before processing"},
          {"processed-logprobs-without-bias", "the logit bias"},
          {"processed-logprobs-of-the-prompt", "the penalties of the output"},
          {"processed-logprobs-twice", "processed values of a row that was processed twice"},
          {"processed-top-n-in-raw-order", "the order of tokens is that of the row as it came"},
          {"processed-ranks-of-raw-logits", "ranks compare the logits that came"},
      });
}

// A relation that is violated, or a table of counts that is wrong, tells where to look.
TEST(Suspects, of_speculative_decoding_name_what_is_wrong_with_it) {
  expect_causes("speculative decoding",
                {
                    {"chain-counts-decide", "another result asked for"},
                    {"verify-greedy-compares-padding", "padding is read"},
                    {"verify-parameters-of-the-next", "a request depends on its batch"},
                    {"verify-draft-beyond-vocab-clamped", "a drafted id that is no token"},
                    {"chain-stray-clamped", "a drafted id that is no token"},
                    {"chain-stops-at-8", "counts"},
                    {"verify-law-bonus-takes-the-coin", "the bonus token"},
                });
}

TEST(SuspectClasses, know_every_class_of_the_catalogue) {
  for (const Mutant& mutant : catalogue()) {
    EXPECT_FALSE(causes_of_class(mutant.kind).empty()) << mutant.kind;
  }
  EXPECT_THROW(causes_of_class("no such class"), std::invalid_argument);
}

TEST(SuspectClasses, are_named_up_to_the_colon_and_whole) {
  EXPECT_TRUE(names_class("lost tokens: a lane is never drawn", "lost-tokens"));
  EXPECT_TRUE(names_class("definition of mass exactly at top_p: whole", "mask"));
  EXPECT_FALSE(names_class("lost tokens: a lane is never drawn", "logprobs"));
  EXPECT_FALSE(names_class("tiesome", "ties"));
  EXPECT_FALSE(names_class("", "ties"));
}

}  // namespace
}  // namespace fairdraw::suites
