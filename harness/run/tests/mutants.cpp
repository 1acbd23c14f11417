// Bugs that samplers have had, as mutants that each have one wrong step.
#include "harness/run/tests/mutants.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "harness/adapters/serving_model.h"
#include "harness/run/calls/random_words.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fairdraw::harness {
namespace {

using reference::IntegerRow;

void keep_only(IntegerRow& row, const std::function<bool(std::size_t)>& kept) {
  if (row.status != RowStatus::ok) return;
  for (std::size_t token = 0; token < row.mask.size(); ++token) {
    if (row.mask[token] == 0 || kept(token)) continue;
    row.mask[token] = 0;
    --row.support_size;
    row.total -= row.weight[token];
  }
}

struct TemperatureOff : ServingModel {
  IntegerRow model(const Row& row) override {
    Row warmer = row;
    warmer.parameters.temperature *= 1.05F;
    return ServingModel::model(warmer);
  }
};

// The next two mutants draw tokens that differ from what they report, while their masks stay right.
struct LaneLost : ServingModel {
  std::int32_t choose(const IntegerRow& row, std::uint64_t word) override {
    const std::int32_t token = row.token_for(word);
    return token % 16 == 11 ? row.token_for(~word) / 16 * 16 : token;
  }
};

struct TailLost : ServingModel {
  static constexpr std::size_t kRank = 1000;
  std::int32_t choose(const IntegerRow& row, std::uint64_t word) override {
    if (row.weight.size() <= kRank) return row.token_for(word);
    if (row.weight != last_weight_) {  // so that there is one sort per row, not one per token
      last_weight_ = row.weight;
      std::vector<reference::RowWeight> weights = row.weight;
      std::nth_element(weights.begin(), weights.begin() + kRank - 1, weights.end(),
                       std::greater<>());
      drawn_ = row;
      keep_only(drawn_, [&](std::size_t token) { return row.weight[token] >= weights[kRank - 1]; });
    }
    return drawn_.token_for(word);
  }

 private:
  std::vector<reference::RowWeight> last_weight_;
  IntegerRow drawn_;
};

struct CrossingTokenDropped : ServingModel {
  IntegerRow model(const Row& row) override {
    IntegerRow result = ServingModel::model(row);
    if (row.parameters.top_p >= 1 || result.support_size < 2) return result;
    reference::RowWeight smallest = ~reference::RowWeight{0};
    for (std::size_t token = 0; token < result.mask.size(); ++token) {
      if (result.mask[token] != 0) smallest = std::min(smallest, result.weight[token]);
    }
    const auto size = static_cast<reference::RowWeight>(result.support_size);
    if (smallest * size == result.total) return result;
    keep_only(result, [&](std::size_t token) { return result.weight[token] > smallest; });
    return result;
  }
};

struct TiesAtKDropped : ServingModel {
  IntegerRow model(const Row& row) override {
    Row exact_k = row;
    exact_k.tie_rule = TieRule::lowest_id;
    return ServingModel::model(exact_k);
  }
};

struct FirstSeedForAll : ServingModel {
  std::int64_t seed_index(const fairdraw_batch&, std::int64_t) override { return 0; }
};

struct FirstParametersForAll : ServingModel {
  std::int64_t parameters_row(const fairdraw_batch&, std::int64_t) override { return 0; }
};

struct OffsetIgnored : ServingModel {
  std::uint64_t word(std::uint64_t seed, std::uint64_t, std::uint32_t index,
                     std::uint32_t attempt) override {
    return ServingModel::word(seed, 0, index, attempt);
  }
};

struct OffsetAddedToIndex : ServingModel {
  std::uint64_t word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                     std::uint32_t attempt) override {
    return ServingModel::word(seed, 0, index + static_cast<std::uint32_t>(offset), attempt);
  }
};

// A mutant that uses words in steps of the golden ratio, so that any consecutive words are spread
// evenly.
struct DrawsTooEven : ServingModel {
  std::uint64_t word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                     std::uint32_t) override {
    return seed + (offset + index) * 0x9e3779b97f4a7c15ULL;
  }
};

struct StatusMissing : ServingModel {
  std::int32_t report_status(RowStatus) override { return 0; }
};

struct BatchSizeInSeed : ServingModel {
  std::string run(const fairdraw_batch& batch) override {
    outputs_ = static_cast<std::uint64_t>(batch.outputs);
    return ServingModel::run(batch);
  }
  std::uint64_t word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                     std::uint32_t attempt) override {
    return ServingModel::word(seed + outputs_, offset, index, attempt);
  }

 private:
  std::uint64_t outputs_ = 0;
};

struct ProbabilityBeforeFilters : ServingModel {
  float report_probability(const IntegerRow& row, std::int32_t token) override {
    return static_cast<float>(static_cast<double>(row.weight[static_cast<std::size_t>(token)]) /
                              static_cast<double>(row.total_unfiltered));
  }
};

