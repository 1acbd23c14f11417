// Neighbours of a failed case: the same case with a smaller vocabulary, with fewer rows in a call,
// with its rows at other places, or with rows without a parameter. They tell conditions that the
// rows of a single case cannot tell.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/run/calls/conditions.h"
#include "harness/run/runner.h"
#include "harness/run/time_limit.h"

namespace fairdraw::suites {

/// Returns the size of the vocabulary above which failed cases are wrong; 0 if there is none, or if
/// chance explains the size with a probability above `max_chance`. Up to six cases are repeated at
/// smaller sizes, and must pass up to the same size and fail at the next one. A mistake that is
/// only rarer at small sizes ends at another size in each case. Cases of draws name no size if the
/// next size that is tried is several times as large. Precondition: all jobs have neighbours.
std::int64_t largest_right_vocab(const std::vector<const harness::Job*>& jobs, double max_chance,
                                 const harness::TimeLimit& limit);

/// Returns whether the case's check chooses how many equal requests a call has, however many rows
/// the case has.
bool chooses_calls(const harness::Job& job);

/// Returns whether all rows of a failed case are right in calls of at most `rows` rows.
bool is_right_in_calls_of(const harness::Job& job, std::int64_t rows);

/// Returns the largest number of rows of a call for which a condition on this number does not hold.
std::int64_t largest_call_without(const harness::Condition& condition);

/// Returns a failed case with other logits and random words, which `seed` chooses (0: its own), and
/// with rows without the parameter `subject`, which say the same if they can. An empty subject
/// leaves them as they are.
harness::Job resaid(const harness::Job& job, std::uint64_t seed, std::string_view subject);

/// Returns a case with other logits, and with each row `shift` places further to the front of its
/// call if the call has more rows. A mistake of a row's parameters moves with the row, and a
/// mistake of a place does not.
harness::Job shifted(const harness::Job& job, std::int64_t shift);

}  // namespace fairdraw::suites
