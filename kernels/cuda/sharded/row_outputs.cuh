// Outputs of the call that belong to a row, and the indices of their tokens.
//
// In a call without row indices, each row has one output. In a call with row indices, a row has the
// outputs that name it, possibly none, in any order, because each output depends only on its own
// seed and index. The exchange blocks of tokens, sums and ranks have a place for each output, in
// the order of the outputs, so that all shards use the same places.
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

  /// Returns the number of tokens that all outputs of the row have; these tokens are numbered from
  /// 0.
  __device__ int tokens() const { return count_ * samples_; }
  __device__ std::int64_t output_of(int token) const {
    return listed_ == nullptr ? row_ : listed_[token / samples_];
  }
  __device__ int sample_of(int token) const {
    return listed_ == nullptr ? token : token % samples_;
  }
  /// Returns the index of one of the row's tokens in an array [outputs, num_samples] of all tokens.
  __device__ std::int64_t at(int token) const {
    return output_of(token) * samples_ + sample_of(token);
  }
  /// Returns the random word of an attempt to draw a token. If the caller gives random words, they
  /// are used for the first attempt.
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
