// The emulator gives CUDA's language to programs on the CPU; every translated source of
// kernels/cuda includes this header first.
//
// Contract. Built-in variables, warp operations, barriers, atomics and launches have CUDA's
// meaning, as far as the kernels use them. The emulated device has compute capability 9.0, blocks
// of up to 1024 threads, and clusters of any size. If behaviour is undefined on a GPU, the program
// ends with a message. Examples are lanes of a warp in different operations, partial masks, a lane
// that exits while its warp waits, shared memory of a block that has exited, deadlocked barriers,
// and writes beyond dynamic shared memory.
//
// Method (fibers.cpp). Each thread of a kernel is a fiber; all fibers run on one thread of the
// process, cluster by cluster. In a warp operation or at a barrier, a fiber waits until the other
// threads arrive. Asynchronous copies are carried out only when the program waits for them. Memory
// that was not written holds a fixed pattern. FAIRDRAW_EMULATOR_SEED sets a seed that shuffles the
// order in which warps run.
//
// The emulator cannot detect a missing barrier between warps if the order of warps happens to hide
// it (other seeds give other orders), nor errors of memory ordering, and it cannot measure time.
// Only tests on a GPU (suites/gpu) are conclusive for these.
#pragma once

#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <vector_types.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <regex>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// The standard headers that use names of CUDA's attributes are included above.
#undef __align__
#undef __constant__
#undef __device__
#undef __forceinline__
#undef __global__
#undef __grid_constant__
#undef __host__
#undef __launch_bounds__
#undef __ldg
#undef __noinline__
#undef __shared__
#define __align__(bytes) alignas(bytes)
#define __device__
#define __forceinline__ inline
#define __global__
#define __grid_constant__
#define __host__
#define __launch_bounds__(...)
#define __noinline__

namespace fairdraw::emulator {

struct Position {
  unsigned x = 0, y = 0, z = 0;
};

/// The functions below return positions of the running thread. Precondition: a kernel runs.
Position thread_position();
Position block_position();
unsigned lane();
/// The functions below return sizes of the running launch.
Position block_size();
Position grid_size();

/// The functions below return the dynamic shared memory of this thread's block, and a shared
/// variable, which is identified by the place of its declaration.
unsigned char* dynamic_shared();
void* shared_variable(const char* file, int line, std::size_t bytes, std::size_t alignment);
template <class T>
T& shared(const char* file, int line, std::size_t alignment = alignof(T)) {
  return *static_cast<T*>(shared_variable(file, line, sizeof(T), alignment));
}
/// Returns the address of a shared variable in another block of the cluster.
void* shared_of_block(void* mine, int rank);

/// The operations of a warp that exchange values between its lanes. All lanes must arrive at the
/// same operation.
enum class WarpOperation { shuffle, shuffle_xor, shuffle_up, ballot, any, max, min, add, sync };
using Lanes = std::array<std::uint64_t, 32>;
/// Returns every lane's value once all lanes have arrived.
const Lanes& exchange(WarpOperation operation, std::uint64_t value, unsigned mask);

enum class BlockOperation { sync, bit_or, count };
/// Waits for all threads of the block that have not exited, and returns the sum of their values.
std::uint32_t meet_block(BlockOperation operation, std::uint32_t value);
/// Waits in the same way at the numbered barrier (1 to 15), where exactly `threads` threads arrive.
std::uint32_t meet_at(unsigned barrier, unsigned threads, std::uint32_t value);
void arrive_at_cluster();
void wait_for_cluster();

void copy_later(void* to, const void* from, unsigned bytes);
void commit_copies();
/// Carries out this thread's committed groups of copies, except for the last `left` groups.
void await_copies(unsigned left);

/// Ends the program with a message.
[[noreturn]] void fail(const std::string& what);

/// Runs a kernel for all threads of its grid.
void run(const cudaLaunchConfig_t& config, const std::function<void()>& kernel);
/// Runs the action now, or records the action if the stream is being captured.
cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, std::function<void()> action);

