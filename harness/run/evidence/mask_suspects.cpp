#include "harness/run/evidence/mask_suspects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "harness/run/calls/conditions.h"
#include "harness/run/checks/exact/replay_relations.h"
#include "harness/run/evidence/parameter_suspects.h"
#include "reference/semantic_choices.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;
using reference::RealDistribution;
using reference::RowParameters;
using reference::Semantics;

struct Mistake {
  std::string bug;
  std::function<void(RowParameters&)> parameter;  ///< exactly one of these two functions is set
  std::function<void(Semantics&)> definition;
};

// Returns ways in which a sampler may misread a parameter. A factor of 1 % is small enough to move
// a boundary by only one or two tokens, and large enough to move it.
std::vector<Mistake> wrong_parameters() {
  std::vector<Mistake> mistakes;
  const auto add = [&mistakes](const char* bug, const char* what, auto change) {
    mistakes.push_back({fmt::format("{}: {}", bug, what), change, {}});
  };
  const auto add_factors = [&add](const char* name, float RowParameters::*member) {
    for (const auto& [factor, text] :
         {std::pair{1.01F, "1 % larger"}, {1 / 1.01F, "1 % smaller"}}) {
      add(name, text, [member, factor](RowParameters& one) { one.*member *= factor; });
    }
  };
  add("temperature", "ignored", [](RowParameters& one) {
    if (one.temperature > 0) one.temperature = 1;
  });
  add_factors("temperature", &RowParameters::temperature);
  add("temperature", "multiplied by, not divided by", [](RowParameters& one) {
    if (one.temperature > 0) one.temperature = 1 / one.temperature;
  });
  add("top_k", "ignored", [](RowParameters& one) { one.top_k = 0; });
  add("top_k", "one more", [](RowParameters& one) { one.top_k += one.top_k > 0 ? 1 : 0; });
  add("top_k", "one less", [](RowParameters& one) { one.top_k -= one.top_k > 1 ? 1 : 0; });
  add("top_p", "ignored", [](RowParameters& one) { one.top_p = 1; });
  add_factors("top_p", &RowParameters::top_p);
  add("top_p", "read as a percentage", [](RowParameters& one) { one.top_p /= 100; });
  add("top_p", "1 - p", [](RowParameters& one) { one.top_p = 1 - one.top_p; });
  add("min_p", "ignored", [](RowParameters& one) { one.min_p = 0; });
  add_factors("min_p", &RowParameters::min_p);
  add("min_p", "measured before the temperature", [](RowParameters& one) {
    // At temperature 1 a logit is kept if it is at most -ln(min_p) below the largest.
    if (one.temperature > 0) one.min_p = std::pow(one.min_p, 1 / one.temperature);
  });
  add("min_p", "read as a percentage", [](RowParameters& one) { one.min_p /= 100; });
  return mistakes;
}

// Returns every other value of every choice of the profile, except the removal of the profile's
// minimum for probabilities of masked tokens, which every mask would seem to support.
std::vector<Mistake> wrong_definitions(const Semantics& semantics) {
  std::vector<Mistake> mistakes;
  for (const reference::Choice& choice : reference::semantic_choices()) {
    for (const reference::ChoiceValue& value : choice.values) {
      if (value.is_set(semantics)) continue;
      if (choice.name == "masked_probability_floor" && value.name == "0") continue;
      mistakes.push_back(
          {fmt::format("definition of {}: {}", choice.meaning, value.name), {}, value.set});
    }
  }
  return mistakes;
}

enum class Agreement { says_nothing, agrees, contradicts };

Agreement agreement(const RealDistribution& distribution, const Request& request,
                    const Response& response, std::int64_t row) {
  const auto at = static_cast<std::size_t>(row);
  if (!distribution.defined || distribution.must_fail) return Agreement::says_nothing;
  if (!response.support_size.empty()) {
    const std::int32_t size = response.support_size[at];
    if (size < distribution.support_low || size > distribution.support_high)
      return Agreement::contradicts;
  }
  for (std::int64_t token = 0; token < request.vocab && !response.mask.empty(); ++token) {
    const Membership membership = distribution.membership[static_cast<std::size_t>(token)];
    if (membership == Membership::ambiguous) continue;
    if (response.kept(row, request.vocab, token) != (membership == Membership::in)) {
      return Agreement::contradicts;
    }
  }
  return Agreement::agrees;
}

// The wrong and right rows to examine again, at most `most` in total.
struct Rows {
  std::vector<std::int64_t> wrong, right;
};

