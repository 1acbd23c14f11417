// A Python callable behind the contract of a sampler under test.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "harness/contract/sampler.h"
#include "python/bindings/batch_view.h"

namespace fairdraw::python {

/// The callable, shared by all cases of a run. One call at a time: what people write in Python is
/// seldom made for several threads, while the harness's statistics run in all of them.
struct Callable {
  Callable(nanobind::object function_, Arrays arrays_, harness::SamplerDescription description_)
      : function(std::move(function_)), arrays(arrays_), description(std::move(description_)) {}
  ~Callable();  ///< takes the interpreter's lock
  Callable(const Callable&) = delete;
  Callable& operator=(const Callable&) = delete;

  nanobind::object function;
  Arrays arrays;
  harness::SamplerDescription description;
  std::mutex one_call;
  std::atomic<bool> cancelled = false;  ///< the run is being given up: calls are refused
  std::string retained;                 ///< why no further call is made; guarded by one_call
};

/// Calls fn(batch) with views of the harness's memory and takes the token ids that it returns: an
/// array of integers or a list, [outputs] or [outputs, num_samples]; or the batch itself where the
/// callable wrote into out_tokens. Everything else that comes back, and every exception, refuses
/// the call with a message that says what it was: the case fails, and the run goes on.
///
/// The callable runs in the default float environment whatever the caller's is: Python's own
/// conversions are not made for another one.
class PythonSampler final : public harness::Sampler {
 public:
  explicit PythonSampler(std::shared_ptr<Callable> callable) : callable_(std::move(callable)) {}
  const harness::SamplerDescription& description() const override { return callable_->description; }
  std::string run(const fairdraw_batch& batch) override;

 private:
  std::shared_ptr<Callable> callable_;
};

}  // namespace fairdraw::python
