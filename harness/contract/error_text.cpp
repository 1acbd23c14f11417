#include "harness/contract/error_text.h"

#include <fmt/format.h>

#include <new>
#include <stdexcept>
#include <string_view>

namespace fairdraw::harness {
namespace {

constexpr const char* kNoMemory =
    "memory ran out: less is free than this call needs, or than a limit on the process allows";

// True for the messages that standard containers throw for an impossible length:
// "vector::_M_default_append", "cannot create std::vector larger than max_size()",
// "basic_string::_M_create". Messages of fairdraw begin differently.
bool is_of_containers(std::string_view text) {
  return text.starts_with("vector::") || text.starts_with("basic_string::") ||
         text.starts_with("cannot create std::");
}

}  // namespace

std::string cut_text(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  const std::size_t all = text.size();
  const auto is_continued = [&text](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U;
  };
  std::size_t end = most;
  while (end > 0 && is_continued(end)) --end;
  text.resize(end);
  return text + fmt::format("... ({} bytes in all)", all);
}

std::string error_text(const std::exception& error) {
  const std::string_view text = error.what();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return kNoMemory;
  if (dynamic_cast<const std::length_error*>(&error) != nullptr && is_of_containers(text)) {
    return kNoMemory;
  }
  constexpr std::string_view kJson = "[json.exception.", kStandard = "std::";
  if (text.starts_with(kJson)) {
    return fmt::format("a value of JSON is not what fairdraw takes it for ({})",
                       cut_text(std::string(text.substr(text.find("] ") + 2))));
  }
  if (text.starts_with(kStandard)) {
    return fmt::format("an error that says no more than '{}'", text.substr(kStandard.size()));
  }
  return cut_text(std::string(text));
}

}  // namespace fairdraw::harness
