// The distribution of verified chains. One pair of drafted positions, the same rows for every
// chain; drafts are drawn from the draft's distribution. Whatever the draft is, what comes out has
// the target's distribution, and what each random word decides is independent of what the others
// decide.
//
// Each table below classifies every chain into one of its cells, so that over independent chains
// its counts are multinomial, with probabilities that follow from the rows alone:
//   first       the first token: the target's distribution p;
//   recovery    the drafted token x if accepted, else the pair (x, recovered y):
//               min(p, q)(x), and (q - p)+(x) * (p - q)+(y) / sum (p - q)+;
//   second      the pair of drafted tokens if both are accepted, else (x, y) with y what came
//               after an accepted x, else a rest: min(p, q)(x) * the recovery table of position 1;
//   bonus       the pair (second drafted token, bonus token) of full chains, else a rest;
//   neighbours  the first tokens of two chains that are neighbours in the batch: p(x) p(y).
// Pairs that the same random word decided are not independent, and leave recovery (acceptance and
// recovery), second (positions), bonus (acceptance and bonus) or neighbours (chains).
#include <fmt/format.h>

#include <algorithm>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/speculation/chain_rows.h"
#include "harness/run/checks/speculation/chain_tables.h"
#include "harness/run/evidence/pictures.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

constexpr std::size_t kDrafts = 2;
constexpr std::int64_t kChainsPerCall = 4096;
constexpr double kTables = 5, kBinomials = 2;

struct Rows {
  std::vector<std::vector<float>> draft, target;
  std::vector<reference::IntegerRow> draft_model, target_model;
  std::vector<Distribution> target_distribution;
};

// Row 0 of each is the source's first. Every third token of the draft is one that it never drafts,
// and every fourth of the target one that may not come.
Rows rows_of(const CheckInput& input) {
  Rows rows;
  for (std::size_t i = 0; i <= kDrafts; ++i) {
    std::vector<float> target = chain_row(input, static_cast<std::int64_t>(2 * i));
    for (std::size_t id = i; id < target.size(); id += 4) target[id] = 0;
    rows.target.push_back(std::move(target));
    rows.target_model.push_back(reference::integer_model_from_probs(rows.target.back(), {}));
    rows.target_distribution.push_back(distribution_of_row(rows.target_model.back()));
    if (i == kDrafts) break;
    std::vector<float> draft = chain_row(input, static_cast<std::int64_t>(2 * i + 1));
    for (std::size_t id = i + 1; id < draft.size(); id += 3) draft[id] = 0;
    rows.draft.push_back(std::move(draft));
    rows.draft_model.push_back(reference::integer_model_from_probs(rows.draft.back(), {}));
  }
  return rows;
}

class ChainDistribution {
 public:
  ChainDistribution(const CheckInput& input, Rows rows)
      : input_(input),
        rows_(std::move(rows)),
        width_(rows_.target_distribution[0].size()),
        position_{Position(rows_.target_model[0], rows_.draft_model[0]),
                  Position(rows_.target_model[1], rows_.draft_model[1])},
        first_("first", width_),
        recovery_("recovery", width_),
        second_("second", width_),
        bonus_("bonus", width_),
        neighbours_("neighbours", width_) {
    const Position& one = position_[0];
    const Position& two = position_[1];
    const Distribution& p = rows_.target_distribution[0];
    for (std::size_t x = 0; x < width_; ++x) {
      first_.expect(first_.single(x), p[x]);
      recovery_.expect(recovery_.single(x), one.accepted[x]);
      for (std::size_t y = 0; y < width_; ++y) {
        recovery_.expect(recovery_.pair(x, y), one.rejected[x] * one.recovered[y]);
        second_.expect(second_.pair(x, y), one.accepted[x] * rows_.target_distribution[1][y]);
        bonus_.expect(bonus_.pair(x, y),
                      one.acceptance * two.accepted[x] * rows_.target_distribution[2][y]);
        neighbours_.expect(neighbours_.pair(x, y), p[x] * p[y]);
      }
    }
    second_.expect_rest();
    bonus_.expect_rest();
  }

  std::uint32_t largest_table() const {
    return std::max(
        {first_.cells(), recovery_.cells(), second_.cells(), bonus_.cells(), neighbours_.cells()});
  }

