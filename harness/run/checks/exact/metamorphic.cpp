// Judges relations that hold between the answers to two calls, whatever the right answers are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/invariances.h"
#include "harness/run/evidence/token_suspects.h"

namespace fairdraw::harness {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

class Relations {
 public:
  Relations(const CheckInput& input, CheckOutcome& outcome) : input_(input), outcome_(outcome) {}

  Response run(const Request& request, const char* name) {
    const WantedResults wanted = reported(input_.sampler->description(), request, kWanted);
    Response response = run_request(*input_.sampler, request, wanted);
    if (!response.ran()) outcome_.fail(fmt::format("{}: {}", name, response.trouble()));
    outcome_.draws += static_cast<std::uint64_t>(request.rows);
    ++outcome_.measures["relations"];
    return response;
  }

  // Expects equal tokens, statuses and support sizes, and equal masks on the ids of the first
  // request.
  void expect_same(const char* name, const Request& request, const Response& expected,
                   const Request& changed) {
    if (outcome_.failed()) return;
    const Response response = run(changed, name);
    if (outcome_.failed()) return;
    for (std::int64_t row = 0; row < request.rows; ++row) {
      const auto at = static_cast<std::size_t>(row);
      if (response.tokens[at] != expected.tokens[at]) {
        fail(name, request, row, "token", response.tokens[at], expected.tokens[at]);
        note_no_token(response.tokens[at], changed.vocab, outcome_);
      } else if (response.statuses != expected.statuses) {
        outcome_.fail(fmt::format("{}: statuses differ", name));
      } else if (!expected.support_size.empty() &&
                 response.support_size[at] != expected.support_size[at]) {
        fail(name, request, row, "support size", response.support_size[at],
             expected.support_size[at]);
      }
      for (std::int64_t id = 0; !expected.mask.empty() && id < changed.vocab; ++id) {
        const bool before = id < request.vocab && expected.kept(row, request.vocab, id);
        if (response.kept(row, changed.vocab, id) != before) {
          outcome_.fail(fmt::format("{}: row {}, token {}: mask bit {}, was {}", name, row, id,
                                    !before, before));
          return;
        }
      }
    }
  }

  // Expects equal statuses, and no token, mask or support size that the real-number oracle
  // excludes. This function is for changes of a row that may round weights differently.
  void expect_in_band(const char* name, const Response& expected, const Request& changed) {
    if (outcome_.failed()) return;
    const Response response = run(changed, name);
    if (outcome_.failed()) return;
    const std::string wrong = outside_of_band(input_, changed, response, expected);
    if (!wrong.empty()) outcome_.fail(fmt::format("{}: {} outside of the band", name, wrong));
  }

 private:
  void fail(const char* name, const Request& request, std::int64_t row, const char* what,
            std::int32_t observed, std::int32_t expected) {
    outcome_.fail(fmt::format("{}: row {} ({}): {} {}, was {}", name, row,
                              describe(request.parameters[static_cast<std::size_t>(row)]), what,
                              observed, expected));
  }

