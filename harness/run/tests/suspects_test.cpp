// Tests suspected causes: a right mask is never blamed, and if a sampler stops, the check's subject
// is not blamed.
#include "harness/run/evidence/suspects.h"

#include <gtest/gtest.h>

namespace fairdraw::harness {
namespace {

// Returns evidence with four tokens by decreasing logit, two of which are in the support; token 9
// was drawn.
CheckOutcome drawn_outside(std::optional<bool> kept_9) {
  CheckOutcome outcome;
  outcome.fail("token 9 was drawn");
  Boundary boundary;
  const auto add = [&](std::uint64_t token, double logit, Oracle oracle, std::optional<bool> kept,
                       std::optional<std::uint64_t> drawn) {
    boundary.tokens.push_back({token, logit, 0, 0, oracle, kept, drawn});
  };
  const bool has_mask = kept_9.has_value();
  const auto mask = [has_mask](bool kept) {
    return has_mask ? std::optional<bool>(kept) : std::nullopt;
  };
  add(3, 4, Oracle::in, mask(true), 0);
  add(5, 3, Oracle::in, mask(true), 2);
  add(9, 2, Oracle::out, kept_9, 1);
  add(7, 1, Oracle::out, mask(false), 0);
  outcome.evidence.boundary = boundary;
  return outcome;
}

std::string all_of(const CheckOutcome& outcome) {
  std::string text;
  for (const Suspect& one : outcome.evidence.suspects) text += one.bug + ". " + one.reason + "\n";
  return text;
}

TEST(Suspects, a_token_that_its_own_mask_excludes_is_drawn_and_not_kept) {
  CheckOutcome outcome = drawn_outside(false);
  add_suspects("support", outcome);
  EXPECT_EQ(all_of(outcome),
            "out of support: the draw leaves a mask that is right. token 9 is not in the mask, and "
            "was drawn\n");
}

TEST(Suspects, a_token_that_a_wrong_mask_holds_is_one_too_many) {
  CheckOutcome outcome = drawn_outside(true);
  add_suspects("support", outcome);
  EXPECT_TRUE(all_of(outcome).starts_with("boundary of the mask: one token too many"))
      << all_of(outcome);
}

// Without a mask the judge does not know whether a token was kept: token 3 may be missing by
// chance.
TEST(Suspects, without_a_mask_tokens_are_drawn_and_neither_kept_nor_dropped) {
  CheckOutcome outcome = drawn_outside(std::nullopt);
  outcome.evidence.boundary->tokens.push_back({11, 0, 0, 0, Oracle::out, std::nullopt, 4});
  add_suspects("support", outcome);
  const std::string text = all_of(outcome);
  EXPECT_NE(text.find("drawn"), std::string::npos) << text;
  EXPECT_EQ(text.find("kept"), std::string::npos) << text;
  EXPECT_EQ(text.find("dropped"), std::string::npos) << text;
}

TEST(Suspects, a_sampler_that_stops_is_not_blamed_for_what_the_check_is_about) {
  CheckOutcome outcome = drawn_outside(true);
  outcome.evidence.suspects = {{"shared random bits", "seeds repeat"}};
  suspect_the_process("the plugin was ended by signal 11 (SIGSEGV)", outcome);
  ASSERT_EQ(outcome.evidence.suspects.size(), 1u);
  EXPECT_TRUE(outcome.evidence.suspects.front().bug.starts_with("the sampler itself stops"));
  EXPECT_NE(outcome.evidence.suspects.front().reason.find("signal 11"), std::string::npos);
}

// A call without results is named in every check, except that the check of bad rows judges refusals
// itself.
TEST(Suspects, a_call_that_gives_nothing_is_a_cause_in_the_words_of_its_message) {
  const auto first_cause = [](const char* check, const char* message) {
    CheckOutcome outcome = drawn_outside(true);
    outcome.message = message;
    add_suspects(check, outcome);
    return outcome.evidence.suspects.front().bug;
  };
  const char* const refused = "a batch of 1 row: call refused: top_k 31 is not below 31.";
  EXPECT_EQ(first_cause("mask", refused), "a call is refused: top_k 31 is not below 31");
  EXPECT_EQ(first_cause("status", refused), "boundary of the mask: one token too many");
  EXPECT_EQ(first_cause("support", "row 3: token -2147483648, outside of the vocabulary"),
            "results are not written");
}

TEST(Suspects, what_is_written_elsewhere_is_the_bug_whatever_was_checked) {
  for (const char* const message :
       {"row 3: wrote past the end of tokens", "wrote in front of mask",
        "gaps: wrote between two rows of probs", "changed logits, which it may only read"}) {
    CheckOutcome outcome = drawn_outside(true);
    outcome.message = message;
    add_suspects("streams", outcome);
    EXPECT_EQ(all_of(outcome),
              "memory: writes outside of its results. " + std::string(message) + "\n");
  }
}

}  // namespace
}  // namespace fairdraw::harness
