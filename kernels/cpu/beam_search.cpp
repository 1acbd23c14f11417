// One step of beam search.
//
// Contract. fairdraw/beam_search.h has the rules. Requests are independent of each other: a bad
// one fails alone, and its neighbours get the bits that they get without it.
//
// Algorithm. Rows of all live beams in parallel, each to its best candidates (beam_candidates.cpp:
// the cost of the call); then requests in parallel: the best of their beams' candidates, sorted,
// and a walk over them. What a request is asked for is checked first, and nothing of it is written
// before its rows are known to be right.
//
// Determinism. Candidates are totally ordered, scores have stated roundings, and rows do not know
// of each other: neither threads nor instruction sets show in a result.
#include "fairdraw/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "arguments.h"
#include "batch.h"
#include "beam_candidates.h"
#include "beam_scores.h"
#include "float_environment.h"
#include "processing_rules.h"

namespace fairdraw {
namespace {

using cpu::BeamCandidate;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
/// So few candidates are ranked sooner by one thread than others are woken.
constexpr std::size_t kFewCandidates = std::size_t{1} << 14;

/// One request of the call, checked.
struct Request {
  RowStatus status = RowStatus::ok;
  bool done = false;  // before this step
  std::int32_t width = 0, live = 0, length = 0, max_tokens = 0, early_stopping = 0;
  float norm = 1;             // of the length with this step
  float attainable_norm = 1;  // of the length that early stopping looks at
  RowList end_ids;
  std::size_t most = 0;       // candidates that count
  std::size_t first_row = 0;  // of its rows among all rows of the call
};

struct Row {
  std::int64_t request = 0;
  std::int32_t beam = 0;
  RowStatus status = RowStatus::ok;
  std::size_t begin = 0, count = 0;  // its candidates
};

/// Buffers of a call, kept between calls.
struct Workspace {
  std::vector<Request> requests;
  std::vector<Row> rows;
  std::vector<BeamCandidate> candidates;
  std::size_t planned = 0;  // places for candidates in this call
};

RowStatus read_parameters(const BeamStepRequest& step, const BeamStepResult& result, std::int64_t r,
                          Request& request) {
  const BeamParameters& given = step.parameters;
  request.width = given.width.at(r);
  request.max_tokens = given.max_tokens.at(r);
  request.early_stopping = given.early_stopping.at(r);
  const float penalty = given.length_penalty.at(r);
  if (request.width < 1 || request.width > step.max_width) return RowStatus::invalid_top_k;
  request.end_ids = list_of(given.end_ids, r);
  if (request.max_tokens < 1 || request.early_stopping < 0 || request.early_stopping > 2 ||
      !request.end_ids.in_buffer || !all_are_tokens(request.end_ids, step.rows.vocab)) {
    return RowStatus::invalid_min_tokens;
  }
  if (!std::isfinite(penalty)) return RowStatus::invalid_penalty;
  const std::int32_t generated = step.generated.data[r];
  const bool history_full = result.history.tokens.given() && generated >= result.history.max_steps;
  const std::int32_t pooled = result.pool.counts.data[r];
  if (generated < 0 || generated >= request.max_tokens || history_full || pooled < 0 ||
      pooled > request.width) {
    return RowStatus::invalid_history;
  }
  request.length = generated + 1;
  const bool looks_ahead = request.early_stopping == 2 && penalty > 0.0F;
  request.norm = beam_length_norm(request.length, penalty);
  request.attainable_norm =
      beam_length_norm(looks_ahead ? request.max_tokens : request.length, penalty);
  if (!is_length_norm(request.norm) || !is_length_norm(request.attainable_norm)) {
    return RowStatus::invalid_penalty;
  }
  return RowStatus::ok;
}

Request read_request(const BeamStepRequest& step, const BeamStepResult& result, std::int64_t r) {
  Request request;
  request.live = step.live_beams.data[r];
  request.done = step.states.data[r] != BeamState::live;
  const std::int64_t first = step.row_begins.data[r];
  if (request.live < 0 || request.live > step.max_width) {
    request.status = RowStatus::index_out_of_range;
  } else if (request.done) {
    request.status = RowStatus::inactive;
  } else if (first < 0 || first > step.rows.rows || request.live > step.rows.rows - first) {
    request.status = RowStatus::index_out_of_range;
  } else {
    request.status = read_parameters(step, result, r, request);
  }
  if (request.status != RowStatus::ok) return request;
  const auto ends = static_cast<std::size_t>(std::max(1, request.end_ids.length));
  request.most = (1 + ends) * static_cast<std::size_t>(request.width);
  return request;
}

void plan(const BeamStepRequest& step, const BeamStepResult& result, Workspace& work) {
  work.requests.clear();
  work.rows.clear();
  std::size_t places = 0;
  const auto vocab = static_cast<std::size_t>(step.rows.vocab);
  for (std::int64_t r = 0; r < step.requests; ++r) {
    Request request = read_request(step, result, r);
    request.first_row = work.rows.size();
    if (request.status == RowStatus::ok) {
      for (std::int32_t beam = 0; beam < request.live; ++beam) {
        work.rows.push_back({r, beam, RowStatus::ok, places, 0});
        places += std::min(request.most, vocab);
      }
    }
    work.requests.push_back(request);
  }
  work.planned = places;
  if (work.candidates.size() < places) work.candidates.resize(places);
}

/// The candidates of one row.
void find_candidates(const BeamStepRequest& step, Workspace& work, std::size_t i,
                     cpu::Worker& worker) {
  thread_local cpu::BeamCandidates finder;
  Row& row = work.rows[i];
  const Request& request = work.requests[static_cast<std::size_t>(row.request)];
  const float* values =
      worker.reader.read(*worker.passes, step.rows, step.row_begins.data[row.request] + row.beam,
                         nullptr, false, row.status);
  if (row.status != RowStatus::ok) return;
  const auto vocab = static_cast<std::size_t>(step.rows.vocab);
  const float score = step.scores.data[row.request * step.max_width + row.beam];
  const std::vector<BeamCandidate>& found =
      finder.find(*worker.passes, values, vocab, step.input, score, row.beam,
                  std::min(request.most, vocab), row.status);
  row.count = found.size();
  std::copy(found.begin(), found.end(),
            work.candidates.begin() + static_cast<std::ptrdiff_t>(row.begin));
}

/// The candidates of a request that count, in order.
RowStatus ranked_candidates(const Workspace& work, const Request& request,
                            std::vector<BeamCandidate>& ranked) {
  ranked.clear();
  for (std::int32_t beam = 0; beam < request.live; ++beam) {
    const Row& row = work.rows[request.first_row + static_cast<std::size_t>(beam)];
    if (row.status != RowStatus::ok) return row.status;
    const auto begin = work.candidates.begin() + static_cast<std::ptrdiff_t>(row.begin);
    ranked.insert(ranked.end(), begin, begin + static_cast<std::ptrdiff_t>(row.count));
  }
  cpu::keep_best(ranked, request.most);
  std::sort(ranked.begin(), ranked.end(), cpu::comes_before);
  return ranked.empty() ? RowStatus::no_allowed_token : RowStatus::ok;
}

/// Places [from, max_width) of a request: no beam.
void clear_beams(const BeamStepResult& result, std::int64_t begin, std::int32_t from,
                 std::int32_t max_width) {
  const std::int32_t n = max_width - from;
  std::fill_n(result.parents.data + begin + from, n, -1);
  std::fill_n(result.tokens.data + begin + from, n, -1);
  std::fill_n(result.scores.data + begin + from, n, -kInfinity);
}

/// A request that is not stepped: its beams stay where they are, or are gone.
void write_unstepped(const BeamStepRequest& step, const BeamStepResult& result, std::int64_t r,
                     std::int32_t live) {
  const std::int64_t begin = r * step.max_width;
  for (std::int32_t b = 0; b < live; ++b) {
    result.parents.data[begin + b] = b;
    result.tokens.data[begin + b] = -1;
    result.scores.data[begin + b] = step.scores.data[begin + b];
  }
  clear_beams(result, begin, live, step.max_width);
  result.live_beams.data[r] = live;
  result.states.data[r] = step.states.data[r];
  if (result.generated.given()) result.generated.data[r] = step.generated.data[r];
}

BeamState next_state(const Request& request, float best, float worst, std::int32_t pooled,
                     std::int32_t live) {
  if (pooled == request.width) {
    if (request.early_stopping == 1) return BeamState::pool_done;
    if (worst >= best / request.attainable_norm) return BeamState::pool_done;
  }
  const bool ends = request.length >= request.max_tokens || live == 0;
  return ends ? BeamState::length_done : BeamState::live;
}

/// Walks over the ranked candidates: finished ones to the pool, the others to the next beams.
void write_step(const BeamStepRequest& step, const BeamStepResult& result, std::int64_t r,
                const Request& request, const std::vector<BeamCandidate>& ranked) {
  const std::int64_t begin = r * step.max_width;
  const auto width = static_cast<std::size_t>(request.width);
  const std::int32_t* ends = request.end_ids.ids;
  std::int32_t pooled = result.pool.counts.data[r];
  std::int32_t live = 0;
  for (std::size_t i = 0; i < ranked.size() && live < request.width; ++i) {
    const BeamCandidate& candidate = ranked[i];
    if (std::find(ends, ends + request.end_ids.length, candidate.token) !=
        ends + request.end_ids.length) {
      if (i >= width) continue;
      add_to_pool(result.pool, begin, request.width, pooled,
                  {candidate.score / request.norm, candidate.score, request.length, candidate.beam,
                   candidate.token});
      continue;
    }
    result.parents.data[begin + live] = candidate.beam;
    result.tokens.data[begin + live] = candidate.token;
    result.scores.data[begin + live] = candidate.score;
    ++live;
  }
  clear_beams(result, begin, live, step.max_width);
  if (result.history.tokens.given()) {
    const std::int64_t at =
        (r * result.history.max_steps + step.generated.data[r]) * step.max_width;
    std::copy_n(result.parents.data + begin, step.max_width, result.history.parents.data + at);
    std::copy_n(result.tokens.data + begin, step.max_width, result.history.tokens.data + at);
  }
  result.pool.counts.data[r] = pooled;
  result.live_beams.data[r] = live;
  const float worst = pooled > 0 ? result.pool.scores.data[begin + pooled - 1] : -kInfinity;
  result.states.data[r] = next_state(request, ranked.front().score, worst, pooled, live);
  if (result.generated.given()) result.generated.data[r] = request.length;
}

void finish_request(const BeamStepRequest& step, const BeamStepResult& result,
                    const Workspace& work, std::int64_t r) {
  thread_local std::vector<BeamCandidate> ranked;
  const Request& request = work.requests[static_cast<std::size_t>(r)];
  RowStatus status = request.status;
  if (status == RowStatus::ok) status = ranked_candidates(work, request, ranked);
  if (status == RowStatus::ok) {
    write_step(step, result, r, request, ranked);
  } else {
    write_unstepped(step, result, r, status == RowStatus::inactive ? request.live : 0);
  }
  if (result.statuses.given()) result.statuses.data[r] = status;
}

Error check_diversity(const PerRequest<float>& rate) {
  const std::int64_t n = rate.is_array() ? rate.values.size : 1;
  for (std::int64_t i = 0; i < n; ++i) {
    if (rate.at(i) == 0.0F) continue;
    std::string field = "diversity_rate";
    if (rate.is_array()) field.append("[").append(std::to_string(i)).append("]");
    Error error = out_of_range(field, std::to_string(rate.at(i)), "0 (no diverse beam search)");
    error.code = ErrorCode::unsupported;
    return error;
  }
  return {};
}

Error check(const BeamStepRequest& step, const BeamStepResult& result) {
  const std::int64_t n = step.requests;
  const char* one = "one a request";
  const BeamParameters& given = step.parameters;
  if (Error e = check_rows(step.rows, "rows")) return e;
  if (static_cast<std::uint32_t>(step.input) > 1) {
    return out_of_range("input", std::to_string(static_cast<std::uint32_t>(step.input)),
                        "0 (logits) or 1 (logprobs)");
  }
  if (Error e = check_beam_shape(n, step.max_width)) return e;
  const std::int64_t places = n * step.max_width;
  const char* all = "requests * max_width";
  if (Error e = check_length("row_begins", step.row_begins.size, n, one)) return e;
  if (Error e = check_length("live_beams", step.live_beams.size, n, one)) return e;
  if (Error e = check_length("scores", step.scores.size, places, all)) return e;
  if (Error e = check_length("generated", step.generated.size, n, one)) return e;
  if (Error e = check_length("states", step.states.size, n, one)) return e;
  if (Error e = check_per_request(given.width, "width", n, one)) return e;
  if (Error e = check_per_request(given.length_penalty, "length_penalty", n, one)) return e;
  if (Error e = check_per_request(given.early_stopping, "early_stopping", n, one)) return e;
  if (Error e = check_per_request(given.diversity_rate, "diversity_rate", n, one)) return e;
  if (Error e = check_diversity(given.diversity_rate)) return e;
  if (Error e = check_per_request(given.max_tokens, "max_tokens", n, one)) return e;
  if (Error e = check_token_lists(given.end_ids, "end_ids", n, one)) return e;
  if (Error e = check_length("parents", result.parents.size, places, all)) return e;
  if (Error e = check_length("tokens", result.tokens.size, places, all)) return e;
  if (Error e = check_length("result.scores", result.scores.size, places, all)) return e;
  if (Error e = check_length("result.live_beams", result.live_beams.size, n, one)) return e;
  if (Error e = check_optional(result.generated, "result.generated", n, one)) return e;
  if (Error e = check_length("result.states", result.states.size, n, one)) return e;
  if (Error e = check_optional(result.statuses, "statuses", n, one)) return e;
  if (Error e = check_beam_pool(result.pool, n, step.max_width)) return e;
  if (!result.history.tokens.given()) return {};
  return check_beam_history(result.history, n, step.max_width);
}

}  // namespace

Error beam_search_step(const BeamStepRequest& request, const BeamStepResult& result,
                       const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check(request, result)) return error;
  thread_local Workspace own;
  Workspace& work = own;  // a worker's thread has another `own`
  {
    // pow, in the environment that the arithmetic of scores asks for.
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
