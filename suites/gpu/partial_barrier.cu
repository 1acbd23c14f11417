// This kernel shows a false positive of racecheck (compute-sanitizer of CUDA 13.0): memory is
// written after a barrier of some threads of a block, and read by the other threads after a barrier
// of all.
//
//   nvcc -arch=sm_90 -o /tmp/partial_barrier suites/gpu/partial_barrier.cu
//   compute-sanitizer --tool racecheck /tmp/partial_barrier partial    hazards
//   compute-sanitizer --tool racecheck /tmp/partial_barrier none       no hazard
//
// In both runs of the kernel, the same barrier of all 512 threads orders the write before the read.
// If a row has one block, the kernel filter_tiles_kernel does the same as `partial`
// (cuda/tiles/shared_row.cuh). racecheck names the function that writes an order (give_order,
// inlined in pass_of_all and called_end_filtered) and the function that reads it (take_part,
// pass_of_block). In a cluster, all threads wait at the barrier of the cluster, which racecheck
// understands. This file is not a test, and no build contains it.
#include <cstdio>
#include <cstring>

namespace {

constexpr int kThreads = 512;
constexpr int kLeading = 256;

struct Order {
  int kind, first, second;
};
constexpr int kLast = 9;

__device__ void sync_all() {
  __syncwarp();
  asm volatile("barrier.sync.aligned 0;" ::: "memory");
}

template <bool kPartial>
__device__ void sync_leading() {
  __syncwarp();
  if (kPartial) asm volatile("barrier.sync.aligned 1, %0;" ::"n"(kLeading) : "memory");
}

__device__ __noinline__ void take_part(const Order* order, int* out) {
  out[threadIdx.x] = order->first + order->second;
}

__device__ __noinline__ void follow(const Order* order, int* out) {
#pragma unroll 1
  while (true) {
    sync_all();
    if (order->kind == kLast) return;
    take_part(order, out);
    sync_all();
  }
}

template <bool kPartial>
__device__ __noinline__ void lead(Order* order, int* out, int passes) {
#pragma unroll 1
  for (int pass = 1;; ++pass) {
    sync_leading<kPartial>();
    if (threadIdx.x == 0) *order = {pass == passes ? kLast : 0, pass, pass};
    sync_all();
    if (pass == passes) return;
    take_part(order, out);
    sync_all();
  }
}

template <bool kPartial>
__global__ void passes_kernel(int* out, int passes) {
  __shared__ Order order;
  sync_all();
  if (threadIdx.x >= kLeading) {
    follow(&order, out);
  } else {
    lead<kPartial>(&order, out, passes);
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 2 || (std::strcmp(words[1], "partial") != 0 && std::strcmp(words[1], "none") != 0)) {
    std::fprintf(stderr, "partial_barrier: one word, please: 'partial' or 'none'\n");
    return 2;
  }
  constexpr int kBlocks = 50;
  constexpr int kLaunches = 100;
  int* out = nullptr;
  if (cudaMalloc(&out, kThreads * sizeof(int)) != cudaSuccess) return 1;
  for (int launch = 0; launch < kLaunches; ++launch) {
    const int passes = 1 + launch % 4;
    if (std::strcmp(words[1], "partial") == 0) {
      passes_kernel<true><<<kBlocks, kThreads>>>(out, passes);
    } else {
      passes_kernel<false><<<kBlocks, kThreads>>>(out, passes);
    }
  }
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("partial_barrier: %s\n", cudaGetErrorString(error));
  return error == cudaSuccess ? 0 : 1;
}
