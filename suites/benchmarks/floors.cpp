#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "suites/benchmarks/floors.cpp"
#include <hwy/foreach_target.h>  // this header must come before highway.h
#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace fairdraw::suites {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

float max_reduction(const float* x, std::size_t n) {
  const hn::ScalableTag<float> f32;
  const std::size_t lanes = hn::Lanes(f32);
  auto chain0 = hn::Set(f32, x[0]);
  auto chain1 = chain0;
  auto chain2 = chain0;
  auto chain3 = chain0;
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    chain0 = hn::Max(chain0, hn::LoadU(f32, x + i));
    chain1 = hn::Max(chain1, hn::LoadU(f32, x + i + lanes));
    chain2 = hn::Max(chain2, hn::LoadU(f32, x + i + 2 * lanes));
    chain3 = hn::Max(chain3, hn::LoadU(f32, x + i + 3 * lanes));
  }
  const auto all = hn::Max(hn::Max(chain0, chain1), hn::Max(chain2, chain3));
  float largest = hn::GetLane(hn::MaxOfLanes(f32, all));
  for (; i < n; ++i) largest = std::max(largest, x[i]);
  return largest;
}

}  // namespace HWY_NAMESPACE
}  // namespace fairdraw::suites
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <vector>

#include "cpu/passes/tile_passes.h"
#include "suites/benchmarks/floors.h"

namespace fairdraw::suites {

// The instruction set is chosen at run time, as in the kernels (kernels/cpu/passes/dispatch.cpp).
float max_reduction(const float* x, std::size_t n) {
#if HWY_TARGETS & HWY_AVX3
  if (best_target() == CpuTarget::avx512) return N_AVX3::max_reduction(x, n);
#endif
#if HWY_TARGETS & HWY_AVX2
  if (best_target() == CpuTarget::avx2) return N_AVX2::max_reduction(x, n);
#endif
  return HWY_STATIC_DISPATCH(max_reduction)(x, n);
}

std::uint64_t max_and_weights(const float* x, std::size_t n, CpuTarget target) {
  thread_local std::vector<std::int32_t> keys;
  thread_local std::vector<std::uint64_t> sums;
  const cpu::RowInMemory row{x, DType::float32, static_cast<std::int64_t>(n), nullptr};
  keys.resize(static_cast<std::size_t>(tiles_of(row.vocab)));
  sums.resize(keys.size());
  cpu::tile_passes_for(target).index(row, {false, logit_scale(1.0F)}, keys.data(), sums.data());
  return sums.front();
}

}  // namespace fairdraw::suites

#endif  // HWY_ONCE
