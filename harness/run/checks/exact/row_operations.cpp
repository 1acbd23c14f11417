// Judges operations on rows: softmax, log-softmax, masks of logits, and probabilities over the
// tokens that a filter keeps. The oracle judges every row in every form of the call: one parameter
// per row and one for all, gaps between rows, the result in the memory of the rows, rows in another
// order and one by one, bad rows in between, no rows.
//
// This check cannot detect an error within the bounds of float32 (reference/operation_bound.h), nor
// wrong results of bad rows if the sampler reports no statuses.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/expected_operation.h"

namespace fairdraw::harness {
namespace {

// Returns "top_k 50".
std::string parameter_text(OperationKind kind, const reference::RowParameters& parameters) {
  switch (kind) {
    case OperationKind::softmax:
      return fmt::format("temperature {}", parameters.temperature);
    case OperationKind::log_softmax:
      return "no parameter";
    case OperationKind::top_k_mask_logits:
    case OperationKind::top_k_renorm_probs:
      return fmt::format("top_k {}", parameters.top_k);
    case OperationKind::min_p_mask_logits:
      return fmt::format("min_p {}", parameters.min_p);
    case OperationKind::top_p_renorm_probs:
      return fmt::format("top_p {}", parameters.top_p);
  }
  return {};
}

// Makes the operation's parameter invalid, for one row among good rows.
void make_invalid(OperationKind kind, reference::RowParameters& parameters) {
  switch (kind) {
    case OperationKind::softmax:
      parameters.temperature = std::numeric_limits<float>::quiet_NaN();
      break;
    case OperationKind::log_softmax:
      break;
    case OperationKind::top_k_mask_logits:
    case OperationKind::top_k_renorm_probs:
      parameters.top_k = -7;
      break;
    case OperationKind::min_p_mask_logits:
      parameters.min_p = 1.5F;
      break;
    case OperationKind::top_p_renorm_probs:
      parameters.top_p = 1.5F;
      break;
  }
}

// Makes a row bad in one of four ways, which `way` modulo 4 selects.
void spoil(OperationKind kind, std::int64_t way, std::span<float> row,
           reference::RowParameters& parameters) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float& middle = row[row.size() / 2];
  switch (way % 4) {
    case 0:
      middle = std::numeric_limits<float>::quiet_NaN();
      break;
    case 1:
      middle = kInfinity;
      break;
    case 2:  // makes a row without an allowed token
      std::ranges::fill(row, takes_probabilities(kind) ? 0.0F : -kInfinity);
      break;
    case 3:
      make_invalid(kind, parameters);
      if (takes_probabilities(kind)) middle = -1;
      break;
  }
}

class OperationCase {
 public:
  OperationCase(const CheckInput& input, OperationKind kind)
      : input_(input),
        sampler_(input.sampler->description()),
        kind_(kind),
        rows_(operation_rows(input, kind)) {
    for (std::int64_t row = 0; row < rows_.rows(); ++row) expected_.push_back(expected(rows_, row));
  }

  bool judges_any() const {
    return std::ranges::any_of(expected_, [](const ExpectedRow& row) { return row.is_judged(); });
  }

  void judge(CheckOutcome& outcome) {
    outcome_ = &outcome;
    std::vector<std::int64_t> all(static_cast<std::size_t>(rows_.rows()));
    std::iota(all.begin(), all.end(), 0);
    ask("the call", all, {});
    ask("with rows apart in memory", all, {.gap = 3, .result_gap = 5, .shift = 1});
    std::vector<std::int64_t> reversed(all.rbegin(), all.rend());
    ask("with the rows in another order", reversed, {});
    ask_with_scalars();
    const bool same_dtype = result_dtype(sampler_, kind_, rows_.dtype) == rows_.dtype;
    const bool in_place =
        masks_logits(kind_) ? sampler_.masks_in_place : sampler_.operates_in_place;
    if (in_place && same_dtype) {
      ask("in place", all, {.in_place = true});
      ask("in place, with rows apart in memory", all, {.gap = 2, .in_place = true});
    }
    ask_among_bad_rows();
    ask("without rows", {}, {});
    for (const ExpectedRow& row : expected_) {
      if (!row.is_judged()) continue;
      ++outcome.rows;
      outcome.measures["ambiguous_tokens"] += static_cast<double>(row.ambiguous());
    }
  }

 private:
  struct Form {
    std::int64_t gap = 0, result_gap = 0, shift = 0;
    bool scalar = false, in_place = false;
    bool may_refuse = false;  // true if the whole call may be refused
  };

  ExpectedRow expected(const OperationRows& rows, std::int64_t row) const {
    return {input_, kind_, rows.row(row), rows.parameters[static_cast<std::size_t>(row)],
            rows.dtype};
  }

  void ask(const char* form_text, const std::vector<std::int64_t>& chosen, const Form& form) {
    ask(form_text, rows_, expected_, chosen, form);
  }

