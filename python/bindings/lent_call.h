// Calls of Python code under test, with arrays that are lent for one call.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <string>

#include "python/bindings/batch_view.h"

namespace fairdraw::python {

/// A batch as Python sees it, until this ends.
class LentView {
 public:
  LentView(const fairdraw_batch& batch, Arrays arrays, const Loan& loan);
  ~LentView();
  LentView(const LentView&) = delete;
  LentView& operator=(const LentView&) = delete;

  const nanobind::object& object() const { return object_; }

 private:
  nanobind::object object_;
};

std::string name_of_type(nanobind::handle object);

/// Runs `work`, which calls what `who` names, and returns what `work` does. An exception of
/// Python's becomes a message that has its name and text, and floating-point exceptions that the
/// call leaves unmasked are masked again and named.
std::string guarded(const char* who, const std::function<std::string()>& work);

/// After a call that `who` names, on what lent the arrays (a batch, a step), when nothing of this
/// side holds its arrays: `refused`, or that an array is still held. Then `retained` says so too:
/// no further call is to be made.
std::string given_back(const char* who, const char* what, Loan& loan, std::string& retained,
                       std::string refused);

}  // namespace fairdraw::python
