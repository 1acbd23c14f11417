#include "reports/counts_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace fairdraw::reports {
namespace {

constexpr std::uint64_t kMaxVocab = std::uint64_t{1} << 20;
// So that those of 2^20 tokens add up within 64 bits.
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 43;

// Tokens that were drawn, as gaps between their ids and counts in turn: most of a vocabulary is
// drawn rarely, or never.
Json tokens_json(const std::vector<std::uint64_t>& of_token) {
  Json json = Json::array();
  std::size_t next = 0;
  for (std::size_t token = 0; token < of_token.size(); ++token) {
    if (of_token[token] == 0) continue;
    json.push_back(token - next);
    json.push_back(of_token[token]);
    next = token + 1;
  }
  return json;
}

std::vector<std::uint64_t> tokens_of(ObjectReader& reader, const char* key, std::uint64_t vocab) {
  const std::vector<std::uint64_t> pairs = reader.counts(key);
  std::vector<std::uint64_t> of_token(vocab, 0);
  std::uint64_t next = 0;
  bool right = pairs.size() % 2 == 0;
  for (std::size_t i = 0; right && i + 1 < pairs.size(); i += 2) {
    right = pairs[i] < vocab - next && pairs[i + 1] <= kMaxCount;
    if (!right) break;
    of_token[next + pairs[i]] = pairs[i + 1];
    next += pairs[i] + 1;
  }
  if (!right) {
    fail_at(reader.path(key),
            fmt::format("is wrong; expected gaps and counts in turn, of {} tokens", vocab));
  }
  return of_token;
}

}  // namespace

std::uint64_t seed_of(const std::string& decimal, const std::string& path) {
  std::uint64_t seed = 0;
  const char* end = decimal.data() + decimal.size();
  const auto [stop, error] = std::from_chars(decimal.data(), end, seed);
  // Equal to its own spelling: no sign, no leading zero, nothing after it.
  if (error != std::errc() || stop != end || std::to_string(seed) != decimal) {
    fail_at(path, "is " + shown(Json(decimal)) + "; expected an integer from 0 to 2^64 - 1");
  }
  return seed;
}

Json cells_json(const std::vector<harness::CellCounts>& cells) {
  Json json = Json::array();
  for (const harness::CellCounts& one : cells) {
    json.push_back({{"axis", one.axis},
                    {"probability", one.probability},
                    {"counts", one.counts},
                    {"relative_error", one.relative_error},
                    {"chi_squared_error", one.chi_squared_error}});
  }
  return json;
}

std::vector<harness::CellCounts> cells_of(std::vector<ObjectReader> readers) {
  std::vector<harness::CellCounts> cells;
  for (ObjectReader& reader : readers) {
    harness::CellCounts one;
    one.axis = reader.name("axis");
    one.probability = reader.numbers("probability");
    one.counts = reader.counts("counts");
    one.relative_error = reader.finite_number("relative_error", kNotNegative);
    one.chi_squared_error = reader.finite_number("chi_squared_error", kNotNegative);
    bool right = one.counts.size() == one.probability.size() && !one.counts.empty();
    for (const double p : one.probability) right = right && p > 0 && p <= 1;
    for (const std::uint64_t count : one.counts) right = right && count <= kMaxCount;
    if (!right) {
      fail_at(reader.path("counts"),
              "is wrong; expected a count for each probability, all of these above 0");
    }
    reader.expect_no_other_field();
    cells.push_back(std::move(one));
  }
  return cells;
}

Json counted_json(const std::vector<harness::CountedDraws>& counted) {
  Json json = Json::array();
  for (const harness::CountedDraws& one : counted) {
    Json entry = {{"seed", std::to_string(one.seed)},
                  {"asked", one.asked},
                  {"draws", one.counts.draws},
                  {"vocab", one.counts.of_token.size()},
                  {"of_token", tokens_json(one.counts.of_token)}};
    if (one.counts.no_token > 0) entry["no_token"] = one.counts.no_token;
    if (!one.counts.trouble.empty()) entry["trouble"] = one.counts.trouble;
    json.push_back(std::move(entry));
  }
  return json;
}

std::vector<harness::CountedDraws> counted_of(std::vector<ObjectReader> readers) {
  std::vector<harness::CountedDraws> counted;
  for (ObjectReader& reader : readers) {
    harness::CountedDraws one;
    one.seed = seed_of(reader.text("seed"), reader.path("seed"));
    one.asked = reader.count("asked");
    one.counts.draws = reader.count("draws");
    const std::uint64_t vocab = reader.count("vocab");
    if (vocab > kMaxVocab) {
      fail_at(reader.path("vocab"), fmt::format("is {}; expected 0 to {}", vocab, kMaxVocab));
    }
    one.counts.of_token = tokens_of(reader, "of_token", vocab);
    if (reader.has("no_token")) one.counts.no_token = reader.count("no_token");
    one.counts.trouble = reader.optional_text("trouble");
    std::uint64_t all = one.counts.no_token;
    for (const std::uint64_t count : one.counts.of_token) all += count;
    if (all != one.counts.draws || one.counts.draws > kMaxCount) {
      fail_at(reader.path("draws"),
              fmt::format("is {}, but the counts add up to {}", one.counts.draws, all));
    }
    reader.expect_no_other_field();
    counted.push_back(std::move(one));
  }
  return counted;
}

}  // namespace fairdraw::reports
