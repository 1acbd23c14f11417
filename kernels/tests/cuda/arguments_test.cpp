// The tests check which arguments a call on the GPU rejects before it enqueues anything, and that
// the messages name the field, its value and the allowed range. A rejected call writes nothing.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/cuda/arrays.h"
#include "tests/cuda/host_memory.h"
#include "tests/operations/operation_calls.h"

namespace fairdraw::suites {
namespace {

/// A valid call that gives every field of the request; each test then makes one field invalid.
class Call {
 public:
  SampleRequest request;
  SampleResult result;
  cuda::Execution execution;

  Call() : call_(make()), outputs_(call_, kEverything) {
    request = request_in(call_, arrays_);
    result = result_in(call_, outputs_, arrays_);
    execution = arrays_.execution(call_.rows, cuda::Path::best);
  }

  /// Expects that the call is rejected, that its message contains all of `parts`, and that it
  /// writes nothing.
  void expect_refused(const std::vector<std::string>& parts,
                      ErrorCode code = ErrorCode::invalid_argument) {
    const Error error = cuda::sample(request, result, execution);
    EXPECT_EQ(error.code, code) << parts.front();
    for (const std::string& part : parts) {
      EXPECT_NE(error.message.find(part), std::string::npos) << part << " in: " << error.message;
    }
    arrays_.fetch();
    for (const Difference& written :
         differences(call_, SampleOutputs(call_, kEverything), outputs_, 3)) {
      ADD_FAILURE() << parts.front() << " was refused, but: " << written.what;
    }
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error of CUDA is left behind";
  }

  void expect_taken() {
    const Error error = cuda::sample(request, result, execution);
    EXPECT_FALSE(error) << error.message;
    arrays_.fetch();
    for (const RowStatus status : outputs_.statuses) EXPECT_EQ(status, RowStatus::ok);
    for (const std::int32_t token : outputs_.tokens) {
      EXPECT_TRUE(token >= 0 && token < call_.vocab) << token;
    }
  }

 private:
  static OwnedCall make() {
    constexpr std::int64_t kRows = 3;
    constexpr std::int64_t kVocab = 100;
    OwnedCall call;
    call.allocate(DType::float32, kRows, kVocab, kVocab + 4, 0);
    std::vector<float> logits(kVocab);
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 7);
    for (std::int64_t row = 0; row < kRows; ++row) call.set_row(row, logits.data());
    call.make_parameter_arrays(kRows);
    call.tie_rule.make_array(kRows);
    call.filter_order.make_array(kRows);
    call.indices = {2, 1, 0, 2};
    call.num_samples = 2;
    call.seed.make_array(call.outputs());
    call.offset.make_array(call.outputs());
    call.allowed_stride = (kVocab + 31) / 32;
    call.allowed.assign(static_cast<std::size_t>(kRows * call.allowed_stride), ~0U);
    call.active.assign(kRows, 1);
    return call;
  }

  OwnedCall call_;
  SampleOutputs outputs_;
  DeviceArrays arrays_;
};

TEST(CudaArguments, AValidCallIsTaken) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Call call;
  call.expect_taken();
}

TEST(CudaArguments, HostMemoryIsRefusedByTheNameOfItsField) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  struct Field {
    const char* name;
    std::function<void(Call&, void*)> set;
  };
  const std::vector<Field> fields = {
      {"logits.data", [](Call& c, void* p) { replace(c.request.logits.data, p); }},
      {"temperature", [](Call& c, void* p) { replace(c.request.temperature.values.data, p); }},
      {"top_k", [](Call& c, void* p) { replace(c.request.top_k.values.data, p); }},
      {"top_p", [](Call& c, void* p) { replace(c.request.top_p.values.data, p); }},
      {"min_p", [](Call& c, void* p) { replace(c.request.min_p.values.data, p); }},
      {"tie_rule", [](Call& c, void* p) { replace(c.request.tie_rule.values.data, p); }},
      {"filter_order", [](Call& c, void* p) { replace(c.request.filter_order.values.data, p); }},
      {"seed", [](Call& c, void* p) { replace(c.request.seed.values.data, p); }},
      {"offset", [](Call& c, void* p) { replace(c.request.offset.values.data, p); }},
      {"allowed", [](Call& c, void* p) { replace(c.request.allowed.data, p); }},
      {"active", [](Call& c, void* p) { replace(c.request.active.data, p); }},
      {"indices", [](Call& c, void* p) { replace(c.request.indices.data, p); }},
      {"tokens", [](Call& c, void* p) { replace(c.result.tokens.data, p); }},
      {"statuses", [](Call& c, void* p) { replace(c.result.statuses.data, p); }},
      {"support_size", [](Call& c, void* p) { replace(c.result.support_size.data, p); }},
      {"logprob", [](Call& c, void* p) { replace(c.result.logprob.data, p); }},
      {"logprob_filtered", [](Call& c, void* p) { replace(c.result.logprob_filtered.data, p); }},
      {"mask", [](Call& c, void* p) { replace(c.result.mask.data, p); }},
      {"probs", [](Call& c, void* p) { replace(c.result.probs.data, p); }},
      {"workspace", [](Call& c, void* p) { replace(c.execution.workspace, p); }},
  };
  HostMemory host;
  for (const Field& field : fields) {
    for (void* memory : host.blocks()) {
      Call call;
      field.set(call, memory);
      // Compares the start of the message, because "logprob" is also found in "logprob_filtered".
      const Error error = cuda::sample(call.request, call.result, call.execution);
      EXPECT_EQ(error.message.rfind(std::string(field.name) + " is ", 0), 0U) << error.message;
      call.expect_refused({field.name, "host memory", "allowed: "});
    }
  }
}

