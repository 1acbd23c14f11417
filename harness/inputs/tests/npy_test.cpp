#include "harness/inputs/npy.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "harness/contract/usage_error.h"
#include "harness/inputs/families.h"

namespace fairdraw::harness {
namespace {

class Npy : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        std::filesystem::path(testing::TempDir()) / (std::string("fairdraw_npy_") + test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    file_ = folder_ / "logits.npy";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& bytes) const { std::ofstream(file_, std::ios::binary) << bytes; }

  CapturedLogits load(const std::string& bytes, bool bfloat16 = false) const {
    write(bytes);
    return load_npy(file_, bfloat16);
  }

  /// Returns the message of the UsageError, without the file's path at the beginning.
  std::string message(const std::filesystem::path& path, bool bfloat16 = false) const {
    try {
      load_npy(path, bfloat16);
    } catch (const UsageError& error) {
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with(path.string() + ": ")) << text;
      return text.substr(std::min(text.size(), path.string().size() + 2));
    }
    return "no error";
  }

  std::string message_of(const std::string& bytes, bool bfloat16 = false) const {
    write(bytes);
    return message(file_, bfloat16);
  }

  std::filesystem::path folder_, file_;
};

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

/// Returns the bytes of a .npy file with this header and data. The header ends in a newline, as the
/// format requires.
std::string npy(const std::string& dict, const std::string& data, int major = 1) {
  const std::string header = dict + "\n";
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(major);
  bytes += '\0';
  return bytes + little_endian(header.size(), major == 1 ? 2 : 4) + header + data;
}

std::string dict(const std::string& descr, const std::string& shape,
                 const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes;
  for (const T value : values) {
    if constexpr (sizeof(T) == 4) {
      bytes += little_endian(std::bit_cast<std::uint32_t>(value), 4);
    } else {
      bytes += little_endian(value, 2);
    }
  }
  return bytes;
}

TEST_F(Npy, float32_comes_back_bit_for_bit) {
  std::vector<float> values(6);
  generate_row(Family::huge_range, 1, 0, values);
  values[1] = -std::numeric_limits<float>::infinity();
  values[4] = -0.0f;
  const CapturedLogits logits = load(npy(dict("<f4", "(2, 3)"), bytes_of(values)));
  EXPECT_EQ(logits.name, "logits");
  EXPECT_EQ(logits.dtype, DType::float32);
  EXPECT_EQ(logits.rows, 2);
  EXPECT_EQ(logits.vocab, 3);
  EXPECT_EQ(logits.data.size(), 24u);
  for (std::ptrdiff_t row = 0; row < 2; ++row) {
    const std::vector<float> loaded = logits.row(row);
    ASSERT_EQ(loaded.size(), 3u);
    EXPECT_EQ(std::memcmp(loaded.data(), values.data() + 3 * row, 12), 0);
  }
}

TEST_F(Npy, float16_and_bfloat16_come_back_as_the_float32_of_equal_value) {
  const std::vector<std::uint16_t> patterns = {0x3c00, 0x0001, 0xfc00, 0x8000, 0x7bff};
  const CapturedLogits half = load(npy(dict("<f2", "(1, 5)"), bytes_of(patterns)));
  EXPECT_EQ(half.dtype, DType::float16);
  EXPECT_EQ(half.row(0), (std::vector<float>{1.0f, 0x1p-24f, -INFINITY, -0.0f, 65504.0f}));
  const CapturedLogits brain = load(npy(dict("<u2", "(1, 5)"), bytes_of(patterns)), true);
  EXPECT_EQ(brain.dtype, DType::bfloat16);
  EXPECT_EQ(brain.row(0)[0], 0x1p-7f);    // exponent 0x78 = 127 - 7
  EXPECT_EQ(brain.row(0)[1], 0x1p-133f);  // the smallest subnormal, 2^(-126 - 7)
  EXPECT_TRUE(std::signbit(brain.row(0)[3]));
}

