// check_stop on the GPU is compared with the CPU's, which the reference's independent
// implementation judges: on random batches, with every fault of a request or a call, and in replays
// of a graph.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "fairdraw/cuda_stop_criteria.h"
#include "tests/cuda/copies.h"
#include "tests/cuda/graphs.h"
#include "tests/sample/reduced.h"
#include "tests/serving/stop_batch.h"

namespace fairdraw::suites {
namespace {

// A fixed seed makes the test deterministic; the variable RC_PARAMS can set other seeds.
const bool kSeedIsFixed =
    setenv("RC_PARAMS",
           is_reduced() ? "seed=20261122 max_success=40" : "seed=20261122 max_success=400", 0) == 0;

StopRequest request_on(DeviceCopies& device, const StopRequest& request) {
  StopRequest on = request;
  on.step_tokens = device.in(request.step_tokens);
  on.output = device.in(request.output);
  on.output_lengths = device.in(request.output_lengths);
  on.active = device.in(request.active);
  on.criteria.eos_id = device.in(request.criteria.eos_id);
  on.criteria.ignore_eos = device.in(request.criteria.ignore_eos);
  on.criteria.stop_ids = device.in(request.criteria.stop_ids);
  on.criteria.stop_sequences = device.in(request.criteria.stop_sequences);
  on.criteria.stop_sequence_lengths = device.in(request.criteria.stop_sequence_lengths);
  on.criteria.min_tokens = device.in(request.criteria.min_tokens);
  on.criteria.max_tokens = device.in(request.criteria.max_tokens);
  return on;
}

StopResult result_on(DeviceCopies& device, const StopResult& result) {
  return {device.out(result.reasons),        device.out(result.kept),
          device.out(result.matched),        device.out(result.matched_lengths),
          device.out(result.output_lengths), device.out(result.statuses)};
}

/// Runs check_stop on the GPU for arrays that are on the host.
class OnGpu {
 public:
  Error operator()(const StopRequest& request, const StopResult& result) {
    device_.rewind();
    const StopRequest on = request_on(device_, request);
    const StopResult out = result_on(device_, result);
    if (Error error = cuda::check_stop(on, out)) return error;
    device_.fetch();
    return {};
  }

