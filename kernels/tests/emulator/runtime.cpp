// The emulator's CUDA runtime has one device. A stream performs each operation at once, unless the
// stream is being captured.
//
// Device memory is memory of the process that is filled with a pattern. The table of allocations
// records the kind of memory at each address. A captured graph is the list of the operations that
// were enqueued.
#include <cstdlib>
#include <map>

#include "tests/emulator/emulator.h"

namespace fairdraw::emulator {
namespace {

constexpr int kUnwritten = 0xa7;
constexpr std::size_t kAlignment = 256;  // of cudaMalloc
constexpr std::size_t kMemoryBytes = std::size_t{1} << 34;

struct Allocation {
  std::size_t bytes;
  cudaMemoryType type;
};

std::map<const char*, Allocation>& allocations() {
  static std::map<const char*, Allocation> all;
  return all;
}

cudaError_t allocate(void** at, std::size_t bytes, cudaMemoryType type) {
  const std::size_t rounded = (bytes / kAlignment + 1) * kAlignment;
  *at = std::aligned_alloc(kAlignment, rounded);
  if (*at == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*at, kUnwritten, rounded);
  allocations()[static_cast<const char*>(*at)] = {bytes, type};
  return cudaSuccess;
}

cudaError_t release(void* at) {
  allocations().erase(static_cast<const char*>(at));
  std::free(at);
  return cudaSuccess;
}

struct Node {
  cudaGraphNodeType type;
  std::function<void()> action;
};
using Graph = std::vector<Node>;

/// The stream that is being captured (at most one at a time), and the operations that were enqueued
/// on it.
struct Capture {
  cudaStream_t stream = nullptr;
  Graph* graph = nullptr;
};
Capture capture;

Graph* graph_of(cudaGraph_t graph) { return reinterpret_cast<Graph*>(graph); }

}  // namespace

cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, std::function<void()> action) {
  if (capture.graph != nullptr && stream == capture.stream) {
    capture.graph->push_back({type, std::move(action)});
  } else {
    action();
  }
  return cudaSuccess;
}

}  // namespace fairdraw::emulator

namespace emulator = fairdraw::emulator;

// NOLINTBEGIN(readability-identifier-naming): CUDA's own names
extern "C" {

cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  return emulator::allocate(at, bytes, cudaMemoryTypeDevice);
}
cudaError_t cudaMallocHost(void** at, std::size_t bytes) {
  return emulator::allocate(at, bytes, cudaMemoryTypeHost);
}
cudaError_t cudaMallocManaged(void** at, std::size_t bytes, unsigned) {
  return emulator::allocate(at, bytes, cudaMemoryTypeManaged);
}
cudaError_t cudaFree(void* at) { return emulator::release(at); }
cudaError_t cudaFreeHost(void* at) { return emulator::release(at); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return emulator::enqueue(stream, cudaGraphNodeTypeMemcpy, [=] { std::memmove(to, from, bytes); });
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind, cudaStream_t stream) {
  return emulator::enqueue(stream, cudaGraphNodeTypeMemcpy, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memmove(static_cast<char*>(to) + row * to_pitch,
                   static_cast<const char*>(from) + row * from_pitch, width);
    }
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return emulator::enqueue(stream, cudaGraphNodeTypeMemset, [=] { std::memset(to, value, bytes); });
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = *free = emulator::kMemoryBytes;
  for (const auto& [at, allocation] : emulator::allocations()) *free -= allocation.bytes;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  auto next = emulator::allocations().upper_bound(static_cast<const char*>(pointer));
  if (next == emulator::allocations().begin()) return cudaSuccess;
  const auto& [at, allocation] = *--next;
  if (static_cast<const char*>(pointer) >= at + allocation.bytes) return cudaSuccess;
  attributes->type = allocation.type;
  attributes->devicePointer = const_cast<void*>(pointer);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 << 10;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 228 << 10;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "emulator");
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->totalGlobalMem = emulator::kMemoryBytes;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error of the emulator's runtime";
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new char);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<char*>(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return emulator::enqueue(stream, cudaGraphNodeTypeHost, [=] { function(data); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new char);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<char*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
// Sets one millisecond in every case, because emulated time has no meaning.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1.0F;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const bool captured = emulator::capture.graph != nullptr && stream == emulator::capture.stream;
  *status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (emulator::capture.graph != nullptr) return cudaErrorIllegalState;
  emulator::capture = {stream, new emulator::Graph};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = reinterpret_cast<cudaGraph_t>(std::exchange(emulator::capture.graph, nullptr));
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  emulator::Graph& all = *emulator::graph_of(graph);
  for (std::size_t i = 0; nodes != nullptr && i < std::min(*count, all.size()); ++i) {
    nodes[i] = reinterpret_cast<cudaGraphNode_t>(&all[i]);
  }
  *count = all.size();
  return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = reinterpret_cast<const emulator::Node*>(node)->type;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = reinterpret_cast<cudaGraphExec_t>(new emulator::Graph(*emulator::graph_of(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  for (const emulator::Node& node : *reinterpret_cast<emulator::Graph*>(executable)) node.action();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete emulator::graph_of(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<emulator::Graph*>(executable);
  return cudaSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
