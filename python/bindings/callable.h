// What people write in Python to be judged.
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

/// A callable that is judged, shared by all cases of a run. One call at a time: what people write
/// in Python is seldom made for several threads, while the harness's statistics run in all of them.
struct Callable {
  Callable(nanobind::object function_, nanobind::object running_batch_, Arrays arrays_)
      : function(std::move(function_)), running_batch(std::move(running_batch_)), arrays(arrays_) {}
  ~Callable();  ///< takes the interpreter's lock
  Callable(const Callable&) = delete;
  Callable& operator=(const Callable&) = delete;

  nanobind::object function;       ///< takes a batch; None: there is none
  nanobind::object running_batch;  ///< called without arguments, makes one; None: keeps no requests
  nanobind::object verifier;       ///< takes requests with drafts; not valid: there is none
  std::map<harness::OperationKind, nanobind::object> operations;  ///< on rows, each a function
  Arrays arrays;
  harness::SamplerDescription description;       ///< of the function
  harness::SamplerDescription kept_description;  ///< of running batches
  std::mutex one_call;
  std::atomic<bool> cancelled = false;  ///< the run is being given up: calls are refused
  std::string retained;                 ///< why no further call is made; guarded by one_call
};

}  // namespace fairdraw::python
