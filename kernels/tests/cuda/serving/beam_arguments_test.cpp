// The tests check which arguments the beam search calls on the GPU reject before anything is
// enqueued, and their messages: host memory by the name of its field, missing arrays, and arrays of
// the wrong length.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fairdraw/cuda_beam_result.h"
#include "fairdraw/cuda_beam_search.h"
#include "tests/cuda/serving/beam_calls.h"
#include "tests/serving/beam_batch.h"
#include "tests/serving/beam_result_call.h"

namespace fairdraw::suites {
namespace {

void expect_message(const Error& error, const std::string& begins, const std::string& part) {
  EXPECT_EQ(error.code, ErrorCode::invalid_argument) << begins;
  EXPECT_EQ(error.message.rfind(begins, 0), 0U) << error.message;
  EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error of CUDA is left behind";
}

template <class T>
void replace(T*& pointer, void* memory) {
  pointer = static_cast<T*>(memory);
}

/// A valid step of beam search on the device that gives every field; each test then makes one field
/// invalid.
struct StepCall {
  StepCall() : batch(one(problem_of(rules_of(2, 3, {2}), row_by_hand)), 3, BeamInput::logprobs) {
    request = step_on(device, batch.request);
    result = step_result_on(device, batch.result);
    execution = device.arrays().execution(request, cuda::Path::best);
  }

  void expect_refused(const std::string& begins, const std::string& part) {
    expect_message(cuda::beam_search_step(request, result, execution), begins, part);
    device.fetch();
    const View<std::int32_t>& tokens = batch.result.tokens;
    for (std::int64_t i = 0; i < tokens.size; ++i) EXPECT_EQ(tokens.data[i], -7);
    EXPECT_EQ(batch.result.pool.counts.data[0], 0);
  }

  BeamBatch batch;
  DeviceCopies device;
  BeamStepRequest request;
  BeamStepResult result;
  cuda::Execution execution;
};

TEST(CudaBeamArguments, AStepNamesHostMemoryByItsField) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  using Set = std::function<void(StepCall&, void*)>;
  const std::vector<std::pair<const char*, Set>> fields = {
      {"rows.data", [](StepCall& c, void* p) { replace(c.request.rows.data, p); }},
      {"row_begins", [](StepCall& c, void* p) { replace(c.request.row_begins.data, p); }},
      {"live_beams", [](StepCall& c, void* p) { replace(c.request.live_beams.data, p); }},
      {"scores", [](StepCall& c, void* p) { replace(c.request.scores.data, p); }},
      {"generated", [](StepCall& c, void* p) { replace(c.request.generated.data, p); }},
      {"states", [](StepCall& c, void* p) { replace(c.request.states.data, p); }},
      {"width", [](StepCall& c, void* p) { replace(c.request.parameters.width.values.data, p); }},
      {"length_penalty",
       [](StepCall& c, void* p) { replace(c.request.parameters.length_penalty.values.data, p); }},
      {"early_stopping",
       [](StepCall& c, void* p) { replace(c.request.parameters.early_stopping.values.data, p); }},
      {"max_tokens",
       [](StepCall& c, void* p) { replace(c.request.parameters.max_tokens.values.data, p); }},
      {"end_ids.data", [](StepCall& c, void* p) { replace(c.request.parameters.end_ids.data, p); }},
      {"end_ids.begins",
       [](StepCall& c, void* p) { replace(c.request.parameters.end_ids.begins.data, p); }},
      {"end_ids.lengths",
       [](StepCall& c, void* p) { replace(c.request.parameters.end_ids.lengths.data, p); }},
      {"parents", [](StepCall& c, void* p) { replace(c.result.parents.data, p); }},
      {"tokens", [](StepCall& c, void* p) { replace(c.result.tokens.data, p); }},
      {"result.scores", [](StepCall& c, void* p) { replace(c.result.scores.data, p); }},
      {"result.live_beams", [](StepCall& c, void* p) { replace(c.result.live_beams.data, p); }},
      {"result.generated", [](StepCall& c, void* p) { replace(c.result.generated.data, p); }},
      {"result.states", [](StepCall& c, void* p) { replace(c.result.states.data, p); }},
      {"statuses", [](StepCall& c, void* p) { replace(c.result.statuses.data, p); }},
      {"pool.counts", [](StepCall& c, void* p) { replace(c.result.pool.counts.data, p); }},
      {"pool.scores", [](StepCall& c, void* p) { replace(c.result.pool.scores.data, p); }},
      {"pool.cumulative", [](StepCall& c, void* p) { replace(c.result.pool.cumulative.data, p); }},
      {"pool.lengths", [](StepCall& c, void* p) { replace(c.result.pool.lengths.data, p); }},
      {"pool.beams", [](StepCall& c, void* p) { replace(c.result.pool.beams.data, p); }},
      {"pool.tokens", [](StepCall& c, void* p) { replace(c.result.pool.tokens.data, p); }},
      {"history.tokens", [](StepCall& c, void* p) { replace(c.result.history.tokens.data, p); }},
      {"history.parents", [](StepCall& c, void* p) { replace(c.result.history.parents.data, p); }},
      {"workspace", [](StepCall& c, void* p) { replace(c.execution.workspace, p); }},
  };
  std::vector<std::uint64_t> host(1000);
  for (const auto& [name, set] : fields) {
    StepCall call;
    set(call, host.data());
    call.expect_refused(std::string(name) + " is ", "host memory");
  }
  EXPECT_EQ(host, std::vector<std::uint64_t>(1000));
}

TEST(CudaBeamArguments, AStepNeedsItsArrays) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const auto refused = [](const std::string& begins,
                          const std::function<void(StepCall&)>& mutation) {
    StepCall call;
    mutation(call);
    call.expect_refused(begins, "allowed: ");
  };
  refused("rows.data is null", [](StepCall& c) { c.request.rows.data = nullptr; });
  refused("row_begins is null", [](StepCall& c) { c.request.row_begins.data = nullptr; });
  refused("live_beams is null", [](StepCall& c) { c.request.live_beams = {}; });
  refused("states is null", [](StepCall& c) { c.request.states.data = nullptr; });
  refused("tokens is null", [](StepCall& c) { c.result.tokens.data = nullptr; });
  refused("result.states is null", [](StepCall& c) { c.result.states.data = nullptr; });
  refused("pool.beams is null", [](StepCall& c) { c.result.pool.beams.data = nullptr; });
  refused("history.parents is null", [](StepCall& c) { c.result.history.parents.data = nullptr; });
  refused("length of scores is 1", [](StepCall& c) { c.request.scores.size = 1; });
  refused("workspace is null", [](StepCall& c) { c.execution.workspace = nullptr; });
  refused("workspace_bytes is ", [](StepCall& c) { --c.execution.workspace_bytes; });
}

