// Marked draws on the GPU are compared with the CPU's, which the reference judges: tokens, statuses
// and masks bit for bit, with all other results of the call, for rows with keys of every kind.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "fairdraw/cuda_watermark.h"
#include "harness/inputs/dice.h"
#include "harness/inputs/processing_rows.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/graphs.h"
#include "tests/cuda/host_memory.h"
#include "tests/sample/reduced.h"
#include "tests/sample/sample_calls.h"
#include "tests/serving/near_ties.h"

namespace fairdraw::suites {
namespace {

using harness::CallParameter;
using harness::Dice;
using harness::OwnedLists;

/// The marks of a call, and the ids that its requests have generated.
struct OwnedMarks {
  CallParameter<std::uint64_t> key, second_key;
  CallParameter<std::uint8_t> mask_repeated{1, {}};
  float second_share = 0.1F;
  WatermarkRule rule;
  float green_bias = 2.0F;
  OwnedLists output;

  template <class Arrays>
  Watermark in(Arrays& arrays) const {
    Watermark watermark;
    watermark.key = key.in(arrays);
    watermark.second_key = second_key.in(arrays);
    watermark.mask_repeated = mask_repeated.in(arrays);
    watermark.second_share = second_share;
    watermark.rule = rule;
    watermark.green_bias = green_bias;
    return watermark;
  }
};

/// Returns ids that a request has generated, of few kinds, so that contexts are repeated.
std::vector<std::int32_t> random_output(Dice& dice, std::int64_t vocab, bool has_strangers) {
  std::vector<std::int32_t> ids;
  const std::uint64_t most = dice.once_in(16) ? 1500 : 24;
  for (std::uint64_t left = dice.below(most); left > 0; --left) {
    ids.push_back(static_cast<std::int32_t>(dice.between(0, std::min<std::int64_t>(vocab - 1, 2))));
  }
  if (has_strangers && !ids.empty() && dice.once_in(4)) {
    ids[dice.below(ids.size())] = dice.pick({-1, -2, static_cast<std::int32_t>(vocab)});
  }
  return ids;
}

OwnedMarks random_marks(std::uint64_t number, std::int64_t rows, std::int64_t vocab) {
  Dice dice(~number);
  OwnedMarks marks;
  marks.key = dice.bits() | 1U;
  if (!dice.once_in(4)) marks.key.make_array(rows);
  for (std::uint64_t& key : marks.key.values) key = dice.once_in(3) ? 0 : dice.bits();
  if (dice.once_in(2)) marks.second_key = dice.bits();
  if (dice.once_in(2)) marks.second_key.make_array(rows);
  for (std::uint64_t& key : marks.second_key.values) key = dice.once_in(3) ? 0 : dice.bits();
  if (dice.once_in(2)) marks.mask_repeated = 0;
  if (dice.once_in(2)) marks.mask_repeated.make_array(rows);
  for (std::uint8_t& flag : marks.mask_repeated.values) {
    flag = static_cast<std::uint8_t>(dice.below(3));
  }
  marks.second_share = dice.pick({0.0F, 0.1F, 0.5F, 1.0F});
  marks.rule.window = static_cast<std::int32_t>(dice.between(1, dice.once_in(4) ? 32 : 3));
  marks.rule.scheme =
      dice.pick({WatermarkScheme::race, WatermarkScheme::tournament, WatermarkScheme::green_list});
  marks.rule.layers = dice.pick({1, 4, 30, 64});
  marks.rule.green_share = dice.pick({0.25F, 0.5F, 0.999F, 0x1p-20F});
  marks.green_bias = dice.pick({0.0F, 2.0F, 10.0F, 0x1p32F});
  const bool has_strangers = dice.once_in(2);
  for (std::int64_t row = 0; row < rows; ++row) {
    marks.output.add(random_output(dice, vocab, has_strangers));
  }
  if (dice.once_in(4)) {  // a list that is not in the buffer
    const std::size_t row = dice.below(static_cast<std::uint64_t>(rows));
    if (dice.once_in(2)) {
      marks.output.lengths[row] = dice.pick({-1, 1 << 30});
    } else {
      marks.output.begins[row] = dice.pick<std::int64_t>({-1, std::int64_t{1} << 40});
    }
  }
  return marks;
}

/// Returns a call whose rows have one token each.
OwnedCall random_rows_of(std::uint64_t number, std::int64_t rows, std::int64_t vocab) {
  OwnedCall call = random_call(number, rows, vocab);
  Dice dice(number ^ 0x5a5a);
  call.indices.clear();
  call.num_samples = 1;
  for (CallParameter<std::uint64_t>* parameter : {&call.seed, &call.offset}) {
    *parameter = dice.bits();
    if (number % 2 == 0) parameter->make_array(rows);
    for (std::uint64_t& value : parameter->values) value = dice.bits();
  }
  if (number % 3 == 0) call.processing = harness::random_processing(number, rows, vocab);
  if (number % 5 == 0) {  // every row has the same filters, and none is greedy
    call.temperature = dice.pick({1.0F, 0.7F, 2.5F});
    call.top_k = dice.pick({0, 3, 50});
    call.top_p = dice.pick({1.0F, 0.9F, 0.3F});
    call.min_p = dice.pick({0.0F, 0.02F});
  }
  return call;
}

template <class Arrays>
SampleRequest request_of(const OwnedCall& call, const OwnedMarks& marks, Arrays& arrays) {
  SampleRequest request = request_in(call, arrays);
  request.processing.output = marks.output.in(arrays);
  return request;
}

/// Numbers of rows in a test's calls whose token or status the marks have changed.
struct Seen {
  std::int64_t moved = 0, failed = 0, unmoved = 0;

