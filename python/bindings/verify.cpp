// Binds the gate for Python: cases, runs and reports, the command line, and the integer model's
// tokens.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>

#include "harness/contract/error_text.h"
#include "harness/contract/semantics_text.h"
#include "harness/contract/usage_error.h"
#include "harness/inputs/processing_steps.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/calls/request.h"
#include "harness/run/evidence/cause_texts.h"
#include "harness/run/evidence/coverage.h"
#include "harness/run/parallel.h"
#include "harness/statistics/binomial.h"
#include "python/bindings/ability_names.h"
#include "python/bindings/bindings.h"
#include "python/bindings/judged_callable.h"
#include "python/bindings/python_sampler.h"
#include "reference/integer_model.h"
#include "reference/semantics.h"
#include "reports/escape.h"
#include "reports/report.h"
#include "reports/wording.h"
#include "suites/command/captured_files.h"
#include "suites/command/command_line.h"
#include "suites/command/run_options.h"
#include "suites/command/samplers.h"
#include "suites/command/seed.h"
#include "suites/gate/identify/conditions_seen.h"
#include "suites/gate/run/complete_record.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::python {
namespace {

using harness::UsageError;

/// The arguments of fairdraw.verify, in the form that verification.py passes.
struct RunArguments : JudgedCallable {
  using Text = std::optional<std::string>;
  using Files = std::vector<std::pair<std::string, std::string>>;

  explicit RunArguments(const Named& given)
      : JudgedCallable(given),
        suite(given.as<std::string>("suite")),
        logits(given.as<Files>("logits")),
        case_glob(given.as<Text>("case")),
        seed(given.as<Text>("seed")),
        seed_from(given.as<Text>("seed_from")),
        shard(given.as<std::string>("shard")),
        required(given.as<std::vector<std::string>>("require")),
        max_skipped(given.as<std::optional<double>>("max_skipped")),
        jobs(given.as<unsigned>("jobs")),
        replay(given.as<std::pair<std::string, std::string>>("replay")) {
    running_batch = nb::borrow(given["running_batch"]);
    operations = given.as<nb::dict>("operations");
    keep_dtype = given.as<bool>("keep_dtype");
    drafts = given.as<nb::dict>("drafts");
  }

  std::string suite;
  Files logits;  ///< file of captured logits, and dtype or "" for the file's own
  Text case_glob, seed, seed_from;
  std::string shard;                           ///< "I/N"
  std::vector<std::string> required;           ///< features
  std::optional<double> max_skipped;           ///< percent
  unsigned jobs;                               ///< 0: one per core
  std::pair<std::string, std::string> replay;  ///< text of a call that repeats a case, before and
                                               ///< after case and seed
};

// Reads each file once per process. The pytest plugin has one item per case, and would otherwise
// read a file hundreds of times.
std::shared_ptr<const harness::CapturedLogits> captured(const std::string& path,
                                                        const std::string& dtype) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const harness::CapturedLogits>> loaded;
  const std::lock_guard lock(mutex);
  auto& entry = loaded[path + "\n" + dtype];
  if (!entry) entry = cli::load_captured(path, dtype);
  return entry;
}

// Returns true if the case tests one of the given operations.
bool is_of_operations(const RunArguments& arguments, const harness::Job& job) {
  return arguments.operations.contains(job.record.check.c_str());
}

// Returns true if the case tests drafts for the verifier's kind of target, logits or probabilities.
// Cases of trees are not for a Python verifier.
bool is_of_verifier(const RunArguments& arguments, const harness::Job& job) {
  const bool of_probs = nb::cast<std::string>(arguments.drafts["target"]) == "probs";
  const std::string& check = job.record.check;
  return of_probs ? check == "chain" || check == "chain_law"
                  : check == "verify" || check == "verify_law";
}

// Keeps the cases of the plan for which `is_wanted` returns true. `of` completes the error message
// if no case is left.
template <class IsWanted>
void keep_jobs(const RunArguments& arguments, const char* of, suites::Plan& plan,
               const IsWanted& is_wanted) {
  std::erase_if(plan.jobs, [&](const harness::Job& job) { return !is_wanted(job); });
  if (plan.jobs.empty()) {
    throw UsageError(fmt::format("case is '{}'; allowed{}", arguments.case_glob.value_or("*"), of));
  }
}

// Returns true if the case is for running batches. Without a callable, only the cases for running
// batches run.
bool is_of_running_batches(const harness::Job& job) { return job.record.check == "sequences"; }

