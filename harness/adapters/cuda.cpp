// The operations of fairdraw/cuda.h behind the contract, whose arrays lie in host memory: a call
// copies them to the device and its results back (device_arrays.h).
#include "harness/adapters/cuda.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "fairdraw/cuda.h"
#include "fairdraw/sample.h"
#include "harness/adapters/describe.h"
#include "harness/adapters/device_arrays.h"
#include "harness/adapters/probs_operation.h"
#include "harness/adapters/processing_arrays.h"
#include "harness/adapters/processing_view.h"
#include "harness/adapters/reports_view.h"
#include "harness/adapters/speculation_view.h"
#include "harness/contract/usage_error.h"

namespace fairdraw::harness {
namespace {

class CudaSampler final : public Sampler {
 public:
  CudaSampler(std::string name, cuda::Path path)
      : description_(describe(std::move(name))), path_(path) {
    description_.processing = true;
    description_.reports_raw = description_.reports_processed = true;
    description_.ranks_position = description_.ranks_at_least = true;
    description_.speculation = description_.draft_trees = description_.draft_tree_laws = true;
    description_.speculation_processing = true;
  }

  const SamplerDescription& description() const override { return description_; }

  std::string run(const fairdraw_batch& batch) override {
    if (batch.words != nullptr) return "takes no random words";
    ProbsOperation operation;
    if (batch.input != 0) operation = probs_operation(batch);
    if (!operation.refused.empty()) return operation.refused;
    return on_device([&](DeviceState& state) { return run_on(state, batch, operation); });
  }

  std::string run_chain(const fairdraw_chain& chain) override {
    if (chain.accept_words != nullptr) return "takes no random words";
    return on_device([&](DeviceState& state) { return run_chain_on(state, chain); });
  }

  std::string run_speculation(const fairdraw_verification& call) override {
    return on_device([&](DeviceState& state) { return run_speculation_on(state, call); });
  }