  void count(const OwnedCall& call, const OwnedMarks& marks, const SampleOutputs& marked) {
    HostArrays host;
    SampleOutputs plain(call, kTokensAndStatuses);
    ASSERT_FALSE(sample(request_of(call, marks, host), result_in(call, plain, host)));
    for (std::size_t row = 0; row < plain.tokens.size(); ++row) {
      if (plain.statuses[row] != RowStatus::ok) continue;
      const bool fails = marked.statuses[row] == RowStatus::invalid_history;
      (fails ? failed : marked.tokens[row] == plain.tokens[row] ? unmoved : moved) += 1;
    }
  }
};

/// Runs a call on all paths, with all results, with tokens and statuses, and with tokens alone.
void compare_call(const std::string& name, const OwnedCall& call, const OwnedMarks& marks,
                  DeviceArrays& arrays, Seen& seen) {
  HostArrays host;
  SampleOutputs expected(call, kEverything);
  const Error refused =
      sample_marked(request_of(call, marks, host), marks.in(host), result_in(call, expected, host));
  ASSERT_FALSE(refused) << name << ": " << refused.message;
  seen.count(call, marks, expected);
  for (const cuda::Path path : available_paths()) {
    for (const CallResults& wanted :
         {kEverything, kTokensAndStatuses, CallResults{false, false, false, false, false}}) {
      SampleOutputs got(call, wanted);
      arrays.rewind();
      const SampleRequest request = request_of(call, marks, arrays);
      const Watermark watermark = marks.in(arrays);
      const SampleResult result = result_in(call, got, arrays);
      const cuda::Execution execution =
          arrays.execution_with(cuda::workspace_bytes(request, {}, watermark), path);
      const Error error = cuda::sample_marked(request, watermark, result, execution);
      ASSERT_FALSE(error) << name << ": " << error.message;
      arrays.fetch();
      for (const Difference& difference : differences(call, expected, got, 5)) {
        ADD_FAILURE() << name << " on " << cuda::to_string(path) << ": " << difference.what
                      << "\n  " << describe_row(call, difference.row);
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(CudaWatermark, MatchesTheCpuInCallsOfEveryKind) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  Seen seen;
  for (std::uint64_t i = 0; i < (is_reduced() ? 40 : 1500) && !HasFailure(); ++i) {
    Dice dice(i + 77);
    const std::int64_t vocab = dice.between(1, i % 4 == 0 ? 5000 : 600);
    const std::int64_t rows = dice.between(1, is_reduced() ? 8 : 64);
    const OwnedCall call = random_rows_of(i, rows, vocab);
    compare_call(fmt::format("call {}", i), call, random_marks(i, rows, vocab), arrays, seen);
  }
  RecordProperty("moved", std::to_string(seen.moved));
  EXPECT_GT(seen.moved, is_reduced() ? 10 : 5000);
  EXPECT_GT(seen.unmoved, seen.moved / 4);
  EXPECT_GT(seen.failed, is_reduced() ? 2 : 1000);
}

TEST(CudaWatermark, MatchesTheCpuForLargeVocabularies) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  Seen seen;
  const std::vector<std::int64_t> vocabs =
      is_reduced() ? std::vector<std::int64_t>{9001}
                   : std::vector<std::int64_t>{32000, 50257, 128256, 151936, kMaxVocab};
  for (std::size_t i = 0; i < 3 * vocabs.size() && !HasFailure(); ++i) {
    const std::int64_t vocab = vocabs[i / 3];
    const std::int64_t rows = is_reduced() ? 2 : std::min<std::int64_t>(64, 8'000'000 / vocab);
    const OwnedCall call = random_rows_of(5 * i, rows, vocab);  // rows without faults of parameters
    OwnedMarks marks = random_marks(i, rows, vocab);
    marks.rule.scheme = static_cast<WatermarkScheme>(i % 3);
    compare_call(fmt::format("call {}, {} tokens", i, vocab), call, marks, arrays, seen);
  }
  EXPECT_GT(seen.moved, 0);
}

/// The row kernel leaves the threshold of such rows open in a race.
TEST(CudaWatermark, MatchesTheCpuInRowsOfTopP) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  Seen seen;
  for (std::uint64_t i = 0; i < (is_reduced() ? 20 : 400) && !HasFailure(); ++i) {
    Dice dice(i + 7777);
    const std::int64_t vocab = dice.between(1, i % 4 == 0 ? 40000 : 900);
    const std::int64_t rows = dice.between(1, is_reduced() ? 8 : i % 8 == 0 ? 150 : 40);
    OwnedCall call = random_rows_of(5 * i, rows, vocab);
    call.top_k = 0;
    call.min_p = dice.once_in(8) ? 0.01F : 0.0F;
    call.top_p = 1.0F;
    call.top_p.make_array(rows);
    for (float& top_p : call.top_p.values) {
      top_p = dice.pick({0x1p-20F, 0.1F, 0.3F, 0.5F, 0.8F, 0.9F, 0.99F, 0.9999F, 1.0F});
    }
    compare_call(fmt::format("call {}", i), call, random_marks(i, rows, vocab), arrays, seen);
  }
  EXPECT_GT(seen.moved, is_reduced() ? 5 : 1000);
}

/// A sample of the tiles does not show the weights of a row whose large values have adjacent ids,
/// so that the first race of the row lacks tokens or has too many, and some warps of a tournament
/// have many of the survivors.
TEST(CudaWatermark, MatchesTheCpuInRowsOfTopPThatNoSampleShows) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  Seen seen;
  const std::int64_t vocab = is_reduced() ? 12000 : 60000;
  const std::int64_t rows = is_reduced() ? 8 : 100;
  for (const auto& [top_p, scheme] :
       {std::pair{0.3F, WatermarkScheme::race}, std::pair{0.9F, WatermarkScheme::race},
        std::pair{0.9F, WatermarkScheme::tournament}}) {
    Dice dice(static_cast<std::uint64_t>(top_p * 100));
    OwnedCall call;
    call.allocate(DType::float32, rows, vocab, vocab, 0);
    call.top_p = top_p;
    OwnedMarks marks;
    marks.rule.scheme = scheme;
    marks.key.make_array(rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t length = dice.between(1, vocab / 8);
      const std::int64_t first = dice.between(0, vocab - length);
      const float raise = dice.pick({-3.0F, 1.0F, 3.0F, 6.0F});
      std::vector<float> logits;
      for (std::int64_t id = 0; id < vocab; ++id) {
        const bool is_raised = id >= first && id < first + length;
        logits.push_back(static_cast<float>(dice.bell()) + (is_raised ? raise : 0.0F));
      }
      if (dice.once_in(8))
        std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::max());
      call.set_row(row, logits.data());
      marks.key.set(row) = dice.bits() | 1U;
      marks.output.add({});
    }
    compare_call(fmt::format("top_p {}", top_p), call, marks, arrays, seen);
  }
  EXPECT_GT(seen.moved, rows);
}

/// Rows beyond kRowsOfPlay take turns in the memory of the survivors.
TEST(CudaWatermark, MatchesTheCpuInTournamentsOfManyRows) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  Seen seen;
  const std::int64_t rows = is_reduced() ? 132 : 300;
  for (const std::uint64_t number : {5U, 10U, 20U}) {
    const OwnedCall call = random_rows_of(number, rows, is_reduced() ? 40 : 2500);
    OwnedMarks marks = random_marks(number, rows, 40);
    marks.rule.scheme = WatermarkScheme::tournament;
    compare_call(fmt::format("call {}", number), call, marks, arrays, seen);
  }
  EXPECT_GT(seen.moved, rows / 4);
}

