#include "suites/benchmarks/cuda_benchmarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "harness/contract/usage_error.h"
#include "suites/benchmarks/benchmark_rows.h"
#include "suites/benchmarks/cuda_calls.h"
#include "suites/benchmarks/cuda_machine.h"
#include "suites/benchmarks/cuda_step_benchmarks.h"
#include "suites/benchmarks/cuda_timing.h"
#include "suites/benchmarks/device_values.h"

namespace fairdraw::suites {
namespace {

using harness::UsageError;

/// The kind of default rows on which an operation is measured.
enum class Lists {
  table,          ///< all rows that README.md lists
  probabilities,  ///< all rows that README.md lists, in float32 and as probabilities
  one_cell,       ///< one batch, vocabulary and kind of rows, in float32
  serving,        ///< the same as one_cell; the operation allows only float32
};

bool is_of_table(Lists lists) { return lists == Lists::table || lists == Lists::probabilities; }

/// A row of the GPU's table of results, which is measured on every backend and on all kinds of
/// rows.
struct CudaOperation {
  std::string name;  ///< name of the call in records, without the processing
  Lists lists = Lists::table;
  MakeCall make;                  ///< empty: a step
  std::optional<Operation> step;  ///< operation of the step that is measured, if it is a step
};

/// Returns the part of a name after `prefix`, or nothing if the name does not have this prefix.
std::optional<std::string> after(const std::string& prefix, const std::string& name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  return name.substr(prefix.size());
}

void expect_from_probs(const std::string& name, const Operation& operation) {
  const reference::RowParameters& p = operation.parameters;
  const bool both = p.min_p > 0 && (p.top_k > 0 || p.top_p < 1);
  if (!both && p.temperature == 1 && operation.tie_rule == TieRule::keep_all) return;
  throw UsageError(
      fmt::format("operation {} has filters that no operation on probabilities has; allowed: "
                  "none, top_k_N, top_p_X, min_p_X, top_k_N+top_p_X, the last also joint",
                  name));
}

/// Returns the operation with this name; a name without a prefix is an operation of `sample`.
CudaOperation operation_of(const std::string& name, bool by_arrays) {
  if (const auto filters = after("from_probs/", name)) {
    const Operation operation = sample_operation(*filters);
    expect_from_probs(name, operation);
    return {"from_probs/" + operation_name(operation),
            Lists::probabilities,
            sample_call(operation, {.by_arrays = by_arrays, .from_probs = true}),
            {}};
  }
  if (const auto filters = after("kept/", name)) {
    const Operation operation = sample_operation(*filters);
    return {"kept/" + call_name(operation, "none"),
            Lists::table,
            sample_call(operation, {.by_arrays = by_arrays, .kept_sets = true}),
            {}};
  }
  for (const auto& [prefix, scheme] : {std::pair{"marked/", WatermarkScheme::race},
                                       std::pair{"tournament/", WatermarkScheme::tournament},
                                       std::pair{"green_list/", WatermarkScheme::green_list}}) {
    if (const auto filters = after(prefix, name)) {
      const Operation operation = sample_operation(*filters);
      return {prefix + call_name(operation, "none"),
              Lists::serving,
              sample_call(operation, {.marks = scheme}),
              {}};
    }
  }
  if (const auto report = after("logprobs/", name)) {
    const std::string mode = report->substr(0, report->find('+'));
    const SampleForm form = {.report = parse_report(name, mode)};
    if (mode == *report) throw UsageError(fmt::format("operation {}: '+FILTERS' is missing", name));
    const Operation operation = sample_operation(report->substr(mode.size() + 1));
    return {name, Lists::serving, sample_call(operation, form), {}};
  }
  if (const auto filters = after("step/", name)) {
    return {name, Lists::one_cell, {}, sample_operation(*filters)};
  }
  if (auto call = serving_call(name)) return {name, Lists::serving, std::move(*call), {}};
  const Operation operation = sample_operation(name);
  return {call_name(operation, "none"),
          Lists::table,
          sample_call(operation, {.by_arrays = by_arrays}),
          {}};
}

BenchmarkOptions with_lists(BenchmarkOptions options, Lists lists, const std::string& name) {
  const bool table = is_of_table(lists);
  const bool float32_alone = lists == Lists::probabilities || lists == Lists::serving;
  if (float32_alone && options.processing != std::vector<std::string>{"none"}) {
    throw UsageError(fmt::format("operation {} has no logits processing", name));
  }
  if (float32_alone && !options.dtypes.empty() &&
      options.dtypes != std::vector<std::string>{"float32"}) {
    throw UsageError(fmt::format("operation {} is measured on float32 alone", name));
  }
  const auto otherwise = [](auto& list, const auto& of_table, const auto& of_cell, bool is_table) {
    if (list.empty()) list = is_table ? of_table : of_cell;
  };
  using Numbers = std::vector<std::int64_t>;
  using Names = std::vector<std::string>;
  otherwise(options.vocabs, Numbers{32000, 128256, 262144}, Numbers{128256}, table);
  otherwise(options.batches, Numbers{1, 8, 64, 256}, Numbers{64}, table);
  otherwise(options.dtypes, Names{"float32", "bfloat16"}, Names{"float32"}, lists == Lists::table);
  otherwise(options.logits, Names{"peaked", "flat"}, Names{"peaked"}, table);
  return options;
}

/// Captured rows have the vocabulary of their file, whatever the list of vocabularies says.
std::vector<std::int64_t> vocabs_for(const std::string& logits, const BenchmarkOptions& options) {
  if (logits == "captured") return {options.vocabs.front()};
  return options.vocabs;
}

/// Measures the cells of a benchmark one after the other.
class Bench {
 public:
  Bench(const std::vector<std::string>& backends, bool by_arrays,
        std::vector<std::string>& failures)
      : backends_(backends),
        by_arrays_(by_arrays),
        failures_(failures),
        machine_(machine_text(device_properties())),
        stream_(made_stream()),
        timer_(stream_) {
    timer_.warm_up();
  }

