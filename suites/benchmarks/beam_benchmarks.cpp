#include "suites/benchmarks/beam_benchmarks.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "fairdraw/beam_search.h"
#include "harness/contract/usage_error.h"
#include "suites/benchmarks/benchmark_rows.h"
#include "suites/benchmarks/floors.h"

namespace fairdraw::suites {
namespace {

using harness::UsageError;

constexpr std::string_view kBeamPrefix = "beam_";
constexpr std::string_view kLogprobs = "/logprobs";

struct BeamOperation {
  std::string name;
  std::int32_t width = 0;
  BeamInput input = BeamInput::logits;
};

BeamOperation parse(const std::string& name) {
  BeamOperation operation;
  operation.name = name;
  std::string_view rest = std::string_view(name).substr(kBeamPrefix.size());
  if (rest.ends_with(kLogprobs)) {
    operation.input = BeamInput::logprobs;
    rest.remove_suffix(kLogprobs.size());
  }
  const auto [end, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), operation.width);
  const bool number = error == std::errc() && end == rest.data() + rest.size();
  if (!number || operation.width < 1 || operation.width > kMaxBeamWidth) {
    throw UsageError(
        fmt::format("the beam width of '{}' is '{}'; allowed: 1 to {}", name, rest, kMaxBeamWidth));
  }
  return operation;
}

/// One step of `requests` requests with all their beams live, on the same rows each time.
class BeamStep {
 public:
  BeamStep(const BeamOperation& operation, const Rows& rows, std::int64_t requests, int threads)
      : requests_(requests), places_(requests * operation.width) {
    const auto n = static_cast<std::size_t>(requests);
    const auto places = static_cast<std::size_t>(places_);
    execution_.threads = threads;
    for (std::int64_t r = 0; r < requests; ++r) row_begins_.push_back(r * operation.width);
    live_.assign(n, operation.width);
    for (std::size_t i = 0; i < places; ++i) {
      const auto beam = static_cast<float>(i % static_cast<std::size_t>(operation.width));
      scores_.push_back(-10.0F - 0.25F * beam);
    }
    generated_.assign(n, 0);
    states_.assign(n, BeamState::live);
    numbers_.assign(2 * n + 5 * places, 0);
    floats_.assign(3 * places, 0.0F);
    next_states_.assign(n, BeamState::live);
    statuses_.assign(n, RowStatus::ok);
    request_.rows = rows.view();
    request_.input = operation.input;
    request_.requests = requests;
    request_.max_width = operation.width;
    request_.row_begins = {row_begins_.data(), requests};
    request_.live_beams = {live_.data(), requests};
    request_.scores = {scores_.data(), places_};
    request_.generated = {generated_.data(), requests};
    request_.states = {states_.data(), requests};
    request_.parameters.width = operation.width;
    request_.parameters.max_tokens = std::numeric_limits<std::int32_t>::max();
    set_result();
  }

  void run() {
    const Error error = beam_search_step(request_, result_, execution_);
    if (error) throw UsageError(error.message);
    if (statuses_.front() != RowStatus::ok) throw UsageError(to_string(statuses_.front()));
  }

 private:
  void set_result() {
    std::int32_t* numbers = numbers_.data();
    const auto take = [&numbers](std::int64_t size) {
      const View<std::int32_t> view = {numbers, size};
      numbers += size;
      return view;
    };
    float* floats = floats_.data();
    result_.parents = take(places_);
    result_.tokens = take(places_);
    result_.scores = {floats, places_};
    result_.live_beams = take(requests_);
    result_.states = {next_states_.data(), requests_};
    result_.statuses = {statuses_.data(), requests_};
    result_.pool.counts = take(requests_);
    result_.pool.scores = {floats + places_, places_};
    result_.pool.cumulative = {floats + 2 * places_, places_};
    result_.pool.lengths = take(places_);
    result_.pool.beams = take(places_);
    result_.pool.tokens = take(places_);
  }

  std::int64_t requests_, places_;
  Execution execution_;
  std::vector<std::int64_t> row_begins_;
  std::vector<std::int32_t> live_, generated_, numbers_;
  std::vector<float> scores_, floats_;
  std::vector<BeamState> states_, next_states_;
  std::vector<RowStatus> statuses_;
  BeamStepRequest request_;
  BeamStepResult result_;
};

harness::BenchmarkRecord benchmark(const BenchmarkOptions& options, const BeamOperation& operation,
                                   int threads, const std::string& kind, const std::string& dtype,
                                   const Rows& rows, std::int64_t requests) {
  const bool weights = operation.input == BeamInput::logits;
  BeamStep step(operation, rows, requests, threads);
  const Measured measured =
      measure([&step] { step.run(); }, [&rows, weights] { run_floor(rows, weights); },
              options.milliseconds);
  return {threads == 1 ? "cpu" : fmt::format("cpu@{}", threads),
          operation.name,
          requests,
          rows.vocab,
          dtype,
          kind,
          measured.microseconds,
          weights ? "max+weights" : "max",
          measured.floor,
          measured.microseconds / measured.floor,
          /*machine=*/{}};
}

}  // namespace

bool is_beam_operation(const std::string& name) { return name.starts_with(kBeamPrefix); }

std::vector<harness::BenchmarkRecord> beam_benchmarks(const BenchmarkOptions& options,
                                                      const std::vector<std::string>& operations) {
  std::vector<harness::BenchmarkRecord> records;
  for (const std::string& name : operations) {
    const BeamOperation operation = parse(name);
    for (const std::string& kind : options.logits) {
      for (const std::string& dtype : options.dtypes) {
        for (const std::int64_t vocab : options.vocabs) {
          for (const std::int64_t requests : options.batches) {
            const Rows rows =
                make_rows(kind, requests * operation.width, vocab, dtype, options.data_directory);
            for (const int threads : options.threads) {
              records.push_back(
                  benchmark(options, operation, threads, kind, dtype, rows, requests));
            }
          }
        }
      }
    }
  }
  return records;
}

}  // namespace fairdraw::suites