  const CheckInput& input_;
  CheckOutcome& outcome_;
  static constexpr WantedResults kWanted = {.statuses = true, .support_size = true, .mask = true};
};

// Adds `shift` to every logit; returns false if a sum is not exact in float32.
bool shift_logits(Request& request, float shift) {
  for (float& logit : request.logits) {
    if (std::isinf(logit)) continue;
    const double sum = static_cast<double>(logit) + static_cast<double>(shift);
    // The bits of two float32 values may be more than 53 places apart, and then float64 rounds
    // their sum too.
    if (sum - static_cast<double>(shift) != static_cast<double>(logit)) return false;
    if (rounded_to(request.dtype, static_cast<float>(sum)) != sum) return false;
    logit = static_cast<float>(sum);
  }
  return true;
}

void compare_shifts(const Request& base, const Response& expected, Relations& relations,
                    CheckOutcome& outcome) {
  for (const float shift : {0.5F, 1.0F, -2.0F, 16.0F, -64.0F, 1024.0F}) {
    Request shifted = base;
    if (!shift_logits(shifted, shift)) continue;
    const bool exact = std::ranges::all_of(
        base.parameters, [shift](const auto& row) { return shifts_exactly(row, shift); });
    ++outcome.measures[exact ? "exact_shifts" : "shifts_in_band"];
    if (exact) {
      relations.expect_same("shift of all logits by whole octaves", base, expected, shifted);
    } else {
      relations.expect_in_band("shift of all logits", expected, shifted);
    }
  }
}

// Compares the answers for several scales of probabilities. A power of two changes no significant
// bits of probabilities, unless one of them is subnormal. The scales include very small ones, and
// ones whose sums are too large for float32.
void compare_scales(const Request& base, const Response& expected, Relations& relations,
                    CheckOutcome& outcome) {
  for (const int octaves : {-8, 9, 126}) {
    Request scaled = base;
    bool exact = true;
    for (std::int64_t row = 0; row < base.rows; ++row) {
      float* const first = scaled.logits.data() + row * base.vocab;
      const float largest = *std::max_element(first, first + base.vocab);
      // With a largest value of 2^126, a sum of five values is above the largest float32.
      const int shift = octaves == 126 ? octaves - std::ilogb(largest) : octaves;
      for (std::int64_t id = 0; id < base.vocab; ++id) {
        const std::optional<float> value = scaled_exactly(first[id], shift);
        exact = exact && value && rounded_to(base.dtype, *value) == *value;
        first[id] = value.value_or(0);
      }
    }
    if (!exact) continue;
    ++outcome.measures["exact_scales"];
    relations.expect_same("all probabilities times a power of two", base, expected, scaled);
  }
}

void compare_padding(const Request& base, const Response& expected, Relations& relations) {
  const float nothing = base.input == RowInput::logits ? kMinusInfinity : 0.0F;
  for (const std::int64_t columns : {1, 31, 64}) {
    if (base.vocab + columns > kMaxVocab || !base.allowed.empty()) return;
    Request padded = base;
    widen_vocab(padded, columns);
    padded.logits.clear();
    for (std::int64_t row = 0; row < base.rows; ++row) {
      padded.logits.insert(padded.logits.end(), base.row(row), base.row(row) + base.vocab);
      padded.logits.insert(padded.logits.end(), static_cast<std::size_t>(columns), nothing);
    }
    relations.expect_same("columns that nothing can be drawn from at the end", base, expected,
                          padded);
  }
}

void compare_filters_off(const Request& base, Relations& relations) {
  const auto vocab = static_cast<std::int32_t>(base.vocab);
  Request plain = base;
  for (reference::RowParameters& row : plain.parameters) row.top_k = 0;
  const Response expected = relations.run(plain, "top_k 0");
  for (const std::int32_t top_k :
       {-1, vocab, vocab + 1, std::numeric_limits<std::int32_t>::max()}) {
    if (top_k == 1) continue;  // top_k is 1 for a vocabulary of one token
    Request off = plain;
    for (reference::RowParameters& row : off.parameters) row.top_k = top_k;
    relations.expect_same("top_k that is off", plain, expected, off);
  }
}

// Shifts all logits of each row so that the largest logit is 0, as exactly as float32 allows.
void move_maximum_to_zero(Request& request) {
  for (std::int64_t row = 0; row < request.rows; ++row) {
    float* const first = request.logits.data() + row * request.vocab;
    const float largest = *std::max_element(first, first + request.vocab);
    for (std::int64_t id = 0; id < request.vocab; ++id) {
      first[id] = rounded_to(request.dtype, first[id] - largest);
    }
  }
}

// Judges that -0 equals 0 in every parameter and as a logit: in rows whose largest logits are
// zeros, every second of them is -0.
void compare_signs(const Request& base, Relations& relations) {
  Request plain = base;
  move_maximum_to_zero(plain);
  const Response expected = relations.run(plain, "largest logit of 0");
  Request signs = plain;
  for (reference::RowParameters& row : signs.parameters) {
    if (row.min_p == 0) row.min_p = -0.0F;
    if (row.temperature == 0) row.temperature = -0.0F;
    if (row.top_p == 0) row.top_p = -0.0F;
  }
  bool flips = true;
  for (float& logit : signs.logits) {
    if (logit != 0) continue;
    if (flips) logit = -logit;
    flips = !flips;
  }
  relations.expect_same("the sign of zeros", plain, expected, signs);
}

// Permutes ids. Filters that keep ties depend on values alone, so the masks are permuted like the
// ids if no weight depends on the tile.
void compare_permuted(const CheckInput& input, const Request& base, const Response& expected,
                      Relations& relations, CheckOutcome& outcome) {
  if (outcome.failed() || expected.mask.empty() || !base.allowed.empty()) return;
  if (!input.exact() || base.tie_rule != TieRule::keep_all) return;
  std::vector<std::int64_t> id_of(static_cast<std::size_t>(base.vocab));
  std::iota(id_of.begin(), id_of.end(), 0);
  for (std::size_t i = id_of.size(); i > 1; --i) {
    std::swap(id_of[i - 1], id_of[mixed(input.seed + 2, i) % i]);
  }
  Request permuted = base;
  for (std::int64_t row = 0; row < base.rows; ++row) {
    for (std::int64_t id = 0; id < base.vocab; ++id) {
      permuted.logits[static_cast<std::size_t>(row * base.vocab + id)] =
          base.row(row)[id_of[static_cast<std::size_t>(id)]];
    }
  }
  const Response response = relations.run(permuted, "permuted vocabulary");
  for (std::int64_t row = 0; row < base.rows && !outcome.failed(); ++row) {
    const reference::RowParameters& row_parameters = base.parameters[static_cast<std::size_t>(row)];
    const bool greedy =
        row_parameters.temperature == 0 || row_parameters.top_k == 1 || row_parameters.top_p == 0;
    if (greedy) continue;  // greedy ties are broken by the lowest id, not by values
    if (!is_free_of_tiles(base, row)) continue;
    ++outcome.measures["permuted_rows"];
    for (std::int64_t id = 0; id < base.vocab; ++id) {
      const std::int64_t before = id_of[static_cast<std::size_t>(id)];
      if (response.kept(row, base.vocab, id) == expected.kept(row, base.vocab, before)) continue;
      outcome.fail(fmt::format(
          "permuted vocabulary: row {}: token {} is {} as {}, and not as {}", row, before,
          expected.kept(row, base.vocab, before) ? "kept" : "dropped", before, id));
      return;
    }
  }
  if (outcome.failed()) return;
  const std::string wrong = outside_of_band(input, permuted, response, expected);
  if (!wrong.empty()) {
    outcome.fail(fmt::format("permuted vocabulary: {} outside of the band", wrong));
  }
}

}  // namespace

