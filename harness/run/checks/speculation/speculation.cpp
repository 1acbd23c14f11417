// Judges speculation in serving exactly: by the integer model, by the sampler without drafts, and
// by the same requests in other batches and with other padding.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/run/checks/batch_sizes.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/speculation/speculation_checks.h"
#include "harness/run/checks/speculation/speculation_rows.h"
#include "harness/run/checks/speculation/stray_drafts.h"

namespace fairdraw::harness {
namespace {

using reference::SpeculationOutcome;

constexpr SpeculationShape kShapes[] = {
    {DraftLaw::none, false, false},   {DraftLaw::probs, false, false},
    {DraftLaw::logits, false, false}, {DraftLaw::none, true, false},
    {DraftLaw::none, false, true},    {DraftLaw::probs, false, true},
    {DraftLaw::logits, false, true},  {DraftLaw::none, true, true}};
constexpr auto kWith = SiblingSampling::with_replacement;
constexpr auto kWithout = SiblingSampling::without_replacement;
constexpr SpeculationShape kTreesOfKnownDistribution[] = {{DraftLaw::probs, true, false, kWith},
                                                          {DraftLaw::logits, true, false, kWithout},
                                                          {DraftLaw::probs, true, true, kWithout},
                                                          {DraftLaw::logits, true, true, kWith}};
static_assert(std::size(kShapes) + std::size(kTreesOfKnownDistribution) == kSpeculationCalls);

std::string name_of(const SpeculationShape& shape) {
  constexpr const char* kDistributions[] = {"of unknown distribution", "with probabilities",
                                            "with logits"};
  constexpr const char* kSiblings[] = {"", " without replacement"};
  return fmt::format("{} {}{}, {}", shape.trees ? "trees" : "chains",
                     kDistributions[static_cast<std::size_t>(shape.distribution)],
                     kSiblings[static_cast<std::size_t>(shape.siblings)],
                     shape.packed ? "packed" : "padded");
}

std::vector<std::int32_t> padded(std::vector<std::int32_t> values, std::int64_t width) {
  values.resize(static_cast<std::size_t>(width), -1);
  return values;
}

std::string text(const std::vector<std::int32_t>& values) {
  return fmt::format("{}", fmt::join(values, " "));
}

struct Run {
  const CheckInput& input;
  const SpeculationRequest& request;
  std::string name;
  CheckOutcome& outcome;

  // Returns the response, or no value if the call did not run; in that case the outcome has failed.
  std::optional<SpeculationResponse> answer(const SpeculationRequest& asked) const {
    SpeculationResponse response = run_speculation(*input.sampler, asked);
    if (response.ran()) return response;
    outcome.fail(fmt::format("{}: {}", name, response.trouble()));
    return std::nullopt;
  }

