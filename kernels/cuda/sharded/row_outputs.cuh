// Outputs that belong to a row, and the indices of their tokens.
//
// In a call without indices, a row has one output. In a call with indices, a row has the outputs
// that name it, possibly none, in any order: each output depends only on its own seed and index.
// Exchange blocks of tokens, sums and ranks have a place for each output, in the order of outputs,
// so that shards agree on the places.
#pragma once

#include <cstdint>

#include "common/proposals.h"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {

class RowOutputs {
 public:
  __device__ RowOutputs(const ShardedTask& task, std::int64_t row)
      : row_(row), samples_(task.num_samples) {
    if (task.output_begins == nullptr) return;
    const std::int32_t begin = task.output_begins[row];
    listed_ = task.outputs_by_row + begin;
    count_ = task.output_begins[row + 1] - begin;
  }

  __device__ int count() const { return count_; }
  __device__ std::int64_t output(int i) const { return listed_ == nullptr ? row_ : listed_[i]; }

  /// Returns the number of tokens of all outputs of the row; tokens are numbered from 0.
  __device__ int tokens() const { return count_ * samples_; }
  __device__ std::int64_t output_of(int token) const {
    return listed_ == nullptr ? row_ : listed_[token / samples_];
  }
  __device__ int sample_of(int token) const {
    return listed_ == nullptr ? token : token % samples_;
  }
  /// Returns the index of a row's token among the tokens of all outputs, [outputs, num_samples].
  __device__ std::int64_t at(int token) const {
    return output_of(token) * samples_ + sample_of(token);
  }
  /// Returns the random word of an attempt. Random words that the caller gave are used for the
  /// first attempt.
  __device__ std::uint64_t word_of(const ShardedTask& task, int token,
                                   std::uint32_t attempt) const {
    if (task.words != nullptr) return task.words[at(token)];
    const std::int64_t output = output_of(token);
    const auto index =
        static_cast<std::uint32_t>(task.seed.is_array() ? sample_of(token) : at(token));
    return DrawWords{task.seed.at(output), task.offset.at(output), task.purpose, index}.of_attempt(
        attempt);
  }

 private:
  std::int64_t row_;
  int samples_;
  int count_ = 1;
  const std::int32_t* listed_ = nullptr;
};

}  // namespace fairdraw::cuda
