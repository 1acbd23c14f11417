// Judges that requested results, their layout in memory and the number of rows change no token.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/run/calls/random_words.h"
#include "harness/run/calls/request_arrays.h"
#include "harness/run/checks/exact/replay_relations.h"

namespace fairdraw::harness {
namespace {

constexpr WantedResults kEverything = {
    .statuses = true, .support_size = true, .mask = true, .probs = true, .logprobs = true};

void expect_equal_results(const std::string& name, const Response& one, const Response& other,
                          CheckOutcome& outcome) {
  const auto bits = [](const std::vector<float>& values) {
    std::vector<std::uint32_t> result(values.size());
    if (!values.empty()) std::memcpy(result.data(), values.data(), values.size() * sizeof(float));
    return result;
  };
  const auto expect = [&](bool equal, const char* what) {
    if (!equal) outcome.fail(fmt::format("{}: {} differ", name, what));
  };
  expect(one.mask == other.mask, "masks");
  expect(bits(one.probs) == bits(other.probs), "probabilities");
  expect(one.support_size == other.support_size, "support sizes");
  expect(one.statuses == other.statuses, "statuses");
}

// Sets the bits of the bitmask beyond the vocabulary, which have no meaning.
void set_beyond(Request& request, bool value) {
  const auto words = static_cast<std::size_t>(words_for(request.vocab));
  const std::uint32_t beyond = request.vocab % 32 == 0 ? 0 : ~0U << (request.vocab % 32);
  for (std::size_t last = words - 1; last < request.allowed.size(); last += words) {
    request.allowed[last] =
        value ? request.allowed[last] | beyond : request.allowed[last] & ~beyond;
  }
}

// Repeats a batch whose rows have special seeds, because such rows must repeat their tokens like
// all others.
void compare_special_seeds(Replay& replay) {
  const std::uint64_t special[] = {0,
                                   1,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   0x100000000,
                                   0x7fffffffffffffff,
                                   0x8000000000000000,
                                   0xffffffffffffffff};
  const Request& base = replay.base();
  Request request = base;
  std::vector<std::int64_t> picks;
  for (std::size_t i = 0; i < std::size(special); ++i) {
    picks.push_back(static_cast<std::int64_t>(i) % base.rows);
  }
  request = pick_rows(base, picks);
  request.num_samples = 1;
  request.seed.assign(std::begin(special), std::end(special));
  const Response once = replay.run("special seeds", request);
  if (!once.ran()) return;
  for (int again = 0; again < 2 && !replay.outcome().failed(); ++again) {
    const Response response = replay.run("special seeds", request);
    if (!response.ran()) return;
    ++replay.outcome().measures["relations"];
    for (std::size_t i = 0; i < picks.size() && !replay.outcome().failed(); ++i) {
      if (response.tokens[i] == once.tokens[i]) continue;
      replay.outcome().fail(fmt::format("seed {}: the same call gives token {}, and {} before",
                                        special[i], response.tokens[i], once.tokens[i]));
    }
  }
}

// Draws of one seed whose numbers are 65536 apart are independent, unless each repeats the draw
// 65536 before it. If two draws from a distribution agree with probability at most 9/10, then
// `pairs` pairs all agree with probability at most 0.9^pairs.
constexpr std::size_t kApart = 65536;
constexpr double kMaxAgreement = 0.9;

void judge_repeats(Replay& replay, const char* name, int pairs, int agreeing) {
  constexpr int kPairs = 400;  // 0.9^400 = 5e-19
  if (pairs < kPairs) return;
  replay.outcome().spend(std::pow(kMaxAgreement, pairs));
  if (agreeing < pairs) return;
  replay.outcome().fail(
      fmt::format("{}: the draws from the 65536th on repeat the first draws ({} of {})", name,
                  agreeing, pairs));
}

// Returns the rows for which two draws agree with probability at most 9/10.
std::vector<bool> random_rows(Replay& replay, const Request& request) {
  std::vector<bool> random;
  for (std::int64_t row = 0; row < request.rows; ++row) {
    const reference::RealDistribution distribution = distribution_of(replay.input(), request, row);
    double agreement = 0;
    for (const double p : distribution.probability) agreement += p * p;
    const double slack =
        // Each of the two probabilities may be off by the bound.
        2 * distribution.total_variation_bound;
    random.push_back(distribution.defined && !distribution.must_fail &&
                     agreement + 2 * slack <= kMaxAgreement);
  }
  return random;
}

void expect_no_repeated_outputs(Replay& replay, Request outputs, const std::vector<bool>& random) {
  constexpr const char* kName = "70000 outputs with one seed";
  outputs.seed_is_scalar = true;
  outputs.seed.resize(1);
  outputs.offset.resize(1);
  if (!replay.sampler().randomness.outputs || !replay.may_ask(outputs)) return;
  const Response response = replay.run(kName, outputs);
  if (!response.ran()) return;
  int pairs = 0, agreeing = 0;
  for (std::size_t i = kApart; i < response.tokens.size(); ++i) {
    const std::int32_t row = outputs.indices[i];
    if (!random[static_cast<std::size_t>(row)] || outputs.indices[i - kApart] != row) continue;
    ++pairs;
    agreeing += response.tokens[i] == response.tokens[i - kApart] ? 1 : 0;
  }
  judge_repeats(replay, kName, pairs, agreeing);
}

void expect_no_repeated_samples(Replay& replay, const Request& base, std::int32_t many,
                                const std::vector<bool>& random) {
  constexpr const char* kName = "70000 samples of one output";
  if (!replay.sampler().randomness.samples) return;
  const auto row = std::find(random.begin(), random.end(), true);
  if (row == random.end()) return;
  Request request = pick_rows(base, {row - random.begin()});
  request.num_samples = many;
  if (!replay.may_ask(request)) return;
  const Response response = replay.run(kName, request);
  if (!response.ran()) return;
  int agreeing = 0;
  for (std::size_t i = kApart; i < response.tokens.size(); ++i) {
    agreeing += response.tokens[i] == response.tokens[i - kApart] ? 1 : 0;
  }
  judge_repeats(replay, kName, many - static_cast<int>(kApart), agreeing);
}

}  // namespace

void compare_results(Replay& replay) {
  const Request& base = replay.base();
  const std::vector<std::int64_t> all = all_rows(base.rows);
  const WantedResults one_by_one[] = {{.statuses = true},
                                      {.support_size = true},
                                      {.mask = true},
                                      {.probs = true},
                                      {.logprobs = true}};
  for (const WantedResults& wanted : one_by_one) {
    replay.expect_same("another result asked for", base, all, wanted);
  }
  const Response compact = replay.expect_same("all results asked for", base, all, kEverything);
  Request spread = base;
  spread.gap = 3;
  spread.row_stride = base.vocab + 3;
  const Response with_gaps = replay.expect_same("gaps between rows", spread, all, kEverything);
  if (compact.ran() && with_gaps.ran() && !replay.outcome().failed()) {
    expect_equal_results("gaps between rows", compact, with_gaps, replay.outcome());
  }

  if (base.input == RowInput::logits) {
    Request open = base;
    if (base.allowed.empty()) {
      open.allowed.assign(static_cast<std::size_t>(base.rows * words_for(base.vocab)), ~0U);
    }
    for (const bool value : {false, true}) {
      set_beyond(open, value);
      replay.expect_same("bits of the bitmask beyond the vocabulary", open, all);
    }
    Request marked = base;
    const std::uint8_t not_zero[] = {1, 2, 128, 255};
    for (std::size_t i = 0; i < all.size(); ++i) marked.active.push_back(not_zero[i % 4]);
    replay.expect_same("active rows marked by other bytes than 1", marked, all);
  }
  compare_special_seeds(replay);
}

void compare_sizes(Replay& replay) {
  Request base = replay.base();
  base.num_samples = 1;
  // The test uses narrow rows only, because each of 70000 rows costs a pass over the vocabulary.
  constexpr std::int64_t kVocab = 64;
  constexpr std::int32_t kMany = 70'000;
  if (base.vocab > kVocab || base.rows < 3) return;
  std::vector<std::int64_t> picks;
  // Row 65536 differs from row 0 for any number of base rows.
  for (std::int64_t i = 0; i < kMany; ++i) picks.push_back((i * 5 + (i >> 16)) % base.rows);
  Request many = pick_rows(base, picks);
  replay.expect_same("70000 rows", many, picks);
  // The outputs sample the last of the narrow rows, in descending order.
  std::vector<std::int64_t> of_output;
  many.with_indices = true;
  for (std::int64_t row = kMany - 1; row >= kMany - 6000; row -= 7) {
    const auto at = static_cast<std::size_t>(row);
    many.indices.push_back(static_cast<std::int32_t>(row));
    of_output.push_back(picks[at]);
  }
  Request last = many;
  last.seed.clear();
  last.offset.clear();
  for (const std::int32_t index : many.indices) {
    last.seed.push_back(many.seed[static_cast<std::size_t>(index)]);
    last.offset.push_back(many.offset[static_cast<std::size_t>(index)]);
  }
  replay.expect_same("indices of rows after the 65536th", last, of_output);

  Request outputs = base;
  outputs.with_indices = true;
  outputs.seed.clear();
  outputs.offset.clear();
  // Here output 65536 has the same row as output 0, so that their tokens can be compared.
  for (std::int64_t i = 0; i < kMany; ++i) {
    const std::int64_t pick = i % 65536 * 5 % base.rows;
    picks[static_cast<std::size_t>(i)] = pick;
    const auto at = static_cast<std::size_t>(pick);
    outputs.indices.push_back(static_cast<std::int32_t>(pick));
    outputs.seed.push_back(base.seed[at]);
    outputs.offset.push_back(base.offset[at]);
  }
  replay.expect_same("70000 outputs", outputs, picks);
  // The outputs sample the rows of `base`.
  const std::vector<bool> random = random_rows(replay, base);
  expect_no_repeated_outputs(replay, outputs, random);
  expect_no_repeated_samples(replay, base, kMany, random);

  // The rows are 2^31 + 1 elements apart, so a 32-bit product wraps around, to a negative value at
  // row 1 and to row 0 at row 2.
  constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 1;
  Request far = pick_rows(base, {0, 1, 2});
  far.row_stride = kFar;
  const auto bytes = static_cast<std::size_t>(3 * kFar) * element_size(base.dtype);
  Memory* const usual = std::pmr::get_default_resource();
  if (SparseMemory(usual, bytes + 64).data() == nullptr)
    return;  // the system has no address space
             // for this test
  replay.expect_same("rows 2^31 elements apart", far, {0, 1, 2});
}

}  // namespace fairdraw::harness