CheckOutcome check_metamorphic(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.per_request_seeds) return skipped(lack_of("per_request_seeds"));
  const Request base = make_request(input, 0, input.rows);
  if (const Lack lacks = lack_for(sampler, base); !lacks.empty()) {
    return skipped(lacks);
  }
  CheckOutcome outcome;
  outcome.rows = static_cast<std::uint64_t>(input.rows);
  Relations relations(input, outcome);
  const Response expected = relations.run(base, "the request itself");
  if (outcome.failed()) return outcome;
  if (input.exact()) {  // float32 arithmetic may round differently for a token at another id
    compare_padding(base, expected, relations);
    if (input.row_input == RowInput::probabilities) {
      compare_scales(base, expected, relations, outcome);
    } else {
      compare_shifts(base, expected, relations, outcome);
      compare_filters_off(base, relations);
      compare_signs(base, relations);
    }
  }
  compare_permuted(input, base, expected, relations, outcome);
  Request empty = base;
  empty.rows = 0;
  empty.logits.clear();
  empty.parameters.clear();
  empty.allowed.clear();
  empty.seed = {0};
  empty.offset = {0};
  empty.seed_is_scalar = true;
  relations.run(empty, "empty batch");
  if (!outcome.failed()) {
    outcome.message =
        fmt::format("{} relations hold on {} rows", outcome.measures["relations"], outcome.rows);
  }
  return outcome;
}

}  // namespace fairdraw::harness