TEST_F(Npy, one_axis_is_one_row) {
  const CapturedLogits logits = load(npy(dict("<f4", "(3,)"), bytes_of<float>({1, 2, 3})));
  EXPECT_EQ(logits.rows, 1);
  EXPECT_EQ(logits.vocab, 3);
  EXPECT_EQ(logits.row(0), (std::vector<float>{1, 2, 3}));
}

TEST_F(Npy, a_row_out_of_range_is_refused) {
  const CapturedLogits logits = load(npy(dict("<f4", "(3,)"), bytes_of<float>({1, 2, 3})));
  EXPECT_THROW(logits.row(1), std::out_of_range);
  EXPECT_THROW(logits.row(-1), std::out_of_range);
}

TEST_F(Npy, all_versions_and_any_spelling_of_the_dict_are_read) {
  const std::string data = bytes_of<float>({1, 2});
  for (const int major : {1, 2, 3}) {
    EXPECT_EQ(load(npy(dict("<f4", "(1, 2)"), data, major)).row(0), (std::vector<float>{1, 2}));
  }
  for (const std::string text : {
           "{\"shape\":(1,2),\"descr\":\"<f4\",\"fortran_order\":False}",
           "  { 'fortran_order' : False , 'shape' : ( 1 , 2 , ) , 'descr' : '<f4' , }      ",
       }) {
    EXPECT_EQ(load(npy(text, data)).row(0), (std::vector<float>{1, 2})) << text;
  }
}

TEST_F(Npy, the_captured_logits_of_the_suites_are_read) {
  const std::filesystem::path folder = FAIRDRAW_SUITE_DATA;
  const CapturedLogits exact = load_npy(folder / "lm_logits_f32.npy", false);
  const CapturedLogits rounded = load_npy(folder / "lm_logits_bf16_as_u16.npy", true);
  EXPECT_EQ(exact.name, "lm_logits_f32");
  EXPECT_EQ(exact.rows, 24);
  EXPECT_EQ(rounded.rows, 48);
  EXPECT_EQ(exact.vocab, 50304);
  EXPECT_EQ(rounded.vocab, 50304);
  // As the README of the data says, the first 24 rows of one file are the rounded rows of the other
  // file.
  for (std::int64_t row = 0; row < exact.rows; ++row) {
    std::vector<float> values = exact.row(row);
    for (float& value : values) value = from_bfloat16(to_bfloat16(value));
    ASSERT_EQ(values, rounded.row(row)) << row;
  }
}

TEST_F(Npy, a_path_that_cannot_be_read_is_named) {
  EXPECT_EQ(message(folder_ / "missing.npy"), "no such file");
  EXPECT_EQ(message(folder_), "is not a regular file");
  EXPECT_EQ(message(folder_ / std::string(300, 'x')), "cannot be read: File name too long");
}

TEST_F(Npy, truncated_files_say_where) {
  const std::string whole = npy(dict("<f4", "(1, 2)"), bytes_of<float>({1, 2}));
  EXPECT_EQ(message_of(""), "truncated magic and version: 8 bytes expected, 0 left");
  EXPECT_EQ(message_of(whole.substr(0, 7)),
            "truncated magic and version: 8 bytes expected, 7 left");
  EXPECT_EQ(message_of(whole.substr(0, 9)), "truncated header length: 2 bytes expected, 1 left");
  const std::size_t header = whole.size() - 10 - 8;
  EXPECT_EQ(message_of(whole.substr(0, 40)),
            "truncated header: " + std::to_string(header) + " bytes expected, 30 left");
  EXPECT_EQ(message_of(whole.substr(0, whole.size() - 1)),
            "truncated data: 8 bytes expected, 7 left");
  // A length that no file has must not be allocated before it is checked.
  EXPECT_EQ(message_of("\x93NUMPY" + std::string("\x02\0\xff\xff\xff\xff{}", 8)),
            "truncated header: 4294967295 bytes expected, 2 left");
  EXPECT_EQ(message_of(npy(dict("<f4", "(1000000000, 1048576)"), "")),
            "truncated data: 4194304000000000 bytes expected, 0 left");
}

