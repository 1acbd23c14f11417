// Bad rows: each kind has its status, and no row suffers from another.
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>

#include "harness/run/checks/checks.h"

namespace fairdraw::harness {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

// One mutation of row `row` of a request, and what must become of it.
struct Fault {
  std::string name;
  RowStatus status;
  std::function<void(Request&, std::int64_t row)> mutation;
};

void set_logit(Request& request, std::int64_t row, std::int64_t token, float value) {
  request.logits[static_cast<std::size_t>(row * request.vocab + token)] = value;
}

void fill_row(Request& request, std::int64_t row, float value) {
  for (std::int64_t token = 0; token < request.vocab; ++token) {
    set_logit(request, row, token, value);
  }
}

void allow_everything(Request& request) {
  if (!request.allowed.empty()) return;
  request.allowed.assign(static_cast<std::size_t>(request.rows * words_for(request.vocab)),
                         0xffffffffU);
}

void ban(Request& request, std::int64_t row, std::int64_t token) {
  allow_everything(request);
  const auto word = static_cast<std::size_t>(row * words_for(request.vocab) + token / 32);
  request.allowed[word] &= ~(1U << (token % 32));
}

void add_logit_faults(std::int64_t vocab, std::vector<Fault>& faults) {
  struct Value {
    const char* name;
    float value;
    RowStatus status;
  };
  for (const Value& bad :
       {Value{"NaN", kNan, RowStatus::nan_input}, Value{"-NaN", -kNan, RowStatus::nan_input},
        Value{"+inf", kInfinity, RowStatus::infinite_input}}) {
    for (const std::int64_t token : {std::int64_t{0}, vocab / 2, vocab - 1}) {
      const float value = bad.value;
      faults.push_back({fmt::format("{} at id {}", bad.name, token), bad.status,
                        [token, value](Request& request, std::int64_t row) {
                          set_logit(request, row, token, value);
                        }});
      if (vocab == 1) break;
      faults.push_back({fmt::format("{} at the banned id {}", bad.name, token), bad.status,
                        [token, value](Request& request, std::int64_t row) {
                          set_logit(request, row, token, value);
                          ban(request, row, token);
                        }});
    }
  }
}

void add_empty_rows(std::vector<Fault>& faults) {
  faults.push_back(
      {"all -inf", RowStatus::no_allowed_token,
       [](Request& request, std::int64_t row) { fill_row(request, row, -kInfinity); }});
  faults.push_back(
      {"all banned", RowStatus::no_allowed_token, [](Request& request, std::int64_t row) {
         for (std::int64_t id = 0; id < request.vocab; ++id) ban(request, row, id);
       }});
  faults.push_back({"the only allowed id is -inf", RowStatus::no_allowed_token,
                    [](Request& request, std::int64_t row) {
                      for (std::int64_t id = 1; id < request.vocab; ++id) ban(request, row, id);
                      set_logit(request, row, 0, -kInfinity);
                    }});
}

void add_probability_faults(std::int64_t vocab, std::vector<Fault>& faults) {
  for (const float value : {-kSmallest, -0.25F, -kInfinity}) {
    for (const std::int64_t token : {std::int64_t{0}, vocab / 2, vocab - 1}) {
      faults.push_back({fmt::format("probability {} at id {}", value, token),
                        RowStatus::negative_probability,
                        [token, value](Request& request, std::int64_t row) {
                          set_logit(request, row, token, value);
                        }});
      if (vocab == 1) break;
    }
  }
  for (const float zero : {0.0F, -0.0F}) {
    faults.push_back(
        {fmt::format("all {}", zero), RowStatus::no_allowed_token,
         [zero](Request& request, std::int64_t row) { fill_row(request, row, zero); }});
  }
}

void add_temperature_faults(std::vector<Fault>& faults) {
  const float below_range = std::nextafter(0x1p-126F, 0.0F);
  const float above_range = std::nextafter(0x1p64F, kInfinity);
  for (const float value :
       {-1.0F, -kSmallest, kSmallest, below_range, above_range, kInfinity, -kInfinity, kNan}) {
    faults.push_back({fmt::format("temperature {}", value), RowStatus::invalid_temperature,
                      [value](Request& request, std::int64_t row) {
                        request.parameters[static_cast<std::size_t>(row)].temperature = value;
                      }});
  }
}

void add_filter_faults(std::vector<Fault>& faults) {
  for (const std::int32_t value : {-2, -50, std::numeric_limits<std::int32_t>::min()}) {
    faults.push_back({fmt::format("top_k {}", value), RowStatus::invalid_top_k,
                      [value](Request& request, std::int64_t row) {
                        request.parameters[static_cast<std::size_t>(row)].top_k = value;
                      }});
  }
  for (const float value :
       {-0.1F, -kSmallest, std::nextafter(1.0F, 2.0F), 90.0F, kInfinity, -kInfinity, kNan}) {
    faults.push_back({fmt::format("top_p {}", value), RowStatus::invalid_top_p,
                      [value](Request& request, std::int64_t row) {
                        request.parameters[static_cast<std::size_t>(row)].top_p = value;
                      }});
    faults.push_back({fmt::format("min_p {}", value), RowStatus::invalid_min_p,
                      [value](Request& request, std::int64_t row) {
                        request.parameters[static_cast<std::size_t>(row)].min_p = value;
                      }});
  }
}

std::vector<Fault> all_faults(RowInput input, std::int64_t vocab) {
  std::vector<Fault> faults;
  add_logit_faults(vocab, faults);
  if (input == RowInput::logits) {
    add_empty_rows(faults);
    add_temperature_faults(faults);
  } else {
    add_probability_faults(vocab, faults);
  }
  add_filter_faults(faults);
  faults.push_back({"inactive", RowStatus::inactive, [](Request& request, std::int64_t row) {
                      request.active.assign(static_cast<std::size_t>(request.rows), 1);
                      request.active[static_cast<std::size_t>(row)] = 0;
                      fill_row(request, row, kNan);  // nothing of it may be read
                    }});
  for (const std::int32_t index : {-1, std::numeric_limits<std::int32_t>::max(), 0x10000}) {
    faults.push_back({fmt::format("index {}", index), RowStatus::index_out_of_range,
                      [index](Request& request, std::int64_t row) {
                        request.with_indices = true;
                        for (std::int64_t i = 0; i < request.rows; ++i) {
                          request.indices.push_back(i == row ? index
                                                             : static_cast<std::int32_t>(i));
                        }
                      }});
  }
  return faults;
}

std::string judge(const Request& request, const Response& response, const Response& good,
                  std::int64_t row, RowStatus status) {
  for (std::int64_t i = 0; i < request.rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool bad = i == row;
    const std::int32_t token = bad ? -1 : good.tokens[at];
    const auto expected = static_cast<std::int32_t>(bad ? status : RowStatus::ok);
    if (response.statuses[at] != expected) {
      return fmt::format("{} {} has status {}, expected {}", bad ? "the row" : "batch-mate", i,
                         response.statuses[at], to_string(static_cast<RowStatus>(expected)));
    }
    if (response.tokens[at] != token) {
      return fmt::format("{} {} gives token {}, expected {}", bad ? "the row" : "batch-mate", i,
                         response.tokens[at], token);
    }
    if (!response.support_size.empty() &&
        response.support_size[at] != (bad ? 0 : good.support_size[at])) {
      return fmt::format("{} {} has support size {}, expected {}", bad ? "the row" : "batch-mate",
                         i, response.support_size[at], bad ? 0 : good.support_size[at]);
    }
  }
  const bool row_failed = status != RowStatus::inactive && status != RowStatus::index_out_of_range;
  if (response.mask.empty() || !row_failed) return {};
  for (std::int64_t token = 0; token < request.vocab; ++token) {
    if (response.kept(row, request.vocab, token)) {
      return fmt::format("the mask of the failed row holds token {}", token);
    }
  }
  return {};
}

// The same rows through `indices`, two outputs a row and in falling order, three samples each: a
// status belongs to the output, and all of its samples are -1, or none is. Without statuses too: no
// row becomes good because it is not read.
std::string judge_outputs(Sampler& sampler, const Request& rows, std::int64_t bad,
                          RowStatus status) {
  Request request = rows;
  if (request.with_indices) return {};  // the fault is in the indices
  request.with_indices = true;
  request.num_samples = 3;
  request.seed.clear();
  request.offset.clear();
  for (std::int64_t i = 0; i < 2 * rows.rows; ++i) {
    const std::int64_t row = rows.rows - 1 - i / 2;
    request.indices.push_back(static_cast<std::int32_t>(row));
    request.seed.push_back(static_cast<std::uint64_t>(i));
    request.offset.push_back(0);
  }
  if (!missing_ability(sampler.description(), request).empty()) return {};
  for (const bool asked : {true, false}) {
    const WantedResults wanted =
        reported(sampler.description(), request, {.statuses = asked, .logprobs = asked});
    const Response response = run_request(sampler, request, wanted);
    if (!response.ran()) return response.trouble();
    for (std::size_t i = 0; i < request.indices.size(); ++i) {
      const bool fails = request.indices[i] == bad;
      const auto expected = static_cast<std::int32_t>(fails ? status : RowStatus::ok);
      if (asked && response.statuses[i] != expected) {
        return fmt::format("output {} of row {} has status {}, expected {}", i, request.indices[i],
                           response.statuses[i], to_string(static_cast<RowStatus>(expected)));
      }
      for (std::size_t at = 3 * i; at < 3 * i + 3; ++at) {
        const std::int32_t token = response.tokens[at];
        if (fails ? token != -1 : token < 0 || token >= request.vocab) {
          return fmt::format("output {} of row {} gives token {} as sample {}{}", i,
                             request.indices[i], token, at - 3 * i,
                             asked ? "" : ", where no status is asked for");
        }
        if (fails && !response.logprob.empty() && response.logprob[at] != -kInfinity) {
          return fmt::format("output {} of row {} has log-probability {}, expected -inf", i,
                             request.indices[i], response.logprob[at]);
        }
      }
    }
  }
  return {};
}

}  // namespace

