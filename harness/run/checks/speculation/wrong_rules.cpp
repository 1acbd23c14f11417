#include "harness/run/checks/speculation/wrong_rules.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

// A rule explains counts if they have at least this probability under the rule, for all cells
// together. Counts of wrong rules are far less likely, because a case has enough draws for
// deviations of a few hundredths.
constexpr double kExplained = 1e-3;

using TokenCounts = std::vector<std::uint64_t>;

bool is_likely(std::uint64_t count, std::uint64_t of, double probability, double level) {
  if (of == 0) return true;
  if (probability <= 0) return count == 0;
  if (probability >= 1) return count == of;
  return statistics::binomial_p_value(count, of, probability) >= level;
}

// --- Acceptance ----------------------------------------------------------------------------------

struct Acceptance {
  const char* bug;  // name of the bug, if this rule is wrong
  Distribution rate;
};

// The drafted tokens, and how often each was accepted.
struct Drafted {
  explicit Drafted(const Table& step) {
    for (std::size_t x = 0; x < step.width(); ++x) {
      accepted.push_back(step.counted(step.single(x)));
      std::uint64_t rejections = 0;
      for (std::size_t y = 0; y < step.width(); ++y) rejections += step.counted(step.pair(x, y));
      rejected.push_back(rejections);
    }
  }
  bool fit(const Distribution& rate) const {
    const double level = kExplained / static_cast<double>(rate.size());
    for (std::size_t x = 0; x < rate.size(); ++x) {
      if (!is_likely(accepted[x], accepted[x] + rejected[x], rate[x], level)) return false;
    }
    return true;
  }
  TokenCounts accepted, rejected;
};

std::vector<Acceptance> acceptance_rules(const StepRows& rows) {
  const std::size_t width = rows.target.size();
  std::vector<Acceptance> rules = {{"", Distribution(width)},
                                   {"every draft is accepted", Distribution(width, 1)}};
  if (rows.draft == nullptr) {
    rules[0].rate = rows.target;
    return rules;
  }
  Distribution inverted(width);
  for (std::size_t x = 0; x < width; ++x) {
    const double p = rows.target[x], q = (*rows.draft)[x];
    rules[0].rate[x] = p >= q ? 1 : p / q;
    inverted[x] = q >= p ? 1 : q / p;
  }
  rules.push_back({"the acceptance test divides the draft by the target", std::move(inverted)});
  rules.push_back({"a draft is accepted with the target's probability alone", rows.target});
  return rules;
}

// --- What comes after a rejection ----------------------------------------------------------------

// A function that returns the probability of token y after draft x was rejected.
using Replacement = double (*)(const StepRows& rows, std::size_t x, std::size_t y);

double target_without(const StepRows& rows, std::size_t x, std::size_t y) {
  const double left = 1 - rows.target[x];
  return x == y || left <= 0 ? 0 : rows.target[y] / left;
}

double residual(const StepRows& rows, std::size_t x, std::size_t y) {
  if (rows.draft == nullptr) return target_without(rows, x, y);
  double sum = 0;
  for (std::size_t z = 0; z < rows.target.size(); ++z) {
    sum += std::max(rows.target[z] - (*rows.draft)[z], 0.0);
  }
  return sum > 0 ? std::max(rows.target[y] - (*rows.draft)[y], 0.0) / sum : 0;
}

double whole_target(const StepRows& rows, std::size_t /*x*/, std::size_t y) {
  return rows.target[y];
}

double whole_draft(const StepRows& rows, std::size_t /*x*/, std::size_t y) {
  return rows.draft == nullptr ? 0 : (*rows.draft)[y];
}

