// The tests run the fuzzer on a float32 sampler that has a generator of its own. The interval
// oracle and the evidence judge this sampler, and relations that it does not promise do not apply.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

#include "suites/gate/fuzz/fuzzer.h"

namespace fairdraw::suites::fuzz {
namespace {

enum class Bug { none, drops_crossing_token, keeps_half_at_k_of_vocab };

// A sampler of the profile fairdraw that has weights in float32 and sums in float64.
class FloatSampler : public harness::Sampler {
 public:
  FloatSampler(Bug bug, bool reports) : bug_(bug) {
    description_.name = "float";
    description_.semantics = "fairdraw";
    description_.num_samples = true;
    description_.reports_mask = description_.reports_support = reports;
    description_.reports_probs = reports;
  }
  const harness::SamplerDescription& description() const override { return description_; }

  std::string run(const fairdraw_batch& batch) override {
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      std::vector<double> weights = survivors(batch, row);
      std::vector<bool> kept;  // a token whose weight underflows is still kept
      double sum = 0;
      std::int32_t size = 0;
      for (double& weight : weights) {
        kept.push_back(weight != kDropped);
        if (weight == kDropped) weight = 0;
        sum += weight;
        size += kept.back() ? 1 : 0;
      }
      if (batch.support_size != nullptr) batch.support_size[row] = size;
      for (std::int64_t id = 0; id < batch.vocab; ++id) {
        const double weight = weights[static_cast<std::size_t>(id)];
        if (batch.probs != nullptr) {
          batch.probs[row * batch.probs_stride + id] =
              sum > 0 ? static_cast<float>(weight / sum) : 0;
        }
        if (batch.mask == nullptr) continue;
        std::uint32_t& word = batch.mask[row * batch.mask_stride + id / 32];
        word = id % 32 == 0 ? 0 : word;
        word |= (kept[static_cast<std::size_t>(id)] ? 1U : 0U) << (id % 32);
      }
      std::discrete_distribution<std::int32_t> draw(weights.begin(), weights.end());
      for (std::int32_t i = 0; i < batch.num_samples; ++i) {
        batch.tokens[row * batch.num_samples + i] = size == 0 ? -1 : draw(generator_);
      }
    }
    return {};
  }

 private:
  static constexpr double kDropped = -1;

  // Returns the weights of kept tokens, and kDropped for all other tokens; if the row fails, all
  // tokens are kDropped.
  std::vector<double> survivors(const fairdraw_batch& batch, std::int64_t row) const {
    const auto vocab = static_cast<std::size_t>(batch.vocab);
    std::vector<float> logits(vocab);  // a copy, because rows may have any alignment
    const auto* const bytes = static_cast<const std::byte*>(batch.logits);
    std::memcpy(logits.data(), bytes + row * batch.row_stride * std::int64_t{sizeof(float)},
                vocab * sizeof(float));
    std::vector<double> weights(vocab, kDropped);
    reference::RowParameters p = {batch.temperature[row], batch.top_k[row], batch.top_p[row],
                                  batch.min_p[row]};
    const reference::IntegerRow checked = reference::integer_model(logits, {}, p);
    if (checked.status != RowStatus::ok) return weights;
    if (checked.greedy_token >= 0) {
      weights[static_cast<std::size_t>(checked.greedy_token)] = 1;
      return weights;
    }
    if (bug_ == Bug::keeps_half_at_k_of_vocab && p.top_k == batch.vocab) {
      p.top_k = std::max(p.top_k / 2, 1);
    }
    std::vector<std::size_t> order(vocab);
    for (std::size_t id = 0; id < vocab; ++id) order[id] = id;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
    const float largest = logits[order.front()];
    const auto weight_of = [&](std::size_t id) {
      return static_cast<double>(std::exp((logits[id] - largest) / p.temperature));
    };
    const bool cut = p.top_k > 0 && static_cast<std::size_t>(p.top_k) < vocab;
    double total = 0;
    std::vector<std::size_t> kept;
    for (const std::size_t id : order) {
      if (weight_of(id) < static_cast<double>(p.min_p)) break;
      if (cut && logits[id] < logits[order[static_cast<std::size_t>(p.top_k) - 1]]) break;
      if (std::isinf(logits[id])) break;
      kept.push_back(id);
      total += weight_of(id);
    }
    double above = 0, tied = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (i > 0 && logits[kept[i]] < logits[kept[i - 1]]) {
        above += tied;
        tied = 0;
      }
      tied += weight_of(kept[i]);
      const bool drops = bug_ == Bug::drops_crossing_token && i > 0;
      const double reach = drops ? above + tied : above;
      if (p.top_p < 1 && reach >= static_cast<double>(p.top_p) * total) break;
      weights[kept[i]] = weight_of(kept[i]);
    }
    return weights;
  }

  Bug bug_;
  harness::SamplerDescription description_;
  std::mt19937_64 generator_{20};  // NOLINT: a fixed seed is the point
};

FuzzResult search(Bug bug, bool statistical, bool reports = true) {
  FloatSampler sampler(bug, reports);
  FuzzOptions options;
  options.seed = 5;
  options.cases = statistical ? 20 : 3000;
  options.statistical = statistical;
  options.generate.max_vocab = 257;
  options.generate.max_draws = 1 << 14;
  // The sampler's weights are float32 exponentials with an error of one or two ulp (2^-23), and
  // min_p compares these weights.
  reference::Semantics semantics = *reference::find_profile("fairdraw");
  semantics.relative_weight_error = 0x1p-22;
  return fuzz(sampler, semantics, options);
}

TEST(FloatSampler, IsJudgedByTheIntervalOracle) {
  const FuzzResult right = search(Bug::none, false);
  for (const Finding& finding : right.findings) {
    ADD_FAILURE() << finding.property << ": " << finding.message << "\n"
                  << describe(finding.shrunk);
  }
  EXPECT_GE(right.statistics.judged_by_property.at("oracle.intervals"), 2000U);
  EXPECT_GE(right.statistics.judged_by_property.at("answer.agrees"), 2000U);
  EXPECT_FALSE(right.statistics.judged_by_property.contains("model.tokens"));
  EXPECT_FALSE(right.statistics.judged_by_property.contains("call.again"));

  const FuzzResult wrong = search(Bug::drops_crossing_token, false);
  ASSERT_EQ(wrong.findings.size(), 1U);
  EXPECT_EQ(wrong.findings.front().property, "oracle.intervals");
  EXPECT_LE(vocab_of(wrong.findings.front().shrunk), 3);
}

// If no masks are reported, no token is outside the support; the tokens that are never drawn reveal
// the bug.
TEST(FloatSampler, IsJudgedByWhatItNeverDraws) {
  const FuzzResult right = search(Bug::none, false, false);
  EXPECT_TRUE(right.findings.empty()) << right.findings.front().message;
  EXPECT_GE(right.statistics.judged_by_property.at("tokens.reach"), 100U);
  const FuzzResult wrong = search(Bug::keeps_half_at_k_of_vocab, false, false);
  ASSERT_EQ(wrong.findings.size(), 1U);
  EXPECT_EQ(wrong.findings.front().property, "tokens.reach");
}

TEST(FloatSampler, IsJudgedByEvidence) {
  EXPECT_TRUE(search(Bug::none, true).findings.empty());
  const FuzzResult wrong = search(Bug::drops_crossing_token, true);
  ASSERT_EQ(wrong.findings.size(), 1U);
  EXPECT_LE(vocab_of(wrong.findings.front().shrunk), 3);
}

}  // namespace
}  // namespace fairdraw::suites::fuzz
