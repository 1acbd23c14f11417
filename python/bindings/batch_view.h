// What a callable under test is given: a batch of the harness, as arrays of NumPy or torch that lie
// where the harness has them. Nothing is copied, so nothing may outlive the call.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "harness/contract/batch.h"

namespace fairdraw::python {

enum class Arrays { numpy, torch };

/// "numpy" or "torch"; throws harness::UsageError with the closest name.
Arrays arrays_from_name(const std::string& name);

/// Knows whether an array that was lent is still held. Each array owns a reference to one capsule;
/// the capsule's end is the end of the last of them.
class Loan {
 public:
  Loan();
  ~Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  nanobind::handle owner() const { return owner_; }
  /// Gives up this side's reference; true where an array holds another one.
  bool still_held();

 private:
  struct State {
    bool ended = false;      ///< the capsule is gone
    bool abandoned = false;  ///< nothing will ask any more: the capsule's end frees the state
  };
  State* state_;
  nanobind::object owner_;
};

/// Arrays of the harness as Python sees them, each lent from `loan`, which outlives this.
class LentArrays {
 public:
  LentArrays(Arrays arrays, const Loan& loan) : arrays_(arrays), loan_(&loan) {}

  nanobind::object matrix(const void* data, std::int64_t rows, std::int64_t columns,
                          std::int64_t stride, nanobind::dlpack::dtype dtype, bool writable) const;
  /// Without gaps, read-only.
  nanobind::object cube(const void* data, std::int64_t first, std::int64_t second,
                        std::int64_t third, nanobind::dlpack::dtype dtype) const;
  nanobind::object vector(const void* data, std::int64_t size, nanobind::dlpack::dtype dtype,
                          bool writable) const;
  /// Of the contract's 0 float32, 1 float16, 2 bfloat16, which in NumPy are uint16 bits.
  nanobind::dlpack::dtype value_dtype(std::uint32_t dtype) const;
  /// torch computes little with unsigned integers: there they come as the same bits, signed.
  nanobind::dlpack::dtype unsigned_64() const;
  nanobind::dlpack::dtype unsigned_32() const;

 private:
  nanobind::object array(const void* data, std::size_t axes, const std::size_t* shape,
                         const std::int64_t* strides, nanobind::dlpack::dtype dtype,
                         bool writable) const;

  Arrays arrays_;
  const Loan* loan_;
};

/// The batch as Python sees it. Between the callable's return and the object's end, every attribute
/// raises RuntimeError.
class BatchView : public LentArrays {
 public:
  BatchView(const fairdraw_batch& batch, Arrays arrays, const Loan& loan)
      : LentArrays(arrays, loan), batch_(&batch) {}
  void close() { batch_ = nullptr; }

  const fairdraw_batch& get() const;  ///< throws std::runtime_error once the call is over

 private:
  const fairdraw_batch* batch_;
};

}  // namespace fairdraw::python
