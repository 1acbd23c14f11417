// Tokens, masks, support sizes and statuses of CPU and GPU on very many rows, every one of them
// rebuilt by the harness's generators, with parameters and a seed of its own.
//
// FAIRDRAW_DIFFERENTIAL_ROWS: rows of small vocabularies; half of them have 128 tokens or more.
// FAIRDRAW_DIFFERENTIAL_WIDE_ROWS: rows of the vocabularies of engines.
// FAIRDRAW_DIFFERENTIAL_CALL: run this call alone. Reports name it: a row is a pure function of
// its call and its place in it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "fairdraw/cuda.h"
#include "harness/inputs/counter_random.h"
#include "harness/inputs/families.h"
#include "tests/cuda/arrays.h"
#include "tests/sample/reduced.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {
namespace {

using harness::CounterRandom;

constexpr std::size_t kMaxReported = 20;

/// Random words of one row (or call), taken one after another.
class Words {
 public:
  Words(std::uint64_t stream, std::uint64_t call, std::uint64_t row)
      : random_(CounterRandom::of(stream, call, row)) {}

  std::uint64_t next() { return random_.word(taken_++); }
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound, taken_++); }
  /// In [0, 1), a multiple of 2^-24.
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }
  template <class T, std::size_t n>
  T pick(const std::array<T, n>& values) {
    return values[below(n)];
  }

 private:
  CounterRandom random_;
  std::uint64_t taken_ = 0;
};

/// What the two tests differ in.
struct Rows {
  const char* name;
  std::uint64_t stream;  ///< of random words, beyond the families' own
  std::int64_t (*rows)(std::uint64_t call);
  std::int64_t (*vocab)(std::uint64_t call, Words& words);  ///< of all rows of a call
};

const Rows kSmall{"ManyRows", 1001, [](std::uint64_t) { return std::int64_t{16384}; },
                  [](std::uint64_t call, Words& words) {
                    const std::uint64_t vocab =
                        call % 2 == 0 ? 1 + words.below(127) : 128 + words.below(385);
                    return static_cast<std::int64_t>(vocab);
                  }};
/// The number of rows decides how many blocks of threads share one.
const Rows kWide{
    "WideRows", 1002,
    [](std::uint64_t call) { return std::array<std::int64_t, 4>{64, 1, 256, 8}[call / 3 % 4]; },
    [](std::uint64_t call, Words&) {
      return std::array<std::int64_t, 3>{32000, 50304, 128256}[call % 3];
    }};

void make_logits(Words& words, std::uint64_t call, std::uint64_t row, std::vector<float>& logits) {
  const auto families = harness::all_families();
  harness::generate_row(families[words.below(families.size())], call, row, logits);
  switch (words.below(16)) {
    case 0:  // few distinct values: every cut falls inside a tie
    case 1:
      for (float& x : logits) {
        if (std::isfinite(x)) x = std::nearbyint(std::clamp(x, -9.F, 9.F));
      }
      break;
    case 2:  // zeros of both signs
      for (float& x : logits) {
        const std::uint64_t word = words.next();
        if (word % 3 == 0) x = (word >> 32) % 2 == 0 ? 0.0F : -0.0F;
      }
      break;
    case 3:  // one bad value, in one row of 64
      if (words.below(4) == 0) {
        logits[words.below(logits.size())] = words.below(2) == 0
                                                 ? std::numeric_limits<float>::quiet_NaN()
                                                 : std::numeric_limits<float>::infinity();
      }
      break;
    default:
      break;
  }
}

