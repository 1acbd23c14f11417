// Samplers that report tokens and nothing else, as most engines do: what they say of a row that has
// no token, and what they do with boundary tokens, must be seen in tokens.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;
using Claim = MutatedModel::Claim;

const std::string kTokensOnly = "tokens-only";

// Another sampler, of which only tokens are known; without per-request seeds one token a row, too.
class TokensOnly final : public harness::Sampler {
 public:
  explicit TokensOnly(std::unique_ptr<harness::Sampler> sampler) : sampler_(std::move(sampler)) {
    description_ = sampler_->description();
    description_.exact_integer = false;
    description_.reports_status = description_.reports_support = description_.reports_mask = false;
    description_.reports_probs = description_.reports_logprobs = false;
    description_.reports_raw = description_.reports_processed = false;
    description_.ranks_position = description_.ranks_at_least = false;
    description_.scripted_words = false;
    description_.indices = description_.num_samples = description_.per_request_seeds;
  }
  const harness::SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch& batch) override { return sampler_->run(batch); }
  std::string run_chain(const fairdraw_chain& chain) override { return sampler_->run_chain(chain); }
  std::string run_speculation(const fairdraw_verification& speculation) override {
    return sampler_->run_speculation(speculation);
  }
  std::string run_event(const fairdraw_event& event) override { return sampler_->run_event(event); }

 private:
  std::unique_ptr<harness::Sampler> sampler_;
  harness::SamplerDescription description_;
};

Mutant tokens_only(Claim claim, MutantText text, std::function<void(Mutation&)> mutation) {
  return mutated_tokens_only(std::move(text), claim, std::move(mutation));
}

// Rows that have no token give `token(batch)` instead of -1.
Mutant for_no_token(const char* name, const char* source, const char* wrong, Claim claim,
                    std::int32_t (*token)(const fairdraw_batch&)) {
  return tokens_only(
      claim, {name, source, kTokensOnly, wrong, {"status/*"}}, [token](Mutation& mutation) {
        mutation.finish = [token](const fairdraw_batch& batch) {
          std::replace(batch.tokens, batch.tokens + batch.outputs * batch.num_samples, -1,
                       token(batch));
        };
      });
}

bool is_random(const Row& row) {
  return row.parameters.temperature != 0 && row.parameters.top_k != 1 && row.parameters.top_p != 0;
}

// The survivors with one filter off.
Result without(const Row& row, void (*off)(reference::RowParameters&)) {
  reference::RowParameters parameters = row.parameters;
  off(parameters);
  return result_of(row, parameters);
}

// top_k decided by `before(a, b)`: whether candidate a comes in front of b. Ties with the k-th
// stay.
Mutant of_top_k(Claim claim, MutantText text, bool (*before)(float a, float b)) {
  return tokens_only(claim, std::move(text), [before](Mutation& mutation) {
    mutation.result = [before](Result& result, const Row& row, const Place&) {
      const std::int32_t k = row.parameters.top_k;
      const bool filters = is_random(row) && k > 1 && row.parameters.top_p == 1 &&
                           row.parameters.min_p == 0 &&
                           static_cast<std::size_t>(k) < row.logits.size();
      if (result.status != RowStatus::ok || !filters) return;
      result = without(row, [](reference::RowParameters& parameters) { parameters.top_k = 0; });
      std::vector<Candidate> list = ranked(result, row);
      if (list.size() <= static_cast<std::size_t>(k)) return;
      std::stable_sort(list.begin(), list.end(), [before](const Candidate& a, const Candidate& b) {
        return before(a.value, b.value);
      });
      std::size_t size = static_cast<std::size_t>(k);
      while (size < list.size() && !before(list[size - 1].value, list[size].value)) ++size;
      list.resize(size);
      keep_only(result, list);
    };
  });
}

// The nucleus with the largest weight, or top_p itself, wrong by a factor.
Mutant of_top_p(Claim claim, MutantText text, double head, double target) {
  return tokens_only(claim, std::move(text), [head, target](Mutation& mutation) {
    mutation.result = [head, target](Result& result, const Row& row, const Place&) {
      if (result.status != RowStatus::ok || !is_random(row) || row.parameters.top_p >= 1) return;
      result = without(row, [](reference::RowParameters& parameters) { parameters.top_p = 1; });
      const std::vector<Candidate> list = ranked(result, row);
      const auto weight = [&list, head](std::size_t at) {
        return static_cast<double>(list[at].weight) * (at == 0 ? head : 1);
      };
      double total = 0, mass = 0;
      for (std::size_t i = 0; i < list.size(); ++i) total += weight(i);
      std::size_t kept = 0;
      while (kept < list.size() &&
             mass < static_cast<double>(row.parameters.top_p) * target * total) {
        mass += weight(kept++);
      }
      keep_only(result, {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(kept)});
    };
  });
}

float to_bfloat16(float value) { return to_bf16(value); }

