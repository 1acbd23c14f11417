// Makes one step of beam search on the CPU.
//
// Contract. The rules are given in fairdraw/beam_search.h. Requests are independent of each other:
// an invalid request does not change a single bit of the results of other requests.
//
// Algorithm. First, the rows of all live beams are reduced in parallel to their best candidates
// (beam_candidates.cpp), which is most of the cost of the call. Then the requests are finished in
// parallel: the candidates of their beams are merged, sorted, and processed in order. The
// parameters of a request are checked first, and nothing is written for a request before its rows
// are known to be valid.
//
// Determinism. Candidates are totally ordered, the rounding of scores is defined, and rows are
// independent of each other, so neither the number of threads nor the instruction set changes a
// result.
#include "fairdraw/beam_search.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/arguments.h"
#include "cpu/batch.h"
#include "cpu/float_environment.h"
#include "serving/beam_candidates.h"
#include "serving/rules/beam_rules.h"

namespace fairdraw {
namespace {

/// Number of candidates below which a single thread ranks them faster than other threads wake up.
constexpr std::size_t kFewCandidates = std::size_t{1} << 14;

/// Single request of the call.
struct Request {
  BeamTerms terms;
  std::size_t first_row = 0;  // number of the request's first row among all rows of the call
};

struct Row {
  std::int64_t request = 0;
  std::int32_t beam = 0;
  RowStatus status = RowStatus::ok;
  std::size_t begin = 0, count = 0;  // its candidates
};

/// Buffers of a call, which later calls use again.
struct Workspace {
  std::vector<Request> requests;
  std::vector<Row> rows;
  std::vector<BeamCandidate> candidates;
  std::size_t planned = 0;  // number of candidates for which this call needs room
};

void plan(const BeamStepRequest& step, const BeamStepResult& result, Workspace& work) {
  work.requests.clear();
  work.rows.clear();
  std::size_t places = 0;
  const auto vocab = static_cast<std::size_t>(step.rows.vocab);
  for (std::int64_t r = 0; r < step.requests; ++r) {
    const BeamTerms terms = read_beam_terms(step, result, r);
    work.requests.push_back({terms, work.rows.size()});
    if (terms.status != RowStatus::ok) continue;
    for (std::int32_t beam = 0; beam < terms.live; ++beam) {
      work.rows.push_back({r, beam, RowStatus::ok, places, 0});
      places += std::min(static_cast<std::size_t>(terms.max_candidates), vocab);
    }
  }
  work.planned = places;
  if (work.candidates.size() < places) work.candidates.resize(places);
}

/// Finds the candidates of one row.
void find_candidates(const BeamStepRequest& step, Workspace& work, std::size_t i,
                     cpu::Worker& worker) {
  thread_local cpu::BeamCandidates finder;
  Row& row = work.rows[i];
  const BeamTerms& request = work.requests[static_cast<std::size_t>(row.request)].terms;
  const float* values =
      worker.reader.read(*worker.passes, step.rows, step.row_begins.data[row.request] + row.beam,
                         nullptr, false, row.status);
  if (row.status != RowStatus::ok) return;
  const auto vocab = static_cast<std::size_t>(step.rows.vocab);
  const float score = step.scores.data[row.request * step.max_width + row.beam];
  const std::vector<BeamCandidate>& found =
      finder.find(*worker.passes, *worker.tile_passes, values, vocab, step.input, score, row.beam,
                  std::min(static_cast<std::size_t>(request.max_candidates), vocab), row.status);
  row.count = found.size();
  std::copy(found.begin(), found.end(),
            work.candidates.begin() + static_cast<std::ptrdiff_t>(row.begin));
}

/// Collects the candidates of a request that are considered, in order.
RowStatus ranked_candidates(const Workspace& work, const Request& request,
                            std::vector<BeamCandidate>& ranked) {
  ranked.clear();
  for (std::int32_t beam = 0; beam < request.terms.live; ++beam) {
    const Row& row = work.rows[request.first_row + static_cast<std::size_t>(beam)];
    if (row.status != RowStatus::ok) return row.status;
    const auto begin = work.candidates.begin() + static_cast<std::ptrdiff_t>(row.begin);
    ranked.insert(ranked.end(), begin, begin + static_cast<std::ptrdiff_t>(row.count));
  }
  cpu::keep_best(ranked, static_cast<std::size_t>(request.terms.max_candidates));
  std::sort(ranked.begin(), ranked.end(), comes_before);
  return ranked.empty() ? RowStatus::no_allowed_token : RowStatus::ok;
}

void finish_request(const BeamStepRequest& step, const BeamStepResult& result,
                    const Workspace& work, std::int64_t r) {
  thread_local std::vector<BeamCandidate> ranked;
  const Request& request = work.requests[static_cast<std::size_t>(r)];
  RowStatus status = request.terms.status;
  if (status == RowStatus::ok) status = ranked_candidates(work, request, ranked);
  if (status == RowStatus::ok) {
    write_beam_step(step, result, r, request.terms, ranked.data(),
                    static_cast<std::int64_t>(ranked.size()));
  } else {
    write_unstepped(step, result, r, status == RowStatus::inactive ? request.terms.live : 0);
  }
  if (result.statuses.given()) result.statuses.data[r] = status;
}

}  // namespace

Error beam_search_step(const BeamStepRequest& request, const BeamStepResult& result,
                       const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_beam_step(request, result)) return error;
  thread_local Workspace own;
  Workspace& work = own;  // another thread would use a variable `own` of its own
  {
    // The function pow must run in the floating-point environment that scores require.
    const cpu::FloatEnvironment environment;
    plan(request, result, work);
  }
  cpu::for_each_row(static_cast<std::int64_t>(work.rows.size()), execution,
                    [&](std::int64_t i, cpu::Worker& worker) {
                      find_candidates(request, work, static_cast<std::size_t>(i), worker);
                    });
  Execution finish = execution;
  if (work.planned < kFewCandidates) finish.threads = 1;
  cpu::for_each_row(request.requests, finish, [&](std::int64_t r, cpu::Worker&) {
    finish_request(request, result, work, r);
  });
  return {};
}

}  // namespace fairdraw
