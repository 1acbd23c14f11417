// chain_speculative_sampling on the GPU must equal the CPU path, byte for byte, and its draws must
// have the target's distribution. The tests also cover rejected arguments and use in a graph.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "common/philox.h"
#include "harness/statistics/statistics.h"
#include "reference/integer_model.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/graphs.h"
#include "tests/cuda/host_memory.h"
#include "tests/sample/reduced.h"
#include "tests/speculation/chain_calls.h"
#include "tests/speculation/speculative_rows.h"

namespace fairdraw::suites {
namespace {

TEST(CudaChains, ChainSpeculativeSamplingMatchesCpuToTheBit) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  const std::uint64_t chains = is_reduced() ? 12 : 600;
  std::int64_t emitted_drafts = 0;
  std::int64_t requests = 0;
  std::int64_t ok = 0;
  for (std::uint64_t number = 0; number < chains; ++number) {
    std::mt19937_64 random(~number);
    std::int64_t vocab =
        static_cast<std::int64_t>(random() % 4 == 0 ? 128 + random() % 3000 : 1 + random() % 40);
    if (number % 100 == 99) vocab = 128256;
    const ChainCall call = random_chain_call(number, vocab);
    ChainOutputs expected(call);
    HostArrays host;
    const Error refused = run_chain(call, expected, host, Execution{});
    ASSERT_FALSE(refused) << refused.message;
    requests += call.batch;
    for (const RowStatus status : expected.statuses) ok += status == RowStatus::ok ? 1 : 0;
    for (const std::int32_t emitted : expected.emitted) emitted_drafts += emitted;
    for (const cuda::Path path : available_paths()) {
      for (const bool optional_results : {true, false}) {
        ChainOutputs got(call, optional_results);
        arrays.rewind();
        const std::int64_t rows = call.draft.rows + call.target.rows;
        const Error error = run_chain(call, got, arrays, arrays.execution(rows, path));
        ASSERT_FALSE(error) << error.message;
        arrays.fetch();
        const auto where = [&] {
          return "chains " + std::to_string(number) + " of " +
                 std::to_string(call.num_draft_tokens) + " tokens, vocab " + std::to_string(vocab) +
                 ", target " + to_string(call.target.dtype) + ", draft " +
                 to_string(call.draft.dtype) + " on " + cuda::to_string(path);
        };
        ASSERT_EQ(got.tokens, expected.tokens) << where();
        if (!optional_results) continue;
        ASSERT_EQ(got.statuses, expected.statuses) << where();
        ASSERT_EQ(got.accepted, expected.accepted) << where();
        ASSERT_EQ(got.emitted, expected.emitted) << where();
      }
    }
  }
  // Accepted and rejected drafts must both be common, otherwise the comparison says little.
  EXPECT_GT(ok, requests / 2);
  EXPECT_GT(emitted_drafts, requests / 8);
}

// Total weights are 4 to 8 times 2^16, and their lower and upper bounds are V - 1 = 2^17 apart, so
// that the bounds alone decide nothing.
TEST(CudaChains, ChainsThatBoundsLeaveOpenMatchCpuToTheBit) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  std::array<int, 2> tests{};  // numbers of draft positions that pass the acceptance test, and that
                               // fail it
  const std::uint64_t calls = is_reduced() ? 2 : 40;
  for (std::uint64_t number = 0; number < calls; ++number) {
    const ChainCall call = open_chain_call(number, 1 + (1 << 17));
    ChainOutputs expected(call);
    HostArrays host;
    const Error refused = run_chain(call, expected, host, Execution{});
    ASSERT_FALSE(refused) << refused.message;
    for (const std::int32_t accepted : expected.accepted) {
      tests[0] += accepted;
      tests[1] += static_cast<int>(call.num_draft_tokens) - accepted;
    }
    for (const cuda::Path path : available_paths()) {
      ChainOutputs got(call);
      arrays.rewind();
      const std::int64_t rows = call.draft.rows + call.target.rows;
      const Error error = run_chain(call, got, arrays, arrays.execution(rows, path));
      ASSERT_FALSE(error) << error.message;
      arrays.fetch();
      ASSERT_EQ(got.tokens, expected.tokens) << "chains " << number;
      ASSERT_EQ(got.statuses, expected.statuses) << "chains " << number;
      ASSERT_EQ(got.accepted, expected.accepted) << "chains " << number;
      ASSERT_EQ(got.emitted, expected.emitted) << "chains " << number;
    }
  }
  if (is_reduced()) return;
  for (const int count : tests) EXPECT_GT(count, 10);
}

