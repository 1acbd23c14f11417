#include "suites/benchmarks/cuda_serving_benchmarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "fairdraw/cuda_beam_search.h"
#include "fairdraw/cuda_speculative.h"
#include "fairdraw/sample.h"
#include "harness/contract/usage_error.h"
#include "suites/benchmarks/benchmark_rows.h"
#include "suites/benchmarks/cuda_machine.h"
#include "suites/benchmarks/cuda_timing.h"
#include "suites/benchmarks/device_values.h"

namespace fairdraw::suites {
namespace {

constexpr float kDraftTemperature = 1.3F;  // of a draft's distribution; the target has 1

template <class T>
std::vector<T> repeated(std::int64_t n, T value) {
  return std::vector<T>(static_cast<std::size_t>(n), value);
}

std::vector<std::uint64_t> counted_from(std::uint64_t first, std::int64_t n) {
  std::vector<std::uint64_t> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + i;
  return values;
}

/// A call whose arrays are on the device.
class ServingCall {
 public:
  explicit ServingCall(const cuda::Stream& stream) : stream_(stream) {}
  virtual ~ServingCall() = default;
  ServingCall(const ServingCall&) = delete;
  ServingCall& operator=(const ServingCall&) = delete;

  virtual void enqueue(cuda::Path path) const = 0;
  /// What the call is compared with, where that is another call; the floor where it is none.
  virtual void enqueue_base(cuda::Path) const {}
  virtual std::string base() const { return {}; }
  /// Bytes that the call has to read.
  const void* inputs() const { return inputs_.data(); }
  std::int64_t input_bytes() const { return input_bytes_; }

  std::string trouble() const {
    const std::vector<RowStatus> statuses = statuses_->download(stream_);
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      if (statuses[i] != RowStatus::ok) {
        return fmt::format("request {} has status {}", i, to_string(statuses[i]));
      }
    }
    return {};
  }

 protected:
  /// Copies rows after those that are there: `count` of them, the host's again and again.
  void reserve_inputs(std::int64_t bytes) { expect_success(inputs_.reserve(bytes), "the inputs"); }
  const void* add_rows(const std::vector<float>& values, std::int64_t vocab, std::int64_t count) {
    const auto distinct = static_cast<std::int64_t>(values.size()) / vocab;
    const std::int64_t begin = input_bytes_;
    for (std::int64_t done = 0; done < count; done += distinct) {
      const std::int64_t part = std::min(distinct, count - done) * vocab * 4;
      expect_success(inputs_.upload(input_bytes_, values.data(), part, stream_), "the inputs");
      input_bytes_ += part;
    }
    return static_cast<const std::byte*>(inputs_.data()) + begin;
  }
  template <class T>
  T* array(const std::vector<T>& values) {
    auto held = std::make_shared<DeviceArray<T>>(values, stream_);
    arrays_.push_back(held);
    return held->data();
  }
  template <class T>
  View<T> view(const std::vector<T>& values) {
    return {array(values), static_cast<std::int64_t>(values.size())};
  }
  template <class T>
  View<const T> const_view(const std::vector<T>& values) {
    return {array(values), static_cast<std::int64_t>(values.size())};
  }
  /// The target's side of drafts, after the inputs that are there.
  TargetRows target_of(const Rows& host, std::int64_t batch, std::int64_t rows) {
    TargetRows target;
    target.logits = {add_rows(host.values, host.vocab, rows), DType::float32, rows, host.vocab,
                     host.vocab};
    target.batch = batch;
    target.seed = {array(counted_from(1, batch)), batch};
    target.offset = {array(counted_from(1000, batch)), batch};
    return target;
  }
  /// Rows of the draft's distribution, after the inputs that are there.
  RowsView draft_of(const Rows& host, DraftLaw distribution, std::int64_t rows) {
    const bool probs = distribution == DraftLaw::probs;
    return {
        add_rows(probs ? probabilities(host, kDraftTemperature) : host.values, host.vocab, rows),
        DType::float32, rows, host.vocab, host.vocab};
  }
  View<RowStatus> statuses(std::int64_t n) {
    statuses_ = std::make_unique<DeviceArray<RowStatus>>(
        std::vector<RowStatus>(static_cast<std::size_t>(n), RowStatus::inactive), stream_);
    return statuses_->view();
  }
  cuda::Execution execution(cuda::Path path) const {
    return {stream_.get(), workspace_.data(), workspace_.size(), path};
  }
  void reserve_workspace(std::int64_t bytes) {
    expect_success(workspace_.reserve(bytes), "the workspace");
  }