template <class T>
std::uint64_t to_word(T value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}
template <class T>
T of_word(std::uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}
template <class T>
const Lanes& exchange_values(WarpOperation operation, T value, unsigned mask) {
  return exchange(operation, to_word(value), mask);
}
template <class T, class Combine>
T reduce(WarpOperation operation, unsigned mask, T value, const Combine& combine) {
  T result = value;
  const Lanes& all = exchange_values(operation, value, mask);
  for (std::size_t other = 0; other < all.size(); ++other) {
    if (other != lane()) result = combine(result, of_word<T>(all[other]));
  }
  return result;
}

/// The functions below replace instructions that the kernels write in PTX.
inline float max_nan(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;  // +0 is larger than -0 here
  return a < b ? b : a;
}
inline int any_at(unsigned barrier, unsigned threads, bool mine) {
  return meet_at(barrier, threads, mine ? 1 : 0) > 0 ? 1 : 0;
}
inline std::uint64_t shift_right(std::uint64_t value, std::uint32_t by) {
  return by < 64 ? value >> by : 0;
}

}  // namespace fairdraw::emulator

#define threadIdx (::fairdraw::emulator::thread_position())
#define blockIdx (::fairdraw::emulator::block_position())

// --- Warps ---------------------------------------------------------------------------------------

template <class T>
T __shfl_sync(unsigned mask, T value, int source) {
  namespace emulator = fairdraw::emulator;
  const auto& all = emulator::exchange_values(emulator::WarpOperation::shuffle, value, mask);
  return emulator::of_word<T>(all[static_cast<unsigned>(source) % 32]);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with) {
  namespace emulator = fairdraw::emulator;
  const auto& all = emulator::exchange_values(emulator::WarpOperation::shuffle_xor, value, mask);
  return emulator::of_word<T>(all[(emulator::lane() ^ static_cast<unsigned>(with)) % 32]);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by) {
  namespace emulator = fairdraw::emulator;
  const auto& all = emulator::exchange_values(emulator::WarpOperation::shuffle_up, value, mask);
  const unsigned lane = emulator::lane();
  return lane >= by ? emulator::of_word<T>(all[lane - by]) : value;
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  namespace emulator = fairdraw::emulator;
  const auto& all = emulator::exchange(emulator::WarpOperation::ballot, predicate != 0, mask);
  unsigned bits = 0;
  for (unsigned i = 0; i < 32; ++i) bits |= static_cast<unsigned>(all[i]) << i;
  return bits;
}
inline int __any_sync(unsigned mask, int predicate) {
  return fairdraw::emulator::reduce(fairdraw::emulator::WarpOperation::any, mask, predicate != 0,
                                    std::logical_or<>{});
}
template <class T>
T __reduce_max_sync(unsigned mask, T value) {
  return fairdraw::emulator::reduce(fairdraw::emulator::WarpOperation::max, mask, value,
                                    [](T a, T b) { return std::max(a, b); });
}
template <class T>
T __reduce_min_sync(unsigned mask, T value) {
  return fairdraw::emulator::reduce(fairdraw::emulator::WarpOperation::min, mask, value,
                                    [](T a, T b) { return std::min(a, b); });
}
template <class T>
T __reduce_add_sync(unsigned mask, T value) {
  using Unsigned = std::make_unsigned_t<T>;  // wraps
  return static_cast<T>(fairdraw::emulator::reduce(fairdraw::emulator::WarpOperation::add, mask,
                                                   static_cast<Unsigned>(value), std::plus<>{}));
}
inline void __syncwarp(unsigned mask = ~0U) {
  static_cast<void>(fairdraw::emulator::exchange(fairdraw::emulator::WarpOperation::sync, 0, mask));
}

// --- Blocks --------------------------------------------------------------------------------------

inline void __syncthreads() {
  fairdraw::emulator::meet_block(fairdraw::emulator::BlockOperation::sync, 0);
}
inline int __syncthreads_or(int predicate) {
  using fairdraw::emulator::BlockOperation;
  return fairdraw::emulator::meet_block(BlockOperation::bit_or, predicate != 0) > 0 ? 1 : 0;
}
inline int __syncthreads_count(int predicate) {
  using fairdraw::emulator::BlockOperation;
  return static_cast<int>(
      fairdraw::emulator::meet_block(BlockOperation::count, predicate != 0 ? 1 : 0));
}