std::vector<Mutant> rows_without_token() {
  const auto seeds = Claim::distribution, engine = Claim::generator;
  return {
      for_no_token("no-token-is-zero", "systematic", "rows that have no token give token 0", seeds,
                   [](const fairdraw_batch&) { return 0; }),
      for_no_token("no-token-is-unwritten", "systematic",
                   "rows that have no token leave the result as it was", seeds,
                   [](const fairdraw_batch&) { return std::numeric_limits<std::int32_t>::min(); }),
      for_no_token(
          "no-token-is-last", "systematic", "the search for a row's token ends behind its last id",
          seeds,
          [](const fairdraw_batch& batch) { return static_cast<std::int32_t>(batch.vocab - 1); }),
      for_no_token("engine-no-token-is-zero", "systematic",
                   "with a generator of its own: rows that have no token give token 0", engine,
                   [](const fairdraw_batch&) { return 0; }),
      for_no_token(
          "engine-no-token-is-vocab", "systematic",
          "with a generator of its own: rows that have no token give one more than the "
          "last id",
          engine,
          [](const fairdraw_batch& batch) { return static_cast<std::int32_t>(batch.vocab); }),
      tokens_only(engine,
                  {"engine-bad-row-ends-batch",
                   "systematic",
                   kTokensOnly,
                   "with a generator of its own: rows behind one that fails give no token",
                   {"status/*"}},
                  [](Mutation& mutation) {
                    mutation.finish = [](const fairdraw_batch& batch) {
                      std::int32_t* const end = batch.tokens + batch.outputs * batch.num_samples;
                      std::fill(std::find(batch.tokens, end, -1), end, -1);
                    };
                  }),
      tokens_only(seeds,
                  {"all-banned-ignores-bans",
                   "systematic",
                   kTokensOnly,
                   "a bitmask that allows nothing is taken for none",
                   {"status/*"}},
                  [](Mutation& mutation) {
                    mutation.row = [](Row& row, const Place&) {
                      bool nothing = true;
                      for (std::size_t id = 0; !row.allowed.empty() && id < row.logits.size();
                           ++id) {
                        nothing = nothing && ((row.allowed[id / 32] >> (id % 32)) & 1U) == 0;
                      }
                      if (nothing) row.allowed.clear();
                    };
                  }),
  };
}

std::vector<Mutant> boundary_tokens() {
  const std::vector<std::string> found_by = {"boundaries/*"};
  std::vector<Mutant> all;
  for (const Claim claim : {Claim::distribution, Claim::generator}) {
    const auto text = [&](const char* name, const char* source, const char* wrong) {
      const bool engine = claim == Claim::generator;
      return MutantText{(engine ? "engine-" : "tokens-") + std::string(name), source, kTokensOnly,
                        std::string(engine ? "with a generator of its own: " : "") + wrong,
                        found_by};
    };
    all.push_back(of_top_k(
        claim,
        text("negative-zero-below-zero", "systematic",
             "logits are compared as integers: -0 comes behind +0"),
        [](float a, float b) { return a != b ? a > b : !std::signbit(a) && std::signbit(b); }));
    all.push_back(of_top_k(
        claim, text("top-k-in-bfloat16", "systematic", "the k-th logit is found among bfloat16"),
        [](float a, float b) { return to_bfloat16(a) > to_bfloat16(b); }));
    all.push_back(of_top_p(
        claim, text("head-weight-off", "systematic", "the largest weight is too large by 1e-3"),
        1.001, 1));
    all.push_back(of_top_p(
        claim, text("top-p-off", "systematic", "top_p is too large by 1e-3 of itself"), 1, 1.001));
    all.push_back(
        tokens_only(claim, text("min-p-off", "systematic", "min_p is too small by 1e-3 of itself"),
                    [](Mutation& mutation) {
                      mutation.row = [](Row& row, const Place&) { row.parameters.min_p *= 0.999F; };
                    }));
    all.push_back(tokens_only(
        claim, text("one-tie-lost", "systematic", "of the ties at k the last one is lost"),
        [](Mutation& mutation) {
          mutation.result = [](Result& result, const Row& row, const Place&) {
            std::vector<Candidate> list = ranked(result, row);
            const bool ties = result.status == RowStatus::ok && is_random(row) && list.size() > 1 &&
                              list.size() > static_cast<std::size_t>(row.parameters.top_k) &&
                              row.parameters.top_k > 1;
            if (!ties) return;
            list.pop_back();
            keep_only(result, list);
          };
        }));
  }
  return all;
}

}  // namespace

std::unique_ptr<harness::Sampler> make_tokens_only(MutatedModel::Claim claim, Mutation mutation) {
  return std::make_unique<TokensOnly>(std::make_unique<MutatedModel>(claim, std::move(mutation)));
}

std::vector<Mutant> tokens_only_mutants() {
  return joined({rows_without_token(), boundary_tokens()});
}

}  // namespace fairdraw::suites
