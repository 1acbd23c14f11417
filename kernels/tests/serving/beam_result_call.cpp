#include "tests/serving/beam_result_call.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace fairdraw::suites {
namespace {

constexpr std::int32_t kUnwritten = -7;

template <class T>
std::vector<std::remove_const_t<T>> copy_of(const View<T>& view) {
  return {view.data, view.data + view.size};
}

template <class T>
View<T> view_of(std::vector<T>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size())};
}

template <class T>
View<const T> const_view_of(const std::vector<T>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size())};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Valid arrays for a call with these sizes.
struct Arrays {
  Arrays(std::int64_t requests, std::int32_t width, std::int32_t steps)
      : of_requests(static_cast<std::size_t>(requests), 1),
        of_places(of_requests.size() * static_cast<std::size_t>(width), 1),
        of_history(of_places.size() * static_cast<std::size_t>(steps), 0),
        floats(of_places.size(), 0.0F),
        states(of_requests.size(), BeamState::length_done),
        penalties(of_requests.size(), 0.0F) {
    request.requests = requests;
    request.max_width = width;
    request.best = width;
    request.pool = {view_of(of_requests), view_of(floats),    view_of(floats),
                    view_of(of_places),   view_of(of_places), view_of(of_places)};
    request.history = {view_of(of_history), view_of(of_history), steps};
    request.live_beams = const_view_of(of_requests);
    request.scores = const_view_of(floats);
    request.generated = const_view_of(of_requests);
    request.states = const_view_of(states);
    request.length_penalty = {penalties.data(), requests};
  }

  std::vector<std::int32_t> of_requests, of_places, of_history;
  std::vector<float> floats;
  std::vector<BeamState> states;
  std::vector<float> penalties;
  BeamResultRequest request;
};

}  // namespace

bool BeamFound::operator==(const BeamFound& other) const {
  return tokens == other.tokens && lengths == other.lengths && same_bits(scores, other.scores) &&
         same_bits(cumulative, other.cumulative) && statuses == other.statuses;
}

BeamSequences BeamFound::views() {
  return {view_of(tokens), view_of(lengths), view_of(scores), view_of(cumulative),
          view_of(statuses)};
}

BeamResultCall::BeamResultCall(const BeamResultRequest& given)
    : pool_counts(copy_of(given.pool.counts)),
      pool_lengths(copy_of(given.pool.lengths)),
      pool_beams(copy_of(given.pool.beams)),
      pool_tokens(copy_of(given.pool.tokens)),
      pool_scores(copy_of(given.pool.scores)),
      pool_cumulative(copy_of(given.pool.cumulative)),
      history_tokens(copy_of(given.history.tokens)),
      history_parents(copy_of(given.history.parents)),
      live_beams(copy_of(given.live_beams)),
      generated(copy_of(given.generated)),
      scores(copy_of(given.scores)),
      states(copy_of(given.states)),
      request(given) {
  for (std::int64_t r = 0; r < given.requests; ++r) {
    length_penalty.push_back(given.length_penalty.at(r));
  }
  request.pool = {view_of(pool_counts),  view_of(pool_scores), view_of(pool_cumulative),
                  view_of(pool_lengths), view_of(pool_beams),  view_of(pool_tokens)};
  request.history.tokens = view_of(history_tokens);
  request.history.parents = view_of(history_parents);
  request.live_beams = const_view_of(live_beams);
  request.scores = const_view_of(scores);
  request.generated = const_view_of(generated);
  request.states = const_view_of(states);
  request.length_penalty = {length_penalty.data(), request.requests};
}

BeamFound BeamResultCall::nothing() const {
  const std::size_t requests = live_beams.size();
  const std::size_t places = requests * static_cast<std::size_t>(request.best);
  const auto steps = static_cast<std::size_t>(request.history.max_steps);
  return {std::vector<std::int32_t>(places * steps, kUnwritten),
          std::vector<std::int32_t>(places, kUnwritten), std::vector<float>(places, kUnwritten),
          std::vector<float>(places, kUnwritten),
          std::vector<RowStatus>(requests, RowStatus{kUnwritten})};
}

BeamFound BeamResultCall::run(const BeamReader& reader) {
  BeamFound found = nothing();
  error = reader(request, found.views());
  return found;
}

