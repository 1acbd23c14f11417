#include "harness/run/checks/exact/processing_faults.h"

#include <fmt/format.h>

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/inputs/processing_rows.h"
#include "harness/inputs/special_floats.h"
#include "harness/run/evidence/abilities.h"

namespace fairdraw::harness {
namespace {

using reference::RowProcessing;

struct BadValue {
  std::string name;
  std::function<void(RowProcessing&, std::span<float> logits)> put;
};

std::vector<BadValue> bad_values(const SamplerDescription& sampler) {
  std::vector<BadValue> values;
  for (int fault = 1; fault < kProcessingFaults; ++fault) {
    values.push_back(
        {fmt::format("fault {}", fault), [fault](RowProcessing& row, std::span<float> logits) {
           mutate(row, static_cast<ProcessingFault>(fault), logits);
         }});
  }
  // A penalty above 1 multiplies negative logits, and twice the lowest float is -inf.
  values.push_back(
      {"a logit that overflows downwards", [](RowProcessing& row, std::span<float> logits) {
         logits.back() = std::numeric_limits<float>::lowest();
         row.prompt.push_back(static_cast<std::int32_t>(logits.size()) - 1);
         row.repetition_penalty = 2;
       }});
  if (sampler.top_n_sigma) {
    values.push_back(
        {"top_n_sigma NaN", [](RowProcessing& row, std::span<float>) { row.top_n_sigma = kNan; }});
  }
  if (sampler.probability_filters) {
    values.push_back(
        {"typical_p NaN", [](RowProcessing& row, std::span<float>) { row.typical_p = kNan; }});
    values.push_back({"epsilon_cutoff below 0",
                      [](RowProcessing& row, std::span<float>) { row.epsilon_cutoff = -0.5F; }});
    values.push_back(
        {"eta_cutoff above 1", [](RowProcessing& row, std::span<float>) { row.eta_cutoff = 2; }});
    values.push_back({"p_less 2", [](RowProcessing& row, std::span<float>) { row.p_less = 2; }});
    values.push_back({"top_h NaN", [](RowProcessing& row, std::span<float>) { row.top_h = kNan; }});
    values.push_back({"xtc_threshold 2", [](RowProcessing& row, std::span<float>) {
                        row.xtc_probability = 0.5F;
                        row.xtc_threshold = 2;
                      }});
    values.push_back({"filter_chain with an empty place",
                      [](RowProcessing& row, std::span<float>) { row.filter_chain = 0x20; }});
    values.push_back({"filter_chain with a step 13",
                      [](RowProcessing& row, std::span<float>) { row.filter_chain = 0xd; }});
    values.push_back({"filter_chain with a step after adaptive_p",
                      [](RowProcessing& row, std::span<float>) { row.filter_chain = 0x1c; }});
    values.push_back({"adaptive_target above 1",
                      [](RowProcessing& row, std::span<float>) { row.adaptive_target = 1.5F; }});
    values.push_back({"chain_temperature 0",
                      [](RowProcessing& row, std::span<float>) { row.chain_temperature = 0; }});
    values.push_back(
        {"chain_top_k -2", [](RowProcessing& row, std::span<float>) { row.chain_top_k = -2; }});
    values.push_back({"dynatemp_range -1",
                      [](RowProcessing& row, std::span<float>) { row.dynatemp_range = -1; }});
    values.push_back({"dynatemp_exponent NaN",
                      [](RowProcessing& row, std::span<float>) { row.dynatemp_exponent = kNan; }});
    values.push_back(
        {"chain_min_p NaN", [](RowProcessing& row, std::span<float>) { row.chain_min_p = kNan; }});
  }
  if (sampler.history_rules) {
    values.push_back({"penalty_window -2",
                      [](RowProcessing& row, std::span<float>) { row.penalty_window = -2; }});
    values.push_back({"counts_of_prompt 2",
                      [](RowProcessing& row, std::span<float>) { row.counts_of_prompt = 2; }});
    values.push_back({"no_repeat_ngram_size -1",
                      [](RowProcessing& row, std::span<float>) { row.no_repeat_ngram_size = -1; }});
    values.push_back({"dry_multiplier -1",
                      [](RowProcessing& row, std::span<float>) { row.dry_multiplier = -1; }});
    values.push_back(
        {"dry_base 0.5", [](RowProcessing& row, std::span<float>) { row.dry_base = 0.5F; }});
    values.push_back(
        {"forced_delay -1", [](RowProcessing& row, std::span<float>) { row.forced_delay = -1; }});
    values.push_back(
        {"top_p_decay 0", [](RowProcessing& row, std::span<float>) { row.top_p_decay = 0; }});
    values.push_back({"top_p_min above 1", [](RowProcessing& row, std::span<float>) {
                        row.top_p_decay = 0.5F;
                        row.top_p_min = 2;
                      }});
    values.push_back(
        {"a forced token beyond the vocabulary", [](RowProcessing& row, std::span<float> logits) {
           row.forced_tokens.push_back(static_cast<std::int32_t>(logits.size()));
         }});
  }
  return values;
}

// Returns the status that the profile gives the row with a bad value: under fairdraw the status of
// this value, under other profiles a failure if the steps fail.
RowStatus status_of_bad(const CheckInput& input, const Request& request, std::int64_t bad) {
  return input.semantics.name == "fairdraw" ? model_of(request, bad).status
                                            : processed_row(request, bad).status;
}

// Returns the reason why the answer for a row is not right, or an empty string if it is. The
// argument `status` is the status of the bad row.
std::string wrong_beside(const CheckInput& input, const Response& response, const Response& before,
                         std::int64_t row, std::int64_t bad, RowStatus status) {
  const SamplerDescription& sampler = input.sampler->description();
  const auto at = static_cast<std::size_t>(row);
  const bool own = input.semantics.name == "fairdraw", reports = !before.statuses.empty();
  const std::int32_t token = response.tokens[at];
  const std::int32_t given = reports ? response.statuses[at] : 0;
  const auto text = [&](std::string_view expected) {
    return fmt::format("row {} has status {} and token {}, expected {}", row,
                       reports ? std::to_string(given) : "none", token, expected);
  };
  if (row == bad) {
    const bool fails = status != RowStatus::ok;
    if (!fails && !own) return {};  // because other checks judge this row
    const auto number = static_cast<std::int32_t>(status);
    const bool right_status = !reports || (own ? given == number : given != 0);
    return (!fails || token == -1) && right_status ? "" : text(to_string(status));
  }
  if (reports && given != before.statuses[at]) {
    return text(to_string(static_cast<RowStatus>(before.statuses[at])));
  }
  if (sampler.per_request_seeds) {
    return token == before.tokens[at] ? "" : text(fmt::format("token {}", before.tokens[at]));
  }
  const bool in_range = token >= -1 && token < input.logits->vocab();
  return in_range ? "" : text("a token");
}

}  // namespace

void expect_bad_processing_fails(const CheckInput& input, const Request& good,
                                 CheckOutcome& outcome) {
  if (!input.sampler->description().bad_rows) {
    outcome.leave_out(lack_of("bad_rows"));
    return;
  }
  const WantedResults wanted = reported(input.sampler->description(), good, {.statuses = true});
  const Response before = run_request(*input.sampler, good, wanted);
  if (!before.ran()) {
    // A good row may have parameters that the profile refuses.
    const bool refused = before.damage.empty() && may_refuse(input, good);
    if (!refused) outcome.fail(before.trouble());
    return;
  }
  std::int64_t bad = 0;
  for (const BadValue& value : bad_values(input.sampler->description())) {
    if (outcome.failed()) return;
    bad = (bad + 1) % good.rows;
    Request request = good;
    value.put(request.processing[static_cast<std::size_t>(bad)],
              std::span(request.logits)
                  .subspan(static_cast<std::size_t>(bad * good.vocab),
                           static_cast<std::size_t>(good.vocab)));
    // The 16-bit dtypes cannot represent the largest float32.
    for (float& x : request.logits) x = rounded_to(request.dtype, x);
    const RowStatus status = status_of_bad(input, request, bad);
    const Response response = run_request(*input.sampler, request, wanted);
    ++outcome.measures["faults"];
    // A sampler without statuses may refuse a call because of a row with a bad value.
    const bool refused =
        before.statuses.empty() && response.damage.empty() && !response.refused.empty();
    if (refused && status != RowStatus::ok) continue;
    if (!response.ran()) {
      outcome.fail(response.trouble());
      return;
    }
    for (std::int64_t row = 0; row < good.rows; ++row) {
      const std::string wrong = wrong_beside(input, response, before, row, bad, status);
      if (wrong.empty()) continue;
      outcome.fail(fmt::format("{} in row {}: {}", value.name, bad, wrong));
      return;
    }
  }
}

}  // namespace fairdraw::harness
