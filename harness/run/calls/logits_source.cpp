#include "harness/run/calls/logits_source.h"

#include <algorithm>
#include <limits>

#include "reference/integer_model.h"

namespace fairdraw::harness {
namespace {

class FamilySource final : public LogitsSource {
 public:
  FamilySource(Family family, std::uint64_t seed, std::int64_t vocab, DType dtype, float added)
      : family_(family), seed_(seed), vocab_(vocab), dtype_(dtype), added_(added) {}

  std::string name() const override { return to_string(family_); }
  DType dtype() const override { return dtype_; }
  std::int64_t vocab() const override { return vocab_; }
  std::int64_t rows() const override { return std::numeric_limits<std::int64_t>::max(); }

  void fill(std::int64_t row, std::span<float> out) const override {
    generate_row(family_, seed_, static_cast<std::uint64_t>(row), out);
    // Nothing is added if `added_` is 0, because -0 + 0 would be +0.
    for (float& value : out) value = added_ == 0 ? value : value + added_;
    if (dtype_ == DType::float32) return;
    // Subnormal float32 values are 0 in float16, so for float16 the family has the subnormals of
    // float16, which are below 2^-14. The dtype bfloat16 has the exponents of float32, so there the
    // subnormal values stay as they are.
    const bool moved = family_ == Family::subnormal && dtype_ == DType::float16;
    for (float& value : out) value = rounded_to(dtype_, moved ? value * 0x1p112F : value);
  }

 private:
  Family family_;
  std::uint64_t seed_;
  std::int64_t vocab_;
  DType dtype_;
  float added_;
};

class Float32Source final : public LogitsSource {
 public:
  Float32Source(std::unique_ptr<LogitsSource> source, float divisor)
      : source_(std::move(source)), divisor_(divisor) {}

  std::string name() const override { return source_->name(); }
  DType dtype() const override { return DType::float32; }
  std::int64_t vocab() const override { return source_->vocab(); }
  std::int64_t rows() const override { return source_->rows(); }

  void fill(std::int64_t row, std::span<float> out) const override {
    source_->fill(row, out);
    for (float& value : out) value /= divisor_;
  }

 private:
  std::unique_ptr<LogitsSource> source_;
  float divisor_;
};

class CapturedSource final : public LogitsSource {
 public:
  explicit CapturedSource(std::shared_ptr<const CapturedLogits> captured)
      : captured_(std::move(captured)) {}

  std::string name() const override { return captured_->name; }
  DType dtype() const override { return captured_->dtype; }
  std::int64_t vocab() const override { return captured_->vocab; }
  std::int64_t rows() const override { return captured_->rows; }

  void fill(std::int64_t row, std::span<float> out) const override {
    const std::vector<float> values = captured_->row(row % captured_->rows);
    std::copy(values.begin(), values.end(), out.begin());
  }

 private:
  std::shared_ptr<const CapturedLogits> captured_;
};

}  // namespace

float rounded_to(DType dtype, float value) {
  switch (dtype) {
    case DType::float32:
      return value;
    case DType::float16:
      return reference::float_from_half(to_float16(value));
    case DType::bfloat16:
      return reference::float_from_bfloat16(to_bfloat16(value));
  }
  return value;
}

std::unique_ptr<LogitsSource> family_source(Family family, std::uint64_t seed, std::int64_t vocab,
                                            DType dtype, float added) {
  return std::make_unique<FamilySource>(family, seed, vocab, dtype, added);
}

std::unique_ptr<LogitsSource> float32_source(std::unique_ptr<LogitsSource> source, float divisor) {
  return std::make_unique<Float32Source>(std::move(source), divisor);
}

std::unique_ptr<LogitsSource> captured_source(std::shared_ptr<const CapturedLogits> captured) {
  return std::make_unique<CapturedSource>(std::move(captured));
}

}  // namespace fairdraw::harness