 private:
  DeviceCopies device_;
};

TEST(CudaStopCriteria, RandomBatchesEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  ASSERT_TRUE(kSeedIsFixed);
  OnGpu on_gpu;
  int seen[kFinishReasons] = {};
  const std::vector<StopBreak> breaks = all_stop_breaks();
  EXPECT_TRUE(rc::check("the GPU's answers are the CPU's", [&] {
    std::vector<StopCase> cases;
    const int n = *rc::gen::inRange(1, 80);  // needs up to three thread blocks
    for (int i = 0; i < n; ++i) cases.push_back(random_stop_case());
    StopBatch batch(cases);
    const auto size = static_cast<std::size_t>(n);
    const bool breaks_one = *rc::gen::inRange(0, 4) == 0 && n > 1 && batch.step.size() > 1;
    if (breaks_one) (*rc::gen::elementOf(breaks)).second(batch);
    // Some outputs are given with their last tokens alone, some lengths are too small, and some
    // requests are inactive.
    const auto longer = *rc::gen::container<Ids>(size, rc::gen::element(0, 0, 0, 5, -1));
    const auto active = *rc::gen::container<std::vector<std::uint8_t>>(
        size, rc::gen::element<std::uint8_t>(0, 1, 1, 7));
    Ids lengths = batch.output.lengths();
    for (std::size_t i = 0; i < size; ++i) lengths[i] += longer[i];
    if (*rc::gen::arbitrary<bool>()) batch.request.output_lengths = {lengths.data(), n};
    if (*rc::gen::arbitrary<bool>()) batch.request.active = {active.data(), n};
    const std::vector<StopFound> expected = batch.run();
    RC_ASSERT(!batch.error);
    const std::vector<StopFound> found = batch.run(std::ref(on_gpu));
    RC_ASSERT(batch.error.message == "");
    RC_ASSERT(found == expected);
    for (const StopFound& request : expected) {
      ++seen[static_cast<std::size_t>(request.answer.reason)];
    }
  }));
  for (const int times : seen) EXPECT_GT(times, 0);  // every reason occurs
}

TEST(CudaStopCriteria, ManyRequestsAndLongListsEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const std::int32_t requests = is_reduced() ? 300 : 20000;
  std::vector<StopCase> cases;
  for (std::int32_t r = 0; r < requests; ++r) {
    StopCase c;
    // The sequences have at least 40 ids, and differ from the output only in their first id.
    c.output.assign(60, 1);
    for (std::int32_t first = 0; first < r % 7; ++first) {
      Ids sequence(40 + static_cast<std::size_t>(r % 23), 1);
      sequence[0] = first + 2;
      c.rules.stop_sequences.push_back(sequence);
    }
    c.rules.stop_sequences.emplace_back(static_cast<std::size_t>(1 + r % 64), 1);
    for (std::int32_t id = 2; id < 2 + r % 97; ++id) c.rules.stop_ids.push_back(id);
    c.rules.min_tokens = 58 + r % 9;
    c.rules.max_tokens = 61 + r % 9;
    c.step = {1, r % 3 == 0 ? 50 : 1, 1, 2};
    cases.push_back(c);
  }
  StopBatch batch(cases);
  const std::vector<StopFound> expected = batch.run();
  ASSERT_FALSE(batch.error) << batch.error.message;
  OnGpu on_gpu;
  const std::vector<StopFound> found = batch.run(std::ref(on_gpu));
  ASSERT_FALSE(batch.error) << batch.error.message;
  EXPECT_TRUE(found == expected);
}

TEST(CudaStopCriteria, ScalarsAndResultsThatAreNotAskedFor) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const std::vector<std::int32_t> step = {3, 9, 4, 4, 4, 4};
  StopRequest request;
  request.requests = 3;
  request.step_tokens = {step.data(), 6};
  request.tokens_per_step = 2;
  request.criteria.eos_id = 9;
  request.criteria.max_tokens = 2;
  OnGpu on_gpu;
  for (const bool ignores : {false, true}) {
    request.criteria.ignore_eos = static_cast<std::uint8_t>(ignores);
    std::vector<FinishReason> reasons(3, FinishReason{-7});
    Ids kept(3, -7);
    const Error error = on_gpu(request, {{reasons.data(), 3}, {kept.data(), 3}, {}, {}, {}, {}});
    ASSERT_FALSE(error) << error.message;
    const FinishReason first = ignores ? FinishReason::length : FinishReason::eos;
    EXPECT_EQ(reasons,
              (std::vector<FinishReason>{first, FinishReason::length, FinishReason::length}));
    EXPECT_EQ(kept, (Ids{2, 2, 2}));
  }
  request = {};
  EXPECT_FALSE(on_gpu(request, {}));  // no requests
}

TEST(CudaStopCriteria, WhatIsWrongWithOneRequestFailsItAlone) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  OnGpu on_gpu;
  const std::vector<StopBreak> breaks = all_stop_breaks();
  for (std::size_t i = 0; i < breaks.size(); ++i) {
    StopBatch batch(three_stop_cases());
    breaks[i].second(batch);
    const std::vector<StopFound> expected = batch.run();
    const std::vector<StopFound> found = batch.run(std::ref(on_gpu));
    EXPECT_FALSE(batch.error) << batch.error.message;
    EXPECT_EQ(found[1].status, breaks[i].first) << i;
    EXPECT_TRUE(found == expected) << i;
  }
}

// --- What a call refuses -------------------------------------------------------------------------

/// A valid call of check_stop on the device that gives every field; each test then makes one field
/// invalid.
struct Call {
  Call() : batch(three_stop_cases()) {
    batch.request.output_lengths = {lengths.data(), 3};
    batch.request.active = {active.data(), 3};
    request = request_on(device, batch.request);
    result = result_on(device, {{reasons.data(), 3},
                                {kept.data(), 3},
                                {matched.data(), 3},
                                {matched_lengths.data(), 3},
                                {after.data(), 3},
                                {statuses.data(), 3}});
  }

