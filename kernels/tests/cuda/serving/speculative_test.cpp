// accept_chain and accept_tree on the GPU are compared with the reference's model for small
// vocabularies, and with the CPU for large vocabularies and for processed rows, bit for bit.
#include "fairdraw/speculative.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <vector>

#include "fairdraw/cuda_speculative.h"
#include "tests/cuda/arrays.h"
#include "tests/sample/reduced.h"
#include "tests/speculation/speculation_calls.h"

namespace fairdraw::suites {
namespace {

SpeculationOutputs run_on_cpu(const SpeculationCall& call, bool tree) {
  HostArrays arrays;
  SpeculationOutputs outputs(call, tree ? call.max_depth : call.max_draft);
  const Error error = tree
                          ? accept_tree(tree_in(call, arrays),
                                        speculation_result_in<AcceptTreeResult>(outputs, arrays))
                          : accept_chain(chain_in(call, arrays),
                                         speculation_result_in<AcceptChainResult>(outputs, arrays));
  EXPECT_FALSE(error) << error.message;
  return outputs;
}

class OnGpu {
 public:
  SpeculationOutputs run(const SpeculationCall& call, bool tree, cuda::Path path) {
    SpeculationOutputs outputs(call, tree ? call.max_depth : call.max_draft);
    arrays_.rewind();
    Error error;
    if (tree) {
      const AcceptTreeRequest request = tree_in(call, arrays_);
      const auto result = speculation_result_in<AcceptTreeResult>(outputs, arrays_);
      error = cuda::accept_tree(request, result, arrays_.execution(request, path));
    } else {
      const AcceptChainRequest request = chain_in(call, arrays_);
      const auto result = speculation_result_in<AcceptChainResult>(outputs, arrays_);
      error = cuda::accept_chain(request, result, arrays_.execution(request, path));
    }
    EXPECT_FALSE(error) << error.message;
    arrays_.fetch();
    return outputs;
  }

 private:
  DeviceArrays arrays_;
};

/// Returns the expected outputs of a call that verifies drafts; chains write no nodes.
SpeculationOutputs expected_outputs(const SpeculationCall& call, bool tree) {
  if (tree) return expected_tree_outputs(call);
  SpeculationOutputs outputs = expected_chain_outputs(call);
  outputs.nodes = SpeculationOutputs(call, call.max_draft).nodes;
  return outputs;
}

std::int64_t small_vocab(std::uint64_t number) {
  constexpr std::int64_t kVocabs[] = {1, 2, 5, 31, 33, 64, 130, 257, 1000};
  return kVocabs[number / 3 % 9];
}

class CudaSpeculative : public ::testing::TestWithParam<bool> {};

TEST_P(CudaSpeculative, EqualsTheModel) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const bool tree = GetParam();
  OnGpu gpu;
  std::set<RowStatus> seen;
  const std::uint64_t calls = is_reduced() ? 60 : 4000;
  for (std::uint64_t number = 0; number < calls; ++number) {
    const SpeculationCall call = random_speculation_call(number, small_vocab(number), tree);
    const SpeculationOutputs expected = expected_outputs(call, tree);
    for (const cuda::Path path : available_paths()) {
      ASSERT_EQ(difference(expected, gpu.run(call, tree, path)), "")
          << "call " << number << ", " << cuda::to_string(path);
    }
    seen.insert(expected.statuses.begin(), expected.statuses.end());
  }
  if (is_reduced()) return;
  for (const RowStatus status :
       {RowStatus::ok, RowStatus::inactive, RowStatus::nan_input, RowStatus::infinite_input,
        RowStatus::no_allowed_token, RowStatus::invalid_temperature, RowStatus::index_out_of_range,
        RowStatus::invalid_draft_length, RowStatus::impossible_draft}) {
    EXPECT_EQ(seen.count(status), 1U) << to_string(status);
  }
  EXPECT_EQ(seen.count(RowStatus::invalid_draft_tree), tree ? 1U : 0U);
}

TEST_P(CudaSpeculative, LargeVocabulariesEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  if (is_reduced()) GTEST_SKIP() << "rows of this size take too long under compute-sanitizer";
  const bool tree = GetParam();
  OnGpu gpu;
  for (std::uint64_t number = 0; number < 60; ++number) {
    constexpr std::int64_t kVocabs[] = {5000, 32000, 50257, 128256};
    const SpeculationCall call =
        random_speculation_call(100000 + number, kVocabs[number % 4], tree);
    const SpeculationOutputs expected = run_on_cpu(call, tree);
    for (const cuda::Path path : available_paths()) {
      ASSERT_EQ(difference(expected, gpu.run(call, tree, path)), "")
          << "call " << number << ", " << cuda::to_string(path);
    }
  }
}

TEST(CudaBlockVerification, EqualsTheModel) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  OnGpu gpu;
  const auto expect_equal = [&gpu](const SpeculationCall& call, std::uint64_t number) {
    const SpeculationOutputs expected = expected_outputs(call, false);
    for (const cuda::Path path : available_paths()) {
      ASSERT_EQ(difference(expected, gpu.run(call, false, path)), "")
          << "call " << number << ", " << cuda::to_string(path);
    }
  };
  const std::uint64_t calls = is_reduced() ? 60 : 4000;
  for (std::uint64_t number = 0; number < calls && !HasFailure(); ++number) {
    SpeculationCall call = random_speculation_call(number, small_vocab(number));
    set_block_rules(call, number);
    expect_equal(call, number);
    if (number % 40 != 0) continue;
    // Weights tie, or the bounds of the totals do not decide.
    call = exchanged_speculation_call(number, 200);
    set_block_rules(call, number / 40);
    expect_equal(call, number);
    call = open_speculation_call(number, 1000, false);
    set_block_rules(call, number / 40);
    expect_equal(call, number);
  }
}

