#include "harness/contract/semantics_text.h"

#include <gtest/gtest.h>

#include "harness/contract/usage_error.h"

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

// One override for each field: it must reach that field, at the last of its values.
TEST(SemanticsText, everyFieldHasItsName) {
  const auto of = [](const std::string& item) { return semantics_from_text("fairdraw," + item); };
  using namespace reference;
  EXPECT_EQ(of("top_k_ties=any_k").top_k_ties, TopKTies::any_k);
  EXPECT_EQ(of("top_p_ties=any").top_p_ties, TopPTies::any);
  EXPECT_EQ(of("top_p_boundary=inclusive_mass_at_most_p").top_p_boundary,
            TopPBoundary::inclusive_mass_at_most_p);
  EXPECT_EQ(of("top_p_base=joint").top_p_base, TopPBase::joint);
  EXPECT_EQ(of("min_p_place=none").min_p_place, MinPPlace::none);
  EXPECT_EQ(of("top_k_zero=undefined").top_k_zero, TopKZero::undefined);
  EXPECT_EQ(of("top_k_negative=error").top_k_negative, TopKNegative::error);
  EXPECT_EQ(of("top_k_one=filter").top_k_one, TopKOne::filter);
  EXPECT_EQ(of("top_k_above_vocab=error").top_k_above_vocab, TopKAboveVocab::error);
  EXPECT_EQ(of("top_p_zero=undefined").top_p_zero, TopPZero::undefined);
  EXPECT_EQ(of("top_p_one=filter").top_p_one, TopPOne::filter);
  EXPECT_EQ(of("temperature_zero=uniform").temperature_zero, TemperatureZero::uniform);
  EXPECT_EQ(of("greedy_ties=any").greedy_ties, GreedyTies::any);
  EXPECT_EQ(of("nan_logit=undefined").nan_logit, NanLogit::undefined);
  EXPECT_EQ(of("invalid_parameter=undefined").invalid_parameter, InvalidParameter::undefined);
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
