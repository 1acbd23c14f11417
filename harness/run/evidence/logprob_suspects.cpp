#include "harness/run/evidence/logprob_suspects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <string>

namespace fairdraw::harness {
namespace {

using reference::real_log_probabilities;
using reference::RealLogprobs;
using reference::RowProcessing;
using reference::WeightBound;

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr float kNoValue = -std::numeric_limits<float>::infinity();

// --- Values of another point of the pipeline -----------------------------------------------------

// The report that a row would have under another definition. The field `at` is the number of the
// row in the request.
struct Definition {
  const char* bug;
  std::function<RealLogprobs(const LogprobsRow&, std::int64_t at)> values;
};

LogprobsMode twin_of(LogprobsMode mode, bool raw, bool logprobs) {
  (void)mode;
  if (raw) return logprobs ? LogprobsMode::raw_logprobs : LogprobsMode::raw_logits;
  return logprobs ? LogprobsMode::processed_logprobs : LogprobsMode::processed_logits;
}

std::vector<float> banned_as(const std::vector<float>& row, const std::vector<float>& banned) {
  std::vector<float> result = row;
  for (std::size_t id = 0; id < row.size(); ++id) {
    if (banned[id] == kNoValue) result[id] = kNoValue;
  }
  return result;
}

struct Step {
  const char* name;
  void (*leave_out)(RowProcessing&);
};
constexpr Step kSteps[] = {
    {"the repetition penalty", [](RowProcessing& p) { p.repetition_penalty = 1; }},
    {"the frequency penalty", [](RowProcessing& p) { p.frequency_penalty = 0; }},
    {"the presence penalty", [](RowProcessing& p) { p.presence_penalty = 0; }},
    {"the penalties of the output",
     [](RowProcessing& p) { p.output.clear(), p.output_counts.reset(); }},
    {"the logit bias", [](RowProcessing& p) { p.biases.clear(); }},
    {"minimum tokens", [](RowProcessing& p) { p.stop_ids.clear(); }},
    {"bad words", [](RowProcessing& p) { p.bad_words.clear(), p.bad_word_lengths.clear(); }},
    {"allowed ids", [](RowProcessing& p) { p.allowed_ids.clear(); }}};

// Returns a row after other processing steps than its own, or the unchanged row if these steps make
// it fail.
std::vector<float> processed_by(const Request& request, std::int64_t at,
                                std::span<const float> logits, const RowProcessing& steps,
                                bool with_mask) {
  std::span<const std::uint32_t> allowed;
  if (with_mask && !request.allowed.empty()) {
    const auto words = static_cast<std::size_t>((request.vocab + 31) / 32);
    allowed = std::span(request.allowed).subspan(static_cast<std::size_t>(at) * words, words);
  }
  reference::ProcessedRow row = reference::process_row(logits, allowed, steps);
  if (row.status == RowStatus::ok) return std::move(row.logits);
  return {logits.begin(), logits.end()};
}

RowProcessing steps_of(const Request& request, std::int64_t at) {
  return request.processing.empty() ? RowProcessing{}
                                    : request.processing[static_cast<std::size_t>(at)];
}

std::vector<Definition> of_raw_modes(const Request& request, LogprobsMode mode,
                                     const WeightBound& bound) {
  const LogprobsMode processed = twin_of(mode, false, is_logprobs(mode));
  const auto raw_of = [mode, bound](const std::vector<float>& row) {
    return real_log_probabilities(row, {}, mode, 1, bound);
  };
  return {
      {"raw values after temperature and filters",
       [=](const LogprobsRow& row, std::int64_t) { return logprobs_of(row, processed, bound); }},
      {"raw values after temperature",
       [=](const LogprobsRow& row, std::int64_t) {
         return real_log_probabilities(row.raw, {}, processed, row.temperature, bound);
       }},
      {"raw values after processing and bans",
       [&request, raw_of](const LogprobsRow& row, std::int64_t at) {
         return raw_of(processed_by(request, at, row.raw, steps_of(request, at), true));
       }},
      {"raw values after bans",
       [&request, raw_of](const LogprobsRow& row, std::int64_t at) {
         return raw_of(
             banned_as(row.raw, processed_by(request, at, row.raw, steps_of(request, at), true)));
       }},
      {"raw values after the bitmask",
       [&request, raw_of](const LogprobsRow& row, std::int64_t at) {
         return raw_of(
             banned_as(row.raw, processed_by(request, at, row.raw, RowProcessing{}, true)));
       }},
      {"raw values after penalties",
       [&request, raw_of](const LogprobsRow& row, std::int64_t at) {
         RowProcessing steps = steps_of(request, at);
         for (const Step& step : std::span(kSteps).subspan(4)) step.leave_out(steps);
         return raw_of(processed_by(request, at, row.raw, steps, false));
       }},
      {"raw values after penalties and bias",
       [&request, raw_of](const LogprobsRow& row, std::int64_t at) {
         RowProcessing steps = steps_of(request, at);
         for (const Step& step : std::span(kSteps).subspan(5)) step.leave_out(steps);
         return raw_of(processed_by(request, at, row.raw, steps, false));
       }},
  };
}

// Returns the definitions of processed modes: the distribution of `row` over the survivors of the
// filters.
std::vector<Definition> of_processed_modes(const Request& request, LogprobsMode mode,
                                           const WeightBound& bound) {
  const auto of = [mode, bound](const std::vector<float>& row, const LogprobsRow& like) {
    return real_log_probabilities(row, like.kept, mode, like.temperature, bound);
  };
  const auto before_filters = [=](const LogprobsRow& row) {
    return real_log_probabilities(row.processed, {}, mode, row.temperature, bound);
  };
  const LogprobsMode raw = twin_of(mode, true, is_logprobs(mode));
  std::vector<Definition> list = {
      {"processed values before the temperature",
       [=](const LogprobsRow& row, std::int64_t) {
         return real_log_probabilities(row.processed, row.kept, mode, 1, bound);
       }},
      {"processed values before the filters",
       [=](const LogprobsRow& row, std::int64_t) { return before_filters(row); }},
      {"processed values of the row as it came",
       [=](const LogprobsRow& row, std::int64_t) { return logprobs_of(row, raw, bound); }},
      {"processed values that are not renormalised over the survivors",
       [=](const LogprobsRow& row, std::int64_t) {
         RealLogprobs values = logprobs_of(row, mode, bound);
         const RealLogprobs all = before_filters(row);
         for (const std::int32_t token : values.order) {
           const auto place = static_cast<std::size_t>(token);
           values.value[place] = all.value[place];
           values.bound[place] = all.bound[place];
         }
         return values;
       }},
      {"processed values before processing",
       [=](const LogprobsRow& row, std::int64_t) { return of(row.raw, row); }},
      {"processed values of a row that was processed twice",
       [&request, of](const LogprobsRow& row, std::int64_t at) {
         return of(processed_by(request, at, row.processed, steps_of(request, at), true), row);
       }},
      {"the order of tokens is that of the row as it came",
       [=](const LogprobsRow& row, std::int64_t) {
         RealLogprobs values = logprobs_of(row, mode, bound);
         std::ranges::stable_sort(values.order, [&row](std::int32_t a, std::int32_t b) {
           return row.raw[static_cast<std::size_t>(a)] > row.raw[static_cast<std::size_t>(b)];
         });
         return values;
       }},
      {"ranks compare the logits that came",
       [=](const LogprobsRow& row, std::int64_t) {
         RealLogprobs values = logprobs_of(row, mode, bound);
         values.logits = row.raw;
         return values;
       }},
  };
  for (const Step& step : kSteps) {
    if (request.processing.empty()) break;
    list.push_back({step.name, [&request, of, step](const LogprobsRow& row, std::int64_t at) {
                      RowProcessing steps = steps_of(request, at);
                      step.leave_out(steps);
                      return of(processed_by(request, at, row.raw, steps, true), row);
                    }});
  }
  return list;
}

std::vector<Definition> of_all_modes(LogprobsMode mode, const WeightBound& bound) {
  const auto with_values = [mode,
                            bound](const std::function<void(RealLogprobs&, std::size_t)>& change) {
    return [=](const LogprobsRow& row, std::int64_t) {
      RealLogprobs values = logprobs_of(row, mode, bound);
      for (std::size_t id = 0; id < values.value.size(); ++id) change(values, id);
      return values;
    };
  };
  const auto scaled = [&with_values](double factor) {
    return with_values([factor](RealLogprobs& values, std::size_t id) {
      values.value[id] *= factor;
      values.bound[id] += 0x1p-22 * std::fabs(values.value[id]);
    });
  };
  const LogprobsMode other = twin_of(mode, is_raw(mode), !is_logprobs(mode));
  std::vector<Definition> list = {
      {is_logprobs(mode) ? "logits for log-probabilities" : "log-probabilities for logits",
       [=](const LogprobsRow& row, std::int64_t) { return logprobs_of(row, other, bound); }},
      {"of equal values the largest id comes first", [=](const LogprobsRow& row, std::int64_t) {
         RealLogprobs values = logprobs_of(row, mode, bound);
         std::ranges::reverse(values.order);
         std::ranges::stable_sort(values.order, [&values](std::int32_t a, std::int32_t b) {
           return values.logits[static_cast<std::size_t>(a)] >
                  values.logits[static_cast<std::size_t>(b)];
         });
         return values;
       }}};
  if (!is_logprobs(mode)) return list;
  list.push_back({"logarithms to base 2", scaled(std::numbers::log2e)});
  list.push_back({"logarithms to base 10", scaled(std::numbers::log10e)});
  list.push_back({"the sign is wrong", scaled(-1)});
  list.push_back(
      {"probabilities for their logarithms", with_values([](RealLogprobs& values, std::size_t id) {
         values.value[id] = std::exp(values.value[id]);
         values.bound[id] += 0x1p-22;
       })});
  // The smallest subnormal float32 is exp(-103.28), and the smallest normal one is exp(-87.33).
  for (const double least : {-103.28, -87.33}) {
    list.push_back({"the logarithm of a probability that underflows",
                    with_values([least](RealLogprobs& values, std::size_t id) {
                      if (values.value[id] < least) values.value[id] = kNone;
                    })});
  }
  return list;
}

// --- Wrong writes -------------------------------------------------------------------------------

// A correction of one mistake in the response; if the corrected response agrees with the oracle,
// the sampler made this mistake.
struct Repair {
  const char* bug;
  std::function<void(Response&)> undo;
  std::function<void(AskedLogprobs&)> ask = {};
};

void in_values(Response& response, const std::function<void(float&)>& change) {
  for (auto* const values :
       {&response.report_values, &response.report_top_values, &response.report_all}) {
    for (float& value : *values) change(value);
  }
}

// Writes the right entries of every output's top list, from index `first` on.
void expect_top_from(const WrongLogprobs& call, std::size_t first, Response& response) {
  const auto top_n = static_cast<std::size_t>(call.asked.report.top_n);
  for (std::int64_t output = 0; output < call.request.outputs(); ++output) {
    const ExpectedLogprobs& expected =
        call.expected[static_cast<std::size_t>(call.request.row_of(output))];
    for (std::size_t n = first; n < top_n; ++n) {
      const std::size_t at = static_cast<std::size_t>(output) * top_n + n;
      const bool there = !expected.fails && n < expected.real.order.size();
      const std::int32_t id = there ? expected.real.order[n] : -1;
      response.report_top_ids[at] = id;
      response.report_top_values[at] =
          there ? static_cast<float>(expected.real.value[static_cast<std::size_t>(id)]) : kNoValue;
    }
  }
}

// Writes the right results for every drawn token.
void expect_tokens(const WrongLogprobs& call, Response& response, bool values, bool ranks) {
  const auto samples = static_cast<std::size_t>(call.request.num_samples);
  for (std::size_t at = 0; at < response.tokens.size(); ++at) {
    const auto output = static_cast<std::int64_t>(at / samples);
    const ExpectedLogprobs& expected =
        call.expected[static_cast<std::size_t>(call.request.row_of(output))];
    const std::int32_t token = response.tokens[at];
    if (!expected.judged || expected.fails || token < 0 || token >= call.request.vocab) continue;
    if (values) {
      response.report_values[at] =
          static_cast<float>(expected.real.value[static_cast<std::size_t>(token)]);
    }
    if (ranks && !response.report_ranks.empty()) {
      response.report_ranks[at] = expected.real.rank(token, call.asked.report.rank_rule);
    }
  }
}

bool samples_share(const WrongLogprobs& call) {
  const auto samples = static_cast<std::size_t>(call.request.num_samples);
  const auto& values = call.response.report_values;
  for (std::size_t at = 0; at < values.size(); ++at) {
    const float first = values[at - at % samples];
    if (values[at] < first || values[at] > first) return false;
  }
  return samples > 1;
}

std::vector<Repair> repairs(const WrongLogprobs& call) {
  std::vector<Repair> list = {
      {"ranks count from 0",
       [](Response& one) {
         for (std::size_t at = 0; at < one.report_ranks.size(); ++at) {
           if (one.tokens[at] >= 0) ++one.report_ranks[at];
         }
       }},
      {"ranks follow the other rule", [](Response&) {},
       [](AskedLogprobs& asked) {
         asked.report.rank_rule =
             asked.report.rank_rule == RankRule::position ? RankRule::at_least : RankRule::position;
       }},
      {"what has no value is the smallest float32",
       [](Response& one) {
         in_values(one, [](float& x) {
           if (x == -std::numeric_limits<float>::max()) x = kNoValue;
         });
       }},
      {"what has no value is NaN",
       [](Response& one) {
         in_values(one, [](float& x) {
           if (std::isnan(x)) x = kNoValue;
         });
       }},
      {"what has no value is 0",
       [&call](Response& one) {
         // Tokens that are certain to be drawn also have log-probability 0.
         for (std::size_t at = 0; at < one.report_all.size(); ++at) {
           const auto vocab = static_cast<std::size_t>(call.request.vocab);
           const ExpectedLogprobs& expected = call.expected[at / vocab];
           const bool none =
               expected.judged && !expected.fails && expected.real.value[at % vocab] == kNone;
           if (none && std::fpclassify(one.report_all[at]) == FP_ZERO) {
             one.report_all[at] = kNoValue;
           }
         }
         for (std::size_t at = 0; at < one.report_top_ids.size(); ++at) {
           if (one.report_top_ids[at] == -1) one.report_top_values[at] = kNoValue;
         }
       }},
      {"a list that is not full ends in token 0",
       [](Response& one) {
         for (std::size_t at = 0; at < one.report_top_ids.size(); ++at) {
           if (one.report_top_values[at] == kNoValue) one.report_top_ids[at] = -1;
         }
       }},
      {"the drawn token takes the last place of the largest",
       [&call](Response& one) {
         const auto top_n = static_cast<std::size_t>(call.asked.report.top_n);
         const auto samples = static_cast<std::size_t>(call.request.num_samples);
         Response right = one;
         expect_top_from(call, 0, right);
         for (std::size_t last = top_n; last > 0 && last <= one.report_top_ids.size();
              last += top_n) {
           const std::size_t output = last / top_n - 1;
           if (one.report_top_ids[last - 1] != one.tokens[output * samples]) continue;
           one.report_top_ids[last - 1] = right.report_top_ids[last - 1];
           one.report_top_values[last - 1] = right.report_top_values[last - 1];
         }
       }},
  };
  if (samples_share(call)) {
    list.push_back({"all samples of an output have the value of the first",
                    [&call](Response& one) { expect_tokens(call, one, true, false); }});
  }
  const auto top_n = static_cast<std::size_t>(call.asked.report.top_n);
  for (std::size_t n = top_n; n-- > 1;) {
    if (call.response.report_top_ids[n] != -1) break;
    list.push_back({"the list of the largest tokens ends too early",
                    [&call, n](Response& one) { expect_top_from(call, n, one); }});
  }
  return list;
}

// --- The first explanation ----------------------------------------------------------------------

bool explains(const WrongLogprobs& call, const AskedLogprobs& asked, const Response& response,
              const std::vector<ExpectedLogprobs>& expected) {
  return compare_logprobs(call.input, call.request, asked, response, expected, 0).wrong.empty();
}

// Returns all inputs from which the values of each row are computed. Rows that processed modes
// leave open are skipped.
std::vector<LogprobsRow> whole_rows(const WrongLogprobs& call) {
  std::vector<LogprobsRow> rows;
  for (std::int64_t row = 0; row < call.request.rows; ++row) {
    rows.push_back(logprobs_row(call.input, call.request, row, LogprobsMode::processed_logprobs));
  }
  return rows;
}

const char* by_definition(const WrongLogprobs& call) {
  const LogprobsMode mode = call.asked.report.mode;
  std::vector<Definition> definitions = is_raw(mode)
                                            ? of_raw_modes(call.request, mode, call.bound)
                                            : of_processed_modes(call.request, mode, call.bound);
  for (Definition& one : of_all_modes(mode, call.bound)) definitions.push_back(std::move(one));
  const std::vector<LogprobsRow> rows = whole_rows(call);
  for (const Definition& definition : definitions) {
    std::vector<ExpectedLogprobs> expected = call.expected;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (!expected[row].judged || expected[row].fails) continue;
      expected[row].judged = rows[row].judged;
      if (!rows[row].judged) continue;
      expected[row] = with_slack(call.input, rows[row], mode, call.bound,
                                 definition.values(rows[row], static_cast<std::int64_t>(row)));
    }
    const bool some = std::ranges::any_of(
        expected, [](const ExpectedLogprobs& row) { return row.judged && !row.fails; });
    if (some && explains(call, call.asked, call.response, expected)) return definition.bug;
  }
  return nullptr;
}

const char* by_what_is_written(const WrongLogprobs& call) {
  for (const Repair& repair : repairs(call)) {
    AskedLogprobs asked = call.asked;
    if (repair.ask) repair.ask(asked);
    Response response = call.response;
    repair.undo(response);
    if (explains(call, asked, response, call.expected)) return repair.bug;
  }
  // For dtypes with fewer bits, a rounded quantity may be off by half a unit in the last place.
  for (const auto& [bug, part] : {std::pair{"values have the precision of float16", 0x1p-11},
                                  std::pair{"values have the precision of bfloat16", 0x1p-8}}) {
    std::vector<ExpectedLogprobs> expected = call.expected;
    for (ExpectedLogprobs& row : expected) {
      for (std::size_t id = 0; id < row.slack.size(); ++id) {
        if (std::isfinite(row.real.value[id]))
          row.slack[id] += part * std::fabs(row.real.value[id]);
      }
    }
    if (explains(call, call.asked, call.response, expected)) return bug;
  }
  return nullptr;
}

// Names the results that are wrong, if no mistake explains them.
const char* wrong_part(const WrongLogprobs& call) {
  Response response = call.response;
  expect_tokens(call, response, false, true);
  if (explains(call, call.asked, response, call.expected)) return "ranks";
  response = call.response;
  expect_top_from(call, 0, response);
  if (explains(call, call.asked, response, call.expected)) return "the largest tokens";
  response = call.response;
  expect_tokens(call, response, true, false);
  if (explains(call, call.asked, response, call.expected)) return "values of the drawn tokens";
  response = call.response;
  response.report_all.clear();
  if (explains(call, call.asked, response, call.expected)) return "values of whole rows";
  return "values";
}

}  // namespace

void note_logprob_mistakes(const WrongLogprobs& call, CheckOutcome& outcome) {
  const bool failing_row = std::ranges::any_of(
      call.expected, [](const ExpectedLogprobs& row) { return row.judged && row.fails; });
  std::vector<ExpectedLogprobs> others = call.expected;
  for (ExpectedLogprobs& row : others) row.judged = row.judged && !row.fails;
  if (failing_row && explains(call, call.asked, call.response, others)) {
    outcome.evidence.suspects.push_back({"log-probabilities: an output without a token has values",
                                         "All other outputs of the call are right"});
    return;
  }
  const char* bug = by_definition(call);
  if (bug == nullptr) bug = by_what_is_written(call);
  const std::string mode = to_string(call.asked.report.mode);
  if (bug != nullptr) {
    outcome.evidence.suspects.push_back(
        {fmt::format("log-probabilities: {}", bug),
         fmt::format("With that, everything that mode {} reports in this call is explained",
                     mode)});
    return;
  }
  outcome.evidence.suspects.push_back(
      {fmt::format("log-probabilities: {}", wrong_part(call)),
       fmt::format("In mode {} nothing else of the call is wrong", mode)});
}

}  // namespace fairdraw::harness