 private:
  const cuda::Stream& stream_;
  cuda::DeviceBuffer inputs_, workspace_;
  std::int64_t input_bytes_ = 0;
  std::deque<std::shared_ptr<void>> arrays_;
  std::unique_ptr<DeviceArray<RowStatus>> statuses_;
};

// --- Log-probabilities -------------------------------------------------------------------------

class ReportingCall final : public ServingCall {
 public:
  ReportingCall(const Rows& host, std::int64_t batch, LogprobsMode mode, std::int32_t top_n,
                const Operation& operation, const cuda::Stream& stream)
      : ServingCall(stream), name_("sample/" + operation_name(operation)) {
    reserve_inputs(batch * host.vocab * 4);
    request_.logits = {add_rows(host.values, host.vocab, batch), DType::float32, batch, host.vocab,
                       host.vocab};
    const reference::RowParameters& p = operation.parameters;
    request_.temperature = {array(repeated(batch, p.temperature)), batch};
    request_.top_k = {array(repeated(batch, p.top_k)), batch};
    request_.top_p = {array(repeated(batch, p.top_p)), batch};
    request_.min_p = {array(repeated(batch, p.min_p)), batch};
    request_.seed = {array(counted_from(1, batch)), batch};
    request_.offset = {array(counted_from(1000, batch)), batch};
    request_.tie_rule = operation.tie_rule;
    request_.filter_order = operation.filter_order;
    result_.tokens = view(repeated(batch, std::int32_t{-1}));
    result_.statuses = statuses(batch);
    plain_ = result_;
    LogprobsResult& report = result_.logprobs;
    report.mode = mode;
    report.rank_rule = RankRule::at_least;  // vLLM's
    report.top_n = top_n;
    report.values = view(repeated(batch, 0.0F));
    report.ranks = view(repeated(batch, std::int32_t{0}));
    if (top_n > 0) {
      report.top_ids = view(repeated(batch * top_n, std::int32_t{0}));
      report.top_values = view(repeated(batch * top_n, 0.0F));
    }
    reserve_workspace(cuda::workspace_bytes(request_, report));
  }

  void enqueue(cuda::Path path) const override {
    expect_success(cuda::sample(request_, result_, execution(path)), "the call");
  }
  void enqueue_base(cuda::Path path) const override {
    expect_success(cuda::sample(request_, plain_, execution(path)), "the plain call");
  }
  std::string base() const override { return name_; }

 private:
  std::string name_;
  SampleRequest request_;
  SampleResult result_, plain_;
};

// --- Drafts ------------------------------------------------------------------------------------

/// What the draft would draw at each of `rows`, numbers of rows that are the host's again and
/// again.
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

class ChainCall final : public ServingCall {
 public:
  ChainCall(const Rows& host, std::int64_t batch, std::int64_t drafts, DraftLaw distribution,
            const cuda::Stream& stream)
      : ServingCall(stream) {
    const std::int64_t rows = batch * (drafts + 1);
    const std::int64_t places = batch * drafts;
    reserve_inputs((rows + places) * host.vocab * 4);
    request_.target = target_of(host, batch, rows);
    request_.max_draft = drafts;
    request_.draft_tokens = const_view(drafted_tokens(host, first_rows(places)));
    request_.draft_law = distribution;
    request_.draft_filters.temperature = kDraftTemperature;
    if (distribution != DraftLaw::none) request_.draft = draft_of(host, distribution, places);
    result_.tokens = view(repeated(rows, std::int32_t{-1}));
    result_.accepted = view(repeated(batch, std::int32_t{-1}));
    result_.statuses = statuses(batch);
    reserve_workspace(cuda::workspace_bytes(request_));
  }

  void enqueue(cuda::Path path) const override {
    expect_success(cuda::verify_chain(request_, result_, execution(path)), "the call");
  }

 private:
  VerifyChainRequest request_;
  VerifyChainResult result_;
};

/// Two children a node, drawn with replacement: of the root, and of every node after the first
/// until there are enough.
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
    request_.parents = const_view(parents);
    request_.draft_tokens = const_view(drafted_tokens(host, parent_rows));
    request_.draft_law = distribution;
    request_.draft_filters.temperature = kDraftTemperature;
    if (distribution != DraftLaw::none) request_.draft = draft_of(host, distribution, rows);
    result_.tokens = view(repeated(rows, std::int32_t{-1}));
    result_.statuses = statuses(batch);
    reserve_workspace(cuda::workspace_bytes(request_));
  }

  void enqueue(cuda::Path path) const override {
    expect_success(cuda::verify_tree(request_, result_, execution(path)), "the call");
  }

 private:
  VerifyTreeRequest request_;
  VerifyTreeResult result_;
};

