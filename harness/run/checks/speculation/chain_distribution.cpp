// Judges the distribution of accepted chains with two drafted positions. All chains have the same
// rows, and drafts are drawn from the draft's distribution. For any draft, the emitted tokens have
// the target's distribution, and decisions by different random words are independent.
//
// Each table below puts every chain into one of its cells, so that over independent chains the
// counts of a table are multinomial, with probabilities that follow from the rows alone:
//   first       the first token: the target's distribution p;
//   recovery    the drafted token x if it is accepted, otherwise the pair (x, recovered y):
//               min(p, q)(x), and (q - p)+(x) * (p - q)+(y) / sum (p - q)+;
//   second      the pair of drafted tokens if both are accepted, otherwise (x, y) with y the token
//               after an accepted x, otherwise a rest:
//               min(p, q)(x) * the recovery table of position 1;
//   bonus       the pair (second drafted token, bonus token) of full chains, otherwise a rest;
//   neighbours  the first tokens of two neighbouring chains of the batch: p(x) p(y);
//   next_call   the first token of a chain's next call, by this call's last token (next_calls.h).
//
// Two decisions by the same random word are not independent. Dependent decisions change the counts
// of the tables recovery (acceptance and recovery), second (positions), bonus (acceptance and
// bonus), neighbours (chains) or next_call. The tables recovery, second and bonus are for the
// token-wise rule. A sampler that does not declare this rule has the tables of emitted_sequences.h,
// and next_call. Rows of 16 bits are judged twice: the rows of the source, and rows in which draft
// and target are almost equal (close_rows.h).
#include <fmt/format.h>

#include <algorithm>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/speculation/chain_rows.h"
#include "harness/run/checks/speculation/close_rows.h"
#include "harness/run/checks/speculation/speculation_distributions.h"
#include "harness/run/checks/speculation/wrong_rules.h"
#include "harness/run/checks/statistical/small_mistakes.h"
#include "harness/run/evidence/pictures.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

constexpr std::size_t kDrafts = 2;
// The indices of the tables of the token-wise rule.
constexpr std::size_t kFirst = 0, kRecovery = 1, kSecond = 2, kBonus = 3, kNeighbours = 4;

struct Rows {
  const char* suffix;  // text at the end of the names of the tables
  DType dtype;
  std::vector<std::vector<float>> draft, target;
  std::vector<reference::IntegerRow> draft_model, target_model;
  std::vector<Distribution> target_distribution;
};

// Returns the rows of target and draft; row 0 of each is the first row of the source. The draft
// never gives one token in three, and the target never gives one token in four. With `close`, makes
// two positions whose rows of target and draft are almost equal.
Rows rows_of(const CheckInput& input, bool close) {
  Rows rows;
  rows.suffix = close ? "_close" : "";
  rows.dtype = input.logits->dtype();
  for (std::size_t i = 0; i <= kDrafts; ++i) {
    std::vector<float> target = chain_row(input, static_cast<std::int64_t>(2 * i));
    std::vector<float> draft = chain_row(input, static_cast<std::int64_t>(2 * i + 1));
    if (close && i < kDrafts) {
      CloseRows pair =
          i == 0 ? close_ratio(target, rows.dtype) : close_residual(target, rows.dtype);
      target = std::move(pair.target);
      draft = std::move(pair.draft);
    } else {
      for (std::size_t id = i; id < target.size(); id += 4) target[id] = 0;
      for (std::size_t id = i + 1; id < draft.size(); id += 3) draft[id] = 0;
      scale_for_profile(input, target);
      scale_for_profile(input, draft);
    }
    rows.target.push_back(std::move(target));
    rows.target_model.push_back(reference::integer_model_from_probs(rows.target.back(), {}));
    rows.target_distribution.push_back(distribution_of_row(rows.target_model.back()));
    if (i == kDrafts) break;
    rows.draft.push_back(std::move(draft));
    rows.draft_model.push_back(reference::integer_model_from_probs(rows.draft.back(), {}));
  }
  return rows;
}

