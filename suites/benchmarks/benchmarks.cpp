#include "suites/benchmarks/benchmarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>

#include "fairdraw/sample.h"
#include "harness/contract/sampler.h"
#include "harness/contract/usage_error.h"
#include "harness/plugin/plugin_sampler.h"
#include "suites/benchmarks/beam_benchmarks.h"
#include "suites/benchmarks/benchmark_processing.h"
#include "suites/benchmarks/benchmark_rows.h"
#include "suites/benchmarks/cuda_benchmarks.h"
#include "suites/benchmarks/cuda_serving_benchmarks.h"
#include "suites/benchmarks/cuda_step_benchmarks.h"
#include "suites/benchmarks/floors.h"
#include "suites/benchmarks/peers.h"
#include "suites/benchmarks/plugin_overhead.h"
#include "suites/benchmarks/tile_benchmarks.h"
#include "suites/gate/cases/operation.h"

namespace fairdraw::suites {
namespace {

using harness::UsageError;

constexpr int kFewestRepetitions = 15;

double microseconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What a call reports besides its tokens: log-probabilities of these, and of the `top_n` largest.
struct Reports {
  std::string name;  ///< MODE/N; empty: nothing
  LogprobsMode mode = LogprobsMode::raw_logprobs;
  std::int32_t top_n = 0;

