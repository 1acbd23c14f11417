#include "harness/adapters/serving.h"

#include <algorithm>
#include <utility>

#include "fairdraw/cuda_memory.h"
#include "fairdraw/cuda_speculative.h"
#include "fairdraw/cuda_watermark.h"
#include "fairdraw/watermark.h"
#include "harness/adapters/describe.h"
#include "harness/adapters/device_arrays.h"
#include "harness/adapters/kept_batch.h"
#include "harness/adapters/sample_view.h"
#include "harness/adapters/sharded.h"
#include "harness/adapters/speculation_view.h"
#include "harness/adapters/statuses.h"
#include "harness/contract/serving.h"
#include "harness/contract/serving_arrays.h"

namespace fairdraw::harness {
namespace {

/// A sampler of rows to which the calls of serving are added.
class ServingSampler : public Serves<> {
 public:
  explicit ServingSampler(std::unique_ptr<Sampler> rows)
      : rows_(std::move(rows)), description_(rows_->description()) {
    declare_drafts(description_);
  }

  const SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch& batch) override { return rows_->run(batch); }
  std::string run_operation(const fairdraw_operation& call) override {
    return rows_->run_operation(call);
  }

 protected:
  std::unique_ptr<Sampler> rows_;
  SamplerDescription description_;
};

/// The histories of marked rows as lists, without the ids of -1 before them.
class MarkedHistories {
 public:
  explicit MarkedHistories(const fairdraw_batch& batch) : batch_(batch) {
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const std::int32_t* const first = batch.mark_output + row * batch.mark_output_size;
      const auto missing =
          static_cast<std::int32_t>(std::find_if(first, first + batch.mark_output_size,
                                                 [](std::int32_t id) { return id >= 0; }) -
                                    first);
      begins_.push_back(row * batch.mark_output_size + missing);
      lengths_.push_back(static_cast<std::int32_t>(batch.mark_output_size) - missing);
    }
  }

  TokenLists lists() const { return lists_of(batch_.mark_output, begins_.data(), lengths_.data()); }

  /// Returns the same lists in device memory: `ids` are those of the batch, and `places` holds the
  /// beginnings and the lengths.
  Error copy_places(const std::int32_t* ids, cuda::DeviceBuffer& places, const cuda::Stream& stream,
                    TokenLists& lists) const {
    const std::int64_t of_begins = batch_.rows * static_cast<std::int64_t>(sizeof(std::int64_t));
    const std::int64_t of_lengths = batch_.rows * static_cast<std::int64_t>(sizeof(std::int32_t));
    if (Error error = places.reserve(of_begins + of_lengths)) return error;
    if (Error error = places.upload(0, begins_.data(), of_begins, stream)) return error;
    if (Error error = places.upload(of_begins, lengths_.data(), of_lengths, stream)) return error;
    auto* const begins = static_cast<std::int64_t*>(places.data());
    lists = lists_of(ids, begins, reinterpret_cast<std::int32_t*>(begins + batch_.rows));
    return {};
  }

 private:
  TokenLists lists_of(const std::int32_t* ids, const std::int64_t* begins,
                      const std::int32_t* lengths) const {
    return {
        ids, batch_.rows * batch_.mark_output_size, {begins, batch_.rows}, {lengths, batch_.rows}};
  }

  const fairdraw_batch& batch_;
  std::vector<std::int64_t> begins_;
  std::vector<std::int32_t> lengths_;
};

Watermark watermark_of(const fairdraw_batch& batch) {
  Watermark watermark;
  watermark.key = {batch.mark_key, batch.rows};
  watermark.rule.window = batch.mark_window;
  watermark.rule.scheme = static_cast<WatermarkScheme>(batch.mark_scheme);
  return watermark;
}

class CpuServing final : public ServingSampler {
 public:
  CpuServing(std::unique_ptr<Sampler> rows, const Execution& execution)
      : ServingSampler(std::move(rows)), execution_(execution) {
    description_.keeps_state = true;
    description_.marks_by_key = description_.marks_by_key_and_seed = true;
    description_.marks_green_lists = true;
  }

  std::string run(const fairdraw_batch& batch) override {
    return batch.mark_key != nullptr ? run_marked(batch) : ServingSampler::run(batch);
  }

  std::string run_chain(const fairdraw_chain& chain) override {
    if (chain.accept_words != nullptr) return "takes no random words";
    std::vector<RowStatus> statuses = statuses_for(chain.statuses, chain.batch);
    const Error error =
        chain_speculative_sampling(chain_sampling_request_of(chain),
                                   chain_sampling_result_of(chain, view_of(statuses)), execution_);
    if (error) return error.message;
    write_statuses(statuses, chain.statuses);
    return {};
  }

  std::string run_speculation(const fairdraw_verification& call) override {
    std::vector<RowStatus> statuses = statuses_for(call.statuses, call.batch);
    const Error error = call.parents != nullptr
                            ? accept_tree(tree_request_of(call),
                                          tree_result_of(call, view_of(statuses)), execution_)
                            : accept_chain(chain_request_of(call),
                                           chain_result_of(call, view_of(statuses)), execution_);
    if (error) return error.message;
    write_statuses(statuses, call.statuses);
    return {};
  }