void make_parameters(Words& words, SampleCall& call, std::int64_t row) {
  const auto vocab = static_cast<std::int32_t>(call.vocab);
  const auto any_k = [&] {
    return 1 + static_cast<std::int32_t>(words.below(static_cast<std::uint64_t>(vocab)));
  };
  call.temperature.set(row) =
      words.pick(std::array{1.0F, 1.0F, 1.0F, 0.7F, 2.0F, 5.0F, 0.0F, 1e-4F, 0x1p-126F, 0x1p64F,
                            0x1.715476p0F, 0.1F + 3 * words.uniform()});
  call.top_k.set(row) = words.pick(std::array{0, 0, -1, 1, 2, 50, std::max(1, vocab - 1), vocab,
                                              vocab + 1, any_k(), any_k(), any_k()});
  call.top_p.set(row) =
      words.pick(std::array{1.0F, 1.0F, 1.0F, 0.0F, 0x1p-149F, 1 - 0x1p-24F, 0.5F, 0.75F, 0.9F,
                            0.95F, words.uniform(), words.uniform()});
  call.min_p.set(row) = words.pick(std::array{0.0F, 0.0F, 0.0F, 0.0F, 0x1p-149F, 1 - 0x1p-24F, 1.0F,
                                              0.05F, 0.5F, words.uniform()});
  switch (words.below(400)) {  // one row of 100 has a value outside of its range
    case 0:
      call.temperature.set(row) = -1.0F;
      break;
    case 1:
      call.top_k.set(row) = -2;
      break;
    case 2:
      call.top_p.set(row) = 0x1.000002p0F;
      break;
    case 3:
      call.min_p.set(row) = -0x1p-149F;
      break;
    default:
      break;
  }
  call.seed.set(row) = words.next();
  call.offset.set(row) = words.below(2) == 0 ? words.next() : words.below(100);
}

void make_row(const Rows& rows, std::uint64_t number, SampleCall& call, std::int64_t row) {
  thread_local std::vector<float> logits;
  Words words(rows.stream, number, static_cast<std::uint64_t>(row) + 1);
  logits.resize(static_cast<std::size_t>(call.vocab));
  make_logits(words, number, static_cast<std::uint64_t>(row), logits);
  call.set_row(row, logits.data());
  make_parameters(words, call, row);
  if (!call.allowed.empty()) {
    const std::uint64_t density = words.below(4);
    for (std::int64_t i = 0; i < call.allowed_stride; ++i) {
      const std::uint64_t word = words.next();
      const auto a = static_cast<std::uint32_t>(word);
      const auto b = static_cast<std::uint32_t>(word >> 32);
      const std::uint32_t bits = density == 0   ? ~0U
                                 : density == 1 ? a & b
                                 : density == 2 ? a
                                                : a | b;
      call.allowed[static_cast<std::size_t>(row * call.allowed_stride + i)] = bits;
    }
  }
  if (!call.active.empty() && words.below(8) == 0) call.active[static_cast<std::size_t>(row)] = 0;
}

/// Call `number` with its first `row_count` rows.
SampleCall make_call(const Rows& rows, std::uint64_t number, std::int64_t row_count) {
  Words words(rows.stream, number, 0);
  const std::int64_t vocab = rows.vocab(number, words);
  SampleCall call;
  const auto dtype = static_cast<DType>(words.below(3));
  // None in half of the calls.
  const auto gap = std::max<std::int64_t>(0, static_cast<std::int64_t>(words.below(40)) - 20);
  const auto shift = static_cast<std::size_t>(
      std::max<std::int64_t>(0, static_cast<std::int64_t>(words.below(128)) - 64));
  call.allocate(dtype, row_count, vocab, vocab + gap, shift);
  call.tie_rule = static_cast<TieRule>(words.below(2));
  call.filter_order = static_cast<FilterOrder>(words.below(2));
  call.temperature.make_array(row_count);
  call.top_k.make_array(row_count);
  call.top_p.make_array(row_count);
  call.min_p.make_array(row_count);
  call.seed.make_array(row_count);
  call.offset.make_array(row_count);
  if (words.below(3) == 0) {
    call.allowed_stride = (vocab + 31) / 32;
    call.allowed.resize(static_cast<std::size_t>(row_count * call.allowed_stride));
  }
  if (words.below(8) == 0) call.active.assign(static_cast<std::size_t>(row_count), 1);
#pragma omp parallel for schedule(static, 16)
  for (std::int64_t row = 0; row < row_count; ++row) make_row(rows, number, call, row);
  return call;
}

