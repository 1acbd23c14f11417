// Textbook samplers of earlier engines, with which samplers are compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/integer_model.h"

namespace fairdraw::suites {

/// A sampler that sorts the whole row, computes softmax and cumulative sums in float32, and draws
/// by the inverse CDF.
class SortingPeer {
 public:
  std::int32_t sample(const float* logits, std::size_t vocab,
                      const reference::RowParameters& parameters, float uniform);

 private:
  struct Entry {
    float logit;
    std::int32_t id;
  };
  std::vector<Entry> entries_;
  std::vector<float> probs_;
};

/// A sampler that draws by softmax and inverse CDF over the row, without filters.
class SoftmaxPeer {
 public:
  std::int32_t sample(const float* logits, std::size_t vocab, float temperature, float uniform);

 private:
  std::vector<float> probs_;
};

}  // namespace fairdraw::suites
