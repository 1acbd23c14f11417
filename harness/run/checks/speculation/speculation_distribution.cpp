// Judges the distribution of speculation in serving, for two drafted positions and the same rows in
// every request. Drafts come from a distribution of their own, which the call does not get, or gets
// as probabilities or as logits with filters. With each of these forms, the emitted tokens have the
// target's distribution under the target's filters.
//
// Let J_i(x, y) be the probability that token x is drafted at position i and token y is emitted
// there; y = x means that the draft is accepted. For an unknown draft distribution, J_i is
// q(x) p(y); for a known one J_i is min(p, q)(x) if y = x, and otherwise
// (q - p)+(x) (p - q)+(y) / sum (p - q)+.
//
// Each table below puts every request into one of its cells:
//   first       the first token: p_0;
//   step        the accepted draft, otherwise the pair of the draft and its replacement: J_0;
//   second      the first two tokens if the first is a draft, otherwise a rest: J_0(x, x) p_1(y);
//   behind      the same as `step` at position 1 if the first draft is accepted, otherwise a rest;
//   bonus       the second draft and the bonus token if both are accepted, otherwise a rest;
//   neighbours  the first tokens of two neighbouring requests of the batch: p_0(x) p_0(y);
//   next_call   the first token of a request's next call, by the last token of this one
//               (next_calls.h); only for rows without processing, whose history would continue.
//
// With logits processing a row depends on the drafts before it, and the tables sum over these
// drafts. All tables except `first`, `neighbours` and `next_call` are for the token-wise rule. A
// sampler that does not declare this rule has the tables of emitted_sequences.h, and `next_call`.
// Random words that are shared between purposes, positions or requests change the counts of some of
// these tables.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "harness/run/calls/row_probabilities.h"
#include "harness/run/checks/speculation/speculation_distributions.h"
#include "harness/run/checks/speculation/speculation_rows.h"
#include "harness/run/checks/speculation/wrong_rules.h"

namespace fairdraw::harness {
namespace {

constexpr std::int64_t kDrafts = 2;
// The indices of the tables of the token-wise rule that indicate which step is wrong.
constexpr std::size_t kStep = 1, kBonus = 4;
constexpr DraftLaw kDistributions[] = {DraftLaw::none, DraftLaw::probs, DraftLaw::logits};

// The outcomes at one position, as joint probabilities of the drafted and the emitted token.
struct Joint {
  Joint(const reference::IntegerRow& target, const reference::IntegerRow& draft,
        DraftLaw distribution)
      : width(target.mask.size()), probability(width * width, 0) {
    const Distribution p = distribution_of_row(target), q = distribution_of_row(draft);
    const Position known(target, draft);
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t y = 0; y < width; ++y) {
        double& cell = probability[x * width + y];
        if (distribution == DraftLaw::none) {
          cell = q[x] * p[y];
        } else {
          cell = x == y ? known.accepted[x] : known.rejected[x] * known.recovered[y];
        }
      }
      stands += at(x, x);
    }
  }
  double at(std::size_t x, std::size_t y) const { return probability[x * width + y]; }

  std::size_t width;
  Distribution probability;
  double stands = 0;
};

class SpeculationDistribution : public DistributionTables {
 public:
  SpeculationDistribution(const CheckInput& input, DraftLaw distribution)
      : input_(input), distribution_(distribution) {
    width_ = static_cast<std::size_t>(input.logits->vocab());
    make_rows();
    constexpr const char* kNames[] = {"_unknown", "_probs", "_logits"};
    const std::string suffix = kNames[static_cast<std::size_t>(distribution)];
    if (input.processing.empty() && NextCalls::follows(input, 0, false)) {
      const reference::IntegerRow first = target_.front().model();
      const Position rule(first, draft_model_.front());
      const bool is_known = distribution != DraftLaw::none && is_token_wise(input);
      next_.emplace(suffix, std::size_t{kDrafts}, distribution_of_row(first),
                    is_known ? &rule : nullptr);
    }
    if (!is_token_wise(input)) {
      expect_sequences(suffix);
      return;
    }
    for (const char* name : {"first", "step", "second", "behind", "bonus", "neighbours"}) {
      tables_.emplace_back(name + suffix, width_);
    }
    expect_distributions();
    for (const std::size_t open : {2U, 3U, 4U}) table(open).expect_rest();
  }

