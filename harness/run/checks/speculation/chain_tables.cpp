#include "harness/run/checks/speculation/chain_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "harness/run/evidence/pictures.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

// Names the bug that a wrong table indicates. For a wrong table of first tokens, no bug is named.
void note_wrong_table(const std::string& name, CheckOutcome& outcome) {
  constexpr std::pair<std::string_view, const char*> kBugs[] = {
      {"recovery", "speculative decoding: the token after a rejection"},
      {"rejected", "speculative decoding: the token after a rejection"},
      {"bonus", "speculative decoding: the bonus token"},
      {"neighbours", "shared random bits: among the requests of a call"}};
  for (const auto& [begins, bug] : kBugs) {
    if (!name.starts_with(begins)) continue;
    // Pairs of first tokens are also wrong if the first tokens are.
    if (begins == "neighbours" && outcome.failed()) continue;
    outcome.evidence.suspects.push_back({bug, "of what is counted, " + name + " is off"});
  }
}

}  // namespace

Distribution distribution_of_row(const reference::IntegerRow& model) {
  Distribution distribution(model.weight.size(), 0);
  for (std::size_t id = 0; id < distribution.size(); ++id) {
    if (model.mask[id] == 0) continue;
    distribution[id] = static_cast<double>(model.weight[id]) / static_cast<double>(model.total);
  }
  return distribution;
}

void Table::expect_rest() {
  double sum = 0;
  for (const double p : probability_) sum += p;
  probability_[rest()] += std::max(0.0, 1 - sum);
}

std::uint32_t Table::cells() const {
  return static_cast<std::uint32_t>(
      std::count_if(probability_.begin(), probability_.end(), [](double p) { return p > 0; }));
}

void Table::judge(double level, CheckOutcome& outcome) const {
  if (counts_.empty()) return;  // no outcome was counted
  std::vector<std::uint64_t> counts;
  Distribution distribution;
  double sum = 0;
  for (std::size_t cell = 0; cell < probability_.size(); ++cell) {
    if (probability_[cell] > 0) {
      counts.push_back(counts_[cell]);
      distribution.push_back(probability_[cell]);
      sum += probability_[cell];
    } else if (counts_[cell] > 0) {
      outcome.fail(fmt::format("{}: {} came {} times and has probability 0", name_, name_of(cell),
                               counts_[cell]));
      note_wrong_table(name_, outcome);
      return;
    }
  }
  for (double& p : distribution) p /= sum;
  if (distribution.size() < 2) return;
  const statistics::GoodnessOfFit fit = statistics::goodness_of_fit(counts, distribution);
  outcome.spend(level);
  outcome.measures[name_ + "_g"] = fit.g;
  outcome.measures[name_ + "_p_bound"] = fit.g_p_bound;
  note_decisive(name_, fit.g_p_bound, level, outcome);
  if (fit.g_p_bound >= level) return;
  note_wrong_table(name_, outcome);
  outcome.total_variation = fit.total_variation;
  outcome.fail(fmt::format(
      "{}: G = {:.1f} over {} cells (p at most {:.2e}, level {:.1e}); total variation {:.4f}",
      name_, fit.g, distribution.size(), fit.g_p_bound, level, fit.total_variation));
}

std::string Table::name_of(std::size_t cell) const {
  if (cell == rest()) return "the rest";
  if (cell >= width_ * width_) return fmt::format("token {}", cell - width_ * width_);
  return fmt::format("the pair of tokens {} and {}", cell / width_, cell % width_);
}

Position::Position(const reference::IntegerRow& target, const reference::IntegerRow& draft)
    : accepted(target.mask.size()), rejected(target.mask.size()), recovered(target.mask.size()) {
  __extension__ typedef unsigned __int128 Wide;
  const Wide target_total = target.speculation_total(), draft_total = draft.speculation_total();
  const double unit = static_cast<double>(target_total) * static_cast<double>(draft_total);
  double residual = 0;
  for (std::size_t x = 0; x < accepted.size(); ++x) {
    const Wide p = target.mask[x] != 0 ? target.speculation_weight[x] * draft_total : 0;
    const Wide q = draft.mask[x] != 0 ? draft.speculation_weight[x] * target_total : 0;
    accepted[x] = static_cast<double>(std::min(p, q)) / unit;
    rejected[x] = q > p ? static_cast<double>(q - p) / unit : 0;
    recovered[x] = p > q ? static_cast<double>(p - q) / unit : 0;
    acceptance += accepted[x];
    residual += recovered[x];
  }
  for (double& r : recovered) r = residual > 0 ? r / residual : 0;
  acceptance = std::min(acceptance, 1.0);
}

}  // namespace fairdraw::harness
