// The read-once floor computes the maximum over all values of a batch.
//
// Contract. `data` holds values of one dtype, one after the other. The boundaries of rows are
// ignored, because a floor must bound every way to distribute rows over the GPU. Each thread block
// writes one float, the maximum of its values. Algorithm. Each thread has `loads` coalesced 16-byte
// loads in flight and keeps one maximum (two per register for 16-bit types). A reduction over the
// block ends the kernel. Threads beyond the end of the data read the last value again. Cost. Apart
// from these repeated reads, every byte is read exactly once. The maximum takes 4 operations per
// load (4 packed operations for 16-bit types), which is far below the cost of the memory access.
// The fastest number of blocks and the fastest unrolling depend on the size, so the benchmark
// measures all of floor_shapes() and takes the fastest. Determinism. The maximum does not depend on
// the order of the values, because the inputs have no NaN.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "suites/benchmarks/cuda_floor.h"

namespace fairdraw::suites {
namespace {

constexpr int kLoadBytes = 16;
constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;

struct Float32 {
  using Packed = float;
  static __device__ Packed lowest() { return -INFINITY; }
  static __device__ Packed unpack(unsigned bits) { return __uint_as_float(bits); }
  static __device__ Packed larger(Packed a, Packed b) { return fmaxf(a, b); }
  static __device__ float to_float(Packed a) { return a; }
};

struct Float16 {
  using Packed = __half2;
  static __device__ Packed lowest() { return __float2half2_rn(-INFINITY); }
  static __device__ Packed unpack(unsigned bits) { return *reinterpret_cast<__half2*>(&bits); }
  static __device__ Packed larger(Packed a, Packed b) { return __hmax2(a, b); }
  static __device__ float to_float(Packed a) { return fmaxf(__low2float(a), __high2float(a)); }
};

struct Bfloat16 {
  using Packed = __nv_bfloat162;
  static __device__ Packed lowest() { return __float2bfloat162_rn(-INFINITY); }
  static __device__ Packed unpack(unsigned bits) {
    return *reinterpret_cast<__nv_bfloat162*>(&bits);
  }
  static __device__ Packed larger(Packed a, Packed b) { return __hmax2(a, b); }
  static __device__ float to_float(Packed a) { return fmaxf(__low2float(a), __high2float(a)); }
};

__device__ float largest_of_block(float value) {
  __shared__ float of_warp[kMaxThreads / kWarp];
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, step));
  }
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) value = fmaxf(value, of_warp[warp]);
  }
  return value;
}

template <class Format, int kLoads>
__global__ void __launch_bounds__(kMaxThreads)
    read_once_kernel(const uint4* __restrict__ data, std::int64_t count, float* largest) {
  const std::int64_t tile = static_cast<std::int64_t>(blockDim.x) * kLoads;
  typename Format::Packed value = Format::lowest();
  for (std::int64_t first = blockIdx.x * tile; first < count; first += gridDim.x * tile) {
    uint4 loaded[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const std::int64_t i = first + static_cast<std::int64_t>(blockDim.x) * j + threadIdx.x;
      loaded[j] = __ldg(data + (i < count ? i : count - 1));
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      value = Format::larger(value, Format::unpack(loaded[j].x));
      value = Format::larger(value, Format::unpack(loaded[j].y));
      value = Format::larger(value, Format::unpack(loaded[j].z));
      value = Format::larger(value, Format::unpack(loaded[j].w));
    }
  }
  const float of_block = largest_of_block(Format::to_float(value));
  if (threadIdx.x == 0) largest[blockIdx.x] = of_block;
}

template <class Format>
void launch(const void* data, std::int64_t count, const FloorShape& shape, float* largest,
            cudaStream_t stream) {
  const auto* const loads = static_cast<const uint4*>(data);
  const auto blocks = static_cast<unsigned>(shape.blocks);
  const auto threads = static_cast<unsigned>(shape.threads);
  switch (shape.loads) {
    case 1:
      read_once_kernel<Format, 1><<<blocks, threads, 0, stream>>>(loads, count, largest);
      break;
    case 2:
      read_once_kernel<Format, 2><<<blocks, threads, 0, stream>>>(loads, count, largest);
      break;
    case 4:
      read_once_kernel<Format, 4><<<blocks, threads, 0, stream>>>(loads, count, largest);
      break;
    default:
      read_once_kernel<Format, 8><<<blocks, threads, 0, stream>>>(loads, count, largest);
  }
}

__global__ void advance_offsets_kernel(std::uint64_t* offsets, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) ++offsets[i];
}

}  // namespace

std::vector<FloorShape> floor_shapes(std::int64_t bytes, int multiprocessors) {
  constexpr std::int64_t kResidentThreads = 2048;  // per SM
  const std::int64_t count = std::max<std::int64_t>(bytes / kLoadBytes, 1);
  std::vector<FloorShape> shapes;
  for (const int threads : {256, 512, 1024}) {
    for (const int loads : {1, 2, 4, 8}) {
      const std::int64_t tile = std::int64_t{threads} * loads;
      const std::int64_t tiles = (count + tile - 1) / tile;
      shapes.push_back({threads, loads, tiles});
      for (const std::int64_t resident : {kResidentThreads / 2, kResidentThreads}) {
        const std::int64_t blocks = multiprocessors * (resident / threads);
        if (blocks < tiles) shapes.push_back({threads, loads, blocks});
      }
    }
  }
  return shapes;
}

cudaError_t read_once(const void* data, DType dtype, std::int64_t bytes, const FloorShape& shape,
                      float* largest, cudaStream_t stream) {
  const std::int64_t count = bytes / kLoadBytes;
  if (count == 0) return cudaSuccess;
  switch (dtype) {
    case DType::float32:
      launch<Float32>(data, count, shape, largest, stream);
      break;
    case DType::float16:
      launch<Float16>(data, count, shape, largest, stream);
      break;
    case DType::bfloat16:
      launch<Bfloat16>(data, count, shape, largest, stream);
      break;
  }
  return cudaGetLastError();
}

cudaError_t advance_offsets(std::uint64_t* offsets, std::int64_t count, cudaStream_t stream) {
  constexpr std::int64_t kThreads = 256;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  advance_offsets_kernel<<<blocks, static_cast<unsigned>(kThreads), 0, stream>>>(offsets, count);
  return cudaGetLastError();
}

}  // namespace fairdraw::suites