  // Judges one form of the call. The list `chosen` has the indices of the rows of the call, in the
  // order of the call.
  void ask(const char* form_text, const OperationRows& rows,
           const std::vector<ExpectedRow>& expected, const std::vector<std::int64_t>& chosen,
           const Form& form) {
    if (outcome_->failed()) return;
    OperationCall call;
    call.kind = kind_;
    call.dtype = rows.dtype;
    call.result_dtype = result_dtype(sampler_, kind_, rows.dtype);
    call.rows = static_cast<std::int64_t>(chosen.size());
    call.vocab = rows.vocab;
    call.gap = form.gap;
    call.result_gap = form.result_gap;
    call.shift = form.shift;
    call.in_place = form.in_place;
    call.parameter_is_scalar = form.scalar;
    for (const std::int64_t row : chosen) {
      const auto values = rows.row(row);
      call.values.insert(call.values.end(), values.begin(), values.end());
      call.parameters.push_back(rows.parameters[static_cast<std::size_t>(row)]);
    }
    const OperationAnswer answer = run_operation(*input_.sampler, call);
    ++outcome_->measures["calls"];
    if (form.may_refuse && answer.damage.empty() && !answer.refused.empty()) return;
    if (!answer.ran()) {
      outcome_->fail(fmt::format("{}: {}", form_text, answer.trouble()));
      return;
    }
    for (std::size_t at = 0; at < chosen.size(); ++at) {
      const std::int64_t row = chosen[at];
      const auto vocab = static_cast<std::size_t>(rows.vocab);
      std::optional<std::int32_t> status;
      if (!answer.statuses.empty()) status = answer.statuses[at];
      const OperationTrouble trouble = expected[static_cast<std::size_t>(row)].compare(
          std::span(answer.result).subspan(at * vocab, vocab), status);
      if (trouble.what.empty()) continue;
      note(form_text, trouble);
      outcome_->fail(fmt::format(
          "{}: row {} ({}): {}", form_text, row,
          parameter_text(kind_, rows.parameters[static_cast<std::size_t>(row)]), trouble.what));
      return;
    }
  }

  void note(const char* form_text, const OperationTrouble& trouble) {
    const std::string form = form_text;
    auto& suspects = outcome_->evidence.suspects;
    if (form != "the call") {
      suspects.push_back(
          {"row operations: the form of the call, " + form,
           "the same rows with a parameter each and nothing between them are right"});
    }
    suspects.push_back({trouble.bug, trouble.reason});
  }

  // Makes calls with one parameter for all rows: rows with equal parameters together, and each row
  // alone.
  void ask_with_scalars() {
    if (kind_ == OperationKind::log_softmax) return;
    const auto size = static_cast<std::int64_t>(input_.parameters.size());
    for (std::int64_t first = 0; first < std::min(size, rows_.rows()); ++first) {
      std::vector<std::int64_t> alike;
      for (std::int64_t row = first; row < rows_.rows(); row += size) alike.push_back(row);
      ask("with one parameter for all rows", alike, {.scalar = true});
    }
  }

  // Makes every second row of the call bad. Bad rows are judged if the sampler reports statuses; a
  // sampler that reports none may refuse the call.
  void ask_among_bad_rows() {
    if (!sampler_.bad_rows) {
      outcome_->leave_out(lack_of("bad_rows"));
      return;
    }
    constexpr std::int64_t kMaxRows = 16;
    const std::int64_t count = std::min(rows_.rows(), kMaxRows);
    OperationRows mixed;
    mixed.dtype = rows_.dtype;
    mixed.vocab = rows_.vocab;
    mixed.values.assign(rows_.values.begin(),
                        rows_.values.begin() + static_cast<std::ptrdiff_t>(count * rows_.vocab));
    mixed.parameters.assign(rows_.parameters.begin(),
                            rows_.parameters.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::int64_t row = 1; row < count; row += 2) {
      spoil(kind_, row / 2, mixed.row(row), mixed.parameters[static_cast<std::size_t>(row)]);
    }
    std::vector<ExpectedRow> expected_rows;
    std::vector<std::int64_t> all;
    bool any_must_fail = false;
    for (std::int64_t row = 0; row < count; ++row) {
      expected_rows.push_back(expected(mixed, row));
      any_must_fail = any_must_fail || !expected_rows.back().is_judged();
      all.push_back(row);
    }
    if (!any_must_fail) return;
    ask("among bad rows", mixed, expected_rows, all, {.may_refuse = !sampler_.reports_status});
  }

  const CheckInput& input_;
  const SamplerDescription& sampler_;
  OperationKind kind_;
  OperationRows rows_;
  std::vector<ExpectedRow> expected_;
  CheckOutcome* outcome_ = nullptr;
};

CheckOutcome check_operation(const CheckInput& input, OperationKind kind) {
  const SamplerDescription& sampler = input.sampler->description();
  const DType dtype = input.logits->dtype();
  if (!has_operation(sampler, kind)) {
    return skipped(lack_of(to_string(kind)));
  }
  if ((dtype == DType::float16 && !sampler.float16) ||
      (dtype == DType::bfloat16 && !sampler.bfloat16)) {
    return skipped(lack_of(to_string(dtype)));
  }
  CheckOutcome outcome;
  OperationCase rows(input, kind);
  if (!rows.judges_any()) {
    return skipped("semantics " + input.semantics.name + " defines none of these rows");
  }
  rows.judge(outcome);
  if (outcome.failed()) return outcome;
  outcome.message =
      fmt::format("results of {} rows agree in {} calls, {} tokens open", outcome.rows,
                  outcome.measures["calls"], outcome.measures["ambiguous_tokens"]);
  return outcome;
}

}  // namespace

CheckOutcome check_softmax(const CheckInput& input) {
  return check_operation(input, OperationKind::softmax);
}

CheckOutcome check_log_softmax(const CheckInput& input) {
  return check_operation(input, OperationKind::log_softmax);
}

CheckOutcome check_top_k_mask_logits(const CheckInput& input) {
  return check_operation(input, OperationKind::top_k_mask_logits);
}

CheckOutcome check_min_p_mask_logits(const CheckInput& input) {
  return check_operation(input, OperationKind::min_p_mask_logits);
}

CheckOutcome check_top_k_renorm_probs(const CheckInput& input) {
  return check_operation(input, OperationKind::top_k_renorm_probs);
}

CheckOutcome check_top_p_renorm_probs(const CheckInput& input) {
  return check_operation(input, OperationKind::top_p_renorm_probs);
}

}  // namespace fairdraw::harness
