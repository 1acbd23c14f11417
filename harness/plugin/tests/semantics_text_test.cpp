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

// Every value of every choice reaches its field, and no other.
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
      {"hf,greedy_below=", "'' is no finite number >= 0"},
      {"hf,greedy_below=-1", "'-1' is no finite number >= 0"},
      {"hf,greedy_below=nan", "'nan' is no finite number >= 0"},
      {"hf,greedy_below=1x", "'1x' is no finite number >= 0"},
  };
  for (const auto& [text, says] : cases) {
    EXPECT_NE(refusal(text).find(says), std::string::npos) << text << ": " << refusal(text);
  }
}

}  // namespace
}  // namespace fairdraw::harness
