#include "reference/watermark_model.h"

#include <cmath>
#include <set>

#include "reference/threefry.h"

namespace fairdraw::reference {
namespace {

using boost::multiprecision::cpp_int;

constexpr std::uint32_t kAttemptOfTheCoin = kAttemptsOfADraw + 1;

cpp_int big(RowWeight weight) {
  return (cpp_int(static_cast<std::uint64_t>(weight >> 64)) << 64) +
         static_cast<std::uint64_t>(weight);
}

bool had_context_before(std::span<const std::int32_t> output, std::size_t window) {
  const std::vector<std::int32_t> context = context_of(output, window);
  for (std::size_t length = 0; length < output.size(); ++length) {
    if (context_of(output.first(length), window) == context) return true;
  }
  return false;
}

}  // namespace

std::vector<std::int32_t> context_of(std::span<const std::int32_t> output, std::size_t window) {
  std::vector<std::int32_t> padded(window, -1);
  padded.insert(padded.end(), output.begin(), output.end());
  return {padded.end() - static_cast<std::ptrdiff_t>(window), padded.end()};
}

std::uint64_t marked_word(std::uint64_t key, std::span<const std::int32_t> context,
                          std::int32_t token) {
  std::uint64_t block = threefry2x32(key, context.size());
  for (const std::int32_t id : context) {
    block = threefry2x32(block, static_cast<std::uint64_t>(std::int64_t{id} + 1));
  }
  return threefry2x32(block, static_cast<std::uint64_t>(token));
}

cpp_int arrival_time_model(std::uint64_t word) {
  const cpp_int z = cpp_int(word) * 2 + 1;
  const unsigned highest = boost::multiprecision::msb(z);
  cpp_int x = z << (127 - highest);
  cpp_int digits = 0;
  for (int step = 0; step < 64; ++step) {
    const cpp_int y = (x * x) >> 128;
    const bool is_one = y >> 127 != 0;
    digits = digits * 2 + (is_one ? 1 : 0);
    x = is_one ? y : y * 2;
  }
  return (cpp_int(65 - highest) << 64) - digits;
}

std::int32_t race_model(const IntegerRow& row,
                        const std::function<std::uint64_t(std::int32_t)>& word) {
  std::int32_t first = -1;
  cpp_int first_time, first_weight;
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    if (row.mask[id] == 0 || row.weight[id] == 0) continue;
    const auto token = static_cast<std::int32_t>(id);
    const cpp_int time = arrival_time_model(word(token));
    const cpp_int weight = big(row.weight[id]);
    if (first >= 0 && time * first_weight >= first_time * weight) continue;
    first = token;
    first_time = time;
    first_weight = weight;
  }
  return first;
}

std::int32_t marked_token(const IntegerRow& row, const RowMark& mark,
                          std::span<const std::int32_t> output,
                          const std::function<std::uint64_t(std::uint32_t)>& word) {
  if (row.status != RowStatus::ok) return -1;
  if (mark.key == 0 || (mark.mask_repeated && had_context_before(output, mark.window))) {
    return row.token_by_attempts(word);
  }
  const auto limit = static_cast<cpp_int>(std::ldexp(static_cast<double>(mark.second_share), 64));
  const bool is_second = mark.second_key != 0 && cpp_int(word(kAttemptOfTheCoin)) < limit;
  const std::uint64_t key = is_second ? mark.second_key : mark.key;
  const std::vector<std::int32_t> context = context_of(output, mark.window);
  return race_model(row, [&](std::int32_t token) { return marked_word(key, context, token); });
}

std::vector<std::uint64_t> scored_words(std::span<const std::int32_t> text, std::uint64_t key,
                                        std::size_t window) {
  std::vector<std::uint64_t> words;
  std::set<std::vector<std::int32_t>> seen;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::vector<std::int32_t> pair = context_of(text.first(i), window);
    pair.push_back(text[i]);
    if (!seen.insert(pair).second) continue;
    words.push_back(marked_word(key, std::span(pair).first(window), text[i]));
  }
  return words;
}

}  // namespace fairdraw::reference
