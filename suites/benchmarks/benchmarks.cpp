#include "suites/benchmarks/benchmarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "fairdraw/sample.h"
#include "fairdraw/tile_index.h"
#include "harness/contract/sampler.h"
#include "harness/contract/usage_error.h"
#include "harness/inputs/dice.h"
#include "harness/plugin/plugin_sampler.h"
#include "suites/benchmarks/beam_step.h"
#include "suites/benchmarks/benchmark_processing.h"
#include "suites/benchmarks/benchmark_rows.h"
#include "suites/benchmarks/cuda_benchmarks.h"
#include "suites/benchmarks/floors.h"
#include "suites/benchmarks/peers.h"
#include "suites/benchmarks/plugin_overhead.h"

namespace fairdraw::suites {
namespace {

using harness::UsageError;

constexpr int kFewestRepetitions = 15;
constexpr std::string_view kSamplePrefix = "sample/", kBeamPrefix = "beam_", kPeerPrefix = "peer:";
constexpr const char* kTileIndex = "tile_index";
constexpr const char* kMaskedTileIndex = "tile_index/masked";

/// A function that makes one measured call on all rows.
using Work = std::function<void()>;

/// A row of the CPU's table of results, which is measured on every backend that supports it and on
/// all kinds of rows.
struct CpuCall {
  std::string name;
  bool weights = false;  ///< floor F2, otherwise F1
  /// true if the floor is F2 for rows whose values all tie
  bool weights_of_ties = false;
  /// number of rows for each unit of --batch
  std::int64_t rows_of_each = 1;
  /// makes the call on the CPU; empty if only peer samplers have the call
  std::function<Work(const Execution&, const Rows&)> on_cpu;
  std::function<Work(const std::string& peer, const Rows&)> on_peer = {};
};

/// Arrays on the host that this object owns.
class HostValues {
 public:
  template <class T>
  View<T> view(std::vector<T> values) {
    const auto held = std::make_shared<std::vector<T>>(std::move(values));
    held_.push_back(held);
    return {held->data(), static_cast<std::int64_t>(held->size())};
  }