 private:
  Error run_on(DeviceState& state, const fairdraw_batch& batch,
               const ProbsOperation& operation) const {
    const std::int64_t rows = batch.rows;
    const std::int64_t outputs = batch.outputs;
    const std::int64_t tokens = outputs * batch.num_samples;
    const std::int64_t words = (batch.vocab + 31) / 32;
    const bool one_seed = batch.seed_is_scalar != 0;

    DeviceArrays arrays;
    const auto logits = arrays.add(
        batch.logits, extent(rows, batch.row_stride, batch.vocab, element_bytes(batch.dtype)));
    const auto temperature = arrays.add(batch.temperature, rows * 4);
    const auto top_k = arrays.add(batch.top_k, rows * 4);
    const auto top_p = arrays.add(batch.top_p, rows * 4);
    const auto min_p = arrays.add(batch.min_p, rows * 4);
    const auto allowed = arrays.add(batch.allowed, extent(rows, batch.allowed_stride, words, 4));
    const auto active = arrays.add(batch.active, rows);
    const auto indices = arrays.add(batch.indices, outputs * 4);
    const auto seed = arrays.add(one_seed ? nullptr : batch.seed, outputs * 8);
    const auto offset = arrays.add(one_seed ? nullptr : batch.offset, outputs * 8);
    const auto token = arrays.add_result(batch.tokens, tokens * 4);
    const auto statuses = arrays.add_result(batch.statuses, outputs * 4);
    const auto support_size = arrays.add_result(batch.support_size, outputs * 4);
    const auto logprob = arrays.add_result(batch.logprob, tokens * 4);
    const auto logprob_filtered = arrays.add_result(batch.logprob_filtered, tokens * 4);
    const auto mask = arrays.add_result(batch.mask, extent(rows, batch.mask_stride, words, 4));
    const auto probs =
        arrays.add_result(batch.probs, extent(rows, batch.probs_stride, batch.vocab, 4));
    fairdraw_batch moved = batch;
    const auto report_values = arrays.add_result(batch.report_values, tokens * 4);
    const auto report_ranks = arrays.add_result(batch.report_ranks, tokens * 4);
    const auto report_top_ids = arrays.add_result(batch.report_top_ids, outputs * batch.top_n * 4);
    const auto report_top_values =
        arrays.add_result(batch.report_top_values, outputs * batch.top_n * 4);
    const auto report_all =
        arrays.add_result(batch.report_all, extent(rows, batch.report_all_stride, batch.vocab, 4));
    std::vector<std::size_t> numbers;
    each_processing_array(moved, [&](const auto& array, std::int64_t bytes) {
      numbers.push_back(arrays.add(array, bytes));
    });
    if (Error error = arrays.upload(state)) return error;

    SampleRequest request;
    std::size_t next = 0;
    each_processing_array(moved, [&](auto& array, std::int64_t) {
      using Value = std::remove_pointer_t<std::remove_reference_t<decltype(array)>>;
      array = arrays.at<Value>(numbers[next++]);
    });
    request.processing = processing_of(moved);
    request.logits = {arrays.at<void>(logits), static_cast<DType>(batch.dtype), rows, batch.vocab,
                      batch.row_stride};
    request.temperature = {arrays.at<float>(temperature), rows};
    request.top_k = {arrays.at<std::int32_t>(top_k), rows};
    request.top_p = {arrays.at<float>(top_p), rows};
    request.min_p = {arrays.at<float>(min_p), rows};
    request.tie_rule = static_cast<TieRule>(batch.tie_rule);
    request.filter_order = static_cast<FilterOrder>(batch.filter_order);
    request.num_samples = batch.num_samples;
    if (one_seed) {
      request.seed = batch.seed[0];
      request.offset = batch.offset[0];
    } else {
      request.seed = {arrays.at<std::uint64_t>(seed), outputs};
      request.offset = {arrays.at<std::uint64_t>(offset), outputs};
    }
    if (batch.allowed != nullptr) {
      request.allowed = {arrays.at<std::uint32_t>(allowed), rows, batch.allowed_stride};
    }
    if (batch.active != nullptr) request.active = {arrays.at<std::uint8_t>(active), rows};
    if (batch.indices != nullptr) request.indices = {arrays.at<std::int32_t>(indices), outputs};

    SampleResult result;
    result.tokens = {arrays.at<std::int32_t>(token), tokens};
    if (batch.statuses != nullptr) result.statuses = {arrays.at<RowStatus>(statuses), outputs};
    if (batch.support_size != nullptr) {
      result.support_size = {arrays.at<std::int32_t>(support_size), outputs};
    }
    if (batch.logprob != nullptr) result.logprob = {arrays.at<float>(logprob), tokens};
    if (batch.logprob_filtered != nullptr) {
      result.logprob_filtered = {arrays.at<float>(logprob_filtered), tokens};
    }
    if (batch.mask != nullptr) {
      result.mask = {arrays.at<std::uint32_t>(mask), rows, batch.mask_stride};
    }
    if (batch.probs != nullptr) {
      result.probs = {arrays.at<float>(probs), rows, batch.probs_stride};
    }

    moved.report_values = arrays.at<float>(report_values);
    moved.report_ranks = arrays.at<std::int32_t>(report_ranks);
    moved.report_top_ids = arrays.at<std::int32_t>(report_top_ids);
    moved.report_top_values = arrays.at<float>(report_top_values);
    moved.report_all = arrays.at<float>(report_all);
    result.logprobs = reports_of(moved);

    cuda::Execution execution;
    const std::int64_t workspace = cuda::workspace_bytes(request, result.logprobs);
    if (Error error = prepare(state, workspace, execution)) return error;
    Error error = batch.input == 0 ? cuda::sample(request, result, execution)
                                   : sample_from_probs(operation, request, result, execution);
    if (error) return error;
    return arrays.download(state);
  }

