// Replay: a token is a function of its row, parameters, seed and offset, and of nothing else.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <functional>

#include "harness/run/checks.h"
#include "harness/run/random_words.h"

namespace fairdraw::harness {
namespace {

// Tokens of an output. Sums that come out in another order move few tokens, and those at the edge
// of their interval only: one word a row would seldom see it.
constexpr std::int32_t kSamples = 32;

// A batch made of rows of the base request: output i is base row `picks[i]` with its own
// parameters, seed and offset.
Request pick_rows(const Request& base, const std::vector<std::int64_t>& picks) {
  Request request;
  request.input = base.input;
  request.dtype = base.dtype;
  request.vocab = base.vocab;
  request.rows = static_cast<std::int64_t>(picks.size());
  request.tie_rule = base.tie_rule;
  request.filter_order = base.filter_order;
  request.num_samples = base.num_samples;
  const std::int64_t words = words_for(base.vocab);
  for (const std::int64_t pick : picks) {
    const auto i = static_cast<std::size_t>(pick);
    request.logits.insert(request.logits.end(), base.row(pick), base.row(pick) + base.vocab);
    request.parameters.push_back(base.parameters[i]);
    request.seed.push_back(base.seed[i]);
    request.offset.push_back(base.offset[i]);
    if (base.allowed.empty()) continue;
    const auto first = base.allowed.begin() + pick * words;
    request.allowed.insert(request.allowed.end(), first, first + words);
  }
  return request;
}

std::vector<std::int64_t> iota(std::int64_t count) {
  std::vector<std::int64_t> picks(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) picks[static_cast<std::size_t>(i)] = i;
  return picks;
}

// Sets the number of OpenMP threads of calls from this thread, for a scope.
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

class Replay {
 public:
  Replay(const CheckInput& input, const Request& base)
      : input_(input), base_(base), sampler_(input.sampler->description()) {}

  // Each row in a batch of its own: what the rest is compared with.
  void draw_alone(CheckOutcome& outcome) {
    for (std::int64_t row = 0; row < base_.rows; ++row) {
      const Response response = run(pick_rows(base_, {row}));
      if (!response.ran()) {
        outcome.fail(response.trouble());
        return;
      }
      alone_.push_back(response.tokens);
      outcome.draws += response.tokens.size();
    }
  }

  // `pick_of_output[i]`: base row of output i, or -1 where the output is not compared.
  void expect_same(const char* name, const Request& request,
                   const std::vector<std::int64_t>& pick_of_output, CheckOutcome& outcome) {
    if (outcome.failed() || !missing_ability(sampler_, request).empty()) return;
    const Response response = run(request);
    if (!response.ran()) {
      outcome.fail(fmt::format("{}: {}", name, response.trouble()));
      return;
    }
    ++outcome.measures["relations"];
    outcome.draws += response.tokens.size();
    const auto samples = static_cast<std::size_t>(request.num_samples);
    for (std::size_t at = 0; at < pick_of_output.size() * samples; ++at) {
      const std::int64_t pick = pick_of_output[at / samples];
      if (pick < 0) continue;
      const std::int32_t expected = alone_[static_cast<std::size_t>(pick)][at % samples];
      if (response.tokens[at] == expected) continue;
      outcome.fail(fmt::format("{}: row {} ({}) gives token {} at position {}, and {} alone", name,
                               pick, describe(base_.parameters[static_cast<std::size_t>(pick)]),
                               response.tokens[at], at / samples, expected));
      return;
    }
  }

 private:
  Response run(const Request& request) { return run_request(*input_.sampler, request, {}); }

  const CheckInput& input_;
  const Request& base_;
  const SamplerDescription& sampler_;
  std::vector<std::vector<std::int32_t>> alone_;  // [row, samples]
};

void compare_layouts(const Request& base, Replay& replay, CheckOutcome& outcome) {
  const std::vector<std::int64_t> all = iota(base.rows);
  for (const std::int64_t gap : {1, 3, 8, 29}) {
    Request request = base;
    request.row_stride = base.vocab + gap;
    replay.expect_same("row stride", request, all, outcome);
  }
  for (const std::int64_t misalignment : {1, 2, 3, 4, 8, 12, 20, 31, 32, 36, 60, 63}) {
    Request request = base;
    request.misalignment = misalignment;
    request.row_stride = base.vocab + misalignment % 2;
    replay.expect_same("alignment", request, all, outcome);
  }
  for (const int threads : {1, 2, 3, 7}) {
    const ThreadCount scope(threads);
    replay.expect_same("number of threads", base, all, outcome);
  }
}

void compare_batches(const Request& base, std::uint64_t seed, Replay& replay,
                     CheckOutcome& outcome) {
  std::vector<std::int64_t> picks = iota(base.rows);
  replay.expect_same("whole batch", base, picks, outcome);
  replay.expect_same("the same call again", base, picks, outcome);
  std::reverse(picks.begin(), picks.end());
  replay.expect_same("reversed batch", pick_rows(base, picks), picks, outcome);
  for (const std::int64_t size : {2, 5, 33}) {
    std::vector<std::int64_t> mixture;
    for (std::int64_t i = 0; i < size; ++i) {
      mixture.push_back(
          static_cast<std::int64_t>(mixed(seed, static_cast<std::uint64_t>(size * 64 + i)) %
                                    static_cast<std::uint64_t>(base.rows)));
    }
    replay.expect_same("other batch-mates", pick_rows(base, mixture), mixture, outcome);
  }

  // Every second row is replaced by a greedy one, by one with other filters, by padding.
  const std::vector<std::int64_t> all = iota(base.rows);
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
                     every_second, outcome);
  replay.expect_same("batch-mates with other filters",
                     with_mates([](Request& request, std::size_t i) {
                       request.parameters[i] = {.temperature = 3, .top_k = 7, .top_p = 0.3F};
                     }),
                     every_second, outcome);
  replay.expect_same(
      "batch-mates with other seeds",
      with_mates([](Request& request, std::size_t i) { request.seed[i] = ~request.seed[i]; }),
      every_second, outcome);
  Request padded = base;
  padded.active.assign(static_cast<std::size_t>(base.rows), 1);
  for (std::size_t i = 1; i < padded.active.size(); i += 2) padded.active[i] = 0;
  replay.expect_same("padding between rows", padded, every_second, outcome);

  // Many outputs of few rows: seeds belong to outputs, parameters to rows.
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
  replay.expect_same("indices", indexed, order, outcome);
}

}  // namespace

CheckOutcome check_replay(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.per_request_seeds) return skipped("has no per-request seeds");
  Request base = make_request(input, 0, input.rows);
  if (const std::string lacks = missing_ability(sampler, base); !lacks.empty()) {
    return skipped(lacks);
  }
  for (std::size_t i = 0; i < base.offset.size(); ++i) {
    base.offset[i] = mixed(input.seed + 1, i) >> (i % 64);
  }
  if (sampler.num_samples) base.num_samples = kSamples;
  CheckOutcome outcome;
  outcome.rows = static_cast<std::uint64_t>(input.rows);
  Replay replay(input, base);
  replay.draw_alone(outcome);
  if (outcome.failed()) return outcome;
  compare_batches(base, input.seed, replay, outcome);
  compare_layouts(base, replay, outcome);
  if (!outcome.failed()) {
    outcome.message = fmt::format("{} rows give the same tokens in {} other calls", outcome.rows,
                                  outcome.measures["relations"]);
  }
  return outcome;
}

}  // namespace fairdraw::harness