  void measure(const std::vector<CudaOperation>& operations, const BenchmarkOptions& options) {
    const Lists lists = operations.front().lists;
    const std::int64_t largest = *std::ranges::max_element(options.batches);
    const std::int64_t distinct =
        is_of_table(lists) ? std::min(largest, kDistinctRows) : kDistinctRows;
    for (const std::string& kind : options.logits) {
      for (const std::string& dtype : options.dtypes) {
        for (const std::int64_t vocab : vocabs_for(kind, options)) {
          Rows host = make_rows(kind, distinct, vocab, dtype, options.data_directory);
          if (lists == Lists::probabilities) host = probability_rows(host);
          const DeviceRows rows(host, largest, stream_);
          fmt::print(stderr, "fairdraw: bench: {} {} vocab {}\n", kind, dtype, host.vocab);
          for (const std::int64_t batch : options.batches) {
            for (const CudaOperation& operation : operations) {
              for (const std::string& processing : options.processing) {
                measure_cell(operation, processing, rows,
                             {"", "", batch, host.vocab, dtype, kind, 0, "", 0, 0, machine_});
              }
            }
          }
        }
      }
    }
  }

  std::vector<harness::BenchmarkRecord> records() && { return std::move(records_); }

 private:
  static cuda::Stream made_stream() {
    cuda::Stream stream;
    expect_success(stream.create(), "a stream");
    return stream;
  }

