// Makes the batch for a callable under test, in which the harness's arrays are arrays of NumPy or
// torch. No array is copied, so that no array may outlive the call.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "harness/contract/batch.h"

namespace fairdraw::python {

enum class Arrays { numpy, torch };

/// Converts "numpy" or "torch". For another name, throws harness::UsageError with the closest
/// allowed name.
Arrays arrays_from_name(const std::string& name);

/// A loan of arrays to Python code. The loan knows whether the Python code still holds one of the
/// arrays. All arrays own references to one capsule, which is destroyed together with the last
/// array.
class Loan {
 public:
  Loan();
  ~Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  nanobind::handle owner() const { return owner_; }
  /// Gives up the lender's reference to the capsule. Returns true if a lent array still holds a
  /// reference.
  bool still_held();

 private:
  struct State {
    bool ended = false;      ///< whether the capsule is destroyed
    bool abandoned = false;  ///< whether no code will ask again, so that the capsule's destructor
                             ///< frees the state
  };
  State* state_;
  nanobind::object owner_;
};

/// Makes Python arrays of the harness's memory. Each array is lent from `loan`, which must outlive
/// this object.
class LentArrays {
 public:
  LentArrays(Arrays arrays, const Loan& loan) : arrays_(arrays), loan_(&loan) {}

  nanobind::object matrix(const void* data, std::int64_t rows, std::int64_t columns,
                          std::int64_t stride, nanobind::dlpack::dtype dtype, bool writable) const;
  /// Returns a contiguous, read-only array with three axes.
  nanobind::object cube(const void* data, std::int64_t first, std::int64_t second,
                        std::int64_t third, nanobind::dlpack::dtype dtype) const;
  nanobind::object vector(const void* data, std::int64_t size, nanobind::dlpack::dtype dtype,
                          bool writable) const;
  /// Returns the dtype that has this number in the contract: 0 float32, 1 float16, 2 bfloat16 (in
  /// NumPy uint16 bits).
  nanobind::dlpack::dtype value_dtype(std::uint32_t dtype) const;
  /// Returns uint64 for NumPy, and int64 for torch, which supports few operations on unsigned
  /// types.
  nanobind::dlpack::dtype unsigned_64() const;
  nanobind::dlpack::dtype unsigned_32() const;

 private:
  nanobind::object array(const void* data, std::size_t axes, const std::size_t* shape,
                         const std::int64_t* strides, nanobind::dlpack::dtype dtype,
                         bool writable) const;

  Arrays arrays_;
  const Loan* loan_;
};

/// The batch of a call in the form that Python code gets. Between the callable's return and this
/// object's end, every attribute raises RuntimeError.
class BatchView : public LentArrays {
 public:
  BatchView(const fairdraw_batch& batch, Arrays arrays, const Loan& loan)
      : LentArrays(arrays, loan), batch_(&batch) {}
  void close() { batch_ = nullptr; }

  const fairdraw_batch& get() const;  ///< throws std::runtime_error after the call has ended

 private:
  const fairdraw_batch* batch_;
};

}  // namespace fairdraw::python