 private:
  std::vector<std::shared_ptr<void>> held_;
};

void expect_success(const Error& error) {
  if (error) throw UsageError(error.message);
}

void expect_ok(RowStatus status) {
  if (status != RowStatus::ok) throw UsageError(to_string(status));
}

// --- The calls -----------------------------------------------------------------------------------

/// Returns a function that calls `sample`, each time with another offset.
Work sample_work(const Operation& operation, const std::string& processing, const Report& report,
                 const Execution& execution, const Rows& rows) {
  const auto arrays = std::make_shared<HostValues>();
  const auto made = std::make_shared<const BatchProcessing>(
      make_processing(processing, rows.batch, rows.batch, rows.vocab));
  SampleRequest request = request_of(operation);
  request.logits = rows.view();
  harness::HostArrays in_place;
  made->give(request, in_place);
  SampleResult result;
  result.tokens = arrays->view(repeated(rows.batch, std::int32_t{0}));
  if (report.given()) result.logprobs = room_for(report, rows.batch, *arrays);
  return [request, result, execution, arrays, made, call = std::uint64_t{0}]() mutable {
    request.offset = call++;
    expect_success(sample(request, result, execution));
  };
}

Work peer_work(const reference::RowParameters& parameters, const std::string& peer,
               const Rows& rows) {
  const bool sorts = peer == "peer:sort";
  return [&rows, parameters, sorts, sorting = std::make_shared<SortingPeer>(),
          softmax = std::make_shared<SoftmaxPeer>(), call = 0U]() mutable {
    const float uniform = static_cast<float>(call++ * 2654435761U >> 8) * 0x1p-24F;
    for (std::int64_t i = 0; i < rows.batch; ++i) {
      const auto vocab = static_cast<std::size_t>(rows.vocab);
      volatile const std::int32_t token =
          sorts ? sorting->sample(rows.row(i), vocab, parameters, uniform)
                : softmax->sample(rows.row(i), vocab, parameters.temperature, uniform);
      static_cast<void>(token);
    }
  };
}

/// Returns a function that computes the tile index of all rows, at temperature 1. If `masked` is
/// true, each token is allowed at random, so that successive words of the mask differ.
Work tile_index_work(bool masked, const Execution& execution, const Rows& rows) {
  const auto arrays = std::make_shared<HostValues>();
  const std::int64_t tiles = tiles_of(rows.vocab), words = (rows.vocab + 31) / 32;
  TileIndexRequest request;
  request.rows = rows.view();
  if (masked) {
    harness::Dice dice(1);
    std::vector<std::uint32_t> bits(static_cast<std::size_t>(rows.batch * words));
    for (std::uint32_t& word : bits) word = static_cast<std::uint32_t>(dice.bits());
    request.allowed = {arrays->view(std::move(bits)).data, rows.batch, words};
  }
  TileIndexResult result;
  result.keys = {arrays->view(repeated(rows.batch * tiles, std::int32_t{0})).data, rows.batch,
                 tiles};
  result.sums = {arrays->view(repeated(rows.batch * tiles, std::uint64_t{0})).data, rows.batch,
                 tiles};
  result.statuses = arrays->view(repeated(rows.batch, RowStatus::ok));
  return [request, result, execution, arrays] {
    expect_success(tile_index(request, result, execution));
    expect_ok(*result.statuses.data);
  };
}

Work beam_work(const BeamOperation& operation, const Execution& execution, const Rows& rows) {
  const auto arrays = std::make_shared<HostValues>();
  const BeamStep step =
      make_beam_step(operation, rows.view(), rows.batch / operation.width, *arrays);
  return [step, execution, arrays] {
    expect_success(beam_search_step(step.request, step.result, execution));
    expect_ok(*step.result.statuses.data);
  };
}

CpuCall sample_call(const Operation& operation, const std::string& processing,
                    const Report& report) {
  CpuCall call;
  call.name = call_name(operation, processing) + (report.given() ? "/" + report.name : "");
  // The floor is F1 (one read) if few tokens survive, and F2 (weights) if the distribution of the
  // whole row is needed.
  const reference::RowParameters& p = operation.parameters;
  call.weights = (report.given() && report.mode == LogprobsMode::raw_logprobs) ||
                 (p.temperature != 0 && p.top_k == 0 && p.min_p == 0);
  call.weights_of_ties = true;
  call.on_cpu = [=](const Execution& execution, const Rows& rows) {
    return sample_work(operation, processing, report, execution, rows);
  };
  return call;
}

std::vector<CpuCall> cpu_calls(const BenchmarkOptions& options) {
  std::vector<CpuCall> calls;
  const auto add_samples = [&](const Operation& operation) {
    // peer samplers are left out, because they have no logits processing
    calls.push_back(sample_call(operation, "none", {}));
    calls.back().on_cpu = {};
    calls.back().on_peer = [p = operation.parameters](const std::string& peer, const Rows& rows) {
      return peer_work(p, peer, rows);
    };
    for (const std::string& processing : options.processing) {
      calls.push_back(sample_call(operation, processing, {}));
      for (const std::string& report : options.logprobs) {
        calls.push_back(sample_call(operation, processing, parse_report("--logprobs", report)));
      }
    }
  };
  for (const std::string& name : options.operations) {
    if (is_cuda_operation(name)) {
      throw UsageError(fmt::format(
          "operation '{}' is measured on backends cuda, cuda:cluster and cuda:block", name));
    }
    if (const auto beams = parse_beams(name)) {
      calls.push_back({name, beams->input == BeamInput::logits, false, beams->width,
                       [=](const Execution& execution, const Rows& rows) {
                         return beam_work(*beams, execution, rows);
                       }});
    } else if (name == kTileIndex || name == kMaskedTileIndex) {
      calls.push_back(
          {name, false, false, 1,
           [masked = name == kMaskedTileIndex](const Execution& execution, const Rows& rows) {
             return tile_index_work(masked, execution, rows);
           }});
    } else {
      add_samples(sample_operation(name));
    }
  }
  if (options.operations.empty()) {
    for (const Operation& operation : named_operations()) add_samples(operation);
  }
  return calls;
}

// --- Times --------------------------------------------------------------------------------------

double microseconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

/// Runs a floor, which is a lower bound of a sampler's time, over all rows: F2 if `weights` is
/// true, otherwise F1.
void run_floor(const Rows& rows, bool weights) {
  const auto n = static_cast<std::size_t>(rows.vocab);
  for (std::int64_t i = 0; i < rows.batch; ++i) {
    volatile const double sink =
        weights ? static_cast<double>(max_and_weights(rows.row(i), n, CpuTarget::best))
                : static_cast<double>(max_reduction(rows.row(i), n));
    static_cast<void>(sink);
  }
}

/// Median times of a call and of its floor.
struct Measured {
  double microseconds = 0, floor = 0;
};

/// Measures a call and its floor in alternation, so that a busy machine slows both.
Measured measure(const Work& work, const Work& floor, double milliseconds) {
  std::vector<double> work_times, floor_times;
  floor();
  work();
  double spent = 0;
  while (spent < milliseconds * 1e3 || work_times.size() < kFewestRepetitions) {
    floor_times.push_back(microseconds_of(floor));
    work_times.push_back(microseconds_of(work));
    spent += floor_times.back() + work_times.back();
  }
  return {median(work_times), median(floor_times)};
}

Work work_of(const CpuCall& call, const std::string& backend, int threads, const Rows& rows) {
  if (backend.starts_with(kPeerPrefix)) return call.on_peer(backend, rows);
  Execution execution;
  execution.threads = threads;
  for (const CpuTarget target :
       {CpuTarget::scalar, CpuTarget::avx2, CpuTarget::avx512, CpuTarget::neon}) {
    if (backend == std::string("cpu:") + to_string(target)) execution.target = target;
  }
  return call.on_cpu(execution, rows);
}

harness::BenchmarkRecord benchmark(const CpuCall& call, const std::string& backend, int threads,
                                   const std::string& kind, const std::string& dtype,
                                   const Rows& rows, bool one_at_a_time, double milliseconds) {
  const bool weights = call.weights || (call.weights_of_ties && kind == "equal");
  const auto time = [&](const Rows& timed, double limit) {
    return measure(
        work_of(call, backend, threads, timed), [&] { run_floor(timed, weights); }, limit);
  };
  Measured measured;
  if (one_at_a_time) {  // the mean over single rows, each of which stays in the L2 cache
    const auto count = static_cast<double>(rows.batch);
    for (std::int64_t i = 0; i < rows.batch; ++i) {
      const Measured one = time(single_row(rows, i), milliseconds / 8);
      measured.microseconds += one.microseconds / count;
      measured.floor += one.floor / count;
    }
  } else {
    measured = time(rows, milliseconds);
  }
  return {threads == 1 ? backend : fmt::format("{}@{}", backend, threads),
          call.name,
          one_at_a_time ? 1 : rows.batch / call.rows_of_each,
          rows.vocab,
          dtype,
          kind,
          measured.microseconds,
          weights ? "max+weights" : "max",
          measured.floor,
          measured.microseconds / measured.floor,
          /*machine=*/{}};
}

std::vector<harness::BenchmarkRecord> run_cpu_benchmarks(BenchmarkOptions options,
                                                         const std::vector<std::string>& backends) {
  if (options.vocabs.empty()) options.vocabs = {131072};
  if (options.batches.empty()) options.batches = {1};
  if (options.dtypes.empty()) options.dtypes = {"float32"};
  if (options.logits.empty()) options.logits = {"peaked", "flat"};
  const std::vector<CpuCall> calls = cpu_calls(options);
  std::vector<harness::BenchmarkRecord> records;
  const auto measure_all = [&](const std::string& kind, const std::string& dtype,
                               std::int64_t vocab, std::int64_t batch) {
    std::optional<Rows> rows;
    std::int64_t made = 0;
    for (const CpuCall& call : calls) {
      const std::int64_t count = batch * call.rows_of_each;
      const bool one_at_a_time = kind == "captured" && count == 1;  // the whole file
      if (!rows || count != made) {
        rows = make_rows(kind, one_at_a_time ? 0 : count, vocab, dtype, options.data_directory);
      }
      made = count;
      for (const std::string& backend : backends) {
        if (backend.starts_with(kPeerPrefix) ? !call.on_peer : !call.on_cpu) continue;
        for (const int threads : options.threads) {
          records.push_back(benchmark(call, backend, threads, kind, dtype, *rows, one_at_a_time,
                                      options.milliseconds));
        }
      }
    }
  };
  for (const std::string& kind : options.logits) {
    for (const std::string& dtype : options.dtypes) {
      for (const std::int64_t vocab : options.vocabs) {
        for (const std::int64_t batch : options.batches) measure_all(kind, dtype, vocab, batch);
      }
    }
  }
  if (records.empty()) throw UsageError("peers have no beams and no index of tiles");
  return records;
}

void check_names(const std::vector<std::string>& given, const std::vector<std::string>& known,
                 const char* what) {
  for (const std::string& name : given) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw UsageError(harness::unknown_name_message(what, name, known));
    }
  }
}

}  // namespace

