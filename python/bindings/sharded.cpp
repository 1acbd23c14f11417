// Sharded calls (fairdraw/sharded.h, fairdraw/cuda_sharded.h), for fairdraw/sharded.py.
#include "fairdraw/sharded.h"

#include <cstddef>
#include <memory>
#include <vector>

#include "fairdraw/cuda_sharded.h"
#include "python/bindings/bindings.h"
#include "python/bindings/processing_argument.h"
#include "python/bindings/sample_arguments.h"

namespace fairdraw::python {
namespace {

std::vector<std::int64_t> boundaries_of(const nb::list& boundaries) {
  std::vector<std::int64_t> begins;
  for (const nb::handle boundary : boundaries) begins.push_back(nb::cast<std::int64_t>(boundary));
  return begins;
}

/// A call and the arrays that it reads and writes.
class ShardedCall {
 public:
  ShardedCall(std::vector<std::int64_t> boundaries, std::int32_t shard, const SampleInputs& inputs,
              nb::handle processing, const SampleOutputs& outputs)
      : boundaries_(std::move(boundaries)),
        arguments_(inputs, outputs),
        processing_(processing, arguments_.place()) {
    if (arguments_.place().on_cuda()) {
      throw_type_error("logits is on a GPU; ShardedCudaCall is for those");
    }
    ShardedRequest request;
    request.rows = arguments_.request;
    request.rows.processing = processing_.view;
    request.boundaries = {boundaries_.data(), static_cast<std::int64_t>(boundaries_.size())};
    request.shard = shard;
    run_on_host([&] { return call_.begin(request, arguments_.result, arguments_.place().cpu); });
  }

  std::int64_t block_bytes() const { return call_.block_bytes(); }
  std::int32_t exchanges() const { return call_.exchanges(); }
  nb::bytes block() const {
    return nb::bytes(call_.block(), static_cast<std::size_t>(call_.block_bytes()));
  }
  void receive(nb::handle blocks) {
    const Input<std::uint8_t> bytes("blocks", blocks, arguments_.place());
    const std::int64_t needed =
        call_.block_bytes() * (static_cast<std::int64_t>(boundaries_.size()) - 1);
    if (bytes.view.size != needed) {
      throw_value_error(fmt::format("blocks has {} bytes; {} are needed", bytes.view.size, needed));
    }
    run_on_host([&] { return call_.receive(bytes.view.data); });
  }

 private:
  std::vector<std::int64_t> boundaries_;
  SampleArguments arguments_;
  Processing processing_;
  ShardedSample call_;
};

/// The same on a GPU: what is exchanged lies in the workspace, which the caller has as an array.
class ShardedCudaCall {
 public:
  ShardedCudaCall(std::vector<std::int64_t> boundaries, std::int32_t shard,
                  const SampleInputs& inputs, const SampleOutputs& outputs, nb::handle allocate)
      : boundaries_(std::move(boundaries)),
        arguments_(inputs, outputs),
        place_(arguments_.place()) {
    if (!place_.on_cuda()) throw_type_error("logits is in host memory; ShardedCall is for those");
    ShardedRequest request;
    request.rows = arguments_.request;
    request.boundaries = {boundaries_.data(), static_cast<std::int64_t>(boundaries_.size())};
    request.shard = shard;
    bring_workspace(place_, allocate, cuda::workspace_bytes(request, arguments_.result));
    run_on_host(
        [&] { return cuda::make_sharded_call(request, arguments_.result, place_.cuda, call_); });
  }

  void send(cuda::ShardedExchange exchange) {
    run_on_host([&] { return cuda::sharded_send(call_, exchange); });
  }
  void receive(cuda::ShardedExchange exchange) {
    run_on_host([&] { return cuda::sharded_receive(call_, exchange); });
  }
  /// Bytes from the workspace's beginning on.
  std::int64_t sent_at(cuda::ShardedExchange exchange) const { return at(call_.send(exchange)); }
  std::int64_t received_at(cuda::ShardedExchange exchange) const {
    return at(call_.receive(exchange));
  }
  std::int64_t undecided_at() const { return at(call_.undecided()); }
  std::int64_t block_bytes(cuda::ShardedExchange exchange) const { return call_.bytes(exchange); }

 private:
  std::int64_t at(const void* address) const {
    return static_cast<const std::byte*>(address) -
           static_cast<const std::byte*>(place_.cuda.workspace);
  }

