// Tests which names are suggested for an unknown name, and when none is suggested.
#include "harness/contract/usage_error.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fairdraw::harness {
namespace {

using Names = std::vector<std::string>;

// Returns the text between "did you mean " and "? Known:"; empty if nothing is suggested.
std::string suggested(const std::string& given, const Names& known) {
  const std::string message = unknown_name_message("name", given, known);
  const std::string before = "unknown name '" + given + "'; did you mean ";
  std::string list;
  for (const std::string& name : known) list += " " + name;
  if (!message.starts_with(before)) {
    EXPECT_EQ(message, "unknown name '" + given + "'; known:" + list);
    return {};
  }
  const std::string after = "? Known:" + list;
  EXPECT_TRUE(message.ends_with(after)) << message;
  return message.substr(before.size(), message.size() - before.size() - after.size());
}

const Names kProfiles = {"fairdraw", "vllm_torch", "vllm_triton", "hf", "sglang", "sglang_torch"};
const Names kSamplers = {"cpu", "cpu:scalar", "cpu:avx2", "cpu:avx512", "model"};
const Names kDtypes = {"float32", "float16", "bfloat16"};

TEST(UnknownName, SuggestsNamesThatBeginSo) {
  EXPECT_EQ(suggested("vllm", kProfiles), "'vllm_torch' or 'vllm_triton'");
  EXPECT_EQ(suggested("vllm_to", kProfiles), "'vllm_torch'");
  EXPECT_EQ(suggested("cpu:", kSamplers), "'cpu:scalar', 'cpu:avx2' or 'cpu:avx512'");
  EXPECT_EQ(suggested("na", {"name1", "name2", "name3", "name4", "name5"}),
            "'name1', 'name2', 'name3' or 'name4'");
}

TEST(UnknownName, SuggestsWhatIsAbbreviated) {
  EXPECT_EQ(suggested("bf16", kDtypes), "'bfloat16'");
  EXPECT_EQ(suggested("rprt", {"report", "replay"}), "'report'");
}

TEST(UnknownName, SuggestsWhatIsMisspelt) {
  EXPECT_EQ(suggested("vllm_toch", kProfiles), "'vllm_torch'");  // 1 of 9 letters is missing
  EXPECT_EQ(suggested("hff", kProfiles), "'hf'");                // 1 of the 3 letters is too many
  EXPECT_EQ(suggested("cpu:avx3", kSamplers), "'cpu:avx2'");     // 1 of 8 letters replaced
  EXPECT_EQ(suggested("cpu;avx3", kSamplers), "'cpu:avx2'");     // 2 of 8 letters are wrong, just
                                                                 // below a third
  EXPECT_EQ(suggested("lits", {"list", "lint"}), "'list'");      // a swap counts as one mistake
  EXPECT_EQ(suggested("bat", {"cat", "rat", "dog"}), "'cat' or 'rat'");
}

TEST(UnknownName, SuggestsNothingThatIsFarAway) {
  EXPECT_EQ(suggested("bf16", kSamplers), "");
  EXPECT_EQ(suggested("bf16", kProfiles), "");
  EXPECT_EQ(suggested("vllm", kSamplers), "");
  EXPECT_EQ(suggested("xyzzy", {"fuzz", "verify"}), "");
  EXPECT_EQ(suggested("abcd", {"axyd"}), "");  // 2 of 4 letters replaced
  EXPECT_EQ(suggested("x", {"a"}), "");        // the only letter of the given name is wrong
  EXPECT_EQ(suggested("", {"a", "ab"}), "");
  EXPECT_EQ(suggested("c", kSamplers), "");  // this prefix begins four names, so it is too vague
}

TEST(UnknownName, SaysWhereNoneIsKnown) {
  EXPECT_EQ(unknown_name_message("verb", "x", Names{}), "unknown verb 'x'; none is known");
}

}  // namespace
}  // namespace fairdraw::harness
