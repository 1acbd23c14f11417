// Self-tests of the checks of drafted chains: right samplers pass, and each wrong sampler fails in
// the check that is made for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "harness/adapters/serving_model.h"
#include "harness/run/calls/logits_source.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/speculation/close_rows.h"
#include "harness/run/tests/case_share.h"

namespace fairdraw::harness {
namespace {

CheckOutcome judge(Sampler& sampler, CheckOutcome (*check)(const CheckInput&),
                   DType dtype = DType::float32, std::uint64_t draws = 50'000) {
  const auto logits = family_source(Family::gaussian, 4, 5, dtype);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  input.logits = logits.get();
  input.parameters = {{}};
  input.rows = 300;
  input.draws = draws;
  // The discrepancy is declared for each half of the draws.
  input.declared_discrepancy = dtype == DType::float32 ? 0.055 : 0.085;
  input.seed = 9;
  input.false_fail_rate = kShare;
  return check(input);
}

TEST(Chains, PassWhereTheyAreRight) {
  for (const std::string& name : builtin_sampler_names()) {
    for (const auto check : {check_chain, check_chain_distribution}) {
      const auto sampler = make_builtin_sampler(name);
      const CheckOutcome outcome = judge(*sampler, check);
      EXPECT_STREQ(to_string(outcome.verdict), "passed") << name << ": " << outcome.message;
      EXPECT_LE(outcome.spent(), kShare * (1 + 8 * 0x1p-53));  // for rounding in a sum of 7
      for (const DType dtype : {DType::bfloat16, DType::float16}) {
        const CheckOutcome narrow = judge(*sampler, check, dtype);
        EXPECT_STREQ(to_string(narrow.verdict), "passed") << name << ": " << narrow.message;
        EXPECT_LE(narrow.spent(), kShare * (1 + 16 * 0x1p-53));
      }
    }
  }
}

// Samplers that take no 16-bit rows are not judged on such rows.
TEST(Chains, Of16BitsAreForSamplersThatTakeThem) {
  struct Wide : ServingModel {
    Wide() { description_.float16 = description_.bfloat16 = false; }
  };
  Wide sampler;
  for (const auto check : {check_chain, check_chain_distribution}) {
    EXPECT_EQ(judge(sampler, check, DType::float16).message, "takes no float16 logits");
    EXPECT_EQ(judge(sampler, check, DType::bfloat16).message, "takes no bfloat16 logits");
  }
}

TEST(Chains, CloseRowsHaveUnitsOfTheirDtype) {
  const std::vector<float> source = {0.1F, 0.4F, 0.05F, 0.2F, 0.25F};
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    const double unit = dtype == DType::bfloat16 ? 0x1p-8 : 0x1p-11;
    for (const auto& [rows, moved] :
         {std::pair(close_ratio(source, dtype), 1), std::pair(close_residual(source, dtype), 3)}) {
      double draft = 0, target = 0, left = 0;
      for (std::size_t id = 0; id < source.size(); ++id) {
        const auto q = static_cast<double>(rows.draft[id]),
                   p = static_cast<double>(rows.target[id]);
        for (const float value : {rows.draft[id], rows.target[id]}) {
          EXPECT_EQ(value, rounded_to(dtype, value));
        }
        draft += q;
        target += p;
        left += std::max(p - q, 0.0);
      }
      EXPECT_EQ(draft, 1);
      EXPECT_EQ(target, 1);
      EXPECT_EQ(left, moved * unit);
      EXPECT_EQ(rows.draft[2], 0);  // the least likely token has no draft mass
      EXPECT_EQ(static_cast<double>(rows.target[2]), unit);
    }
  }
  // These differences are the ones that some mutants of the catalogue round away.
  const CloseRows ratio = close_ratio(source, DType::bfloat16);
  const float exact = ratio.target[1] / ratio.draft[1];
  EXPECT_NEAR((1 - static_cast<double>(exact)) * 256, 256.0 / 177, 1e-4);
  EXPECT_EQ((1 - static_cast<double>(rounded_to(DType::bfloat16, exact))) * 256, 1);
  const CloseRows residual = close_residual(source, DType::float16);
  EXPECT_NE(residual.target[4], residual.draft[4]);
  EXPECT_EQ(rounded_to(DType::bfloat16, residual.target[4]), residual.draft[4]);
}

using Words = std::span<const std::uint64_t>;

// A wrong sampler that uses one random word for two purposes.
struct SharedPurpose : ServingModel {
  SharedPurpose(Purpose from, Purpose to) : from_(from), to_(to) {}
  std::uint64_t chain_word(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                           std::uint32_t index) override {
    return ServingModel::chain_word(seed, offset, purpose == from_ ? to_ : purpose, index);
  }

