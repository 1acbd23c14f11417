// Beam search on the GPU is compared with the CPU's, which the reference's independent
// implementation judges. Whole searches run step by step on both. After every step, all arrays must
// be equal on CPU and GPU, and so must the sequences that the search would return at that point.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "fairdraw/cuda_beam_result.h"
#include "fairdraw/cuda_beam_search.h"
#include "harness/inputs/families.h"
#include "tests/cuda/serving/beam_calls.h"
#include "tests/sample/reduced.h"
#include "tests/serving/beam_batch.h"
#include "tests/serving/beam_problems.h"
#include "tests/serving/beam_result_call.h"

namespace fairdraw::suites {
namespace {

/// Runs steps and ends of beam searches on the GPU, for arrays that are on the host.
class OnGpu {
 public:
  explicit OnGpu(cuda::Path path) : path_(path) {}

  Error operator()(const BeamStepRequest& request, const BeamStepResult& result) {
    device_.rewind();
    const BeamStepRequest step = step_on(device_, request);
    const BeamStepResult to = step_result_on(device_, result);
    const cuda::Execution execution = device_.arrays().execution(step, path_);
    if (Error error = cuda::beam_search_step(step, to, execution)) return error;
    device_.fetch();
    return {};
  }

  Error operator()(const BeamResultRequest& request, const BeamSequences& result) {
    device_.rewind();
    const BeamResultRequest end = end_on(device_, request);
    const BeamSequences to = sequences_on(device_, result);
    if (Error error = cuda::beam_search_result(end, to)) return error;
    device_.fetch();
    return {};
  }

 private:
  cuda::Path path_;
  DeviceCopies device_;
};

/// Compares the sequences that CPU and GPU would return after the current step.
void expect_same_end(const BeamBatch& batch, OnGpu& on_gpu) {
  BeamResultCall call(batch.result_request(batch.max_width));
  const BeamFound expected = call.run_on_cpu();
  ASSERT_FALSE(call.error) << call.error.message;
  const BeamFound found = call.run(std::ref(on_gpu));
  ASSERT_FALSE(call.error) << call.error.message;
  EXPECT_TRUE(found == expected);
}

void expect_same(const BeamBatch& cpu, const BeamBatch& gpu, std::size_t requests) {
  for (std::size_t r = 0; r < requests; ++r) {
    EXPECT_EQ(cpu.status(r), gpu.status(r)) << to_string(gpu.status(r));
    EXPECT_EQ(cpu.state(r), gpu.state(r));
    EXPECT_EQ(cpu.live(r), gpu.live(r));
    EXPECT_EQ(cpu.parents(r), gpu.parents(r));
    EXPECT_EQ(cpu.pool(r), gpu.pool(r));
  }
}

/// Runs steps on CPU and GPU until all searches are done, but at most `steps` steps.
void run_both(const std::vector<BeamProblem>& problems, std::int64_t vocab, BeamInput input,
              int steps) {
  for (const cuda::Path path : available_paths()) {
    BeamBatch cpu(problems, vocab, input);
    BeamBatch gpu(problems, vocab, input);
    OnGpu on_gpu(path);
    for (int step = 0; step < steps && !cpu.all_done(); ++step) {
      ASSERT_FALSE(cpu.step());
      const Error error = gpu.step_by(std::ref(on_gpu));
      ASSERT_FALSE(error) << error.message;
      expect_same(cpu, gpu, problems.size());
      expect_same_end(gpu, on_gpu);
      ASSERT_FALSE(::testing::Test::HasFailure()) << cuda::to_string(path) << ", step " << step;
    }
  }
}

TEST(CudaBeamSearch, SmallVocabulariesWithTies) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  std::mt19937_64 random(20261122);
  const int repeats = is_reduced() ? 10 : 500;
  for (int repeat = 0; repeat < repeats && !HasFailure(); ++repeat) {
    const std::size_t vocab = 2 + random() % (repeat % 5 == 0 ? 400 : 12);
    std::vector<BeamProblem> problems;
    for (std::uint64_t i = 1 + random() % 5; i > 0; --i) {
      problems.push_back(random_problem(random, vocab));
    }
    run_both(problems, static_cast<std::int64_t>(vocab), static_cast<BeamInput>(repeat % 2), 10);
  }
}

TEST(CudaBeamSearch, RowsOfEveryFamily) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  for (const harness::Family family : harness::all_families()) {
    for (const std::int64_t vocab :
         {std::int64_t{700}, std::int64_t{20011}, std::int64_t{128256}}) {
      if (is_reduced() && vocab > 700) continue;
      for (const std::int32_t width : {1, 4, 33, 100}) {
        const auto row = [family, vocab](const TokenSequence& sequence) {
          std::vector<float> values(static_cast<std::size_t>(vocab));
          const std::int32_t number = sequence.empty() ? 0 : sequence.back() % 1000 + 1;
          harness::generate_row(family, 5, static_cast<std::uint64_t>(number), values);
          return values;
        };
        if (width > 4 && vocab > 20011)
          continue;  // skipped, because such rows take long to
                     // generate
        const BeamProblem problem = {rules_of(width, 3, {7}), row};
        for (const BeamInput input : {BeamInput::logits, BeamInput::logprobs}) {
          run_both(one(problem), vocab, input, 2);
          ASSERT_FALSE(HasFailure()) << harness::to_string(family) << " " << vocab << " " << width;
        }
      }
    }
  }
}

// The request has (1 + 1) * 129 candidates, two more than the GPU's limit per request. The other
// request of the batch goes on with its search.
TEST(CudaBeamSearch, ARequestThatIsTooWideFailsAlone) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const auto row = [](std::size_t, std::int32_t) { return std::vector<float>(700, -1.0F); };
  const std::vector<BeamProblem> problems = {problem_of(rules_of(129, 9, {}), row),
                                             problem_of(rules_of(128, 9, {}), row)};
  for (const cuda::Path path : available_paths()) {
    BeamBatch batch(problems, 700, BeamInput::logprobs);
    OnGpu on_gpu(path);
    const Error error = batch.step_by(std::ref(on_gpu));
    ASSERT_FALSE(error) << error.message;
    EXPECT_EQ(batch.status(0), RowStatus::invalid_beam);
    EXPECT_EQ(batch.status(1), RowStatus::ok);
    EXPECT_EQ(batch.live(1).size(), 128U);
  }
}

}  // namespace
}  // namespace fairdraw::suites
