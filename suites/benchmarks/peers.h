// The textbook samplers that engines had before: what a sampler is compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/integer_model.h"

namespace fairdraw::suites {

/// Sorts the whole row, softmax and cumulative sums in float32, one draw by inverse CDF.
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

/// Softmax and inverse CDF over the row, no filter.
class SoftmaxPeer {
 public:
  std::int32_t sample(const float* logits, std::size_t vocab, float temperature, float uniform);

 private:
  std::vector<float> probs_;
};

}  // namespace fairdraw::suites
