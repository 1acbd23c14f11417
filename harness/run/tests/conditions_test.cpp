// Tests calls whose rows are answered by two samplers, and conditions that rows have in common.
#include "harness/run/calls/conditions.h"

#include <gtest/gtest.h>

#include <vector>

#include "harness/run/calls/mixed_sampler.h"
#include "harness/run/calls/request.h"

namespace fairdraw::harness {
namespace {

// A sampler that writes the same number into all results of a call.
class Constant final : public Sampler {
 public:
  explicit Constant(std::int32_t number) : number_(number) {
    description_.reports_mask = description_.reports_status = description_.indices = true;
    description_.reports_support = description_.num_samples = true;
  }
  const SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch& batch) override {
    for (std::int64_t i = 0; i < batch.outputs * batch.num_samples; ++i) batch.tokens[i] = number_;
    for (std::int64_t i = 0; i < batch.outputs; ++i) batch.support_size[i] = number_;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      batch.mask[row * batch.mask_stride] = static_cast<std::uint32_t>(number_);
    }
    return number_ < 0 ? "refused by design" : "";
  }

 private:
  SamplerDescription description_;
  std::int32_t number_;
};

// Returns rows with top_k 0, 5, 0, 5, which the outputs sample in the order 3, 2, 2, 0.
Request four_rows() {
  Request request;
  request.rows = 4;
  request.vocab = 31;
  request.logits.assign(std::size_t{4} * 31, 0);
  for (const std::int32_t top_k : {0, 5, 0, 5}) request.parameters.push_back({1, top_k, 1, 0});
  request.with_indices = true;
  request.indices = {3, 2, 2, 0};
  request.seed = {1, 2, 3, 4};
  request.offset = {0, 0, 0, 0};
  request.num_samples = 2;
  return request;
}

bool has_top_k(const RowFacts& row) { return row.parameters.top_k > 0; }

TEST(MixedSampler, EachResultIsOfTheSamplerOfItsRow) {
  MixedSampler mixed(std::make_unique<Constant>(7), std::make_unique<Constant>(9), has_top_k);
  const Response response = run_request(mixed, four_rows(), {.support_size = true, .mask = true});
  ASSERT_TRUE(response.ran()) << response.trouble();
  EXPECT_EQ(response.tokens, (std::vector<std::int32_t>{7, 7, 9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(response.support_size, (std::vector<std::int32_t>{7, 9, 9, 9}));
  EXPECT_EQ(response.mask, (std::vector<std::uint32_t>{9, 7, 9, 7}));
}

TEST(MixedSampler, ASamplerThatAnswersNothingIsNotAsked) {
  MixedSampler right(std::make_unique<Constant>(-1), std::make_unique<Constant>(9),
                     [](const RowFacts&) { return false; });
  EXPECT_TRUE(run_request(right, four_rows(), {.support_size = true, .mask = true}).ran());
  MixedSampler refuses(std::make_unique<Constant>(-1), std::make_unique<Constant>(9), has_top_k);
  EXPECT_EQ(run_request(refuses, four_rows(), {.support_size = true, .mask = true}).refused,
            "refused by design");
  MixedSampler alone(std::make_unique<Constant>(7), nullptr, [](const RowFacts&) { return true; });
  EXPECT_TRUE(run_request(alone, four_rows(), {.support_size = true, .mask = true}).ran());
}

TEST(Conditions, TellRowsFromOthers) {
  const Request request = four_rows();
  std::vector<RowFacts> rows;
  for (std::int64_t row = 0; row < 4; ++row) rows.push_back(facts_of(request, row));
  EXPECT_TRUE(some_condition_tells({rows[1], rows[3]}, {rows[0], rows[2]}));
  EXPECT_FALSE(some_condition_tells({rows[0], rows[1]}, {rows[2], rows[3]}));
}

TEST(Conditions, OfASubjectTheNarrowestComesFirst) {
  RowFacts row = {{1, 31, 1, 0}, 31};
  std::string first;
  for (const Condition& one : row_conditions()) {
    if (one.subject == "top_k" && one.holds(row) && first.empty()) first = one.text;
  }
  EXPECT_EQ(first, "rows with a top_k of the vocabulary");
  row.row = 5;
  EXPECT_TRUE(every_nth_row(3, 2).holds(row));
  EXPECT_FALSE(every_nth_row(3, 0).holds(row));
}

}  // namespace
}  // namespace fairdraw::harness
