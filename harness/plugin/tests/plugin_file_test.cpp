// Tests how the file of a plugin is identified.
#include "harness/plugin/plugin_file.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "harness/contract/end_of_run.h"
#include "harness/plugin/sha256.h"

namespace fairdraw::harness::plugin {
namespace {

std::string sha256(const std::string& text, std::size_t piece = 1 << 20) {
  Sha256 sum;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  for (std::size_t at = 0; at < text.size(); at += piece) {
    sum.add({bytes + at, std::min(piece, text.size() - at)});
  }
  return sum.digits();
}

// The texts are the examples of FIPS 180-4 (one block, two blocks, a million letters), and the
// empty text from NIST's validation suite.
TEST(Sha256, hasTheAnswersOfTheStandard) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, isThatOfTheWholeWhateverThePieces) {
  for (const std::size_t size : {55U, 56U, 63U, 64U, 65U, 119U, 120U, 128U, 1000U}) {
    const std::string text(size, 'x');
    for (const std::size_t piece : {1U, 7U, 64U}) EXPECT_EQ(sha256(text, piece), sha256(text));
  }
}

class PluginFiles : public testing::Test {
 public:
  ~PluginFiles() override { std::filesystem::remove(path_); }

 protected:
  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  const std::string path_ =
      testing::TempDir() + "fairdraw_plugin_file_" + std::to_string(getpid()) + ".so";
};

template <class T>
void put(std::string& bytes, std::size_t at, const T& value) {
  bytes.resize(std::max(bytes.size(), at + sizeof(T)));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// Returns an ELF file with one segment of notes: a note of another owner, and a build id of three
// bytes.
std::string elf_file() {
  constexpr std::size_t kSegment = sizeof(Elf64_Ehdr), kNotes = kSegment + sizeof(Elf64_Phdr);
  std::string notes;
  put(notes, 0, Elf64_Nhdr{4, 2, 3});
  notes += std::string("ABC\0\1\2\0\0", 8);
  put(notes, notes.size(), Elf64_Nhdr{4, 3, NT_GNU_BUILD_ID});
  notes += std::string("GNU\0\x0a\xbc\x1d\0", 8);
  std::string file;
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_phoff = kSegment;
  head.e_phentsize = sizeof(Elf64_Phdr);
  head.e_phnum = 1;
  put(file, 0, head);
  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = kNotes;
  segment.p_filesz = notes.size();
  put(file, kSegment, segment);
  return file + notes;
}

TEST_F(PluginFiles, haveTheBuildIdOfTheirNotes) {
  const std::string file = elf_file();
  write(file);
  EXPECT_EQ(build_id_of(path_), "0abc1d");
  EXPECT_EQ(PluginFile(path_).text(), path_ + ", SHA-256 " + sha256(file) + ", build id 0abc1d");
  write("no ELF file");
  EXPECT_EQ(PluginFile(path_).text(),
            path_ + ", SHA-256 " + sha256("no ELF file") + ", no build id");
}

// Files truncated anywhere, or with any byte inverted, give a build id or none, and the code never
// reads beyond the file.
TEST_F(PluginFiles, mayHoldAnything) {
  const std::string file = elf_file();
  for (std::size_t i = 0; i < file.size(); ++i) {
    write(file.substr(0, i));
    EXPECT_EQ(build_id_of(path_), "") << i;
    std::string turned = file;
    turned[i] = static_cast<char>(~turned[i]);
    write(turned);
    EXPECT_LE(build_id_of(path_).size(), 128U) << i;
  }
}

TEST_F(PluginFiles, areTheSameWhileTheirBytesAre) {
  write("one");
  PluginFile file(path_);
  file.expect_unchanged();
  write("one");
  file.expect_unchanged();
  write("two");
  EXPECT_THROW(file.expect_unchanged(), EndOfRun);
  write("one");
  file.expect_unchanged();
  std::filesystem::remove(path_);
  EXPECT_THROW(file.expect_unchanged(), EndOfRun);
}

}  // namespace
}  // namespace fairdraw::harness::plugin
