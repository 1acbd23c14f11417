// Logits processing for whole calls, hard on purpose (sample_calls.h).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// What is drawn for the rows of one call.
class ProcessingRows {
 public:
  ProcessingRows(std::uint64_t number, const SampleCall& call)
      : random_(number), call_(call), vocab_(static_cast<std::uint64_t>(call.vocab)) {
    // Faults fail rows: in half of the calls there are none.
    fault_every_ = random_() % 2 == 0 ? 0 : 16;
  }

  bool coin() { return random_() % 2 == 0; }
  bool fault() { return fault_every_ != 0 && random_() % fault_every_ == 0; }
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  template <class T, std::size_t n>
  T one_of(const std::array<T, n>& values) {
    return values[below(n)];
  }

  std::int32_t token() {
    if (below(8) == 0) return coin() ? 0 : static_cast<std::int32_t>(vocab_ - 1);
    return static_cast<std::int32_t>(below(vocab_));
  }
  std::int32_t no_token() {
    return one_of(std::array{-2, static_cast<std::int32_t>(vocab_),
                             std::numeric_limits<std::int32_t>::min(),
                             std::numeric_limits<std::int32_t>::max()});
  }

  /// Ids, with repetitions: from none to some hundred, and rarely more than a block has threads.
  std::vector<std::int32_t> ids(std::uint64_t most) {
    const std::uint64_t length = one_of(
        std::array<std::uint64_t, 5>{0, 1, below(8), below(most), below(64) == 0 ? 3000U : 20U});
    std::vector<std::int32_t> list(length);
    const bool few = coin();
    std::array<std::int32_t, 4> repeated{};
    for (std::int32_t& id : repeated) id = token();
    for (std::int32_t& id : list) id = few && coin() ? one_of(repeated) : token();
    return list;
  }

  std::vector<std::int32_t> history() {
    std::vector<std::int32_t> list = ids(600);
    for (std::int32_t& id : list) {
      if (below(16) == 0) id = -1;
    }
    mutation(list);
    return list;
  }

  void mutation(std::vector<std::int32_t>& list) {
    if (!list.empty() && fault()) list[below(list.size())] = no_token();
  }

  /// Makes some list of a row lie outside of its buffer.
  void mutation(CallLists& lists) {
    if (!fault() || lists.lengths.empty()) return;
    const std::uint64_t row = below(lists.lengths.size());
    if (coin()) {
      lists.lengths[row] = one_of(std::array{-1, std::numeric_limits<std::int32_t>::max()});
    } else {
      lists.begins[row] = one_of(std::array<std::int64_t, 2>{-1, std::int64_t{1} << 40});
    }
  }

  float penalty() { return one_of(std::array{0.0F, 0.5F, -0.3F, 2.0F, -0x1p64F, 0x1p-60F}); }
  float mutated(float value) {
    return fault() ? one_of(std::array{kNan, kInf, -kInf, 0x1.000002p64F}) : value;
  }

  const SampleCall& call() const { return call_; }

 private:
  std::mt19937_64 random_;
  const SampleCall& call_;
  std::uint64_t vocab_;
  std::uint64_t fault_every_ = 0;
};

template <class T, class Value>
void set_rows(CallParameter<T>& parameter, std::int64_t rows, const Value& value) {
  parameter.make_array(rows);
  for (T& of_row : parameter.values) of_row = value();
}

void add_penalties(CallProcessing& processing, ProcessingRows& rows) {
  const std::int64_t count = rows.call().rows;
  if (rows.coin()) {
    set_rows(processing.repetition_penalty, count, [&] {
      const float repetition = rows.one_of(
          std::array{1.0F, 1.3F, 0.7F, 2.0F, 0x1p64F, rows.below(8) == 0 ? 0x1p-64F : 1.1F});
      return rows.fault() ? rows.one_of(std::array{0.0F, -1.0F, kNan, kInf}) : repetition;
    });
  }
  if (rows.coin()) {
    set_rows(processing.frequency_penalty, count, [&] { return rows.mutated(rows.penalty()); });
  }
  if (rows.coin()) {
    set_rows(processing.presence_penalty, count, [&] { return rows.mutated(rows.penalty()); });
  }
}

