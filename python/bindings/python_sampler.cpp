#include "python/bindings/python_sampler.h"

#include <utility>

#include "harness/adapters/default_float_environment.h"
#include "harness/contract/serving.h"
#include "python/bindings/draft_batch.h"
#include "python/bindings/lent_call.h"
#include "python/bindings/row_operation.h"
#include "python/bindings/running_batch.h"
#include "python/bindings/token_ids.h"

namespace fairdraw::python {

namespace nb = nanobind;

namespace {

constexpr const char* kCallable = "the callable";

std::string call(Callable& callable, const fairdraw_batch& batch) {
  Loan loan;
  std::string refused;
  {
    const LentView view(batch, callable.arrays, loan);
    nb::object result;
    refused = guarded(kCallable, [&] {
      result = callable.function(view.object());
      return std::string();
    });
    if (refused.empty() && !result.is(view.object())) {
      refused = guarded(kCallable, [&] {
        return take_ids(result, {.outputs = batch.outputs,
                                 .samples = batch.num_samples,
                                 .ids = batch.tokens,
                                 .who = kCallable,
                                 .or_instead = " (or the batch, where out_tokens was written)"});
      });
    }
  }
  return given_back(kCallable, "batch", loan, callable.retained, std::move(refused));
}

}  // namespace

Callable::~Callable() {
  const nb::gil_scoped_acquire lock;
  function.reset();
  running_batch.reset();
  verifier.reset();
  operations.clear();
}

PythonSampler::PythonSampler(std::shared_ptr<Callable> callable, Keeps keeps)
    : callable_(std::move(callable)), keeps_(keeps) {}

PythonSampler::~PythonSampler() {
  if (running_ == nullptr) return;
  const nb::gil_scoped_acquire lock;
  running_.reset();
}

template <class Work>
std::string PythonSampler::with_lock(const Work& work) {
  const std::lock_guard one_call(callable_->one_call);
  if (callable_->cancelled) return "the run was interrupted";
  if (!callable_->retained.empty()) return callable_->retained;
  const harness::DefaultFloatEnvironment scope;
  const nb::gil_scoped_acquire lock;
  return guarded("preparing a call", work);  // making a view or reading a result may raise
}

std::string PythonSampler::run(const fairdraw_batch& batch) {
  return with_lock([&] {
    const bool processed = batch.processing.repetition_penalty != nullptr;
    const bool takes_it = !processed || callable_->description.processing;
    if (!callable_->function.is_none() && takes_it) return call(*callable_, batch);
    // A callable beside a running batch takes no processing, so that a call with processing is made
    // as a running batch of its own.
    return RunningBatch(*callable_).sample(batch);
  });
}

std::string PythonSampler::run_operation(const fairdraw_operation& operation) {
  return with_lock([&] { return call_row_operation(*callable_, operation); });
}

std::string PythonSampler::run_serving(const harness::ServingCall& call) {
  const auto run = [this](const auto* of) {
    if constexpr (std::is_same_v<decltype(of), const fairdraw_event*>) {
      if (running_ == nullptr) running_ = std::make_unique<RunningBatch>(*callable_);
      return running_->run(*of);
    } else {
      return call_verifier(*callable_, *of);
    }
  };
  return with_lock([&] { return std::visit(run, call.call); });
}

}  // namespace fairdraw::python