  bool given() const { return !name.empty(); }
};

Reports parse_reports(const std::string& name) {
  for (const LogprobsMode mode :
       {LogprobsMode::raw_logits, LogprobsMode::raw_logprobs, LogprobsMode::processed_logits,
        LogprobsMode::processed_logprobs}) {
    for (std::int32_t top_n = 0; top_n <= kLargestTopN; ++top_n) {
      if (name == fmt::format("{}/{}", to_string(mode), top_n)) return {name, mode, top_n};
    }
  }
  throw UsageError(
      fmt::format("--logprobs is {}; allowed: raw_logits/N, raw_logprobs/N, "
                  "processed_logits/N or processed_logprobs/N, N from 0 to {}",
                  name, kLargestTopN));
}

/// F1 where few tokens survive, F2 where the distribution of the whole row is needed, or everything
/// ties.
bool needs_weights(const Operation& operation, const Reports& reports, const std::string& logits) {
  if (logits == "equal") return true;
  if (reports.given() && reports.mode == LogprobsMode::raw_logprobs) return true;
  const reference::RowParameters& p = operation.parameters;
  return p.temperature != 0 && p.top_k == 0 && p.min_p == 0;
}

/// What is timed: one call over all rows, with another offset each time.
std::function<void()> work_of(const std::string& backend, int threads, const Operation& operation,
                              const std::string& processing, const Reports& reports,
                              const Rows& rows) {
  const reference::RowParameters parameters = operation.parameters;
  if (backend == "peer:sort" || backend == "peer:softmax") {
    const bool sorts = backend == "peer:sort";
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
  Execution execution;
  for (const CpuTarget target :
       {CpuTarget::scalar, CpuTarget::avx2, CpuTarget::avx512, CpuTarget::neon}) {
    if (backend == std::string("cpu:") + to_string(target)) execution.target = target;
  }
  execution.threads = threads;
  SampleRequest request;
  request.logits = rows.view();
  request.temperature = parameters.temperature;
  request.top_k = parameters.top_k;
  request.top_p = parameters.top_p;
  request.min_p = parameters.min_p;
  request.tie_rule = operation.tie_rule;
  request.filter_order = operation.filter_order;
  request.seed = std::uint64_t{1};
  const auto made = std::make_shared<const BatchProcessing>(
      make_processing(processing, rows.batch, rows.batch, rows.vocab));
  harness::HostArrays arrays;
  if (processing != "none") request.processing = made->lists.in(arrays);
  if (!made->allowed.empty()) {
    request.allowed = {made->allowed.data(), rows.batch, made->allowed_stride};
  }
  const auto batch = static_cast<std::size_t>(rows.batch);
  const auto entries = batch * static_cast<std::size_t>(reports.top_n);
  return [request, execution, made, reports, call = std::uint64_t{0},
          tokens = std::vector<std::int32_t>(batch), ranks = std::vector<std::int32_t>(batch),
          values = std::vector<float>(batch), top_ids = std::vector<std::int32_t>(entries),
          top_values = std::vector<float>(entries)]() mutable {
    request.offset = call++;
    const auto view = [](auto& array) {
      return View(array.data(), static_cast<std::int64_t>(array.size()));
    };
    SampleResult result;
    result.tokens = view(tokens);
    if (reports.given()) {
      result.logprobs.mode = reports.mode;
      result.logprobs.top_n = reports.top_n;
      result.logprobs.values = view(values);
      result.logprobs.ranks = view(ranks);
      result.logprobs.top_ids = view(top_ids);
      result.logprobs.top_values = view(top_values);
    }
    const Error error = sample(request, result, execution);
    if (error) throw UsageError(error.message);
  };
}

harness::BenchmarkRecord benchmark(const BenchmarkOptions& options, const std::string& backend,
                                   int threads, const Operation& operation,
                                   const std::string& processing, const Reports& reports,
                                   const std::string& kind, const std::string& dtype,
                                   const Rows& rows, bool batch_of_one) {
  const bool weights = needs_weights(operation, reports, kind);
  const auto time = [&](const Rows& timed, double milliseconds) {
    return measure(
        work_of(backend, threads, operation, processing, reports, timed),
        [&timed, weights] { run_floor(timed, weights); }, milliseconds);
  };
  Measured measured;
  std::int64_t batch = rows.batch;
  if (kind == "captured" && batch_of_one) {
    // Every row of the file alone, so that each stays in L2; their mean.
    for (std::int64_t i = 0; i < rows.batch; ++i) {
      const Measured one = time(single_row(rows, i), options.milliseconds / 8);
      measured.microseconds += one.microseconds / static_cast<double>(rows.batch);
      measured.floor += one.floor / static_cast<double>(rows.batch);
    }
    batch = 1;
  } else {
    measured = time(rows, options.milliseconds);
  }
  return {threads == 1 ? backend : fmt::format("{}@{}", backend, threads),
          call_name(operation, processing) + (reports.given() ? "/" + reports.name : ""),
          batch,
          rows.vocab,
          dtype,
          kind,
          measured.microseconds,
          weights ? "max+weights" : "max",
          measured.floor,
          measured.microseconds / measured.floor,
          /*machine=*/{}};
}

void check_names(const std::vector<std::string>& given, const std::vector<std::string>& known,
                 const char* what) {
  for (const std::string& name : given) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw UsageError(harness::unknown_name_message(what, name, known));
    }
  }
}

void check_range(const std::vector<std::int64_t>& values, const char* field, std::int64_t largest) {
  for (const std::int64_t value : values) {
    if (value < 1 || value > largest) {
      throw UsageError(fmt::format("{} is {}; allowed: 1 to {}", field, value, largest));
    }
  }
}

/// The lists of the CPU's table, where none are given.
BenchmarkOptions with_cpu_lists(BenchmarkOptions options) {
  if (options.vocabs.empty()) options.vocabs = {131072};
  if (options.batches.empty()) options.batches = {1};
  if (options.dtypes.empty()) options.dtypes = {"float32"};
  if (options.logits.empty()) options.logits = {"peaked", "flat"};
  return options;
}

/// Peers know no processing.
std::vector<std::string> processing_for(const std::string& backend,
                                        const BenchmarkOptions& options) {
  if (backend.rfind("peer:", 0) == 0) return {"none"};
  return options.processing;
}

std::vector<harness::BenchmarkRecord> run_cpu_benchmarks(const BenchmarkOptions& options,
                                                         const std::vector<std::string>& backends) {
  const std::vector<Operation> operations = operations_of(options, named_operations());
  std::vector<Reports> reports(1);  // the plain call first
  for (const std::string& name : options.logprobs) reports.push_back(parse_reports(name));
  std::vector<harness::BenchmarkRecord> records;
  for (const std::string& kind : options.logits) {
    for (const std::string& dtype : options.dtypes) {
      for (const std::int64_t vocab : options.vocabs) {
        for (const std::int64_t batch : options.batches) {
          const bool batch_of_one = batch == 1;  // captured rows: each alone, see benchmark()
          const Rows rows = make_rows(kind, kind == "captured" && batch_of_one ? 0 : batch, vocab,
                                      dtype, options.data_directory);
          for (const Operation& operation : operations) {
            for (const std::string& backend : backends) {
              for (const int threads : options.threads) {
                for (const std::string& processing : processing_for(backend, options)) {
                  for (const Reports& report : reports) {
                    if (report.given() && backend.rfind("peer:", 0) == 0) continue;
                    records.push_back(benchmark(options, backend, threads, operation, processing,
                                                report, kind, dtype, rows, batch_of_one));
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  return records;
}

}  // namespace

Measured measure(const std::function<void()>& work, const std::function<void()>& floor,
                 double milliseconds) {
  std::vector<double> work_times;
  std::vector<double> floor_times;
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

void run_floor(const Rows& rows, bool weights) {
  const auto n = static_cast<std::size_t>(rows.vocab);
  for (std::int64_t i = 0; i < rows.batch; ++i) {
    volatile const double sink =
        weights ? static_cast<double>(max_and_weights(rows.row(i), n, CpuTarget::best))
                : static_cast<double>(max_reduction(rows.row(i), n));
    static_cast<void>(sink);
  }
}

std::vector<Operation> operations_of(const BenchmarkOptions& options,
                                     const std::vector<Operation>& defaults) {
  if (options.operations.empty()) return defaults;
  std::vector<Operation> operations;
  for (const std::string& name : options.operations) {
    const std::string prefix = "sample/";
    const bool prefixed = name.rfind(prefix, 0) == 0;
    operations.push_back(parse_operation(prefixed ? name.substr(prefix.size()) : name));
  }
  return operations;
}

std::string call_name(const Operation& operation, const std::string& processing) {
  const std::string name = "sample/" + operation_name(operation);
  return processing == "none" ? name : name + "/" + processing;
}

std::vector<harness::BenchmarkRecord> run_benchmarks(const BenchmarkOptions& given,
                                                     std::vector<std::string>& failures) {
  BenchmarkOptions options = given;
  const auto take = [&options](const auto& belongs) {
    std::vector<std::string> taken;
    std::copy_if(options.operations.begin(), options.operations.end(), std::back_inserter(taken),
                 belongs);
    std::erase_if(options.operations, belongs);
    return taken;
  };
  const bool on_gpu = std::any_of(given.backends.begin(), given.backends.end(), is_cuda_backend);
  const std::vector<std::string> serving_operations =
      take([on_gpu](const std::string& name) { return on_gpu && is_serving_operation(name); });
  const std::vector<std::string> beam_operations = take(is_beam_operation);
  const std::vector<std::string> step_operations = take(is_step_operation);
  const std::vector<std::string> tile_operations = take(is_tile_operation);
  std::vector<std::string> from_probs_operations = take(is_from_probs_operation);
  std::vector<std::string> kept_operations = take(is_kept_operation);
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
  check_range(options.vocabs, "--vocab", kMaxVocab);
  check_range(options.batches, "--batch", 65536);

  if (!serving_operations.empty()) {
    if (!options.operations.empty() || !cpu_backends.empty()) {
      throw UsageError(
          "operations of serving are measured alone, on backends cuda, cuda:cluster and "
          "cuda:block");
    }
    return run_serving_benchmarks(options, cuda_backends, serving_operations, failures);
  }
  if (!beam_operations.empty()) {
    if (!options.operations.empty() || cpu_backends != std::vector<std::string>{"cpu"}) {
      throw UsageError("beam operations are measured alone, on the backend cpu");
    }
    return beam_benchmarks(with_cpu_lists(options), beam_operations);
  }
  if (!step_operations.empty()) {
    if (!options.operations.empty() || cuda_backends.empty() || !cpu_backends.empty()) {
      throw UsageError(
          "step operations are measured alone, on backends cuda, cuda:cluster and "
          "cuda:block");
    }
    return run_step_benchmarks(options, cuda_backends, step_operations, failures);
  }
  if (!tile_operations.empty()) {
    if (!options.operations.empty() || !cuda_backends.empty() || !plugins.empty()) {
      throw UsageError(
          "operations of tiles are measured alone, on the backends cpu and cpu:TARGET");
    }
    return tile_benchmarks(with_cpu_lists(options), cpu_backends, tile_operations);
  }
  if (!from_probs_operations.empty()) {
    if (!options.operations.empty() || cuda_backends.empty() || !cpu_backends.empty()) {
      throw UsageError(
          "operations from probabilities are measured alone, on backends cuda, cuda:cluster and "
          "cuda:block");
    }
    for (std::string& name : from_probs_operations) {
      options.operations.push_back(name.substr(std::string(kFromProbsPrefix).size()));
    }
    return run_cuda_benchmarks(options, cuda_backends, BenchmarkInput::probs, failures);
  }
  if (!kept_operations.empty()) {
    if (!options.operations.empty() || cuda_backends.empty() || !cpu_backends.empty()) {
      throw UsageError(
          "operations with kept sets are measured alone, on backends cuda, cuda:cluster and "
          "cuda:block");
    }
    for (std::string& name : kept_operations) {
      options.operations.push_back(name.substr(std::string(kKeptPrefix).size()));
    }
    return run_cuda_benchmarks(options, cuda_backends, BenchmarkInput::logits_with_kept_sets,
                               failures);
  }
  std::vector<harness::BenchmarkRecord> records;
  if (!cpu_backends.empty()) {
    records = run_cpu_benchmarks(with_cpu_lists(options), cpu_backends);
  }
  if (!cuda_backends.empty()) {
    for (harness::BenchmarkRecord& record :
         run_cuda_benchmarks(options, cuda_backends, BenchmarkInput::logits, failures)) {
      records.push_back(std::move(record));
    }
  }
  for (const std::string& plugin : plugins) {
    const std::vector<std::int64_t> small = {16};
    for (const std::int64_t vocab : options.vocabs.empty() ? small : options.vocabs) {
      for (harness::BenchmarkRecord& record :
           plugin_overhead(plugin, vocab, options.milliseconds)) {
        records.push_back(std::move(record));
      }
    }
  }
  return records;
}

bool is_step_operation(const std::string& name) { return name.rfind(kStepPrefix, 0) == 0; }

bool is_from_probs_operation(const std::string& name) { return name.starts_with(kFromProbsPrefix); }

bool is_kept_operation(const std::string& name) { return name.starts_with(kKeptPrefix); }

bool is_cuda_backend(const std::string& backend) {
  return backend == "cuda" || backend == "cuda:cluster" || backend == "cuda:block";
}

}  // namespace fairdraw::suites