  std::vector<std::int64_t> boundaries_;
  SampleArguments arguments_;
  Place place_;
  cuda::ShardedCall call_;
};

void bind_sharded_on_gpu(nb::module_& module) {
  using Handle = nb::handle;
  nb::enum_<cuda::ShardedExchange>(module, "ShardedExchange")
      .value("summary", cuda::ShardedExchange::summary)
      .value("threshold", cuda::ShardedExchange::threshold)
      .value("tokens", cuda::ShardedExchange::tokens);
  nb::class_<ShardedCudaCall>(module, "ShardedCudaCall")
      .def(
          "__init__",
          [](ShardedCudaCall* self, const nb::list& boundaries, std::int32_t shard, Handle logits,
             Handle temperature, Handle top_k, Handle top_p, Handle min_p, Handle seed,
             Handle offset, Handle indices, std::int32_t num_samples, TieRule tie_rule,
             FilterOrder order, Purpose purpose, Handle allowed, Handle active, Handle tokens,
             Handle statuses, Handle support_size, Handle logprob, Handle logprob_filtered,
             Handle mask, Handle probs, Handle reports, std::uint64_t stream, Handle allocate) {
            new (self) ShardedCudaCall(
                boundaries_of(boundaries), shard,
                {logits, temperature, top_k, top_p, min_p, seed, offset, indices, num_samples,
                 tie_rule, order, purpose, allowed, active, stream, nb::none()},
                {tokens, statuses, support_size, logprob, logprob_filtered, mask, probs, reports},
                allocate);
          },
          nb::arg("boundaries"), nb::arg("shard"), nb::arg("logits").none(),
          nb::arg("temperature").none(), nb::arg("top_k").none(), nb::arg("top_p").none(),
          nb::arg("min_p").none(), nb::arg("seed").none(), nb::arg("offset").none(),
          nb::arg("indices").none(), nb::arg("num_samples"), nb::arg("tie_rule"),
          nb::arg("filter_order"), nb::arg("purpose"), nb::arg("allowed").none(),
          nb::arg("active").none(), nb::arg("tokens").none(), nb::arg("statuses").none(),
          nb::arg("support_size").none(), nb::arg("logprob").none(),
          nb::arg("logprob_filtered").none(), nb::arg("mask").none(), nb::arg("probs").none(),
          nb::arg("reports").none(), nb::arg("stream"), nb::arg("allocate").none())
      .def("send", &ShardedCudaCall::send)
      .def("receive", &ShardedCudaCall::receive)
      .def("sent_at", &ShardedCudaCall::sent_at)
      .def("received_at", &ShardedCudaCall::received_at)
      .def("block_bytes", &ShardedCudaCall::block_bytes)
      .def_prop_ro("undecided_at", &ShardedCudaCall::undecided_at);
}

}  // namespace

void bind_sharded(nb::module_& module) {
  using Handle = nb::handle;
  nb::class_<ShardedCall>(module, "ShardedCall")
      .def(
          "__init__",
          [](ShardedCall* self, const nb::list& boundaries, std::int32_t shard, Handle logits,
             Handle temperature, Handle top_k, Handle top_p, Handle min_p, Handle seed,
             Handle offset, Handle indices, std::int32_t num_samples, TieRule tie_rule,
             FilterOrder order, Purpose purpose, Handle allowed, Handle active, Handle processing,
             Handle tokens, Handle statuses, Handle support_size, Handle logprob,
             Handle logprob_filtered, Handle mask, Handle probs, Handle reports) {
            new (self) ShardedCall(
                boundaries_of(boundaries), shard,
                {logits, temperature, top_k, top_p, min_p, seed, offset, indices, num_samples,
                 tie_rule, order, purpose, allowed, active, 0, nb::none()},
                processing,
                {tokens, statuses, support_size, logprob, logprob_filtered, mask, probs, reports});
          },
          nb::arg("boundaries"), nb::arg("shard"), nb::arg("logits").none(),
          nb::arg("temperature").none(), nb::arg("top_k").none(), nb::arg("top_p").none(),
          nb::arg("min_p").none(), nb::arg("seed").none(), nb::arg("offset").none(),
          nb::arg("indices").none(), nb::arg("num_samples"), nb::arg("tie_rule"),
          nb::arg("filter_order"), nb::arg("purpose"), nb::arg("allowed").none(),
          nb::arg("active").none(), nb::arg("processing").none(), nb::arg("tokens").none(),
          nb::arg("statuses").none(), nb::arg("support_size").none(), nb::arg("logprob").none(),
          nb::arg("logprob_filtered").none(), nb::arg("mask").none(), nb::arg("probs").none(),
          nb::arg("reports").none())
      .def_prop_ro("block_bytes", &ShardedCall::block_bytes)
      .def_prop_ro("exchanges", &ShardedCall::exchanges)
      .def("block", &ShardedCall::block)
      .def("receive", &ShardedCall::receive, nb::arg("blocks").none());
  bind_sharded_on_gpu(module);
}

}  // namespace fairdraw::python