class ChainDistribution : public DistributionTables {
 public:
  ChainDistribution(const CheckInput& input, Rows rows)
      : input_(input),
        rows_(std::move(rows)),
        width_(rows_.target_distribution[0].size()),
        position_{Position(rows_.target_model[0], rows_.draft_model[0]),
                  Position(rows_.target_model[1], rows_.draft_model[1])} {
    if (NextCalls::follows(input, 0, false)) {
      next_.emplace(rows_.suffix, kDrafts, rows_.target_distribution[0],
                    is_token_wise(input) ? &position_[0] : nullptr);
    }
    if (!is_token_wise(input)) {
      sequences_.emplace(rows_.suffix, width_, [this](std::span<const std::int32_t> prefix) {
        return rows_.target_distribution[prefix.size()];
      });
      if (input.sampler->description().acceptance_rule == AcceptanceRule::block) {
        block_.emplace(
            std::string("block_acceptance") + rows_.suffix, rows_.target_distribution[0],
            [this](std::size_t) { return rows_.target_distribution[1]; },
            distribution_of_row(rows_.draft_model[0]), distribution_of_row(rows_.draft_model[1]));
      }
      return;
    }
    for (const char* name : {"first", "recovery", "second", "bonus", "neighbours"}) {
      tables_.emplace_back(std::string(name) + rows_.suffix, width_);
    }
    Table &first = table(kFirst), &recovery = table(kRecovery), &second = table(kSecond),
          &bonus = table(kBonus), &neighbours = table(kNeighbours);
    const Position& one = position_[0];
    const Position& two = position_[1];
    const Distribution& p = rows_.target_distribution[0];
    for (std::size_t x = 0; x < width_; ++x) {
      first.expect(first.single(x), p[x]);
      recovery.expect(recovery.single(x), one.accepted[x]);
      for (std::size_t y = 0; y < width_; ++y) {
        recovery.expect(recovery.pair(x, y), one.rejected[x] * one.recovered[y]);
        second.expect(second.pair(x, y), one.accepted[x] * rows_.target_distribution[1][y]);
        bonus.expect(bonus.pair(x, y),
                     one.acceptance * two.accepted[x] * rows_.target_distribution[2][y]);
        neighbours.expect(neighbours.pair(x, y), p[x] * p[y]);
      }
    }
    second.expect_rest();
    bonus.expect_rest();
  }

  std::size_t judgements() const {
    const std::size_t binomials = input_.sampler->description().drafts.counts_all ? 2 : 1;
    return DistributionTables::judgements() + (tables_.empty() ? 0 : binomials);
  }

  // Makes one call. Drafted tokens are drawn with the harness's own random words, with the words
  // that the specification reserves for drafts of the same seeds and offsets, or by the sampler
  // itself with these seeds, as an engine does. The acceptance of a draft must not depend on which
  // of these sources it comes from.
  void draw(std::int64_t count, std::uint64_t call, CheckOutcome& outcome) {
    ChainRequest request;
    request.dtype = rows_.dtype;
    request.batch = count;
    request.num_draft_tokens = kDrafts;
    request.vocab = static_cast<std::int64_t>(width_);
    const std::uint64_t seed = mixed(input_.seed, *rows_.suffix == 0 ? call : ~call);
    const SamplerDescription& sampler = input_.sampler->description();
    request.seed_is_scalar = !sampler.per_request_seeds || call % 4 == 3;
    const std::size_t seeds = request.seed_is_scalar ? 1 : static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < seeds; ++i) {
      // Neighbouring chains have one seed or different seeds; their offsets are further apart than
      // the positions of a chain.
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
    classify(request, response, call, outcome);
    if (outcome.failed() || !NextCalls::follows(input_, call, request.seed_is_scalar)) return;
    follow(std::move(request), response, call, outcome);
  }