suites::PlanOptions plan_options(const RunArguments& arguments) {
  suites::PlanOptions options;
  options.suite = suites::suite_from_name(arguments.suite);
  options.samplers = {arguments.name};
  options.semantics = arguments.semantics;
  for (const auto& [path, dtype] : arguments.logits) {
    options.captured.push_back(captured(path, dtype));
  }
  const cli::SeedChoice seed = cli::choose_seed(arguments.seed, arguments.seed_from);
  options.seed = seed.value;
  options.seed_source = seed.source;
  options.case_glob = arguments.case_glob;
  const harness::CasePart shard = cli::parse_part("shard", arguments.shard);
  options.shard = shard.part;
  options.shards = shard.parts;
  return options;
}

// Keeps only the cases of the given subject: operations, drafts or running batches.
void keep_own_jobs(const RunArguments& arguments, const Callable& callable, std::uint32_t shards,
                   suites::Plan& plan) {
  const bool of_operations = !arguments.operations.empty();
  if ((of_operations || callable.function.is_none()) && shards > 1) {
    throw UsageError(fmt::format("shard is '{}'; allowed for {} alone: '1/1'", arguments.shard,
                                 of_operations                 ? "operations"
                                 : arguments.verifies_drafts() ? "drafts"
                                                               : "running batches"));
  }
  if (of_operations) {
    keep_jobs(arguments, ": cases of the operations that are given", plan,
              [&](const harness::Job& job) { return is_of_operations(arguments, job); });
  } else if (arguments.verifies_drafts()) {
    keep_jobs(arguments,
              callable.description.chains
                  ? " for probabilities: cases of checks chain and chain_law"
                  : " for logits: cases of checks verify and verify_law",
              plan, [&](const harness::Job& job) { return is_of_verifier(arguments, job); });
  } else if (callable.function.is_none()) {
    keep_jobs(arguments,
              " without a sampler: cases of check sequences, which are those of running batches",
              plan, is_of_running_batches);
  }
}

// Runs the plan and returns the record of the run. Ctrl-C ends the run, and the record then has the
// cases that had finished.
harness::RunRecord run_interruptibly(const suites::Plan& plan, suites::PlanOptions options,
                                     unsigned jobs, const nb::object& progress,
                                     std::atomic<bool>& cancelled) {
  const std::string reason = "interrupted by Ctrl-C";
  options.stop = [&] { return cancelled ? reason : ""; };
  const auto start = std::chrono::steady_clock::now();
  harness::RunRecord begun = suites::begin_record(plan, options);
  Interruptible interruptible(cancelled);
  std::set<std::pair<std::string, std::string>> ended;  // the harness reports one case at a time
  const auto report = [&](const harness::CaseRecord& record, std::size_t done, std::size_t all) {
    if (cancelled) return;  // after the cancellation, a call of this case may have been refused
    ended.emplace(record.id, record.sampler);
    if (progress.is_none()) return;
    const nb::gil_scoped_acquire lock;
    try {
      progress(reports::terminal_line(record), done, all);
    } catch (nb::python_error& error) {
      interruptible.keep(std::move(error));
    }
  };
  std::future<harness::RunRecord> future = std::async(std::launch::async, [&] {
    harness::RunRecord run = suites::run_plan(plan, options, harness::threads_of(jobs), report);
    // The samplers that failed are not asked again if there is a single case, because each pytest
    // item is one case and would wait for seconds.
    if (plan.jobs.size() > 1 && !cancelled) {
      suites::ask_failed_samplers(plan.jobs, options.make_sampler, run);
    }
    return run;
  });
  interruptible.wait(future);
  harness::RunRecord record = future.get();
  interruptible.raise_what_came_but_interrupts();
  if (!cancelled) return record;
  std::erase_if(record.cases, [&](const harness::CaseRecord& one) {
    return !ended.contains({one.id, one.sampler});
  });
  record = suites::record_of(plan, std::move(begun), std::move(record.cases), reason);
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return record;
}