  // One call. Drafted tokens come from words of our own, from those that the specification keeps
  // for drafts of the same seeds and offsets, and from the sampler itself with these, as an engine
  // draws them: acceptance must not depend on any.
  void draw(std::int64_t count, std::uint64_t call, CheckOutcome& outcome) {
    ChainRequest request;
    request.batch = count;
    request.num_draft_tokens = kDrafts;
    request.vocab = static_cast<std::int64_t>(width_);
    const std::uint64_t seed = mixed(input_.seed, call);
    const SamplerDescription& sampler = input_.sampler->description();
    request.seed_is_scalar = !sampler.per_request_seeds || call % 4 == 3;
    const std::size_t seeds = request.seed_is_scalar ? 1 : static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < seeds; ++i) {
      // Neighbours of one seed, or different seeds; offsets further apart than positions.
      request.seed.push_back(call % 2 == 0 ? mixed(seed, i) : seed + i);
      request.offset.push_back(call % 3 == 0 ? 0 : 3 * i);
    }
    for (std::int64_t b = 0; b < count; ++b) {
      for (std::size_t i = 0; i < kDrafts; ++i) {
        append(rows_.draft[i], request.draft_probs);
        append(rows_.target[i], request.target_probs);
        request.draft_tokens.push_back(drafted(request, b, i, call));
      }
      append(rows_.target[kDrafts], request.target_probs);
    }
    if (call % 3 == 2) draft_by_sampler(request, outcome);
    if (outcome.failed()) return;
    const ChainResponse response = run_chain_request(*input_.sampler, request);
    if (!response.ran()) {
      outcome.fail(response.trouble());
      return;
    }
    classify(request, response, outcome);
  }

  void judge(CheckOutcome& outcome) const {
    const double level = input_.false_fail_rate / (kTables + kBinomials);
    for (const Table* table : {&first_, &recovery_, &second_, &bonus_, &neighbours_}) {
      table->judge(level, outcome);
    }
    const auto rate = [&](const char* name, std::uint64_t count, double probability) {
      const double p_value = statistics::binomial_p_value(count, chains_, probability);
      outcome.spend(level);
      outcome.measures[std::string(name) + "_p_value"] = p_value;
      note_decisive(name, p_value, level, outcome);
      if (p_value >= level) return;
      outcome.fail(fmt::format("{}: {} of {} chains, expected {:.1f} (p {:.2e}, level {:.1e})",
                               name, count, chains_, probability * static_cast<double>(chains_),
                               p_value, level));
    };
    rate("acceptance", emitted_some_, position_[0].acceptance);
    rate("second_acceptance", second_passed_, position_[1].acceptance);
  }

 private:
  static void append(const std::vector<float>& row, std::vector<float>& to) {
    to.insert(to.end(), row.begin(), row.end());
  }

  std::int32_t drafted(const ChainRequest& request, std::int64_t b, std::size_t i,
                       std::uint64_t call) const {
    const auto chain = static_cast<std::uint64_t>(b);
    const std::size_t s = request.seed_is_scalar ? 0 : static_cast<std::size_t>(b);
    const std::uint64_t word =
        call % 3 == 1 ? random_word(request.seed[s], request.offset[s] + i, Purpose::draft,
                                    request.seed_is_scalar ? static_cast<std::uint32_t>(b) : 0)
                      : mixed(mixed(~input_.seed, call), chain * kDrafts + i);
    return rows_.draft_model[i].token_for(word);
  }

  void draft_by_sampler(ChainRequest& chains, CheckOutcome& outcome) {
    const SamplerDescription& sampler = input_.sampler->description();
    if (!sampler.from_probs || !sampler.randomness.purposes) return;
    for (std::size_t i = 0; i < kDrafts; ++i) {
      Request request;
      request.input = RowInput::probabilities;
      request.rows = chains.batch;
      request.vocab = chains.vocab;
      request.parameters.assign(static_cast<std::size_t>(chains.batch), {});
      for (std::int64_t b = 0; b < chains.batch; ++b) append(rows_.draft[i], request.logits);
      request.seed_is_scalar = chains.seed_is_scalar;
      request.seed = chains.seed;
      request.offset = chains.offset;
      for (std::uint64_t& offset : request.offset) offset += i;
      const Response response = run_request(*input_.sampler, request, {});
      if (!response.ran()) {
        outcome.fail(response.trouble());
        return;
      }
      for (std::size_t b = 0; b < response.tokens.size(); ++b) {
        const std::int32_t token = response.tokens[b];
        if (token < 0 || token >= chains.vocab) {
          outcome.fail(fmt::format("drafting gave token {}", token));
          return;
        }
        chains.draft_tokens[b * kDrafts + i] = token;
      }
    }
  }

  void classify(const ChainRequest& request, const ChainResponse& response, CheckOutcome& outcome) {
    std::int64_t before = -1;  // first token of the chain before, in pairs
    for (std::size_t b = 0; b < static_cast<std::size_t>(request.batch); ++b) {
      const std::int32_t* const tokens = response.tokens.data() + b * (kDrafts + 1);
      const std::int32_t* const drafted = request.draft_tokens.data() + b * kDrafts;
      const std::int32_t emitted = response.emitted[b];
      if (!well_formed(request, tokens, drafted, emitted, response.accepted[b])) {
        outcome.fail(fmt::format(
            "a chain drafted {} {} and gave {} {} {} with {} emitted and {} accepted", drafted[0],
            drafted[1], tokens[0], tokens[1], tokens[2], emitted, response.accepted[b]));
        return;
      }
      ++chains_;
      ++outcome.draws;
      const auto at = [](std::int32_t token) { return static_cast<std::size_t>(token); };
      first_.count(first_.single(at(tokens[0])));
      recovery_.count(emitted > 0 ? recovery_.single(at(tokens[0]))
                                  : recovery_.pair(at(drafted[0]), at(tokens[0])));
      second_.count(emitted > 0 ? second_.pair(at(tokens[0]), at(tokens[1])) : second_.rest());
      bonus_.count(emitted == 2 ? bonus_.pair(at(tokens[1]), at(tokens[2])) : bonus_.rest());
      if (emitted > 0) ++emitted_some_;
      // Positions after a rejection are tested too; well_formed() leaves 0 or 1 here.
      second_passed_ += static_cast<std::uint64_t>(response.accepted[b] - (emitted > 0 ? 1 : 0));
      if (before >= 0) {
        neighbours_.count(neighbours_.pair(static_cast<std::size_t>(before), at(tokens[0])));
        before = -1;
      } else {
        before = tokens[0];
      }
    }
  }

  // Emitted drafts come first, then one token of the target, then nothing. Positions after the
  // first rejection may still pass their own test.
  static bool well_formed(const ChainRequest& request, const std::int32_t* tokens,
                          const std::int32_t* drafted, std::int32_t emitted,
                          std::int32_t accepted) {
    if (emitted < 0 || emitted > static_cast<std::int32_t>(kDrafts)) return false;
    if (accepted < emitted || accepted > static_cast<std::int32_t>(kDrafts)) return false;
    if (emitted < static_cast<std::int32_t>(kDrafts) &&
        accepted == static_cast<std::int32_t>(kDrafts)) {
      return false;
    }
    for (std::int32_t i = 0; i <= static_cast<std::int32_t>(kDrafts); ++i) {
      if (i < emitted && tokens[i] != drafted[i]) return false;
      if (i == emitted && (tokens[i] < 0 || tokens[i] >= request.vocab)) return false;
      if (i > emitted && tokens[i] != -1) return false;
    }
    return true;
  }

  const CheckInput& input_;
  Rows rows_;
  std::size_t width_;
  Position position_[kDrafts];
  Table first_, recovery_, second_, bonus_, neighbours_;
  std::uint64_t chains_ = 0, emitted_some_ = 0, second_passed_ = 0;
};

}  // namespace

