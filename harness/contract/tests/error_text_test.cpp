#include "harness/contract/error_text.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace fairdraw::harness {
namespace {

template <class Work>
std::string text_of(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error_text(error);
  }
  return "nothing was thrown";
}

TEST(CutText, keeps_what_fits_and_says_how_much_there_was) {
  EXPECT_EQ(cut_text("four", 4), "four");
  EXPECT_EQ(cut_text("fives", 4), "five... (5 bytes in all)");
  // The letter "ü" has two bytes, and the second of them is the fourth byte of this text.
  EXPECT_EQ(cut_text("abc\xc3\xbcx", 4), "abc... (6 bytes in all)");
  EXPECT_EQ(cut_text("ab\xc3\xbcx", 4), "ab\xc3\xbc... (5 bytes in all)");
}

TEST(ErrorText, is_a_sentence_where_memory_runs_out) {
  const std::vector<std::string> texts = {text_of([] { throw std::bad_alloc(); }), text_of([] {
                                            std::vector<int>().reserve(~std::size_t{0});
                                          }),
                                          text_of([] { std::string().reserve(~std::size_t{0}); })};
  for (const std::string& text : texts) EXPECT_TRUE(text.starts_with("memory ran out")) << text;
}

TEST(ErrorText, has_no_word_of_the_library_that_threw) {
  EXPECT_EQ(text_of([] {
              throw std::runtime_error("[json.exception.type_error.316] invalid UTF-8 byte");
            }),
            "a value of JSON is not what fairdraw takes it for (invalid UTF-8 byte)");
  EXPECT_EQ(text_of([] { throw std::bad_exception(); }),
            "an error that says no more than 'bad_exception'");
  EXPECT_EQ(text_of([] { throw std::length_error("the capsule is too long"); }),
            "the capsule is too long");
  EXPECT_EQ(text_of([] { throw std::runtime_error(std::string(3 * kLongestText, 'x')); }).size(),
            kLongestText + std::string("... (6000 bytes in all)").size());
}

}  // namespace
}  // namespace fairdraw::harness