CheckOutcome check_status(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.reports_status) return skipped("reports no statuses");
  if (input.semantics.name != "fairdraw") {
    return skipped("statuses are those of semantics fairdraw");
  }
  if (!sampler.per_request_seeds) return skipped("has no per-request seeds");
  const Request base = make_request(input, 0, input.rows);
  if (const std::string lacks = missing_ability(sampler, base); !lacks.empty()) {
    return skipped(lacks);
  }
  const WantedResults wanted =
      reported(sampler, base, {.statuses = true, .support_size = true, .mask = true});
  const Response good = run_request(*input.sampler, base, wanted);
  CheckOutcome outcome;
  if (!good.ran()) return outcome.fail(good.trouble());
  outcome.rows = static_cast<std::uint64_t>(input.rows);
  for (std::size_t i = 0; i < good.statuses.size(); ++i) {
    if (good.statuses[i] != 0) {
      return outcome.fail(fmt::format("a good row {} has status {}", i, good.statuses[i]));
    }
  }

  std::int64_t row = 0;
  for (const Fault& fault : all_faults(base.input, base.vocab)) {
    row = (row + 1) % base.rows;
    Request request = base;
    fault.mutation(request, row);
    if (!missing_ability(sampler, request).empty()) continue;
    ++outcome.measures["faults"];
    outcome.draws += static_cast<std::uint64_t>(base.rows);
    const Response response = run_request(*input.sampler, request, wanted);
    std::string wrong =
        response.ran() ? judge(request, response, good, row, fault.status) : response.trouble();
    if (wrong.empty()) wrong = judge_outputs(*input.sampler, request, row, fault.status);
    if (!wrong.empty()) {
      return outcome.fail(fmt::format("{} in row {} of {}: {}", fault.name, row, base.rows, wrong));
    }
  }
  outcome.message = fmt::format("{} kinds of bad rows have their status and touch no other row",
                                outcome.measures["faults"]);
  return outcome;
}

}  // namespace fairdraw::harness
