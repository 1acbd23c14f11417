#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "fairdraw/cuda_beam_search.h"
#include "fairdraw/cuda_speculative.h"
#include "fairdraw/sample.h"
#include "suites/benchmarks/beam_step.h"
#include "suites/benchmarks/cuda_calls.h"

namespace fairdraw::suites {
namespace {

constexpr float kDraftTemperature = 1.3F;  // temperature of the draft's distribution; the target
                                           // has temperature 1

/// A serving call that is measured, with inputs of its own.
class ServingCall : public CudaCall {
 public:
  using CudaCall::CudaCall;

 protected:
  void reserve_inputs(std::int64_t bytes) {
    expect_success(memory_.reserve(bytes), "the inputs");
    inputs_.data = memory_.data();
  }
  /// Appends `count` rows, which repeat the rows of the host, to the inputs.
  RowsView add_rows(const std::vector<float>& values, std::int64_t vocab, std::int64_t count) {
    const auto distinct = static_cast<std::int64_t>(values.size()) / vocab;
    const std::int64_t begin = inputs_.bytes;
    for (std::int64_t done = 0; done < count; done += distinct) {
      const std::int64_t part = std::min(distinct, count - done) * vocab * 4;
      expect_success(memory_.upload(inputs_.bytes, values.data(), part, stream_), "the inputs");
      inputs_.bytes += part;
    }
    return {static_cast<const std::byte*>(memory_.data()) + begin, DType::float32, count, vocab,
            vocab};
  }
  template <class T>
  View<const T> given(const std::vector<T>& values) {
    return read_only(arrays_.view(values));
  }
  /// Appends the rows of the target that drafted tokens need to the inputs.
  TargetRows target_of(const Rows& host, std::int64_t batch, std::int64_t rows) {
    TargetRows target;
    target.logits = add_rows(host.values, host.vocab, rows);
    target.batch = batch;
    target.seed = per_request(counted_from(1, batch));
    target.offset = per_request(counted_from(kFirstOffset, batch));
    return target;
  }
  /// Appends rows of the draft's distribution to the inputs.
  RowsView draft_of(const Rows& host, DraftLaw distribution, std::int64_t rows) {
    const bool probs = distribution == DraftLaw::probs;
    return add_rows(probs ? probabilities(host, kDraftTemperature) : host.values, host.vocab, rows);
  }

 private:
  cuda::DeviceBuffer memory_;
};

// --- Drafts ------------------------------------------------------------------------------------

/// Returns one token for each of `rows`, drawn from the draft's distribution; `rows` are indices of
/// rows that repeat the host's rows.
std::vector<std::int32_t> drafted_tokens(const Rows& host, const std::vector<std::int64_t>& rows) {
  const auto places = static_cast<std::int64_t>(rows.size());
  std::vector<std::int32_t> tokens(rows.size());
  std::vector<std::int32_t> indices;
  for (const std::int64_t row : rows) {
    indices.push_back(static_cast<std::int32_t>(row % host.batch));
  }
  SampleRequest request;
  request.logits = host.view();
  request.temperature = kDraftTemperature;
  request.indices = {indices.data(), places};
  request.purpose = Purpose::draft;
  SampleResult result;
  result.tokens = {tokens.data(), places};
  expect_success(sample(request, result), "drafted tokens");
  return tokens;
}

std::vector<std::int64_t> first_rows(std::int64_t n) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(n));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

class ChainCall : public ServingCall {
 public:
  ChainCall(const Rows& host, std::int64_t batch, std::int64_t drafts, DraftLaw distribution,
            const cuda::Stream& stream)
      : ServingCall(stream) {
    const std::int64_t rows = batch * (drafts + 1);
    const std::int64_t places = batch * drafts;
    reserve_inputs((rows + places) * host.vocab * 4);
    request_.target = target_of(host, batch, rows);
    request_.max_draft = drafts;
    request_.draft_tokens = given(drafted_tokens(host, first_rows(places)));
    request_.draft_law = distribution;
    request_.draft_filters.temperature = kDraftTemperature;
    if (distribution != DraftLaw::none) request_.draft = draft_of(host, distribution, places);
    result_.tokens = arrays_.view(repeated(rows, std::int32_t{-1}));
    result_.accepted = arrays_.view(repeated(batch, std::int32_t{-1}));
    result_.statuses = make_statuses(batch);
    reserve_workspace(cuda::workspace_bytes(request_));
  }

  void enqueue(cuda::Path path) const override {
    expect_success(cuda::accept_chain(request_, result_, execution(path)), "the call");
  }

 protected:
  AcceptChainRequest request_;

