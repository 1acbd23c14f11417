// Judges replay: a token must depend only on its row, parameters, seed and offset.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <functional>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/replay_relations.h"
#include "harness/run/evidence/token_suspects.h"

namespace fairdraw::harness {

void append_row(const Request& base, std::int64_t row, Request& request) {
  request.logits.insert(request.logits.end(), base.row(row), base.row(row) + base.vocab);
  request.parameters.push_back(base.parameters[static_cast<std::size_t>(row)]);
  if (!base.processing.empty()) {
    request.processing.push_back(base.processing[static_cast<std::size_t>(row)]);
  }
  if (base.allowed.empty()) return;
  const std::int64_t words = words_for(base.vocab);
  const auto first = base.allowed.begin() + row * words;
  request.allowed.insert(request.allowed.end(), first, first + words);
}

Request pick_rows(const Request& base, const std::vector<std::int64_t>& picks) {
  Request request;
  request.input = base.input;
  request.dtype = base.dtype;
  request.vocab = base.vocab;
  request.rows = static_cast<std::int64_t>(picks.size());
  request.tie_rule = base.tie_rule;
  request.filter_order = base.filter_order;
  request.num_samples = base.num_samples;
  request.history_form = base.history_form;
  for (const std::int64_t pick : picks) {
    append_row(base, pick, request);
    request.seed.push_back(base.seed[static_cast<std::size_t>(pick)]);
    request.offset.push_back(base.offset[static_cast<std::size_t>(pick)]);
  }
  return request;
}

std::vector<std::int64_t> all_rows(std::int64_t count) {
  std::vector<std::int64_t> picks(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) picks[static_cast<std::size_t>(i)] = i;
  return picks;
}

void Replay::draw_alone() {
  for (std::int64_t row = 0; row < base_.rows && !outcome_.failed(); ++row) {
    const Response response = run("alone", pick_rows(base_, {row}));
    if (!response.ran()) {
      if (!outcome_.failed()) outcome_.fail("alone: " + response.trouble());
      return;
    }
    alone_.push_back(response.tokens);
    outcome_.draws += response.tokens.size();
  }
}

bool Replay::may_ask(const Request& request) const {
  return !outcome_.failed() && !is_left_out(input_, request, outcome_);
}

Response Replay::run(const std::string& name, const Request& request, const WantedResults& wanted) {
  Response response = run_request(*input_.sampler, request, reported(sampler(), request, wanted));
  if (response.ran()) return response;
  const bool right = response.damage.empty() && may_refuse(input_, request);
  if (!right) outcome_.fail(fmt::format("{}: {}", name, response.trouble()));
  return response;
}

Response Replay::expect_same(const std::string& name, const Request& request,
                             const std::vector<std::int64_t>& pick_of_output,
                             const WantedResults& wanted) {
  if (!may_ask(request)) return {};
  Response response = run(name, request, wanted);
  if (!response.ran()) return response;
  ++outcome_.measures["relations"];
  outcome_.draws += response.tokens.size();
  const auto samples = static_cast<std::size_t>(request.num_samples);
  for (std::size_t at = 0; at < pick_of_output.size() * samples; ++at) {
    const std::int64_t pick = pick_of_output[at / samples];
    if (pick < 0) continue;
    const std::int32_t expected = alone_[static_cast<std::size_t>(pick)][at % samples];
    if (response.tokens[at] == expected) continue;
    outcome_.fail(fmt::format("{}: row {} ({}) gives token {} at position {}, and {} alone", name,
                              pick, describe(base_.parameters[static_cast<std::size_t>(pick)]),
                              response.tokens[at], at / samples, expected));
    note_no_token(response.tokens[at], base_.vocab, outcome_);
    break;
  }
  return response;
}

namespace {

// Tokens per output. Sums that are added in another order change few tokens, and only tokens at the
// ends of their intervals, which one random word per row would seldom show.
constexpr std::int32_t kSamples = 32;

// A guard that sets the number of OpenMP threads for calls from this thread, until the end of the
// scope.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

void compare_layouts(Replay& replay) {
  const Request& base = replay.base();
  const std::vector<std::int64_t> all = all_rows(base.rows);
  for (const std::int64_t gap : {1, 3, 8, 29}) {
    Request request = base;
    request.row_stride = base.vocab + gap;
    replay.expect_same("row stride", request, all);
  }
  for (const std::int64_t misalignment : {1, 2, 3, 4, 8, 12, 20, 31, 32, 36, 60, 63}) {
    Request request = base;
    request.misalignment = misalignment;
    request.row_stride = base.vocab + misalignment % 2;
    replay.expect_same("alignment", request, all);
  }
  for (const int threads : {1, 2, 3, 7}) {
    const ThreadCount scope(threads);
    replay.expect_same("number of threads", base, all);
  }
}

void compare_batches(Replay& replay) {
  const Request& base = replay.base();
  const std::uint64_t seed = replay.input().seed;
  std::vector<std::int64_t> picks = all_rows(base.rows);
  replay.expect_same("whole batch", base, picks);
  replay.expect_same("the same call again", base, picks);
  std::reverse(picks.begin(), picks.end());
  replay.expect_same("reversed batch", pick_rows(base, picks), picks);
  for (const std::int64_t size : {2, 5, 33}) {
    std::vector<std::int64_t> mixture;
    for (std::int64_t i = 0; i < size; ++i) {
      mixture.push_back(
          static_cast<std::int64_t>(mixed(seed, static_cast<std::uint64_t>(size * 64 + i)) %
                                    static_cast<std::uint64_t>(base.rows)));
    }
    replay.expect_same("other batch-mates", pick_rows(base, mixture), mixture);
  }

  // Every second row becomes a greedy row, a row with other filters, or padding.
  const std::vector<std::int64_t> all = all_rows(base.rows);
  std::vector<std::int64_t> every_second = all;
  for (std::size_t i = 1; i < every_second.size(); i += 2) every_second[i] = -1;
  const auto with_mates = [&base](const std::function<void(Request&, std::size_t)>& change) {
    Request request = base;
    for (std::size_t i = 1; i < static_cast<std::size_t>(base.rows); i += 2) change(request, i);
    return request;
  };
  replay.expect_same("greedy batch-mates", with_mates([](Request& request, std::size_t i) {
                       request.parameters[i].temperature = 0;
                     }),
                     every_second);
  replay.expect_same("batch-mates with other filters",
                     with_mates([](Request& request, std::size_t i) {
                       request.parameters[i] = {.temperature = 3, .top_k = 7, .top_p = 0.3F};
                     }),
                     every_second);
  replay.expect_same(
      "batch-mates with other seeds",
      with_mates([](Request& request, std::size_t i) { request.seed[i] = ~request.seed[i]; }),
      every_second);
  Request padded = base;
  padded.active.assign(static_cast<std::size_t>(base.rows), 1);
  for (std::size_t i = 1; i < padded.active.size(); i += 2) padded.active[i] = 0;
  replay.expect_same("padding between rows", padded, every_second);

  // A case with few rows has many outputs, because seeds belong to outputs and parameters belong to
  // rows.
  Request indexed = base;
  indexed.with_indices = true;
  indexed.seed.clear();
  indexed.offset.clear();
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < 2 * base.rows; ++i) {
    order.push_back((i * 7 + i / base.rows) % base.rows);
    indexed.indices.push_back(static_cast<std::int32_t>(order.back()));
    indexed.seed.push_back(base.seed[static_cast<std::size_t>(order.back())]);
    indexed.offset.push_back(base.offset[static_cast<std::size_t>(order.back())]);
  }
  replay.expect_same("indices", indexed, order);
}

}  // namespace

CheckOutcome check_replay(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.per_request_seeds) return skipped(lack_of("per_request_seeds"));
  Request base = make_request(input, 0, input.rows);
  if (const Lack lacks = lack_for(sampler, base); !lacks.empty()) {
    return skipped(lacks);
  }
  for (std::size_t i = 0; i < base.offset.size(); ++i) {
    base.offset[i] = mixed(input.seed + 1, i) >> (i % 64);
  }
  CheckOutcome outcome;
  if (sampler.num_samples) {
    base.num_samples = kSamples;
  } else {
    outcome.leave_out(lack_of("num_samples"));
  }
  outcome.rows = static_cast<std::uint64_t>(input.rows);
  Replay replay(input, base, outcome);
  replay.draw_alone();
  if (outcome.failed()) return outcome;
  compare_batches(replay);
  compare_layouts(replay);
  compare_results(replay);
  compare_sizes(replay);
  compare_histories(replay);
  if (!outcome.failed()) {
    outcome.message = fmt::format("{} rows give the same tokens in {} other calls", outcome.rows,
                                  outcome.measures["relations"]);
  }
  return outcome;
}

}  // namespace fairdraw::harness
