// sample: draws tokens from a file of logits, by the same contract that `verify` judges.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/contract/sampler.h"
#include "harness/contract/usage_error.h"
#include "harness/run/calls/request.h"
#include "reports/json_fields.h"
#include "suites/command/captured_files.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/output_file.h"
#include "suites/command/seed.h"
#include "suites/command/verbs/verbs.h"

namespace fairdraw::cli {
namespace {

using harness::UsageError;

struct SampleOptions {
  std::string logits, dtype;
  std::string sampler;
  float temperature = 1, top_p = 1, min_p = 0;
  std::int64_t top_k = 0;
  std::string seed = "0", offset = "0";
  std::int64_t num_samples = 1;
  std::optional<std::int64_t> row;
  std::string tie_rule = "keep_all", filter_order = "top_k_first";
  std::string json;
};

constexpr float kMinTemperature = 0x1p-126F, kMaxTemperature = 0x1p64F;
constexpr const char* kTemperatures = "0 (greedy), or 2^-126 to 2^64";

reference::RowParameters row_parameters(const SampleOptions& options) {
  reference::RowParameters parameters;
  parameters.temperature = options.temperature;
  if (parameters.temperature != 0 && parameters.temperature < kMinTemperature) {
    throw UsageError(fmt::format("--temperature: {} is out of range; {} is allowed",
                                 options.temperature, kTemperatures));
  }
  parameters.top_k = static_cast<std::int32_t>(options.top_k);
  parameters.top_p = options.top_p;
  parameters.min_p = options.min_p;
  return parameters;
}

template <class Rule>
Rule rule_from_name(const char* field, const std::string& given,
                    const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == given) return static_cast<Rule>(i);
  }
  throw UsageError(harness::unknown_name_message(field, given, names));
}

harness::Request make_request(const SampleOptions& options,
                              const harness::CapturedLogits& captured) {
  harness::Request request;
  request.dtype = captured.dtype;
  request.vocab = captured.vocab;
  const std::int64_t first = options.row.value_or(0);
  if (first >= captured.rows) {
    throw UsageError(fmt::format("--row: {} is out of range; {} has rows 0 to {}", first,
                                 options.logits, captured.rows - 1));
  }
  request.rows = options.row ? 1 : captured.rows;
  for (std::int64_t i = 0; i < request.rows; ++i) {
    const std::vector<float> values = captured.row(first + i);
    request.logits.insert(request.logits.end(), values.begin(), values.end());
  }
  const auto rows = static_cast<std::size_t>(request.rows);
  request.parameters.assign(rows, row_parameters(options));
  request.tie_rule =
      rule_from_name<TieRule>("tie rule", options.tie_rule, {"keep_all", "lowest_id"});
  request.filter_order =
      rule_from_name<FilterOrder>("filter order", options.filter_order, {"top_k_first", "joint"});
  request.seed.assign(rows, parse_uint64("--seed", options.seed));
  const std::uint64_t offset = parse_uint64("--offset", options.offset);
  for (std::size_t i = 0; i < rows; ++i) {
    request.offset.push_back(offset + static_cast<std::uint64_t>(first) + i);
  }
  request.num_samples = static_cast<std::int32_t>(options.num_samples);
  return request;
}

int sample(const SampleOptions& options) {
  const OutputFile file("--json", options.json, {options.logits});
  const auto captured = load_captured(options.logits, options.dtype);
  const harness::Request request = make_request(options, *captured);
  const std::string name =
      options.sampler.empty() ? harness::builtin_sampler_names().front() : options.sampler;
  const auto sampler = harness::make_builtin_sampler(name);
  const harness::Response response = harness::run_request(
      *sampler, request,
      harness::reported(sampler->description(), {.statuses = true, .support_size = true}));
  if (!response.ran()) throw UsageError(response.trouble());

  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const auto samples = static_cast<std::size_t>(request.num_samples);
  for (std::size_t i = 0; i < static_cast<std::size_t>(request.rows); ++i) {
    const auto first = response.tokens.begin() + static_cast<std::ptrdiff_t>(i * samples);
    const std::vector<std::int32_t> tokens(first, first + static_cast<std::ptrdiff_t>(samples));
    const char* const status = response.statuses.empty()
                                   ? "unknown"
                                   : to_string(static_cast<RowStatus>(response.statuses[i]));
    const std::int32_t support = response.support_size.empty() ? -1 : response.support_size[i];
    const std::int64_t row = options.row.value_or(0) + static_cast<std::int64_t>(i);
    all.push_back(
        {{"row", row}, {"status", status}, {"support_size", support}, {"tokens", tokens}});
    print("row {}: {}, support {}, tokens {}\n", row, status, support,
          fmt::format("{}", fmt::join(tokens, " ")));
  }
  file.write(reports::dump(all, 2) + "\n");
  return 0;
}

}  // namespace

Verb add_sample(CLI::App& app) {
  const auto options = std::make_shared<SampleOptions>();
  add_option(app, "--logits", options->logits, "FILE.npy", "Logits, [rows, vocab]",
             {.required = true});
  add_option(app, "--dtype", options->dtype, "DTYPE", "bfloat16 for a file of uint16");
  add_option(app, "--sampler", options->sampler, "NAME",
             "Sampler (default: the best built-in one)");
  add_option(app, "--temperature", options->temperature, "T", "0 is greedy",
             {.min = 0.0F, .max = kMaxTemperature, .range = kTemperatures});
  add_option(app, "--top-k", options->top_k, "K", "0 and -1 are off",
             {.min = -1, .max = INT32_MAX});
  add_option(app, "--top-p", options->top_p, "P", "0 is greedy, 1 is off",
             {.min = 0.0F, .max = 1.0F});
  add_option(app, "--min-p", options->min_p, "P", "0 is off", {.min = 0.0F, .max = 1.0F});
  add_option(
      app, "--seed", options->seed, "N",
      "Seed of all rows. The default is a fixed number, so that every run draws the same tokens");
  add_option(app, "--offset", options->offset, "N",
             "Offset of row 0; row i has this offset plus i");
  add_option(app, "--num-samples", options->num_samples, "N", "Tokens per row, with replacement",
             {.min = 1, .max = std::uint64_t{1} << 24});
  add_option(app, "--row", options->row, "ROW", "Only this row", {.min = 0, .max = INT64_MAX});
  add_option(app, "--tie-rule", options->tie_rule, "RULE", "keep_all or lowest_id");
  add_option(app, "--filter-order", options->filter_order, "ORDER", "top_k_first or joint");
  add_json(app, options->json, "Write the rows");
  return [options] { return sample(*options); };
}

}  // namespace fairdraw::cli