harness::RunRecord judge(const Named& given) {
  const RunArguments arguments(given);
  const nb::object progress = nb::borrow(given["progress"]);
  given.expect_all_read();
  using Keeps = PythonSampler::Keeps;
  std::shared_ptr<Callable> callable;
  suites::PlanOptions options = plan_options(arguments);
  std::atomic<bool> of_builtin = false;
  if (arguments.is_builtin()) {
    options.make_sampler = cli::sampler_maker({});
  } else {
    callable = callable_of(arguments);
    options.make_sampler = [callable](const std::string&) {
      const bool keeps = callable->function.is_none() && callable->operations.empty() &&
                         !callable->verifier.is_valid();
      return std::make_unique<PythonSampler>(callable, keeps ? Keeps::requests : Keeps::nothing);
    };
  }
  suites::Plan plan = suites::make_plan(options);
  if (callable) keep_own_jobs(arguments, *callable, options.shards, plan);
  for (harness::Job& job : plan.jobs) {
    // No command line can name the callable, so that a case is repeated by a Python call.
    const auto& [head, tail] = arguments.replay;
    job.record.replay =
        fmt::format("{}, case=\"{}\", seed={}{}", head, job.record.id, options.seed, tail);
    if (!callable) continue;
    const Keeps keeps = is_of_running_batches(job) ? Keeps::requests : Keeps::nothing;
    job.make_sampler = [callable, keeps]() -> std::unique_ptr<harness::Sampler> {
      if (callable->cancelled) throw std::runtime_error("the run was interrupted");
      return std::make_unique<PythonSampler>(callable, keeps);
    };
  }
  harness::RunRecord record = run_interruptibly(plan, options, arguments.jobs, progress,
                                                callable ? callable->cancelled : of_builtin);
  record.required = arguments.required;
  record.max_skipped = arguments.max_skipped;
  return record;
}

// Merges the records of several runs, such as pytest items, each of which has a record of its own.
harness::RunRecord merged(const std::vector<std::string>& texts,
                          const std::vector<std::string>& required,
                          std::optional<double> max_skipped) {
  std::vector<suites::NamedRecord> records;
  for (const std::string& text : texts) {
    harness::RunRecord record = reports::from_json(text);
    record.shard = fmt::format("{}/{}", records.size() + 1, texts.size());
    record.selection = "items of pytest";
    records.push_back({fmt::format("record {}", records.size() + 1), std::move(record)});
  }
  harness::RunRecord record = suites::merge_shards(records);
  record.required = required;
  record.max_skipped = max_skipped;
  return record;
}

// Formats reports as a terminal shows them, with Python's name of the command.
const reports::TerminalStyle kStyle = {.command = "python -m fairdraw"};

std::string text_of(const harness::RunRecord& record) {
  std::string text = reports::to_terminal(record, kStyle);
  text.pop_back();  // the newline
  return text;
}

std::vector<std::pair<std::string, std::vector<std::string>>> groups_of(
    const harness::RunRecord& record) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const reports::ToldGroup& group : reports::groups_for_terminal(record, kStyle)) {
    std::vector<std::string> ids;
    for (const std::size_t place : group.cases) ids.push_back(record.cases[place].id);
    groups.emplace_back(group.text, std::move(ids));
  }
  return groups;
}

// Returns the ids of the cases, in the order of the table of cases.
std::vector<std::string> case_ids(const std::string& suite,
                                  const std::vector<std::pair<std::string, std::string>>& logits) {
  std::vector<std::shared_ptr<const harness::CapturedLogits>> files;
  for (const auto& [path, dtype] : logits) files.push_back(captured(path, dtype));
  std::vector<std::string> ids;
  for (const suites::Case& entry : suites::case_table(suites::suite_from_name(suite), files)) {
    ids.push_back(entry.id);
  }
  return ids;
}

// Returns the token that the integer model draws from a row of float32 logits, for sample 0.
std::int32_t expected_token(nb::handle logits, const std::array<float, 3>& floats,
                            std::int32_t top_k, std::uint64_t seed, std::uint64_t offset) {
  const InputArray array = input_array("logits", logits, nullptr);
  const bool row = array.ndim() == 1 && array.dtype() == nb::dtype<float>() &&
                   array.device_type() == nb::device::cpu::value &&
                   (array.size() <= 1 || array.stride(0) == 1);
  if (!row) throw_type_error("logits: one contiguous row of float32 on the CPU is needed");
  const std::span<const float> values(static_cast<const float*>(array.data()), array.size());
  const reference::IntegerRow model =
      reference::integer_model(values, {}, {floats[0], top_k, floats[1], floats[2]});
  return model.token_by_attempts([seed, offset](std::uint32_t attempt) {
    return harness::random_word(seed, offset, Purpose::draw, 0, attempt);
  });
}

int command_line(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const nb::gil_scoped_release others_may_run;
  return cli::command_line(static_cast<int>(words.size()), arguments.data());
}