TEST(CudaBlockVerification, OfLargeVocabulariesAndLongChainsEqualsTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  if (is_reduced()) GTEST_SKIP() << "rows of this size take too long under compute-sanitizer";
  OnGpu gpu;
  const auto expect_equal = [&gpu](SpeculationCall call, std::uint64_t number) {
    set_block_rules(call, number);
    const SpeculationOutputs expected = run_on_cpu(call, false);
    for (const cuda::Path path : available_paths()) {
      ASSERT_EQ(difference(expected, gpu.run(call, false, path)), "")
          << "call " << number << ", " << cuda::to_string(path);
    }
  };
  for (std::uint64_t number = 0; number < 60 && !HasFailure(); ++number) {
    constexpr std::int64_t kVocabs[] = {5000, 32000, 50257, 128256};
    expect_equal(random_speculation_call(100000 + number, kVocabs[number % 4]), number);
    if (number % 6 != 0) continue;
    expect_equal(exchanged_speculation_call(number, 50257), number / 6);
    expect_equal(open_speculation_call(number, 128256, false), number / 6);
    expect_equal(long_speculation_call(number, 1000), number / 6);
  }
}

TEST_P(CudaSpeculative, ProcessedRowsEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const bool tree = GetParam();
  OnGpu gpu;
  const std::uint64_t calls = is_reduced() ? 20 : 600;
  for (std::uint64_t number = 0; number < calls; ++number) {
    SpeculationCall call = random_speculation_call(200000 + number, small_vocab(number), tree);
    call.target.processing =
        harness::random_processing(number, call.target.rows, call.target.vocab);
    const SpeculationOutputs expected = run_on_cpu(call, tree);
    for (const cuda::Path path : available_paths()) {
      ASSERT_EQ(difference(expected, gpu.run(call, tree, path)), "")
          << "call " << number << ", " << cuda::to_string(path);
    }
  }
}

// The draft's total weight is 4 to 8 times 2^16, and its lower and upper bounds are V - 1 = 2^17
// apart, so that the bounds alone decide nothing.
TEST_P(CudaSpeculative, TestsThatBoundsLeaveOpenEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const bool tree = GetParam();
  OnGpu gpu;
  std::array<int, 2> ends{};  // numbers of requests that accept no drafted token, and that accept
                              // some
  const std::uint64_t calls = is_reduced() ? 2 : 40;
  for (std::uint64_t number = 0; number < calls; ++number) {
    const SpeculationCall call = open_speculation_call(number, 1 + (1 << 17), tree);
    const SpeculationOutputs expected = run_on_cpu(call, tree);
    for (const cuda::Path path : available_paths()) {
      ASSERT_EQ(difference(expected, gpu.run(call, tree, path)), "")
          << "call " << number << ", " << cuda::to_string(path);
    }
    for (const std::int32_t count : expected.accepted) ++ends[count > 0 ? 1 : 0];
  }
  if (is_reduced()) return;
  for (const int count : ends) EXPECT_GT(count, 10);
}