  /// Measures an operation; `cell` states batch, vocabulary and kind of rows.
  void measure_cell(const CudaOperation& operation, const std::string& processing,
                    const DeviceRows& rows, harness::BenchmarkRecord cell) {
    cell.operation = processing == "none" ? operation.name : operation.name + "/" + processing;
    std::unique_ptr<CudaCall> call;
    for (const std::string& backend : backends_) {
      cell.backend = by_arrays_ || !is_of_table(operation.lists) ? backend : backend + "@scalar";
      const std::string name = cell_name(cell);
      try {
        std::string trouble;
        if (operation.step) {
          trouble = measure_step(*operation.step, processing, path_of(backend), rows, cell, stream_,
                                 timer_, records_);
        } else {
          if (!call) call = operation.make(rows, cell.batch, processing, stream_);
          time(*call, path_of(backend), cell);
          records_.push_back(cell);
          trouble = call->trouble();
        }
        if (!trouble.empty()) failures_.push_back(name + ": " + trouble);
      } catch (const std::runtime_error& error) {
        throw std::runtime_error(name + ": " + error.what());
      }
    }
  }

  void time(const CudaCall& call, cuda::Path path, harness::BenchmarkRecord& cell) {
    const auto captured = [&](const std::function<void()>& enqueue) {
      enqueue();  // the first call loads the kernels, before the graph is captured
      return std::make_unique<CapturedCall>(stream_, enqueue);
    };
    const auto work = captured([&] { call.enqueue(path); });
    const auto advance = [&call] { call.advance(); };
    cell.floor = call.base();
    std::unique_ptr<CapturedCall> base;
    if (cell.floor.empty()) {
      cell.floor = "read_once";
      if (!floor_ || call.inputs() != floor_inputs_) {
        floor_inputs_ = call.inputs();
        floor_ = std::make_unique<Floor>(floor_inputs_, stream_, timer_);
      }
    } else {
      base = captured([&] { call.enqueue_base(path); });
    }
    const TimedCall beside = base ? TimedCall{base.get(), advance} : TimedCall{&floor_->call(), {}};
    const std::vector<double> times = timer_.medians({beside, {work.get(), advance}}, kRepetitions);
    cell.microseconds = times[1];
    cell.floor_microseconds = times[0];
    cell.ratio = times[1] / times[0];
  }

  const std::vector<std::string>& backends_;
  bool by_arrays_;
  std::vector<std::string>& failures_;
  std::string machine_;
  cuda::Stream stream_;
  ColdTimer timer_;
  Inputs floor_inputs_;
  std::unique_ptr<Floor> floor_;  ///< kept for the next call, because many calls read the same
                                  ///< number of bytes
  std::vector<harness::BenchmarkRecord> records_;
};

}  // namespace

std::string cell_name(const harness::BenchmarkRecord& cell) {
  return fmt::format("{} {} batch {} vocab {} {} {}", cell.backend, cell.operation, cell.batch,
                     cell.vocab, cell.dtype, cell.logits);
}

std::vector<harness::BenchmarkRecord> run_cuda_benchmarks(const BenchmarkOptions& options,
                                                          const std::vector<std::string>& backends,
                                                          std::vector<std::string>& failures) {
  const bool by_arrays = options.parameters == "array";
  std::vector<std::string> names = options.operations;
  if (names.empty()) {
    names = {"top_k_50+top_p_0.9", "top_p_0.9", "top_k_50", "top_k_1000",
             "min_p_0.05",         "none",      "greedy"};
  }
  std::map<Lists, std::vector<CudaOperation>> operations;
  for (const std::string& name : names) {
    CudaOperation operation = operation_of(name, by_arrays);
    operations[operation.lists].push_back(std::move(operation));
  }
  std::map<Lists, BenchmarkOptions> lists;  // the lists are made before any measurement, because
                                            // some of them may be rejected
  for (const auto& [kind, alike] : operations) {
    lists[kind] = with_lists(options, kind, alike.front().name);
  }
  expect_available(backends);
  Bench bench(backends, by_arrays, failures);
  for (const auto& [kind, alike] : operations) bench.measure(alike, lists[kind]);
  return std::move(bench).records();
}

}  // namespace fairdraw::suites