/// Lists of biases meet green tokens in each way in which a row is edited: by the table, in one
/// chunk or in several, with penalties, bans, and ids that are listed twice.
TEST(CudaWatermark, GreenTokensKeepBiasesOfTheirOwn) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  Seen seen;
  constexpr std::int64_t kVocab = 3001;
  const std::vector<std::uint64_t> lengths =
      is_reduced() ? std::vector<std::uint64_t>{0, 20, 1100}
                   : std::vector<std::uint64_t>{0, 1, 20, 512, 513, 700, 1100, 2000, 4000};
  for (const std::uint64_t length : lengths) {
    Dice dice(length + 9);
    const auto rows = static_cast<std::int64_t>(is_reduced() ? 3 : 24);
    OwnedCall call = random_rows_of(5, rows, kVocab);
    OwnedMarks marks = random_marks(5, rows, kVocab);
    marks.key = 77;
    marks.rule.scheme = WatermarkScheme::green_list;
    marks.rule.green_share = 0.5F;
    marks.green_bias = 1.5F;
    std::vector<reference::RowProcessing> processing(static_cast<std::size_t>(rows));
    for (std::int64_t row = 0; row < rows; ++row) {
      reference::RowProcessing& of_row = processing[static_cast<std::size_t>(row)];
      for (std::uint64_t i = 0; i < length; ++i) {
        const float bias = dice.once_in(9) ? -std::numeric_limits<float>::infinity()
                                           : static_cast<float>(dice.bell());
        of_row.biases.push_back({static_cast<std::int32_t>(dice.below(kVocab)), bias});
      }
      if (dice.once_in(2)) of_row.repetition_penalty = 1.25F;
      if (dice.once_in(3)) of_row.frequency_penalty = 0.5F;
      of_row.prompt = {1, 5, 9};
    }
    call.processing = harness::pack(processing, kVocab, {false, false});
    compare_call(fmt::format("{} biases", length), call, marks, arrays, seen);
  }
  EXPECT_GT(seen.moved, 0);
}

