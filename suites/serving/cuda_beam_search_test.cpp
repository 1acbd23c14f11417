// A step of beam search on the GPU against the CPU's, which is judged by the second writing of the
// reference: whole searches in lockstep, every array equal after every step.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <random>
#include <vector>

#include "fairdraw/cuda.h"
#include "harness/inputs/families.h"
#include "suites/differential/cuda_arrays.h"
#include "suites/serving/beam_batch.h"
#include "suites/serving/beam_problems.h"

namespace fairdraw::suites {
namespace {

bool is_reduced() { return std::getenv("FAIRDRAW_REDUCED") != nullptr; }

/// Runs steps whose arrays lie on the host.
class OnGpu {
 public:
  explicit OnGpu(cuda::Path path) : path_(path) {}

  Error operator()(const BeamStepRequest& request, const BeamStepResult& result) {
    arrays_.rewind();
    integers_.clear();
    floats_.clear();
    BeamStepRequest step = request;
    const RowsView& rows = request.rows;
    const auto* values = static_cast<const float*>(rows.data);
    const std::vector<float> copy(values, values + rows.rows * rows.row_stride);
    step.rows.data = arrays_.in(copy);
    step.row_begins = in(request.row_begins);
    step.live_beams = in(request.live_beams);
    step.scores = in(request.scores);
    step.generated = in(request.generated);
    step.states = in(request.states);
    step.parameters.width = in(request.parameters.width);
    step.parameters.length_penalty = in(request.parameters.length_penalty);
    step.parameters.early_stopping = in(request.parameters.early_stopping);
    step.parameters.max_tokens = in(request.parameters.max_tokens);
    const TokenLists& ends = request.parameters.end_ids;
    step.parameters.end_ids = {in(View(ends.data, ends.size)).data, ends.size, in(ends.begins),
                               in(ends.lengths)};
    BeamStepResult out = result;
    out.parents = out_of(result.parents);
    out.tokens = out_of(result.tokens);
    out.scores = out_of(result.scores);
    out.live_beams = out_of(result.live_beams);
    out.generated = out_of(result.generated);
    out.states = out_of(result.states);
    out.statuses = out_of(result.statuses);
    out.pool.counts = out_of(result.pool.counts);
    out.pool.scores = out_of(result.pool.scores);
    out.pool.cumulative = out_of(result.pool.cumulative);
    out.pool.lengths = out_of(result.pool.lengths);
    out.pool.beams = out_of(result.pool.beams);
    out.pool.tokens = out_of(result.pool.tokens);
    out.history.tokens = out_of(result.history.tokens);
    out.history.parents = out_of(result.history.parents);
    if (Error error = cuda::beam_search_step(step, out, arrays_.execution(step, path_))) {
      return error;
    }
    arrays_.fetch();
    for (const Back<std::int32_t>& back : integers_) put(back);
    for (const Back<float>& back : floats_) put(back);
    return {};
  }

 private:
  /// An array that comes back. Enums travel as the integers that they are.
  template <class T>
  struct Back {
    std::vector<T> values;
    T* to;
  };
  template <class T>
  static void put(const Back<T>& back) {
    std::copy(back.values.begin(), back.values.end(), back.to);
  }

  template <class T>
  View<const T> in(const View<const T>& view) {
    if (!view.given()) return {};
    const std::vector<T> copy(view.data, view.data + view.size);
    return {arrays_.in(copy), view.size};
  }
  template <class T>
  PerRequest<T> in(const PerRequest<T>& parameter) {
    if (!parameter.is_array()) return parameter;
    return {in(parameter.values).data, parameter.values.size};
  }
  template <class T>
  View<T> out_of(const View<T>& view) {
    if (!view.given()) return {};
    if constexpr (std::is_same_v<T, float>) {
      floats_.push_back({{view.data, view.data + view.size}, view.data});
      return {arrays_.out(floats_.back().values), view.size};
    } else {
      static_assert(sizeof(T) == sizeof(std::int32_t));
      auto* to = reinterpret_cast<std::int32_t*>(view.data);
      integers_.push_back({{to, to + view.size}, to});
      return {reinterpret_cast<T*>(arrays_.out(integers_.back().values)), view.size};
    }
  }

  cuda::Path path_;
  DeviceArrays arrays_;
  std::deque<Back<std::int32_t>> integers_;  // addresses of their elements stay
  std::deque<Back<float>> floats_;
};

void expect_same(const BeamBatch& cpu, const BeamBatch& gpu, std::size_t requests) {
  for (std::size_t r = 0; r < requests; ++r) {
    EXPECT_EQ(cpu.status(r), gpu.status(r)) << to_string(gpu.status(r));
    EXPECT_EQ(cpu.state(r), gpu.state(r));
    EXPECT_EQ(cpu.live(r), gpu.live(r));
    EXPECT_EQ(cpu.parents(r), gpu.parents(r));
    EXPECT_EQ(cpu.pool(r), gpu.pool(r));
  }
}

/// Steps of both until all is done, at most `steps`.
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
        if (width > 4 && vocab > 20011) continue;  // the rows take long to make
        const BeamProblem problem = {rules_of(width, 3, {7}), row};
        for (const BeamInput input : {BeamInput::logits, BeamInput::logprobs}) {
          run_both(one(problem), vocab, input, 2);
          ASSERT_FALSE(HasFailure()) << harness::to_string(family) << " " << vocab << " " << width;
        }
      }
    }
  }
}

// (1 + 1) * 129 candidates: two more than a request may count here. Its neighbour goes on.
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
