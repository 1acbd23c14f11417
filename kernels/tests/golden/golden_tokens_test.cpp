// The test replays tokens that a GPU drew on every instruction set of this machine's CPU. It needs
// no GPU, because cuda_tokens.json has the kernels' tokens and the harness generates the rows'
// logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "tests/golden/golden_rows.h"
#include "tests/sample/random_rows.h"

namespace fairdraw::suites {
namespace {

GoldenFile committed_file() {
  std::ifstream in(FAIRDRAW_GOLDEN_TOKENS, std::ios::binary);
  if (!in) throw std::runtime_error("no file " FAIRDRAW_GOLDEN_TOKENS);
  return golden_file_from_json({std::istreambuf_iterator<char>(in), {}});
}

TEST(GoldenTokens, CpusGiveTheTokensOfTheGpu) {
  const GoldenFile file = committed_file();
  ASSERT_FALSE(file.gpu.empty());
  int reported = 0;
  for (const GoldenRow& row : file.rows) {
    const OwnedCall call = golden_call(row.input);
    for (const CpuTarget target : available_targets()) {
      SampleOutputs outputs(call, {true, true, false, false, false});
      HostArrays arrays;
      const Error error =
          sample(request_in(call, arrays), result_in(call, outputs, arrays), {target, 1});
      ASSERT_FALSE(error) << error.message;
      if (tokens_of(outputs) == row.given) continue;
      ADD_FAILURE() << to_string(target) << ", family " << harness::to_string(row.input.family)
                    << ", row number " << row.input.row_number << ": status "
                    << to_string(outputs.statuses[0]) << ", token " << outputs.tokens[0]
                    << ", support " << outputs.support_size[0]
                    << "; the GPU: " << to_string(row.given.status) << ", "
                    << row.given.tokens.at(0) << ", " << row.given.support_size << "\n  "
                    << describe_row(call, 0);
      ASSERT_LT(++reported, 20);
    }
  }
}

TEST(GoldenTokens, TheFileHoldsTheWholeTable) {
  const GoldenFile file = committed_file();
  const std::vector<GoldenInput> inputs = golden_inputs();
  ASSERT_EQ(file.rows.size(), inputs.size()) << "run golden_tokens on a GPU again";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_TRUE(file.rows[i].input == inputs[i]) << "row " << i << " has another input";
    ASSERT_EQ(file.rows[i].given.tokens.size(), static_cast<std::size_t>(kGoldenSamples));
  }
}

TEST(GoldenTokens, TheTableHasEveryFamilyDtypeAndFilter) {
  const std::vector<GoldenInput> inputs = golden_inputs();
  EXPECT_GE(inputs.size(), 2000U);
  std::set<std::pair<harness::Family, DType>> rows;
  std::set<std::int64_t> vocabs;
  std::set<std::uint64_t> seeds;
  for (const GoldenInput& input : inputs) {
    rows.insert({input.family, input.dtype});
    vocabs.insert(input.vocab);
    seeds.insert(input.seed);
  }
  EXPECT_EQ(rows.size(), 3 * golden_families().size());
  EXPECT_EQ(seeds.size(), inputs.size());
  EXPECT_EQ(*vocabs.begin(), 1);
  EXPECT_EQ(*vocabs.rbegin(), 131072);
  const auto wide =
      std::count_if(inputs.begin(), inputs.end(), [](const auto& i) { return i.vocab >= 32000; });
  const auto from_128 =
      std::count_if(inputs.begin(), inputs.end(), [](const auto& i) { return i.vocab >= 128; });
  EXPECT_GE(wide, 100);
  EXPECT_GE(from_128, static_cast<std::ptrdiff_t>(inputs.size() / 2));
  const auto has = [&inputs](auto condition) {
    return std::any_of(inputs.begin(), inputs.end(), condition);
  };
  using Input = const GoldenInput&;
  EXPECT_TRUE(has([](Input i) { return i.top_k > 1 && i.tie_rule == TieRule::lowest_id; }));
  EXPECT_TRUE(has([](Input i) { return i.top_k > 1 && i.filter_order == FilterOrder::joint; }));
  EXPECT_TRUE(has([](Input i) { return i.top_p > 0 && i.top_p < 1 && i.top_k == 0; }));
  EXPECT_TRUE(has([](Input i) { return i.min_p > 0 && i.top_k == 0 && i.top_p == 1; }));
  EXPECT_TRUE(has([](Input i) { return i.temperature == 0; }));
  EXPECT_TRUE(has([](Input i) { return i.top_k == 1; }));
  EXPECT_TRUE(has([](Input i) { return i.top_p == 0; }));
}

TEST(GoldenTokens, AFileIsReadAsItWasWritten) {
  GoldenFile file{"a GPU", "1.2", "2000-01-01", {}};
  for (const GoldenInput& input : golden_inputs()) {
    const auto token = static_cast<std::int32_t>(input.vocab - 1);
    file.rows.push_back({input, {RowStatus::nan_input, {token, -1, 0}, 7}});
  }
  file.rows.back().input.temperature = 0x1p-126F;
  file.rows.back().input.seed = ~std::uint64_t{0};
  const GoldenFile read = golden_file_from_json(to_json(file));
  EXPECT_EQ(read.gpu, file.gpu);
  EXPECT_EQ(read.driver, file.driver);
  EXPECT_EQ(read.date, file.date);
  ASSERT_EQ(read.rows.size(), file.rows.size());
  for (std::size_t i = 0; i < file.rows.size(); ++i) {
    ASSERT_TRUE(read.rows[i].input == file.rows[i].input) << "row " << i;
    ASSERT_TRUE(read.rows[i].given == file.rows[i].given) << "row " << i;
  }
  EXPECT_THROW(golden_file_from_json("{}"), std::runtime_error);
  EXPECT_THROW(golden_file_from_json("no JSON"), std::runtime_error);
}

}  // namespace
}  // namespace fairdraw::suites