  void draw(std::int64_t count, std::uint64_t call, CheckOutcome& outcome) {
    SpeculationRequest request;
    request.dtype = input_.logits->dtype();
    request.batch = count;
    request.max_draft = kDrafts;
    request.vocab = static_cast<std::int64_t>(width_);
    request.draft_law = distribution_;
    request.history_form.grown = call % 2 == 1;
    const std::uint64_t seed =
        mixed(input_.seed, 3 * call + static_cast<std::uint64_t>(distribution_));
    set_seeds(input_, seed, call, request);
    for (std::int64_t b = 0; b < count; ++b) {
      request.parameters.push_back(target_.front().parameters);
      if (distribution_ == DraftLaw::logits)
        request.draft_parameters.push_back(draft_.front().parameters);
      for (std::size_t i = 0; i < target_.size(); ++i) {
        append_row(target_[i].values, request.target);
        if (target_[i].processing) {
          const auto drafts = static_cast<std::ptrdiff_t>(i);
          request.processing.push_back(
              *behind(i, {request.draft_tokens.end() - drafts, request.draft_tokens.end()})
                   .processing);
        }
        if (i == draft_.size()) break;
        if (distribution_ != DraftLaw::none) append_row(draft_[i].values, request.draft);
        request.draft_tokens.push_back(drafted(request, b, i, call));
      }
    }
    const SpeculationResponse response = run_speculation(*input_.sampler, request);
    if (!response.ran()) {
      outcome.fail(response.trouble());
      return;
    }
    classify(request, response, call, outcome);
    if (outcome.failed() || !next_) return;
    if (NextCalls::follows(input_, call, request.seed_is_scalar)) {
      follow(std::move(request), response, call, outcome);
    }
  }

  void judge(double level, CheckOutcome& outcome) const {
    DistributionTables::judge(level, outcome);
    if (came_again_ > 0) {
      outcome.fail(fmt::format("{} drafts of second calls were rejected, and came again in place",
                               came_again_));
    }
    // With processing, the rows after a draft depend on that draft.
    if (tables_.empty() || !outcome.failed() || target_.front().processing) return;
    std::vector<Distribution> target, draft;
    for (const DistributionRow& row : target_) target.push_back(distribution_of_row(row.model()));
    for (const auto& model : draft_model_) draft.push_back(distribution_of_row(model));
    const bool is_known = distribution_ != DraftLaw::none;
    note_wrong_bonus(tables_[kBonus], target[kDrafts], &draft[1], target[1], outcome);
    note_wrong_step(tables_[kStep], {target[0], is_known ? draft.data() : nullptr}, outcome);
  }

 private:
  void expect_sequences(const std::string& suffix) {
    const auto row_after = [this](std::span<const std::int32_t> prefix) {
      return distribution_of_row(behind(prefix.size(), {prefix.begin(), prefix.end()}).model());
    };
    sequences_.emplace(suffix, width_, row_after);
    const bool is_block = input_.sampler->description().acceptance_rule == AcceptanceRule::block;
    if (!is_block || distribution_ == DraftLaw::none) return;
    block_.emplace(
        "block_acceptance" + suffix, row_after({}),
        [&row_after](std::size_t drafted) {
          const std::int32_t prefix[] = {static_cast<std::int32_t>(drafted)};
          return row_after(prefix);
        },
        distribution_of_row(draft_model_[0]), distribution_of_row(draft_model_[1]));
  }

  // Returns row i of the target or of the draft after the drafted tokens `prefix`.
  DistributionRow behind(std::size_t i, const std::vector<std::int32_t>& prefix) const {
    DistributionRow row = target_[i];
    if (row.processing) row.processing = processing_behind(*row.processing, prefix);
    return row;
  }

  void expect_joint(Table& table, const Joint& joint, double before) const {
    for (std::size_t x = 0; x < width_; ++x) {
      for (std::size_t y = 0; y < width_; ++y) {
        table.expect(x == y ? table.single(x) : table.pair(x, y), before * joint.at(x, y));
      }
    }
  }