 private:
  Purpose from_, to_;
};

// A wrong sampler whose bonus token uses the word that accepted the position before it.
struct BonusSharesAcceptance : ServingModel {
  reference::ChainOutcome accept_chain(std::span<const float> draft,
                                       std::span<const std::int32_t> tokens,
                                       std::span<const float> target, std::size_t vocab,
                                       Words accept, Words recover, std::uint64_t bonus) override {
    return ServingModel::accept_chain(draft, tokens, target, vocab, accept, recover,
                                      accept.empty() ? bonus : accept.back());
  }
};

struct PositionsShareWords : ServingModel {
  reference::ChainOutcome accept_chain(std::span<const float> draft,
                                       std::span<const std::int32_t> tokens,
                                       std::span<const float> target, std::size_t vocab,
                                       Words accept, Words recover, std::uint64_t bonus) override {
    const std::vector<std::uint64_t> first(accept.size(), accept.empty() ? 0 : accept.front());
    return ServingModel::accept_chain(draft, tokens, target, vocab, first, recover, bonus);
  }
};

// A wrong sampler in which every second chain uses the words of its neighbour and ignores the seeds
// of the call.
struct NeighboursShareWords : ServingModel {
  std::string run_chain(const fairdraw_chain& chain) override {
    std::vector<std::uint64_t> seed(static_cast<std::size_t>(chain.batch)), offset(seed.size());
    for (std::size_t b = 0; b < seed.size(); ++b) {
      const std::size_t s = chain.seed_is_scalar != 0 ? 0 : b / 2 * 2;
      seed[b] = chain.seed[s] + (chain.seed_is_scalar != 0 ? b / 2 : 0);
      offset[b] = chain.offset[s];
    }
    fairdraw_chain changed = chain;
    changed.seed_is_scalar = 0;
    changed.seed = seed.data();
    changed.offset = offset.data();
    return ServingModel::run_chain(changed);
  }
};

// A wrong sampler that draws from the target after a rejection, instead of from the residual
// target - draft.
struct RecoversFromTarget : ServingModel {
  reference::ChainOutcome accept_chain(std::span<const float> draft,
                                       std::span<const std::int32_t> tokens,
                                       std::span<const float> target, std::size_t vocab,
                                       Words accept, Words recover, std::uint64_t bonus) override {
    reference::ChainOutcome outcome =
        ServingModel::accept_chain(draft, tokens, target, vocab, accept, recover, bonus);
    const auto at = static_cast<std::size_t>(outcome.emitted);
    if (outcome.status != RowStatus::ok || at == tokens.size()) return outcome;
    outcome.tokens[at] = reference::integer_model_from_probs(target.subspan(at * vocab, vocab), {})
                             .token_for(recover[at]);
    return outcome;
  }
};

// A wrong sampler that accepts every drafted token that the target can give.
struct AcceptsEverything : ServingModel {
  reference::ChainOutcome accept_chain(std::span<const float> draft,
                                       std::span<const std::int32_t> tokens,
                                       std::span<const float> target, std::size_t vocab,
                                       Words accept, Words recover, std::uint64_t bonus) override {
    const std::vector<std::uint64_t> zeros(accept.size(), 0);
    return ServingModel::accept_chain(draft, tokens, target, vocab, zeros, recover, bonus);
  }
};

// A wrong sampler that is off by one at the boundary of acceptance, for one word in 2^64, which
// only given words can detect.
struct BoundaryOffByOne : ServingModel {
  reference::ChainOutcome accept_chain(std::span<const float> draft,
                                       std::span<const std::int32_t> tokens,
                                       std::span<const float> target, std::size_t vocab,
                                       Words accept, Words recover, std::uint64_t bonus) override {
    std::vector<std::uint64_t> below(accept.begin(), accept.end());
    for (std::uint64_t& word : below) word -= word > 0 ? 1 : 0;
    return ServingModel::accept_chain(draft, tokens, target, vocab, below, recover, bonus);
  }
};

struct RecoveryWordIsNeverZero : ServingModel {
  reference::ChainOutcome accept_chain(std::span<const float> draft,
                                       std::span<const std::int32_t> tokens,
                                       std::span<const float> target, std::size_t vocab,
                                       Words accept, Words recover, std::uint64_t bonus) override {
    std::vector<std::uint64_t> above(recover.begin(), recover.end());
    for (std::uint64_t& word : above) word += word < ~std::uint64_t{0} ? 1 : 0;
    return ServingModel::accept_chain(draft, tokens, target, vocab, accept, above, bonus);
  }
};

struct CountsStopAtTheFirstRejection : ServingModel {
  reference::ChainOutcome accept_chain(std::span<const float> draft,
                                       std::span<const std::int32_t> tokens,
                                       std::span<const float> target, std::size_t vocab,
                                       Words accept, Words recover, std::uint64_t bonus) override {
    reference::ChainOutcome outcome =
        ServingModel::accept_chain(draft, tokens, target, vocab, accept, recover, bonus);
    outcome.accepted = outcome.emitted;
    return outcome;
  }
};

struct ChainStatusMissing : ServingModel {
  std::int32_t report_status(RowStatus) override { return 0; }
};

struct BatchSizeMatters : ServingModel {
  std::string run_chain(const fairdraw_chain& chain) override {
    batch_ = static_cast<std::uint64_t>(chain.batch);
    return ServingModel::run_chain(chain);
  }
  std::uint64_t chain_word(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                           std::uint32_t index) override {
    return ServingModel::chain_word(seed + batch_, offset, purpose, index);
  }