TEST(CudaArguments, ManagedMemoryIsTaken) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  void* managed = nullptr;
  constexpr std::size_t kBytes = 1 << 16;
  require(cudaMallocManaged(&managed, kBytes), "cudaMallocManaged");
  require(cudaMemset(managed, 0, kBytes), "cudaMemset");
  Call call;
  replace(call.request.logits.data, managed);
  call.expect_taken();
  require(cudaFree(managed), "cudaFree");
}

TEST(CudaArguments, Workspace) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  EXPECT_EQ(cuda::workspace_bytes(0), 0);
  EXPECT_GE(cuda::workspace_bytes((1 << 22) - 1), cuda::workspace_bytes(1));
  Call null;
  null.execution.workspace = nullptr;
  null.expect_refused({"workspace is null", "device memory"});
  Call small;
  --small.execution.workspace_bytes;
  small.expect_refused({"workspace_bytes is " + std::to_string(small.execution.workspace_bytes),
                        ">= " + std::to_string(small.execution.workspace_bytes + 1)});
  Call negative;
  negative.execution.workspace_bytes = -1;
  negative.expect_refused({"workspace_bytes is -1"});
  for (const std::size_t shift : {1U, 16U, 128U}) {
    Call misaligned;
    auto* bytes = static_cast<std::uint8_t*>(misaligned.execution.workspace);
    misaligned.execution.workspace = bytes + shift;
    misaligned.expect_refused({"workspace is 0x", "256"});
  }
}

TEST(CudaArguments, ShapesAndTypes) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  for (const std::int64_t vocab : {std::int64_t{0}, std::int64_t{-3}, kMaxVocab + 1}) {
    Call call;
    call.request.logits.vocab = vocab;
    call.request.logits.row_stride = std::max<std::int64_t>(104, vocab);
    call.expect_refused({"logits.vocab is " + std::to_string(vocab), "1 to 1048576"});
  }
  Call many;
  many.request.logits.rows = 1 << 22;
  // Per-request arrays would have the wrong length too, so they are removed; then the number of
  // rows alone is invalid.
  many.request.temperature = 1.0F;
  many.request.top_k = 0;
  many.request.top_p = 1.0F;
  many.request.min_p = 0.0F;
  many.request.tie_rule = TieRule::keep_all;
  many.request.filter_order = FilterOrder::top_k_first;
  many.request.allowed = {};
  many.request.active = {};
  many.result.mask = {};
  many.result.probs = {};
  many.expect_refused({"logits.rows is 4194304", "4194303"});
  Call rows;
  rows.request.logits.rows = -1;
  rows.expect_refused({"logits.rows is -1"});
  Call stride;
  stride.request.logits.row_stride = 99;
  stride.expect_refused({"logits.row_stride is 99", ">= 100"});
  Call data;
  data.request.logits.data = nullptr;
  data.expect_refused({"logits.data is null"});
  Call dtype;
  dtype.request.logits.dtype = static_cast<DType>(3);
  dtype.expect_refused({"logits.dtype is 3", "float32", "bfloat16"});
  Call samples;
  samples.request.num_samples = 0;
  samples.expect_refused({"num_samples is 0", ">= 1"});
  Call rule;
  rule.request.tie_rule = static_cast<TieRule>(2);
  rule.expect_refused({"tie_rule is 2", "keep_all"});
  Call order;
  order.request.filter_order = static_cast<FilterOrder>(9);
  order.expect_refused({"filter_order is 9", "joint"});
  Call mask;
  mask.result.mask.row_stride = 3;
  mask.expect_refused({"mask.row_stride is 3", ">= 4"});
  Call probs;
  probs.result.probs.row_stride = 99;
  probs.expect_refused({"probs.row_stride is 99", ">= 100"});
  Call allowed;
  allowed.request.allowed.rows = 2;
  allowed.expect_refused({"allowed.rows is 2", "allowed: 3"});
}

