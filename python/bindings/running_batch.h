// Wraps a Python object that keeps the requests of a running batch and gets the contract's events.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "harness/contract/sequence.h"
#include "python/bindings/callable.h"

namespace fairdraw::python {

/// Calls the methods begin, add, step, evict, restore and end, whose arguments
/// fairdraw/running_batch.py documents. Requests and their histories are passed by value. The
/// arrays of a step are lent for that call. Precondition: the caller holds the Python interpreter's
/// lock.
class RunningBatch {
 public:
  explicit RunningBatch(Callable& callable) : callable_(callable) {}

  /// Returns an empty string, or the reason why the Python object refused the event.
  std::string run(const fairdraw_event& event);
  /// Draws a batch's tokens in one step, after restoring one request per row as the batch describes
  /// the request.
  std::string sample(const fairdraw_batch& batch);

 private:
  std::string make();
  std::string begin(const fairdraw_event& event);
  std::string take(const fairdraw_event& event, std::int64_t row);
  std::string step(const fairdraw_event& event);
  std::string leave(const fairdraw_event& event);
  std::string take_answer(nanobind::handle answer, const fairdraw_event& event) const;

  Callable& callable_;
  nanobind::object object_;
};

}  // namespace fairdraw::python