/// A valid call that ends three beam searches; each test then makes one field invalid.
struct EndCall {
  EndCall() : call(three_beam_results()), found(call->nothing()) {
    request = end_on(device, call->request);
    result = sequences_on(device, found.views());
  }

  void expect_refused(const std::string& begins, const std::string& part) {
    expect_message(cuda::beam_search_result(request, result), begins, part);
    device.fetch();
    EXPECT_TRUE(found == call->nothing()) << begins;
  }

  std::unique_ptr<BeamResultCall> call;
  BeamFound found;
  DeviceCopies device;
  BeamResultRequest request;
  BeamSequences result;
};

TEST(CudaBeamArguments, AnEndNamesHostMemoryByItsField) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  using Set = std::function<void(EndCall&, void*)>;
  const std::vector<std::pair<const char*, Set>> fields = {
      {"pool.counts", [](EndCall& c, void* p) { replace(c.request.pool.counts.data, p); }},
      {"pool.scores", [](EndCall& c, void* p) { replace(c.request.pool.scores.data, p); }},
      {"pool.cumulative", [](EndCall& c, void* p) { replace(c.request.pool.cumulative.data, p); }},
      {"pool.lengths", [](EndCall& c, void* p) { replace(c.request.pool.lengths.data, p); }},
      {"pool.beams", [](EndCall& c, void* p) { replace(c.request.pool.beams.data, p); }},
      {"pool.tokens", [](EndCall& c, void* p) { replace(c.request.pool.tokens.data, p); }},
      {"history.tokens", [](EndCall& c, void* p) { replace(c.request.history.tokens.data, p); }},
      {"history.parents", [](EndCall& c, void* p) { replace(c.request.history.parents.data, p); }},
      {"live_beams", [](EndCall& c, void* p) { replace(c.request.live_beams.data, p); }},
      {"scores", [](EndCall& c, void* p) { replace(c.request.scores.data, p); }},
      {"generated", [](EndCall& c, void* p) { replace(c.request.generated.data, p); }},
      {"states", [](EndCall& c, void* p) { replace(c.request.states.data, p); }},
      {"length_penalty",
       [](EndCall& c, void* p) { replace(c.request.length_penalty.values.data, p); }},
      {"tokens", [](EndCall& c, void* p) { replace(c.result.tokens.data, p); }},
      {"lengths", [](EndCall& c, void* p) { replace(c.result.lengths.data, p); }},
      {"result.scores", [](EndCall& c, void* p) { replace(c.result.scores.data, p); }},
      {"cumulative", [](EndCall& c, void* p) { replace(c.result.cumulative.data, p); }},
      {"statuses", [](EndCall& c, void* p) { replace(c.result.statuses.data, p); }},
  };
  std::vector<std::uint64_t> host(1000);
  for (const auto& [name, set] : fields) {
    EndCall call;
    set(call, host.data());
    call.expect_refused(std::string(name) + " is ", "host memory");
  }
  EXPECT_EQ(host, std::vector<std::uint64_t>(1000));
}

TEST(CudaBeamArguments, AnEndNeedsItsArrays) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const auto refused = [](const std::string& begins,
                          const std::function<void(EndCall&)>& mutation) {
    EndCall call;
    mutation(call);
    call.expect_refused(begins, "allowed: ");
  };
  refused("max_width is 1025", [](EndCall& c) { c.request.max_width = 1025; });
  refused("best is 4", [](EndCall& c) { c.request.best = 4; });
  refused("pool.scores is null", [](EndCall& c) { c.request.pool.scores.data = nullptr; });
  refused("history.tokens is null", [](EndCall& c) { c.request.history.tokens = {}; });
  refused("length of history.parents is 35", [](EndCall& c) { --c.request.history.parents.size; });
  refused("states is null", [](EndCall& c) { c.request.states.data = nullptr; });
  refused("tokens is null", [](EndCall& c) { c.result.tokens.data = nullptr; });
  refused("length of lengths is 8", [](EndCall& c) { --c.result.lengths.size; });
  refused("length of statuses is 2", [](EndCall& c) { --c.result.statuses.size; });
}

}  // namespace
}  // namespace fairdraw::suites