// Measures the time that the adapter adds to a callable: the median, in microseconds, for a batch
// of one row of two tokens. The callable is called from a thread like the harness's.
double batch_microseconds(nb::object function, std::size_t repeats) {
  const auto callable = std::make_shared<Callable>(std::move(function), nb::none(), Arrays::numpy);
  PythonSampler sampler(callable, PythonSampler::Keeps::nothing);
  harness::Request request;
  request.rows = 1;
  request.vocab = 2;
  request.logits = {0, 0};
  request.parameters.resize(1);
  request.seed = request.offset = {0};
  std::vector<double> microseconds;
  std::string refused;
  {
    const nb::gil_scoped_release others_may_run;
    std::thread([&] {
      for (std::size_t i = 0; i < repeats && refused.empty(); ++i) {
        const auto start = std::chrono::steady_clock::now();
        refused = harness::run_request(sampler, request, {}).trouble();
        const std::chrono::duration<double, std::micro> taken =
            std::chrono::steady_clock::now() - start;
        microseconds.push_back(taken.count());
      }
    }).join();
  }
  if (!refused.empty()) throw std::runtime_error(refused);
  const auto middle = microseconds.begin() + static_cast<std::ptrdiff_t>(microseconds.size() / 2);
  std::nth_element(microseconds.begin(), middle, microseconds.end());
  return *middle;
}

std::string verdict_of(const harness::RunRecord& record) {
  if (record.exit_code() == 0) return "passed";
  return record.exit_code() == 1 ? "failed" : "underpowered";
}

}  // namespace

void bind_verify(nb::module_& module) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const UsageError& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const std::bad_alloc& error) {
      PyErr_SetString(PyExc_MemoryError, harness::error_text(error).c_str());
    } catch (const std::length_error& error) {
      PyErr_SetString(PyExc_ValueError, harness::error_text(error).c_str());
    }
  });
  using harness::RunRecord;
  nb::class_<RunRecord>(module, "RunRecord")
      .def_prop_ro("verdict", verdict_of)
      .def_prop_ro("exit_code", &RunRecord::exit_code)
      .def("to_json", [](const RunRecord& record) { return reports::to_json(record); })
      .def("text", text_of)
      .def("headline",
           [](const harness::RunRecord& record) {
             return reports::terminal_text(reports::headline(record));
           })
      .def("groups", groups_of)
      .def("unmet", harness::unmet_requirements)
      .def("summary", [](const RunRecord& record) { return reports::terminal_summary(record); })
      .def("lines",
           [](const RunRecord& record) {
             std::vector<std::string> lines;
             for (const auto& entry : record.cases) lines.push_back(reports::terminal_line(entry));
             return lines;
           })
      .def("write", [](const RunRecord& record, const std::string& folder) {
        const nb::gil_scoped_release others_may_run;
        reports::write_report(folder, record);
      });
  define(module, "run", &judge);
  module.def("merged", &merged);
  module.def("case_ids", &case_ids);
  module.def("profile_names", [] {
    const auto names = reference::profile_names();
    return std::vector<std::string>(names.begin(), names.end());
  });
  module.def("ability_names", [] { return names_of(abilities()); });
  module.def("feature_names", [] { return harness::feature_names(); });
  module.def("filter_names", [] { return names_of(filters()); });
  module.def("processing_step_names", [] {
    std::vector<std::string> names;
    for (const harness::ProcessingStep& step : harness::processing_steps()) {
      names.emplace_back(step.name);
    }
    return names;
  });
  module.def("declinable_names", [] { return names_of(declinable()); });
  module.def("expect_semantics",
             [](const std::string& text) { harness::semantics_from_text(text); });
  module.def("operation_names", [] { return harness::operation_names(); });
  module.def("promise_names", [] { return names_of(promises()); });
  module.def("suite_names", [] { return suites::suite_names(); });
  module.def("builtin_sampler_names", [] { return harness::builtin_sampler_names(); });
  module.def("expected_token",
             [](nb::handle logits, float temperature, std::int32_t top_k, float top_p, float min_p,
                std::uint64_t seed, std::uint64_t offset) {
               return expected_token(logits, {temperature, top_p, min_p}, top_k, seed, offset);
             });
  module.def("batch_microseconds", &batch_microseconds);
  module.def("binomial_lower_tail", &statistics::binomial_lower_tail);
  module.def("binomial_upper_tail", &statistics::binomial_upper_tail);
  module.def("command_line", &command_line);
  module.def("cause_text", [](const std::string& name) {
    const harness::CauseText text = harness::text_of_cause(name);
    return std::pair(text.sentence, text.change);
  });
  module.def("set_plugin_host", [](const std::vector<std::string>& words) {
    harness::plugin::host_command() = words;
  });
}

}  // namespace fairdraw::python
