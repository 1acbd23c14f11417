#include "harness/run/checks/exact/faults.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "harness/inputs/special_floats.h"

namespace fairdraw::harness {
namespace {

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

}  // namespace

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
                      // The row has NaN, because a sampler must not read it.
                      fill_row(request, row, kNan);
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

void judge_faults(const CheckInput& input, const Request& base, const WrongWith& wrong_with,
                  CheckOutcome& outcome) {
  // The row of each fault follows the row of the previous fault at a distance of five eighths of
  // the batch, so that some faults are near the end of a large batch and others near its start.
  const std::int64_t step = base.rows * 5 / 8 + 1;
  std::int64_t row = 0;
  for (const Fault& fault : all_faults(base.input, base.vocab)) {
    row = (row + step) % base.rows;
    // Padding does not count as a bad row, because engines themselves add padding.
    if (!input.sampler->description().bad_rows && fault.status != RowStatus::inactive) {
      outcome.leave_out(lack_of("bad_rows"));
      continue;
    }
    Request request = base;
    fault.mutation(request, row);
    if (is_left_out(input, request, outcome)) continue;
    ++outcome.measures["faults"];
    outcome.draws += static_cast<std::uint64_t>(base.rows);
    const std::string wrong = wrong_with(fault, row, request);
    if (wrong.empty()) continue;
    if (wrong.starts_with("batch-mate")) {
      outcome.evidence.suspects.push_back(
          {"batch dependence: a bad row changes its neighbours", wrong});
    }
    if (fault.status == RowStatus::inactive) {
      outcome.evidence.suspects.push_back({"batches: rows of padding", wrong});
    }
    outcome.fail(fmt::format("{} in row {} of {}: {}", fault.name, row, base.rows, wrong));
    return;
  }
}

}  // namespace fairdraw::harness
