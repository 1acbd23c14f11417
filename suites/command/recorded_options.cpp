#include "suites/command/recorded_options.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "harness/contract/usage_error.h"
#include "suites/command/captured_files.h"
#include "suites/command/seed.h"

namespace fairdraw::cli {
namespace {

// Splits a text into the words that suites::shell_word() has written: plain, or in single quotes.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  bool quoted = false, begun = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!quoted && c == ' ') {
      begun = false;
      continue;
    }
    if (!begun) words.emplace_back();
    begun = true;
    if (c == '\'') {
      quoted = !quoted;
    } else if (!quoted && c == '\\' && i + 1 < text.size()) {
      words.back() += text[++i];
    } else {
      words.back() += c;
    }
  }
  return words;
}

}  // namespace

suites::PlanOptions recorded_options(const std::string& path, const harness::RunRecord& record) {
  constexpr std::string_view kSemantics = " --semantics ";
  suites::PlanOptions options;
  options.commit = record.commit;
  options.replay_options = record.options;
  std::vector<std::string> logits;
  std::string dtype;
  const std::vector<std::string> words = words_of(record.options);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& name = words[i];
    if (name == "--plugin-trusted") continue;
    const auto fail = [&](const char* why) {
      throw harness::UsageError(
          fmt::format("{}: options '{}': {} {}", path, record.options, name, why));
    };
    if (i + 1 == words.size()) fail("has no value");
    const std::string& value = words[++i];
    if (name == "--semantics") {
      options.semantics = value;
    } else if (name == "--draws") {
      options.draws = parse_uint64(name, value);
    } else if (name == "--night") {
      options.night = parse_uint64(name, value);
    } else if (name == "--draws-scale") {
      try {
        options.draws_scale = std::stod(value);
      } catch (const std::exception&) {
        fail("is not a number");
      }
    } else if (name == "--logits") {
      logits.push_back(value);
    } else if (name == "--dtype") {
      dtype = value;
    } else if (name != "--case-timeout" && name != "--plugin-timeout" &&
               name != "--plugin-memory") {
      fail("is not known here");
    }
  }
  // --semantics comes first in the text, and is not part of replay_options.
  if (options.semantics && record.options.starts_with(kSemantics)) {
    const std::size_t end = record.options.find(" --", kSemantics.size());
    options.replay_options = end == std::string::npos ? "" : record.options.substr(end);
  }
  options.captured = load_all_captured(logits, dtype);
  return options;
}

}  // namespace fairdraw::cli
