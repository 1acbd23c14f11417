#include "suites/gate/cases/sampled/sampled_text.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <map>

#include "harness/contract/usage_error.h"
#include "harness/run/calls/random_words.h"

namespace fairdraw::suites {
namespace {

using harness::UsageError;

std::uint64_t hash_of(const std::vector<Operation>& operations) {
  std::uint64_t hash = operations.size();
  for (const Operation& operation : operations) {
    const reference::RowParameters& row = operation.parameters;
    for (const std::uint32_t bits :
         {std::bit_cast<std::uint32_t>(row.temperature), std::bit_cast<std::uint32_t>(row.top_k),
          std::bit_cast<std::uint32_t>(row.top_p), std::bit_cast<std::uint32_t>(row.min_p)}) {
      hash = harness::mixed(hash, bits);
    }
  }
  return hash;
}

std::string operations_text(const std::vector<Operation>& operations) {
  return fmt::format("{}:{:016x}", operations.size(), hash_of(operations));
}

// The words of a text, each with a value. Each word of the text must be read once.
class Values {
 public:
  explicit Values(std::string_view text) : text_(text) {
    while (true) {
      const std::size_t comma = text.find(',');
      const std::string_view word = text.substr(0, comma);
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) fail(fmt::format("'{}' is not NAME=VALUE", word));
      const bool fresh = values_.emplace(word.substr(0, equals), word.substr(equals + 1)).second;
      if (!fresh) fail(fmt::format("{} is there twice", word.substr(0, equals)));
      if (comma == std::string_view::npos) return;
      text.remove_prefix(comma + 1);
    }
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw UsageError(fmt::format("--sampled: '{}': {}", text_, why));
  }

  std::string_view take(const char* name) {
    const auto found = values_.find(name);
    if (found == values_.end()) fail(fmt::format("{} is missing", name));
    const std::string_view value = found->second;
    values_.erase(found);
    return value;
  }

  template <class T>
  T number(const char* name, T least, T most) {
    const std::string_view word = take(name);
    T value{};
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, value);
    if (error != std::errc() || stop != end || !(value >= least && value <= most)) {
      fail(fmt::format("{} {} is not a number from {} to {}", name, word, least, most));
    }
    return value;
  }

  std::uint64_t hexadecimal(const char* name) {
    const std::string_view word = take(name);
    std::uint64_t value = 0;
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, value, 16);
    if (error != std::errc() || stop != end) {
      fail(fmt::format("{} {} is not a hexadecimal number of 64 bits", name, word));
    }
    return value;
  }

  void expect_nothing_left() const {
    if (values_.empty()) return;
    fail(fmt::format("this case draws no '{}'", values_.begin()->first));
  }

 private:
  std::string_view text_;
  std::map<std::string_view, std::string_view> values_;
};

float fraction(Values& values, const char* name) {
  return values.number(name, kMinSampledFraction, kMaxSampledFraction);
}

}  // namespace

std::string sampled_text(const Case& drawn) {
  std::string text = fmt::format("vocab={}", drawn.input.vocab);
  const bool own = drawn.sampled->operations == 0;
  if (drawn.operations.size() > 1 && !own) {
    text += ",operations=" + operations_text(drawn.operations);
  } else if (!own) {
    const reference::RowParameters& row = drawn.operations.front().parameters;
    const Filters& filters = drawn.sampled->filters;
    text += fmt::format(",temperature={}", row.temperature);
    if (filters.top_k) text += fmt::format(",top_k={}", row.top_k);
    if (filters.top_p) text += fmt::format(",top_p={}", row.top_p);
    if (filters.min_p) text += fmt::format(",min_p={}", row.min_p);
  }
  return text + fmt::format(",rows={:016x}", drawn.sampled->rows_seed);
}

Case with_sampled_text(const Case& drawn, std::string_view text) {
  if (!drawn.sampled) {
    throw UsageError(fmt::format("--sampled: case {} leaves nothing to the run's seed", drawn.id));
  }
  Values values(text);
  Case result = drawn;
  const Filters& filters = drawn.sampled->filters;
  result.input.vocab =
      values.number("vocab", drawn.sampled->smallest_vocab, drawn.sampled->largest_vocab);
  result.sampled->rows_seed = values.hexadecimal("rows");
  const bool own = drawn.sampled->operations == 0;
  if (drawn.operations.size() > 1 && !own) {
    const std::string_view said = values.take("operations");
    // A line has no room for so many operations, so the seed in the text chooses them again.
    const std::string chosen = operations_text(drawn.operations);
    if (said != chosen || result.input.vocab != drawn.input.vocab) {
      values.fail(fmt::format("this version draws vocabulary {} and operations {} from the seed",
                              drawn.input.vocab, chosen));
    }
  } else if (!own) {
    reference::RowParameters& row = result.operations.front().parameters;
    row.temperature = values.number("temperature", kMinSampledTemperature, kMaxSampledTemperature);
    const auto vocab = static_cast<std::int32_t>(result.input.vocab);
    if (filters.top_k) row.top_k = values.number<std::int32_t>("top_k", 1, vocab);
    if (filters.top_p) row.top_p = fraction(values, "top_p");
    if (filters.min_p) row.min_p = fraction(values, "min_p");
  }
  values.expect_nothing_left();
  return result;
}

}  // namespace fairdraw::suites
