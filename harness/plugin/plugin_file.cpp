#include "harness/plugin/plugin_file.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string_view>

#include "harness/contract/end_of_run.h"
#include "harness/inputs/open_file.h"
#include "harness/plugin/library.h"
#include "harness/plugin/sha256.h"

namespace fairdraw::harness::plugin {
namespace {

// Reads up to `size` bytes, or fewer at the end of the file. The file is not mapped into memory,
// because the process would crash if the file were truncated meanwhile.
std::string bytes_at(const OpenFile& file, std::uint64_t from, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got =
        pread(file.number(), bytes.data() + done, size - done, static_cast<off_t>(from + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

template <class T>
std::optional<T> value_at(const OpenFile& file, std::uint64_t from) {
  const std::string bytes = bytes_at(file, from, sizeof(T));
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

std::string sha256_of(const std::string& path) {
  const OpenFile file(path);
  Sha256 sum;
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::uint64_t from = 0;
  for (;;) {
    const std::string piece = bytes_at(file, from, kPiece);
    if (piece.empty()) return sum.digits();
    sum.add({reinterpret_cast<const unsigned char*>(piece.data()), piece.size()});
    from += piece.size();
  }
}

std::uint64_t padded(std::uint32_t size) { return (std::uint64_t{size} + 3) / 4 * 4; }

std::string build_id_in(std::string_view notes) {
  using std::string_view_literals::operator""sv;
  constexpr std::string_view kOwner = "GNU\0"sv;
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr head;
    std::memcpy(&head, notes.data(), sizeof(head));
    notes.remove_prefix(sizeof(head));
    const std::uint64_t name = padded(head.n_namesz), all = name + padded(head.n_descsz);
    if (all > notes.size()) return {};
    constexpr std::uint32_t kLongest = 64;
    if (head.n_type == NT_GNU_BUILD_ID && notes.substr(0, head.n_namesz) == kOwner &&
        head.n_descsz <= kLongest) {
      std::string digits;
      for (const char byte : notes.substr(name, head.n_descsz)) {
        digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
      }
      return digits;
    }
    notes.remove_prefix(all);
  }
  return {};
}

bool is_same(const struct stat& one, const struct stat& other) {
  const auto is_same_time = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino && one.st_size == other.st_size &&
         is_same_time(one.st_mtim, other.st_mtim) && is_same_time(one.st_ctim, other.st_ctim);
}

// True if the file's last change is so old that its time identifies the contents; two changes
// within one tick of the clock would have the same time.
bool has_settled(const struct stat& file) {
  constexpr std::time_t kTick = 1;  // clock tick of old file systems, in seconds
  return std::time(nullptr) > file.st_ctim.tv_sec + kTick;
}

// The texts about plugin files, which plugin_files() returns.
struct Known {
  std::mutex mutex;
  std::map<std::string, std::string> texts;
};

Known& known() {
  static Known all;
  return all;
}

}  // namespace

std::string build_id_of(const std::string& path) {
  const OpenFile file(path);
  const auto head = value_at<Elf64_Ehdr>(file, 0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return {};
  if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_phentsize != sizeof(Elf64_Phdr)) return {};
  for (std::uint64_t i = 0; i < head->e_phnum; ++i) {
    const auto segment = value_at<Elf64_Phdr>(file, head->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment || segment->p_type != PT_NOTE) continue;
    constexpr std::uint64_t kMax = 65536;  // bytes of notes
    const std::string notes = bytes_at(file, segment->p_offset,
                                       static_cast<std::size_t>(std::min(segment->p_filesz, kMax)));
    if (std::string found = build_id_in(notes); !found.empty()) return found;
  }
  return {};
}

PluginFile::PluginFile(const std::string& path) : path_(path) {
  expect_file(path);
  // Metadata are read before the bytes, so that the next check notices a change in between.
  stat(path.c_str(), &seen_);
  settled_ = has_settled(seen_);
  sha256_ = sha256_of(path);
  build_id_ = build_id_of(path);
}

std::string PluginFile::text() const {
  const std::string build = build_id_.empty() ? "no build id" : "build id " + build_id_;
  return fmt::format("{}, SHA-256 {}, {}", std::filesystem::absolute(path_).string(), sha256_,
                     build);
}

void PluginFile::expect_unchanged() {
  const std::lock_guard lock(mutex_);
  struct stat now {};
  const bool is_there = stat(path_.c_str(), &now) == 0 && S_ISREG(now.st_mode);
  if (is_there && settled_ && is_same(now, seen_)) return;
  settled_ = is_there && has_settled(now);  // must be computed before the bytes are read
  const std::string found = is_there ? "SHA-256 " + sha256_of(path_) : "no file";
  if (is_there && found.ends_with(sha256_)) {
    seen_ = now;  // the file was touched or copied again, with the same bytes
    return;
  }
  throw EndOfRun(
      fmt::format("plugin '{}': the file changed during the run, so the results belong to neither "
                  "version: the SHA-256 was {} and is now {}; run it again",
                  path_, sha256_, found));
}

void note_plugin_file(const std::string& sampler, const PluginFile& file) {
  const std::lock_guard lock(known().mutex);
  known().texts[sampler] = file.text();
}

std::map<std::string, std::string> plugin_files(const std::vector<std::string>& samplers) {
  std::map<std::string, std::string> texts;
  const std::lock_guard lock(known().mutex);
  for (const std::string& sampler : samplers) {
    const auto found = known().texts.find(sampler);
    if (found != known().texts.end()) texts.insert(*found);
  }
  return texts;
}

}  // namespace fairdraw::harness::plugin