  // Adds a suspected cause whose full name is `bug`.
  void suspect_of(const char* bug, const std::string& why) const {
    outcome.evidence.suspects.push_back({bug, why});
  }
  void suspect(const char* what, const std::string& why) const {
    outcome.evidence.suspects.push_back({std::string("speculative decoding: ") + what, why});
  }
};

void note_wrong_token(const Run& run, const DraftedTokens& taken,
                      const std::vector<std::int32_t>& tokens, const SpeculationOutcome& expected) {
  Evidence& evidence = run.outcome.evidence;
  evidence.observed = fmt::format("tokens {}", fmt::join(tokens, " "));
  evidence.expected = fmt::format("tokens {}", fmt::join(expected.tokens, " "));
  evidence.smallest = fmt::format("drafts {} over {} tokens; {} of them are to be accepted",
                                  fmt::join(taken.drafted, " "), taken.vocab, expected.accepted);
  const auto right = padded(expected.tokens, static_cast<std::int64_t>(tokens.size()));
  const auto wrong = static_cast<std::size_t>(
      std::mismatch(tokens.begin(), tokens.end(), right.begin()).first - tokens.begin());
  const auto stand = static_cast<std::size_t>(expected.accepted);
  const std::string place =
      fmt::format("position {} holds {}, not {}", wrong, tokens[wrong], right[wrong]);
  if (wrong < stand) {
    run.suspect("a draft is rejected that must be accepted", place);
  } else if (wrong > stand) {
    run.suspect("tokens past the end", place);
  } else if (tokens[wrong] == -1) {
    run.suspect("the target's own token is missing", place);
  } else {
    run.suspect(stand == taken.drafted.size() ? "the bonus token" : "the token after a rejection",
                place);
  }
}

void compare_with_model(const Run& run) {
  const std::optional<SpeculationResponse> response = run.answer(run.request);
  if (!response) return;
  const std::int64_t width = run.request.width();
  for (std::int64_t b = 0; b < run.request.batch && !run.outcome.failed(); ++b) {
    const DraftedTokens taken = split_request(run.request, b);
    const SpeculationOutcome expected = outcome_of(taken);
    ++run.outcome.draws;
    ++run.outcome.measures[std::string("status_") + to_string(expected.status)];
    run.outcome.measures["drafts_that_stand"] += expected.accepted;
    const auto at = static_cast<std::size_t>(b);
    const auto fail = [&](const char* what, const std::string& got, const std::string& right) {
      run.outcome.fail(
          fmt::format("{}: request {} with {} drafts: {} {}, the integer model says {}", run.name,
                      b, taken.drafted.size(), what, got, right));
    };
    const std::vector<std::int32_t> tokens = part_of(response->tokens, b, width + 1);
    const std::vector<std::int32_t> nodes = part_of(response->nodes, b, width);
    const auto right_tokens = padded(expected.tokens, width + 1);
    if (!response->statuses.empty() &&
        response->statuses[at] != static_cast<std::int32_t>(expected.status)) {
      fail("status", std::to_string(response->statuses[at]), to_string(expected.status));
      run.suspect("statuses", "tokens and counts follow from the status");
    } else if (tokens != right_tokens) {
      fail("tokens", text(tokens), text(right_tokens));
      note_wrong_token(run, taken, tokens, expected);
    } else if (response->accepted[at] != expected.accepted) {
      fail("accepted", std::to_string(response->accepted[at]), std::to_string(expected.accepted));
      run.suspect("counts", "the tokens follow from the drafts and random words");
    } else if (run.request.trees && nodes != padded(expected.nodes, width)) {
      fail("nodes", text(nodes), text(padded(expected.nodes, width)));
      run.suspect("nodes", "the tokens follow from the drafts and random words");
    }
  }
}

// Returns whether a request with these parameters takes the largest logits under the profile.
bool is_greedy_under(const reference::Semantics& semantics,
                     const reference::RowParameters& parameters) {
  using reference::TemperatureZero;
  using reference::TopPZero;
  if (parameters.top_p == 0) return semantics.top_p_zero == TopPZero::greedy;
  return parameters.top_k == 1 ||
         (parameters.temperature == 0 && semantics.temperature_zero == TemperatureZero::greedy);
}

// Judges greedy requests, which take the largest logits in any arithmetic, unless two logits tie.
void compare_greedy(const Run& run) {
  const std::optional<SpeculationResponse> response = run.answer(run.request);
  if (!response) return;
  const std::int64_t width = run.request.width();
  for (std::int64_t b = 0; b < run.request.batch && !run.outcome.failed(); ++b) {
    const DraftedTokens taken = split_request(run.request, b);
    if (taken.target.empty()) continue;
    if (!is_greedy_under(run.input.semantics, taken.target.front().parameters)) continue;
    const SpeculationOutcome expected = outcome_of(taken);
    if (expected.status != RowStatus::ok) continue;
    const bool tied =
        std::any_of(taken.target.begin(), taken.target.end(), [](const DistributionRow& row) {
          const std::vector<float> values = row.processed();
          const float largest = *std::max_element(values.begin(), values.end());
          return largest != -INFINITY && std::count(values.begin(), values.end(), largest) != 1;
        });
    if (tied) continue;
    ++run.outcome.draws;
    const std::vector<std::int32_t> tokens = part_of(response->tokens, b, width + 1);
    const auto right = padded(expected.tokens, width + 1);
    if (tokens == right) continue;
    run.outcome.fail(fmt::format("{}: greedy request {}: tokens {}, the largest logits are {}",
                                 run.name, b, fmt::join(tokens, " "), fmt::join(right, " ")));
    run.suspect("greedy requests", "at temperature 0 no random word may change a token");
  }
}

// The rows that speculation reached, as a call with one output per row at the offsets of the
// requests, and the tokens that were emitted from these rows. The histories include the tokens that
// were emitted before each row.
struct Reached {
  Request rows;
  std::vector<std::int32_t> emitted;
};

// Returns the rows of the requests for which `counts` holds.
template <class Counts>
Reached reached_rows(const Run& run, const SpeculationResponse& response, Counts counts) {
  const SpeculationRequest& asked = run.request;
  Reached reached;
  Request& rows = reached.rows;
  rows.dtype = asked.dtype;
  rows.vocab = asked.vocab;
  rows.tie_rule = asked.tie_rule;
  rows.filter_order = asked.filter_order;
  for (std::int64_t b = 0; b < asked.batch; ++b) {
    const DraftedTokens taken = split_request(asked, b);
    if (!counts(taken)) continue;
    const auto at = static_cast<std::size_t>(b);
    const std::vector<std::int32_t> tokens = part_of(response.tokens, b, asked.width() + 1);
    std::size_t row = 0;
    std::vector<std::int32_t> history;
    for (std::int64_t i = 0; i <= asked.width(); ++i) {
      const std::int32_t token = tokens[static_cast<std::size_t>(i)];
      if (token < 0 || row >= taken.target.size()) break;
      const DistributionRow& distribution = taken.target[row];
      rows.logits.insert(rows.logits.end(), distribution.values.begin(), distribution.values.end());
      rows.allowed.insert(rows.allowed.end(), distribution.allowed.begin(),
                          distribution.allowed.end());
      rows.parameters.push_back(distribution.parameters);
      if (distribution.processing) {
        const reference::RowProcessing grown =
            processing_behind(*taken.target.front().processing, history);
        rows.processing.push_back(*distribution.processing);
        rows.processing.back().output = grown.output;
        rows.processing.back().output_length = grown.output_length;
        history.push_back(token);
      }
      rows.seed.push_back(asked.seed[at]);
      rows.offset.push_back(asked.offset[at] + static_cast<std::uint64_t>(i));
      reached.emitted.push_back(token);
      ++rows.rows;
      const std::int32_t node =
          i == asked.width() ? -1
          : asked.trees ? part_of(response.nodes, b, asked.width())[static_cast<std::size_t>(i)]
                        : static_cast<std::int32_t>(i);
      row = static_cast<std::size_t>(node) + 1;
    }
  }
  return reached;
}

// Compares emitted tokens with samples that are drawn from the reached rows without speculation.
void compare_with_sampling(const Run& run) {
  if (run.request.draft_law != DraftLaw::none) return;
  if (!run.input.sampler->description().samples) return;  // samples drafts only
  const std::optional<SpeculationResponse> response = run.answer(run.request);
  if (!response) return;
  const auto [sampling, emitted] =
      reached_rows(run, *response, [](const DraftedTokens&) { return true; });
  if (is_left_out(run.input, sampling, run.outcome)) return;
  const Response off = run_request(*run.input.sampler, sampling, {});
  ++run.outcome.measures["relations"];
  if (!off.ran()) {
    run.outcome.fail(fmt::format("{}, without speculation: {}", run.name, off.trouble()));
  } else if (off.tokens != emitted) {
    const auto wrong = std::mismatch(emitted.begin(), emitted.end(), off.tokens.begin());
    run.outcome.fail(fmt::format("{}: speculation emits token {}, but sampling gives {}", run.name,
                                 *wrong.first, *wrong.second));
    run.suspect("other tokens than without drafts", "the same rows, words and histories, sampled");
  }
}

// Writes the given id and parent to all places after the last draft of padded requests.
SpeculationRequest with_padding(SpeculationRequest request, std::int32_t id) {
  for (std::int64_t b = 0; b < request.batch; ++b) {
    const std::int32_t drafts = request.draft_lengths[static_cast<std::size_t>(b)];
    for (std::int64_t i = std::max(drafts, 0); i < request.max_draft; ++i) {
      const auto place = static_cast<std::size_t>(b * request.max_draft + i);
      request.draft_tokens[place] = id;
      if (request.trees) request.parents[place] = id;
      const std::int64_t row = b * (request.max_draft + 1) + i + 1;
      std::fill_n(request.target.begin() + row * request.vocab, request.vocab, 0.0F);
      if (!request.processing.empty()) request.processing[static_cast<std::size_t>(row)] = {};
    }
  }
  return request;
}

// Judges that each token is one that its row keeps, in any arithmetic and under any rule; the row
// is the one after the accepted drafts, with its own bitmask and history.
void compare_with_support(const Run& run) {
  const std::optional<SpeculationResponse> response = run.answer(run.request);
  if (!response) return;
  const auto [rows, emitted] = reached_rows(run, *response, [](const DraftedTokens& taken) {
    return !taken.target.empty() && outcome_of(taken).status == RowStatus::ok;
  });
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    const reference::RealDistribution distribution = distribution_of(run.input, rows, row);
    if (!distribution.defined) continue;
    ++run.outcome.draws;
    const std::int32_t token = emitted[static_cast<std::size_t>(row)];
    const bool kept =
        token < rows.vocab && !distribution.must_fail &&
        distribution.membership[static_cast<std::size_t>(token)] != reference::Membership::out;
    if (kept) continue;
    run.outcome.fail(fmt::format("{}: token {} is outside of the support of its row ({})", run.name,
                                 token, describe(rows.parameters[static_cast<std::size_t>(row)])));
    return;
  }
}

// Runs the same requests again, in other batches, and with other padding.
void compare_batches(const Run& run) {
  const std::optional<SpeculationResponse> whole = run.answer(run.request);
  if (!whole) return;
  const std::int64_t width = run.request.width();
  const auto expect_same = [&](const char* what, const SpeculationRequest& asked,
                               const std::vector<std::int64_t>& picks, const char* bug) {
    if (run.outcome.failed()) return;
    const std::optional<SpeculationResponse> response = run.answer(asked);
    if (!response) return;
    ++run.outcome.measures["relations"];
    for (std::int64_t i = 0; i < asked.batch; ++i) {
      const std::int64_t b = picks[static_cast<std::size_t>(i)];
      const std::vector<std::int32_t> before = part_of(whole->tokens, b, width + 1);
      const std::vector<std::int32_t> after = part_of(response->tokens, i, width + 1);
      if (before == after) continue;
      run.outcome.fail(fmt::format("{}, {}: request {} gives {}, and {} in the whole batch",
                                   run.name, what, b, fmt::join(after, " "),
                                   fmt::join(before, " ")));
      run.suspect_of(bug, what);
      return;
    }
  };
  std::vector<std::int64_t> picks;
  for (std::int64_t b = 0; b < run.request.batch; ++b) picks.push_back(b);
  const bool replays = run.input.sampler->description().randomness.replays;
  if (replays)
    expect_same("the same call again", run.request, picks,
                "speculative decoding: the same call gives something else");
  SpeculationRequest tokens_alone = run.request;
  tokens_alone.counts = false;
  expect_same("with only tokens requested", tokens_alone, picks,
              "speculative decoding: another result asked for");
  // The padding is first a valid token with a row of zeros, and then an id far outside of the
  // vocabulary.
  const bool has_padding = run.request.row_begins.empty() && !run.request.draft_lengths.empty();
  for (const std::int32_t padded_with : {0, std::numeric_limits<std::int32_t>::max()}) {
    if (!has_padding) break;
    expect_same("over other padding", with_padding(run.request, padded_with), picks,
                "speculative decoding: padding is read");
  }
  if (!run.request.processing.empty()) {
    SpeculationRequest other_form = run.request;
    other_form.history_form.grown = !other_form.history_form.grown;
    expect_same("with histories in other memory", other_form, picks,
                "speculative decoding: histories in other memory");
    SpeculationRequest neutral = run.request, none = run.request;
    for (reference::RowProcessing& row : neutral.processing) row = {};
    none.processing.clear();
    if (!run.outcome.failed()) {
      const std::optional<SpeculationResponse> a = run.answer(neutral), b = run.answer(none);
      if (!a || !b) return;
      ++run.outcome.measures["relations"];
      if (a->tokens != b->tokens) {
        run.outcome.fail(run.name + ": neutral processing changes tokens");
        run.suspect("neutral processing", "the call has penalties, biases and bans without effect");
      }
    }
  }
  // If the same call repeats its results, a difference is due to the batch.
  const char* const bug = replays ? "speculative decoding: a request depends on its batch"
                                  : "speculative decoding: the same call gives something else";
  std::reverse(picks.begin(), picks.end());
  expect_same("reversed batch", pick_requests(run.request, picks), picks, bug);
  picks.resize((picks.size() + 1) / 2);
  expect_same("half of the batch", pick_requests(run.request, picks), picks, bug);
  for (std::int64_t b = 0; b < std::min<std::int64_t>(run.request.batch, 4); ++b) {
    expect_same("alone", pick_requests(run.request, {b}), {b}, bug);
  }
}

CheckOutcome judge_one(const CheckInput& input, const SpeculationRequest& request,
                       void (*compare)(const Run&)) {
  CheckOutcome outcome;
  compare({input, request, request.trees ? "trees" : "chains", outcome});
  return outcome;
}

}  // namespace

