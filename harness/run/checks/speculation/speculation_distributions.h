// Has the parts that the checks of speculation's distributions share: seeds of a call, alternating
// draws, judging of tables.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/run/calls/random_words.h"
#include "harness/run/calls/speculation_request.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/speculation/chain_tables.h"
#include "harness/run/checks/speculation/emitted_sequences.h"
#include "harness/run/checks/speculation/next_calls.h"
#include "harness/run/checks/speculation/speculation_rows.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {

/// The tables for the draws of one distribution: those of the token-wise rule if the sampler
/// declares it, otherwise those of emitted sequences and of the acceptance rule that it declares.
/// In addition there are the tables of two consecutive calls.
class DistributionTables {
 public:
  /// Returns the discrepancy that the statistic G finds with `requests` requests in all tables. The
  /// widest table determines it; the table of neighbours has the fewest counts, half as many as
  /// there are requests. (Tables of emitted tokens have even fewer counts, but mostly repeat the
  /// other tables. The tables of next calls also have fewer counts, but they detect random words
  /// that two calls share, which changes counts by far more than a few hundredths.)
  double min_discrepancy(std::uint64_t requests, double level) const {
    const auto found = [level](std::uint64_t draws, std::uint32_t cells) {
      return statistics::g_min_discrepancy(draws, cells, level, kFalsePassRate);
    };
    std::uint32_t largest = 0;
    for (const Table& table : tables_) largest = std::max(largest, table.cells());
    if (!sequences_) return found(requests / 2, largest);
    for (const Table& table : sequences_->tables()) largest = std::max(largest, table.cells());
    if (block_) largest = std::max(largest, block_->table().cells());
    return std::max(found(requests, largest),
                    found(requests / 2, sequences_->tables().back().cells()));
  }
  std::size_t judgements() const {
    std::size_t number = next_ ? 1 : 0;
    each([&](const Table&) { ++number; });
    return number;
  }
  void judge(double level, CheckOutcome& outcome) const {
    if (sequences_ && !sequences_->impossible().empty()) outcome.fail(sequences_->impossible());
    each([&](const Table& table) { table.judge(level, outcome); });
    if (next_) next_->judge(level, outcome);
  }

 protected:
  Table& table(std::size_t number) { return tables_[number]; }
  /// Counts the emitted tokens of one request; `call` and `request` determine the random bits that
  /// complete the sequence.
  void count_sequence(const CheckInput& input, std::span<const std::int32_t> emitted,
                      std::uint64_t call, std::int64_t request) {
    constexpr std::uint64_t kCompletion = 0x636f6d706c657465;  // keeps seeds distinct
    sequences_->count(
        emitted, mixed(mixed(input.seed ^ kCompletion, call), static_cast<std::uint64_t>(request)));
  }

  std::vector<Table> tables_;
  std::optional<EmittedSequences> sequences_;  ///< tables that are used instead of `tables_`
  std::optional<BlockAcceptance> block_;
  std::optional<NextCalls> next_;

 private:
  template <class Visit>
  void each(Visit visit) const {
    for (const Table& table : tables_) visit(table);
    if (sequences_) {
      for (const Table& table : sequences_->tables()) visit(table);
    }
    if (block_) visit(block_->table());
  }
};

/// Returns whether the token-wise rule decides about every draft, so that its tables apply.
inline bool is_token_wise(const CheckInput& input) {
  return input.sampler->description().acceptance_rule == AcceptanceRule::token_wise;
}

/// Returns the emitted tokens of a row of [kLength], up to the last valid one; all of these are
/// emitted.
inline std::span<const std::int32_t> emitted_tokens(const std::int32_t* tokens,
                                                    std::int32_t accepted) {
  return {tokens, static_cast<std::size_t>(accepted) + 1};
}

/// Sets the seeds of a call's requests, in ways that alternate between calls: hashed and
/// consecutive seeds, offsets 0 and in steps of three, one seed for the call and one per request.
inline void set_seeds(const CheckInput& input, std::uint64_t seed, std::uint64_t call,
                      SpeculationRequest& request) {
  request.seed_is_scalar = !input.sampler->description().per_request_seeds || call % 4 == 3;
  const std::size_t seeds = request.seed_is_scalar ? 1 : static_cast<std::size_t>(request.batch);
  for (std::size_t i = 0; i < seeds; ++i) {
    request.seed.push_back(call % 2 == 0 ? mixed(seed, i) : seed + i);
    request.offset.push_back(call % 3 == 0 ? 0 : 3 * i);
  }
}

inline void append_row(const std::vector<float>& row, std::vector<float>& to) {
  to.insert(to.end(), row.begin(), row.end());
}

/// Returns the reason why a sampler is not judged on these distributions, or an empty one if it is
/// judged.
inline Lack lack_of_distributions(const CheckInput& input) {
  if (!input.sampler->description().speculation) return lack_of("speculation");
  return missing_filter(input);
}

/// Gives every distribution its share of the draws, and judges its tables, all at the same level.
/// The argument `rows` has the rows of all distributions. The argument `found` is the message of a
/// passed case, with the number of requests.
template <class Rows>
CheckOutcome judge_distributions(const CheckInput& input, std::vector<Rows>& distributions,
                                 std::int64_t rows, fmt::format_string<std::uint64_t> found) {
  constexpr std::int64_t kRequestsPerCall = 4096;
  const std::int64_t of_call =
      input.requests_of_call > 0 ? input.requests_of_call : kRequestsPerCall;
  std::size_t judgements = 0;
  for (const Rows& distribution : distributions) judgements += distribution.judgements();
  const auto share = static_cast<std::int64_t>(input.draws / distributions.size());
  const double level = input.false_fail_rate / static_cast<double>(judgements);
  CheckOutcome outcome;
  outcome.min_discrepancy = 0;
  for (const Rows& distribution : distributions) {
    outcome.min_discrepancy =
        std::max(*outcome.min_discrepancy,
                 distribution.min_discrepancy(static_cast<std::uint64_t>(share), level));
  }
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
         done += of_call, ++call) {
      distribution.draw(std::min(of_call, share - done), static_cast<std::uint64_t>(call), outcome);
    }
    if (!outcome.failed()) distribution.judge(level, outcome);
  }
  if (!outcome.failed()) {
    outcome.message = fmt::format(found, static_cast<std::uint64_t>(outcome.draws));
  }
  return outcome;
}

}  // namespace fairdraw::harness