template <class T, class Change>
T fairdraw_emulated_atomic(T* at, const Change& change) {
  const T old = *at;
  *at = static_cast<T>(change(old));
  return old;
}
template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return fairdraw_emulated_atomic(at, [value](T old) { return old + value; });
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return fairdraw_emulated_atomic(at, [value](T old) { return std::max(old, value); });
}
template <class T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return fairdraw_emulated_atomic(at, [value](T old) { return std::min(old, value); });
}
template <class T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return fairdraw_emulated_atomic(at, [value](T old) { return old | value; });
}
template <class T>
T atomicAnd(T* at, std::type_identity_t<T> value) {
  return fairdraw_emulated_atomic(at, [value](T old) { return old & value; });
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return fairdraw_emulated_atomic(at, [=](T old) { return old == expected ? value : old; });
}

// --- A thread alone ------------------------------------------------------------------------------

template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
std::uintptr_t __cvta_generic_to_shared(const T* at) {
  return reinterpret_cast<std::uintptr_t>(at);
}
inline void* __cvta_shared_to_generic(std::uintptr_t at) { return reinterpret_cast<void*>(at); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline unsigned __float2uint_rn(float x) {  // saturates, NaN gives 0
  if (!(x > 0)) return 0;
  return x >= 0x1p32F ? ~0U : static_cast<unsigned>(std::nearbyint(x));
}
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
// The floating-point environment rounds to nearest, and the build does not contract operations.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fadd_ru(float a, float b) {
  const float sum = a + b;
  const float rest = sum - a;
  const float error = (a - (sum - rest)) + (b - rest);  // the exact sum is sum + error
  return error > 0 ? std::nextafter(sum, HUGE_VALF) : sum;
}
inline float __ull2float_ru(unsigned long long x) {
  const auto nearest = static_cast<float>(x);
  const bool is_below = nearest < 0x1p64F && static_cast<unsigned long long>(nearest) < x;
  return is_below ? std::nextafter(nearest, HUGE_VALF) : nearest;
}
inline double __ddiv_rn(double a, double b) { return a / b; }

#define FAIRDRAW_EMULATED_EXTREMES(Type)                    \
  inline Type max(Type a, Type b) { return a < b ? b : a; } \
  inline Type min(Type a, Type b) { return b < a ? b : a; }
FAIRDRAW_EMULATED_EXTREMES(int)
FAIRDRAW_EMULATED_EXTREMES(unsigned)
FAIRDRAW_EMULATED_EXTREMES(long)
FAIRDRAW_EMULATED_EXTREMES(unsigned long)
FAIRDRAW_EMULATED_EXTREMES(long long)
FAIRDRAW_EMULATED_EXTREMES(unsigned long long)
#undef FAIRDRAW_EMULATED_EXTREMES
inline unsigned max(int a, unsigned b) { return max(static_cast<unsigned>(a), b); }
inline unsigned max(unsigned a, int b) { return max(a, static_cast<unsigned>(b)); }
inline unsigned min(int a, unsigned b) { return min(static_cast<unsigned>(a), b); }
inline unsigned min(unsigned a, int b) { return min(a, static_cast<unsigned>(b)); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline float min(float a, float b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }

// --- Launches ------------------------------------------------------------------------------------

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  std::tuple<std::decay_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
  std::vector<cudaLaunchAttribute> attributes(config->attrs, config->attrs + config->numAttrs);
  auto action = [launch = *config, attributes, kernel, values]() mutable {
    launch.attrs = attributes.data();
    fairdraw::emulator::run(launch, [&] { std::apply(kernel, values); });
  };
  return fairdraw::emulator::enqueue(config->stream, cudaGraphNodeTypeKernel, std::move(action));
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel*) {
  *attributes = {};
  attributes->ptxVersion = 90;
  attributes->binaryVersion = 90;
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, Kernel*, const cudaLaunchConfig_t*) {
  *clusters = 1;
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMalloc(T** at, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(at), bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** at, std::size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(at), bytes);
}
template <class T>
cudaError_t cudaMallocManaged(T** at, std::size_t bytes) {
  return cudaMallocManaged(reinterpret_cast<void**>(at), bytes, cudaMemAttachGlobal);
}