  void judge(double level, CheckOutcome& outcome) const {
    DistributionTables::judge(level, outcome);
    if (tables_.empty()) return;
    const auto rate = [&](const char* of, std::uint64_t count, double probability) {
      const std::string name = std::string(of) + rows_.suffix;
      const double p_value = statistics::binomial_p_value(count, chains_, probability);
      outcome.spend(level);
      outcome.measures[name + "_p_value"] = p_value;
      note_decisive(name, p_value, level, outcome);
      if (p_value >= level) return;
      // The suspected cause "how often drafts are accepted" is named before its consequences.
      auto& suspects = outcome.evidence.suspects;
      suspects.insert(suspects.begin(), {"speculative decoding: how often drafts are accepted",
                                         "of what is counted, " + name + " is off"});
      outcome.fail(fmt::format("{}: {} of {} chains, expected {:.1f} (p {:.2e}, level {:.1e})",
                               name, count, chains_, probability * static_cast<double>(chains_),
                               p_value, level));
    };
    rate("acceptance", emitted_some_, position_[0].acceptance);
    if (input_.sampler->description().drafts.counts_all) {
      rate("second_acceptance", second_passed_, position_[1].acceptance);
    }
    if (!outcome.failed()) return;
    const Distribution drafted = distribution_of_row(rows_.draft_model[0]);
    const Distribution last = distribution_of_row(rows_.draft_model[1]);
    note_wrong_bonus(tables_[kBonus], rows_.target_distribution[kDrafts], &last,
                     rows_.target_distribution[1], outcome);
    note_wrong_step(tables_[kRecovery], {rows_.target_distribution[0], &drafted}, outcome);
  }

