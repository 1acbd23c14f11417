// Judges drafted chains exactly: by the integer model, by the same chains in other batches, and
// with given random words at every boundary of acceptance and recovery.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "harness/run/calls/logits_source.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/checks/batch_sizes.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/speculation/chain_rows.h"
#include "harness/run/checks/speculation/stray_drafts.h"

namespace fairdraw::harness {
namespace {

constexpr std::int64_t kMaxDrafts = kChainCalls - 1;

std::vector<std::int32_t> tokens_of(const ChainRequest& request, const ChainResponse& response,
                                    std::int64_t chain) {
  const std::int64_t length = request.num_draft_tokens + 1;
  const auto first = response.tokens.begin() + chain * length;
  return {first, first + length};
}

std::string name_of(const ChainRequest& request, std::int64_t first, std::int64_t chain) {
  const auto s = static_cast<std::size_t>(request.seed_is_scalar ? 0 : chain);
  return fmt::format("chain number {}, {} drafted token{}, seed {}, offset {}", first + chain,
                     request.num_draft_tokens, request.num_draft_tokens == 1 ? "" : "s",
                     request.seed[s], request.offset[s]);
}

// Records which step gives the first token that differs from the model's.
void note_wrong_token(const ChainRequest& request, std::int64_t chain,
                      const std::vector<std::int32_t>& tokens,
                      const reference::ChainOutcome& expected, CheckOutcome& outcome) {
  Evidence& evidence = outcome.evidence;
  evidence.observed = fmt::format("tokens {}", fmt::join(tokens, " "));
  evidence.expected = fmt::format("tokens {}", fmt::join(expected.tokens, " "));
  const auto drafts = static_cast<std::size_t>(request.num_draft_tokens);
  const auto first = request.draft_tokens.begin() + chain * request.num_draft_tokens;
  const std::vector<std::int32_t> drafted(first, first + request.num_draft_tokens);
  evidence.smallest = fmt::format("drafts {} over {} tokens; {} of them are to be accepted",
                                  fmt::join(drafted, " "), request.vocab, expected.emitted);
  const auto wrong = static_cast<std::size_t>(
      std::mismatch(tokens.begin(), tokens.end(), expected.tokens.begin()).first - tokens.begin());
  const auto emitted = static_cast<std::size_t>(expected.emitted);
  const auto suspect = [&evidence](const char* what, const std::string& why) {
    evidence.suspects.push_back({std::string("speculative decoding: ") + what, why});
  };
  if (wrong < emitted) {
    suspect("a draft is rejected that must be accepted",
            fmt::format("position {} emits {} and not its draft {}", wrong, tokens[wrong],
                        drafted[wrong]));
  } else if (wrong > emitted) {
    suspect(
        "tokens past the end of the chain",
        fmt::format("position {} holds {}, the chain ends at {}", wrong, tokens[wrong], emitted));
  } else if (emitted == drafts) {
    suspect("the bonus token",
            fmt::format("all {} drafts are accepted, and the token after them is {}, not {}",
                        drafts, tokens[wrong], expected.tokens[wrong]));
  } else if (tokens[wrong] == drafted[wrong]) {
    suspect("a draft is accepted that must be rejected",
            fmt::format("position {} emits its draft {}", wrong, drafted[wrong]));
  } else {
    suspect("the token after a rejection",
            fmt::format("position {} rightly rejects its draft, but draws {}, not {}", wrong,
                        tokens[wrong], expected.tokens[wrong]));
  }
}

// Runs the request, and compares all results with those of the integer model.
void compare_with_model(const CheckInput& input, const ChainRequest& request, std::int64_t first,
                        CheckOutcome& outcome) {
  const ChainResponse response = run_chain_request(*input.sampler, request);
  if (!response.ran()) {
    outcome.fail(response.trouble());
    return;
  }
  for (std::int64_t chain = 0; chain < request.batch; ++chain) {
    const auto at = static_cast<std::size_t>(chain);
    const reference::ChainOutcome expected = expected_chain(request, chain);
    ++outcome.draws;
    const std::vector<std::int32_t> tokens = tokens_of(request, response, chain);
    const auto status = static_cast<std::int32_t>(expected.status);
    if (!response.statuses.empty() && response.statuses[at] != status) {
      outcome.fail(fmt::format("{}: status {}, expected {}", name_of(request, first, chain),
                               response.statuses[at], to_string(expected.status)));
      outcome.evidence.suspects.push_back(
          {"speculative decoding: statuses", "tokens and counts follow from the status"});
    } else if (tokens != expected.tokens) {
      outcome.fail(fmt::format("{}: tokens {}, the integer model says {}",
                               name_of(request, first, chain), fmt::join(tokens, " "),
                               fmt::join(expected.tokens, " ")));
      note_wrong_token(request, chain, tokens, expected, outcome);
    } else if (response.accepted[at] != expected.accepted ||
               response.emitted[at] != expected.emitted) {
      outcome.fail(fmt::format("{}: {} accepted and {} emitted, the integer model says {} and {}",
                               name_of(request, first, chain), response.accepted[at],
                               response.emitted[at], expected.accepted, expected.emitted));
      outcome.evidence.suspects.push_back(
          {"speculative decoding: counts", "the tokens follow from the drafts and random words"});
    }
    if (outcome.failed()) return;
  }
}

// Runs the same chains again, in another order, and one by one.
void compare_batches(const CheckInput& input, const ChainRequest& request, CheckOutcome& outcome) {
  const ChainResponse whole = run_chain_request(*input.sampler, request);
  if (!whole.ran()) {
    outcome.fail(whole.trouble());
    return;
  }
  const auto expect_same = [&](const char* name, const std::vector<std::int64_t>& picks,
                               const char* bug) {
    if (outcome.failed()) return;
    const ChainRequest picked = pick_chains(request, picks);
    const ChainResponse response = run_chain_request(*input.sampler, picked);
    if (!response.ran()) {
      outcome.fail(fmt::format("{}: {}", name, response.trouble()));
      return;
    }
    ++outcome.measures["relations"];
    outcome.draws += picks.size();
    for (std::int64_t i = 0; i < picked.batch; ++i) {
      const std::int64_t chain = picks[static_cast<std::size_t>(i)];
      const std::vector<std::int32_t> before = tokens_of(request, whole, chain);
      const std::vector<std::int32_t> after = tokens_of(picked, response, i);
      if (after == before) continue;
      outcome.fail(fmt::format("{}: chain {} gives {}, and {} in the whole batch", name, chain,
                               fmt::join(after, " "), fmt::join(before, " ")));
      outcome.evidence.suspects.push_back({bug, name});
      return;
    }
  };
  std::vector<std::int64_t> picks;
  for (std::int64_t chain = 0; chain < request.batch; ++chain) picks.push_back(chain);
  const bool replays = input.sampler->description().randomness.replays;
  if (replays)
    expect_same("the same call again", picks,
                "speculative decoding: the same call gives something else");
  // If the same call repeats its results, a difference is due to the batch.
  const char* const bug = replays ? "speculative decoding: a request depends on its batch"
                                  : "speculative decoding: the same call gives something else";
  std::reverse(picks.begin(), picks.end());
  expect_same("reversed batch", picks, bug);
  std::rotate(picks.begin(), picks.begin() + static_cast<std::ptrdiff_t>(picks.size() / 3),
              picks.end());
  picks.resize((picks.size() + 1) / 2);
  expect_same("half of the batch", picks, bug);
  for (std::int64_t chain = 0; chain < std::min<std::int64_t>(request.batch, 8); ++chain) {
    expect_same("alone", {chain}, bug);
  }
}

// Judges unusual chains: other dtypes, up to 33 drafts, more chains than 16 bits can count, and
// calls that request only tokens.
void compare_shapes(const CheckInput& input, std::int64_t first, std::int64_t count,
                    CheckOutcome& outcome) {
  const SamplerDescription& sampler = input.sampler->description();
  const auto compare = [&](const ChainRequest& request) {
    if (!outcome.failed()) compare_with_model(input, request, first, outcome);
  };
  const auto supported = [&sampler](DType dtype) {
    return dtype == DType::float16 ? sampler.float16 : sampler.bfloat16;
  };
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    if (!supported(dtype)) continue;
    ChainRequest request = make_chains(input, first, count, 2);
    request.dtype = dtype;
    for (float& p : request.draft_probs) p = rounded_to(dtype, p);
    for (float& p : request.target_probs) p = rounded_to(dtype, p);
    compare(request);
  }
  constexpr std::int64_t kLongVocab = 300;
  for (const std::int64_t n : {9, 17, 33}) {
    if (input.logits->vocab() <= kLongVocab) {
      compare(make_chains(input, first, std::max<std::int64_t>(1, count / 8), n));
    }
  }
  ChainRequest request = make_chains(input, first, count, 2);
  const ChainResponse with_counts = run_chain_request(*input.sampler, request);
  request.counts = false;
  const ChainResponse tokens_alone = run_chain_request(*input.sampler, request);
  if (!outcome.failed() && with_counts.tokens != tokens_alone.tokens) {
    outcome.fail("chains give other tokens in calls without counts");
    outcome.evidence.suspects.push_back(
        {"speculative decoding: another result asked for", "with counts the tokens are right"});
  }

