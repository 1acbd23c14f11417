// Random calls are the means by which CPU and GPU are compared. Every instruction set must accept
// the calls and give the same results, and every status that `sample` can give for logits must
// occur.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {
namespace {

TEST(RandomCalls, MeetEveryStatusAndAreTheSameOnEveryTarget) {
  std::array<std::int64_t, kRowStatuses> statuses{};
  std::int64_t all = 0;
  const std::vector<CpuTarget> targets = available_targets();
  for (std::uint64_t number = 0; number < budget(1000) && !HasFailure(); ++number) {
    const auto rows = static_cast<std::int64_t>(1 + number % 23);
    const auto vocab = static_cast<std::int64_t>(1 + number * 7919 % (number % 4 == 0 ? 900 : 70));
    OwnedCall call = random_call(number, rows, vocab);
    if (number % 3 == 0) harness::make_rules_of_rows(number, number % 2 == 1, call);
    if (number % 2 == 0) call.processing = harness::random_processing(number, rows, vocab);
    SampleOutputs expected(call, kEverything);
    for (const CpuTarget target : targets) {
      SampleOutputs got(call, kEverything);
      HostArrays host;
      const Error refused = sample(request_in(call, host), result_in(call, got, host), {target, 1});
      ASSERT_FALSE(refused) << "call " << number << ": " << refused.message;
      if (target == targets.front()) expected = got;
      for (const Difference& difference : differences(call, expected, got, 5)) {
        ADD_FAILURE() << "call " << number << " on " << to_string(target) << ": " << difference.what
                      << "\n  " << describe_row(call, difference.row);
      }
    }
    all += static_cast<std::int64_t>(expected.statuses.size());
    for (const RowStatus status : expected.statuses) {
      ++statuses.at(static_cast<std::size_t>(status));
    }
  }
  EXPECT_GT(statuses[0], all / 2) << "of " << all << " outputs: the comparison says little";
  for (std::size_t status = 0; status < statuses.size(); ++status) {
    const auto name = static_cast<RowStatus>(status);
    // The other statuses belong to probabilities, drafts, stops and beams.
    const bool of_rules =
        name == RowStatus::invalid_tie_rule || name == RowStatus::invalid_filter_order;
    if (name == RowStatus::negative_probability) continue;
    if (name > RowStatus::processing_overflow && !of_rules) continue;
    RecordProperty(to_string(name), std::to_string(statuses[status]));
    EXPECT_GT(statuses[status], is_reduced() ? -1 : 9) << to_string(name);
  }
}

}  // namespace
}  // namespace fairdraw::suites
