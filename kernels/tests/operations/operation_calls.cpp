#include "tests/operations/operation_calls.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/sample/random_rows.h"

namespace fairdraw::suites {
namespace {

template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Scales most rows into the range of float16: the scale of probabilities is arbitrary, but float16
/// has few exponents.
void rescale(std::vector<float>& probs, std::mt19937_64& random) {
  if (random() % 8 == 0) return;
  float largest = 0;
  for (const float p : probs) {
    if (std::isfinite(p)) largest = std::max(largest, p);
  }
  if (largest == 0) return;
  const int exponent = std::ilogb(largest) - static_cast<int>(random() % 16);
  for (float& p : probs) p = std::ldexp(p, -exponent);
}

/// The result that an operation writes besides statuses.
enum class Writes { tokens, matrix, masked };

/// Properties of the operations, in the order of Operation.
struct OperationTraits {
  const char* name;
  bool from_probs;
  Writes writes;
};
constexpr std::array<OperationTraits, kOperations> kTraits = {{
    {"softmax", false, Writes::matrix},
    {"sampling_from_logits", false, Writes::tokens},
    {"sampling_from_probs", true, Writes::tokens},
    {"top_k_sampling_from_probs", true, Writes::tokens},
    {"top_p_sampling_from_probs", true, Writes::tokens},
    {"min_p_sampling_from_probs", true, Writes::tokens},
    {"top_k_top_p_sampling_from_logits", false, Writes::tokens},
    {"top_k_top_p_sampling_from_probs", true, Writes::tokens},
    {"top_k_mask_logits", false, Writes::masked},
    {"top_k_mask_logits in place", false, Writes::masked},
    {"top_k_renorm_probs", true, Writes::matrix},
    {"top_p_renorm_probs", true, Writes::matrix},
}};

const OperationTraits& traits_of(Operation operation) {
  return kTraits.at(static_cast<std::size_t>(operation));
}

bool draws(Operation operation) { return traits_of(operation).writes == Writes::tokens; }

}  // namespace

std::vector<float> random_probs_of(DType dtype, std::mt19937_64& random, std::int64_t vocab) {
  std::vector<float> probs = random_probs(random(), static_cast<std::size_t>(vocab));
  if (dtype == DType::float16) rescale(probs, random);
  return probs;
}

const char* to_string(Operation operation) { return traits_of(operation).name; }

OperationOutputs::OperationOutputs(Operation operation, const OwnedCall& call) {
  if (draws(operation)) {
    prefill(tokens, call.outputs() * call.num_samples);
    prefill(statuses, call.outputs());
    return;
  }
  prefill(statuses, call.rows);
  if (operation == Operation::top_k_mask_logits_in_place) {
    masked = call.values;
    masked_stride = call.row_stride;
  } else if (traits_of(operation).writes == Writes::masked) {
    masked_stride = call.vocab + call.rows % 4;
    const std::int64_t size = call.dtype == DType::float32 ? 4 : 2;
    prefill(masked, static_cast<std::int64_t>(call.shift) + call.rows * masked_stride * size);
  } else {
    matrix_stride = call.vocab + call.rows % 5;
    prefill(matrix, call.rows * matrix_stride);
  }
}

bool OperationOutputs::operator==(const OperationOutputs& other) const {
  return same_bytes(tokens, other.tokens) && same_bytes(statuses, other.statuses) &&
         same_bytes(matrix, other.matrix) && same_bytes(masked, other.masked);
}

OwnedCall random_operation_call(Operation operation, std::uint64_t number, std::int64_t rows,
                                std::int64_t vocab) {
  OwnedCall call = random_call(number, rows, vocab);
  call.allowed.clear();
  call.active.clear();
  if (!draws(operation)) call.indices.clear();
  if (traits_of(operation).from_probs) {
    std::mt19937_64 random(~number);
    for (std::int64_t row = 0; row < rows; ++row) {
      call.set_row(row, random_probs_of(call.dtype, random, vocab).data());
    }
  }
  return call;
}

}  // namespace fairdraw::suites
