// verify_chain and verify_tree on the GPU: bit for bit what the model of the reference says of
// small vocabularies, and what the CPU gives for large ones and for processed rows.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <vector>

#include "cuda_arrays.h"
#include "fairdraw/cuda.h"
#include "fairdraw/speculative.h"
#include "verify_calls.h"

namespace fairdraw::suites {
namespace {

bool is_reduced() { return std::getenv("FAIRDRAW_REDUCED") != nullptr; }

VerifyOutputs run_on_cpu(const VerifyCall& call, bool tree) {
  HostArrays arrays;
  VerifyOutputs outputs(call, tree ? call.max_depth : call.max_draft);
  const Error error =
      tree ? verify_tree(tree_in(call, arrays), verify_result_in<VerifyTreeResult>(outputs, arrays))
           : verify_chain(chain_in(call, arrays),
                          verify_result_in<VerifyChainResult>(outputs, arrays));
  EXPECT_FALSE(error) << error.message;
  return outputs;
}

class OnGpu {
 public:
  VerifyOutputs run(const VerifyCall& call, bool tree, cuda::Path path) {
    VerifyOutputs outputs(call, tree ? call.max_depth : call.max_draft);
    arrays_.rewind();
    Error error;
    if (tree) {
      const VerifyTreeRequest request = tree_in(call, arrays_);
      const auto result = verify_result_in<VerifyTreeResult>(outputs, arrays_);
      error = cuda::verify_tree(request, result, arrays_.execution(request, path));
    } else {
      const VerifyChainRequest request = chain_in(call, arrays_);
      const auto result = verify_result_in<VerifyChainResult>(outputs, arrays_);
      error = cuda::verify_chain(request, result, arrays_.execution(request, path));
    }
    EXPECT_FALSE(error) << error.message;
    arrays_.fetch();
    return outputs;
  }

 private:
  DeviceArrays arrays_;
};

/// Nodes are not written by chains.
VerifyOutputs expected_outputs(const VerifyCall& call, bool tree) {
  if (tree) return expected_tree_outputs(call);
  VerifyOutputs outputs = expected_chain_outputs(call);
  outputs.nodes = VerifyOutputs(call, call.max_draft).nodes;
  return outputs;
}

std::int64_t small_vocab(std::uint64_t number) {
  constexpr std::int64_t kVocabs[] = {1, 2, 5, 31, 33, 64, 130, 257, 1000};
  return kVocabs[number / 3 % 9];
}

/// On the GPU nothing is known of the drafts of a tree.
VerifyCall call_of(std::uint64_t number, std::int64_t vocab, bool tree) {
  VerifyCall call = random_verify_call(number, vocab, tree);
  if (tree) call.draft_law = DraftLaw::none;
  return call;
}

class CudaSpeculative : public ::testing::TestWithParam<bool> {};

TEST_P(CudaSpeculative, EqualsTheModel) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const bool tree = GetParam();
  OnGpu gpu;
  std::set<RowStatus> seen;
  const std::uint64_t calls = is_reduced() ? 60 : 4000;
  for (std::uint64_t number = 0; number < calls; ++number) {
    const VerifyCall call = call_of(number, small_vocab(number), tree);
    const VerifyOutputs expected = expected_outputs(call, tree);
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
        RowStatus::invalid_draft_length}) {
    EXPECT_EQ(seen.count(status), 1U) << to_string(status);
  }
}

TEST_P(CudaSpeculative, LargeVocabulariesEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  if (is_reduced()) GTEST_SKIP() << "rows of this size take too long under compute-sanitizer";
  const bool tree = GetParam();
  OnGpu gpu;
  for (std::uint64_t number = 0; number < 60; ++number) {
    constexpr std::int64_t kVocabs[] = {5000, 32000, 50257, 128256};
    const VerifyCall call = call_of(100000 + number, kVocabs[number % 4], tree);
    const VerifyOutputs expected = run_on_cpu(call, tree);
    for (const cuda::Path path : available_paths()) {
      ASSERT_EQ(difference(expected, gpu.run(call, tree, path)), "")
          << "call " << number << ", " << cuda::to_string(path);
    }
  }
}

TEST_P(CudaSpeculative, ProcessedRowsEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const bool tree = GetParam();
  OnGpu gpu;
  const std::uint64_t calls = is_reduced() ? 20 : 600;
  for (std::uint64_t number = 0; number < calls; ++number) {
    VerifyCall call = call_of(200000 + number, small_vocab(number), tree);
    call.target.processing = random_processing(number, call.target);
    const VerifyOutputs expected = run_on_cpu(call, tree);
    for (const cuda::Path path : available_paths()) {
      ASSERT_EQ(difference(expected, gpu.run(call, tree, path)), "")
          << "call " << number << ", " << cuda::to_string(path);
    }
  }
}

// What is wrong with a call is named, and nothing is written.
TEST(CudaSpeculativeArguments, AreNamed) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  std::uint64_t number = 0;
  while (random_verify_call(number, 31).draft_law != DraftLaw::logits) ++number;
  const VerifyCall call = random_verify_call(number, 31);
  DeviceArrays arrays;
  VerifyOutputs outputs(call, call.max_draft);
  const VerifyChainRequest valid = chain_in(call, arrays);
  const auto result = verify_result_in<VerifyChainResult>(outputs, arrays);
  const cuda::Execution execution = arrays.execution(valid, cuda::Path::best);
  std::vector<std::int32_t> host(1000);
  const auto refused = [&](const VerifyChainRequest& request, const VerifyChainResult& to,
                           const cuda::Execution& how, const std::string& begins) {
    const Error error = cuda::verify_chain(request, to, how);
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_EQ(error.message.rfind(begins, 0), 0U) << error.message;
  };
  VerifyChainRequest request = valid;
  request.target.logits.data = host.data();
  refused(request, result, execution, "target.logits.data is ");
  request = valid;
  request.draft.data = host.data();
  refused(request, result, execution, "draft.data is ");
  request = valid;
  request.draft_tokens.data = host.data();
  refused(request, result, execution, "draft_tokens is ");
  VerifyChainResult on_host = result;
  on_host.tokens.data = host.data();
  refused(valid, on_host, execution, "tokens is ");
  cuda::Execution small = execution;
  --small.workspace_bytes;
  refused(valid, result, small, "workspace");
  arrays.fetch();
  EXPECT_EQ(difference(VerifyOutputs(call, call.max_draft), outputs), "");
  ASSERT_FALSE(cuda::verify_chain(valid, result, execution));

  VerifyTreeRequest tree = tree_in(call, arrays);
  tree.draft_law = DraftLaw::logits;
  tree.draft = tree.target.logits;
  VerifyOutputs of_tree(call, call.max_depth);
  const Error error =
      cuda::verify_tree(tree, verify_result_in<VerifyTreeResult>(of_tree, arrays), execution);
  EXPECT_EQ(error.code, ErrorCode::unsupported) << error.message;
}

INSTANTIATE_TEST_SUITE_P(Drafts, CudaSpeculative, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "Tree" : "Chain"; });

}  // namespace
}  // namespace fairdraw::suites