// For nearly all tokens, the bounds of the totals do not tell whether the token has a residual.
TEST(CudaSpeculativeChains, ResidualsThatBoundsLeaveOpenEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  OnGpu gpu;
  std::int64_t rejected = 0;
  const std::uint64_t calls = is_reduced() ? 8 : 200;
  for (std::uint64_t number = 0; number < calls; ++number) {
    const std::int64_t vocab = std::array<std::int64_t, 4>{3, 130, 1500, 12000}.at(number % 4);
    const SpeculationCall call = exchanged_speculation_call(number, vocab);
    const SpeculationOutputs expected = run_on_cpu(call, false);
    for (const cuda::Path path : available_paths()) {
      ASSERT_EQ(difference(expected, gpu.run(call, false, path)), "")
          << "call " << number << ", " << cuda::to_string(path);
    }
    for (const std::int32_t count : expected.accepted) rejected += count < call.max_draft ? 1 : 0;
  }
  // The drafted token has a large probability (of the head) in the draft and a small one (of the
  // bulk) in the target, so it is rejected. The exception is that both values belong to one token,
  // which happens for at most 1 of 3. So more than half of the four requests of a call draw a token
  // from the residual.
  EXPECT_GT(rejected, static_cast<std::int64_t>(calls) * 2);
}

// These chains are longer than the number of drafted tokens that a warp tests in parallel.
TEST(CudaSpeculativeChains, LongOnesEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  OnGpu gpu;
  std::array<int, 3> ends{};  // numbers of chains that end in the first 32 drafted tokens, in the
                              // next 32, and later
  const std::uint64_t calls = is_reduced() ? 2 : 100;
  for (std::uint64_t number = 0; number < calls; ++number) {
    const SpeculationCall call = long_speculation_call(number, number % 2 == 0 ? 130 : 5000);
    const SpeculationOutputs expected = run_on_cpu(call, false);
    for (const cuda::Path path : available_paths()) {
      ASSERT_EQ(difference(expected, gpu.run(call, false, path)), "")
          << "call " << number << ", " << cuda::to_string(path);
    }
    for (const std::int32_t count : expected.accepted) {
      ++ends.at(static_cast<std::size_t>(count / 32));
    }
  }
  if (is_reduced()) return;
  for (const int count : ends) EXPECT_GT(count, 10);
}

// The residual weights after many siblings are exact, with 60 bits more per sibling.
TEST(CudaSpeculativeTrees, NodesOfManyChildrenEqualTheModel) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  OnGpu gpu;
  std::array<int, 2> ends{};  // numbers of requests that accept a late child, and that accept no
                              // child
  const std::uint64_t calls = is_reduced() ? 8 : 400;
  for (std::uint64_t number = 0; number < calls; ++number) {
    const std::int64_t vocab = std::array<std::int64_t, 4>{3, 40, 257, 1500}.at(number / 4 % 4);
    // Without replacement there are at most as many children as tokens.
    const std::int64_t children = number % 2 == 0 ? 48 : std::min<std::int64_t>(vocab, 48);
    const SpeculationCall call = wide_speculation_call(number, children, vocab);
    const SpeculationOutputs expected = expected_tree_outputs(call);
    for (const cuda::Path path : available_paths()) {
      ASSERT_EQ(difference(expected, gpu.run(call, true, path)), "")
          << "call " << number << ", " << cuda::to_string(path);
    }
    ends[0] += expected.nodes[0] >= 8 ? 1 : 0;
    ends[1] += expected.accepted[0] == 0 ? 1 : 0;
  }
  if (is_reduced()) return;
  for (const int count : ends) EXPECT_GT(count, 10);
}

// The trees have the maximum number of siblings, and one sibling more.
TEST(CudaSpeculativeTrees, HaveUpToTheMostSiblings) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  if (is_reduced()) GTEST_SKIP() << "a thousand passes take too long under compute-sanitizer";
  OnGpu gpu;
  for (const std::int64_t children : {kMaxSiblings, kMaxSiblings + 1}) {
    for (const std::int64_t vocab : {3, 1200}) {
      // even numbers draw siblings with replacement, odd numbers without
      for (const std::uint64_t number : {4U, 5U}) {
        const SpeculationCall call = wide_speculation_call(number, children, vocab);
        const SpeculationOutputs expected = run_on_cpu(call, true);
        EXPECT_EQ(expected.statuses[0] == RowStatus::invalid_draft_tree, children > kMaxSiblings);
        for (const cuda::Path path : available_paths()) {
          ASSERT_EQ(difference(expected, gpu.run(call, true, path)), "")
              << children << " children, vocabulary " << vocab << ", " << cuda::to_string(path);
        }
      }
    }
  }
}

// The row sizes cover every size of a thread block cluster, with many passes over each row.
TEST(CudaSpeculativeTrees, LargeNodesOfManyChildrenEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  if (is_reduced()) GTEST_SKIP() << "rows of this size take too long under compute-sanitizer";
  OnGpu gpu;
  for (std::uint64_t number = 0; number < 24; ++number) {
    const std::int64_t vocab =
        std::array<std::int64_t, 4>{5000, 12000, 50257, 128256}.at(number / 4 % 4);
    const SpeculationCall call = wide_speculation_call(500 + number, 24, vocab);
    const SpeculationOutputs expected = run_on_cpu(call, true);
    for (const cuda::Path path : available_paths()) {
      ASSERT_EQ(difference(expected, gpu.run(call, true, path)), "")
          << "call " << number << ", " << cuda::to_string(path);
    }
  }
}

