// Streams and CUDA graphs that tests use.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tests/cuda/arrays.h"

namespace fairdraw::suites {

class Stream {
 public:
  Stream() { require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStream"); }
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A CUDA graph of the work that is captured on a stream between begin() and end().
class Graph {
 public:
  Graph() = default;
  ~Graph() {
    if (executable_ != nullptr) static_cast<void>(cudaGraphExecDestroy(executable_));
    if (graph_ != nullptr) static_cast<void>(cudaGraphDestroy(graph_));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  static void begin(const Stream& stream) {
    require(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal),
            "cudaStreamBeginCapture");
  }
  void end(const Stream& stream) {
    require(cudaStreamEndCapture(stream.get(), &graph_), "cudaStreamEndCapture");
    require(cudaGraphInstantiate(&executable_, graph_, 0), "cudaGraphInstantiate");
  }
  void launch(const Stream& stream) const {
    require(cudaGraphLaunch(executable_, stream.get()), "cudaGraphLaunch");
  }
  /// Expects that the graph has only kernels and memory sets, and so nothing that allocates, waits
  /// or calls the host.
  void expect_device_work_only(const std::string& what) const {
    std::size_t count = 0;
    require(cudaGraphGetNodes(graph_, nullptr, &count), "cudaGraphGetNodes");
    EXPECT_GT(count, 0U) << what;
    std::vector<cudaGraphNode_t> nodes(count);
    require(cudaGraphGetNodes(graph_, nodes.data(), &count), "cudaGraphGetNodes");
    for (const cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type = cudaGraphNodeTypeCount;
      require(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
      EXPECT_TRUE(type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemset)
          << what << ": node of type " << static_cast<int>(type);
    }
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace fairdraw::suites