std::uint64_t from_environment(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// What a test has compared, and what it found.
class Comparison {
 public:
  explicit Comparison(const Rows& rows) : rows_(rows) {}

  void run(std::uint64_t number, std::int64_t row_count) {
    const SampleCall call = make_call(rows_, number, row_count);
    // A second run of the fused kind, which writes nothing but tokens and statuses. Log-
    // probabilities and probabilities are for the smaller tests.
    constexpr CallResults kMasks{true, true, false, true, false};
    std::vector<Run> runs;
    for (const cuda::Path path : available_paths()) {
      runs.push_back({path, {call, kMasks}, {}, {}});
      runs.push_back({path, {call, kTokensAndStatuses}, {}, {}});
    }
    inputs_.rewind();
    const SampleRequest request = request_in(call, inputs_);
    results_.resize(runs.size());
    for (std::size_t i = 0; i < runs.size(); ++i) {
      results_[i].rewind();
      runs[i].result = result_in(call, runs[i].got, results_[i]);
      runs[i].execution = results_[i].execution(row_count, runs[i].path);
    }
    for (const Run& run : runs) {
      const Error error = cuda::sample(request, run.result, run.execution);
      ASSERT_FALSE(error) << "call " << number << ": " << error.message;
    }
    // The GPU works on them meanwhile.
    SampleOutputs expected(call, kMasks);
    HostArrays host;
    const Error refused = sample(request_in(call, host), result_in(call, expected, host));
    ASSERT_FALSE(refused) << refused.message;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      results_[i].fetch();
      report(number, call, runs[i].path, differences(call, expected, runs[i].got, kMaxReported));
    }
    compared_ += row_count;
    if (call.vocab >= 128) compared_from_128_ += row_count;
    for (const RowStatus status : expected.statuses) {
      ++by_status_.at(static_cast<std::size_t>(status));
    }
  }

  void print_summary() const {
    std::string statuses;
    for (std::size_t i = 0; i < by_status_.size(); ++i) {
      if (by_status_[i] == 0) continue;
      statuses += fmt::format(" {} {}", to_string(static_cast<RowStatus>(i)), by_status_[i]);
    }
    std::printf(
        "%s: %lld rows compared on %zu paths, %lld with vocab >= 128; by status:%s; "
        "differences: %lld\n",
        rows_.name, static_cast<long long>(compared_), available_paths().size(),
        static_cast<long long>(compared_from_128_), statuses.c_str(),
        static_cast<long long>(different_));
    std::fflush(stdout);
  }

  std::int64_t compared() const { return compared_; }
  std::int64_t ok_rows() const { return by_status_[0]; }
  std::int64_t different() const { return different_; }

 private:
  struct Run {
    cuda::Path path;
    SampleOutputs got;
    SampleResult result;
    cuda::Execution execution;
  };

  void report(std::uint64_t number, const SampleCall& call, cuda::Path path,
              const std::vector<Difference>& found) {
    for (const Difference& difference : found) {
      if (++different_ > static_cast<std::int64_t>(kMaxReported)) continue;
      ADD_FAILURE() << fmt::format(
          "call {} on {}: {}\n  {}\n  again: FAIRDRAW_DIFFERENTIAL_CALL={} "
          "--gtest_filter=CudaDifferential.{}",
          number, cuda::to_string(path), difference.what, describe_row(call, difference.row),
          number, rows_.name);
    }
  }

  Rows rows_;
  DeviceArrays inputs_;
  std::vector<DeviceArrays> results_;
  std::int64_t compared_ = 0, compared_from_128_ = 0, different_ = 0;
  std::array<std::int64_t, 11> by_status_{};
};

void compare_rows(const Rows& rows, std::int64_t wanted) {
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t only = from_environment("FAIRDRAW_DIFFERENTIAL_CALL", kNone);
  Comparison comparison(rows);
  if (only != kNone) {
    comparison.run(only, rows.rows(only));
  } else {
    // Whole pairs of calls, one below 128 tokens and one above, so that each has half of the rows.
    const std::int64_t most = std::max<std::int64_t>(1, wanted / 6);
    for (std::uint64_t number = 0; comparison.compared() < wanted || number % 2 != 0; ++number) {
      comparison.run(number, std::min(most, rows.rows(number)));
      if (::testing::Test::HasFatalFailure()) return;
      if (comparison.different() > static_cast<std::int64_t>(kMaxReported)) break;
    }
    EXPECT_GT(comparison.ok_rows(), comparison.compared() / 2) << "the comparison says little";
  }
  comparison.print_summary();
  EXPECT_EQ(comparison.different(), 0);
}

TEST(CudaDifferential, ManyRows) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const std::uint64_t rows =
      from_environment("FAIRDRAW_DIFFERENTIAL_ROWS", is_reduced() ? 1200 : 2000000);
  compare_rows(kSmall, static_cast<std::int64_t>(rows));
}

TEST(CudaDifferential, WideRows) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const std::uint64_t rows =
      from_environment("FAIRDRAW_DIFFERENTIAL_WIDE_ROWS", is_reduced() ? 6 : 1000);
  compare_rows(kWide, static_cast<std::int64_t>(rows));
}

}  // namespace
}  // namespace fairdraw::suites