Rows rows_of(const CheckInput& input, const Request& request, const Response& response,
             std::size_t most) {
  Rows rows;
  for (std::int64_t row = 0; row < request.rows; ++row) {
    if (rows.wrong.size() >= most && rows.right.size() >= most) break;
    const Agreement now = agreement(distribution_of(input, request, row), request, response, row);
    if (now == Agreement::contradicts) rows.wrong.push_back(row);
    if (now == Agreement::agrees) rows.right.push_back(row);
  }
  const std::size_t right = std::min(rows.right.size(), most / 2);
  rows.wrong.resize(std::min(rows.wrong.size(), most - right));
  rows.right.resize(std::min(rows.right.size(), most - rows.wrong.size()));
  return rows;
}

SortedRows sorted_rows(const CheckInput& input, const Request& request, const Response& response) {
  SortedRows rows;
  for (std::int64_t row = 0; row < request.rows; ++row) {
    const Agreement now = agreement(distribution_of(input, request, row), request, response, row);
    if (now == Agreement::says_nothing) continue;
    (now == Agreement::contradicts ? rows.wrong : rows.right)
        .push_back(request.parameters[static_cast<std::size_t>(row)]);
  }
  return rows;
}

}  // namespace

bool is_banned(const Request& request, std::int64_t row, std::int64_t token) {
  if (request.allowed.empty()) return false;
  const auto word = static_cast<std::size_t>(row * words_for(request.vocab) + token / 32);
  return ((request.allowed[word] >> (token % 32)) & 1U) == 0;
}

void note_ban(const Request& request, std::int64_t row, std::int64_t token, const char* became,
              CheckOutcome& outcome) {
  if (!is_banned(request, row, token)) return;
  outcome.evidence.suspects.push_back(
      {fmt::format("bitmask: a banned token is {}", became),
       fmt::format("the bit of token {} in row {} is 0", token, row)});
}

bool note_mask_mistakes(const CheckInput& input, const Request& request, const Response& response,
                        CheckOutcome& outcome) {
  const Semantics semantics = effective_semantics(input);
  std::vector<Mistake> mistakes = wrong_parameters();
  for (Mistake& mistake : wrong_definitions(semantics)) mistakes.push_back(std::move(mistake));

  constexpr std::size_t kLogits = std::size_t{1} << 20;
  const std::size_t logits_a_row = static_cast<std::size_t>(request.vocab) * mistakes.size();
  const Rows rows =
      rows_of(input, request, response, std::max<std::size_t>(2, kLogits / logits_a_row));
  if (rows.wrong.empty()) return false;

  std::vector<RowFacts> wrong;
  for (const std::int64_t row : rows.wrong) wrong.push_back(facts_of(request, row));
  struct Explained {
    std::size_t rows, broken;
    const Mistake* mistake;
  };
  std::vector<Explained> found;
  for (const Mistake& mistake : mistakes) {
    const auto agrees = [&](std::int64_t row) {
      Request other;  // this row alone, as the input of a distribution
      other.input = request.input;
      other.vocab = request.vocab;
      other.rows = 1;
      append_row(request, row, other);
      Semantics changed = semantics;
      if (mistake.parameter) mistake.parameter(other.parameters.front());
      if (mistake.definition) mistake.definition(changed);
      return agreement(distribution_under(changed, input, other, 0), request, response, row);
    };
    std::size_t explained = 0;
    for (const std::int64_t row : rows.wrong) explained += agrees(row) == Agreement::agrees;
    if (2 * explained < rows.wrong.size() || explained == 0) continue;
    std::vector<RowFacts> broken;
    for (const std::int64_t row : rows.right) {
      if (agrees(row) == Agreement::contradicts) broken.push_back(facts_of(request, row));
    }
    // A mistake that needs a condition must explain nearly all wrong rows.
    const bool nearly_all = 20 * explained >= 19 * rows.wrong.size();
    if (broken.empty() || (nearly_all && some_condition_tells(wrong, broken))) {
      found.push_back({explained, broken.size(), &mistake});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Explained& one, const Explained& other) {
    return std::pair{other.rows, one.broken} < std::pair{one.rows, other.broken};
  });
  constexpr std::size_t kMax = 3;
  for (std::size_t i = 0; i < std::min(found.size(), kMax); ++i) {
    if (found[i].rows < found.front().rows || found[i].broken > found.front().broken) break;
    std::string reason = fmt::format("That gives {} of the {} wrong masks that were compared",
                                     found[i].rows, rows.wrong.size());
    if (!rows.right.empty()) reason += fmt::format(", and the {} right ones", rows.right.size());
    outcome.evidence.suspects.push_back({found[i].mistake->bug, reason});
  }
  if (found.empty())
    note_common_parameter(sorted_rows(input, request, response), request.vocab, outcome);
  return true;
}

}  // namespace fairdraw::harness
