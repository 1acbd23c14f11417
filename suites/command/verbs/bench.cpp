// bench: measures the speed of samplers by suites/benchmarks.
#include <memory>

#include "reports/report.h"
#include "suites/benchmarks/benchmarks.h"
#include "suites/command/captured_files.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/output_file.h"
#include "suites/command/samplers.h"
#include "suites/command/verbs/verbs.h"

namespace fairdraw::cli {
namespace {

constexpr int kExitFailed = 1;

int bench(const suites::BenchmarkOptions& options, const std::string& json) {
  const OutputFile file("--json", json);
  std::vector<std::string> failures;
  const std::vector<harness::BenchmarkRecord> rows = suites::run_benchmarks(options, failures);
  print("{}", reports::to_text_table(rows));
  if (!failures.empty()) {  // no file is written, because times of wrong tokens are no baseline
    for (const std::string& failure : failures) print_error("fairdraw: {}\n", safe_text(failure));
    return kExitFailed;
  }
  file.write(reports::to_json(rows));
  return 0;
}

void add_options(CLI::App& app, suites::BenchmarkOptions& options) {
  add_option(app, "--backend", options.backends, "TEXT",
             "Samplers by name: cpu, cuda, ..., peer:sort, peer:softmax (default: cpu). "
             "plugin:PATH measures the cost of a plugin's call on top of the plugin's own time",
             {.commas = true});
  add_option(
      app, "--operation", options.operations, "TEXT",
      "Operations, e.g. top_k_50+top_p_0.9 (default: the operations of the README). beam_4 and "
      "beam_4/logprobs: a step of beam search, --batch requests of 4 beams. tile_index and "
      "tile_index/masked: the index of tiles. On a GPU, step/top_k_50: a step of "
      "FusedSamplingProcessor relative to `sample`; from_probs/top_k_50: the operation that takes "
      "probabilities; kept/top_p_0.95: `sample` with kept sets relative to `sample`; "
      "marked/top_k_50, tournament/top_k_50, green_list/top_k_50: `sample_marked` relative to "
      "`sample`; "
      "logprobs/MODE/N+top_k_50; and calls with N drafts, which suites/benchmarks/README.md names",
      {.commas = true});
  add_option(app, "--vocab", options.vocabs, "N",
             "Tokens per row (default: 131072; on a GPU 32000,128256,262144)",
             {.commas = true, .min = 1, .max = kMaxVocab});
  add_option(app, "--batch", options.batches, "N",
             "Rows per call (default: 1; on a GPU 1,8,64,256)",
             {.commas = true, .min = 1, .max = 65536});
  add_option(app, "--dtype", options.dtypes, "TEXT",
             "float32, float16, bfloat16 (default: float32; on a GPU float32,bfloat16)",
             {.commas = true});
  add_option(app, "--logits", options.logits, "TEXT",
             "peaked, flat, equal, captured (default: peaked,flat)", {.commas = true});
  add_option(app, "--processing", options.processing, "TEXT",
             "Logits processing of all rows: none, penalties, bias, bitmask, bans, allowed, "
             "all, mixed, top_n_sigma, typical_p",
             {.commas = true});
  add_option(app, "--threads", options.threads, "N",
             "On the CPU: number of threads, which take rows in parallel",
             {.commas = true, .min = 1, .max = 1024});
  add_option(app, "--logprobs", options.logprobs, "TEXT",
             "On the CPU: log-probabilities as MODE/N, e.g. raw_logprobs/20, relative to the plain "
             "call",
             {.commas = true});
  add_option(app, "--milliseconds", options.milliseconds, "NUMBER",
             "On the CPU: time to spend on each row of the table", {.min = 1e-3, .max = 1e7});
  add_option(app, "--parameters", options.parameters, "TEXT",
             "On a GPU: array passes every parameter, seed and offset as an array in device "
             "memory, one value per row; scalar passes one value per call");
}

}  // namespace

Verb add_bench(CLI::App& app) {
  const auto options = std::make_shared<suites::BenchmarkOptions>();
  options->data_directory = data_folder();
  const auto json = std::make_shared<std::string>();
  add_options(app, *options);
  add_json(app, *json, "Write the rows");
  return [options, json] {
    harness::plugin::Options loading;
    loading.trusted = true;  // plugins are also measured in this process
    return with_plugins(loading, options->backends,
                        [options, json] { return bench(*options, *json); });
  };
}

}  // namespace fairdraw::cli
