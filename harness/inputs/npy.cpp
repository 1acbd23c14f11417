#include "harness/inputs/npy.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "harness/contract/usage_error.h"

// The file format is described in numpy.lib.format, "NPY format": magic, version, length of the
// header, the header as a Python dict literal, and the data.
namespace fairdraw::harness {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw UsageError(path.string() + ": " + what);
}

/// Returns `text` in quotes, with unprintable bytes as \xNN, so that a bad file cannot send control
/// characters to the terminal.
std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      result += c;
    } else {
      result += "\\x";
      result += kDigits[byte >> 4];
      result += kDigits[byte & 15];
    }
  }
  return result + (text.size() > kLongest ? "...\"" : "\"");
}

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

/// Parses the dict of the header: it must have the three keys, each once, in any order, and nothing
/// else.
class HeaderParser {
 public:
  HeaderParser(const std::filesystem::path& path, std::string_view text)
      : path_(path), text_(text), rest_(text) {}

  Header parse() {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::uint64_t>> shape;
    expect('{');
    while (!accept('}')) {
      const std::string key = string_literal("a key");
      expect(':');
      const bool again = (key == "descr" && descr) || (key == "fortran_order" && fortran_order) ||
                         (key == "shape" && shape);
      if (again) fail(path_, "header: key '" + key + "' appears twice");
      if (key == "descr") {
        descr = string_literal("field 'descr'");
      } else if (key == "fortran_order") {
        fortran_order = boolean();
      } else if (key == "shape") {
        shape = tuple();
      } else {
        fail(path_, "header: unknown key " + printable(key) +
                        "; allowed: 'descr', 'fortran_order', 'shape'");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) fail(path_, "header: " + printable(rest_) + " after the dict");
    if (!descr) fail(path_, "header: key 'descr' is missing");
    if (!fortran_order) fail(path_, "header: key 'fortran_order' is missing");
    if (!shape) fail(path_, "header: key 'shape' is missing");
    return {*descr, *fortran_order, *shape};
  }

 private:
  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }

  bool accept(char wanted) {
    skip_space();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) malformed(std::string("'") + wanted + "'");
  }

  [[noreturn]] void malformed(const std::string& wanted) const {
    fail(path_, "header: expected " + wanted + " at byte " +
                    std::to_string(text_.size() - rest_.size()) + " of " + printable(text_));
  }

  std::string string_literal(const std::string& what) {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"') malformed(what + " (a string)");
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) malformed("the end of " + what);
    std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }

  bool boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view literal = value ? "True" : "False";
      if (!rest_.starts_with(literal)) continue;
      rest_.remove_prefix(literal.size());
      return value;
    }
    malformed("field 'fortran_order' (True or False)");
  }

  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> sizes;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::uint64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error == std::errc::result_out_of_range) {
        fail(path_, "field 'shape': an axis does not fit into 64 bits");
      }
      if (error != std::errc()) malformed("field 'shape' (a tuple of non-negative integers)");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      sizes.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  const std::filesystem::path& path_;
  std::string_view text_;
  std::string_view rest_;
};

/// A file of known size that is read from start to end.
class File {
 public:
  explicit File(const std::filesystem::path& path) : path_(path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (status.type() == std::filesystem::file_type::not_found) fail(path, "no such file");
    if (error) fail(path, "cannot be read: " + error.message());
    if (!std::filesystem::is_regular_file(status)) fail(path, "is not a regular file");
    left_ = std::filesystem::file_size(path, error);
    if (error) fail(path, "cannot be read: " + error.message());
    stream_.open(path, std::ios::binary);
    if (!stream_) fail(path, std::string("cannot be opened: ") + std::strerror(errno));
  }

  std::uintmax_t left() const { return left_; }

  /// Reads `size` bytes, which error messages call `what`.
  void read(void* target, std::size_t size, const std::string& what) {
    if (size > left_) {
      fail(path_, "truncated " + what + ": " + std::to_string(size) + " bytes expected, " +
                      std::to_string(left_) + " left");
    }
    stream_.read(static_cast<char*>(target), static_cast<std::streamsize>(size));
    if (!stream_) fail(path_, "read error in the " + what);
    left_ -= size;
  }