std::unique_ptr<BeamResultCall> random_beam_result(std::mt19937_64& random, std::int64_t requests,
                                                   std::int32_t width, std::int32_t steps) {
  auto call = std::make_unique<BeamResultCall>(Arrays(requests, width, steps).request);
  const auto below = [&random](std::int32_t end) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(end));
  };
  call->request.best = 1 + below(width);
  for (auto& beam : call->history_parents) beam = below(width);
  for (auto& token : call->history_tokens) token = below(1000);
  for (auto& beam : call->pool_beams) beam = below(width);
  for (auto& token : call->pool_tokens) token = below(1000);
  for (auto& length : call->pool_lengths) length = 1 + below(steps);
  constexpr float kScores[] = {-0.0F, 0.0F, -1.0F, -1.5F, -2.0F, -7.25F, -1e-40F, -INFINITY};
  for (auto* floats : {&call->scores, &call->pool_scores, &call->pool_cumulative}) {
    for (float& score : *floats) score = kScores[below(8)];
  }
  constexpr float kPenalties[] = {0.0F, 1.0F, -1.0F, 0.5F, 0.7F, 2.0F};
  for (std::size_t r = 0; r < call->live_beams.size(); ++r) {
    call->live_beams[r] = below(width + 1);
    call->pool_counts[r] = below(width + 1);
    call->generated[r] = below(steps + 1);
    call->states[r] = static_cast<BeamState>(below(3));
    call->length_penalty[r] = kPenalties[below(6)];
    if (below(16) != 0) continue;
    const auto place = r * static_cast<std::size_t>(width) + static_cast<std::size_t>(below(width));
    switch (below(4)) {
      case 0:
        call->pool_beams[place] = width;
        break;
      case 1:
        call->pool_lengths[place] = steps + 1;
        break;
      case 2:
        call->scores[place] = NAN;
        break;
      default:
        call->history_parents[place * static_cast<std::size_t>(steps)] = -1;
        break;
    }
  }
  return call;
}

std::unique_ptr<BeamResultCall> three_beam_results() {
  auto call = std::make_unique<BeamResultCall>(Arrays(3, 3, 4).request);
  call->live_beams = {2, 2, 2};
  call->generated = {4, 4, 4};
  call->length_penalty = {1, 1, 1};
  call->pool_counts = {1, 1, 1};
  for (std::size_t r = 0; r < 3; ++r) {
    call->pool_scores[3 * r] = -1;
    call->pool_cumulative[3 * r] = -3;
    call->pool_lengths[3 * r] = 3;
    call->pool_tokens[3 * r] = 5;
    call->scores[3 * r] = -2;
    call->scores[3 * r + 1] = -8;
  }
  for (std::size_t i = 0; i < call->history_tokens.size(); ++i) {
    call->history_tokens[i] = static_cast<std::int32_t>(i);
  }
  return call;
}

std::vector<BeamResultBreak> all_beam_result_breaks() {
  // The second request has places 3 to 5 of the pool, and places 12 to 23 of the history. Its
  // sequence of length 3 in the pool continued live beam 1 after two tokens: place 12 + 3 + 1 of
  // the history.
  std::vector<BeamResultBreak> breaks;
  for (const std::int32_t live : {-1, 4}) {
    breaks.emplace_back(RowStatus::index_out_of_range,
                        [live](BeamResultCall& c) { c.live_beams[1] = live; });
  }
  for (const std::int32_t count : {-1, 4}) {
    breaks.emplace_back(RowStatus::invalid_history,
                        [count](BeamResultCall& c) { c.pool_counts[1] = count; });
  }
  for (const std::int32_t length : {-1, 5}) {
    breaks.emplace_back(RowStatus::invalid_history,
                        [length](BeamResultCall& c) { c.generated[1] = length; });
    breaks.emplace_back(RowStatus::invalid_history,
                        [length](BeamResultCall& c) { c.pool_lengths[3] = length; });
  }
  for (const std::int32_t beam : {-1, 3}) {
    breaks.emplace_back(RowStatus::invalid_history,
                        [beam](BeamResultCall& c) { c.pool_beams[3] = beam; });
    breaks.emplace_back(RowStatus::invalid_history,
                        [beam](BeamResultCall& c) { c.history_parents[12 + 3 + 1] = beam; });
  }
  // 4^100 and 4^-100 are outside float32's range.
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float penalty : {NAN, kInfinity, -kInfinity, 100.0F, -100.0F}) {
    breaks.emplace_back(RowStatus::invalid_penalty,
                        [penalty](BeamResultCall& c) { c.length_penalty[1] = penalty; });
  }
  breaks.emplace_back(RowStatus::nan_input, [](BeamResultCall& c) { c.pool_scores[3] = NAN; });
  breaks.emplace_back(RowStatus::nan_input, [](BeamResultCall& c) { c.scores[4] = NAN; });
  return breaks;
}

}  // namespace fairdraw::suites