TEST(CudaArguments, ArraysOfTheWrongLength) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const auto refuse = [](const char* field, const char* allowed, auto change) {
    Call call;
    change(call);
    call.expect_refused({std::string("length of ") + field + " is 1", allowed});
  };
  // The call has three rows, four outputs and eight tokens.
  refuse("temperature", "allowed: 3", [](Call& c) { c.request.temperature.values.size = 1; });
  refuse("top_k", "allowed: 3", [](Call& c) { c.request.top_k.values.size = 1; });
  refuse("top_p", "allowed: 3", [](Call& c) { c.request.top_p.values.size = 1; });
  refuse("min_p", "allowed: 3", [](Call& c) { c.request.min_p.values.size = 1; });
  refuse("seed", "allowed: 4", [](Call& c) { c.request.seed.values.size = 1; });
  refuse("offset", "allowed: 4", [](Call& c) { c.request.offset.values.size = 1; });
  refuse("active", "allowed: 3", [](Call& c) { c.request.active.size = 1; });
  refuse("tokens", "allowed: 8", [](Call& c) { c.result.tokens.size = 1; });
  refuse("statuses", "allowed: 4", [](Call& c) { c.result.statuses.size = 1; });
  refuse("support_size", "allowed: 4", [](Call& c) { c.result.support_size.size = 1; });
  refuse("logprob", "allowed: 8", [](Call& c) { c.result.logprob.size = 1; });
  refuse("logprob_filtered", "allowed: 8", [](Call& c) { c.result.logprob_filtered.size = 1; });
}

TEST(CudaArguments, APathThatIsNotThere) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Call unknown;
  unknown.execution.path = static_cast<cuda::Path>(7);
  unknown.expect_refused({"path is 7"});
  // skips a device on which every execution path is available
  if (cuda::is_available(cuda::Path::cluster)) return;
  Call cluster;
  cluster.execution.path = cuda::Path::cluster;
  cluster.expect_refused({"cluster", "9.0"}, ErrorCode::unsupported);
}

// --- The other operations --------------------------------------------------------------------

TEST(CudaArguments, OperationsNameTheirOwnFields) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  HostMemory host;
  DeviceArrays arrays;
  const OwnedCall call = random_operation_call(Operation::softmax, 12, 4, 60);
  const SampleRequest request = request_in(call, arrays);
  const RowsView rows = request.logits;
  constexpr std::size_t kValues = 240;  // 4 rows of 60
  std::vector<float> matrix(kValues, -7.0F);
  std::vector<std::int32_t> tokens(4, -7);
  float* device_matrix = arrays.out(matrix);
  std::int32_t* device_tokens = arrays.out(tokens);
  const cuda::Execution execution = arrays.execution(4, cuda::Path::best);
  const DrawResult draws{{device_tokens, 4}, {}};
  const auto expect_named = [](const Error& error, const char* field) {
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << field;
    EXPECT_EQ(error.message.rfind(field, 0), 0U) << field << ": " << error.message;
  };
  for (void* memory : host.blocks()) {
    const RowsView elsewhere{memory, DType::float32, 4, 60, 60};
    const FloatRows written{static_cast<float*>(memory), 4, 60};
    const FloatRows to_device{device_matrix, 4, 60};
    const PerRequest<float> parameters{static_cast<const float*>(memory), 4};
    const PerRequest<std::int32_t> counts{static_cast<const std::int32_t*>(memory), 4};
    expect_named(cuda::softmax(elsewhere, 1.0F, to_device, {}, execution), "logits.data is ");
    expect_named(cuda::softmax(rows, parameters, to_device, {}, execution), "temperature is ");
    expect_named(cuda::softmax(rows, 1.0F, written, {}, execution), "output is ");
    expect_named(cuda::sampling_from_logits(elsewhere, {}, draws, execution), "logits.data is ");
    expect_named(cuda::sampling_from_probs(elsewhere, {}, draws, execution), "probs.data is ");
    expect_named(cuda::top_k_sampling_from_probs(rows, counts, {}, draws, execution), "top_k is ");
    expect_named(cuda::top_p_sampling_from_probs(rows, parameters, {}, draws, execution),
                 "top_p is ");
    expect_named(cuda::min_p_sampling_from_probs(rows, parameters, {}, draws, execution),
                 "min_p is ");
    expect_named(
        cuda::top_k_top_p_sampling_from_logits(rows, 3, parameters, {}, {}, draws, execution),
        "top_p is ");
    expect_named(
        cuda::top_k_top_p_sampling_from_probs(rows, counts, 0.5F, {}, {}, draws, execution),
        "top_k is ");
    expect_named(cuda::top_k_mask_logits(rows, 3, memory, 60, {}, execution), "masked is ");
    expect_named(cuda::top_k_renorm_probs(elsewhere, 3, to_device, {}, execution),
                 "probs.data is ");
    expect_named(cuda::top_p_renorm_probs(rows, 0.5F, written, {}, execution), "output is ");
    expect_named(cuda::sampling_from_logits(rows, {}, {{static_cast<std::int32_t*>(memory), 4}, {}},
                                            execution),
                 "tokens is ");
  }
  expect_named(cuda::softmax(rows, 1.0F, {device_matrix, 4, 60}, {}, {}), "workspace is null");
  expect_named(cuda::top_k_mask_logits(rows, 3, device_matrix, 60, {}, {}), "workspace is null");
  arrays.fetch();
  EXPECT_EQ(matrix, std::vector<float>(kValues, -7.0F));
  EXPECT_EQ(tokens, std::vector<std::int32_t>(4, -7));
}

}  // namespace
}  // namespace fairdraw::suites
