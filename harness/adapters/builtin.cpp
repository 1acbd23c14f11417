// The built-in samplers behind the contract: fairdraw::sample on each instruction set, and by name
// those of the GPU.
#include <algorithm>

#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "fairdraw/speculative.h"
#include "harness/adapters/cuda.h"
#include "harness/adapters/describe.h"
#include "harness/adapters/model_sampler.h"
#include "harness/adapters/probs_operation.h"
#include "harness/adapters/processing_view.h"
#include "harness/adapters/reports_view.h"
#include "harness/adapters/speculation_view.h"
#include "harness/contract/sampler.h"
#include "harness/contract/usage_error.h"

namespace fairdraw::harness {
namespace {

class CpuSampler final : public Sampler {
 public:
  CpuSampler(std::string name, CpuTarget target) : description_(describe(std::move(name))) {
    // One thread a call: the runner has its own, one a case.
    execution_.target = target;
    execution_.threads = 1;
    description_.processing = true;
    description_.reports_raw = description_.reports_processed = true;
    description_.ranks_position = description_.ranks_at_least = true;
    description_.speculation = description_.draft_trees = description_.draft_tree_laws = true;
    description_.speculation_processing = true;
  }

  const SamplerDescription& description() const override { return description_; }

  std::string run(const fairdraw_batch& batch) override {
    if (batch.words != nullptr) return "takes no random words";
    SampleRequest request;
    request.logits = {batch.logits, static_cast<DType>(batch.dtype), batch.rows, batch.vocab,
                      batch.row_stride};
    request.temperature = {batch.temperature, batch.rows};
    request.top_k = {batch.top_k, batch.rows};
    request.top_p = {batch.top_p, batch.rows};
    request.min_p = {batch.min_p, batch.rows};
    request.tie_rule = static_cast<TieRule>(batch.tie_rule);
    request.filter_order = static_cast<FilterOrder>(batch.filter_order);
    request.num_samples = batch.num_samples;
    if (batch.seed_is_scalar != 0) {
      request.seed = batch.seed[0];
      request.offset = batch.offset[0];
    } else {
      request.seed = {batch.seed, batch.outputs};
      request.offset = {batch.offset, batch.outputs};
    }
    if (batch.allowed != nullptr) {
      request.allowed = {batch.allowed, batch.rows, batch.allowed_stride};
    }
    if (batch.active != nullptr) request.active = {batch.active, batch.rows};
    if (batch.indices != nullptr) request.indices = {batch.indices, batch.outputs};

    request.processing = processing_of(batch);

    const std::int64_t tokens = batch.outputs * batch.num_samples;
    SampleResult result;
    result.tokens = {batch.tokens, tokens};
    std::vector<RowStatus> statuses;  // the contract has plain integers
    if (batch.statuses != nullptr) {
      statuses.resize(static_cast<std::size_t>(batch.outputs));
      result.statuses = {statuses.data(), batch.outputs};
    }
    if (batch.support_size != nullptr) result.support_size = {batch.support_size, batch.outputs};
    if (batch.logprob != nullptr) result.logprob = {batch.logprob, tokens};
    if (batch.logprob_filtered != nullptr) {
      result.logprob_filtered = {batch.logprob_filtered, tokens};
    }
    if (batch.mask != nullptr) result.mask = {batch.mask, batch.rows, batch.mask_stride};
    if (batch.probs != nullptr) result.probs = {batch.probs, batch.rows, batch.probs_stride};
    result.logprobs = reports_of(batch);

    Error error;
    if (batch.input == 0) {
      error = sample(request, result, execution_);
    } else {
      const ProbsOperation operation = probs_operation(batch);
      if (!operation.refused.empty()) return operation.refused;
      error = sample_from_probs(operation, request, result, execution_);
    }
    if (error) return error.message;
    write_statuses(statuses, batch.statuses);
    return {};
  }

