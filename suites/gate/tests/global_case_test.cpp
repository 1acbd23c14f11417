// Tests of the global case, which judges all cases together. The expected values follow from
// Fisher's method: a chi-squared distribution with two degrees of freedom per case.
#include "suites/gate/cases/global_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace fairdraw::suites {
namespace {

const harness::SamplerRecord kSampler{"cpu", "1", "fairdraw"};

std::vector<harness::CaseRecord> cases(std::size_t count, double p_value) {
  std::vector<harness::CaseRecord> records(count);
  for (harness::CaseRecord& record : records) {
    record.sampler = "cpu";
    record.check = "binomial";
    record.p_value = p_value;
  }
  return records;
}

TEST(GlobalCase, PassesUnderTheNull) {
  // At p = exp(-1/2), the term -2 ln p is 1, half of its mean.
  const auto global = global_case(cases(40, std::exp(-0.5)), kSampler, 2e-10);
  ASSERT_TRUE(global.has_value());
  EXPECT_STREQ(to_string(global->verdict), "passed");
  // the tolerance is 40 additions, each off by one ulp of 40
  EXPECT_NEAR(*global->statistic, 40, 40 * 40 * 0x1p-52);
  EXPECT_EQ(*global->dof, 80);
}

TEST(GlobalCase, SeesASmallBiasThatIsEverywhere) {
  // None of these 40 cases at p = 0.02 is remarkable by itself. But -2 sum ln p = 313 with 80
  // degrees of freedom, whose upper tail is below e^-60 by Chernoff's bound (x/n)^(n/2) e^((n-x)/2)
  // with x = 313 and n = 80.
  const auto global = global_case(cases(40, 0.02), kSampler, 2e-10);
  ASSERT_TRUE(global.has_value());
  EXPECT_STREQ(to_string(global->verdict), "failed");
  EXPECT_LE(*global->p_value, 2 * std::pow(313.0 / 80, 40) * std::exp((80 - 312.9) / 2));
}

TEST(GlobalCase, TakesOnlyValidPValuesOfItsSampler) {
  std::vector<harness::CaseRecord> records = cases(4, 1e-30);
  records[0].sampler = "other";
  records[1].check = "mask";
  records[2].check = "chi_squared";
  records[2].measures["cells"] = 9;  // too few cells for Pearson's distribution
  EXPECT_FALSE(global_case(records, kSampler, 2e-10).has_value());  // now only one p-value is left
  records[2].measures["cells"] = 10;
  const auto global = global_case(records, kSampler, 2e-10);
  ASSERT_TRUE(global.has_value());
  EXPECT_EQ(*global->dof, 4);
}

}  // namespace
}  // namespace fairdraw::suites