TEST_F(Npy, trailing_bytes_are_refused) {
  EXPECT_EQ(message_of(npy(dict("<f4", "(1, 2)"), bytes_of<float>({1, 2, 3}))),
            "4 bytes after the data of shape (1, 2)");
}

TEST_F(Npy, wrong_magic_and_version_are_refused) {
  EXPECT_EQ(message_of("PK\x03\x04zipped"),
            "not a .npy file: it begins with \"PK\\x03\\x04zi\" instead of \"\\x93NUMPY\"");
  const std::string whole = npy(dict("<f4", "(1,)"), bytes_of<float>({1}));
  std::string bytes = whole;
  bytes[6] = 4;
  EXPECT_EQ(message_of(bytes), "format version is 4.0; allowed: 1.0, 2.0, 3.0");
  bytes = whole;
  bytes[6] = 0;
  EXPECT_EQ(message_of(bytes), "format version is 0.0; allowed: 1.0, 2.0, 3.0");
  bytes = whole;
  bytes[7] = 1;
  EXPECT_EQ(message_of(bytes), "format version is 1.1; allowed: 1.0, 2.0, 3.0");
}

TEST_F(Npy, dtypes_that_are_not_logits_are_refused) {
  const std::string allowed =
      "; allowed: '<f4', '<f2', or '<u2' where it is declared to be bfloat16";
  for (const std::string descr : {">f4", "<f8", "<i4", "<u2", "=f4", "|f4", "<f4 ", "f4", ""}) {
    EXPECT_EQ(message_of(npy(dict(descr, "(1, 2)"), bytes_of<float>({1, 2}))),
              "field 'descr' is \"" + descr + "\"" + allowed);
  }
  for (const std::string descr : {"<f4", "<f2", ">u2", "<i2"}) {
    EXPECT_EQ(
        message_of(npy(dict(descr, "(1, 2)"), bytes_of<float>({1, 2})), true),
        "field 'descr' is \"" + descr + "\"; allowed for bfloat16: '<u2' (the 16-bit patterns)");
  }
}

TEST_F(Npy, fortran_order_is_refused) {
  EXPECT_EQ(message_of(npy(dict("<f4", "(1, 2)", "True"), bytes_of<float>({1, 2}))),
            "field 'fortran_order' is True; allowed: False (C order)");
}

TEST_F(Npy, shapes_out_of_range_are_refused) {
  const auto shape_message = [this](const std::string& shape) {
    return message_of(npy(dict("<f4", shape), ""));
  };
  EXPECT_EQ(shape_message("()"), "field 'shape' is (); allowed: (vocab,) or (rows, vocab)");
  EXPECT_EQ(shape_message("(1, 2, 3)"),
            "field 'shape' is (1, 2, 3); allowed: (vocab,) or (rows, vocab)");
  EXPECT_EQ(shape_message("(0, 5)"), "field 'shape' is (0, 5); allowed rows: at least 1");
  EXPECT_EQ(shape_message("(5, 0)"), "field 'shape' is (5, 0); allowed vocab: 1 to 1048576");
  EXPECT_EQ(shape_message("(0,)"), "field 'shape' is (0,); allowed vocab: 1 to 1048576");
  EXPECT_EQ(shape_message("(1, 1048577)"),
            "field 'shape' is (1, 1048577); allowed vocab: 1 to 1048576");
  // The shape 2^41 rows of 2^20 values of 4 bytes needs 2^63 bytes. A file of one row less passes
  // this check, but fails the check of the file's size.
  EXPECT_EQ(shape_message("(2199023255552, 1048576)"),
            "field 'shape' is (2199023255552, 1048576); its size in bytes overflows 63 bits");
  EXPECT_EQ(
      shape_message("(18446744073709551615, 1048576)"),
      "field 'shape' is (18446744073709551615, 1048576); its size in bytes overflows 63 bits");
  EXPECT_EQ(shape_message("(2199023255551, 1048576)"),
            "truncated data: 9223372036850581504 bytes expected, 0 left");
  EXPECT_EQ(shape_message("(18446744073709551616, 2)"),
            "field 'shape': an axis does not fit into 64 bits");
  EXPECT_EQ(shape_message("(1, 1048576)"), "truncated data: 4194304 bytes expected, 0 left");
}