void add_histories(CallProcessing& processing, ProcessingRows& rows) {
  const std::int64_t count = rows.call().rows;
  const std::int64_t vocab = rows.call().vocab;
  if (rows.coin()) {
    for (std::int64_t row = 0; row < count; ++row) processing.prompt.add(rows.history());
    rows.mutation(processing.prompt);
  } else if (rows.coin()) {
    processing.mask_stride = (vocab + 31) / 32 + static_cast<std::int64_t>(rows.below(3));
    processing.prompt_mask.resize(static_cast<std::size_t>(count * processing.mask_stride));
    for (std::uint32_t& word : processing.prompt_mask) {
      word = rows.below(8) == 0 ? static_cast<std::uint32_t>(rows.below(1ULL << 32)) : 0U;
    }
  }
  if (rows.coin()) {
    for (std::int64_t row = 0; row < count; ++row) processing.output.add(rows.history());
    rows.mutation(processing.output);
  }
  if (rows.below(4) == 0 && count * vocab < 4000000) {
    processing.counts_stride = vocab + static_cast<std::int64_t>(rows.below(3));
    processing.output_counts.resize(static_cast<std::size_t>(count * processing.counts_stride));
    for (std::int32_t& n : processing.output_counts) {
      if (rows.below(50) == 0) n = static_cast<std::int32_t>(rows.below(5));
    }
    const std::uint64_t at = rows.below(processing.output_counts.size());
    if (rows.fault()) processing.output_counts[at] = -1;
  }
}

void add_biases(CallProcessing& processing, ProcessingRows& rows) {
  if (!rows.coin()) return;
  for (std::int64_t row = 0; row < rows.call().rows; ++row) {
    std::vector<std::int32_t> list = rows.ids(100);
    rows.mutation(list);
    processing.bias_ids.add(list);
  }
  for (std::size_t i = 0; i < processing.bias_ids.ids.size(); ++i) {
    const float bias = rows.one_of(std::array{0.0F, -0.0F, 5.0F, -2.5F, -100.0F, -kInf, 0x1p-30F});
    processing.bias_values.push_back(bias);
  }
  if (!processing.bias_values.empty() && rows.fault()) {
    processing.bias_values[rows.below(processing.bias_values.size())] =
        rows.one_of(std::array{kNan, kInf, 0x1.000002p64F, -0x1.000002p64F});
  }
  rows.mutation(processing.bias_ids);
}

void add_bans(CallProcessing& processing, ProcessingRows& rows) {
  const std::int64_t count = rows.call().rows;
  const auto lists = [&](CallLists& to, std::uint64_t most) {
    for (std::int64_t row = 0; row < count; ++row) {
      std::vector<std::int32_t> list = rows.ids(most);
      rows.mutation(list);
      to.add(list);
    }
    rows.mutation(to);
  };
  const bool has_output = !processing.output.lengths.empty();
  if (rows.coin()) {
    if (!has_output || rows.coin()) {
      for (std::int64_t row = 0; row < count; ++row) {
        const auto length = static_cast<std::int32_t>(rows.below(10));
        processing.output_lengths.push_back(rows.fault() ? -1 : length);
      }
    }
    set_rows(processing.min_tokens, count,
             [&] { return rows.fault() ? -1 : static_cast<std::int32_t>(rows.below(12)); });
    lists(processing.stop_ids, 5);
  }
  if (rows.below(3) == 0) lists(processing.allowed_ids, 200);
}

/// Half of the words end as the row's output does.
void add_bad_words(CallProcessing& processing, ProcessingRows& rows) {
  if (processing.output.lengths.empty() || !rows.coin()) return;
  for (std::size_t row = 0; row < processing.output.lengths.size(); ++row) {
    const std::int64_t begin = processing.output.begins[row];
    const std::int64_t length = processing.output.lengths[row];
    const bool readable = begin >= 0 && length >= 0 &&
                          length <= static_cast<std::int64_t>(processing.output.ids.size()) - begin;
    std::vector<std::int32_t> words;
    std::vector<std::int32_t> lengths;
    for (std::uint64_t left = rows.below(rows.below(8) == 0 ? 80 : 4); left > 0; --left) {
      const auto prefix = static_cast<std::int64_t>(rows.below(4));
      const std::size_t first = words.size();
      for (std::int64_t i = 0; i < prefix; ++i) {
        const bool matches = readable && length >= prefix && rows.below(8) != 0;
        const std::int32_t id =
            matches ? processing.output.ids[static_cast<std::size_t>(begin + length - prefix + i)]
                    : rows.token();
        words.push_back(std::max(id, 0));
      }
      words.push_back(rows.token());
      lengths.push_back(static_cast<std::int32_t>(words.size() - first));
    }
    rows.mutation(words);
    if (!lengths.empty() && rows.fault()) lengths.back() += rows.one_of(std::array{1, -1, -100});
    processing.bad_words.add(words);
    processing.bad_word_lengths.add(lengths);
  }
  rows.mutation(processing.bad_words);
  rows.mutation(processing.bad_word_lengths);
}

}  // namespace

CallProcessing random_processing(std::uint64_t number, const SampleCall& call) {
  ProcessingRows rows(number, call);
  CallProcessing processing;
  add_histories(processing, rows);
  add_penalties(processing, rows);
  add_biases(processing, rows);
  add_bans(processing, rows);
  add_bad_words(processing, rows);
  return processing;
}

}  // namespace fairdraw::suites
