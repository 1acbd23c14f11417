// Judges that neither earlier calls of the same instance nor the calling thread change the tokens
// of a call. This comparison detects buffers that keep the size, the tie rule, the dtype or the end
// of an earlier call.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "harness/run/calls/logits_source.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/calls/row_probabilities.h"
#include "harness/run/checks/exact/replay_relations.h"

namespace fairdraw::harness {
namespace {

struct Other {
  const char* name;
  Request request;
};

// Returns the first `vocab` columns of each row; columns beyond the end of the row repeat it.
Request with_vocab(const Request& base, std::int64_t vocab) {
  Request request = base;
  request.vocab = vocab;
  request.logits.clear();
  for (std::int64_t row = 0; row < base.rows; ++row) {
    for (std::int64_t id = 0; id < vocab; ++id) {
      request.logits.push_back(base.row(row)[id % base.vocab]);
    }
  }
  if (!base.allowed.empty()) {
    request.allowed.assign(static_cast<std::size_t>(base.rows * words_for(vocab)), ~0U);
  }
  return request;
}

Request with_dtype(const Request& base, DType dtype) {
  Request request = base;
  request.dtype = dtype;
  for (float& value : request.logits) value = rounded_to(dtype, value);
  return request;
}

void add_logits(const Request& base, std::vector<Other>& others) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Request request = base;
  request.tie_rule = base.tie_rule == TieRule::keep_all ? TieRule::lowest_id : TieRule::keep_all;
  others.push_back({"another tie rule", request});
  request = base;
  request.allowed.clear();
  if (base.allowed.empty()) {
    for (std::int64_t i = 0; i < base.rows * words_for(base.vocab); ++i) {
      request.allowed.push_back(i % words_for(base.vocab) == 0 ? 0x5a5a5a5bU : 0xa5a5a5a5U);
    }
  }
  others.push_back({base.allowed.empty() ? "a bitmask" : "no bitmask", request});
  request = base;
  std::fill(request.logits.begin(), request.logits.end(), kNan);
  others.push_back({"rows of NaN", request});
  request = base;
  request.active.assign(static_cast<std::size_t>(base.rows), 0);
  others.push_back({"rows of padding", request});
  request = base;
  request.input = RowInput::probabilities;
  request.allowed.clear();
  for (std::int64_t row = 0; row < base.rows; ++row) {
    const auto vocab = static_cast<std::size_t>(base.vocab);
    to_probabilities(
        std::span(request.logits).subspan(static_cast<std::size_t>(row) * vocab, vocab), 1,
        base.dtype);
  }
  for (reference::RowParameters& row : request.parameters) row = {.top_p = 0.75F};
  others.push_back({"probabilities", request});
}

std::vector<Other> other_calls(const Request& base) {
  std::vector<Other> others;
  others.push_back({"a smaller vocabulary", with_vocab(base, (base.vocab + 1) / 2)});
  others.push_back({"a larger vocabulary", with_vocab(base, 3 * base.vocab + 1)});
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    if (dtype != base.dtype) others.push_back({to_string(dtype), with_dtype(base, dtype)});
  }
  others.push_back({"one row", pick_rows(base, {base.rows - 1})});
  std::vector<std::int64_t> picks;
  for (std::int64_t i = 0; i < 3 * base.rows; ++i) picks.push_back(i * 5 % base.rows);
  others.push_back({"more rows", pick_rows(base, picks)});
  Request request = base;
  for (reference::RowParameters& row : request.parameters) row.temperature = 0;
  others.push_back({"greedy rows", request});
  request = base;
  request.filter_order =
      base.filter_order == FilterOrder::joint ? FilterOrder::top_k_first : FilterOrder::joint;
  others.push_back({"another order of filters", request});
  request = base;
  request.num_samples = 5;
  others.push_back({"five samples", request});
  request = base;
  request.seed_is_scalar = true;
  request.seed.resize(1);
  request.offset.resize(1);
  others.push_back({"one seed", request});
  request = base;
  for (std::int64_t i = 0; i < base.rows * base.num_samples; ++i) {
    request.words.push_back(mixed(17, static_cast<std::uint64_t>(i)));
  }
  others.push_back({"given random words", request});
  if (base.input == RowInput::logits) add_logits(base, others);
  return others;
}

// Makes the calls base, other, base, other, other, base, so that each call comes after itself and
// after the other call.
void take_turns(const Other& other, Replay& replay) {
  if (!replay.may_ask(other.request)) return;
  const std::vector<std::int64_t> all = all_rows(replay.base().rows);
  const std::string behind = fmt::format("after a call with {}", other.name);
  const std::string again = fmt::format("a call with {}", other.name);
  const Response first = replay.run(again, other.request);
  if (!first.ran()) return;
  const auto expect_other = [&] {
    if (replay.outcome().failed()) return;
    const Response response = replay.run(again, other.request);
    ++replay.outcome().measures["relations"];
    if (!response.ran() || response.tokens == first.tokens) return;
    const auto differ =
        std::mismatch(first.tokens.begin(), first.tokens.end(), response.tokens.begin());
    replay.outcome().fail(fmt::format("{} gives token {}, and after another call {}", again,
                                      *differ.first, *differ.second));
  };
  replay.expect_same(behind, replay.base(), all);
  expect_other();
  expect_other();
  replay.expect_same(behind, replay.base(), all);
}

// Makes a call whose rows have a larger vocabulary and whose first columns cannot be drawn, so that
// a buffer of the smaller size has none of their mass. This comparison detects a size that is fixed
// by the first call of an instance, so that all later calls are wrong in the same way.
void expect_late_columns(Replay& replay) {
  const Request& base = replay.base();
  const std::int64_t front = base.vocab + 1;
  Request late = base;
  late.vocab = front + base.vocab;
  late.allowed.clear();
  late.logits.clear();
  const float nothing =
      base.input == RowInput::logits ? -std::numeric_limits<float>::infinity() : 0.0F;
  for (std::int64_t row = 0; row < base.rows; ++row) {
    late.logits.insert(late.logits.end(), static_cast<std::size_t>(front), nothing);
    late.logits.insert(late.logits.end(), base.row(row), base.row(row) + base.vocab);
  }
  if (!base.allowed.empty() || late.vocab > kMaxVocab || !replay.may_ask(late)) return;
  const std::string name = fmt::format("{} columns in front that cannot be drawn", front);
  const Response response = replay.run(name, late);
  if (!response.ran()) return;
  ++replay.outcome().measures["relations"];
  const auto samples = static_cast<std::size_t>(base.num_samples);
  for (std::size_t at = 0; at < response.tokens.size(); ++at) {
    const std::int32_t token = response.tokens[at];
    if (token >= front && token < late.vocab) continue;
    const auto row = static_cast<std::int64_t>(at / samples);
    const reference::RealDistribution distribution = distribution_of(replay.input(), late, row);
    if (!distribution.defined || distribution.must_fail) continue;  // any token may be right
    replay.outcome().fail(
        fmt::format("{}: row {} gives token {}, expected one from {} on", name, row, token, front));
    return;
  }
}

}  // namespace

void compare_histories(Replay& replay) {
  // A sampler's state does not depend on the length of its rows, and each call must sort some rows.
  constexpr std::int64_t kLongest = 4096;
  const Request& base = replay.base();
  const std::vector<std::int64_t> all = all_rows(base.rows);
  std::thread([&] { replay.expect_same("a call from another thread", base, all); }).join();
  if (base.vocab > kLongest) return;
  for (const Other& other : other_calls(base)) take_turns(other, replay);
  expect_late_columns(replay);
}

}  // namespace fairdraw::harness
