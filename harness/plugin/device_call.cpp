#include "harness/plugin/device_call.h"

#include <vector>

#include "harness/adapters/device_arrays.h"

namespace fairdraw::harness::plugin {
namespace {

// The arrays of a struct of the contract: each is planned on the device, and its pointer in a copy
// of the struct is set to that place.
template <class Struct>
class Moved {
 public:
  explicit Moved(const Struct& given) : given_(given), moved_(given) {}

  template <class T>
  void input(const T* Struct::*field, std::int64_t bytes) {
    const std::size_t number = arrays_.add(given_.*field, bytes);
    place_.push_back(
        [this, field, number] { moved_.*field = arrays_.template at<const T>(number); });
  }
  template <class T>
  void result(T* Struct::*field, std::int64_t bytes) {
    const std::size_t number = arrays_.add_result(given_.*field, bytes);
    place_.push_back([this, field, number] { moved_.*field = arrays_.template at<T>(number); });
  }

  // Uploads, calls, downloads. A refusal of the plugin is no error of the device.
  std::string run(const std::function<std::string(const Struct&)>& call) {
    std::string refused;
    const std::string trouble = on_device([&](DeviceState& state) -> Error {
      if (Error error = arrays_.upload(state)) return error;
      for (const auto& place : place_) place();
      if (Error error = state.stream.synchronise()) return error;
      refused = call(moved_);
      return arrays_.download(state);
    });
    return refused.empty() ? trouble : refused;
  }

 private:
  const Struct& given_;
  Struct moved_;
  DeviceArrays arrays_;
  std::vector<std::function<void()>> place_;
};

}  // namespace

std::string DeviceCall::run(const fairdraw_batch& batch, const Batch& call) const {
  using B = fairdraw_batch;
  const std::int64_t rows = batch.rows, outputs = batch.outputs;
  const std::int64_t tokens = outputs * batch.num_samples;
  const std::int64_t words = (batch.vocab + 31) / 32;
  const std::int64_t seeds = batch.seed_is_scalar != 0 ? 1 : outputs;
  Moved<B> moved(batch);
  moved.input(&B::logits, extent(rows, batch.row_stride, batch.vocab, element_bytes(batch.dtype)));
  moved.input(&B::temperature, rows * 4);
  moved.input(&B::top_k, rows * 4);
  moved.input(&B::top_p, rows * 4);
  moved.input(&B::min_p, rows * 4);
  moved.input(&B::allowed, extent(rows, batch.allowed_stride, words, 4));
  moved.input(&B::active, rows);
  moved.input(&B::indices, outputs * 4);
  moved.input(&B::seed, seeds * 8);
  moved.input(&B::offset, seeds * 8);
  moved.input(&B::words, tokens * 8);
  moved.result(&B::tokens, tokens * 4);
  moved.result(&B::statuses, outputs * 4);
  moved.result(&B::support_size, outputs * 4);
  moved.result(&B::logprob, tokens * 4);
  moved.result(&B::logprob_filtered, tokens * 4);
  moved.result(&B::mask, extent(rows, batch.mask_stride, words, 4));
  moved.result(&B::probs, extent(rows, batch.probs_stride, batch.vocab, 4));
  moved.result(&B::report_values, tokens * 4);
  moved.result(&B::report_ranks, tokens * 4);
  moved.result(&B::report_top_ids, outputs * batch.top_n * 4);
  moved.result(&B::report_top_values, outputs * batch.top_n * 4);
  moved.result(&B::report_all, extent(rows, batch.report_all_stride, batch.vocab, 4));
  return moved.run(call);
}

std::string DeviceCall::run_chain(const fairdraw_chain& chain, const Chain& call) const {
  using C = fairdraw_chain;
  const std::int64_t n = chain.num_draft_tokens, batch = chain.batch;
  const std::int64_t row_bytes = chain.vocab * element_bytes(chain.dtype);
  const std::int64_t seeds = chain.seed_is_scalar != 0 ? 1 : batch;
  Moved<C> moved(chain);
  moved.input(&C::draft_probs, batch * n * row_bytes);
  moved.input(&C::draft_tokens, batch * n * 4);
  moved.input(&C::target_probs, batch * (n + 1) * row_bytes);
  moved.input(&C::seed, seeds * 8);
  moved.input(&C::offset, seeds * 8);
  moved.input(&C::accept_words, batch * n * 8);
  moved.input(&C::recover_words, batch * n * 8);
  moved.input(&C::bonus_words, batch * 8);
  moved.result(&C::tokens, batch * (n + 1) * 4);
  moved.result(&C::accepted, batch * 4);
  moved.result(&C::emitted, batch * 4);
  moved.result(&C::statuses, batch * 4);
  return moved.run(call);
}

std::string DeviceCall::run_speculation(const fairdraw_verification& speculation,
                                        const Speculation& call) const {
  using V = fairdraw_verification;
  const std::int64_t batch = speculation.batch, places = speculation.places;
  const std::int64_t row_bytes = speculation.vocab * element_bytes(speculation.dtype);
  const std::int64_t words = (speculation.vocab + 31) / 32;
  const std::int64_t seeds = speculation.seed_is_scalar != 0 ? 1 : batch;
  const bool trees = speculation.parents != nullptr;
  const std::int64_t width = trees ? speculation.max_depth : speculation.max_draft;
  Moved<V> moved(speculation);
  moved.input(&V::target, speculation.rows * row_bytes);
  for (const auto field : {&V::temperature, &V::top_p, &V::min_p, &V::draft_temperature,
                           &V::draft_top_p, &V::draft_min_p}) {
    moved.input(field, batch * 4);
  }
  moved.input(&V::top_k, batch * 4);
  moved.input(&V::draft_top_k, batch * 4);
  moved.input(&V::allowed, speculation.rows * words * 4);
  moved.input(&V::row_begins, (batch + 1) * 8);
  moved.input(&V::active, batch);
  moved.input(&V::seed, seeds * 8);
  moved.input(&V::offset, seeds * 8);
  moved.input(&V::draft_tokens, places * 4);
  moved.input(&V::draft_lengths, batch * 4);
  moved.input(&V::parents, places * 4);
  moved.input(&V::draft, (trees ? speculation.rows : places) * row_bytes);
  moved.result(&V::tokens, batch * (width + 1) * 4);
  moved.result(&V::nodes, batch * width * 4);
  moved.result(&V::accepted, batch * 4);
  moved.result(&V::statuses, batch * 4);
  return moved.run(call);
}

}  // namespace fairdraw::harness::plugin