 private:
  AcceptChainResult result_;
};

/// A call that verifies the same chains by block.
class BlockCall final : public ChainCall {
 public:
  BlockCall(const Rows& host, std::int64_t batch, std::int64_t drafts, DraftLaw distribution,
            const cuda::Stream& stream)
      : ChainCall(host, batch, drafts, distribution, stream) {
    request_.accept_rule = AcceptRule::block;
  }
};

/// A call that verifies trees of drafted tokens. The root and every node after the first have two
/// children, drawn with replacement, until there are enough drafted tokens.
class TreeCall final : public ServingCall {
 public:
  TreeCall(const Rows& host, std::int64_t batch, std::int64_t drafts, DraftLaw distribution,
           const cuda::Stream& stream)
      : ServingCall(stream) {
    const std::int64_t rows = batch * (drafts + 1);
    reserve_inputs((distribution == DraftLaw::none ? 1 : 2) * rows * host.vocab * 4);
    request_.target = target_of(host, batch, rows);
    request_.max_draft = drafts;
    request_.max_depth = drafts;
    std::vector<std::int32_t> parents;
    std::vector<std::int64_t> parent_rows;
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t i = 0; i < drafts; ++i) {
        parents.push_back(static_cast<std::int32_t>(i / 2) - (i < 2 ? 1 : 0));
        parent_rows.push_back(b * (drafts + 1) + parents.back() + 1);
      }
    }
    request_.parents = given(parents);
    request_.draft_tokens = given(drafted_tokens(host, parent_rows));
    request_.draft_law = distribution;
    request_.draft_filters.temperature = kDraftTemperature;
    if (distribution != DraftLaw::none) request_.draft = draft_of(host, distribution, rows);
    result_.tokens = arrays_.view(repeated(rows, std::int32_t{-1}));
    result_.statuses = make_statuses(batch);
    reserve_workspace(cuda::workspace_bytes(request_));
  }

  void enqueue(cuda::Path path) const override {
    expect_success(cuda::accept_tree(request_, result_, execution(path)), "the call");
  }

 private:
  AcceptTreeRequest request_;
  AcceptTreeResult result_;
};

class ProbabilityChainCall final : public ServingCall {
 public:
  ProbabilityChainCall(const Rows& host, std::int64_t batch, std::int64_t drafts,
                       const cuda::Stream& stream)
      : ServingCall(stream) {
    const std::int64_t rows = batch * (drafts + 1);
    const std::int64_t places = batch * drafts;
    reserve_inputs((rows + places) * host.vocab * 4);
    request_.target_probs = add_rows(probabilities(host, 1.0F), host.vocab, rows);
    request_.draft_probs = draft_of(host, DraftLaw::probs, places);
    request_.draft_tokens = given(drafted_tokens(host, first_rows(places)));
    request_.batch = batch;
    request_.num_draft_tokens = drafts;
    request_.seed = per_request(counted_from(1, batch));
    request_.offset = per_request(counted_from(kFirstOffset, batch));
    result_.tokens = arrays_.view(repeated(rows, std::int32_t{-1}));
    result_.statuses = make_statuses(batch);
    reserve_workspace(cuda::workspace_bytes(rows + places));
  }

  void enqueue(cuda::Path path) const override {
    expect_success(cuda::chain_speculative_sampling(request_, result_, execution(path)),
                   "the call");
  }

 private:
  ChainSpeculativeRequest request_;
  ChainSpeculativeResult result_;
};

// --- Beams -------------------------------------------------------------------------------------

class BeamCall final : public ServingCall {
 public:
  BeamCall(const Rows& host, std::int64_t batch, const BeamOperation& operation,
           const cuda::Stream& stream)
      : ServingCall(stream) {
    const std::int64_t places = batch * operation.width;
    reserve_inputs(places * host.vocab * 4);
    step_ = make_beam_step(operation, add_rows(host.values, host.vocab, places), batch, arrays_);
    statuses_ = step_.result.statuses;
    reserve_workspace(cuda::workspace_bytes(step_.request));
  }

  void enqueue(cuda::Path path) const override {
    expect_success(cuda::beam_search_step(step_.request, step_.result, execution(path)),
                   "the call");
  }

 private:
  BeamStep step_;
};

// --- Names -------------------------------------------------------------------------------------

/// The number that follows a prefix in a name, and the rest of the name.
struct Numbered {
  std::int32_t number;
  std::string rest;
};
std::optional<Numbered> numbered(const std::string& name, const std::string& prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  Numbered found{};
  const char* end = name.data() + name.size();
  const auto [behind, error] = std::from_chars(name.data() + prefix.size(), end, found.number);
  if (error != std::errc() || found.number < 1 || found.number > 1024) return std::nullopt;
  found.rest.assign(behind, end);
  return found;
}

template <class Call, class... Values>
MakeCall call_of(Values... values) {
  return [=](const DeviceRows& rows, std::int64_t batch, const std::string& /*processing*/,
             const cuda::Stream& stream) {
    return std::make_unique<Call>(rows.host(), batch, values..., stream);
  };
}

/// Parses the name of a call with drafted tokens; after the number, the name states the kind of the
/// draft's distribution.
template <class Call>
std::optional<MakeCall> drafts_of(const std::string& name, const std::string& prefix) {
  const auto drafts = numbered(name, prefix);
  if (!drafts) return std::nullopt;
  if (drafts->rest.empty()) return call_of<Call>(drafts->number, DraftLaw::none);
  if (drafts->rest == "/probs") return call_of<Call>(drafts->number, DraftLaw::probs);
  if (drafts->rest == "/logits") return call_of<Call>(drafts->number, DraftLaw::logits);
  return std::nullopt;
}

}  // namespace

std::optional<MakeCall> serving_call(const std::string& name) {
  if (auto chain = drafts_of<ChainCall>(name, "verify_chain_")) return chain;
  if (auto block = drafts_of<BlockCall>(name, "verify_block_")) return block;
  if (auto tree = drafts_of<TreeCall>(name, "verify_tree_")) return tree;
  if (const auto chain = numbered(name, "chain_speculative_sampling_");
      chain && chain->rest.empty()) {
    return call_of<ProbabilityChainCall>(chain->number);
  }
  if (const auto beams = parse_beams(name)) return call_of<BeamCall>(*beams);
  return std::nullopt;
}

}  // namespace fairdraw::suites