class ProbabilityChainCall final : public ServingCall {
 public:
  ProbabilityChainCall(const Rows& host, std::int64_t batch, std::int64_t drafts,
                       const cuda::Stream& stream)
      : ServingCall(stream) {
    const std::int64_t rows = batch * (drafts + 1);
    const std::int64_t places = batch * drafts;
    reserve_inputs((rows + places) * host.vocab * 4);
    request_.target_probs = {add_rows(probabilities(host, 1.0F), host.vocab, rows), DType::float32,
                             rows, host.vocab, host.vocab};
    request_.draft_probs = {add_rows(probabilities(host, kDraftTemperature), host.vocab, places),
                            DType::float32, places, host.vocab, host.vocab};
    request_.draft_tokens = const_view(drafted_tokens(host, first_rows(places)));
    request_.batch = batch;
    request_.num_draft_tokens = drafts;
    request_.seed = {array(counted_from(1, batch)), batch};
    request_.offset = {array(counted_from(1000, batch)), batch};
    result_.tokens = view(repeated(rows, std::int32_t{-1}));
    result_.statuses = statuses(batch);
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
  BeamCall(const Rows& host, std::int64_t batch, std::int32_t width, BeamInput input,
           const cuda::Stream& stream)
      : ServingCall(stream) {
    const std::int64_t places = batch * width;
    reserve_inputs(places * host.vocab * 4);
    step_.rows = {add_rows(host.values, host.vocab, places), DType::float32, places, host.vocab,
                  host.vocab};
    step_.input = input;
    step_.requests = batch;
    step_.max_width = width;
    std::vector<std::int64_t> begins;
    for (std::int64_t r = 0; r < batch; ++r) begins.push_back(r * width);
    std::vector<float> scores;
    for (std::int64_t i = 0; i < places; ++i) {
      scores.push_back(-10.0F - 0.25F * static_cast<float>(i % width));
    }
    step_.row_begins = const_view(begins);
    step_.live_beams = const_view(repeated(batch, width));
    step_.scores = const_view(scores);
    step_.generated = const_view(repeated(batch, std::int32_t{1}));
    step_.states = const_view(repeated(batch, BeamState::live));
    step_.parameters.width = width;
    step_.parameters.max_tokens = 100;
    const auto zeros = [this](std::int64_t n) { return view(repeated(n, std::int32_t{0})); };
    const auto floats = [this](std::int64_t n) { return view(repeated(n, 0.0F)); };
    result_.parents = zeros(places);
    result_.tokens = zeros(places);
    result_.scores = floats(places);
    result_.live_beams = zeros(batch);
    result_.states = view(repeated(batch, BeamState::live));
    result_.statuses = statuses(batch);
    result_.pool.counts = zeros(batch);
    result_.pool.scores = floats(places);
    result_.pool.cumulative = floats(places);
    result_.pool.lengths = zeros(places);
    result_.pool.beams = zeros(places);
    result_.pool.tokens = zeros(places);
    reserve_workspace(cuda::workspace_bytes(step_));
  }

  void enqueue(cuda::Path path) const override {
    expect_success(cuda::beam_search_step(step_, result_, execution(path)), "the call");
  }

 private:
  BeamStepRequest step_;
  BeamStepResult result_;
};

// --- Names -------------------------------------------------------------------------------------

using MakeCall = std::function<std::unique_ptr<ServingCall>(const Rows&, std::int64_t batch,
                                                            const cuda::Stream&)>;

/// The number after a prefix, and what follows it; nothing where the name is another.
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

std::optional<MakeCall> report_of(const std::string& name) {
  for (const LogprobsMode mode :
       {LogprobsMode::raw_logits, LogprobsMode::raw_logprobs, LogprobsMode::processed_logits,
        LogprobsMode::processed_logprobs}) {
    const auto found = numbered(name, fmt::format("logprobs/{}/", to_string(mode)));
    if (!found || found->number > kLargestTopN || !found->rest.starts_with('+')) continue;
    const Operation operation = parse_operation(found->rest.substr(1));
    const std::int32_t top_n = found->number;
    return [=](const Rows& rows, std::int64_t batch, const cuda::Stream& stream) {
      return std::make_unique<ReportingCall>(rows, batch, mode, top_n, operation, stream);
    };
  }
  return std::nullopt;
}

/// Calls of drafts, with what is known of their distribution after the number.
template <class Call>
std::optional<MakeCall> drafts_of(const std::string& name, const std::string& prefix) {
  const auto drafts = numbered(name, prefix);
  if (!drafts) return std::nullopt;
  const DraftLaw distributions[] = {DraftLaw::none, DraftLaw::probs, DraftLaw::logits};
  const char* names[] = {"", "/probs", "/logits"};
  for (int i = 0; i < 3; ++i) {
    if (drafts->rest != names[i]) continue;
    return [n = drafts->number, distribution = distributions[i]](
               const Rows& rows, std::int64_t batch, const cuda::Stream& stream) {
      return std::make_unique<Call>(rows, batch, n, distribution, stream);
    };
  }
  return std::nullopt;
}

std::optional<MakeCall> call_of(const std::string& name) {
  if (auto report = report_of(name)) return report;
  if (auto chain = drafts_of<ChainCall>(name, "verify_chain_")) return chain;
  if (auto tree = drafts_of<TreeCall>(name, "verify_tree_")) return tree;
  if (const auto chain = numbered(name, "chain_speculative_sampling_");
      chain && chain->rest.empty()) {
    return [=](const Rows& rows, std::int64_t batch, const cuda::Stream& stream) {
      return std::make_unique<ProbabilityChainCall>(rows, batch, chain->number, stream);
    };
  }
  if (const auto beam = numbered(name, "beam_");
      beam && (beam->rest.empty() || beam->rest == "/logprobs")) {
    const BeamInput input = beam->rest.empty() ? BeamInput::logits : BeamInput::logprobs;
    return [=](const Rows& rows, std::int64_t batch, const cuda::Stream& stream) {
      return std::make_unique<BeamCall>(rows, batch, beam->number, input, stream);
    };
  }
  return std::nullopt;
}

}  // namespace