TEST(CudaWatermark, NearTiesAreDecidedExactly) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  Seen seen;
  const std::vector<NearTie> ties = near_ties(is_reduced() ? 3 : 60);
  const auto rows = static_cast<std::int64_t>(ties.size());
  OwnedCall call;
  call.allocate(DType::float32, rows, 2, 2, 0);
  OwnedMarks marks;
  marks.rule.window = 1;
  marks.key.make_array(rows);
  std::int64_t undecided = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const NearTie& tie = ties[static_cast<std::size_t>(row)];
    call.set_row(row, tie.logits);
    marks.key.set(row) = tie.key;
    marks.output.add({});
    undecided += is_undecided(tie) ? 1 : 0;
  }
  EXPECT_GT(undecided, 0);
  compare_call("near ties", call, marks, arrays, seen);
}

TEST(CudaWatermark, MatchesTheCpuForEqualTokens) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  Seen seen;
  const std::int64_t vocab = is_reduced() ? 3000 : 128256;
  for (const std::int64_t number : {0, 1, 2, 3, 4, 5}) {
    const std::int64_t rows = number < 3 ? 1 : 3;
    OwnedCall call;
    call.allocate(DType::bfloat16, rows, vocab, vocab, 0);
    if (number < 3) call.top_k = static_cast<std::int32_t>(vocab);
    const std::vector<float> logits(static_cast<std::size_t>(vocab), 1.5F);
    OwnedMarks marks;
    marks.key = 1234567;
    marks.rule.scheme = static_cast<WatermarkScheme>(number % 3);
    for (std::int64_t row = 0; row < rows; ++row) {
      call.set_row(row, logits.data());
      marks.output.add({static_cast<std::int32_t>(row)});
    }
    compare_call(fmt::format("call {} of equal tokens", number), call, marks, arrays, seen);
  }
}

