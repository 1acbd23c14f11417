// Binds sharded calls on GPUs (fairdraw/cuda_sharded.h) for fairdraw/sharded.py.
#include "python/bindings/serving/sharded_cuda.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "fairdraw/cuda_sharded.h"
#include "python/bindings/processing_argument.h"
#include "python/bindings/sample_arguments.h"

namespace fairdraw::python {
namespace {

using Exchange = cuda::ShardedExchange;

/// A call of `sample`. A call on GPUs exchanges blocks through memory of the ranks. Otherwise the
/// blocks are in the workspace, which the caller holds as an array.
class ShardedCudaCall {
 public:
  explicit ShardedCudaCall(const Named& given)
      : arguments_(given),
        processing_(given["processing"], arguments_.place()),
        boundaries_(boundaries_of(given)),
        place_(arguments_.place()) {
    if (!place_.on_cuda()) throw_type_error("rows are in host memory; ShardedCall is for those");
    ShardedRequest request;
    request.rows = arguments_.request;
    request.rows.processing = processing_.view;
    request.input = given.as<TileInput>("input");
    request.boundaries = {boundaries_.data(), static_cast<std::int64_t>(boundaries_.size())};
    request.shard = given.as<std::int32_t>("shard");
    given.expect_all_read();
    bring_workspace(place_, given["workspace"], cuda::workspace_bytes(request, arguments_.result));
    run_on_host(
        [&] { return cuda::make_sharded_call(request, arguments_.result, place_.cuda, call_); });
  }

  void send(Exchange exchange) {
    run_on_host([&] { return cuda::sharded_send(call_, exchange); });
  }
  void receive(Exchange exchange) {
    run_on_host([&] { return cuda::sharded_receive(call_, exchange); });
  }
  /// `memory` holds the address of each shard's memory, as mapped in this process.
  void use_peers(const nb::list& memory, std::int64_t bytes, std::int64_t max_rows) {
    cuda::ShardedPeers peers;
    if (memory.size() > static_cast<std::size_t>(cuda::kMaxDeviceShards)) {
      throw_value_error(fmt::format("memory has {} addresses; allowed: 1 to {}", memory.size(),
                                    cuda::kMaxDeviceShards));
    }
    std::byte** next = peers.memory;
    for (const nb::handle address : memory) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): Python has pointers as integers
      *next++ = reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(address));
    }
    peers.bytes = bytes;
    peers.most_rows = max_rows;
    run_on_host([&] { return cuda::use_peers(call_, peers); });
  }
  /// Makes the call through peer memory: first for the rows that candidates decide, then for the
  /// other rows.
  void run() {
    run_on_host([&] { return cuda::sample_sharded(call_, {}); });
  }
  void go_on(std::int32_t undecided) {
    run_on_host([&] { return cuda::continue_sharded(call_, undecided); });
  }
  std::int32_t gathers(std::int32_t rows) const { return call_.gathers(rows); }
  /// The functions return byte offsets from the beginning of the workspace.
  std::int64_t sent_at(Exchange exchange) const { return at(call_.send(exchange)); }
  std::int64_t received_at(Exchange exchange) const { return at(call_.receive(exchange)); }
  std::int64_t undecided_at() const { return at(call_.undecided()); }
  std::int64_t block_bytes(Exchange exchange) const { return call_.bytes(exchange); }

 private:
  std::int64_t at(const void* address) const {
    return static_cast<const std::byte*>(address) -
           static_cast<const std::byte*>(place_.cuda.workspace);
  }

  SampleArguments arguments_;
  Processing processing_;
  std::vector<std::int64_t> boundaries_;
  Place place_;
  cuda::ShardedCall call_;
};

/// Returns the number of bytes of each rank's memory that calls with at most so many rows, samples
/// and reported tokens need. The size assumes filtered rows and the most expensive reports, which
/// are raw reports of masked rows. A `max_logprobs` of -1 stands for calls without reports. The
/// call only computes its size and never runs, so that the workspace stands in for all of its
/// arrays.
std::int64_t max_peer_bytes(const Named& given) {
  const std::vector<std::int64_t> boundaries = boundaries_of(given);
  const auto shard = given.as<std::int32_t>("shard");
  const auto max_rows = given.as<std::int64_t>("max_rows");
  const auto max_samples = given.as<std::int32_t>("max_samples");
  const auto max_logprobs = given.as<std::int32_t>("max_logprobs");
  const std::int64_t columns = boundaries.at(static_cast<std::size_t>(shard) + 1) -
                               boundaries[static_cast<std::size_t>(shard)];
  const auto call_over = [&](void* memory) {
    const std::int64_t tokens = max_rows * max_samples;
    std::pair<ShardedRequest, SampleResult> call;
    auto& [request, result] = call;
    request.rows.logits = {memory, DType::float32, max_rows, columns, columns};
    request.rows.top_p = 0.5F;
    request.rows.seed = std::uint64_t{0};
    request.rows.num_samples = max_samples;
    request.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
    request.shard = shard;
    result.tokens = {static_cast<std::int32_t*>(memory), tokens};
    if (max_logprobs >= 0) {
      LogprobsResult& reports = result.logprobs;
      const std::int64_t listed = max_rows * max_logprobs;
      reports.mode = LogprobsMode::raw_logprobs;
      reports.top_n = max_logprobs;
      reports.values = {static_cast<float*>(memory), tokens};
      reports.ranks = {static_cast<std::int32_t*>(memory), tokens};
      request.rows.allowed = {static_cast<const std::uint32_t*>(memory), max_rows,
                              std::max<std::int64_t>((columns + 31) / 32, 1)};
      reports.top_ids = {static_cast<std::int32_t*>(memory), listed};
      reports.top_values = {static_cast<float*>(memory), listed};
    }
    return call;
  };
  static float nothing;  // a placeholder array, because the call only computes its size
  const auto sized = call_over(&nothing);
  Place place;
  place.device_type = nb::device::cuda::value;
  bring_workspace(place, given["workspace"], cuda::workspace_bytes(sized.first, sized.second));
  const auto made = call_over(place.cuda.workspace == nullptr ? &nothing : place.cuda.workspace);
  cuda::ShardedCall call;
  run_on_host([&] { return cuda::make_sharded_call(made.first, made.second, place.cuda, call); });
  return cuda::peer_bytes(call, max_rows);
}

}  // namespace

void bind_sharded_on_gpu(nb::module_& module) {
  nb::enum_<Exchange>(module, "ShardedExchange")
      .value("summary", Exchange::summary)
      .value("tokens", Exchange::tokens)
      .value("sums", Exchange::sums)
      .value("gather", Exchange::gather)
      .value("ranks", Exchange::ranks);
  nb::class_<ShardedCudaCall>(module, "ShardedCudaCall")
      .def("send", &ShardedCudaCall::send)
      .def("receive", &ShardedCudaCall::receive)
      .def("use_peers", &ShardedCudaCall::use_peers)
      .def("run", &ShardedCudaCall::run)
      .def("go_on", &ShardedCudaCall::go_on)
      .def("gathers", &ShardedCudaCall::gathers)
      .def("sent_at", &ShardedCudaCall::sent_at)
      .def("received_at", &ShardedCudaCall::received_at)
      .def("block_bytes", &ShardedCudaCall::block_bytes)
      .def_prop_ro("undecided_at", &ShardedCudaCall::undecided_at)
      .def("__init__", [](ShardedCudaCall* self, const nb::dict& given) {
        new (self) ShardedCudaCall(Named("ShardedCudaCall", given));
      });
  define(module, "sharded_peer_bytes", &max_peer_bytes);
}

}  // namespace fairdraw::python
