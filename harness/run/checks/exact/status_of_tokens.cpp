// Judges bad rows by their tokens, for samplers that report no statuses, or that follow an engine
// whose statuses have no numbers here.
//
// This check cannot detect which fault made a row fail.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/faults.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;
using reference::RealDistribution;

// The profile's answer for one row of a request.
struct Row {
  bool judged = true;
  bool fails = false;
  RealDistribution distribution;  // distribution of a row that does not fail
};

Row row_under_profile(const CheckInput& input, const Request& request, std::int64_t row) {
  Row result;
  result.distribution = distribution_of(input, request, row);
  result.judged = result.distribution.defined || result.distribution.must_fail;
  result.fails = result.distribution.must_fail;
  return result;
}

// Returns the row that has the fault. Padding, and indices that are no rows, have no token under
// any profile; the profile decides about the other faults.
Row faulty_row(const CheckInput& input, const Request& request, const Fault& fault,
               std::int64_t row) {
  if (fault.status == RowStatus::inactive || fault.status == RowStatus::index_out_of_range) {
    Row result;
    result.fails = true;
    return result;
  }
  return row_under_profile(input, request, row);
}

class Judge {
 public:
  Judge(const CheckInput& input, const Request& base)
      : input_(input), sampler_(input.sampler->description()), base_(base) {
    for (std::int64_t row = 0; row < base.rows; ++row) {
      good_.push_back(row_under_profile(input, base, row));
    }
  }

  // Draws the good rows, with one sample per output and with three samples. Returns the reason why
  // these draws failed, or an empty string if they did not.
  std::string draw_good() {
    for (const std::int32_t samples : samples_asked()) {
      const Response response = run(base_, samples);
      if (response.damage.empty() && !response.refused.empty() && may_refuse(input_, base_)) {
        tokens_.emplace_back();
        continue;
      }
      if (!response.ran()) return response.trouble();
      tokens_.push_back(response.tokens);
      const std::string wrong = fault_of(response, samples, good_, -1);
      if (!wrong.empty()) return "among good rows " + wrong;
    }
    return {};
  }

  // Returns the number of faults so far for which the profile defines the result of the row itself.
  std::int64_t rows_judged() const { return rows_judged_; }

  std::string wrong_with(const Fault& fault, std::int64_t bad, const Request& request) {
    std::vector<Row> rows = good_;
    rows[static_cast<std::size_t>(bad)] = faulty_row(input_, request, fault, bad);
    const Row& row = rows[static_cast<std::size_t>(bad)];
    if (row.judged) ++rows_judged_;
    // If the profile does not define the row, the call may end in any way; if the row must fail,
    // the call may be refused if no status can be reported.
    const bool may_end = !row.judged || (row.fails && !sampler_.reports_status);
    for (const std::int32_t samples : samples_asked()) {
      const Response response = run(request, samples);
      if (!response.damage.empty()) return response.damage;
      if (!response.refused.empty()) {
        if (may_end || may_refuse(input_, base_)) continue;
        return response.trouble();
      }
      if (const std::string wrong = fault_of(response, samples, rows, bad); !wrong.empty()) {
        return wrong;
      }
    }
    return {};
  }

 private:
  std::vector<std::int32_t> samples_asked() const {
    return sampler_.num_samples ? std::vector<std::int32_t>{1, 3} : std::vector<std::int32_t>{1};
  }

  Response run(Request request, std::int32_t samples) const {
    request.num_samples = samples;
    return run_request(*input_.sampler, request, reported(sampler_, request, {.statuses = true}));
  }

  std::string fault_of(const Response& response, std::int32_t samples, const std::vector<Row>& rows,
                       std::int64_t bad) const {
    const auto count = static_cast<std::size_t>(samples);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].judged) continue;
      const char* const whose = static_cast<std::int64_t>(i) == bad ? "the row" : "batch-mate";
      const bool reports = !response.statuses.empty();
      if (reports && (response.statuses[i] != 0) != rows[i].fails) {
        return fmt::format("{} {} has status {}", whose, i, response.statuses[i]);
      }
      for (std::size_t at = i * count; at < (i + 1) * count; ++at) {
        const std::int32_t token = response.tokens[at];
        if (const char* const what = fault_of_token(rows[i], token); what != nullptr) {
          return fmt::format("{} {} gives token {} as sample {}, {}", whose, i, token,
                             at - i * count, what);
        }
        // The row, seed and offset are those of the call with good rows.
        const std::vector<std::int32_t>* const before = drawn_before(count);
        const bool again = sampler_.per_request_seeds && static_cast<std::int64_t>(i) != bad;
        if (!again || before == nullptr || (*before)[at] == token) continue;
        return fmt::format("{} {} gives token {}, and {} among good rows", whose, i, token,
                           (*before)[at]);
      }
    }
    return {};
  }

  const std::vector<std::int32_t>* drawn_before(std::size_t samples) const {
    const std::size_t at = samples == 1 ? 0 : 1;
    return at < tokens_.size() && !tokens_[at].empty() ? &tokens_[at] : nullptr;
  }

  // Returns the reason why the row must not give this token, or null if it may.
  const char* fault_of_token(const Row& row, std::int32_t token) const {
    if (row.fails) return token == -1 ? nullptr : "and must give none";
    if (token < 0 || token >= base_.vocab) return "outside of the vocabulary";
    const bool out =
        row.distribution.membership[static_cast<std::size_t>(token)] == Membership::out;
    return out ? "outside of the support" : nullptr;
  }

  const CheckInput& input_;
  const SamplerDescription& sampler_;
  const Request& base_;
  std::vector<Row> good_;
  std::vector<std::vector<std::int32_t>> tokens_;  // tokens of each call, in the order of
                                                   // samples_asked()
  std::int64_t rows_judged_ = 0;
};

}  // namespace

CheckOutcome check_status_of_tokens(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  const Request base = make_request(input, 0, input.rows);
  if (const Lack lacks = lack_for(sampler, base); !lacks.empty()) {
    return skipped(lacks);
  }
  CheckOutcome outcome;
  outcome.rows = static_cast<std::uint64_t>(input.rows);
  Judge judge(input, base);
  if (const std::string wrong = judge.draw_good(); !wrong.empty()) return outcome.fail(wrong);
  judge_faults(
      input, base,
      [&judge](const Fault& fault, std::int64_t row, const Request& request) {
        return judge.wrong_with(fault, row, request);
      },
      outcome);
  if (outcome.failed()) return outcome;
  outcome.measures["faults_judged"] = static_cast<double>(judge.rows_judged());
  outcome.message = fmt::format(
      "{} kinds of bad rows change no other row, and {} of these kinds give the results that "
      "semantics {} defines",
      outcome.measures["faults"], judge.rows_judged(), input.semantics.name);
  return outcome;
}

}  // namespace fairdraw::harness
