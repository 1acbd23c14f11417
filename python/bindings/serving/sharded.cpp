// Binds sharded calls in host memory (fairdraw/sharded.h) for fairdraw/sharded.py. Each function
// takes the arguments of the unsharded function, the shards' boundaries and this shard's number.
// The function returns a call whose blocks the caller exchanges between ranks.
#include "fairdraw/sharded.h"

#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "harness/inputs/narrow_floats.h"
#include "python/bindings/bindings.h"
#include "python/bindings/row_operation_arguments.h"
#include "python/bindings/sample_arguments.h"
#include "python/bindings/serving/sharded_cuda.h"

namespace fairdraw::python {

std::vector<std::int64_t> boundaries_of(const Named& given) {
  return given.as<std::vector<std::int64_t>>("boundaries");
}

namespace {

using Handle = nb::handle;

/// A sharded call in progress, with the arrays that the call reads and writes.
class ShardedCall {
 public:
  /// `arrays` keeps the arrays alive that `request` and `result` view. `finish` is called after the
  /// call has written its results.
  ShardedCall(const Named& given, std::shared_ptr<const void> arrays, const Place& place,
              ShardedRequest request, const SampleResult& result, std::function<void()> finish = {})
      : boundaries_(boundaries_of(given)), arrays_(std::move(arrays)), finish_(std::move(finish)) {
    if (place.on_cuda()) throw_type_error("rows are on a GPU; ShardedCudaCall is for those");
    request.boundaries = {boundaries_.data(), static_cast<std::int64_t>(boundaries_.size())};
    request.shard = given.as<std::int32_t>("shard");
    given.expect_all_read();
    run_on_host([&] { return call_.begin(request, result, place.cpu); });
  }

  std::int64_t block_bytes() const { return call_.block_bytes(); }
  std::int32_t exchanges() const { return call_.exchanges(); }
  std::int64_t gathered_rows() const { return call_.gathered_rows(); }
  nb::bytes block() const {
    return nb::bytes(call_.block(), static_cast<std::size_t>(block_bytes()));
  }
  void receive(Handle blocks) {
    const Input<std::uint8_t> bytes("blocks", blocks, Place());
    const std::int64_t needed = block_bytes() * (static_cast<std::int64_t>(boundaries_.size()) - 1);
    if (bytes.view.size != needed) {
      throw_value_error(fmt::format("blocks has {} bytes; {} are needed", bytes.view.size, needed));
    }
    run_on_host([&] { return call_.receive(bytes.view.data); });
    if (block_bytes() == 0 && finish_) finish_();
  }

 private:
  std::vector<std::int64_t> boundaries_;
  std::shared_ptr<const void> arrays_;
  std::function<void()> finish_;
  ShardedSample call_;
};

/// Returns the rows with an address that is not null. A shard without columns has empty arrays, and
/// a view without data would mean that the caller does not want the rows.
FloatRows asked_for(FloatRows rows) {
  static float nothing;
  if (rows.data == nullptr) rows.data = &nothing;
  return rows;
}

/// Returns the request of a sharded operation that draws nothing. The request's seed is constant,
/// because a fresh seed would differ between the ranks.
ShardedRequest request_over(const RowsView& columns) {
  ShardedRequest request;
  request.rows.logits = columns;
  request.rows.seed = std::uint64_t{0};
  return request;
}

ShardedCall sample_columns(const Named& named) {
  const auto given = std::make_shared<const SampleArguments>(named);
  ShardedRequest request;
  request.rows = given->request;
  request.input = named.as<TileInput>("input");
  return {named, given, given->place(), request, given->result};
}

ShardedCall softmax_columns(const Named& named) {
  const auto given = std::make_shared<const SoftmaxArguments>(named);
  ShardedRequest request = request_over(given->rows.view);
  request.rows.temperature = given->temperature.value;
  SampleResult result;
  result.probs = asked_for(given->probs);
  result.statuses = given->statuses.view;
  return {named, given, given->place, request, result};
}

ShardedCall log_softmax_columns(const Named& named) {
  struct Given : RowArguments {
    explicit Given(const Named& given)
        : RowArguments("logits", given),
          log_probs(float_rows("log_probs", given["log_probs"], rows.view, place, keep)) {}
    OutputArray keep;
    FloatRows log_probs;
  };
  const auto given = std::make_shared<const Given>(named);
  ShardedRequest request = request_over(given->rows.view);
  SampleResult result;
  result.logprobs.mode = LogprobsMode::raw_logprobs;
  result.logprobs.all = asked_for(given->log_probs);
  return {named, given, given->place, request, result};
}

ShardedCall renorm_columns(const Named& named) {
  const auto given = std::make_shared<const RenormArguments>(named);
  ShardedRequest request = request_over(given->rows.view);
  request.rows.top_k = given->top_k.value;
  request.rows.top_p = given->top_p.value;
  request.input = TileInput::probs;
  request.top_k_1_keeps_ties = given->by_top_k;
  SampleResult result;
  result.probs = asked_for(given->renormalised);
  result.statuses = given->statuses.view;
  return {named, given, given->place, request, result};
}

/// The arguments of top_k_mask_logits, and a bit mask of the logits that are kept.
struct KeptLogits : TopKMaskArguments {
  explicit KeptLogits(const Named& given)
      : TopKMaskArguments(given),
        words_a_row((rows.view.vocab + 31) / 32),
        words(static_cast<std::size_t>(rows.view.rows * words_a_row) + 1) {}