// Overlapping requests contradict each other's depths and children; each request must write only
// its own results.
TEST(CudaSpeculativeTrees, RequestsWhoseRowsOverlapGetTokensOrAStatus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  OnGpu gpu;
  constexpr std::int64_t kVocab = 33;
  int overlapping = 0;
  const std::uint64_t calls = is_reduced() ? 40 : 1000;
  for (std::uint64_t number = 0; number < calls; ++number) {
    SpeculationCall call = random_speculation_call(number, kVocab, true);
    if (call.row_begins.empty() || call.batch < 3) continue;
    ++overlapping;
    const auto rows = static_cast<std::int64_t>(call.target_rows.size());
    for (std::size_t b = 0; b < call.row_begins.size(); ++b) {
      call.row_begins[b] = b % 2 == 0 ? std::min(call.batch, rows) : rows;
    }
    for (const cuda::Path path : available_paths()) {
      const SpeculationOutputs outputs = gpu.run(call, true, path);
      for (const std::int32_t token : outputs.tokens) {
        ASSERT_TRUE(token >= -1 && token < kVocab) << "call " << number << ", token " << token;
      }
      for (const std::int32_t node : outputs.nodes) {
        ASSERT_TRUE(node >= -1 && node < call.max_draft) << "call " << number << ", node " << node;
      }
      for (std::size_t b = 0; b < outputs.statuses.size(); ++b) {
        ASSERT_LT(static_cast<int>(outputs.statuses[b]), kRowStatuses) << "call " << number;
        ASSERT_TRUE(outputs.accepted[b] >= 0 && outputs.accepted[b] <= call.max_depth)
            << "call " << number;
      }
    }
  }
  EXPECT_GT(overlapping, 0);
}

// The error names the invalid argument of the call, and nothing is written.
TEST(CudaSpeculativeArguments, AreNamed) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  std::uint64_t number = 0;
  while (random_speculation_call(number, 31).draft_law != DraftLaw::logits) ++number;
  const SpeculationCall call = random_speculation_call(number, 31);
  DeviceArrays arrays;
  SpeculationOutputs outputs(call, call.max_draft);
  const AcceptChainRequest valid = chain_in(call, arrays);
  const auto result = speculation_result_in<AcceptChainResult>(outputs, arrays);
  const cuda::Execution execution = arrays.execution(valid, cuda::Path::best);
  std::vector<std::int32_t> host(1000);
  const auto refused = [&](const AcceptChainRequest& request, const AcceptChainResult& to,
                           const cuda::Execution& how, const std::string& begins) {
    const Error error = cuda::accept_chain(request, to, how);
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_EQ(error.message.rfind(begins, 0), 0U) << error.message;
  };
  AcceptChainRequest request = valid;
  request.target.logits.data = host.data();
  refused(request, result, execution, "target.logits.data is ");
  request = valid;
  request.draft.data = host.data();
  refused(request, result, execution, "draft.data is ");
  request = valid;
  request.draft_tokens.data = host.data();
  refused(request, result, execution, "draft_tokens is ");
  AcceptChainResult on_host = result;
  on_host.tokens.data = host.data();
  refused(valid, on_host, execution, "tokens is ");
  cuda::Execution small = execution;
  --small.workspace_bytes;
  refused(valid, result, small, "workspace");
  arrays.fetch();
  EXPECT_EQ(difference(SpeculationOutputs(call, call.max_draft), outputs), "");
  ASSERT_FALSE(cuda::accept_chain(valid, result, execution));

  number = 0;
  SpeculationCall of_tree = random_speculation_call(number, 31, true);
  while (of_tree.draft_law != DraftLaw::logits || of_tree.draft_tokens.empty()) {
    of_tree = random_speculation_call(++number, 31, true);
  }
  AcceptTreeRequest tree = tree_in(of_tree, arrays);
  tree.draft.data = host.data();
  SpeculationOutputs tree_outputs(of_tree, of_tree.max_depth);
  const auto tree_result = speculation_result_in<AcceptTreeResult>(tree_outputs, arrays);
  const Error error =
      cuda::accept_tree(tree, tree_result, arrays.execution(tree, cuda::Path::best));
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_EQ(error.message.rfind("draft.data is ", 0), 0U) << error.message;
}

INSTANTIATE_TEST_SUITE_P(Drafts, CudaSpeculative, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "Tree" : "Chain"; });

}  // namespace
}  // namespace fairdraw::suites