TEST_F(Npy, malformed_headers_are_refused) {
  const auto header_message = [this](const std::string& text) {
    return message_of(npy(text, bytes_of<float>({1, 2})));
  };
  EXPECT_EQ(header_message("{'descr': '<f4', 'fortran_order': False}"),
            "header: key 'shape' is missing");
  EXPECT_EQ(header_message("{'descr': '<f4', 'shape': (1, 2)}"),
            "header: key 'fortran_order' is missing");
  EXPECT_EQ(header_message("{'shape': (1, 2), 'fortran_order': False}"),
            "header: key 'descr' is missing");
  EXPECT_EQ(header_message("{'descr': '<f4', 'descr': '<f2'}"),
            "header: key 'descr' appears twice");
  EXPECT_EQ(header_message("{'color': '<f4'}"),
            "header: unknown key \"color\"; allowed: 'descr', 'fortran_order', 'shape'");
  EXPECT_EQ(header_message(dict("<f4", "(1, 2)") + " x"), "header: \"x\\x0a\" after the dict");
  EXPECT_EQ(header_message("[]"), "header: expected '{' at byte 0 of \"[]\\x0a\"");
  EXPECT_EQ(header_message("{'shape': (-1, 2)}"),
            "header: expected field 'shape' (a tuple of non-negative integers) at byte 11 of "
            "\"{'shape': (-1, 2)}\\x0a\"");
  EXPECT_EQ(header_message("{'fortran_order': 0}"),
            "header: expected field 'fortran_order' (True or False) at byte 18 of "
            "\"{'fortran_order': 0}\\x0a\"");
  EXPECT_EQ(header_message("{'descr': [('a', '<f4')]}"),
            "header: expected field 'descr' (a string) at byte 10 of "
            "\"{'descr': [('a', '<f4')]}\\x0a\"");
  EXPECT_EQ(header_message("{'descr': '<f4}"),
            "header: expected the end of field 'descr' at byte 10 of \"{'descr': '<f4}\\x0a\"");
  EXPECT_EQ(header_message("{'descr' '<f4'}"),
            "header: expected ':' at byte 9 of \"{'descr' '<f4'}\\x0a\"");
  EXPECT_EQ(header_message("{'shape': (1 2)}"),
            "header: expected ')' at byte 13 of \"{'shape': (1 2)}\\x0a\"");
  EXPECT_EQ(message_of(npy("", "")), "header: expected '{' at byte 1 of \"\\x0a\"");
}

TEST_F(Npy, bytes_of_a_bad_file_do_not_reach_the_terminal) {
  const std::string text = message_of(npy(dict("\x1b[31m", "(1, 2)"), ""));
  EXPECT_NE(text.find("\"\\x1b[31m\""), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  // The message truncates a long header.
  EXPECT_LT(message_of(npy(std::string(5000, 'x'), "")).size(), 150u);
}

// A valid file with any byte changed, or truncated anywhere, either loads or makes load_npy throw
// UsageError.
TEST_F(Npy, no_damaged_file_does_anything_else) {
  const std::string whole = npy(dict("<f4", "(1, 2)"), bytes_of<float>({1, 2}));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int change : {0x01, 0x20, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ change);
      write(bytes);
      try {
        EXPECT_LE(load_npy(file_, false).data.size(), whole.size());
      } catch (const UsageError&) {
      }
    }
    EXPECT_NE(message_of(whole.substr(0, i)), "no error") << i;
  }
}

}  // namespace
}  // namespace fairdraw::harness