bool is_serving_operation(const std::string& name) { return call_of(name).has_value(); }

std::vector<harness::BenchmarkRecord> run_serving_benchmarks(
    const BenchmarkOptions& options, const std::vector<std::string>& backends,
    const std::vector<std::string>& operations, std::vector<std::string>& failures) {
  expect_available(backends);
  const auto or_else = [](const auto& given, const auto& otherwise) {
    return given.empty() ? otherwise : given;
  };
  const std::string machine = machine_text(device_properties());
  cuda::Stream stream;
  expect_success(stream.create(), "a stream");
  ColdTimer timer(stream);
  timer.warm_up();
  std::vector<harness::BenchmarkRecord> records;
  for (const std::string& kind : or_else(options.logits, std::vector<std::string>{"peaked"})) {
    for (const std::int64_t vocab : or_else(options.vocabs, std::vector<std::int64_t>{128256})) {
      const Rows host = make_rows(kind, kDistinctRows, vocab, "float32", options.data_directory);
      for (const std::int64_t batch : or_else(options.batches, std::vector<std::int64_t>{64})) {
        for (const std::string& name : operations) {
          const std::unique_ptr<ServingCall> call = (*call_of(name))(host, batch, stream);
          const Floor floor(call->inputs(), DType::float32, call->input_bytes(), stream, timer);
          for (const std::string& backend : backends) {
            const std::string cell =
                fmt::format("{} {} batch {} vocab {} {}", backend, name, batch, host.vocab, kind);
            const auto captured = [&](const std::function<void()>& enqueue) {
              enqueue();  // loads the kernels: not a part of the capture
              return std::make_unique<CapturedCall>(stream, enqueue);
            };
            const bool has_base = !call->base().empty();
            const auto work = captured([&] { call->enqueue(path_of(backend)); });
            std::unique_ptr<CapturedCall> base;
            if (has_base) base = captured([&] { call->enqueue_base(path_of(backend)); });
            const std::vector<double> times = timer.medians(
                {{has_base ? base.get() : &floor.call(), {}}, {work.get(), {}}}, kRepetitions);
            if (const std::string trouble = call->trouble(); !trouble.empty()) {
              failures.push_back(cell + ": " + trouble);
            }
            records.push_back({backend, name, batch, host.vocab, "float32", kind, times[1],
                               has_base ? call->base() : "read_once", times[0], times[1] / times[0],
                               machine});
          }
        }
      }
    }
  }
  return records;
}

}  // namespace fairdraw::suites
