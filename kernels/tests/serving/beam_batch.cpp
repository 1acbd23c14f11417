#include "tests/serving/beam_batch.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace fairdraw::suites {
namespace {

constexpr std::int32_t kUnwritten = -7;

template <class T>
View<T> view_of(std::vector<T>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size())};
}

template <class T>
View<const T> const_view_of(const std::vector<T>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size())};
}

TokenListRows end_ids_of(const std::vector<BeamProblem>& problems) {
  std::vector<std::vector<std::int32_t>> rows;
  for (const BeamProblem& problem : problems) rows.push_back(problem.rules.end_ids);
  return TokenListRows(rows);
}

}  // namespace

BeamBatch::BeamBatch(std::vector<BeamProblem> problems, std::int64_t vocab, BeamInput input)
    : problems_(std::move(problems)),
      vocab_(vocab),
      input_(input),
      end_ids_(end_ids_of(problems_)),
      sequences_(problems_.size(), std::vector<TokenSequence>(1)) {
  for (const BeamProblem& problem : problems_) {
    width_.push_back(problem.rules.width);
    early_stopping_.push_back(problem.rules.early_stopping);
    max_tokens_.push_back(problem.rules.max_tokens);
    length_penalty_.push_back(problem.rules.length_penalty);
    max_width = std::max(max_width, problem.rules.width);
    max_steps = std::max(max_steps, problem.rules.max_tokens);
  }
  const std::size_t n = problems_.size();
  const std::size_t places = n * static_cast<std::size_t>(max_width);
  for (int i = 0; i < 2; ++i) {
    live_[i].assign(n, 1);
    generated_[i].assign(n, 0);
    scores_[i].assign(places, 0.0F);
    states_[i].assign(n, BeamState::live);
  }
  parents_.assign(places, kUnwritten);
  tokens_.assign(places, kUnwritten);
  history_tokens_.assign(places * static_cast<std::size_t>(max_steps), kUnwritten);
  history_parents_ = history_tokens_;
  statuses_.assign(n, RowStatus::ok);
  pool_counts_.assign(n, 0);
  pool_lengths_.assign(places, kUnwritten);
  pool_beams_ = pool_tokens_ = pool_lengths_;
  pool_scores_.assign(places, std::numeric_limits<float>::quiet_NaN());
  pool_cumulative_ = pool_scores_;
  fill_rows();
  set_views();
}

void BeamBatch::fill_rows() {
  const std::vector<float> gap(static_cast<std::size_t>(vocab_),
                               std::numeric_limits<float>::quiet_NaN());
  values_ = gap;
  row_begins_.assign(problems_.size(), 0);
  for (std::size_t i = problems_.size(); i-- > 0;) {
    row_begins_[i] = static_cast<std::int64_t>(values_.size()) / vocab_;
    for (const TokenSequence& sequence : sequences_[i]) {
      const std::vector<float> row = problems_[i].row(sequence);
      if (row.size() != gap.size()) throw std::invalid_argument("a row of another vocabulary");
      values_.insert(values_.end(), row.begin(), row.end());
    }
    values_.insert(values_.end(), gap.begin(), gap.end());
  }
}

void BeamBatch::set_views() {
  const auto n = static_cast<std::int64_t>(problems_.size());
  const int next = 1 - now_;
  request.rows = {values_.data(), DType::float32,
                  static_cast<std::int64_t>(values_.size()) / vocab_, vocab_, vocab_};
  request.input = input_;
  request.requests = n;
  request.max_width = max_width;
  request.row_begins = const_view_of(row_begins_);
  request.live_beams = const_view_of(live_[now_]);
  request.scores = const_view_of(scores_[now_]);
  request.generated = const_view_of(generated_[now_]);
  request.states = const_view_of(states_[now_]);
  request.parameters.width = {width_.data(), n};
  request.parameters.length_penalty = {length_penalty_.data(), n};
  request.parameters.early_stopping = {early_stopping_.data(), n};
  request.parameters.max_tokens = {max_tokens_.data(), n};
  request.parameters.end_ids = end_ids_.lists();
  result.parents = view_of(parents_);
  result.tokens = view_of(tokens_);
  result.scores = view_of(scores_[next]);
  result.live_beams = view_of(live_[next]);
  result.generated = view_of(generated_[next]);
  result.states = view_of(states_[next]);
  result.statuses = view_of(statuses_);
  result.pool = {view_of(pool_counts_),  view_of(pool_scores_), view_of(pool_cumulative_),
                 view_of(pool_lengths_), view_of(pool_beams_),  view_of(pool_tokens_)};
  result.history = {view_of(history_tokens_), view_of(history_parents_), max_steps};
}

