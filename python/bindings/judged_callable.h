// What fairdraw.verify and fairdraw.fuzz judge, as Python gives it, and how Ctrl-C ends them.
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

/// A callable, and what is said of it by the names of ability_names.h.
struct JudgedCallable {
  /// Reads what is said of every callable: all but a running batch, operations and drafts.
  explicit JudgedCallable(const Named& given);

  nanobind::object function;  ///< a callable, or the name of a built-in sampler, or None
  /// Makes an object that keeps requests, or None.
  nanobind::object running_batch = nanobind::none();
  nanobind::dict
      operations;           ///< functions of operations on rows, by name; then it has nothing else
  bool keep_dtype = false;  ///< their results have the dtype of the rows
  /// Of a callable that verifies drafts, which then has nothing else: "verifier", the callable;
  /// "target", "logits" or "probs"; "drafts", what is known of their distribution; "acceptance",
  /// the rule's name, or None; "faults" and "counts_all" of DraftContract. Empty: there is none.
  nanobind::dict drafts;
  std::string name, version, semantics, arrays;
  std::vector<std::string> abilities, lacks, randomness;

  bool verifies_drafts() const { return !drafts.empty(); }
  bool is_builtin() const { return nanobind::isinstance<nanobind::str>(function); }
};

/// Throws harness::UsageError for a name that is none.
std::shared_ptr<Callable> callable_of(const JudgedCallable& judged);

/// The built-in sampler that it names; or one that calls the callable, which `callable` is then.
std::unique_ptr<harness::Sampler> sampler_of(const JudgedCallable& judged,
                                             std::shared_ptr<Callable>& callable);

/// Python's signals while other threads work: Ctrl-C ends the run, not the interpreter.
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
  /// Another thread's exception; the first one counts.
  void keep(nanobind::python_error error) {
    if (!error_) error_.emplace(std::move(error));
    cancelled_ = true;
  }
  void raise_what_came() {
    if (error_) throw nanobind::python_error(*error_);
  }
  /// The same, but for Ctrl-C, of which a result says that it ended the run.
  void raise_what_came_but_interrupts() {
    if (!by_ctrl_c_) raise_what_came();
  }

 private:
  std::atomic<bool>& cancelled_;
  std::optional<nanobind::python_error> error_;
  bool by_ctrl_c_ = false;
};

}  // namespace fairdraw::python