  BitRows<std::uint32_t> mask() { return {words.data(), rows.view.rows, words_a_row}; }

  /// Writes the logits, with -inf in place of each logit without a bit in the mask.
  void write_masked() const {
    const RowsView& from = rows.view;
    const bool is_wide = from.dtype == DType::float32;
    const std::size_t bytes = is_wide ? sizeof(float) : sizeof(std::uint16_t);
    constexpr float kDropped = -std::numeric_limits<float>::infinity();
    const std::uint16_t narrow = from.dtype == DType::float16 ? harness::to_float16(kDropped)
                                                              : harness::to_bfloat16(kDropped);
    const void* const dropped = is_wide ? static_cast<const void*>(&kDropped) : &narrow;
    auto* to = static_cast<std::byte*>(masked.data());
    for (std::int64_t row = 0; row < from.rows; ++row) {
      const auto* value = static_cast<const std::byte*>(from.data) +
                          static_cast<std::size_t>(row * from.row_stride) * bytes;
      const std::uint32_t* const kept = words.data() + row * words_a_row;
      for (std::int64_t id = 0; id < from.vocab; ++id, value += bytes, to += bytes) {
        std::memcpy(to, ((kept[id / 32] >> (id % 32)) & 1U) != 0 ? value : dropped, bytes);
      }
    }
  }

  std::int64_t words_a_row;
  std::vector<std::uint32_t> words;
};

ShardedCall top_k_mask_columns(const Named& named) {
  const auto given = std::make_shared<KeptLogits>(named);
  ShardedRequest request = request_over(given->rows.view);
  request.rows.top_k = given->top_k.value;
  request.top_k_1_keeps_ties = true;
  SampleResult result;
  result.mask = given->mask();
  result.statuses = given->statuses.view;
  return {named, given, given->place, request, result, [given] { given->write_masked(); }};
}

}  // namespace

void bind_sharded(nb::module_& module) {
  nb::class_<ShardedCall>(module, "ShardedCall")
      .def_prop_ro("block_bytes", &ShardedCall::block_bytes)
      .def_prop_ro("exchanges", &ShardedCall::exchanges)
      .def_prop_ro("gathered_rows", &ShardedCall::gathered_rows)
      .def("block", &ShardedCall::block)
      .def("receive", &ShardedCall::receive, nb::arg("blocks").none());
  nb::enum_<TileInput>(module, "TileInput")
      .value("logits", TileInput::logits)
      .value("probs", TileInput::probs);
  define(module, "sharded_sample", &sample_columns);
  define(module, "sharded_softmax", &softmax_columns);
  define(module, "sharded_log_softmax", &log_softmax_columns);
  define(module, "sharded_top_k_mask_logits", &top_k_mask_columns);
  define(module, "sharded_renorm_probs", &renorm_columns);
  bind_sharded_on_gpu(module);
}

}  // namespace fairdraw::python
