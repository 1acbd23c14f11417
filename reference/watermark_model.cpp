#include "reference/watermark_model.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>

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

std::uint64_t key_of_draw(const RowMark& mark,
                          const std::function<std::uint64_t(std::uint32_t)>& word) {
  const auto limit = static_cast<cpp_int>(std::ldexp(static_cast<double>(mark.second_share), 64));
  const bool is_second = mark.second_key != 0 && cpp_int(word(kAttemptOfTheCoin)) < limit;
  return is_second ? mark.second_key : mark.key;
}

}  // namespace

std::vector<std::int32_t> context_of(std::span<const std::int32_t> output, std::size_t window) {
  std::vector<std::int32_t> padded(window, -1);
  padded.insert(padded.end(), output.begin(), output.end());
  return {padded.end() - static_cast<std::ptrdiff_t>(window), padded.end()};
}

bool is_marked(const RowMark& mark, std::span<const std::int32_t> output) {
  return mark.key != 0 && !(mark.mask_repeated && had_context_before(output, mark.window));
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

std::vector<cpp_int> tournament_model(const IntegerRow& row, int layers,
                                      const std::function<std::uint64_t(std::int32_t)>& word) {
  const cpp_int one = 1;
  cpp_int all = 0;
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    if (row.mask[id] != 0) all += big(row.weight[id]);
  }
  unsigned dropped = 0;
  while ((all >> dropped) >= (one << 62)) ++dropped;
  std::vector<cpp_int> weights;
  std::vector<std::string> ones;  // digits of each token's word, the highest first
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    weights.push_back(row.mask[id] != 0 ? cpp_int(big(row.weight[id]) >> dropped) : cpp_int(0));
    ones.push_back(std::bitset<64>(word(static_cast<std::int32_t>(id))).to_string());
  }
  // Sums are below 2^63, and the conversion of 64-bit integers rounds to nearest.
  const auto rounded = [](const cpp_int& sum) {
    return static_cast<double>(static_cast<std::uint64_t>(sum));
  };
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers); ++layer) {
    cpp_int winning = 0;
    all = 0;
    for (std::size_t id = 0; id < weights.size(); ++id) {
      all += weights[id];
      if (ones[id][layer] == '1') winning += weights[id];
    }
    const double share = rounded(all - winning) / rounded(all);
    const auto factor =
        static_cast<cpp_int>(std::ldexp(std::min(share, std::nextafter(1.0, 0.0)), 64));
    for (std::size_t id = 0; id < weights.size(); ++id) {
      const cpp_int before = weights[id];
      weights[id] = (before * factor) >> 64;
      if (ones[id][layer] == '1') weights[id] += before;
    }
  }
  return weights;
}

RowProcessing with_green_biases(RowProcessing processing, const RowMark& mark, std::size_t vocab,
                                const std::function<std::uint64_t(std::uint32_t)>& word) {
  const std::vector<std::int32_t> output = processing.output;
  if (mark.scheme != WatermarkScheme::green_list || !is_marked(mark, output)) return processing;
  const std::vector<std::int32_t> context = context_of(output, mark.window);
  std::map<std::int32_t, float> biases;
  for (const RowProcessing::Bias& bias : processing.biases) biases[bias.id] = bias.value;
  // The share is below 1, so that the limit fits.
  const auto limit =
      static_cast<std::uint64_t>(std::ldexp(static_cast<double>(mark.green_share), 64));
  for (std::size_t id = 0; id < vocab; ++id) {
    const auto token = static_cast<std::int32_t>(id);
    if (marked_word(key_of_draw(mark, word), context, token) >= limit) continue;
    biases[token] = biases[token] + mark.green_bias;
  }
  processing.biases.clear();
  for (const auto& [id, value] : biases) processing.biases.push_back({id, value});
  return processing;
}

std::int32_t marked_token(const IntegerRow& row, const RowMark& mark,
                          std::span<const std::int32_t> output,
                          const std::function<std::uint64_t(std::uint32_t)>& word) {
  if (row.status != RowStatus::ok) return -1;
  if (!is_marked(mark, output) || mark.scheme == WatermarkScheme::green_list) {
    return row.token_by_attempts(word);
  }
  const std::uint64_t key = key_of_draw(mark, word);
  const std::vector<std::int32_t> context = context_of(output, mark.window);
  const auto of_token = [&](std::int32_t token) { return marked_word(key, context, token); };
  if (mark.scheme == WatermarkScheme::race) return race_model(row, of_token);
  const std::vector<cpp_int> weights = tournament_model(row, mark.layers, of_token);
  const cpp_int all = std::accumulate(weights.begin(), weights.end(), cpp_int(0));
  const cpp_int place = (cpp_int(word(kAttemptsOfADraw)) * all) >> 64;
  std::int32_t token = 0;
  for (cpp_int upto = weights[0]; upto <= place; upto += weights[static_cast<std::size_t>(token)]) {
    ++token;
  }
  return token;
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
