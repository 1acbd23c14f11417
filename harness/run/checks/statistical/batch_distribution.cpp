// Judges batches of many sizes by the distribution of their tokens, for samplers whose draws cannot
// be repeated; the check `batches` compares the tokens of all other samplers.
#include <fmt/format.h>

#include <algorithm>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/batch_sizes.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/replay_relations.h"
#include "harness/run/checks/statistical/row_transform.h"
#include "harness/run/checks/statistical/two_stages.h"
#include "harness/statistics/pit.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

constexpr std::size_t kStatistics = 2;  // statistics per batch size: by rank and by id

// The transformed draws of one batch size, which are uniform for any rows.
struct Stream {
  std::vector<double> by_rank, by_id;
};

class Gathering {
 public:
  Gathering(const CheckInput& input, CheckOutcome& outcome)
      : input_(input), outcome_(outcome), base_(make_request(input, 0, input.rows)) {
    if (input.sampler->description().num_samples) base_.num_samples = kSamples;
    for (std::int64_t row = 0; row < base_.rows; ++row)
      rows_.push_back(row_transform(input, base_, row));
  }

  bool judges() const {
    return std::any_of(rows_.begin(), rows_.end(),
                       [](const RowTransform& row) { return row.judged(); });
  }

  // Returns `draws` draws in batches of `size` rows.
  Stream gather(std::int64_t size, std::uint64_t draws, std::uint64_t seed) {
    Stream stream;
    for (std::uint64_t call = 0; stream.by_id.size() < draws && !outcome_.failed(); ++call) {
      // If all rows fail, the loop gets no draws and would never end without this limit.
      if (call > 4 * draws) break;
      std::vector<std::int64_t> picks;
      for (std::int64_t i = 0; i < size; ++i) {
        picks.push_back(static_cast<std::int64_t>((static_cast<std::uint64_t>(i) + call) %
                                                  static_cast<std::uint64_t>(base_.rows)));
      }
      Request request = pick_rows(base_, picks);
      const std::uint64_t call_seed = mixed(seed, call);
      for (std::size_t i = 0; i < request.seed.size(); ++i) request.seed[i] = mixed(call_seed, i);
      const Response response = run_request(*input_.sampler, request, {});
      if (!response.ran()) {
        outcome_.fail(fmt::format("a batch of {} rows: {}", size, response.trouble()));
        return stream;
      }
      outcome_.rows += static_cast<std::uint64_t>(size);
      add(request, response, picks, ~call_seed, stream);
    }
    return stream;
  }

 private:
  static constexpr std::int32_t kSamples = 16;

  void add(const Request& request, const Response& response, const std::vector<std::int64_t>& picks,
           std::uint64_t seed, Stream& stream) {
    for (std::size_t i = 0; i < response.tokens.size(); ++i) {
      const std::size_t output = i / static_cast<std::size_t>(request.num_samples);
      const RowTransform& row = rows_[static_cast<std::size_t>(picks[output])];
      if (!row.judged()) continue;
      ++outcome_.draws;
      const std::int64_t token = response.tokens[i];
      const bool in_range = token >= 0 && token < request.vocab;
      const auto at = static_cast<std::size_t>(token);
      if (!in_range || row.membership[at] == Membership::out) {
        outcome_.fail(fmt::format("a batch of {} rows: row {} ({}): token {} is outside of the {}",
                                  request.rows, output, describe(request.parameters[output]), token,
                                  in_range ? "support" : "vocabulary"));
        return;
      }
      if (!row.has_frequency[at]) continue;
      stream.by_id.push_back(statistics::randomized_pit(row.by_id, token, mixed(seed, i)));
      stream.by_rank.push_back(
          statistics::randomized_pit(row.by_rank, row.rank_of[at], mixed(~seed, i)));
    }
  }

  const CheckInput& input_;
  CheckOutcome& outcome_;
  Request base_;
  std::vector<RowTransform> rows_;
};

}  // namespace

CheckOutcome check_batch_distribution(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (sampler.per_request_seeds) {
    return skipped("has per-request seeds: `batches` compares its tokens one by one");
  }
  if (const Lack lacks = lack_for(sampler, make_request(input, 0, input.rows)); !lacks.empty()) {
    return skipped(lacks);
  }
  const std::uint64_t draws = input.draws / std::size(kBatchSizes);  // per size
  const double level = input.false_fail_rate / (kStatistics * std::size(kBatchSizes));
  CheckOutcome outcome;
  outcome.min_discrepancy =
      statistics::dkwm_min_discrepancy(draws, TwoStages(level).each, kFalsePassRateOfALook);
  if (*outcome.min_discrepancy > input.declared_discrepancy) {
    const double found = *outcome.min_discrepancy;
    outcome =
        underpowered(fmt::format("{} draws of each size find a distance of {:.5f}, the case states "
                                 "{:.5f}",
                                 draws, found, input.declared_discrepancy));
    outcome.min_discrepancy = found;
    return outcome;
  }
  Gathering gathering(input, outcome);
  if (!gathering.judges()) {
    return skipped("semantics " + input.semantics.name + " gives these rows no distribution");
  }
  outcome.measures["alpha"] = input.false_fail_rate;
  judge_in_two_stages(
      [&](int look) {
        std::vector<Finding> findings;
        for (const std::int64_t size : kBatchSizes) {
          const std::uint64_t seed = mixed(input.seed + static_cast<std::uint64_t>(look),
                                           static_cast<std::uint64_t>(size));
          const Stream stream = gathering.gather(size, draws, seed);
          if (outcome.failed()) return findings;
          const auto judge = [&](const char* order, const std::vector<double>& values) {
            findings.push_back({.name = fmt::format("{}_in_batches_of_{}", order, size),
                                .p_value = statistics::uniformity_p_value(values),
                                .level = level,
                                .what = fmt::format("distance {:.4f} by {} of {} draws in batches "
                                                    "of {} rows",
                                                    statistics::uniform_distance(values), order,
                                                    values.size(), size)});
          };
          judge("probability", stream.by_rank);
          judge("id", stream.by_id);
        }
        if (look == 0) note_p_values(findings, outcome);
        return findings;
      },
      outcome);
  if (!outcome.failed()) {
    outcome.message = fmt::format(
        "{} draws in batches of 1 to 513 rows have the distributions of "
        "their rows",
        outcome.draws);
  }
  return outcome;
}

}  // namespace fairdraw::harness