  constexpr std::int64_t kManyVocab = 8, kMany = 70'000;
  if (input.logits->vocab() > kManyVocab) return;
  std::vector<std::int64_t> picks;
  for (std::int64_t i = 0; i < kMany; ++i) picks.push_back(i * 5 % count);
  request = pick_chains(make_chains(input, first, count, 1), picks);
  compare(request);
  request.seed_is_scalar = true;
  request.seed.resize(1);
  request.offset.resize(1);
  compare(request);
}

// --- Given random words -------------------------------------------------------------------------

// Returns the first word for which the predicate `holds` is true, and remains true for all larger
// words; returns no value if there is none.
std::optional<std::uint64_t> first_word(const std::function<bool(std::uint64_t)>& holds) {
  std::uint64_t low = 0, high = ~std::uint64_t{0};
  if (!holds(high)) return std::nullopt;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

void add_around(std::uint64_t word, std::vector<std::uint64_t>& words) {
  for (const std::uint64_t at : {word - 1, word, word + 1}) words.push_back(at);  // modulo 2^64
}

// Judges chains of one drafted token, for each id, with the rows of chain 0. The random words are
// those around the last acceptance of the token, those at which recovery and bonus change from one
// token to the next, and the smallest and largest.
void compare_scripted(const CheckInput& input, const ChainRequest& base, CheckOutcome& outcome) {
  const std::uint64_t ones = ~std::uint64_t{0};
  ChainRequest all;
  all.dtype = base.dtype;
  all.num_draft_tokens = 1;
  all.vocab = base.vocab;
  all.seed_is_scalar = true;
  all.seed = all.offset = {0};
  const auto add = [&](std::int32_t token, std::uint64_t accept, std::uint64_t recover,
                       std::uint64_t bonus) {
    ++all.batch;
    all.draft_probs.insert(all.draft_probs.end(), base.draft_probs.begin(),
                           base.draft_probs.begin() + base.vocab);
    all.target_probs.insert(all.target_probs.end(), base.target_probs.begin(),
                            base.target_probs.begin() + 2 * base.vocab);
    all.draft_tokens.push_back(token);
    all.accept_words.push_back(accept);
    all.recover_words.push_back(recover);
    all.bonus_words.push_back(bonus);
  };
  ChainRequest one = pick_chains(base, {0});
  const auto outcome_of = [&one](std::int32_t token, std::uint64_t accept, std::uint64_t recover,
                                 std::uint64_t bonus) {
    one.draft_tokens = {token};
    one.accept_words = {accept};
    one.recover_words = {recover};
    one.bonus_words = {bonus};
    return expected_chain(one, 0);
  };
  const auto vocab = static_cast<std::int32_t>(base.vocab);
  std::optional<std::int32_t> rejected, accepted;  // tokens that some word rejects, or accepts
  for (std::int32_t token = 0; token < vocab; ++token) {
    std::vector<std::uint64_t> words = {0, ones};
    const auto boundary =
        first_word([&](std::uint64_t word) { return outcome_of(token, word, 0, 0).accepted == 0; });
    if (boundary) add_around(*boundary, words);
    for (const std::uint64_t word : words) add(token, word, mixed(word, 0), mixed(word, 1));
    if (boundary) rejected = token;
    if (!boundary || *boundary > 0) accepted = token;
  }
  // These are the boundaries between tokens of the next draw: for recovery, after a rejection by
  // the word of all ones; for the bonus, after an acceptance by word 0.
  for (std::int32_t token = 0; token < vocab; ++token) {
    std::vector<std::uint64_t> words;
    if (rejected) {
      const auto next = first_word([&](std::uint64_t word) {
        return outcome_of(*rejected, ones, word, 0).tokens[0] > token;
      });
      if (next) add_around(*next, words);
      if (token == 0) words.insert(words.end(), {0, ones});
      for (const std::uint64_t word : words) add(*rejected, ones, word, ~word);
      words.clear();
    }
    if (accepted) {
      const auto next = first_word(
          [&](std::uint64_t word) { return outcome_of(*accepted, 0, 0, word).tokens[1] > token; });
      if (next) add_around(*next, words);
      if (token == 0) words.insert(words.end(), {0, ones});
      for (const std::uint64_t word : words) add(*accepted, 0, ~word, word);
    }
  }
  outcome.measures["scripted_chains"] += static_cast<double>(all.batch);
  compare_with_model(input, all, 0, outcome);
}

// Returns whether a case with fewer rows than calls makes the call with `drafts` drafted tokens;
// the case makes as many calls as it has rows, evenly spread.
bool is_chosen(const CheckInput& input, std::int64_t drafts) {
  const auto first = static_cast<std::int64_t>(input.seed % kChainCalls);
  const std::int64_t step = kChainCalls / input.rows;
  const std::int64_t place = (drafts - first + kChainCalls) % kChainCalls;
  return place % step == 0 && place / step < input.rows;
}

}  // namespace

CheckOutcome check_chain(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.chains) return skipped(lack_of("chains"));
  const Lack no_seeds{"neither claims the exact integer arithmetic nor has per-request seeds",
                      "per_request_seeds"};
  const bool strays_alone = !input.exact() && !sampler.per_request_seeds;
  if (strays_alone && !sampler.drafts.faults) return skipped(no_seeds);
  if (const Lack lacks = missing_chain_dtype(input); !lacks.empty()) return skipped(lacks);
  CheckOutcome outcome;
  if (strays_alone) outcome.leave_out(no_seeds);
  const std::int64_t a_call = std::max<std::int64_t>(1, input.rows / kChainCalls);
  const bool few = input.rows < kChainCalls;
  std::int64_t first = 0;
  for (std::int64_t n = 0; n <= kMaxDrafts && !outcome.failed(); ++n, first += a_call) {
    if (strays_alone || (few && !is_chosen(input, n))) continue;
    ChainRequest request = make_chains(input, first, a_call, n);
    outcome.rows += static_cast<std::uint64_t>(a_call * (2 * n + 1));
    if (sampler.per_request_seeds) compare_batches(input, request, outcome);
    if (!input.exact() || outcome.failed()) continue;
    compare_with_model(input, request, first, outcome);
    request.seed_is_scalar = true;
    request.seed.resize(1);
    request.offset.resize(1);
    if (!outcome.failed()) compare_with_model(input, request, first, outcome);
  }
  expect_stray_chains_fail(input, outcome);
  if (input.exact() && !few && !outcome.failed()) compare_shapes(input, first, a_call, outcome);
  if (input.exact() && sampler.scripted_words) {
    // The vocabulary is small, because the model runs 64 times for each boundary.
    constexpr std::int64_t kScriptedVocab = 64, kScriptedChains = 8;
    for (std::int64_t i = 0; input.logits->vocab() <= kScriptedVocab && i < kScriptedChains; ++i) {
      const ChainRequest base = make_chains(input, first + i, 1, 1);
      if (outcome.failed()) break;
      if (expected_chain(base, 0).status == RowStatus::ok) compare_scripted(input, base, outcome);
    }
  }
  if (strays_alone && outcome.draws == 0) return skipped(no_seeds);
  if (!outcome.failed()) {
    outcome.message =
        fmt::format("{} chains of 0 to {} drafted tokens agree", outcome.draws, kMaxDrafts);
  }
  return outcome;
}

}  // namespace fairdraw::harness
