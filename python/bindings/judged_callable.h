// Reads the callable that fairdraw.verify and fairdraw.fuzz judge, as Python passes it. Handles
// Ctrl-C during a run.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/bindings/arguments.h"
#include "python/bindings/callable.h"

namespace fairdraw::python {

/// A callable with its declarations, by the names in ability_names.h.
struct JudgedCallable {
  /// Reads the declarations that any callable can have, which are all declarations except those of
  /// running batches, operations and drafts.
  explicit JudgedCallable(const Named& given);

  nanobind::object function;  ///< a callable, or the name of a built-in sampler, or None
  /// A function that makes an object that keeps requests, or None.
  nanobind::object running_batch = nanobind::none();
  nanobind::dict operations;  ///< functions of row operations, by name; no other member is set then
  bool keep_dtype = false;    ///< whether the operations' results have the dtype of the rows
  /// Declarations of a callable that verifies drafts; all other members are then unset. "verifier"
  /// is the callable. "target" is "logits" or "probs". "drafts" are the kinds of knowledge about
  /// the drafts' distribution. "acceptance" is the rule's name, or None. "faults" and "counts_all"
  /// are those of DraftContract. Empty: none.
  nanobind::dict drafts;
  std::string name, version, semantics, arrays;
  std::vector<std::string> abilities, lacks, randomness;

  bool verifies_drafts() const { return !drafts.empty(); }
  bool is_builtin() const { return nanobind::isinstance<nanobind::str>(function); }
};

/// Returns the callable. Throws harness::UsageError for an unknown name.
std::shared_ptr<Callable> callable_of(const JudgedCallable& judged);

/// Returns the built-in sampler of that name. Otherwise returns a sampler that calls the callable,
/// which is stored in `callable`.
std::unique_ptr<harness::Sampler> sampler_of(const JudgedCallable& judged,
                                             std::shared_ptr<Callable>& callable);

/// Handles Python's signals while other threads work, so that Ctrl-C ends the run, not the
/// interpreter.
class Interruptible {
 public:
  explicit Interruptible(std::atomic<bool>& cancelled) : cancelled_(cancelled) {}

  template <class Result>
  void wait(const std::future<Result>& run) {
    const nanobind::gil_scoped_release others_may_run;
    while (run.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
      if (cancelled_) continue;
      const nanobind::gil_scoped_acquire lock;
      if (PyErr_CheckSignals() == 0) continue;
      error_.emplace();
      by_ctrl_c_ = error_->matches(PyExc_KeyboardInterrupt);
      cancelled_ = true;
    }
  }
  /// Keeps another thread's exception. Only the first exception is kept.
  void keep(nanobind::python_error error) {
    if (!error_) error_.emplace(std::move(error));
    cancelled_ = true;
  }
  void raise_what_came() {
    if (error_) throw nanobind::python_error(*error_);
  }
  /// Raises the kept exception unless it came from Ctrl-C, because the result reports Ctrl-C as the
  /// run's end.
  void raise_what_came_but_interrupts() {
    if (!by_ctrl_c_) raise_what_came();
  }

 private:
  std::atomic<bool>& cancelled_;
  std::optional<nanobind::python_error> error_;
  bool by_ctrl_c_ = false;
};

}  // namespace fairdraw::python