CheckOutcome check_chain_distribution(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.chains) return skipped("verifies no drafted chains");
  ChainDistribution distribution(input, rows_of(input));
  CheckOutcome outcome;
  // The widest table decides; neighbours has half of the draws, and the fewest of all.
  outcome.min_discrepancy =
      statistics::g_min_discrepancy(input.draws / 2, distribution.largest_table(),
                                    input.false_fail_rate / (kTables + kBinomials), kFalsePassRate);
  if (*outcome.min_discrepancy > input.declared_discrepancy) {
    CheckOutcome weak = underpowered(
        fmt::format("{} chains find a total variation of {:.4f}, the case states {:.4f}",
                    input.draws, *outcome.min_discrepancy, input.declared_discrepancy));
    weak.min_discrepancy = outcome.min_discrepancy;
    return weak;
  }
  outcome.rows = 2 * kDrafts + 1;
  outcome.measures["alpha"] = input.false_fail_rate;
  const auto chains = static_cast<std::int64_t>(input.draws);
  for (std::int64_t done = 0, call = 0; done < chains && !outcome.failed();
       done += kChainsPerCall, ++call) {
    distribution.draw(std::min(kChainsPerCall, chains - done), static_cast<std::uint64_t>(call),
                      outcome);
  }
  if (!outcome.failed()) distribution.judge(outcome);
  if (!outcome.failed()) {
    outcome.message = fmt::format(
        "{} chains have the target's distribution, token by token and in pairs", outcome.draws);
  }
  return outcome;
}

}  // namespace fairdraw::harness
