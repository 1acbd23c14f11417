// The built-in samplers behind the contract: fairdraw::sample on each instruction set, and by name
// those of the GPU.
#include <algorithm>

#include "harness/adapters/cuda.h"
#include "harness/adapters/describe.h"
#include "harness/adapters/kept_batch.h"
#include "harness/adapters/model_sampler.h"
#include "harness/adapters/operation_view.h"
#include "harness/adapters/probs_operation.h"
#include "harness/adapters/sample_view.h"
#include "harness/adapters/sharded.h"
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
    description_.speculation_processing = description_.keeps_state = true;
    declare_operations(description_);
  }

  const SamplerDescription& description() const override { return description_; }

  std::string run(const fairdraw_batch& batch) override {
    if (batch.words != nullptr) return "takes no random words";
    std::vector<RowStatus> statuses = statuses_for(batch.statuses, batch.outputs);
    const SampleRequest request = sample_request_of(batch);
    const SampleResult result = sample_result_of(batch, view_of(statuses));
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
                            ? verify_tree(tree_request_of(call),
                                          tree_result_of(call, view_of(statuses)), execution_)
                            : verify_chain(chain_request_of(call),
                                           chain_result_of(call, view_of(statuses)), execution_);
    if (error) return error.message;
    write_statuses(statuses, call.statuses);
    return {};
  }

  std::string run_event(const fairdraw_event& event) override {
    return batch_.run(event, execution_);
  }

  std::string run_operation(const fairdraw_operation& call) override {
    std::vector<RowStatus> statuses = statuses_for(call.statuses, call.rows);
    Error error;
    if (call.kind == FAIRDRAW_OPERATION_LOG_SOFTMAX) {
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(call.rows) + 1);
      error = sample(logarithms_request_of(call),
                     logarithms_result_of(call, tokens.data(), view_of(statuses)), execution_);
    } else {
      error = run_row_operation(call, view_of(statuses), execution_);
    }
    if (error) return error.message;
    write_statuses(statuses, call.statuses);
    return {};
  }

 private:
  // The library's statuses on their way to the contract, which has plain integers.
  static std::vector<RowStatus> statuses_for(const std::int32_t* wanted, std::int64_t size) {
    return std::vector<RowStatus>(static_cast<std::size_t>(wanted != nullptr ? size : 0));
  }
  static View<RowStatus> view_of(std::vector<RowStatus>& statuses) {
    return {statuses.data(), static_cast<std::int64_t>(statuses.size())};
  }
  static void write_statuses(const std::vector<RowStatus>& statuses, std::int32_t* target) {
    std::transform(statuses.begin(), statuses.end(), target,
                   [](RowStatus status) { return static_cast<std::int32_t>(status); });
  }

  SamplerDescription description_;
  Execution execution_;
  KeptBatch batch_;
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

std::vector<std::string> distinct_sampler_names() {
  std::vector<std::string> names = builtin_sampler_names();
  for (const Builtin& builtin : builtins()) {
    if (builtin.target == best_target()) std::erase(names, builtin.name);
  }
  std::erase(names, "model");
  return names;
}

std::unique_ptr<Sampler> make_builtin_sampler(const std::string& name) {
  for (const Builtin& builtin : builtins()) {
    if (builtin.name == name) return std::make_unique<CpuSampler>(name, builtin.target);
  }
  if (name == "model") return std::make_unique<ModelSampler>();
  if (std::unique_ptr<Sampler> sampler = make_cuda_sampler(name)) return sampler;
  if (std::unique_ptr<Sampler> sampler = make_cuda_sharded_sampler(name)) return sampler;
  if (std::unique_ptr<Sampler> sampler = make_sharded_sampler(name)) return sampler;
  throw UsageError(unknown_name_message("sampler", name, builtin_sampler_names()));
}

}  // namespace fairdraw::harness
