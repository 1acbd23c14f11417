// Adapts the operations of fairdraw/cuda.h to the contract. The contract's arrays are in host
// memory, so each call is copied to the device and its results are copied back (device_arrays.h).
#include "harness/adapters/cuda.h"

#include <array>

#include "fairdraw/cuda.h"
#include "harness/adapters/describe.h"
#include "harness/adapters/device_arrays.h"
#include "harness/adapters/operation_view.h"
#include "harness/adapters/probs_operation.h"
#include "harness/adapters/sample_view.h"
#include "harness/adapters/serving.h"
#include "harness/contract/usage_error.h"

namespace fairdraw::harness {
namespace {

class CudaSampler final : public Sampler {
 public:
  CudaSampler(std::string name, cuda::Path path)
      : description_(describe(std::move(name))), path_(path) {
    description_.processing = description_.top_n_sigma = true;
    description_.probability_filters = description_.history_rules = true;
    description_.reports_raw = description_.reports_processed = true;
    description_.ranks_position = description_.ranks_at_least = true;
    declare_operations(description_);
  }

  const SamplerDescription& description() const override { return description_; }

  std::string run(const fairdraw_batch& batch) override {
    if (batch.words != nullptr) return "takes no random words";
    ProbsOperation operation;
    if (batch.input != 0) operation = probs_operation(batch);
    if (!operation.refused.empty()) return operation.refused;
    return on_device([&](DeviceState& state) { return run_on(state, batch, operation); });
  }

  std::string run_operation(const fairdraw_operation& call) override {
    return on_device([&](DeviceState& state) { return run_operation_on(state, call); });
  }

 private:
  Error run_on(DeviceState& state, const fairdraw_batch& given,
               const ProbsOperation& operation) const {
    DeviceCall<fairdraw_batch> call(given);
    if (Error error = call.upload(state)) return error;
    keep_host_seed(given, call.call());
    const fairdraw_batch& batch = call.call();
    const SampleRequest request = sample_request_of(batch);
    const SampleResult result = sample_result_of(batch, statuses_of(batch.statuses, batch.outputs));

    cuda::Execution execution{.path = path_};
    const std::int64_t workspace = cuda::workspace_bytes(request, result.logprobs);
    if (Error error = prepare(state, workspace, execution)) return error;
    Error error = batch.input == 0 ? cuda::sample(request, result, execution)
                                   : sample_from_probs(operation, request, result, execution);
    if (error) return error;
    return call.download(state);
  }

  Error run_operation_on(DeviceState& state, const fairdraw_operation& given) const {
    DeviceCall<fairdraw_operation> moved(given);
    if (Error error = moved.upload(state)) return error;
    fairdraw_operation& call = moved.call();
    keep_in_place(given, call);
    if (given.parameter_is_scalar != 0) {  // one value for all rows, which the host reads
      call.temperature = given.temperature;
      call.top_k = given.top_k;
      call.top_p = given.top_p;
    }
    const View<RowStatus> statuses = statuses_of(call.statuses, call.rows);
    cuda::Execution execution{.path = path_};
    if (call.kind == FAIRDRAW_OPERATION_LOG_SOFTMAX) {
      cuda::DeviceBuffer tokens;
      const auto bytes = static_cast<std::int64_t>(sizeof(std::int32_t)) * (call.rows + 1);
      if (Error error = tokens.reserve(bytes)) return error;
      const SampleRequest request = logarithms_request_of(call);
      const SampleResult result =
          logarithms_result_of(call, static_cast<std::int32_t*>(tokens.data()), statuses);
      const std::int64_t workspace = cuda::workspace_bytes(request, result.logprobs);
      if (Error error = prepare(state, workspace, execution)) return error;
      if (Error error = cuda::sample(request, result, execution)) return error;
      return moved.download(state);  // waits for the kernels, so `tokens` may be freed
    }
    if (Error error = prepare(state, cuda::workspace_bytes(call.rows), execution)) return error;
    if (Error error = run_row_operation(call, statuses, execution)) return error;
    return moved.download(state);
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
    return with_serving(std::make_unique<CudaSampler>(name, sampler.path), sampler.path);
  }
  return nullptr;
}

}  // namespace fairdraw::harness
