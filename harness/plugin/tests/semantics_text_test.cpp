#include "harness/contract/semantics_text.h"

#include <gtest/gtest.h>

#include "harness/contract/usage_error.h"
#include "reference/semantic_choices.h"

namespace fairdraw::harness {
namespace {

using reference::Semantics;

std::string refusal(const std::string& text) {
  try {
    semantics_from_text(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SemanticsText, aProfileIsItself) {
  for (const std::string& name : reference::profile_names()) {
    EXPECT_EQ(semantics_from_text(name).name, name);
  }
}

TEST(SemanticsText, overridesChangeTheirFieldsAlone) {
  const Semantics changed = semantics_from_text("hf,top_k_ties=any_k,greedy_below=1e-5");
  EXPECT_EQ(changed.name, "hf,top_k_ties=any_k,greedy_below=1e-5");
  EXPECT_EQ(changed.top_k_ties, reference::TopKTies::any_k);
  EXPECT_EQ(changed.greedy_below, 1e-5);
  const Semantics& hf = *reference::find_profile("hf");
  EXPECT_EQ(changed.top_p_boundary, hf.top_p_boundary);
  EXPECT_EQ(changed.min_p_place, hf.min_p_place);
  EXPECT_EQ(changed.relative_weight_error, hf.relative_weight_error);
}

// Every value of every choice sets the choice's own field and no other.
TEST(SemanticsText, everyChoiceHasItsName) {
  const Semantics& fairdraw = *reference::find_profile("fairdraw");
  for (const reference::Choice& choice : reference::semantic_choices()) {
    for (const reference::ChoiceValue& value : choice.values) {
      const std::string text = "fairdraw," + choice.name + "=" + value.name;
      const Semantics changed = semantics_from_text(text);
      EXPECT_TRUE(value.is_set(changed)) << text;
      for (const reference::Choice& other : reference::semantic_choices()) {
        if (other.name == choice.name) continue;
        EXPECT_EQ(other.of(changed).name, other.of(fairdraw).name) << text << ": " << other.name;
      }
    }
  }
}

TEST(SemanticsText, whatItCannotMeanIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "unknown semantics profile ''"},
      {"hff", "did you mean 'hf'"},
      {"hf,", "'' is not field=value"},
      {"hf,top_k_ties", "'top_k_ties' is not field=value"},
      {"hf,top_k_tie=any_k", "did you mean 'top_k_ties'"},
      {"hf,top_k_ties=any", "did you mean 'any_k'"},
      {"hf,top_k_ties=any_k,top_k_ties=any_k", "top_k_ties is given twice"},
      {"hf,greedy_below=", "'' is no number in [0, 0.1]"},
      {"hf,greedy_below=-1", "'-1' is no number in [0, 0.1]"},
      {"hf,greedy_below=nan", "'nan' is no number in [0, 0.1]"},
      // These definitions of semantics would leave nothing to judge.
      {"hf,greedy_below=inf", "'inf' is no number in [0, 0.1]"},
      {"hf,greedy_below=1e38", "greedy_below: '1e38' is no number in [0, 0.1]"},
      {"hf,least_temperature=1e38", "least_temperature: '1e38' is no number in [0, 0.1]"},
      {"hf,least_temperature=0.1001", "ignores what it is asked for"},
      {"hf,masked_probability_floor=1e30",
       "masked_probability_floor: '1e30' is no number in [0, 1e-06]"},
      {"hf,masked_probability_floor=2e-6", "is no number in [0, 1e-06]"},
      {"hf,greedy_below=1x", "'1x' is no number in [0, 0.1]"},
  };
  for (const auto& [text, says] : cases) {
    EXPECT_NE(refusal(text).find(says), std::string::npos) << text << ": " << refusal(text);
  }
}

// The limits themselves are allowed values, and so is every value that an engine has.
TEST(SemanticsText, numbersMayBeAsLargeAsTheirRange) {
  EXPECT_EQ(semantics_from_text("hf,greedy_below=0.1").greedy_below, 0.1);
  EXPECT_EQ(semantics_from_text("hf,least_temperature=0.1").least_temperature, 0.1);
  EXPECT_EQ(semantics_from_text("hf,masked_probability_floor=1e-6").masked_probability_floor, 1e-6);
  for (const std::string& name : reference::profile_names()) {
    const Semantics& profile = *reference::find_profile(name);
    for (const reference::Choice& choice : reference::semantic_choices()) {
      const std::string text = name + "," + choice.name + "=" + choice.of(profile).name;
      EXPECT_EQ(choice.of(semantics_from_text(text)).name, choice.of(profile).name) << text;
    }
  }
}

std::string allowances(const std::string& text) {
  std::string all;
  for (const std::string& one : allowances_of(semantics_from_text(text))) all += one + "\n";
  return all;
}

TEST(Allowances, sayWhatADefinitionLeavesOpen) {
  EXPECT_EQ(allowances("fairdraw"), "");
  EXPECT_EQ(allowances("fairdraw,top_k_ties=lowest_id,greedy_below=1e-5"), "");
  EXPECT_EQ(allowances("fairdraw,nan_logit=undefined,top_k_zero=undefined"),
            "Judged by its own definition, which allows anything at: top_k 0; NaN, +inf, and rows "
            "of nothing.\n");
  EXPECT_EQ(allowances("fairdraw,least_temperature=0.1,masked_probability_floor=1e-7"),
            "Judged by its own definition, which raises temperatures below 0.1 to that.\n"
            "Judged by its own definition, which lets every token that the filters drop be drawn, "
            "with a weight of 1e-07.\n");
  EXPECT_EQ(allowances("fairdraw,banned_logit=-10000"),
            "Judged by its own definition, which lets banned tokens be drawn, with a logit of "
            "-10000.\n");
  EXPECT_NE(allowances("rosellm").find("Judged by profile rosellm, which allows anything at: "),
            std::string::npos);
}

// Every choice that can leave results undefined has a sentence, even a choice with a new name.
TEST(Allowances, nameEveryUndefinedValue) {
  for (const reference::Choice& choice : reference::semantic_choices()) {
    for (const reference::ChoiceValue& value : choice.values) {
      if (value.name != "undefined") continue;
      EXPECT_NE(allowances("fairdraw," + choice.name + "=undefined").find(choice.meaning),
                std::string::npos)
          << choice.name;
    }
  }
}

}  // namespace
}  // namespace fairdraw::harness
