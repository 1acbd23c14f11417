#include "suites/gate/run/run_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "harness/inputs/processing_steps.h"
#include "harness/run/calls/logits_source.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/statistical/fresh_instances.h"
#include "suites/gate/cases/features.h"
#include "suites/gate/cases/row_operation_cases.h"
#include "suites/gate/cases/speculation_cases.h"

namespace fairdraw::suites {
namespace {

using harness::CheckInput;
using harness::CheckOutcome;

// Adds the sampled values to the record, so that a report shows which values were judged.
void note_sampled_values(const Case& entry, CheckOutcome& outcome) {
  outcome.message += fmt::format(" (the run's seed chose {})", describe_sampled(entry));
  outcome.measures["sampled_vocab"] = static_cast<double>(entry.input.vocab);
  if (entry.sampled->operations != 1) return;
  const reference::RowParameters& row = entry.operations.front().parameters;
  outcome.measures["sampled_temperature"] = static_cast<double>(row.temperature);
  const Filters& filters = entry.sampled->filters;
  if (filters.top_k) outcome.measures["sampled_top_k"] = row.top_k;
  if (filters.top_p) outcome.measures["sampled_top_p"] = static_cast<double>(row.top_p);
  if (filters.min_p) outcome.measures["sampled_min_p"] = static_cast<double>(row.min_p);
}

// Returns the seed of the logits in a case's rows. The number of draws that find a mistake depends
// on the row. So statistical cases keep their rows, and fresh seeds change only the draws. Exact
// checks lose nothing with fresh rows, and neither does pit, whose power does not depend on the
// rows. Sampled cases also get fresh rows (kCandidates).
std::uint64_t rows_seed_of(const Case& entry, std::uint64_t seed) {
  if (entry.sampled) return entry.sampled->rows_seed;
  const bool fresh = !is_statistical(entry.check) || entry.check == Check::pit;
  return fresh ? seed : harness::seed_from_text(entry.id);
}

// Runs `check` on the case, with rows from the seed `rows_seed`.
CheckOutcome run_on_rows(const Case& entry, harness::Sampler& sampler,
                         const reference::Semantics& semantics, std::uint64_t rows_seed,
                         std::uint64_t seed, double false_fail_rate,
                         const std::function<CheckOutcome(const CheckInput&)>& check) {
  std::unique_ptr<harness::LogitsSource> logits =
      entry.input.captured
          ? harness::captured_source(entry.input.captured)
          : harness::family_source(entry.input.family, rows_seed, entry.input.vocab,
                                   entry.input.dtype, entry.input.added);
  if (entry.input.widened) {
    logits = harness::float32_source(std::move(logits), entry.input.divisor);
  }
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = semantics;
  input.logits = logits.get();
  if (entry.from_probs) input.row_input = harness::RowInput::probabilities;
  const harness::SamplerDescription& able = sampler.description();
  const bool fails_by_row = able.reports_status && able.bad_rows;
  for (const Operation& operation : entry.operations) {
    reference::RowParameters parameters = operation.parameters;
    const bool off_is_zero = semantics.top_k_zero == reference::TopKZero::off;
    if (!entry.literal && !off_is_zero && parameters.top_k == 0) {
      parameters.top_k = static_cast<std::int32_t>(entry.input.vocab);
    }
    // An operation on rows uses only one of the sampling parameters, so the other parameters cannot
    // make it fail.
    const bool refused =
        !fails_by_row && !is_row_operation(entry.check) &&
        harness::must_fail(parameters, semantics, input.row_input, entry.input.vocab);
    (refused ? input.refused : input.parameters).push_back(parameters);
  }
  input.tie_rule = entry.operations.front().tie_rule;
  input.filter_order = entry.operations.front().filter_order;
  input.banned_tokens = entry.banned_tokens;
  for (std::int64_t row = 0; entry.processed && row < entry.rows; ++row) {
    const std::int64_t at = entry.first_row + row;
    input.processing.push_back(is_statistical(entry.check)
                                   ? harness::processing_for_distribution(entry.input.vocab)
                                   : harness::processing_for_row(seed, at, entry.input.vocab));
    harness::leave_out(able.lacked_steps, input.processing.back());
  }
  input.marked = entry.marked;
  input.first_row = entry.first_row;
  input.rows = entry.rows;
  input.requests_of_call = entry.requests_of_call;
  input.draws = entry.draws;
  input.declared_discrepancy = entry.declared_discrepancy;
  input.seed = seed;
  input.false_fail_rate = false_fail_rate;
  if (input.parameters.empty()) {
    return harness::skipped("semantics " + semantics.name + " refuses these parameters");
  }
  return check(input);
}

// Number of candidate rows of a sampled case. If the draws cannot detect the declared discrepancy
// on one row, the next candidate row is taken. The row is chosen before any draw. So the choice
// cannot depend on the sampler, and a correct sampler fails no more often.
constexpr std::uint64_t kCandidates = 8;

CheckOutcome run_case(const Case& entry, harness::Sampler& sampler,
                      const reference::Semantics& semantics, std::uint64_t seed,
                      double false_fail_rate,
                      const std::function<CheckOutcome(const CheckInput&)>& check) {
  const bool of_drafts = is_of_chains(entry.check) || is_of_speculation(entry.check);
  if (!sampler.description().samples && !is_row_operation(entry.check) && !of_drafts) {
    return harness::skipped(
        "draws no tokens, because it has only operations on rows, or verifies drafts");
  }
  const std::uint64_t rows_seed = rows_seed_of(entry, seed);
  CheckOutcome outcome =
      run_on_rows(entry, sampler, semantics, rows_seed, seed, false_fail_rate, check);
  if (!entry.sampled) return outcome;
  const auto next_row = [&outcome] {
    return outcome.verdict == harness::Verdict::underpowered && outcome.draws == 0;
  };
  std::uint64_t candidate = 0;
  while (candidate + 1 < kCandidates && next_row()) {
    ++candidate;
    outcome = run_on_rows(entry, sampler, semantics, harness::mixed(rows_seed, candidate), seed,
                          false_fail_rate, check);
  }
  note_sampled_values(entry, outcome);
  outcome.measures["sampled_rows_refused"] = static_cast<double>(candidate);
  return outcome;
}

// Returns the filters of the rows without their numbers, as the name of a section in the report.
std::string filter_of(const std::vector<Operation>& operations) {
  std::string filter;
  for (const Operation& operation : operations) {
    const std::string name = filter_name(operation);
    if (!filter.empty() && name != filter) return "mixed";
    filter = name;
  }
  return filter;
}

harness::Job named_job(const Case& entry, const char* check, const std::string& sampler_name,
                       harness::SamplerFactory make_sampler,
                       const reference::Semantics& semantics) {
  harness::Job job;
  job.record.id = entry.id;
  job.record.suite = to_string(entry.suite);
  job.record.check = check;
  job.record.sampler = sampler_name;
  job.record.semantics = semantics.name;
  job.record.filter = filter_of(entry.operations);
  for (const harness::Feature feature : features_of(entry)) {
    job.record.features.emplace_back(to_string(feature));
  }
  job.record.vocab = static_cast<std::uint64_t>(entry.input.vocab);
  job.record.rows = static_cast<std::uint64_t>(entry.rows);
  job.make_sampler = std::move(make_sampler);
  return job;
}

// Returns a job that judges a case whose values are known, with the case's own seed.
harness::Job judging_job(const Case& entry, const std::string& sampler_name,
                         harness::SamplerFactory make_sampler,
                         const reference::Semantics& semantics, std::uint64_t seed,
                         double false_fail_rate, std::shared_ptr<harness::CountSource> counts) {
  harness::Job job =
      named_job(entry, to_string(entry.check), sampler_name, make_sampler, semantics);
  job.check = [entry, semantics, seed, false_fail_rate, make_sampler = std::move(make_sampler),
               counts = std::move(counts)](harness::Sampler& sampler) {
    return run_case(entry, sampler, semantics, seed, false_fail_rate, [&](const CheckInput& given) {
      CheckInput input = given;
      input.counts = counts.get();
      return entry.check == Check::streams
                 ? harness::check_streams_of_instances(input, make_sampler)
                 : harness::entry_of(entry.check).run(input);
    });
  };
  return job;
}

// Returns the case with rows without a parameter. The rows say the same, if they can: values of 16
// bits in float32, quotients in place of logits and a temperature, no top_k in place of one that
// keeps the whole vocabulary. Otherwise the parameter is off. Probabilities are rounded to the type
// of their rows, so they stay as they are.
Case said_without(Case entry, std::string_view subject) {
  Input& input = entry.input;
  const bool is_float32 = input.dtype == DType::float32 || input.widened;
  const auto change = [&entry](auto of) {
    for (Operation& one : entry.operations) of(one.parameters);
  };
  if (subject == "dtype" && !entry.from_probs) input.widened = true;
  if (subject == "processing") entry.processed = false;
  if (subject == "top_p") change([](reference::RowParameters& one) { one.top_p = 1; });
  if (subject == "min_p") change([](reference::RowParameters& one) { one.min_p = 0; });
  if (subject == "top_k") {
    const bool is_off = std::ranges::all_of(entry.operations, [&input](const Operation& one) {
      return one.parameters.top_k <= 0 || one.parameters.top_k >= input.vocab;
    });
    change([&](reference::RowParameters& one) {
      if (!is_off || one.top_k >= input.vocab) one.top_k = 0;
    });
  }
  if (subject == "temperature") {
    const bool says_same = is_float32 && entry.operations.size() == 1 && !entry.from_probs;
    const float first = entry.operations.front().parameters.temperature;
    if (says_same && first > 0) {
      input.widened = true;
      input.divisor = first;
    }
    change([](reference::RowParameters& one) {
      if (one.temperature > 0) one.temperature = 1;
    });
  }
  return entry;
}

// Returns the case with other values. Rows keep their operations, unless these are said in another
// way.
Case varied(Case entry, const harness::Variation& given) {
  if (given.vocab > 0) entry.input.vocab = given.vocab;
  if (!given.without.empty()) entry = said_without(std::move(entry), given.without);
  if (given.seed != 0 && entry.sampled) {
    entry.sampled->rows_seed = harness::mixed(entry.sampled->rows_seed, given.seed);
  }
  entry.requests_of_call = given.requests_of_call;
  if (given.rows == 0) return entry;
  entry.rows = given.rows;
  entry.first_row += given.first_row;
  const auto operations = std::ssize(entry.operations);
  std::ranges::rotate(entry.operations, entry.operations.begin() + given.first_row % operations);
  return entry;
}

bool compares_results(const Case& entry) {
  return entry.check == Check::mask || entry.check == Check::tokens;
}

}  // namespace

harness::Job make_job(const Case& named, const std::string& sampler_name,
                      harness::SamplerFactory make_sampler, const reference::Semantics& semantics,
                      std::uint64_t run_seed, double false_fail_rate,
                      std::shared_ptr<harness::CountSource> counts) {
  const std::uint64_t seed = harness::case_seed(run_seed, named.id);
  const Case entry = with_values(named, run_seed);
  harness::Job job = judging_job(entry, sampler_name, make_sampler, semantics, seed,
                                 false_fail_rate, std::move(counts));
  if (entry.input.captured) return job;
  job.neighbour = [=, make_sampler = std::move(make_sampler)](const harness::Variation& given) {
    return judging_job(varied(entry, given), sampler_name, make_sampler, semantics,
                       given.seed == 0 ? seed : harness::mixed(seed, given.seed), false_fail_rate,
                       nullptr);
  };
  return job;
}

harness::Job make_part(const Case& named, const std::string& sampler_name,
                       harness::SamplerFactory make_sampler, const reference::Semantics& semantics,
                       std::uint64_t run_seed, double false_fail_rate, harness::CasePart part,
                       int look) {
  const auto counts = std::make_shared<harness::PartCounts>(part, look);
  harness::Job job = make_job(named, sampler_name, std::move(make_sampler), semantics, run_seed,
                              false_fail_rate, counts);
  job.check = [whole = std::move(job.check), counts, part, look](harness::Sampler& sampler) {
    CheckOutcome outcome = whole(sampler);
    if (counts->counted().empty()) return outcome;
    CheckOutcome of_part = harness::skipped(
        fmt::format("part {} of {} of the {}draws: merge judges all of them together", part.part,
                    part.parts, look == 0 ? "" : "second look's "));
    of_part.draws = outcome.draws;
    of_part.min_discrepancy = outcome.min_discrepancy;
    of_part.counted = counts->counted();
    return of_part;
  };
  return job;
}

bool is_comparable(const Case& entry) {
  return compares_results(entry) || entry.check == Check::chi_squared ||
         entry.check == Check::bets || entry.check == Check::binomial;
}

harness::Job make_comparison(const Case& named, const std::string& sampler_name,
                             harness::SamplerFactory make_sampler,
                             harness::SamplerFactory make_other,
                             const reference::Semantics& semantics, std::uint64_t run_seed,
                             double false_fail_rate) {
  const std::uint64_t seed = harness::case_seed(run_seed, named.id);
  const Case entry = with_values(named, run_seed);
  const bool results = compares_results(entry);
  harness::Job job = named_job(entry, results ? "same_results" : "same_law", sampler_name,
                               std::move(make_sampler), semantics);
  job.make_other = std::move(make_other);
  job.compare = [entry, results, semantics, seed, false_fail_rate](harness::Sampler& sampler,
                                                                   harness::Sampler& other) {
    return run_case(entry, sampler, semantics, seed, false_fail_rate, [&](const CheckInput& input) {
      if (results) return harness::check_same_results(input, other);
      CheckInput wider = input;
      wider.declared_discrepancy *= 2;
      return harness::check_same_distribution(wider, other);
    });
  };
  return job;
}

}  // namespace fairdraw::suites
