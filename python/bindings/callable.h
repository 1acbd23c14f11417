// Holds users' Python code under test.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "harness/contract/sampler.h"
#include "harness/run/calls/operation_call.h"
#include "python/bindings/batch_view.h"

namespace fairdraw::python {

/// A callable under test, which all cases of a run share. The callable gets one call at a time,
/// because users' Python code is seldom made for several threads, and the harness computes
/// statistics in many threads.
struct Callable {
  Callable(nanobind::object function_, nanobind::object running_batch_, Arrays arrays_)
      : function(std::move(function_)), running_batch(std::move(running_batch_)), arrays(arrays_) {}
  ~Callable();  ///< acquires the Python interpreter's lock
  Callable(const Callable&) = delete;
  Callable& operator=(const Callable&) = delete;

  nanobind::object function;       ///< function that takes a batch; None if there is no callable
  nanobind::object running_batch;  ///< function without arguments that makes a running batch, or
                                   ///< None
  nanobind::object verifier;       ///< function that takes requests with drafts; invalid if there
                                   ///< is none
  std::map<harness::OperationKind, nanobind::object> operations;  ///< a function per kind
  Arrays arrays;
  harness::SamplerDescription description;       ///< of the function
  harness::SamplerDescription kept_description;  ///< of running batches
  std::mutex one_call;
  std::atomic<bool> cancelled = false;  ///< whether the run is being cancelled, so that calls are
                                        ///< refused
  std::string retained;  ///< reason why no further call is made, or empty; guarded by the mutex
                         ///< one_call
};

}  // namespace fairdraw::python
