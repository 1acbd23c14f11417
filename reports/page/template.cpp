#include "reports/page/template.h"

#include <algorithm>
#include <stdexcept>

namespace fairdraw::reports::page {

std::string filled(std::string_view file, const Values& values) {
  constexpr std::string_view kOpen = "{{", kClose = "}}";
  std::vector<bool> used(values.size());
  std::string text;
  for (std::size_t at = 0; at < file.size();) {
    const std::size_t open = file.find(kOpen, at);
    text += file.substr(at, open - at);
    if (open == file.npos) break;
    const std::size_t begin = open + kOpen.size(), end = file.find(kClose, begin);
    const std::string_view name = file.substr(begin, end - begin);
    const auto value = std::ranges::find(values, name, &Values::value_type::first);
    if (value == values.end()) {
      throw std::logic_error("a page's file asks for a value that is not there: " +
                             std::string(name));
    }
    text += value->second;
    used[static_cast<std::size_t>(value - values.begin())] = true;
    at = end + kClose.size();
  }
  const auto left = std::ranges::find(used, false);
  if (left != used.end()) {
    throw std::logic_error(
        "a page's file does not use the value " +
        std::string(values[static_cast<std::size_t>(left - used.begin())].first));
  }
  return text;
}

}  // namespace fairdraw::reports::page