  Error run_chain_on(DeviceState& state, const fairdraw_chain& chain) const {
    const std::int64_t n = chain.num_draft_tokens;
    const std::int64_t batch = chain.batch;
    const std::int64_t tokens = batch * (n + 1);
    const std::int64_t row_bytes = chain.vocab * element_bytes(chain.dtype);
    const bool one_seed = chain.seed_is_scalar != 0;
    DeviceArrays arrays;
    const auto draft_probs = arrays.add(chain.draft_probs, batch * n * row_bytes);
    const auto draft_tokens = arrays.add(chain.draft_tokens, batch * n * 4);
    const auto target_probs = arrays.add(chain.target_probs, tokens * row_bytes);
    const auto seed = arrays.add(one_seed ? nullptr : chain.seed, batch * 8);
    const auto offset = arrays.add(one_seed ? nullptr : chain.offset, batch * 8);
    const auto token = arrays.add_result(chain.tokens, tokens * 4);
    const auto accepted = arrays.add_result(chain.accepted, batch * 4);
    const auto emitted = arrays.add_result(chain.emitted, batch * 4);
    const auto statuses = arrays.add_result(chain.statuses, batch * 4);
    if (Error error = arrays.upload(state)) return error;

    const auto dtype = static_cast<DType>(chain.dtype);
    ChainSpeculativeRequest request;
    request.draft_probs = {arrays.at<void>(draft_probs), dtype, batch * n, chain.vocab,
                           chain.vocab};
    request.draft_tokens = {arrays.at<std::int32_t>(draft_tokens), batch * n};
    request.target_probs = {arrays.at<void>(target_probs), dtype, tokens, chain.vocab, chain.vocab};
    request.batch = batch;
    request.num_draft_tokens = n;
    if (one_seed) {
      request.seed = chain.seed[0];
      request.offset = chain.offset[0];
    } else {
      request.seed = {arrays.at<std::uint64_t>(seed), batch};
      request.offset = {arrays.at<std::uint64_t>(offset), batch};
    }
    ChainSpeculativeResult result;
    result.tokens = {arrays.at<std::int32_t>(token), tokens};
    if (chain.accepted != nullptr) result.accepted = {arrays.at<std::int32_t>(accepted), batch};
    if (chain.emitted != nullptr) result.emitted = {arrays.at<std::int32_t>(emitted), batch};
    if (chain.statuses != nullptr) result.statuses = {arrays.at<RowStatus>(statuses), batch};

    cuda::Execution execution;
    const std::int64_t rows = std::max<std::int64_t>(batch * (2 * n + 1), 0);
    if (Error error = prepare(state, cuda::workspace_bytes(rows), execution)) return error;
    if (Error error = cuda::chain_speculative_sampling(request, result, execution)) return error;
    return arrays.download(state);
  }

  Error run_speculation_on(DeviceState& state, const fairdraw_verification& call) const {
    DeviceArrays arrays;
    fairdraw_verification moved = call;
    std::vector<std::size_t> numbers;
    each_speculation_array(
        moved,
        [&](const auto& array, std::int64_t bytes) { numbers.push_back(arrays.add(array, bytes)); },
        [&](auto& array, std::int64_t bytes) {
          numbers.push_back(arrays.add_result(array, bytes));
        });
    if (Error error = arrays.upload(state)) return error;
    std::size_t next = 0;
    const auto move = [&](auto& array, std::int64_t) {
      using Value = std::remove_pointer_t<std::remove_reference_t<decltype(array)>>;
      array = arrays.at<Value>(numbers[next++]);
    };
    each_speculation_array(moved, move, move);
    const View<RowStatus> statuses =
        view_or_none(reinterpret_cast<RowStatus*>(moved.statuses), call.batch);

    cuda::Execution execution;
    Error error;
    if (moved.parents != nullptr) {
      const VerifyTreeRequest request = tree_request_of(moved);
      error = prepare(state, cuda::workspace_bytes(request), execution);
      if (!error) error = cuda::verify_tree(request, tree_result_of(moved, statuses), execution);
    } else {
      const VerifyChainRequest request = chain_request_of(moved);
      error = prepare(state, cuda::workspace_bytes(request), execution);
      if (!error) error = cuda::verify_chain(request, chain_result_of(moved, statuses), execution);
    }
    if (error) return error;
    return arrays.download(state);
  }