  std::string run_event(const fairdraw_event& event) override {
    return batch_.run(event, execution_);
  }

 private:
  std::string run_marked(const fairdraw_batch& batch) const {
    std::vector<RowStatus> statuses = statuses_for(batch.statuses, batch.outputs);
    const MarkedHistories histories(batch);
    SampleRequest request = sample_request_of(batch);
    request.processing.output = histories.lists();
    const Error error = sample_marked(request, watermark_of(batch),
                                      sample_result_of(batch, view_of(statuses)), execution_);
    if (error) return error.message;
    write_statuses(statuses, batch.statuses);
    return {};
  }

  Execution execution_;
  KeptBatch batch_;
};

class CudaServing final : public ServingSampler {
 public:
  CudaServing(std::unique_ptr<Sampler> rows, cuda::Path path)
      : ServingSampler(std::move(rows)), path_(path) {
    description_.marks_by_key = description_.marks_by_key_and_seed = true;
    description_.marks_green_lists = true;
  }

  std::string run(const fairdraw_batch& batch) override {
    if (batch.mark_key == nullptr) return ServingSampler::run(batch);
    return on_device([&](DeviceState& state) { return run_marked_on(state, batch); });
  }

  std::string run_chain(const fairdraw_chain& chain) override {
    if (chain.accept_words != nullptr) return "takes no random words";
    return on_device([&](DeviceState& state) { return run_chain_on(state, chain); });
  }

  std::string run_speculation(const fairdraw_verification& call) override {
    return on_device([&](DeviceState& state) { return run_speculation_on(state, call); });
  }

 private:
  Error run_marked_on(DeviceState& state, const fairdraw_batch& given) const {
    DeviceCall<fairdraw_batch> call(given);
    if (Error error = call.upload(state)) return error;
    keep_host_seed(given, call.call());
    const fairdraw_batch& batch = call.call();
    SampleRequest request = sample_request_of(batch);
    cuda::DeviceBuffer places;
    if (Error error = MarkedHistories(given).copy_places(batch.mark_output, places, state.stream,
                                                         request.processing.output)) {
      return error;
    }
    const SampleResult result = sample_result_of(batch, statuses_of(batch.statuses, batch.outputs));
    const Watermark watermark = watermark_of(batch);

    cuda::Execution execution{.path = path_};
    const std::int64_t workspace = cuda::workspace_bytes(request, result.logprobs, watermark);
    if (Error error = prepare(state, workspace, execution)) return error;
    if (Error error = cuda::sample_marked(request, watermark, result, execution)) return error;
    return call.download(state);  // waits for the kernels, so `places` may be freed
  }

  Error run_chain_on(DeviceState& state, const fairdraw_chain& given) const {
    DeviceCall<fairdraw_chain> call(given);
    if (Error error = call.upload(state)) return error;
    keep_host_seed(given, call.call());
    const fairdraw_chain& chain = call.call();
    const ChainSpeculativeRequest request = chain_sampling_request_of(chain);
    const ChainSpeculativeResult result =
        chain_sampling_result_of(chain, statuses_of(chain.statuses, chain.batch));

    cuda::Execution execution{.path = path_};
    const std::int64_t rows =
        std::max<std::int64_t>(chain.batch * (2 * chain.num_draft_tokens + 1), 0);
    if (Error error = prepare(state, cuda::workspace_bytes(rows), execution)) return error;
    if (Error error = cuda::chain_speculative_sampling(request, result, execution)) return error;
    return call.download(state);
  }

  Error run_speculation_on(DeviceState& state, const fairdraw_verification& given) const {
    DeviceCall<fairdraw_verification> call(given);
    if (Error error = call.upload(state)) return error;
    keep_host_seed(given, call.call());
    const fairdraw_verification& moved = call.call();
    const View<RowStatus> statuses = statuses_of(moved.statuses, moved.batch);

    cuda::Execution execution{.path = path_};
    Error error;
    if (moved.parents != nullptr) {
      const AcceptTreeRequest request = tree_request_of(moved);
      error = prepare(state, cuda::workspace_bytes(request), execution);
      if (!error) error = cuda::accept_tree(request, tree_result_of(moved, statuses), execution);
    } else {
      const AcceptChainRequest request = chain_request_of(moved);
      error = prepare(state, cuda::workspace_bytes(request), execution);
      if (!error) error = cuda::accept_chain(request, chain_result_of(moved, statuses), execution);
    }
    if (error) return error;
    return call.download(state);
  }

  cuda::Path path_;
};

}  // namespace

std::unique_ptr<Sampler> with_serving(std::unique_ptr<Sampler> rows, const Execution& execution) {
  return std::make_unique<CpuServing>(std::move(rows), execution);
}

std::unique_ptr<Sampler> with_serving(std::unique_ptr<Sampler> rows, cuda::Path path) {
  return std::make_unique<CudaServing>(std::move(rows), path);
}

std::unique_ptr<Sampler> make_serving_sampler(const std::string& name) {
  if (std::unique_ptr<Sampler> sampler = make_cuda_sharded_sampler(name)) return sampler;
  return make_sharded_sampler(name);
}

}  // namespace fairdraw::harness
