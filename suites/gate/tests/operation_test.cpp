// The tests require that names of operations that were written are read back, and that all other
// texts are rejected.
#include "suites/gate/cases/operation.h"

#include <gtest/gtest.h>

#include "harness/contract/usage_error.h"
#include "suites/gate/cases/operation_lists.h"

namespace fairdraw::suites {
namespace {

void expect_round_trip(const Operation& operation) {
  const std::string name =
      operation_name(operation) + "/" + temperature_tag(operation.parameters.temperature);
  const Operation read = parse_operation(name);
  EXPECT_EQ(read.parameters.temperature, operation.parameters.temperature) << name;
  EXPECT_EQ(read.parameters.top_k, operation.parameters.top_k) << name;
  EXPECT_EQ(read.parameters.top_p, operation.parameters.top_p) << name;
  EXPECT_EQ(read.parameters.min_p, operation.parameters.min_p) << name;
  EXPECT_EQ(read.tie_rule, operation.tie_rule) << name;
  EXPECT_EQ(read.filter_order, operation.filter_order) << name;
}

TEST(OperationName, IsReadBack) {
  for (const Operation& operation : named_operations()) expect_round_trip(operation);
  for (const Operation& operation : everyday_operations()) expect_round_trip(operation);
  for (const Operation& operation : edge_operations(1000)) expect_round_trip(operation);
  for (const Operation& operation : partial_sum_operations()) expect_round_trip(operation);
}

TEST(OperationName, LeavesDefaultsOut) {
  EXPECT_EQ(operation_name({}), "none");
  EXPECT_EQ(operation_name({.parameters = {.top_k = 50, .top_p = 0.9F}}), "top_k_50+top_p_0.9");
  EXPECT_EQ(operation_name({.parameters = {.temperature = 0}}), "greedy");
  EXPECT_EQ(operation_name({.parameters = {.top_k = -1},
                            .tie_rule = TieRule::lowest_id,
                            .filter_order = FilterOrder::joint}),
            "top_k_-1+lowest_id+joint");
  EXPECT_EQ(temperature_tag(0.7F), "t0.7");
}

TEST(ParseOperation, RefusesWhatIsNoName) {
  for (const char* name : {"", "top_k", "top_k_", "top_k_x", "top_k_1.5", "top_k_99999999999",
                           "top_p_0.9x", "top_p_ 0.9", "top_k_50+", "+top_k_50", "topk_50", "none/",
                           "none/0.7", "none/t", "none/tx"}) {
    EXPECT_THROW(parse_operation(name), harness::UsageError) << name;
  }
}

TEST(ParseOperation, NamesThePartThatIsWrong) {
  try {
    parse_operation("top_k_50+topp_0.9");
    FAIL() << "was read";
  } catch (const harness::UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("'topp_0.9'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("top_p_X"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace fairdraw::suites