  /// Expects that the call is rejected with a message of these words, writes nothing, and leaves no
  /// CUDA error.
  void expect_refused(const std::string& begins, const std::string& part) {
    const Error error = cuda::check_stop(request, result);
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << begins;
    EXPECT_EQ(error.message.rfind(begins, 0), 0U) << error.message;
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    device.fetch();
    const Ids nothing(3, -7);
    EXPECT_EQ(kept, nothing);
    EXPECT_EQ(matched, nothing);
    EXPECT_EQ(matched_lengths, nothing);
    EXPECT_EQ(after, nothing);
    EXPECT_EQ(reasons, std::vector<FinishReason>(3, FinishReason{-7}));
    EXPECT_EQ(statuses, std::vector<RowStatus>(3, RowStatus{-7}));
  }

  StopBatch batch;
  Ids lengths = {2, 2, 1};
  std::vector<std::uint8_t> active = {1, 1, 1};
  std::vector<FinishReason> reasons = std::vector<FinishReason>(3, FinishReason{-7});
  Ids kept = Ids(3, -7), matched = kept, matched_lengths = kept, after = kept;
  std::vector<RowStatus> statuses = std::vector<RowStatus>(3, RowStatus{-7});
  DeviceCopies device;
  StopRequest request;
  StopResult result;
};

template <class T>
void replace(T*& pointer, void* memory) {
  pointer = static_cast<T*>(memory);
}

TEST(CudaStopCriteria, HostMemoryIsRefusedByTheNameOfItsField) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const std::vector<std::pair<const char*, std::function<void(Call&, void*)>>> fields = {
      {"step_tokens", [](Call& c, void* p) { replace(c.request.step_tokens.data, p); }},
      {"output.data", [](Call& c, void* p) { replace(c.request.output.data, p); }},
      {"output.begins", [](Call& c, void* p) { replace(c.request.output.begins.data, p); }},
      {"output.lengths", [](Call& c, void* p) { replace(c.request.output.lengths.data, p); }},
      {"output_lengths", [](Call& c, void* p) { replace(c.request.output_lengths.data, p); }},
      {"active", [](Call& c, void* p) { replace(c.request.active.data, p); }},
      {"eos_id", [](Call& c, void* p) { replace(c.request.criteria.eos_id.values.data, p); }},
      {"ignore_eos",
       [](Call& c, void* p) { replace(c.request.criteria.ignore_eos.values.data, p); }},
      {"stop_ids.data", [](Call& c, void* p) { replace(c.request.criteria.stop_ids.data, p); }},
      {"stop_sequences.begins",
       [](Call& c, void* p) { replace(c.request.criteria.stop_sequences.begins.data, p); }},
      {"stop_sequence_lengths.lengths",
       [](Call& c, void* p) { replace(c.request.criteria.stop_sequence_lengths.lengths.data, p); }},
      {"min_tokens",
       [](Call& c, void* p) { replace(c.request.criteria.min_tokens.values.data, p); }},
      {"max_tokens",
       [](Call& c, void* p) { replace(c.request.criteria.max_tokens.values.data, p); }},
      {"reasons", [](Call& c, void* p) { replace(c.result.reasons.data, p); }},
      {"kept", [](Call& c, void* p) { replace(c.result.kept.data, p); }},
      {"matched", [](Call& c, void* p) { replace(c.result.matched.data, p); }},
      {"matched_lengths", [](Call& c, void* p) { replace(c.result.matched_lengths.data, p); }},
      {"result.output_lengths", [](Call& c, void* p) { replace(c.result.output_lengths.data, p); }},
      {"statuses", [](Call& c, void* p) { replace(c.result.statuses.data, p); }},
  };
  std::vector<std::uint64_t> host(1000);
  for (const auto& [name, set] : fields) {
    Call call;
    set(call, host.data());
    call.expect_refused(std::string(name) + " is ", "host memory");
  }
  EXPECT_EQ(host, std::vector<std::uint64_t>(1000));
}