bool fits(const Table& step, const Drafted& drafted, const StepRows& rows, Replacement rule) {
  const std::size_t width = step.width();
  const double level = kExplained / static_cast<double>(width);
  std::uint64_t rejected = 0;
  for (const std::uint64_t count : drafted.rejected) rejected += count;
  for (std::size_t y = 0; y < width; ++y) {
    std::uint64_t came = 0;
    double expected = 0;
    for (std::size_t x = 0; x < width; ++x) {
      came += step.counted(step.pair(x, y));
      expected += static_cast<double>(drafted.rejected[x]) * rule(rows, x, y);
    }
    if (!is_likely(came, rejected, expected / std::max(1.0, static_cast<double>(rejected)),
                   level)) {
      return false;
    }
  }
  return true;
}

// -------------------------------------------------------------------------------------------------

void add(const char* bug, const std::string& why, CheckOutcome& outcome) {
  auto& suspects = outcome.evidence.suspects;
  suspects.insert(suspects.begin(), {std::string("speculative decoding: ") + bug, why});
}

// Returns the only rule that explains the counts, or nullptr if none or several do.
const char* only_of(const std::vector<const char*>& explaining) {
  return explaining.size() == 1 ? explaining.front() : nullptr;
}

}  // namespace

void note_wrong_step(const Table& step, const StepRows& rows, CheckOutcome& outcome) {
  const Drafted drafted(step);
  const std::vector<Acceptance> rules = acceptance_rules(rows);
  std::vector<const char*> explaining;
  if (!drafted.fit(rules[0].rate)) {
    for (const Acceptance& rule : std::span(rules).subspan(1)) {
      if (drafted.fit(rule.rate)) explaining.push_back(rule.bug);
    }
    const char* const found = only_of(explaining);
    add(found != nullptr ? found : "how often drafts are accepted",
        "by token, " + step.name() + " accepts other drafts than the rule", outcome);
    return;
  }
  if (fits(step, drafted, rows, residual)) return;
  const struct {
    const char* bug;
    Replacement rule;
  } replacements[] = {{"the draft is not subtracted after a rejection", whole_target},
                      {"the token after a rejection comes from the draft", whole_draft},
                      {"the draft's probabilities are left out after a rejection", target_without}};
  for (const auto& [bug, rule] : replacements) {
    if (fits(step, drafted, rows, rule)) explaining.push_back(bug);
  }
  const char* const found = only_of(explaining);
  add(found != nullptr ? found : "the token after a rejection",
      "in " + step.name() +
          " drafts are rightly accepted, but the token after the rejected drafts is wrong",
      outcome);
}

void note_tokens_past_end(std::span<const std::int32_t> tokens, std::int32_t accepted,
                          CheckOutcome& outcome) {
  if (accepted < 0 || accepted >= std::ssize(tokens)) return;
  const auto after = tokens.subspan(static_cast<std::size_t>(accepted) + 1);
  if (std::ranges::all_of(after, [](std::int32_t token) { return token == -1; })) return;
  add("tokens past the end", "a token other than -1 follows the last token", outcome);
}

void note_wrong_bonus(const Table& bonus, const Distribution& right, const Distribution* last_draft,
                      const Distribution& last_target, CheckOutcome& outcome) {
  const std::size_t width = bonus.width();
  TokenCounts came(width, 0);
  std::uint64_t all = 0;
  for (std::size_t y = 0; y < width; ++y) {
    for (std::size_t z = 0; z < width; ++z) {
      came[z] += bonus.counted(bonus.pair(y, z));
      all += bonus.counted(bonus.pair(y, z));
    }
  }
  const auto explained = [&](const Distribution& row) {
    const double level = kExplained / static_cast<double>(width);
    for (std::size_t z = 0; z < width; ++z) {
      if (!is_likely(came[z], all, row[z], level)) return false;
    }
    return true;
  };
  if (explained(right)) return;
  std::vector<const char*> explaining;
  if (last_draft != nullptr && explained(*last_draft)) {
    explaining.push_back("the bonus token comes from the draft");
  }
  if (explained(last_target)) {
    explaining.push_back("the bonus token comes from the row before its own");
  }
  if (const char* const found = only_of(explaining)) {
    add(found, "that row explains what " + bonus.name() + " counts", outcome);
  }
}

}  // namespace fairdraw::harness