  void expect_distributions() {
    const reference::IntegerRow first = behind(0, {}).model();
    const Distribution p0 = distribution_of_row(first);
    const Joint one(first, draft_model_[0], distribution_);
    expect_joint(table(1), one, 1);
    for (std::size_t x = 0; x < width_; ++x) {
      table(0).expect(table(0).single(x), p0[x]);
      for (std::size_t y = 0; y < width_; ++y) table(5).expect(table(5).pair(x, y), p0[x] * p0[y]);
      if (one.at(x, x) == 0) continue;  // never accepted
      const auto drafted = static_cast<std::int32_t>(x);
      const reference::IntegerRow second = behind(1, {drafted}).model();
      const Distribution p1 = distribution_of_row(second);
      const Joint two(second, draft_model_[1], distribution_);
      expect_joint(table(3), two, one.at(x, x));
      for (std::size_t y = 0; y < width_; ++y) {
        table(2).expect(table(2).pair(x, y), one.at(x, x) * p1[y]);
        const double stand = one.at(x, x) * two.at(y, y);
        if (stand == 0) continue;
        const Distribution p2 =
            distribution_of_row(behind(2, {drafted, static_cast<std::int32_t>(y)}).model());
        for (std::size_t z = 0; z < width_; ++z) {
          table(4).expect(table(4).pair(y, z), stand * p2[z]);
        }
      }
    }
  }

  // Makes rows of target and draft from the source. Some tokens have probability 0 in one of the
  // two distributions, so that their supports differ.
  void make_rows() {
    for (std::int64_t i = 0; i <= kDrafts; ++i) {
      DistributionRow target;
      target.values.resize(width_);
      input_.logits->fill(input_.first_row + 2 * i, target.values);
      for (auto id = static_cast<std::size_t>(i); width_ > 2 && id < width_; id += 4) {
        target.values[id] = -INFINITY;
      }
      target.parameters = input_.parameters.front();
      target.tie_rule = input_.tie_rule;
      target.filter_order = input_.filter_order;
      DistributionRow draft = target;
      if (!input_.processing.empty()) target.processing = input_.processing.front();
      target_.push_back(target);
      if (i == kDrafts) break;
      input_.logits->fill(input_.first_row + 2 * i + 1, draft.values);
      for (auto id = static_cast<std::size_t>(i + 1); width_ > 2 && id < width_; id += 3) {
        draft.values[id] = -INFINITY;
      }
      draft.parameters = {};
      draft.parameters.temperature = 1.5F;
      draft.parameters.top_p = 0.95F;
      if (distribution_ == DraftLaw::probs) {
        to_probabilities(draft.values, 1, input_.logits->dtype());
        draft.from_probs = true;
        draft.parameters = {};
      }
      draft_.push_back(draft);
      draft_model_.push_back(draft.model());
    }
  }

  // Draws a draft with the harness's own random words, or with those that the specification
  // reserves for drafts.
  std::int32_t drafted(const SpeculationRequest& request, std::int64_t b, std::size_t i,
                       std::uint64_t call) const {
    const std::size_t s = request.seed_is_scalar ? 0 : static_cast<std::size_t>(b);
    const auto index = static_cast<std::uint32_t>(request.seed_is_scalar ? b : 0);
    const std::uint64_t word =
        call % 2 == 0
            ? random_word(request.seed[s], request.offset[s] + i, Purpose::draft, index)
            : mixed(mixed(~input_.seed, call), static_cast<std::uint64_t>(b * kDrafts) + i);
    return draft_model_[i].token_for(word);
  }

  void classify(const SpeculationRequest& request, const SpeculationResponse& response,
                std::uint64_t call, CheckOutcome& outcome) {
    std::int64_t before = -1;
    for (std::int64_t b = 0; b < request.batch; ++b) {
      const std::int32_t* const tokens = response.tokens.data() + b * (kDrafts + 1);
      const std::int32_t* const drafted = request.draft_tokens.data() + b * kDrafts;
      const std::int32_t stand = response.accepted[static_cast<std::size_t>(b)];
      if (!expect_well_formed(tokens, drafted, stand, outcome)) return;
      ++outcome.draws;
      if (sequences_) {
        count_sequence(input_, emitted_tokens(tokens, stand), call, b);
        if (block_) block_->count(static_cast<std::size_t>(stand), drafted[0]);
        continue;
      }
      const auto at = [](std::int32_t token) { return static_cast<std::size_t>(token); };
      const auto joint = [&](Table& table, std::size_t i) {
        const bool stands = stand > static_cast<std::int32_t>(i);
        table.count(stands ? table.single(at(tokens[i]))
                           : table.pair(at(drafted[i]), at(tokens[i])));
      };
      table(0).count(table(0).single(at(tokens[0])));
      joint(table(1), 0);
      if (stand > 0) {
        table(2).count(table(2).pair(at(tokens[0]), at(tokens[1])));
        joint(table(3), 1);
      } else {
        table(2).count(table(2).rest());
        table(3).count(table(3).rest());
      }
      table(4).count(stand == kDrafts ? table(4).pair(at(tokens[1]), at(tokens[2]))
                                      : table(4).rest());
      if (before >= 0) {
        table(5).count(table(5).pair(static_cast<std::size_t>(before), at(tokens[0])));
        before = -1;
      } else {
        before = tokens[0];
      }
    }
    if (sequences_) sequences_->end_of_call();
  }