// --- The distribution of chains -----------------------------------------------------------------

std::vector<double> probabilities_of(const reference::IntegerRow& row) {
  std::vector<double> distribution;
  for (const std::uint64_t weight : row.speculation_weight) {
    distribution.push_back(static_cast<double>(weight) /
                           static_cast<double>(row.speculation_total()));
  }
  return distribution;
}

/// Returns chains with seeds 0, 1, 2, and so on. Each chain is drafted with its own seed, at the
/// offsets of its positions, as in an engine.
ChainCall chains_of(const Rows& draft, std::int64_t batch) {
  const reference::IntegerRow first = distribution_of(draft, 0);
  const reference::IntegerRow second = distribution_of(draft, 1);
  ChainCall call;
  call.batch = batch;
  call.num_draft_tokens = kDrafts;
  call.draft.allocate(DType::float32, batch * kDrafts, kVocab, kVocab, 0);
  call.target.allocate(DType::float32, batch * (kDrafts + 1), kVocab, kVocab, 0);
  call.target.seed.make_array(batch);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t i = 0; i < kDrafts; ++i) {
      call.draft.set_row(b * kDrafts + i, draft.data() + i * kVocab);
    }
    for (std::int64_t i = 0; i <= kDrafts; ++i) {
      call.target.set_row(b * (kDrafts + 1) + i, kTarget.data() + i * kVocab);
    }
    const auto seed = static_cast<std::uint64_t>(b);
    call.target.seed.set(b) = seed;
    call.draft_tokens.push_back(first.token_for(random_word(seed, 0, Purpose::draft, 0)));
    call.draft_tokens.push_back(second.token_for(random_word(seed, 1, Purpose::draft, 0)));
  }
  return call;
}

TEST(CudaChains, FirstAndSecondTokensOfChainsFollowTheTargetWhateverTheDraft) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  // The rows of target and draft together must not exceed the row limit of a call.
  const std::int64_t chains = is_reduced() ? 2000 : 65536 / (2 * kDrafts + 1);
  // All these tests together may fail by chance with a probability of 1e-9; the level is divided by
  // four drafts with two statistics each, on every path.
  const std::vector<cuda::Path> paths = available_paths();
  const double level = 1e-9 / (4 * 2 * static_cast<double>(paths.size()));
  const std::vector<double> first_distribution = probabilities_of(distribution_of(kTarget, 0));
  const std::vector<double> second_distribution = probabilities_of(distribution_of(kTarget, 1));
  DeviceArrays arrays;
  for (const Rows& draft : kDraftRows) {
    const ChainCall call = chains_of(draft, chains);
    for (const cuda::Path path : paths) {
      ChainOutputs got(call);
      arrays.rewind();
      const Error error =
          run_chain(call, got, arrays, arrays.execution(call.draft.rows + call.target.rows, path));
      ASSERT_FALSE(error) << error.message;
      arrays.fetch();
      std::vector<std::uint64_t> first_seen(kVocab);
      std::vector<std::uint64_t> second_seen(kVocab);
      std::uint64_t seconds = 0;
      for (std::int64_t b = 0; b < chains; ++b) {
        const std::int32_t* out = got.tokens.data() + b * (kDrafts + 1);
        ++first_seen.at(static_cast<std::size_t>(out[0]));
        if (out[1] < 0) continue;  // the chain has ended at the first position
        ++seconds;
        ++second_seen.at(static_cast<std::size_t>(out[1]));
      }
      EXPECT_EQ(first_seen[4], 0U);  // The token has probability 0 in the target, so it has no cell
                                     // in the goodness-of-fit test.
      EXPECT_GE(statistics::goodness_of_fit({first_seen.data(), 4}, {first_distribution.data(), 4})
                    .g_p_bound,
                level);
      if (seconds == 0) continue;
      // If a chain has a second token, that token has the distribution of the target's second row,
      // whatever the first token is.
      EXPECT_GE(statistics::goodness_of_fit(second_seen, second_distribution).g_p_bound, level)
          << "of " << seconds << " second tokens";
    }
  }
}

