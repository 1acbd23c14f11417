// Calls Python code under test, with arrays lent for one call.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <string>

#include "python/bindings/batch_view.h"

namespace fairdraw::python {

/// A view of a batch for Python code, valid until this object is destroyed.
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

/// Runs `work`, which calls Python code named `who`, and returns the result of `work`. A Python
/// exception becomes a message with the exception's name and text. If the call leaves
/// floating-point exceptions unmasked, they are masked again and reported.
std::string guarded(const char* who, const std::function<std::string()>& work);

/// Checks, after a call of `who`, that no lent array is still held. `what` names the lender (a
/// batch, a step). Returns `refused`, or a message that an array is held. Such a message is also
/// stored in `retained` to forbid further calls. Precondition: the caller itself holds no lent
/// arrays.
std::string given_back(const char* who, const char* what, Loan& loan, std::string& retained,
                       std::string refused);

}  // namespace fairdraw::python