Error BeamBatch::step(const Execution& execution) {
  return step_by([&execution](const BeamStepRequest& asked, const BeamStepResult& given) {
    return beam_search_step(asked, given, execution);
  });
}

Error BeamBatch::step_by(const BeamStepper& stepper) {
  if (Error error = stepper(request, result)) return error;
  now_ = 1 - now_;
  for (std::size_t r = 0; r < problems_.size(); ++r) {
    std::vector<TokenSequence> grown;
    for (std::int32_t b = 0; b < live_[now_][r]; ++b) {
      const auto parent = static_cast<std::size_t>(parents_[place(r, b)]);
      TokenSequence sequence = sequences_[r].at(parent);
      if (statuses_[r] == RowStatus::ok) sequence.push_back(tokens_[place(r, b)]);
      grown.push_back(sequence);
    }
    sequences_[r] = grown;
  }
  fill_rows();
  set_views();
  return {};
}

bool BeamBatch::all_done() const {
  return std::all_of(states_[now_].begin(), states_[now_].end(),
                     [](BeamState state) { return state != BeamState::live; });
}

std::vector<BeamHypothesis> BeamBatch::live(std::size_t r) const {
  std::vector<BeamHypothesis> list;
  for (std::int32_t b = 0; b < live_[now_][r]; ++b) {
    list.push_back({sequences_[r][static_cast<std::size_t>(b)], scores_[now_][place(r, b)], 0});
  }
  return list;
}

std::vector<std::int32_t> BeamBatch::parents(std::size_t r) const {
  const auto begin = parents_.begin() + static_cast<std::ptrdiff_t>(place(r, 0));
  return {begin, begin + live_[now_][r]};
}

BeamResultRequest BeamBatch::result_request(std::int32_t n) const {
  BeamResultRequest asked;
  asked.requests = request.requests;
  asked.max_width = max_width;
  asked.best = n;
  asked.pool = result.pool;
  asked.history = result.history;
  asked.live_beams = request.live_beams;
  asked.scores = request.scores;
  asked.generated = request.generated;
  asked.states = request.states;
  asked.length_penalty = request.parameters.length_penalty;
  return asked;
}

std::vector<BeamHypothesis> BeamBatch::best(std::size_t r, std::int32_t n) const {
  const auto places = static_cast<std::size_t>(n) * problems_.size();
  std::vector<std::int32_t> tokens(places * static_cast<std::size_t>(max_steps), kUnwritten);
  std::vector<std::int32_t> lengths(places, kUnwritten);
  std::vector<float> scores(places), cumulative(places);
  std::vector<RowStatus> statuses(problems_.size());
  const Error error = beam_search_result(
      result_request(n),
      {view_of(tokens), view_of(lengths), view_of(scores), view_of(cumulative), view_of(statuses)});
  if (error) throw std::runtime_error(error.message);
  if (statuses[r] != RowStatus::ok) throw std::runtime_error(to_string(statuses[r]));
  std::vector<BeamHypothesis> list;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const std::size_t at = r * static_cast<std::size_t>(n) + i;
    if (lengths[at] == 0) break;
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(at) * max_steps;
    list.push_back({{begin, begin + lengths[at]}, cumulative[at], scores[at]});
  }
  return list;
}

std::vector<BeamHypothesis> BeamBatch::pool(std::size_t r) const {
  std::vector<BeamHypothesis> list;
  for (std::int32_t i = 0; i < pool_counts_[r]; ++i) {
    const std::size_t at = place(r, i);
    BeamHypothesis h;
    h.score = pool_scores_[at];
    h.cumulative = pool_cumulative_[at];
    // Reads the sequence back through the history, as an engine without beam_search_result does.
    std::int32_t beam = pool_beams_[at];
    h.tokens = {pool_tokens_[at]};
    for (std::int32_t s = pool_lengths_[at] - 2; s >= 0; --s) {
      const std::size_t entry =
          (r * static_cast<std::size_t>(max_steps) + static_cast<std::size_t>(s)) *
              static_cast<std::size_t>(max_width) +
          static_cast<std::size_t>(beam);
      h.tokens.insert(h.tokens.begin(), history_tokens_.at(entry));
      beam = history_parents_.at(entry);
    }
    list.push_back(h);
  }
  return list;
}

}  // namespace fairdraw::suites
