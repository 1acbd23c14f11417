// Rows that are not valid, one fault at a time. For the two forms of the check `status`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// One mutation of row `row` of a request, and what must become of it under semantics fairdraw.
struct Fault {
  std::string name;
  RowStatus status;
  std::function<void(Request&, std::int64_t row)> mutation;
};

std::vector<Fault> all_faults(RowInput input, std::int64_t vocab);

/// What is wrong with a request that has the fault in its row; empty: nothing. Of another row it
/// begins with "batch-mate".
using WrongWith = std::function<std::string(const Fault&, std::int64_t row, const Request&)>;

/// Puts each fault that the sampler can be asked for into a row of `base`, one after the other. The
/// outcome fails with the first that something is wrong with.
void judge_faults(const CheckInput& input, const Request& base, const WrongWith& wrong_with,
                  CheckOutcome& outcome);

/// The check under the profiles of engines, and where no statuses are reported or no draw can be
/// asked for again: no token for rows that must fail, or, without statuses, no call; a token of its
/// support, and with per-request seeds the same one, for every batch-mate. Of a row that the
/// profile says nothing about only the batch-mates are judged.
CheckOutcome check_status_of_tokens(const CheckInput& input);

}  // namespace fairdraw::harness