  // Computes the number of draws needed to find a small mistake in acceptance at the first
  // position: p / q is a thousandth too large, so that a token whose p is below its q is accepted
  // with probability min(1, 1.001 p / q).
  void weigh_small_mistakes(double level, std::size_t rows, CheckOutcome& outcome) const {
    const Position& one = position_[0];
    CountedSet acceptance{one.acceptance, 0};
    for (std::size_t x = 0; x < width_; ++x) {
      const double drafted = one.accepted[x] + one.rejected[x];  // q
      acceptance.mistaken +=
          one.rejected[x] > 0 ? std::min(drafted, 1.001 * one.accepted[x]) : one.accepted[x];
    }
    note_small_mistake("acceptance probabilities times 1.001", std::span(&acceptance, 1), level,
                       rows, outcome);
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
      request.dtype = chains.dtype;
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

  void classify(const ChainRequest& request, const ChainResponse& response, std::uint64_t call,
                CheckOutcome& outcome) {
    std::int64_t before = -1;  // first token of the previous chain, in pairs
    for (std::size_t b = 0; b < static_cast<std::size_t>(request.batch); ++b) {
      const std::int32_t* const tokens = response.tokens.data() + b * (kDrafts + 1);
      const std::int32_t* const drafted = request.draft_tokens.data() + b * kDrafts;
      const std::int32_t emitted = response.emitted[b];
      if (!expect_well_formed(request, response, b, outcome)) return;
      ++chains_;
      ++outcome.draws;
      if (sequences_) {
        count_sequence(input_, emitted_tokens(tokens, emitted), call, static_cast<std::int64_t>(b));
        if (block_) block_->count(static_cast<std::size_t>(emitted), drafted[0]);
        continue;
      }
      const auto at = [](std::int32_t token) { return static_cast<std::size_t>(token); };
      table(kFirst).count(table(kFirst).single(at(tokens[0])));
      table(kRecovery).count(emitted > 0 ? table(kRecovery).single(at(tokens[0]))
                                         : table(kRecovery).pair(at(drafted[0]), at(tokens[0])));
      table(kSecond).count(emitted > 0 ? table(kSecond).pair(at(tokens[0]), at(tokens[1]))
                                       : table(kSecond).rest());
      table(kBonus).count(emitted == 2 ? table(kBonus).pair(at(tokens[1]), at(tokens[2]))
                                       : table(kBonus).rest());
      if (emitted > 0) ++emitted_some_;
      // Positions after a rejection are tested as well; well_formed() ensures that the difference
      // is 0 or 1.
      second_passed_ += static_cast<std::uint64_t>(response.accepted[b] - (emitted > 0 ? 1 : 0));
      if (before >= 0) {
        table(kNeighbours)
            .count(table(kNeighbours).pair(static_cast<std::size_t>(before), at(tokens[0])));
        before = -1;
      } else {
        before = tokens[0];
      }
    }
    if (sequences_) sequences_->end_of_call();
  }

  // Makes the call that follows `request`, whose result was `response`, with the same rows and
  // other drafts.
  void follow(ChainRequest request, const ChainResponse& response, std::uint64_t call,
              CheckOutcome& outcome) {
    for (std::size_t b = 0; b < response.emitted.size(); ++b) {
      request.offset[b] += NextCalls::advance(input_, kDrafts, response.emitted[b]);
      for (std::size_t i = 0; i < kDrafts; ++i) {
        const std::uint64_t word = NextCalls::draft_word(input_, call, b * kDrafts + i);
        request.draft_tokens[b * kDrafts + i] = rows_.draft_model[i].token_for(word);
      }
    }
    const ChainResponse next = run_chain_request(*input_.sampler, request);
    if (!next.ran()) {
      outcome.fail(next.trouble());
      return;
    }
    for (std::size_t b = 0; b < next.emitted.size(); ++b) {
      const std::int32_t* const tokens = next.tokens.data() + b * (kDrafts + 1);
      const std::int32_t emitted = next.emitted[b], last = response.emitted[b];
      if (!expect_well_formed(request, next, b, outcome)) return;
      ++outcome.draws;
      next_->count(last, response.tokens[b * (kDrafts + 1) + static_cast<std::size_t>(last)],
                   tokens[0], emitted > 0);
    }
  }

  bool expect_well_formed(const ChainRequest& request, const ChainResponse& response, std::size_t b,
                          CheckOutcome& outcome) const {
    const std::int32_t* const tokens = response.tokens.data() + b * (kDrafts + 1);
    const std::int32_t* const drafted = request.draft_tokens.data() + b * kDrafts;
    const std::int32_t emitted = response.emitted[b], accepted = response.accepted[b];
    if (well_formed(request, tokens, drafted, emitted, accepted)) return true;
    note_tokens_past_end({tokens, kDrafts + 1}, emitted, outcome);
    outcome.fail(
        fmt::format("a chain drafted {} {} and gave {} {} {} with {} emitted and {} accepted",
                    drafted[0], drafted[1], tokens[0], tokens[1], tokens[2], emitted, accepted));
    return false;
  }

  // Returns whether emitted drafts come first, then one token of the target, and then nothing.
  // Positions after the first rejection may still pass their own test, if the rule tests them.
  bool well_formed(const ChainRequest& request, const std::int32_t* tokens,
                   const std::int32_t* drafted, std::int32_t emitted, std::int32_t accepted) const {
    if (emitted < 0 || emitted > static_cast<std::int32_t>(kDrafts)) return false;
    if (!sequences_ && (accepted < emitted || accepted > static_cast<std::int32_t>(kDrafts) ||
                        (emitted < static_cast<std::int32_t>(kDrafts) &&
                         accepted == static_cast<std::int32_t>(kDrafts)))) {
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
  std::uint64_t chains_ = 0, emitted_some_ = 0, second_passed_ = 0;
};

}  // namespace

CheckOutcome check_chain_distribution(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.chains) return skipped(lack_of("chains"));
  if (const Lack lacks = missing_chain_dtype(input); !lacks.empty()) return skipped(lacks);
  std::vector<ChainDistribution> distributions;
  const bool narrow = input.logits->dtype() != DType::float32;
  distributions.reserve(narrow ? 2 : 1);
  distributions.emplace_back(input, rows_of(input, false));
  if (narrow) distributions.emplace_back(input, rows_of(input, true));
  CheckOutcome outcome = judge_distributions(
      input, distributions, static_cast<std::int64_t>(2 * kDrafts + 1) * std::ssize(distributions),
      "{} chains have the target's distribution, token by token and in pairs");
  if (!outcome.failed() && is_token_wise(input)) {
    const std::size_t judgements = distributions.front().judgements() * distributions.size();
    distributions.front().weigh_small_mistakes(
        input.false_fail_rate / static_cast<double>(judgements), distributions.size(), outcome);
  }
  return outcome;
}

}  // namespace fairdraw::harness