  // Makes the call that follows `request`, whose result was `response`, with the same rows and
  // other drafts.
  void follow(SpeculationRequest request, const SpeculationResponse& response, std::uint64_t call,
              CheckOutcome& outcome) {
    for (std::size_t b = 0; b < response.accepted.size(); ++b) {
      request.offset[b] += NextCalls::advance(input_, kDrafts, response.accepted[b]);
      for (std::size_t i = 0; i < draft_model_.size(); ++i) {
        const std::size_t at = b * draft_model_.size() + i;
        request.draft_tokens[at] =
            draft_model_[i].token_for(NextCalls::draft_word(input_, call, at));
      }
    }
    const SpeculationResponse next = run_speculation(*input_.sampler, request);
    if (!next.ran()) {
      outcome.fail(next.trouble());
      return;
    }
    for (std::size_t b = 0; b < next.accepted.size(); ++b) {
      const std::int32_t* const tokens = next.tokens.data() + b * (kDrafts + 1);
      const std::int32_t stand = next.accepted[b];
      if (!expect_well_formed(tokens, request.draft_tokens.data() + b * kDrafts, stand, outcome)) {
        return;
      }
      ++outcome.draws;
      if (comes_again(tokens, request.draft_tokens.data() + b * kDrafts, stand)) ++came_again_;
      const std::int32_t accepted = response.accepted[b];
      const std::int32_t last =
          response.tokens[b * (kDrafts + 1) + static_cast<std::size_t>(accepted)];
      next_->count(accepted, last, tokens[0], stand > 0);
    }
  }

  bool expect_well_formed(const std::int32_t* tokens, const std::int32_t* drafted,
                          std::int32_t stand, CheckOutcome& outcome) const {
    if (well_formed(tokens, drafted, stand)) return true;
    note_tokens_past_end({tokens, kDrafts + 1}, stand, outcome);
    outcome.fail(fmt::format("a request drafted {} {} and got {} {} {} with {} accepted",
                             drafted[0], drafted[1], tokens[0], tokens[1], tokens[2], stand));
    return false;
  }

  // Returns whether a rejected draft is drawn again as its own replacement, which the token-wise
  // rule excludes. Tables of pairs have a cell of probability 0 for such a replacement, while
  // tables of a next call have none.
  bool comes_again(const std::int32_t* tokens, const std::int32_t* drafted,
                   std::int32_t stand) const {
    return !sequences_ && stand < kDrafts && tokens[stand] == drafted[stand];
  }

  bool well_formed(const std::int32_t* tokens, const std::int32_t* drafted,
                   std::int32_t stand) const {
    if (stand < 0 || stand > kDrafts) return false;
    for (std::int32_t i = 0; i <= kDrafts; ++i) {
      if (i < stand && tokens[i] != drafted[i]) return false;
      if (i == stand && (tokens[i] < 0 || static_cast<std::size_t>(tokens[i]) >= width_)) {
        return false;
      }
      if (i > stand && tokens[i] != -1) return false;
    }
    return true;
  }

  const CheckInput& input_;
  DraftLaw distribution_;
  std::size_t width_ = 0;
  std::uint64_t came_again_ = 0;  // number of rejected drafts that were drawn again, in next calls
  std::vector<DistributionRow> target_, draft_;
  std::vector<reference::IntegerRow> draft_model_;
};

}  // namespace

CheckOutcome check_speculation_distribution(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (const Lack lack = lack_of_distributions(input); !lack.empty()) {
    return skipped(lack);
  }
  if (!input.processing.empty() && !sampler.speculation_processing) {
    return skipped(lack_of("speculation_processing"));
  }
  std::vector<SpeculationDistribution> distributions;
  distributions.reserve(std::size(kDistributions));
  for (const DraftLaw distribution : kDistributions) {
    if (takes_drafts(sampler, distribution)) distributions.emplace_back(input, distribution);
  }
  return judge_distributions(
      input, distributions, (2 * kDrafts + 1) * std::ssize(distributions),
      "{} requests have the target's distribution, token by token and in pairs");
}

}  // namespace fairdraw::harness
