// Tokens, masks, support sizes and statuses of CPU and GPU are compared on very many rows. The
// harness's generators create every row with its own parameters and seed.
//
// FAIRDRAW_DIFFERENTIAL_ROWS sets the number of rows with small vocabularies, half of which have at
// least 128 tokens. FAIRDRAW_DIFFERENTIAL_WIDE_ROWS sets the number of rows with the vocabulary
// sizes of engines.
//
// FAIRDRAW_DIFFERENTIAL_CALL limits the test to the call with this number. A failure message names
// the call, because a row is a pure function of its call and its position in the call.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "fairdraw/cuda.h"
#include "harness/inputs/counter_random.h"
#include "harness/inputs/random_rows.h"
#include "tests/cuda/arrays.h"
#include "tests/sample/reduced.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {
namespace {

using harness::Dice;

constexpr std::size_t kMaxReported = 20;

/// Returns the random choices for one row; those for the whole call are the choices of row 0.
Dice dice_of(std::uint64_t stream, std::uint64_t call, std::uint64_t row) {
  return Dice(harness::CounterRandom::of(stream, call, row).word(0));
}

/// Parameters of the test, for small or for wide vocabularies.
struct Rows {
  const char* name;
  std::uint64_t stream;  ///< number of the stream of random words; the families of rows have other
                         ///< streams
  std::int64_t (*rows)(std::uint64_t call);
  /// returns the vocabulary size of all rows of a call
  std::int64_t (*vocab)(std::uint64_t call, Dice& dice);
};

const Rows kSmall{"ManyRows", 1001, [](std::uint64_t) { return std::int64_t{16384}; },
                  [](std::uint64_t call, Dice& dice) {
                    const std::uint64_t vocab =
                        call % 2 == 0 ? 1 + dice.below(127) : 128 + dice.below(385);
                    return static_cast<std::int64_t>(vocab);
                  }};
/// The number of rows determines how many thread blocks share a row.
const Rows kWide{
    "WideRows", 1002,
    [](std::uint64_t call) { return std::array<std::int64_t, 4>{64, 1, 256, 8}[call / 3 % 4]; },
    [](std::uint64_t call, Dice&) {
      return std::array<std::int64_t, 3>{32000, 50304, 128256}[call % 3];
    }};

void make_row(const Rows& rows, std::uint64_t number, OwnedCall& call, std::int64_t row) {
  Dice dice = dice_of(rows.stream, number, static_cast<std::uint64_t>(row) + 1);
  std::vector<float> logits = harness::random_logits(dice, call.vocab, call.dtype);
  call.set_parameters(row, harness::random_parameters(dice, logits, {.dense = true}));
  call.set_row(row, logits.data());  // sets the row again, because the parameters may have changed
                                     // its logits
  call.seed.set(row) = harness::random_seed(dice);
  call.offset.set(row) = dice.once_in(2) ? harness::random_seed(dice) : dice.below(100);
  if (!call.allowed.empty()) {
    std::ranges::copy(harness::random_allowed(dice, call.vocab),
                      call.allowed.begin() + row * call.allowed_stride);
  }
  if (!call.active.empty() && dice.once_in(8)) call.active[static_cast<std::size_t>(row)] = 0;
}

/// Returns the call with this number, limited to its first `row_count` rows.
OwnedCall make_call(const Rows& rows, std::uint64_t number, std::int64_t row_count) {
  Dice dice = dice_of(rows.stream, number, 0);
  const std::int64_t vocab = rows.vocab(number, dice);
  OwnedCall call;
  const auto dtype = static_cast<DType>(dice.below(3));
  // In half of the calls, the rows have no gaps between them and their address is not shifted.
  const std::int64_t gap = std::max<std::int64_t>(0, dice.between(-20, 19));
  const auto shift = static_cast<std::size_t>(std::max<std::int64_t>(0, dice.between(-64, 63)));
  call.allocate(dtype, row_count, vocab, vocab + gap, shift);
  call.tie_rule = static_cast<TieRule>(dice.below(2));
  call.filter_order = static_cast<FilterOrder>(dice.below(2));
  call.make_parameter_arrays(row_count);
  call.seed.make_array(row_count);
  call.offset.make_array(row_count);
  if (dice.once_in(3)) {
    call.allowed_stride = (vocab + 31) / 32;
    call.allowed.resize(static_cast<std::size_t>(row_count * call.allowed_stride));
  }
  if (dice.once_in(8)) call.active.assign(static_cast<std::size_t>(row_count), 1);
#pragma omp parallel for schedule(static, 16)
  for (std::int64_t row = 0; row < row_count; ++row) make_row(rows, number, call, row);
  return call;
}

std::uint64_t from_environment(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// The calls that a test compared, and the differences that it found.
class Comparison {
 public:
  explicit Comparison(const Rows& rows) : rows_(rows) {}

  void run(std::uint64_t number, std::int64_t row_count) {
    const OwnedCall call = make_call(rows_, number, row_count);
    // The second run on each path, of the fused kind, writes only tokens and statuses. Smaller
    // tests cover log-probabilities and probabilities.
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
    // The CPU computes the expected outputs while the GPU runs the call.
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

  void report(std::uint64_t number, const OwnedCall& call, cuda::Path path,
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
    // Calls come in pairs, one with fewer than 128 tokens and one with more, so that each kind has
    // half of the rows.
    const std::int64_t most = std::max<std::int64_t>(1, wanted / 6);
    for (std::uint64_t number = 0; comparison.compared() < wanted || number % 2 != 0; ++number) {
      comparison.run(number, std::min(most, rows.rows(number)));
      if (::testing::Test::HasFatalFailure()) return;
      if (comparison.different() > static_cast<std::int64_t>(kMaxReported)) break;
    }
    // Three of four random rows have the status ok on average. The probability that at least half
    // of 100 rows are ok is 1 - 1e-7, but of 4 rows often fewer than half are. If there are fewer
    // than 100 rows, only one must be ok. The random rows are the same in every run.
    const std::int64_t least = comparison.compared() >= 100 ? comparison.compared() / 2 : 0;
    EXPECT_GT(comparison.ok_rows(), least) << "the comparison says little";
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