 private:
  std::uint64_t batch_ = 0;
};

struct Wrong {
  const char* name;
  std::function<std::unique_ptr<Sampler>()> make;
  bool exact_sees, distribution_sees;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

template <class WrongModel, class... Arguments>
std::function<std::unique_ptr<Sampler>()> maker(Arguments... arguments) {
  return [=] { return std::make_unique<WrongModel>(arguments...); };
}

// The check of the distribution detects wrong draws of samplers with any arithmetic.
const Wrong kWrong[] = {
    {"recovery uses the word of acceptance",
     maker<SharedPurpose>(Purpose::recover, Purpose::accept), true, true},
    {"acceptance uses the word of the draft", maker<SharedPurpose>(Purpose::accept, Purpose::draft),
     true, true},
    {"acceptance uses the word of sampling", maker<SharedPurpose>(Purpose::accept, Purpose::draw),
     true, true},
    {"the bonus uses the word of acceptance", maker<BonusSharesAcceptance>(), true, true},
    {"all positions use the first one's word", maker<PositionsShareWords>(), true, true},
    {"two chains use the same words", maker<NeighboursShareWords>(), true, true},
    {"recovery draws from the target", maker<RecoversFromTarget>(), true, true},
    {"every possible draft is accepted", maker<AcceptsEverything>(), true, true},
    {"acceptance is off by one word", maker<BoundaryOffByOne>(), true, false},
    {"recovery is off by one word", maker<RecoveryWordIsNeverZero>(), true, false},
    {"accepted stops at the first rejection", maker<CountsStopAtTheFirstRejection>(), true, true},
    {"status missing", maker<ChainStatusMissing>(), true, false},
    {"batch size in the seed", maker<BatchSizeMatters>(), true, false},
};

class WrongChains : public testing::TestWithParam<Wrong> {};

TEST_P(WrongChains, AreRed) {
  const auto exact = GetParam().make();
  EXPECT_EQ(judge(*exact, check_chain).failed(), GetParam().exact_sees);
  const auto distribution = GetParam().make();
  const CheckOutcome outcome = judge(*distribution, check_chain_distribution);
  EXPECT_EQ(outcome.failed(), GetParam().distribution_sees) << outcome.message;
}

// Wrong emitted tokens are detected even without a declared rule, while wrong acceptance alone is
// only detected with one.
TEST_P(WrongChains, WithoutARuleAreJudgedByWhatTheyEmit) {
  struct Unstated : Sampler {
    explicit Unstated(std::unique_ptr<Sampler> given)
        : inner(std::move(given)), said(inner->description()) {
      said.acceptance_rule = AcceptanceRule::none_stated;
    }
    const SamplerDescription& description() const override { return said; }
    std::string run(const fairdraw_batch& batch) override { return inner->run(batch); }
    std::string run_serving(const ServingCall& call) override { return inner->run_serving(call); }
    std::unique_ptr<Sampler> inner;
    SamplerDescription said;
  };
  Unstated sampler(GetParam().make());
  // A word that is shared in a third of the calls changes the first two tokens by 0.015 in total
  // variation distance, a quarter of the distance that 50000 draws certainly find.
  const CheckOutcome outcome = judge(sampler, check_chain_distribution, DType::float32, 300'000);
  const bool is_about_counts =
      GetParam().name == std::string("accepted stops at the first rejection");
  EXPECT_EQ(outcome.failed(), GetParam().distribution_sees && !is_about_counts) << outcome.message;
}

INSTANTIATE_TEST_SUITE_P(Mutants, WrongChains, testing::ValuesIn(kWrong));

// A sampler that claims neither arithmetic nor seeds is judged only by its distribution.
TEST(Chains, OfASamplerWithItsOwnGeneratorAreJudgedByTheirDistribution) {
  struct Own : ServingModel {
    Own() {
      description_.exact_integer = description_.per_request_seeds = false;
      description_.scripted_words = false;
    }
    std::uint64_t chain_word(std::uint64_t, std::uint64_t, Purpose, std::uint32_t) override {
      return ServingModel::chain_word(1, ++calls, Purpose::draw, 0);
    }
    std::uint64_t word(std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t) override {
      return ServingModel::chain_word(1, ++calls, Purpose::draw, 0);
    }
    std::uint64_t calls = 0;
  };
  Own sampler;
  // Draft ids outside of the vocabulary must fail in any arithmetic; nothing else is judged here.
  EXPECT_STREQ(to_string(judge(sampler, check_chain).verdict), "passed");
  const CheckOutcome outcome = judge(sampler, check_chain_distribution);
  EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
}

}  // namespace
}  // namespace fairdraw::harness
