// Checks that the other tests here really test NEON.
#include <gtest/gtest.h>

#include "fairdraw/types.h"

namespace fairdraw::suites {
namespace {

TEST(Target, NeonIsAvailableAndTheBest) {
  EXPECT_TRUE(is_available(CpuTarget::neon));
  EXPECT_EQ(best_target(), CpuTarget::neon);
}

}  // namespace
}  // namespace fairdraw::suites
