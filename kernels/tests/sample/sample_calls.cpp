#include "tests/sample/sample_calls.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace fairdraw::suites {
namespace {

/// Fills an array with bytes 0xca, which in every type are no valid token, status or probability.
template <class T>
void prefill(std::vector<T>& values, std::int64_t size) {
  values.resize(static_cast<std::size_t>(size));
  std::memset(values.data(), 0xca, values.size() * sizeof(T));
}

/// Returns a bound on the difference of two backends' log-probabilities. A log-probability is
/// (x - max) / T - ln(mass), in double, rounded to float32 once. The operands are equal, but each
/// backend has its own logarithm, within 1 ulp of the real logarithm. For a mass of at most 2^20
/// the logarithm is below 16, and its ulp is at most 2^-49. Each subtraction rounds by 2^-53 of its
/// value. With this rounding, the doubles differ by at most 2^-48 + 2^-52 |value|. So the doubles
/// may round to two neighbouring floats, which are 2^-23 |value| apart (or one subnormal step).
double logprob_bound(double value) {
  const double size = std::fabs(value);
  return 0x1p-48 + 0x1p-52 * size + 0x1p-23 * size + 0x1p-149;
}

bool logprobs_agree(float expected, float got) {
  if (!std::isfinite(expected) || !std::isfinite(got)) {
    return std::bit_cast<std::uint32_t>(expected) == std::bit_cast<std::uint32_t>(got);
  }
  const auto e = static_cast<double>(expected);
  return std::fabs(static_cast<double>(got) - e) <= logprob_bound(e);
}

/// Collects the differences of arrays that have `per_row` values per output or row.
class Comparison {
 public:
  Comparison(const OwnedCall& call, std::size_t max_found) : call_(call), max_found_(max_found) {}

  template <class T, class Agree>
  void compare(const char* name, const std::vector<T>& expected, const std::vector<T>& got,
               std::int64_t per_row, bool by_output, const Agree& agree) {
    if (expected.empty() || got.empty()) return;
    if (expected.size() != got.size()) {
      found_.push_back(
          {-1, fmt::format("{}: {} values instead of {}", name, got.size(), expected.size())});
      return;
    }
    if (std::memcmp(expected.data(), got.data(), expected.size() * sizeof(T)) == 0) return;
    for (std::size_t i = 0; i < expected.size() && found_.size() < max_found_; ++i) {
      if (agree(expected[i], got[i])) continue;
      const std::int64_t number = static_cast<std::int64_t>(i) / per_row;
      const std::int64_t row = by_output ? call_.row_of(number) : number;
      found_.push_back(
          {row >= 0 && row < call_.rows ? row : -1,
           fmt::format("{} {} of {} {}: {} instead of {}", name,
                       static_cast<std::int64_t>(i) % per_row, by_output ? "output" : "row", number,
                       shown(got[i]), shown(expected[i]))});
    }
  }

  template <class T>
  void compare_bits(const char* name, const std::vector<T>& expected, const std::vector<T>& got,
                    std::int64_t per_row, bool by_output) {
    compare(name, expected, got, per_row, by_output,
            [](T a, T b) { return std::memcmp(&a, &b, sizeof(T)) == 0; });
  }

  std::vector<Difference> found() && { return std::move(found_); }

 private:
  static std::string shown(std::int32_t value) { return std::to_string(value); }
  static std::string shown(std::uint32_t value) { return fmt::format("{:#010x}", value); }
  static std::string shown(float value) {
    return fmt::format("{:a} ({:#010x})", value, std::bit_cast<std::uint32_t>(value));
  }
  static std::string shown(RowStatus value) {
    const auto number = static_cast<std::int32_t>(value);
    return number >= 0 && number < kRowStatuses ? to_string(value) : std::to_string(number);
  }

  const OwnedCall& call_;
  std::size_t max_found_;
  std::vector<Difference> found_;
};

}  // namespace

SampleOutputs::SampleOutputs(const OwnedCall& call, const CallResults& wanted) {
  const std::int64_t outputs = call.outputs();
  const std::int64_t count = outputs * call.num_samples;
  prefill(tokens, count);
  if (wanted.statuses) prefill(statuses, outputs);
  if (wanted.support_size) prefill(support_size, outputs);
  if (wanted.logprobs) {
    prefill(logprob, count);
    prefill(logprob_filtered, count);
  }
  // Leaves gaps between rows; the length of a gap depends only on the call.
  mask_stride = (call.vocab + 31) / 32 + call.rows % 3;
  probs_stride = call.vocab + call.rows % 5;
  if (wanted.mask) prefill(mask, call.rows * mask_stride);
  if (wanted.probs) prefill(probs, call.rows * probs_stride);
}

std::string describe_row(const OwnedCall& call, std::int64_t row) {
  std::string text = fmt::format(
      "row {} of {}, vocab {}, {}, row_stride {}, byte {}, purpose {}, num_samples {}, indices {}",
      row, call.rows, call.vocab, to_string(call.dtype), call.row_stride, call.shift,
      static_cast<int>(call.purpose), call.num_samples, call.indices.size());
  if (row < 0) return text;
  text += fmt::format(
      ", T {:a}, top_k {}, top_p {:a}, min_p {:a}, tie_rule {}, filter_order {}, {}",
      call.temperature.at(row), call.top_k.at(row), call.top_p.at(row), call.min_p.at(row),
      static_cast<int>(call.tie_rule.at(row)), static_cast<int>(call.filter_order.at(row)),
      call.allowed.empty() ? "all allowed" : "some banned");
  if (!call.indices.empty()) return text;
  return text + fmt::format(", seed {} ({}), offset {}", call.seed.at(row),
                            call.seed.is_array ? "array" : "scalar", call.offset.at(row));
}

std::vector<Difference> differences(const OwnedCall& call, const SampleOutputs& expected,
                                    const SampleOutputs& got, std::size_t max_found) {
  Comparison comparison(call, max_found);
  comparison.compare_bits("status", expected.statuses, got.statuses, 1, true);
  comparison.compare_bits("support size", expected.support_size, got.support_size, 1, true);
  comparison.compare_bits("mask word", expected.mask, got.mask, expected.mask_stride, false);
  comparison.compare_bits("token", expected.tokens, got.tokens, call.num_samples, true);
  comparison.compare_bits("probability", expected.probs, got.probs, expected.probs_stride, false);
  comparison.compare("log-probability", expected.logprob, got.logprob, call.num_samples, true,
                     logprobs_agree);
  comparison.compare("filtered log-probability", expected.logprob_filtered, got.logprob_filtered,
                     call.num_samples, true, logprobs_agree);
  return std::move(comparison).found();
}

}  // namespace fairdraw::suites
