#include "suites/gate/identify/neighbours.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

#include "harness/run/evidence/record.h"
#include "suites/gate/identify/condition_choice.h"

namespace fairdraw::suites {
namespace {

using harness::Job;
using harness::Variation;
using harness::Verdict;

Verdict verdict_of(const Job& job, const Variation& variation) {
  return harness::run_jobs({job.neighbour(variation)}, 1, {}).front().verdict;
}

// Sizes of vocabularies at which a case passed and failed.
struct SizesSeen {
  std::int64_t largest_right = 0;    // below all sizes at which it failed
  std::size_t right = 0;             // number of sizes below all those at which it failed
  std::size_t above = 0, wrong = 0;  // number of all other sizes, and of those at which it failed
};

// Repeats a failed case at other sizes, from the smallest, until it failed at some of them. A case
// of a small vocabulary is repeated at some larger sizes, too, as few sizes are below its own.
SizesSeen sizes_seen(const Job& job) {
  constexpr std::int64_t kSizes[] = {31,  45,  62,  90,   125,  180,   250,
                                     350, 500, 700, 1000, 2000, 16000, 65000};
  constexpr std::size_t kMostWrong = 3;
  constexpr std::int64_t kLargest = 4;  // times its own size
  const auto own = static_cast<std::int64_t>(job.record.vocab);
  SizesSeen seen;
  for (const std::int64_t size : kSizes) {
    if (size > kLargest * own || seen.wrong == kMostWrong) break;
    if (size == own) continue;
    const Verdict verdict = verdict_of(job, {.vocab = size});
    if (verdict == Verdict::failed) ++seen.wrong;
    if (verdict != Verdict::passed && verdict != Verdict::failed) continue;
    if (seen.wrong > 0) {
      ++seen.above;
    } else {
      ++seen.right;
      seen.largest_right = size;
    }
  }
  ++seen.above, ++seen.wrong;  // its own size
  return seen;
}

}  // namespace

std::int64_t largest_right_vocab(const std::vector<const Job*>& jobs, double max_chance,
                                 const harness::TimeLimit& limit) {
  static const std::set<std::string> of_large_vocab = {"streams", "pit"};  // see little in few ids
  constexpr std::size_t kCases = 6;
  constexpr std::int64_t kLeast = 62;  // so that each case passes at some sizes
  // The next size is several times as large. A mistake that draws show less often in fewer tokens
  // may end between them.
  constexpr std::int64_t kMostOfDraws = 2000;
  constexpr double kSeconds = 60;
  const harness::TimeLimit own_limit(kSeconds);
  std::size_t cases = 0, right = 0, above = 0, wrong = 0;
  std::int64_t size = 0;
  for (const Job* const job : jobs) {
    if (of_large_vocab.contains(job->record.check)) continue;
    if (cases++ == kCases || limit.is_over() || own_limit.is_over()) break;
    const SizesSeen seen = sizes_seen(*job);
    const bool is_of_draws = harness::looks_at_tokens(job->record.check);
    if (is_of_draws && seen.largest_right >= kMostOfDraws) return 0;
    if (seen.largest_right < kLeast || (size != 0 && seen.largest_right != size)) return 0;
    size = seen.largest_right;
    right += seen.right;
    above += seen.above;
    wrong += seen.wrong;
  }
  return chance_that_all_have(right + above, above, wrong) <= max_chance ? size : 0;
}

bool chooses_calls(const Job& job) {
  static const std::set<std::string> checks = {"boundaries", "chi_squared", "bets",
                                               "binomial",   "streams",     "chain_law",
                                               "verify_law", "tree_law"};
  return checks.contains(job.record.check);
}

bool is_right_in_calls_of(const Job& job, std::int64_t rows) {
  if (chooses_calls(job)) {
    return verdict_of(job, {.requests_of_call = rows}) == Verdict::passed;
  }
  const auto all = static_cast<std::int64_t>(job.record.rows);
  for (std::int64_t first = 0; first < all; first += rows) {
    const std::int64_t some = std::min(rows, all - first);
    if (verdict_of(job, {.first_row = first, .rows = some}) != Verdict::passed) return false;
  }
  return true;
}

std::int64_t largest_call_without(const harness::Condition& condition) {
  harness::RowFacts row;
  while (!condition.holds(row)) ++row.rows;
  return row.rows - 1;
}

Job resaid(const Job& job, std::uint64_t seed, std::string_view subject) {
  return job.neighbour({.seed = seed, .without = subject});
}

Job shifted(const Job& job, std::int64_t shift) {
  Variation other = {.seed = static_cast<std::uint64_t>(shift)};
  const auto rows = static_cast<std::int64_t>(job.record.rows);
  if (rows > shift) {
    other.first_row = shift;
    other.rows = rows - shift;
  }
  return job.neighbour(other);
}

}  // namespace fairdraw::suites
