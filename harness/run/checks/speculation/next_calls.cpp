#include "harness/run/checks/speculation/next_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/run/calls/random_words.h"
#include "harness/run/evidence/pictures.h"

namespace fairdraw::harness {

NextCalls::NextCalls(const std::string& suffix, std::size_t drafts, const Distribution& first,
                     const Position* rule)
    : name_("next_call" + suffix), width_(first.size()), has_rule_(rule != nullptr) {
  for (std::size_t i = 0; i < (drafts + 1) * width_; ++i) {
    Table& table = tables_.emplace_back(
        fmt::format("{} after {} accepted and token {}", name_, i / width_, i % width_), width_);
    for (std::size_t x = 0; x < width_; ++x) {
      if (rule == nullptr) {
        table.expect(table.single(x), first[x]);
      } else {
        table.expect(table.single(x), rule->accepted[x]);
        table.expect(table.pair(0, x), (1 - rule->acceptance) * rule->recovered[x]);
      }
    }
  }
}

bool NextCalls::follows(const CheckInput& input, std::uint64_t call, bool seed_is_scalar) {
  constexpr std::uint64_t kCalls = 8;
  const SamplerDescription& sampler = input.sampler->description();
  return call < kCalls && !seed_is_scalar && sampler.per_request_seeds &&
         sampler.randomness.seeds && sampler.randomness.offsets;
}

std::uint64_t NextCalls::advance(const CheckInput& input, std::int64_t drafts,
                                 std::int32_t accepted) {
  const bool token_wise =
      input.sampler->description().acceptance_rule == AcceptanceRule::token_wise;
  return static_cast<std::uint64_t>(token_wise ? accepted : drafts) + 1;
}

std::uint64_t NextCalls::draft_word(const CheckInput& input, std::uint64_t call,
                                    std::uint64_t draft) {
  constexpr std::uint64_t kNext = 0x6e65787463616c6c;  // differs from seeds and other drafts' words
  return mixed(mixed(input.seed ^ kNext, call), draft);
}

void NextCalls::count(std::int32_t accepted, std::int32_t last, std::int32_t first, bool is_draft) {
  Table& table =
      tables_[static_cast<std::size_t>(accepted) * width_ + static_cast<std::size_t>(last)];
  const auto token = static_cast<std::size_t>(first);
  table.count(has_rule_ && !is_draft ? table.pair(0, token) : table.single(token));
}

void NextCalls::judge(double level, CheckOutcome& outcome) const {
  const double level_each = level / static_cast<double>(tables_.size());
  CheckOutcome each;  // so that a report has one number for all tables
  for (const Table& table : tables_) table.judge(level_each, each);
  double smallest = 1;
  for (const auto& [name, value] : each.measures) {
    if (name.ends_with("_p_bound")) smallest = std::min(smallest, value);
  }
  outcome.spend(each.spent());
  outcome.measures[name_ + "_p_bound"] =
      std::min(1.0, smallest * static_cast<double>(tables_.size()));
  note_decisive(name_, smallest, level_each, outcome);
  if (!each.failed()) return;
  outcome.total_variation = each.total_variation;
  outcome.fail(each.message);
}

}  // namespace fairdraw::harness
