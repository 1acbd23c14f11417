// Instruction sets that this machine can run, with the passes of each.
#include <cstdlib>

#include "cpu/passes/passes.h"
#include "cpu/passes/tile_passes.h"

namespace fairdraw::cpu {

namespace {

bool machine_runs(CpuTarget target) {
#if defined(__x86_64__)
  // These are the CPU features that Highway enables for the targets.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("f16c");
  if (target == CpuTarget::avx2) return avx2;
  if (target == CpuTarget::avx512) {
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
  }
  return false;
#else
  return target == CpuTarget::neon;
#endif
}

}  // namespace

const Passes& passes_for(CpuTarget target) {
  const CpuTarget resolved = target == CpuTarget::best ? best_target() : target;
  const Passes* simd = simd_passes(resolved);
  return simd == nullptr ? kScalarPasses : *simd;
}

const TilePasses& tile_passes_for(CpuTarget target) {
  const CpuTarget resolved = target == CpuTarget::best ? best_target() : target;
  const TilePasses* simd = simd_tile_passes(resolved);
  return simd == nullptr ? kScalarTilePasses : *simd;
}

}  // namespace fairdraw::cpu

namespace fairdraw {

bool is_available(CpuTarget target) noexcept {
  if (target == CpuTarget::best || target == CpuTarget::scalar) return true;
  return cpu::simd_passes(target) != nullptr && cpu::machine_runs(target);
}

CpuTarget best_target() noexcept {
  for (const CpuTarget target : {CpuTarget::avx512, CpuTarget::avx2, CpuTarget::neon}) {
    if (is_available(target)) return target;
  }
  return CpuTarget::scalar;
}

}  // namespace fairdraw
