// Makes Python code a sampler under test. The code is a callable, a running batch, or both.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "harness/contract/sampler.h"
#include "python/bindings/callable.h"

namespace fairdraw::python {

class RunningBatch;  // running_batch.h

/// Calls fn(batch) with views of the harness's memory and takes the token ids that fn returns. The
/// ids are an array of integers or a list, [outputs] or [outputs, num_samples], or the batch itself
/// if the callable wrote into out_tokens. Any other result, and every exception, refuses the call
/// with a message. The case then fails, and the run goes on. Events of running batches go to a
/// running batch that is made at this sampler's first event. Row operations go to their functions
/// (row_operation.h), and drafts to the verifier (draft_batch.h).
///
/// Python code runs in the default floating-point environment, because Python's own conversions are
/// correct only there.
class PythonSampler final : public harness::Sampler {
 public:
  /// Selects the description to use: that of the callable (`nothing`), or that of the running batch
  /// (`requests`).
  enum class Keeps { nothing, requests };
  PythonSampler(std::shared_ptr<Callable> callable, Keeps keeps);
  ~PythonSampler() override;
  PythonSampler(const PythonSampler&) = delete;
  PythonSampler& operator=(const PythonSampler&) = delete;

  const harness::SamplerDescription& description() const override {
    return keeps_ == Keeps::requests ? callable_->kept_description : callable_->description;
  }
  std::string run(const fairdraw_batch& batch) override;
  std::string run_operation(const fairdraw_operation& operation) override;
  std::string run_serving(const harness::ServingCall& call) override;

 private:
  template <class Work>
  std::string with_lock(const Work& work);

  std::shared_ptr<Callable> callable_;
  Keeps keeps_;
  std::unique_ptr<RunningBatch> running_;
};

}  // namespace fairdraw::python
