// Makes the batch for a callable that verifies drafts, as arrays of NumPy or torch, and reads the
// callable's answer.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "python/bindings/batch_view.h"
#include "python/bindings/callable.h"
#include "python/bindings/draft_call.h"

namespace fairdraw::python {

/// After the callable returns, and until this object ends, every attribute raises RuntimeError.
class DraftBatchView : public LentArrays {
 public:
  DraftBatchView(const DraftCall& call, Arrays arrays, const Loan& loan)
      : LentArrays(arrays, loan), call_(&call) {}
  void close() { call_ = nullptr; }

  const DraftCall& get() const;  ///< throws std::runtime_error after the call has ended

 private:
  const DraftCall* call_;
};

/// Calls callable.verifier with a DraftBatchView and takes the result. The result is the tokens, a
/// tuple of tokens and numbers of accepted drafts, or the batch itself, if the callable wrote its
/// out_* arrays. Returns an empty string, or a message that describes a result of another kind.
/// Precondition: the caller holds the Python interpreter's lock.
std::string call_verifier(Callable& callable, const fairdraw_chain& chain);
std::string call_verifier(Callable& callable, const fairdraw_verification& call);

}  // namespace fairdraw::python
