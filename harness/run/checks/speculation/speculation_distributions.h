// What the checks of speculation's distributions share: seeds of a call, draws in alternation,
// tables judged.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/run/calls/random_words.h"
#include "harness/run/calls/speculation_request.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/speculation/chain_tables.h"
#include "harness/run/checks/speculation/speculation_rows.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {

/// Tables over the draws of one distribution.
class DistributionTables {
 public:
  std::uint32_t largest_table() const {
    std::uint32_t largest = 0;
    for (const Table& table : tables_) largest = std::max(largest, table.cells());
    return largest;
  }
  void judge(double level, CheckOutcome& outcome) const {
    for (const Table& table : tables_) table.judge(level, outcome);
  }

 protected:
  Table& table(std::size_t number) { return tables_[number]; }
  std::vector<Table> tables_;
};

/// Seeds of a call's requests, of kinds that change from call to call: hashed and consecutive ones,
/// offsets 0 and in steps of three, one for the call and one a request.
inline void set_seeds(const CheckInput& input, std::uint64_t seed, std::uint64_t call,
                      SpeculationRequest& request) {
  request.seed_is_scalar = !input.sampler->description().per_request_seeds || call % 4 == 3;
  const std::size_t seeds = request.seed_is_scalar ? 1 : static_cast<std::size_t>(request.batch);
  for (std::size_t i = 0; i < seeds; ++i) {
    request.seed.push_back(call % 2 == 0 ? mixed(seed, i) : seed + i);
    request.offset.push_back(call % 3 == 0 ? 0 : 3 * i);
  }
}

/// Appends a row to those of a request.
inline void append_row(const std::vector<float>& row, std::vector<float>& to) {
  to.insert(to.end(), row.begin(), row.end());
}

/// Why a sampler is not asked; empty: it is.
inline std::string reason_to_skip_distributions(const CheckInput& input) {
  if (!input.sampler->description().speculation) return "verifies no requests with drafts";
  return missing_filter(input);
}

/// Gives every distribution its share of the draws and judges its tables, `judgements` in all.
/// rows: of all distributions. What is right is named by `found`, with the number of requests.
template <class Rows>
CheckOutcome judge_distributions(const CheckInput& input, std::vector<Rows>& distributions,
                                 double judgements, std::int64_t rows,
                                 fmt::format_string<std::uint64_t> found) {
  constexpr std::int64_t kRequestsPerCall = 4096;
  std::uint32_t largest = 0;
  for (const Rows& distribution : distributions)
    largest = std::max(largest, distribution.largest_table());
  const auto share = static_cast<std::int64_t>(input.draws / distributions.size());
  const double level = input.false_fail_rate / judgements;
  CheckOutcome outcome;
  // The widest table decides; neighbours has half of the draws, and the fewest of all.
  outcome.min_discrepancy = statistics::g_min_discrepancy(static_cast<std::uint64_t>(share) / 2,
                                                          largest, level, kFalsePassRate);
  if (*outcome.min_discrepancy > input.declared_discrepancy) {
    CheckOutcome weak = underpowered(
        fmt::format("{} requests find a total variation of {:.4f}, the case states {:.4f}", share,
                    *outcome.min_discrepancy, input.declared_discrepancy));
    weak.min_discrepancy = outcome.min_discrepancy;
    return weak;
  }
  outcome.rows = static_cast<std::uint64_t>(rows);
  outcome.measures["alpha"] = input.false_fail_rate;
  for (Rows& distribution : distributions) {
    for (std::int64_t done = 0, call = 0; done < share && !outcome.failed();
         done += kRequestsPerCall, ++call) {
      distribution.draw(std::min(kRequestsPerCall, share - done), static_cast<std::uint64_t>(call),
                        outcome);
    }
    if (!outcome.failed()) distribution.judge(level, outcome);
  }
  if (!outcome.failed()) {
    outcome.message = fmt::format(found, static_cast<std::uint64_t>(outcome.draws));
  }
  return outcome;
}

}  // namespace fairdraw::harness
