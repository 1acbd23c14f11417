// Mutants that report only tokens, as most engines do. Errors in rows without a token and at
// boundary tokens must be visible in the tokens.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

// A sampler that reports only the tokens of another sampler, and only one token per row if it has
// no per-request seeds.
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
  std::string run_serving(const harness::ServingCall& call) override {
    return sampler_->run_serving(call);
  }

 private:
  std::unique_ptr<harness::Sampler> sampler_;
  harness::SamplerDescription description_;
};

// Replaces -1, which means that there is no token, by `token`.
void replace_no_token(const fairdraw_batch& batch, std::int64_t token) {
  std::replace(batch.tokens, batch.tokens + batch.outputs * batch.num_samples, -1,
               static_cast<std::int32_t>(token));
}

constexpr Entry kNoToken[] = {
    {"no-token-is-zero", "rows that have no token give token 0",
     [](const fairdraw_batch& batch) { replace_no_token(batch, 0); }},
    {"no-token-is-unwritten", "rows that have no token leave the result as it was",
     [](const fairdraw_batch& batch) {
       replace_no_token(batch, std::numeric_limits<std::int32_t>::min());
     }},
    {"no-token-is-last", "the search for a row's token ends behind its last id",
     [](const fairdraw_batch& batch) { replace_no_token(batch, batch.vocab - 1); }},
    {"engine-no-token-is-zero", "with a generator of its own: rows that have no token give token 0",
     Base::engine, [](const fairdraw_batch& batch) { replace_no_token(batch, 0); }},
    {"engine-no-token-is-vocab",
     "with a generator of its own: rows that have no token give one more than the last id",
     Base::engine, [](const fairdraw_batch& batch) { replace_no_token(batch, batch.vocab); }},
    {"engine-bad-row-ends-batch",
     "with a generator of its own: rows behind one that fails give no token", Base::engine,
     [](const fairdraw_batch& batch) {
       std::int32_t* const end = batch.tokens + batch.outputs * batch.num_samples;
       std::fill(std::find(batch.tokens, end, -1), end, -1);
     }},
    {"all-banned-ignores-bans", "a bitmask that allows nothing is taken for none",
     [](Row& row) {
       bool nothing = true;
       for (std::size_t id = 0; id < row.logits.size(); ++id) {
         nothing = nothing && !is_allowed(row, id);
       }
       if (nothing) row.allowed.clear();
     }},
};

// Applies top_k in the order `before(a, b)`, which returns true if candidate a comes before b.
// Tokens that tie with the k-th token stay.
void keep_by(bool (*before)(float a, float b), Result& result, const Row& row) {
  const auto k = static_cast<std::size_t>(std::max(row.parameters.top_k, 0));
  const bool filters = !is_greedy(row) && filters_by_k(row) && row.parameters.top_p == 1 &&
                       row.parameters.min_p == 0;
  if (result.status != RowStatus::ok || !filters) return;
  result = result_with(row, [](Parameters& p) { p.top_k = 0; });
  std::vector<Candidate> list = ranked(result, row);
  if (list.size() <= k) return;
  std::ranges::stable_sort(list, before, &Candidate::value);
  std::size_t size = k;
  while (size < list.size() && !before(list[size - 1].value, list[size].value)) ++size;
  list.resize(size);
  keep_only(result, list);
}

// Applies top_p with the largest weight multiplied by `head`, or with top_p multiplied by `target`.
void keep_nucleus(double head, double target, Result& result, const Row& row) {
  if (result.status != RowStatus::ok || is_greedy(row) || row.parameters.top_p >= 1) return;
  result = result_with(row, [](Parameters& p) { p.top_p = 1; });
  const std::vector<Candidate> list = ranked(result, row);
  const auto weight = [&list, head](std::size_t at) {
    return static_cast<double>(list[at].weight) * (at == 0 ? head : 1);
  };
  double total = 0, mass = 0;
  for (std::size_t i = 0; i < list.size(); ++i) total += weight(i);
  const double needed = static_cast<double>(row.parameters.top_p) * target * total;
  std::size_t kept = 0;
  while (kept < list.size() && mass < needed) mass += weight(kept++);
  keep_only(result, {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(kept)});
}

// Bugs at boundary tokens, each on a sampler with seeds and on a sampler with a generator of its
// own.
constexpr Entry kBoundaries[] = {
    {"negative-zero-below-zero", "logits are compared as integers: -0 comes behind +0",
     [](Result& result, const Row& row) {
       const auto before = [](float a, float b) {
         return a != b ? a > b : !std::signbit(a) && std::signbit(b);
       };
       keep_by(before, result, row);
     }},
    {"top-k-in-bfloat16", "the k-th logit is found among bfloat16",
     [](Result& result, const Row& row) {
       keep_by([](float a, float b) { return to_bf16(a) > to_bf16(b); }, result, row);
     }},
    {"head-weight-off", "the largest weight is too large by 1e-3",
     [](Result& result, const Row& row) { keep_nucleus(1.001, 1, result, row); }},
    {"top-p-off", "top_p is too large by 1e-3 of itself",
     [](Result& result, const Row& row) { keep_nucleus(1, 1.001, result, row); }},
    {"min-p-off", "min_p is too small by 1e-3 of itself", [](Parameters& p) { p.min_p *= 0.999F; }},
    {"one-tie-lost", "of the ties at k the last one is lost",
     [](Result& result, const Row& row) {
       std::vector<Candidate> list = ranked(result, row);
       const bool ties = result.status == RowStatus::ok && !is_greedy(row) && list.size() > 1 &&
                         list.size() > static_cast<std::size_t>(row.parameters.top_k) &&
                         row.parameters.top_k > 1;
       if (!ties) return;
       list.pop_back();
       keep_only(result, list);
     }},
};

}  // namespace

std::unique_ptr<harness::Sampler> make_tokens_only(MutatedModel::Claim claim, Mutation mutation) {
  return std::make_unique<TokensOnly>(std::make_unique<MutatedModel>(claim, std::move(mutation)));
}

std::vector<Mutant> tokens_only_mutants() {
  std::vector<Mutant> all = mutants_of("tokens-only", "status/*", Base::tokens, kNoToken);
  for (const Entry& entry : kBoundaries) {
    all.push_back(mutant_of("tokens-only", "tokens-", entry, "boundaries/*", Base::tokens));
  }
  for (const Entry& entry : kBoundaries) {
    all.push_back(mutant_of("tokens-only", "engine-", entry, "boundaries/*", Base::engine));
    all.back().wrong = "with a generator of its own: " + all.back().wrong;
  }
  return all;
}

}  // namespace fairdraw::suites