struct BannedTokenDrawn : ServingModel {
  std::int32_t choose(const IntegerRow& row, std::uint64_t word) override {
    if (word % 64 != 0) return row.token_for(word);
    const auto outside = std::find(row.mask.begin(), row.mask.end(), 0);
    return outside == row.mask.end() ? row.token_for(word)
                                     : static_cast<std::int32_t>(outside - row.mask.begin());
  }
};

struct VocabIsAToken : ServingModel {
  std::int32_t choose(const IntegerRow& row, std::uint64_t word) override {
    if (word % 64 != 0) return row.token_for(word);
    return static_cast<std::int32_t>(row.mask.size());
  }
};

// A mutant that uses the bans and penalties of the call's first row for all rows.
struct FirstProcessingForAll : ServingModel {
  IntegerRow model(const Row& row) override {
    Row changed = row;
    if (!first_ && row.processing) first_ = row.processing;
    if (row.processing) changed.processing = first_;
    return ServingModel::model(changed);
  }
  void finish(const fairdraw_batch&) override { first_.reset(); }

 private:
  std::optional<reference::RowProcessing> first_;
};

struct DraftsLeaveNoHistory : ServingModel {
  reference::SpeculationOutcome accept_drafts(DraftedTokens& request) override {
    for (DistributionRow& row : request.target) row.processing = request.target.front().processing;
    return ServingModel::accept_drafts(request);
  }
};

struct WritesBehindTokens : ServingModel {
  void finish(const fairdraw_batch& batch) override {
    batch.tokens[batch.outputs * batch.num_samples] = 0;
  }
};

#if defined(__x86_64__)
struct LeavesFlushToZeroOn : ServingModel {
  void finish(const fairdraw_batch&) override { _mm_setcsr(_mm_getcsr() | (1U << 15)); }
};
struct FollowsCallersFlushing : ServingModel {
  std::string run(const fairdraw_batch& batch) override {
    flushes_ = (_mm_getcsr() & (1U << 15 | 1U << 6)) != 0;
    return ServingModel::run(batch);
  }
  IntegerRow model(const Row& row) override {
    Row changed = row;
    if (flushes_) changed.parameters.top_k = 3;
    return ServingModel::model(changed);
  }

 private:
  bool flushes_ = false;
};
struct FollowsCallersRounding : ServingModel {
  std::string run(const fairdraw_batch& batch) override {
    callers_ = _mm_getcsr();
    return ServingModel::run(batch);
  }
  IntegerRow model(const Row& row) override {
    Row changed = row;
    if ((callers_ & (3U << 13)) != 0) changed.parameters.top_k = 3;
    return ServingModel::model(changed);
  }

 private:
  unsigned callers_ = 0;
};
#endif

template <class Sampler>
RunMutant mutant(const char* name) {
  return {name, [] { return std::make_unique<Sampler>(); }};
}

}  // namespace

const std::vector<RunMutant>& mutants() {
  static const std::vector<RunMutant> all = {
      mutant<TemperatureOff>("temperature 1.05 times too high"),
      mutant<LaneLost>("one lane of 16 never drawn"),
      mutant<TailLost>("tail beyond rank 1000 never drawn"),
      mutant<CrossingTokenDropped>("crossing token dropped"),
      mutant<TiesAtKDropped>("ties at k dropped"),
      mutant<FirstSeedForAll>("first seed for all outputs"),
      mutant<FirstParametersForAll>("first row's parameters for all rows"),
      mutant<OffsetIgnored>("offset ignored"),
      mutant<OffsetAddedToIndex>("offset added to the sample's number"),
      mutant<DrawsTooEven>("draws too even"),
      mutant<StatusMissing>("status missing"),
      mutant<BatchSizeInSeed>("batch size in the seed"),
      mutant<ProbabilityBeforeFilters>("probabilities before the filters"),
      mutant<BannedTokenDrawn>("token outside of the mask drawn"),
      mutant<VocabIsAToken>("vocab itself is a token"),
      mutant<FirstProcessingForAll>("first row's processing for all rows"),
      mutant<DraftsLeaveNoHistory>("drafts leave no history"),
      mutant<WritesBehindTokens>("writes behind its tokens"),
#if defined(__x86_64__)
      mutant<LeavesFlushToZeroOn>("leaves flush-to-zero on"),
      mutant<FollowsCallersFlushing>("follows the caller's FTZ and DAZ"),
      mutant<FollowsCallersRounding>("follows the caller's rounding mode"),
#endif
  };
  return all;
}

std::unique_ptr<Sampler> make_mutant(const std::string& name) {
  for (const RunMutant& mutant : mutants()) {
    if (mutant.name == name) return mutant.make();
  }
  throw std::invalid_argument("no mutant '" + name + "'");
}

}  // namespace fairdraw::harness