CheckOutcome compare_speculation_with_model(const CheckInput& input,
                                            const SpeculationRequest& request) {
  return judge_one(input, request, compare_with_model);
}

CheckOutcome compare_speculation_with_sampling(const CheckInput& input,
                                               const SpeculationRequest& request) {
  return judge_one(input, request, compare_with_sampling);
}

CheckOutcome compare_speculation_batches(const CheckInput& input,
                                         const SpeculationRequest& request) {
  return judge_one(input, request, compare_batches);
}

CheckOutcome check_speculation(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.speculation) return skipped(lack_of("speculation"));
  if (const Lack lacks = missing_filter(input); !lacks.empty()) return skipped(lacks);
  if (input.banned_tokens && !sampler.allowed_mask) return skipped(lack_of("allowed_mask"));
  if (!input.processing.empty() && !sampler.speculation_processing) {
    return skipped(lack_of("speculation_processing"));
  }
  CheckOutcome outcome;
  std::vector<SpeculationShape> shapes;
  for (const SpeculationShape& shape : kShapes) {
    if (!takes_drafts(sampler, shape.distribution)) continue;
    if (!shape.trees || sampler.draft_trees) shapes.push_back(shape);
  }
  if (sampler.draft_tree_laws) {
    shapes.insert(shapes.end(), std::begin(kTreesOfKnownDistribution),
                  std::end(kTreesOfKnownDistribution));
  }
  const auto few = static_cast<std::size_t>(input.rows);
  if (input.rows < kSpeculationCalls && few < shapes.size()) {
    std::ranges::rotate(shapes,
                        shapes.begin() + static_cast<std::ptrdiff_t>(input.seed % shapes.size()));
    shapes.resize(few);
  }
  // The requests of a call do not depend on the sampler's abilities.
  const std::int64_t a_call = std::max(kMinSpeculations, input.rows / kSpeculationCalls);
  std::int64_t first = 0;
  for (const SpeculationShape& shape : shapes) {
    if (outcome.failed()) break;
    SpeculationRequest request = make_speculations(input, first, a_call, shape);
    if (!sampler.active_rows) request.active.clear();
    first += a_call;
    outcome.rows += static_cast<std::uint64_t>(request.rows() + request.places());
    const Run run{input, request, name_of(shape), outcome};
    if (sampler.per_request_seeds) compare_batches(run);
    expect_stray_requests_fail(input, shape, outcome);
    if (!input.exact()) {
      if (!outcome.failed()) compare_greedy(run);
      if (!outcome.failed()) compare_with_support(run);
      continue;
    }
    if (!outcome.failed()) compare_with_model(run);
    if (!outcome.failed()) compare_with_sampling(run);
    SpeculationRequest scalar = request;
    scalar.seed_is_scalar = true;
    scalar.seed.resize(1);
    scalar.offset.resize(1);
    const Run scalar_run{input, scalar, name_of(shape) + ", one seed for the call", outcome};
    if (!outcome.failed()) compare_with_model(scalar_run);
  }
  if (!outcome.failed()) {
    outcome.message = fmt::format("{} requests with drafts", outcome.draws);
  }
  return outcome;
}

}  // namespace fairdraw::harness