  // Calls visit for every array of a call, and visit_result for those that it writes, in one order.
  // Scalar seeds stay on the host.
  template <class Visit, class VisitResult>
  static void each_speculation_array(fairdraw_verification& call, Visit&& visit,
                                     VisitResult&& visit_result) {
    const std::int64_t batch = call.batch;
    const std::int64_t row_bytes = call.vocab * element_bytes(call.dtype);
    const std::int64_t draft_rows = call.parents != nullptr ? call.rows : call.places;
    const std::int64_t depth = call.parents != nullptr ? call.max_depth : call.max_draft;
    visit(call.target, call.rows * row_bytes);
    visit(call.temperature, batch * 4);
    visit(call.top_k, batch * 4);
    visit(call.top_p, batch * 4);
    visit(call.min_p, batch * 4);
    visit(call.allowed, call.rows * ((call.vocab + 31) / 32) * 4);
    visit(call.row_begins, (batch + 1) * 8);
    visit(call.active, batch);
    if (call.seed_is_scalar == 0) {
      visit(call.seed, batch * 8);
      visit(call.offset, batch * 8);
    }
    visit(call.draft_tokens, call.places * 4);
    visit(call.draft_lengths, batch * 4);
    visit(call.draft, draft_rows * row_bytes);
    visit(call.draft_temperature, batch * 4);
    visit(call.draft_top_k, batch * 4);
    visit(call.draft_top_p, batch * 4);
    visit(call.draft_min_p, batch * 4);
    each_processing_array(call.processing, call.rows, call.vocab, visit);
    visit_result(call.tokens, batch * (depth + 1) * 4);
    visit_result(call.nodes, batch * call.max_depth * 4);
    visit_result(call.accepted, batch * 4);
    visit_result(call.statuses, batch * 4);
    visit(call.parents, call.places * 4);  // last: the sizes above ask for it
  }

  // The stream, and a workspace of `bytes`.
  Error prepare(DeviceState& state, std::int64_t bytes, cuda::Execution& execution) const {
    execution.stream = state.stream.get();
    execution.path = path_;
    execution.workspace_bytes = bytes;
    constexpr std::int64_t kFewestBytes = 256;  // a block, not null, in an empty batch too
    if (Error error = state.workspace.reserve(std::max(execution.workspace_bytes, kFewestBytes))) {
      return error;
    }
    execution.workspace = state.workspace.data();
    return {};
  }

  SamplerDescription description_;
  cuda::Path path_;
};

struct Named {
  const char* name;
  cuda::Path path;
};
constexpr std::array<Named, 3> kSamplers = {{{"cuda", cuda::Path::best},
                                             {"cuda:cluster", cuda::Path::cluster},
                                             {"cuda:block", cuda::Path::block}}};

}  // namespace

std::vector<std::string> cuda_sampler_names() {
  std::vector<std::string> names;
  for (const Named& sampler : kSamplers) {
    if (cuda::is_available(sampler.path)) names.emplace_back(sampler.name);
  }
  return names;
}

std::unique_ptr<Sampler> make_cuda_sampler(const std::string& name) {
  for (const Named& sampler : kSamplers) {
    if (name != sampler.name) continue;
    if (!cuda::is_available(sampler.path)) {
      throw UsageError("sampler '" + name +
                       "' cannot run here: " + cuda::why_not_available(sampler.path));
    }
    return std::make_unique<CudaSampler>(name, sampler.path);
  }
  return nullptr;
}

}  // namespace fairdraw::harness