/// Values agree with the CPU's within one unit in the last place (fairdraw/cuda.h).
TEST(CudaWatermark, ReportsAreOfTheMarkedToken) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  for (std::uint64_t i = 0; i < (is_reduced() ? 8 : 120) && !HasFailure(); ++i) {
    constexpr std::int64_t kRows = 6;
    const std::int64_t vocab = Dice(i).between(1, 900);
    const OwnedCall call = random_rows_of(i, kRows, vocab);
    const OwnedMarks marks = random_marks(i, kRows, vocab);
    const auto run = [&](auto& places, std::vector<float>& values, std::vector<std::int32_t>& ranks,
                         const auto& sample_by) {
      values.assign(kRows, 77);
      ranks.assign(kRows, -7);
      SampleOutputs outputs(call, kTokensAndStatuses);
      SampleResult result = result_in(call, outputs, places);
      result.logprobs.mode = static_cast<LogprobsMode>(i % 4);
      result.logprobs.values = {places.out(values), kRows};
      result.logprobs.ranks = {places.out(ranks), kRows};
      const Error error = sample_by(request_of(call, marks, places), marks.in(places), result);
      EXPECT_FALSE(error) << error.message;
    };
    HostArrays host;
    std::vector<float> expected;
    std::vector<std::int32_t> expected_ranks;
    run(host, expected, expected_ranks, [](const auto&... x) { return sample_marked(x...); });
    for (const cuda::Path path : available_paths()) {
      arrays.rewind();
      std::vector<float> values;
      std::vector<std::int32_t> ranks;
      run(arrays, values, ranks,
          [&](const SampleRequest& request, const Watermark& watermark,
              const SampleResult& result) {
            const cuda::Execution execution = arrays.execution_with(
                cuda::workspace_bytes(request, result.logprobs, watermark), path);
            const Error error = cuda::sample_marked(request, watermark, result, execution);
            arrays.fetch();
            return error;
          });
      EXPECT_EQ(ranks, expected_ranks) << "call " << i;
      for (std::size_t row = 0; row < kRows; ++row) {
        if (values[row] == expected[row]) continue;
        EXPECT_EQ(std::nextafter(values[row], expected[row]), expected[row])
            << "call " << i << ", row " << row;
      }
    }
  }
}

/// A graph reads keys and outputs anew at each replay, whatever the workspace has in it.
TEST(CudaWatermark, AGraphReadsItsMarksAnew) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const Stream stream;
  for (const cuda::Path path : available_paths()) {
    for (const std::uint64_t turn : {0U, 1U, 2U, 3U, 4U, 5U}) {
      const std::uint64_t number = turn < 3 ? 4 : 6;  // 6: with logits processing
      constexpr std::int64_t kRows = 12;
      const OwnedCall call = random_rows_of(number, kRows, 3001);
      OwnedMarks marks = random_marks(number, kRows, 3001);
      marks.key.make_array(kRows);
      marks.rule.scheme = static_cast<WatermarkScheme>(turn % 3);
      SampleOutputs got(call, kTokensAndStatuses);
      DeviceArrays arrays;
      std::vector<std::uint64_t> keys(kRows);
      const SampleRequest request = request_of(call, marks, arrays);
      Watermark watermark = marks.in(arrays);
      std::uint64_t* const device_keys = arrays.out(keys);
      watermark.key = {device_keys, kRows};
      const SampleResult result = result_in(call, got, arrays);
      const cuda::Execution execution =
          arrays.execution_with(cuda::workspace_bytes(request, {}, watermark), path, stream.get());
      Graph graph;
      Graph::begin(stream);
      const Error error = cuda::sample_marked(request, watermark, result, execution);
      graph.end(stream);
      ASSERT_FALSE(error) << error.message;
      graph.expect_device_work_only("sample_marked");
      for (const int dirt : {0, 0xff, 0x5a}) {
        Dice dice(static_cast<std::uint64_t>(dirt));
        for (std::uint64_t& key : marks.key.values) key = dice.once_in(3) ? 0 : dice.bits();
        require(cudaMemcpy(device_keys, marks.key.values.data(), kRows * sizeof(std::uint64_t),
                           cudaMemcpyHostToDevice),
                "cudaMemcpy");
        require(cudaMemset(execution.workspace, dirt,
                           static_cast<std::size_t>(execution.workspace_bytes)),
                "cudaMemset");
        require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
        graph.launch(stream);
        arrays.fetch();
        HostArrays host;
        SampleOutputs expected(call, kTokensAndStatuses);
        ASSERT_FALSE(sample_marked(request_of(call, marks, host), marks.in(host),
                                   result_in(call, expected, host)));
        for (const Difference& difference : differences(call, expected, got, 5)) {
          ADD_FAILURE() << "call " << turn << ", dirt " << dirt << ": " << difference.what;
        }
      }
    }
  }
}

