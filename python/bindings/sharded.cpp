// A sharded call (fairdraw/sharded.h), for fairdraw/sharded.py.
#include "fairdraw/sharded.h"

#include <memory>
#include <vector>

#include "python/bindings/bindings.h"
#include "python/bindings/processing_argument.h"
#include "python/bindings/sample_arguments.h"

namespace fairdraw::python {
namespace {

/// A call and the arrays that it reads and writes.
class ShardedCall {
 public:
  ShardedCall(std::vector<std::int64_t> boundaries, std::int32_t shard, const SampleInputs& inputs,
              nb::handle processing, const SampleOutputs& outputs)
      : boundaries_(std::move(boundaries)),
        arguments_(inputs, outputs),
        processing_(processing, arguments_.place()) {
    if (arguments_.place().on_cuda()) {
      throw_type_error("logits is on a GPU; sharded calls run on the CPU");
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
            std::vector<std::int64_t> begins;
            for (const Handle boundary : boundaries) {
              begins.push_back(nb::cast<std::int64_t>(boundary));
            }
            new (self) ShardedCall(
                std::move(begins), shard,
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
}

}  // namespace fairdraw::python
