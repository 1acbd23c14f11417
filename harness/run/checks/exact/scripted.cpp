// Judges draws with given random words, at each end of every token's interval and at the ends of
// the unit interval. One draw detects an off-by-one error in the comparison, a word of 0 or of all
// ones that gives a token outside of the support, or a total that lacks the last token; with random
// words this would take 2^64 draws.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/evidence/token_suspects.h"
#include "reference/float32_bound.h"

namespace fairdraw::harness {
namespace {

constexpr std::uint64_t kOnes = ~std::uint64_t{0};
// The maximum number of boundaries per row. For a row with more boundaries, the check takes the
// first, the last and some others.
constexpr std::size_t kBoundaries = 96;

// Returns the ends of the unit interval, and words around each boundary between two tokens that can
// be drawn. The argument `band` is the distance from a boundary, in units of the interval, within
// which either token is right; words just outside of the band are included, because only one token
// is right there.
std::vector<std::uint64_t> words_for_row(const reference::IntegerRow& row, std::uint64_t seed,
                                         double band) {
  std::vector<std::uint64_t> words = {0, 1, kOnes, kOnes - 1};
  if (row.status != RowStatus::ok) return words;
  std::vector<reference::RowWeight> ends;  // prefix sums of the row, without the total
  reference::RowWeight sum = 0;
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    if (row.mask[id] == 0 || row.weight[id] == 0) continue;
    sum += row.weight[id];
    if (sum < row.total) ends.push_back(sum);
  }
  const std::size_t all = ends.size();
  for (std::size_t i = 0; i < std::min(all, kBoundaries); ++i) {
    std::size_t at = i;
    if (all > kBoundaries) {
      if (i % 3 == 1) at = all - 1 - i / 3;
      if (i % 3 == 0) at = i / 3;
      if (i % 3 == 2) at = static_cast<std::size_t>(mixed(seed, i) % all);
    }
    const std::uint64_t word = row.first_word_at(ends[at]).value_or(kOnes);
    for (const std::uint64_t near : {word - 1, word, word + 1}) words.push_back(near);
    if (band <= 0 || band >= 0.25) continue;
    const auto beyond = static_cast<std::uint64_t>(std::ldexp(band * (1 + 0x1p-10), 64));
    if (word > beyond) words.push_back(word - beyond);
    if (word < kOnes - beyond) words.push_back(word + beyond);
  }
  return words;
}

// Returns row `row` of the request with one draw per word, as samples of one output or as outputs.
Request scripted(const Request& rows, std::int64_t row, const std::vector<std::uint64_t>& words,
                 const SamplerDescription& sampler) {
  Request request = rows;
  const auto at = static_cast<std::size_t>(row);
  const auto vocab = static_cast<std::ptrdiff_t>(rows.vocab);
  request.rows = 1;
  request.logits.assign(rows.row(row), rows.row(row) + vocab);
  request.parameters = {rows.parameters[at]};
  request.seed = {rows.seed[at]};
  request.offset = {0};
  if (!rows.allowed.empty()) {
    const auto size = static_cast<std::ptrdiff_t>(words_for(rows.vocab));
    const auto first = rows.allowed.begin() + row * size;
    request.allowed.assign(first, first + size);
  }
  request.words = words;
  if (sampler.num_samples && row % 2 == 0) {
    request.num_samples = static_cast<std::int32_t>(words.size());
    return request;
  }
  request.seed.assign(words.size(), rows.seed[at]);
  request.offset.assign(words.size(), 0);
  if (sampler.indices) {
    request.with_indices = true;
    request.indices.assign(words.size(), 0);
    return request;
  }
  request.rows = static_cast<std::int64_t>(words.size());
  request.parameters.assign(words.size(), rows.parameters[at]);
  const std::vector<float> logits = request.logits;
  const std::vector<std::uint32_t> allowed = request.allowed;
  for (std::size_t i = 1; i < words.size(); ++i) {
    request.logits.insert(request.logits.end(), logits.begin(), logits.end());
    request.allowed.insert(request.allowed.end(), allowed.begin(), allowed.end());
  }
  return request;
}

// The tokens that a float32 sampler may give for each word: the intervals of the real distribution
// in the order of ids, with an error of each end that reference/float32_bound.h derives.
class Intervals {
 public:
  Intervals(const reference::RealDistribution& distribution, const reference::Semantics& semantics)
      : distribution_(distribution), error_(reference::interval_error(distribution, semantics)) {
    double sum = 0;
    for (const double probability : distribution.probability) ends_.push_back(sum += probability);
  }

  double error() const { return error_; }

  bool may_give(std::uint64_t word, std::int32_t token) const {
    const auto at = static_cast<std::size_t>(token);
    if (distribution_.membership[at] == reference::Membership::out) return false;
    const double unit = std::ldexp(static_cast<double>(word), -64);
    const double begin = at == 0 ? 0 : ends_[at - 1];
    return unit >= begin - error_ && unit <= ends_[at] + error_;
  }

 private:
  const reference::RealDistribution& distribution_;
  double error_;
  std::vector<double> ends_;
};

}  // namespace

CheckOutcome check_scripted(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.scripted_words) return skipped(lack_of("scripted_words"));
  CheckOutcome outcome;
  const Request rows = make_request(input, 0, input.rows);
  for (std::int64_t row = 0; row < input.rows; ++row) {
    const reference::IntegerRow model = model_of(rows, row);
    const reference::RealDistribution distribution = distribution_of(input, rows, row);
    if (!input.exact() && (!distribution.defined || distribution.must_fail)) continue;
    const Intervals intervals(distribution, input.semantics);
    const std::vector<std::uint64_t> words =
        words_for_row(model, mixed(input.seed, static_cast<std::uint64_t>(row)),
                      input.exact() ? 0 : intervals.error());
    const Request request = scripted(rows, row, words, sampler);
    if (const Lack lacks = lack_for(sampler, request); !lacks.empty()) {
      return skipped(lacks);
    }
    const Response response = run_request(*input.sampler, request, {});
    if (!response.ran()) return outcome.fail(response.trouble());
    ++outcome.rows;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::int32_t token = response.tokens[i];
      const std::int32_t expected = model.token_for(words[i]);
      ++outcome.draws;
      bool right = token == expected;
      if (!input.exact()) {
        right = token >= 0 && token < rows.vocab && intervals.may_give(words[i], token);
      }
      if (right) continue;
      outcome.evidence.observed = fmt::format("token {} for the word {:#018x}", token, words[i]);
      outcome.evidence.expected = fmt::format("token {}", expected);
      outcome.evidence.smallest = fmt::format("one draw from one row of {} tokens", rows.vocab);
      note_no_token(token, rows.vocab, outcome);
      return outcome.fail(
          fmt::format("row {} ({}), word {:#018x}: token {}, {} {}", row,
                      describe(rows.parameters[static_cast<std::size_t>(row)]), words[i], token,
                      input.exact() ? "the integer model says"
                                    : "which rounding does not explain; the exact token is",
                      expected));
    }
  }
  if (outcome.rows == 0) {
    return skipped("semantics " + input.semantics.name +
                   " gives none of these rows a distribution");
  }
  outcome.message = fmt::format(
      "{} given words at the ends of intervals of {} rows give their "
      "tokens",
      outcome.draws, outcome.rows);
  return outcome;
}

}  // namespace fairdraw::harness
