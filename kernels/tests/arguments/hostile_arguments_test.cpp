// Every function of the public headers is called with invalid arguments. An invalid length, stride,
// size or choice must be rejected by name, whatever its value, and nothing may be read or written.
//
// No array can be forgotten: the field lists of the structs do not compile if a field is missing
// (api_fields.h), and the tested functions are compared with the functions that the headers
// declare. Run this test under the address sanitizer, which detects reads beyond an array.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "fairdraw/cuda_beam_search.h"
#include "fairdraw/cuda_speculative.h"
#include "tests/arguments/api_calls.h"

namespace fairdraw::suites {
namespace {

const std::vector<ApiFunction>& functions() {
  static const std::vector<ApiFunction> all = api_functions();
  return all;
}

// --- Every function, every array -----------------------------------------------------------------

/// Returns the declared functions that this test need not call, each with the reason.
const std::map<std::string, std::string>& exempt() {
  constexpr const char* kNoArrays = "takes numbers and vectors, which know their size";
  constexpr const char* kNeedsGpu = "the object does not exist without a GPU";
  static const std::map<std::string, std::string> names = {
      {"adaptive_p.h observe_probability", kNoArrays},
      {"batch_state.h add", kNoArrays},
      {"batch_state.h evict", kNoArrays},
      {"batch_state.h make", kNoArrays},
      {"batch_state.h remove", kNoArrays},
      {"batch_state.h restore", kNoArrays},
      {"batch_state.h swap", kNoArrays},
      {"cuda_fused_sampling_processor.h bring_changes", kNoArrays},
      {"cuda_fused_sampling_processor.h catch_up", kNoArrays},
      {"cuda_fused_sampling_processor.h clear_bitmask", kNoArrays},
      {"cuda_fused_sampling_processor.h make", kNoArrays},
      {"cuda_fused_sampling_processor.h start_async_token_copy", kNoArrays},
      {"cuda_fused_sampling_processor.h step", kNeedsGpu},
      {"cuda_fused_sampling_processor.h update_bitmask", kNeedsGpu},
      {"cuda_fused_sampling_processor.h wait_for_tokens", kNoArrays},
      {"cuda_memory.h create", kNoArrays},
      {"cuda_memory.h download", kNeedsGpu},
      {"cuda_memory.h fill", kNeedsGpu},
      {"cuda_memory.h reserve", kNoArrays},
      {"cuda_memory.h synchronise", kNoArrays},
      {"cuda_memory.h upload", kNeedsGpu},
      {"cuda_sharded.h continue_sharded", kNeedsGpu},
      {"cuda_sharded.h make_sharded_call", kNeedsGpu},
      {"cuda_sharded.h sample_sharded", kNeedsGpu},
      {"cuda_sharded.h sharded_receive", kNeedsGpu},
      {"cuda_sharded.h sharded_send", kNeedsGpu},
      {"cuda_sharded.h use_peers", kNeedsGpu},
      {"fused_sampling_processor.h operator", "is step()"},
      {"fused_sampling_processor.h start_async_token_copy", kNoArrays},
      {"mirostat.h observe_surprise", kNoArrays},
      {"sharded_nccl.h ", "is for programs with NCCL, which this is not"},
      {"sharded.h receive", "takes blocks of the size that block_bytes() says"},
      {"watermark.h watermark_threshold", kNoArrays},
  };
  return names;
}

/// Returns the functions of the headers that return an Error, as "header.h name", with the number
/// of their declarations.
std::map<std::string, int> declared() {
  std::map<std::string, int> found;
  for (const auto& file : std::filesystem::directory_iterator(FAIRDRAW_PUBLIC_HEADERS)) {
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    std::string code = std::regex_replace(text.str(), std::regex("//[^\n]*"), "");
    while (code.find("private:") != std::string::npos) {
      const std::size_t begin = code.find("private:");
      code.erase(begin, code.find("\n};", begin) - begin);
    }
    const std::regex declaration(R"(\bError\s+(\w+)\s*\()");
    for (std::sregex_iterator it(code.begin(), code.end(), declaration), end; it != end; ++it) {
      ++found[file.path().filename().string() + " " + (*it)[1].str()];
    }
  }
  return found;
}

TEST(HostileArguments, EveryFunctionOfTheHeadersIsCalled) {
  std::map<std::string, std::set<std::string>> called;
  for (const ApiFunction& function : functions()) {
    called[function.declared].insert(function.variant);
  }
  const std::map<std::string, int> all = declared();
  EXPECT_GT(all.size(), 60U);  // The parser does find the declarations.
  for (const auto& [name, times] : all) {
    const std::string header = name.substr(0, name.find(' ') + 1);
    if (exempt().contains(name) || exempt().contains(header)) {
      EXPECT_FALSE(called.contains(name)) << name << " is called, and exempt";
      continue;
    }
    ASSERT_TRUE(called.contains(name)) << name << " is declared, and not called here";
    EXPECT_GE(static_cast<int>(called[name].size()), times) << name << " has overloads";
  }
  for (const auto& [name, variants] : called) EXPECT_TRUE(all.contains(name)) << name;
  for (const auto& [name, reason] : exempt()) {
    EXPECT_TRUE(name.back() == ' ' || all.contains(name)) << name;
  }
}

TEST(HostileArguments, EveryArrayIsGivenInSomeCall) {
  std::map<std::string, std::set<std::string>> arrays, given;
  for (const ApiFunction& function : functions()) {
    const Changes changes = function.make()->changes();
    arrays[function.declared].insert(changes.arrays.begin(), changes.arrays.end());
    given[function.declared].insert(changes.given.begin(), changes.given.end());
  }
  // On a GPU, the diversity rate of a beam search is a scalar.
  arrays["cuda_beam_search.h beam_search_step"].erase("parameters.diversity_rate");
  // Rows of a marked call are its outputs.
  for (const char* header : {"watermark.h", "cuda_watermark.h"}) {
    arrays[std::string(header) + " sample_marked"].erase("indices");
  }
  // In a sharded call, tie rule and filter order are scalars.
  for (const char* rule : {"rows.tie_rule", "rows.filter_order"}) {
    arrays["sharded.h begin"].erase(rule);
  }
  EXPECT_EQ(arrays, given);
}

// --- Sizes that are asked for before a call ------------------------------------------------------

TEST(HostileArguments, TheWorkspaceOfManyRowsIsNoSmallerThanThatOfFew) {
  const auto most = [](std::int64_t rows, std::int64_t vocab, std::int32_t width) {
    SampleRequest request;
    request.logits.rows = rows;
    request.logits.vocab = vocab;
    request.processing.min_tokens = 1;
    float value = 0;
    LogprobsResult logprobs;
    logprobs.values = {&value, 1};
    BeamStepRequest step;
    step.rows = request.logits;
    step.requests = rows;
    step.max_width = width;
    AcceptTreeRequest tree;
    tree.target.logits = request.logits;
    tree.target.batch = rows;
    tree.draft_tokens.size = rows;
    tree.draft_law = DraftLaw::logits;
    AcceptChainRequest chain;
    chain.target = tree.target;
    chain.draft_tokens = tree.draft_tokens;
    return std::vector<std::int64_t>{
        cuda::workspace_bytes(rows),
        cuda::workspace_bytes(request),
        cuda::workspace_bytes(request, logprobs),
        cuda::workspace_bytes(ProcessLogitsRequest{request.logits, request.processing, {}, {}}),
        cuda::workspace_bytes(step),
        cuda::workspace_bytes(tree),
        cuda::workspace_bytes(chain)};
  };
  constexpr std::int32_t kWidest = std::numeric_limits<std::int32_t>::max();
  for (const std::int64_t vocab : {std::int64_t{40}, std::int64_t{1} << 62, Changes::kMax}) {
    std::vector<std::int64_t> fewer = most(2, 40, 1);
    for (const std::int64_t rows : {std::int64_t{1} << 31, std::int64_t{1} << 55,
                                    std::int64_t{1} << 57, std::int64_t{1} << 62, Changes::kMax}) {
      const std::vector<std::int64_t> more = most(rows, vocab, kWidest);
      for (std::size_t i = 0; i < more.size(); ++i) {
        EXPECT_GE(more[i], fewer[i]) << i << ": " << rows << " rows of " << vocab;
      }
      fewer = more;
    }
  }
  for (const std::int64_t bytes : most(-1, Changes::kMin, -1)) EXPECT_GE(bytes, 0);
  for (const std::int64_t bytes : most(Changes::kMin, -1, -1)) EXPECT_GE(bytes, 0);
}

// --- What is refused -----------------------------------------------------------------------------

class HostileArguments : public testing::TestWithParam<std::size_t> {
 protected:
  static const ApiFunction& function() { return functions()[GetParam()]; }
};

bool has_kernels(const ApiFunction& function) {
  return !function.on_cuda ||
         cuda::why_not_available().find("has no CUDA kernels") == std::string::npos;
}

TEST_P(HostileArguments, AValidCallIsTaken) {
  const auto call = function().make();
  const std::vector<std::byte> before = call->contents();
  const Error error = call->run();
  if (function().on_cuda) {  // A call on a GPU always rejects host memory.
    EXPECT_TRUE(error);
    EXPECT_EQ(call->contents(), before);
    EXPECT_EQ(error.code == ErrorCode::unsupported, !cuda::is_available()) << error.message;
  } else {
    EXPECT_FALSE(error) << error.message;
  }
}

TEST_P(HostileArguments, AreRefusedByName) {
  std::unique_ptr<ApiCall> call = function().make();
  std::vector<Change> changes = call->changes().all;
  const std::vector<std::byte> before = call->contents();
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const Change& change = changes[i];
    change.apply();
    const Error error = call->run();
    if (!error) {
      EXPECT_TRUE(change.may_be_taken) << change.what << " was taken";
      call = function().make();  // makes a new call, because the call may have written its arrays
      changes = call->changes().all;
      continue;
    }
    EXPECT_EQ(call->contents(), before) << change.what << " was refused, and something written";
    change.undo();
    if (!has_kernels(function())) continue;
    // Host memory is rejected before the changed argument.
    if (function().on_cuda && change.may_be_taken) continue;
    // A parameter without its array is 0, and 0 turns on typical_p, which sharded calls do not
    // have.
    const bool lacks_filter = change.may_be_taken && error.code == ErrorCode::unsupported;
    EXPECT_TRUE(error.code == ErrorCode::invalid_argument || lacks_filter)
        << change.what << ": " << error.message;
    EXPECT_NE(error.message.find(change.named), std::string::npos)
        << change.what << ": " << error.message;
    const std::size_t is = error.message.find(" is ");
    EXPECT_TRUE(is != std::string::npos &&
                error.message.find("; allowed: ", is) != std::string::npos)
        << change.what << ": " << error.message;
  }
}

/// The contents of arrays are not arguments of a call: invalid contents make their requests fail,
/// or cannot be detected. No content of an array may cause a read or a write outside the arrays.
TEST_P(HostileArguments, ContentsHarmNothing) {
  if (function().on_cuda) return;  // a call on a GPU does not read the contents on the host
  const std::size_t all = function().make()->changes().contents.size();
  for (std::size_t i = 0; i < all; ++i) {
    const auto call = function().make();
    const auto contents = call->changes().contents;
    contents[i].second();
    const Error error = call->run();
    EXPECT_TRUE(!error || error.message.find("; allowed: ") != std::string::npos)
        << contents[i].first << ": " << error.message;
  }
}

std::string test_name(const testing::TestParamInfo<std::size_t>& info) {
  const ApiFunction& function = functions()[info.param];
  std::string name = function.declared + (function.variant.empty() ? "" : " " + function.variant);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Api, HostileArguments, testing::Range<std::size_t>(0, functions().size()),
                         test_name);

}  // namespace
}  // namespace fairdraw::suites