bool is_cuda_backend(const std::string& backend) {
  return backend == "cuda" || backend == "cuda:cluster" || backend == "cuda:block";
}

bool is_cuda_operation(const std::string& name) {
  const auto begins = [&](const char* prefix) { return name.starts_with(prefix); };
  return begins("from_probs/") || begins("kept/") || begins("marked/") || begins("step/") ||
         begins("logprobs/") || begins("verify_") || begins("chain_speculative_sampling_");
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Operation sample_operation(const std::string& name) {
  return parse_operation(name.starts_with(kSamplePrefix) ? name.substr(kSamplePrefix.size())
                                                         : name);
}

std::string call_name(const Operation& operation, const std::string& processing) {
  const std::string name = std::string(kSamplePrefix) + operation_name(operation);
  return processing == "none" ? name : name + "/" + processing;
}

SampleRequest request_of(const Operation& operation) {
  SampleRequest request;
  request.temperature = operation.parameters.temperature;
  request.top_k = operation.parameters.top_k;
  request.top_p = operation.parameters.top_p;
  request.min_p = operation.parameters.min_p;
  request.tie_rule = operation.tie_rule;
  request.filter_order = operation.filter_order;
  request.seed = std::uint64_t{1};
  return request;
}

Report parse_report(const std::string& field, const std::string& name) {
  for (const LogprobsMode mode :
       {LogprobsMode::raw_logits, LogprobsMode::raw_logprobs, LogprobsMode::processed_logits,
        LogprobsMode::processed_logprobs}) {
    for (std::int32_t top_n = 0; top_n <= kLargestTopN; ++top_n) {
      if (name == fmt::format("{}/{}", to_string(mode), top_n)) return {name, mode, top_n};
    }
  }
  throw UsageError(
      fmt::format("{} is {}; allowed: raw_logits/N, raw_logprobs/N, "
                  "processed_logits/N or processed_logprobs/N, N from 0 to {}",
                  field, name, kLargestTopN));
}

std::optional<BeamOperation> parse_beams(const std::string& name) {
  constexpr std::string_view kLogprobs = "/logprobs";
  if (!name.starts_with(kBeamPrefix)) return std::nullopt;
  std::string_view rest = std::string_view(name).substr(kBeamPrefix.size());
  BeamOperation operation;
  if (rest.ends_with(kLogprobs)) {
    operation.input = BeamInput::logprobs;
    rest.remove_suffix(kLogprobs.size());
  }
  const char* const end = rest.data() + rest.size();
  const auto [stop, error] = std::from_chars(rest.data(), end, operation.width);
  if (error == std::errc() && stop == end && operation.width >= 1 &&
      operation.width <= kMaxBeamWidth) {
    return operation;
  }
  throw UsageError(
      fmt::format("the beam width of '{}' is '{}'; allowed: 1 to {}", name, rest, kMaxBeamWidth));
}

std::vector<harness::BenchmarkRecord> run_benchmarks(const BenchmarkOptions& options,
                                                     std::vector<std::string>& failures) {
  std::vector<std::string> known = harness::builtin_sampler_names();
  std::erase(known, "model");
  known.insert(known.end(), {"peer:sort", "peer:softmax"});
  std::vector<std::string> cpu_backends, cuda_backends, plugins;
  for (const std::string& backend : options.backends) {
    (is_cuda_backend(backend)              ? cuda_backends
     : harness::plugin::is_plugin(backend) ? plugins
                                           : cpu_backends)
        .push_back(backend);
  }
  if (options.backends.empty()) cpu_backends = {"cpu"};
  check_names(cpu_backends, known, "backend");
  check_names(options.logits, logits_names(), "logits");
  check_names(options.dtypes, dtype_names(), "dtype");
  check_names(options.processing, processing_names(), "processing");
  check_names({options.parameters}, {"array", "scalar"}, "parameters");
  std::vector<harness::BenchmarkRecord> records;
  const auto add = [&records](std::vector<harness::BenchmarkRecord> more) {
    std::move(more.begin(), more.end(), std::back_inserter(records));
  };
  if (!cpu_backends.empty()) add(run_cpu_benchmarks(options, cpu_backends));
  if (!cuda_backends.empty()) add(run_cuda_benchmarks(options, cuda_backends, failures));
  const std::vector<std::int64_t> small = {16};
  for (const std::string& plugin : plugins) {
    for (const std::int64_t vocab : options.vocabs.empty() ? small : options.vocabs) {
      add(plugin_overhead(plugin, vocab, options.milliseconds));
    }
  }
  return records;
}

}  // namespace fairdraw::suites
