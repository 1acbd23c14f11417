#include "suites/gate/cases/narrow_speculation_cases.h"

#include <utility>

namespace fairdraw::suites {
namespace {

using harness::Family;

constexpr DType kNarrow[] = {DType::bfloat16, DType::float16};

}  // namespace

std::vector<NamedCase> narrow_speculation_cases() {
  std::vector<NamedCase> cases;
  for (const DType dtype : kNarrow) {
    cases.push_back(named_case({.suite = Suite::gate,
                                .check = Check::chain,
                                .input = family_input(Family::gaussian_wide, 31, dtype),
                                .rows = 240},
                               "none/t1"));
    // Half of the draws come from close rows (checks/speculation/close_rows.h). In bfloat16, 400000
    // draws have an expectation of 400000 / 256 = 1562 units of the last place; a rounded ratio
    // gives 0.69 times this number. So G = 2 (1562 - 1080 + 1080 ln 0.69) = 168, where about 80 are
    // needed. In float16 the expectation is 195 units, which is too few to detect a rounded ratio.
    // A residual rounded to bfloat16 gives three times as many: G = 2 * 195 (3 ln 3 - 2) = 506.
    // With eight tokens, at a fourteenth of the share and with a quarter of the draws, the
    // statistic G detects 0.0250 in the largest table. The declared discrepancy is slightly larger
    // than this value.
    NamedCase chains = distribution_case(
        Check::chain_distribution, {Suite::gate, Family::gaussian, 8, "none/t1", 800'000, 0.026});
    chains.entry.input.dtype = dtype;
    cases.push_back(std::move(chains));
    // This case equals the float32 case of five tokens except in its dtype.
    NamedCase requests =
        distribution_case(Check::speculation_distribution,
                          {Suite::gate, Family::gaussian, 5, "none/t1", 150'000, 0.056});
    requests.entry.input.dtype = dtype;
    cases.push_back(std::move(requests));
  }
  return cases;
}

}  // namespace fairdraw::suites