 private:
  const std::filesystem::path& path_;
  std::ifstream stream_;
  std::uintmax_t left_ = 0;
};

Header read_header(const std::filesystem::path& path, File& file) {
  char preamble[8];  // magic string, then major and minor version
  file.read(preamble, sizeof(preamble), "magic and version");
  if (std::string_view(preamble, kMagic.size()) != kMagic) {
    fail(path, "not a .npy file: it begins with " +
                   printable(std::string_view(preamble, kMagic.size())) + " instead of " +
                   printable(kMagic));
  }
  const int major = static_cast<unsigned char>(preamble[6]);
  const int minor = static_cast<unsigned char>(preamble[7]);
  if (major < 1 || major > 3 || minor != 0) {
    fail(path, "format version is " + std::to_string(major) + "." + std::to_string(minor) +
                   "; allowed: 1.0, 2.0, 3.0");
  }
  unsigned char length_bytes[4] = {};
  file.read(length_bytes, major == 1 ? 2 : 4, "header length");
  std::size_t length = 0;
  for (int i = 3; i >= 0; --i) length = length << 8 | length_bytes[i];
  // The length is compared with the bytes left in the file before memory is allocated, because a
  // bad file may state any length.
  std::string text(length <= file.left() ? length : 0, '\0');
  file.read(text.data(), length, "header");
  return HeaderParser(path, text).parse();
}

DType dtype_of(const std::filesystem::path& path, const std::string& descr, bool bfloat16) {
  if (bfloat16) {
    if (descr == "<u2") return DType::bfloat16;
    fail(path, "field 'descr' is " + printable(descr) +
                   "; allowed for bfloat16: '<u2' (the 16-bit patterns)");
  }
  if (descr == "<f4") return DType::float32;
  if (descr == "<f2") return DType::float16;
  fail(path, "field 'descr' is " + printable(descr) +
                 "; allowed: '<f4', '<f2', or '<u2' where it is declared to be bfloat16");
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    text += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace

CapturedLogits load_npy(const std::filesystem::path& path, bool bfloat16) {
  File file(path);
  const Header header = read_header(path, file);

  CapturedLogits logits;
  logits.name = path.stem().string();
  logits.dtype = dtype_of(path, header.descr, bfloat16);
  if (header.fortran_order) {
    fail(path, "field 'fortran_order' is True; allowed: False (C order)");
  }
  const std::string shape = "field 'shape' is " + shape_text(header.shape);
  if (header.shape.empty() || header.shape.size() > 2) {
    fail(path, shape + "; allowed: (vocab,) or (rows, vocab)");
  }
  const std::uint64_t rows = header.shape.size() == 2 ? header.shape.front() : 1;
  const std::uint64_t vocab = header.shape.back();
  if (vocab < 1 || vocab > static_cast<std::uint64_t>(kMaxVocab)) {
    fail(path, shape + "; allowed vocab: 1 to " + std::to_string(kMaxVocab));
  }
  if (rows < 1) fail(path, shape + "; allowed rows: at least 1");
  std::int64_t bytes = 0;  // limited to 63 bits, as sizes of files are
  if (__builtin_mul_overflow(rows, vocab * value_size(logits.dtype), &bytes)) {
    fail(path, shape + "; its size in bytes overflows 63 bits");
  }
  logits.rows = static_cast<std::int64_t>(rows);
  logits.vocab = static_cast<std::int64_t>(vocab);

  const auto size = static_cast<std::size_t>(bytes);
  logits.data.resize(size <= file.left() ? size : 0);
  file.read(logits.data.data(), size, "data");
  if (file.left() > 0) {
    fail(path, std::to_string(file.left()) + " bytes after the data of shape " +
                   shape_text(header.shape));
  }
  return logits;
}

}  // namespace fairdraw::harness