TEST(CudaStopCriteria, ArraysThatAreMissingOrOfTheWrongLengthAreRefused) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const auto refused = [](const std::string& begins, const std::function<void(Call&)>& mutation) {
    Call call;
    mutation(call);
    call.expect_refused(begins, "allowed: ");
  };
  refused("requests is -1", [](Call& c) { c.request.requests = -1; });
  refused("vocab is 0", [](Call& c) { c.request.vocab = 0; });
  refused("tokens_per_step is -1", [](Call& c) { c.request.tokens_per_step = -1; });
  refused("step_tokens is null", [](Call& c) { c.request.step_tokens.data = nullptr; });
  refused("length of step_tokens is 2", [](Call& c) { c.request.step_tokens.size = 2; });
  refused("output.begins is null", [](Call& c) { c.request.output.begins = {}; });
  refused("length of max_tokens is 2",
          [](Call& c) { c.request.criteria.max_tokens.values.size = 2; });
  refused("stop_sequences without stop_sequence_lengths",
          [](Call& c) { c.request.criteria.stop_sequence_lengths = {}; });
  refused("reasons is null", [](Call& c) { c.result.reasons = {}; });
  refused("kept is null", [](Call& c) { c.result.kept.data = nullptr; });
  refused("length of statuses is 4", [](Call& c) { c.result.statuses.size = 4; });
}

// --- Graphs --------------------------------------------------------------------------------------

// Each replay reads the step's tokens again; lengths that are inputs and outputs at once grow with
// every replay.
TEST(CudaStopCriteria, AReplayedGraphCountsOn) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr std::int64_t kRequests = 70;
  StopRequest request;
  request.requests = kRequests;
  request.criteria.eos_id = 9;
  request.criteria.max_tokens = 4;
  Ids step(kRequests), lengths(kRequests, 0), kept(kRequests, -7);
  std::vector<FinishReason> reasons(kRequests, FinishReason{-7});
  DeviceArrays arrays;
  std::int32_t* on_device = arrays.out(step);
  std::int32_t* counts = arrays.out(lengths);
  request.step_tokens = {on_device, kRequests};
  request.output_lengths = {counts, kRequests};
  StopResult result;
  result.reasons = {arrays.out(reasons), kRequests};
  result.kept = {arrays.out(kept), kRequests};
  result.output_lengths = {counts, kRequests};
  Stream stream;
  Graph graph;
  Graph::begin(stream);
  const Error error = cuda::check_stop(request, result, stream.get());
  graph.end(stream);
  ASSERT_FALSE(error) << error.message;
  graph.expect_device_work_only("check_stop");
  arrays.fetch();
  EXPECT_EQ(kept, Ids(kRequests, -7));  // a captured CUDA graph only records the call
  Ids before;
  for (std::int32_t replay = 0; replay < 6; ++replay) {
    Ids tokens(kRequests);
    for (std::size_t r = 0; r < tokens.size(); ++r) {
      tokens[r] = static_cast<std::int32_t>(r) % 5 == replay ? 9 : 1;
    }
    before = lengths;
    require(cudaMemcpy(on_device, tokens.data(), tokens.size() * sizeof(std::int32_t),
                       cudaMemcpyHostToDevice),
            "cudaMemcpy");
    require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    graph.launch(stream);
    arrays.fetch();
    for (std::size_t r = 0; r < tokens.size(); ++r) {
      const bool full = before[r] == 4;  // max_tokens
      FinishReason expected = before[r] >= 3 ? FinishReason::length : FinishReason::none;
      if (tokens[r] == 9 && !full) expected = FinishReason::eos;
      EXPECT_EQ(reasons[r], expected) << replay << " " << r;
      EXPECT_EQ(kept[r], full ? 0 : 1) << replay << " " << r;
      EXPECT_EQ(lengths[r], full ? 4 : before[r] + 1) << replay << " " << r;
    }
  }
  EXPECT_EQ(lengths, Ids(kRequests, 4));
}

}  // namespace
}  // namespace fairdraw::suites