TEST(CudaChains, NameTheirOwnFields) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  HostMemory host;
  DeviceArrays arrays;
  const ChainCall call = random_chain_call(8, 30);  // two drafted tokens
  ASSERT_EQ(call.num_draft_tokens, 2);
  ChainOutputs outputs(call);
  const std::int64_t batch = call.batch;
  ChainSpeculativeRequest valid;
  valid.draft_probs = request_in(call.draft, arrays).logits;
  valid.target_probs = request_in(call.target, arrays).logits;
  valid.draft_tokens = {arrays.in(call.draft_tokens), 2 * batch};
  valid.batch = batch;
  valid.num_draft_tokens = 2;
  ChainSpeculativeResult valid_result;
  valid_result.tokens = {arrays.out(outputs.tokens), 3 * batch};
  valid_result.accepted = {arrays.out(outputs.accepted), batch};
  valid_result.emitted = {arrays.out(outputs.emitted), batch};
  valid_result.statuses = {arrays.out(outputs.statuses), batch};
  const cuda::Execution execution = arrays.execution(5 * batch, cuda::Path::best);
  struct Field {
    const char* name;
    std::function<void(ChainSpeculativeRequest&, ChainSpeculativeResult&, void*)> set;
  };
  using Request = ChainSpeculativeRequest&;
  using Result = ChainSpeculativeResult&;
  const std::vector<Field> fields = {
      {"draft_probs.data", [](Request q, Result, void* p) { replace(q.draft_probs.data, p); }},
      {"draft_tokens", [](Request q, Result, void* p) { replace(q.draft_tokens.data, p); }},
      {"target_probs.data", [](Request q, Result, void* p) { replace(q.target_probs.data, p); }},
      {"seed", [batch](Request q, Result,
                       void* p) { q.seed = {static_cast<const std::uint64_t*>(p), batch}; }},
      {"offset", [batch](Request q, Result,
                         void* p) { q.offset = {static_cast<const std::uint64_t*>(p), batch}; }},
      {"tokens", [](Request, Result r, void* p) { replace(r.tokens.data, p); }},
      {"accepted", [](Request, Result r, void* p) { replace(r.accepted.data, p); }},
      {"emitted", [](Request, Result r, void* p) { replace(r.emitted.data, p); }},
      {"statuses", [](Request, Result r, void* p) { replace(r.statuses.data, p); }},
  };
  for (const Field& field : fields) {
    for (void* memory : host.blocks()) {
      ChainSpeculativeRequest request = valid;
      ChainSpeculativeResult result = valid_result;
      field.set(request, result, memory);
      const Error error = cuda::chain_speculative_sampling(request, result, execution);
      EXPECT_EQ(error.code, ErrorCode::invalid_argument);
      EXPECT_EQ(error.message.rfind(std::string(field.name) + " is ", 0), 0U) << error.message;
    }
  }
  ChainSpeculativeRequest longer = valid;
  longer.num_draft_tokens = 3;
  EXPECT_TRUE(cuda::chain_speculative_sampling(longer, valid_result, execution));
  cuda::Execution small = execution;
  --small.workspace_bytes;
  EXPECT_EQ(cuda::chain_speculative_sampling(valid, valid_result, small)
                .message.find("workspace_bytes is "),
            0U);
  arrays.fetch();
  const ChainOutputs untouched(call);
  EXPECT_EQ(outputs.tokens, untouched.tokens);
  EXPECT_EQ(outputs.accepted, untouched.accepted);
  EXPECT_EQ(outputs.emitted, untouched.emitted);
  EXPECT_EQ(outputs.statuses, untouched.statuses);
  EXPECT_FALSE(cuda::chain_speculative_sampling(valid, valid_result, execution));
  arrays.fetch();
  EXPECT_NE(outputs.tokens, untouched.tokens);
}

TEST(CudaChains, CanBeCaptured) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Stream stream;
  for (const cuda::Path path : available_paths()) {
    const ChainCall chains = random_chain_call(3, 700);
    ChainOutputs expected(chains);
    HostArrays host;
    ASSERT_FALSE(run_chain(chains, expected, host, Execution{}));
    ChainOutputs got(chains);
    DeviceArrays arrays;
    const cuda::Execution execution =
        arrays.execution(chains.draft.rows + chains.target.rows, path, stream.get());
    arrays.when_ready([&stream] { Graph::begin(stream); });
    Graph graph;
    const Error error = run_chain(chains, got, arrays, execution);
    graph.end(stream);
    ASSERT_FALSE(error) << error.message;
    graph.expect_device_work_only("chain_speculative_sampling");
    graph.launch(stream);
    arrays.fetch();
    EXPECT_EQ(got.tokens, expected.tokens);
    EXPECT_EQ(got.statuses, expected.statuses);
  }
}

}  // namespace
}  // namespace fairdraw::suites