// --- What is refused -----------------------------------------------------------------------------

/// A valid call; each test invalidates one thing.
class MarkedCall {
 public:
  SampleRequest request;
  Watermark watermark;
  SampleResult result;
  cuda::Execution execution;

  MarkedCall() : call_(random_rows_of(2, kRows, 100)), got_(call_, kTokensAndStatuses) {
    OwnedMarks marks = random_marks(2, kRows, 100);
    for (auto* key : {&marks.key, &marks.second_key}) key->make_array(kRows);
    marks.mask_repeated.make_array(kRows);
    request = request_of(call_, marks, arrays_);
    watermark = marks.in(arrays_);
    result = result_in(call_, got_, arrays_);
    execution =
        arrays_.execution_with(cuda::workspace_bytes(request, {}, watermark), cuda::Path::best);
  }

  void expect_refused(const std::vector<std::string>& parts) {
    const Error error = cuda::sample_marked(request, watermark, result, execution);
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << parts.front();
    for (const std::string& part : parts) {
      EXPECT_NE(error.message.find(part), std::string::npos) << part << " in: " << error.message;
    }
    arrays_.fetch();
    EXPECT_TRUE(differences(call_, SampleOutputs(call_, kTokensAndStatuses), got_, 1).empty());
  }

  static constexpr std::int64_t kRows = 3;

 private:
  OwnedCall call_;
  SampleOutputs got_;
  DeviceArrays arrays_;
};

void refuse(const std::vector<std::string>& parts, void (*change)(MarkedCall&)) {
  MarkedCall call;
  change(call);
  call.expect_refused(parts);
}

TEST(CudaWatermark, RefusesByNameValueAndRange) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  MarkedCall valid;
  const Error error =
      cuda::sample_marked(valid.request, valid.watermark, valid.result, valid.execution);
  EXPECT_FALSE(error) << error.message;
  refuse({"scheme is 3; allowed: 0 (race), 1 (tournament) or 2 (green_list)"},
         [](MarkedCall& c) { c.watermark.rule.scheme = static_cast<WatermarkScheme>(3); });
  refuse({"layers is 65; allowed: 1 to 64"}, [](MarkedCall& c) { c.watermark.rule.layers = 65; });
  refuse({"window is 0; allowed: 1 to 32"}, [](MarkedCall& c) { c.watermark.rule.window = 0; });
  refuse({"length of key is 2; allowed: 3"},
         [](MarkedCall& c) { c.watermark.key.values.size = 2; });
  refuse({"output is null"}, [](MarkedCall& c) { c.request.processing.output = {}; });
  refuse({"num_samples is 2"}, [](MarkedCall& c) { c.request.num_samples = 2; });
  refuse({"workspace is null"}, [](MarkedCall& c) { c.execution.workspace = nullptr; });
  refuse({"workspace_bytes is ", "allowed: >= "},
         [](MarkedCall& c) { c.execution.workspace_bytes -= 1; });
}

TEST(CudaWatermark, RefusesHostMemory) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  HostMemory host;
  for (void* memory : host.blocks()) {
    MarkedCall key, second, mask, ids, begins, lengths;
    replace(key.watermark.key.values.data, memory);
    key.expect_refused({"key is 0x", "memory of device"});
    replace(second.watermark.second_key.values.data, memory);
    second.expect_refused({"second_key is 0x"});
    replace(mask.watermark.mask_repeated.values.data, memory);
    mask.expect_refused({"mask_repeated is 0x"});
    replace(ids.request.processing.output.data, memory);
    ids.expect_refused({"output.data is 0x"});
    replace(begins.request.processing.output.begins.data, memory);
    begins.expect_refused({"output.begins is 0x"});
    replace(lengths.request.processing.output.lengths.data, memory);
    lengths.expect_refused({"output.lengths is 0x"});
  }
}

}  // namespace
}  // namespace fairdraw::suites