  std::string run_chain(const fairdraw_chain& chain) override {
    if (chain.accept_words != nullptr) return "takes no random words";
    const std::int64_t n = chain.num_draft_tokens;
    const auto dtype = static_cast<DType>(chain.dtype);
    ChainSpeculativeRequest request;
    request.draft_probs = {chain.draft_probs, dtype, chain.batch * n, chain.vocab, chain.vocab};
    request.draft_tokens = {chain.draft_tokens, chain.batch * n};
    request.target_probs = {chain.target_probs, dtype, chain.batch * (n + 1), chain.vocab,
                            chain.vocab};
    request.batch = chain.batch;
    request.num_draft_tokens = n;
    if (chain.seed_is_scalar != 0) {
      request.seed = chain.seed[0];
      request.offset = chain.offset[0];
    } else {
      request.seed = {chain.seed, chain.batch};
      request.offset = {chain.offset, chain.batch};
    }
    ChainSpeculativeResult result;
    result.tokens = {chain.tokens, chain.batch * (n + 1)};
    if (chain.accepted != nullptr) result.accepted = {chain.accepted, chain.batch};
    if (chain.emitted != nullptr) result.emitted = {chain.emitted, chain.batch};
    std::vector<RowStatus> statuses;
    if (chain.statuses != nullptr) {
      statuses.resize(static_cast<std::size_t>(chain.batch));
      result.statuses = {statuses.data(), chain.batch};
    }
    if (const Error error = chain_speculative_sampling(request, result, execution_)) {
      return error.message;
    }
    write_statuses(statuses, chain.statuses);
    return {};
  }

  std::string run_speculation(const fairdraw_verification& call) override {
    std::vector<RowStatus> statuses(
        static_cast<std::size_t>(call.statuses != nullptr ? call.batch : 0));
    View<RowStatus> status_view;
    if (call.statuses != nullptr) status_view = {statuses.data(), call.batch};
    const Error error =
        call.parents != nullptr
            ? verify_tree(tree_request_of(call), tree_result_of(call, status_view), execution_)
            : verify_chain(chain_request_of(call), chain_result_of(call, status_view), execution_);
    if (error) return error.message;
    if (call.statuses != nullptr) write_statuses(statuses, call.statuses);
    return {};
  }

 private:
  static void write_statuses(const std::vector<RowStatus>& statuses, std::int32_t* target) {
    std::transform(statuses.begin(), statuses.end(), target,
                   [](RowStatus status) { return static_cast<std::int32_t>(status); });
  }

  SamplerDescription description_;
  Execution execution_;
};

struct Builtin {
  std::string name;
  CpuTarget target;
};

std::vector<Builtin> builtins() {
  std::vector<Builtin> available;
  for (const Builtin& builtin :
       {Builtin{"cpu", CpuTarget::best}, Builtin{"cpu:scalar", CpuTarget::scalar},
        Builtin{"cpu:avx2", CpuTarget::avx2}, Builtin{"cpu:avx512", CpuTarget::avx512},
        Builtin{"cpu:neon", CpuTarget::neon}}) {
    if (is_available(builtin.target)) available.push_back(builtin);
  }
  return available;
}

}  // namespace

std::vector<std::string> builtin_sampler_names() {
  std::vector<std::string> names;
  for (const Builtin& builtin : builtins()) names.push_back(builtin.name);
  for (std::string& name : cuda_sampler_names()) names.push_back(std::move(name));
  names.emplace_back("model");
  return names;
}

std::unique_ptr<Sampler> make_builtin_sampler(const std::string& name) {
  for (const Builtin& builtin : builtins()) {
    if (builtin.name == name) return std::make_unique<CpuSampler>(name, builtin.target);
  }
  if (name == "model") return std::make_unique<ModelSampler>();
  if (std::unique_ptr<Sampler> sampler = make_cuda_sampler(name)) return sampler;
  throw UsageError(unknown_name_message("sampler", name, builtin_sampler_names()));
}

}  // namespace fairdraw::harness
