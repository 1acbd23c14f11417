// Adapts the built-in samplers to the harness's contract: fairdraw::sample for each instruction
// set, and the GPU samplers by name.
#include "harness/adapters/cuda.h"
#include "harness/adapters/describe.h"
#include "harness/adapters/operation_view.h"
#include "harness/adapters/probs_operation.h"
#include "harness/adapters/sample_view.h"
#include "harness/adapters/serving.h"
#include "harness/adapters/statuses.h"
#include "harness/contract/sampler.h"
#include "harness/contract/usage_error.h"

namespace fairdraw::harness {
namespace {

class CpuSampler final : public Sampler {
 public:
  CpuSampler(std::string name, const Execution& execution)
      : description_(describe(std::move(name))), execution_(execution) {
    description_.processing = description_.top_n_sigma = true;
    description_.probability_filters = description_.history_rules = true;
    description_.reports_raw = description_.reports_processed = true;
    description_.ranks_position = description_.ranks_at_least = true;
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
    if (builtin.name != name) continue;
    // Each call uses one thread, because the runner has one thread per case.
    const Execution execution{builtin.target, 1};
    return with_serving(std::make_unique<CpuSampler>(name, execution), execution);
  }
  if (name == "model") return make_model_sampler();
  if (std::unique_ptr<Sampler> sampler = make_cuda_sampler(name)) return sampler;
  if (std::unique_ptr<Sampler> sampler = make_serving_sampler(name)) return sampler;
  throw UsageError(unknown_name_message("sampler", name, builtin_sampler_names()));
}

}  // namespace fairdraw::harness
