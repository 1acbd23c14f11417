// Beam search is tested with answers by hand, with the independent implementation of a step bit for
// bit, with all sequences of tiny vocabularies, and with rejected arguments.
#include "fairdraw/beam_search.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "harness/inputs/families.h"
#include "tests/serving/beam_batch.h"
#include "tests/serving/beam_problems.h"

namespace fairdraw::suites {
namespace {

using reference::BeamModelState;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(BeamSearch, ByHand) {
  BeamRules rules = rules_of(2, 3, {2});
  rules.length_penalty = 1;
  rules.early_stopping = 2;
  BeamBatch batch(one(problem_of(rules, row_by_hand)), 3, BeamInput::logprobs);
  // Step 1: candidates 0: -1, 1: -2, 2: -3. The end id is the third candidate, so it is not among
  // the first two.
  ASSERT_FALSE(batch.step());
  EXPECT_EQ(batch.live(0), (std::vector<BeamHypothesis>{{{0}, -1, 0}, {{1}, -2, 0}}));
  EXPECT_EQ(batch.pool(0), std::vector<BeamHypothesis>{});
  // Step 2: (0,2) ends with -1.5; (0,0) and (0,1) continue with -2; (1,0), with -2.25, ranks too
  // low.
  ASSERT_FALSE(batch.step());
  EXPECT_EQ(batch.live(0), (std::vector<BeamHypothesis>{{{0, 0}, -2, 0}, {{0, 1}, -2, 0}}));
  EXPECT_EQ(batch.parents(0), (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(batch.pool(0), (std::vector<BeamHypothesis>{{{0, 2}, -1.5F, -0.75F}}));
  // Step 3: (1,2) ends with -2.25, normalised -0.75 (a tie, so it comes after the earlier
  // sequence), and (0,2) with -2.5, normalised -2.5/3; the pool keeps two. The beams that continue
  // are (1,1) with -3, and then (0,0) with -4, the first of (0,0), (0,1) and (1,0). The pool's
  // worst score, -0.75, is at least the best candidate's -2.25/3 = -0.75, so the search is done.
  ASSERT_FALSE(batch.step());
  EXPECT_EQ(batch.pool(0),
            (std::vector<BeamHypothesis>{{{0, 2}, -1.5F, -0.75F}, {{0, 1, 2}, -2.25F, -0.75F}}));
  EXPECT_EQ(batch.live(0), (std::vector<BeamHypothesis>{{{0, 1, 1}, -3, 0}, {{0, 0, 0}, -4, 0}}));
  EXPECT_EQ(batch.state(0), BeamState::pool_done);
  EXPECT_EQ(batch.best(0, 2), batch.pool(0));
}

TEST(BeamSearch, LiveBeamsCountWhereTheLengthEndsThem) {
  const BeamRules rules = rules_of(2, 2, {2});
  BeamBatch batch(one(problem_of(rules, row_by_hand)), 3, BeamInput::logprobs);
  ASSERT_FALSE(batch.step());
  ASSERT_FALSE(batch.step());
  EXPECT_EQ(batch.state(0), BeamState::length_done);
  // With a length penalty of 0, scores are sums. The pool has one sequence, and the first of the
  // tied live beams comes next.
  EXPECT_EQ(batch.best(0, 2),
            (std::vector<BeamHypothesis>{{{0, 2}, -1.5F, -1.5F}, {{0, 0}, -2, -2}}));
}

TEST(BeamSearch, EarlyStopping) {
  // Width 1. In the first step the end id has the largest log-probability, so that the pool is full
  // after this step.
  const auto row = [](std::size_t length, std::int32_t) {
    return length == 0 ? std::vector<float>{-1.5F, -1, -9} : std::vector<float>{-0.125F, -1, -9};
  };
  const auto state_after_one = [&](std::int32_t early_stopping, float penalty) {
    BeamRules rules = rules_of(1, 16, {1});
    rules.early_stopping = early_stopping;
    rules.length_penalty = penalty;
    BeamBatch batch(one(problem_of(rules, row)), 3, BeamInput::logprobs);
    EXPECT_FALSE(batch.step());
    EXPECT_EQ(batch.pool(0).size(), 1U);
    return batch.state(0);
  };
  EXPECT_EQ(state_after_one(1, 1), BeamState::pool_done);
  // early_stopping 0 compares the pool's -1 with the best candidate's -1 / 1.
  EXPECT_EQ(state_after_one(0, 1), BeamState::pool_done);
  // early_stopping 2 compares it with -1 / 16, but with -1 / 1 if a greater length does not improve
  // the score.
  EXPECT_EQ(state_after_one(2, 1), BeamState::live);
  EXPECT_EQ(state_after_one(2, 0), BeamState::pool_done);
  EXPECT_EQ(state_after_one(2, -1), BeamState::pool_done);
}

TEST(BeamSearch, TiesGoToTheLowerBeamThenTheLowerToken) {
  const auto row = [](std::size_t, std::int32_t) { return std::vector<float>(5, -1.0F); };
  BeamBatch batch(one(problem_of(rules_of(3, 9, {}), row)), 5, BeamInput::logprobs);
  ASSERT_FALSE(batch.step());
  EXPECT_EQ(batch.live(0), (std::vector<BeamHypothesis>{{{0}, -1, 0}, {{1}, -1, 0}, {{2}, -1, 0}}));
  ASSERT_FALSE(batch.step());
  EXPECT_EQ(batch.parents(0), (std::vector<std::int32_t>{0, 0, 0}));
  EXPECT_EQ(batch.live(0),
            (std::vector<BeamHypothesis>{{{0, 0}, -2, 0}, {{0, 1}, -2, 0}, {{0, 2}, -2, 0}}));
}

TEST(BeamSearch, ScoresThatRoundToATieAreOrderedByToken) {
  // 2^24 + 1 is not a float32, so both candidates have the score -2^24, although token 1 has the
  // larger value.
  const auto row = [](std::size_t length, std::int32_t) {
    return length == 0 ? std::vector<float>{-0x1p24F, -kInfinity}
                       : std::vector<float>{-0.75F, -0.5F};
  };
  BeamBatch batch(one(problem_of(rules_of(1, 9, {}), row)), 2, BeamInput::logprobs);
  ASSERT_FALSE(batch.step());
  ASSERT_FALSE(batch.step());
  EXPECT_EQ(batch.live(0), (std::vector<BeamHypothesis>{{{0, 0}, -0x1p24F, 0}}));
}

TEST(BeamSearch, ASumThatLeavesFloat32IsNoCandidate) {
  const auto row = [](std::size_t length, std::int32_t) {
    const float low = -3e38F;  // the sum of two such values is -inf
    if (length == 0) return std::vector<float>{low, -kInfinity};
    return length == 1 ? std::vector<float>{low, -1} : std::vector<float>{low, low};
  };
  BeamBatch batch(one(problem_of(rules_of(2, 9, {}), row)), 2, BeamInput::logprobs);
  ASSERT_FALSE(batch.step());
  ASSERT_FALSE(batch.step());
  EXPECT_EQ(batch.live(0), (std::vector<BeamHypothesis>{{{0, 1}, -3e38F, 0}}));
  ASSERT_FALSE(batch.step());
  EXPECT_EQ(batch.status(0), RowStatus::no_allowed_token);
}

/// Runs the model's step on the rows that the step of the batch reads.
void step_model(BeamModelState& model, const BeamProblem& problem, BeamInput input) {
  std::vector<std::vector<float>> rows;
  for (const BeamHypothesis& beam : model.live) {
    const std::vector<float> row = problem.row(beam.tokens);
    rows.push_back(input == BeamInput::logits ? reference::beam_logprobs(row) : row);
  }
  reference::beam_step_model(model, rows, problem.rules);
}

void expect_same(const BeamBatch& batch, std::size_t r, const BeamModelState& model) {
  EXPECT_EQ(batch.status(r), model.status) << to_string(batch.status(r));
  EXPECT_EQ(batch.state(r), model.state);
  EXPECT_EQ(batch.live(r), model.live);
  if (model.status == RowStatus::ok) {
    EXPECT_EQ(batch.parents(r), model.parents);
  }
  EXPECT_EQ(batch.pool(r), model.pool);
}

TEST(BeamSearch, AgreesWithTheModelBitForBit) {
  std::mt19937_64 random(20261122);
  int pool_done = 0, length_done = 0, displaced = 0;
  for (int repeat = 0; repeat < 2000; ++repeat) {
    const auto input = static_cast<BeamInput>(repeat % 2);
    const std::size_t vocab = 2 + random() % 12;
    std::vector<BeamProblem> problems;
    for (std::uint64_t i = 1 + random() % 5; i > 0; --i) {
      problems.push_back(random_problem(random, vocab));
    }
    BeamBatch batch(problems, static_cast<std::int64_t>(vocab), input);
    std::vector<BeamModelState> models(problems.size());
    for (int step = 0; step < 10 && !batch.all_done(); ++step) {
      ASSERT_FALSE(batch.step());
      for (std::size_t r = 0; r < problems.size(); ++r) {
        const std::vector<BeamHypothesis> before = models[r].pool;
        step_model(models[r], problems[r], input);
        expect_same(batch, r, models[r]);
        if (before.size() == static_cast<std::size_t>(problems[r].rules.width)) {
          displaced += before != models[r].pool ? 1 : 0;
        }
      }
      ASSERT_FALSE(HasFailure()) << "repeat " << repeat << ", step " << step;
    }
    ASSERT_TRUE(batch.all_done());
    for (std::size_t r = 0; r < problems.size(); ++r) {
      (batch.state(r) == BeamState::pool_done ? pool_done : length_done) += 1;
      const auto width = static_cast<std::size_t>(problems[r].rules.width);
      EXPECT_EQ(batch.best(r, batch.max_width),
                reference::beam_result_model(models[r], static_cast<std::size_t>(batch.max_width),
                                             problems[r].rules.length_penalty))
          << width;
    }
  }
  // The random problems must use the rules: many must end by each of them.
  EXPECT_GT(pool_done, 50);
  EXPECT_GT(length_done, 50);
  EXPECT_GT(displaced, 10);
}

// With as many beams as there are unfinished sequences, beam search is exact: its best sequences
// are the best of all sequences.
TEST(BeamSearch, WideEnoughItFindsTheBestOfAllSequences) {
  struct Size {
    std::size_t vocab;
    std::int32_t max_tokens;
  };
  for (const Size size : {Size{2, 8}, Size{3, 5}, Size{4, 4}, Size{6, 3}}) {
    for (const float penalty : {0.0F, 1.0F, 0.7F, -1.0F}) {
      // One token is the end id, so there are (vocab - 1)^(max_tokens - 1) live beams before the
      // last step, with vocab candidates each. The pool cannot be full before the search has seen
      // all sequences.
      auto width = static_cast<std::int32_t>(size.vocab);
      for (std::int32_t i = 1; i < size.max_tokens; ++i) {
        width *= static_cast<std::int32_t>(size.vocab - 1);
      }
      width = std::max(width, size.max_tokens + 1);
      BeamRules rules = rules_of(width, size.max_tokens, {0});
      rules.length_penalty = penalty;
      const std::uint64_t seed = size.vocab * 31 + static_cast<std::uint64_t>(penalty * 10 + 20);
      const bool bans = penalty == 0.7F;
      const BeamProblem problem = {rules, [seed, size, bans](const TokenSequence& sequence) {
                                     return hashed_row(seed, sequence, size.vocab, false, bans);
                                   }};
      BeamBatch batch(one(problem), static_cast<std::int64_t>(size.vocab), BeamInput::logits);
      while (!batch.all_done()) ASSERT_FALSE(batch.step());
      const std::vector<BeamHypothesis> expected = reference::all_sequences(
          [&](const TokenSequence& sequence) {
            return reference::beam_logprobs(problem.row(sequence));
          },
          rules, static_cast<std::size_t>(width));
      EXPECT_EQ(batch.best(0, width), expected) << size.vocab << " " << penalty;
      if (bans) continue;  // without bans, at least `width` sequences end with the last step
      EXPECT_EQ(expected.size(), static_cast<std::size_t>(width));
    }
  }
}

// For large vocabularies, the threshold of the kernel's scan is compared with a sort of all
// candidates.
TEST(BeamSearch, RowsOfEveryFamily) {
  for (const harness::Family family : harness::all_families()) {
    for (const std::int64_t vocab : {std::int64_t{700}, std::int64_t{20011}}) {
      for (const std::int32_t width : {1, 4, 33}) {
        if (width == 33 && vocab != 700)
          continue;  // skipped for speed, because the model sorts
                     // all candidates
        const auto row = [family, vocab](const TokenSequence& sequence) {
          std::vector<float> values(static_cast<std::size_t>(vocab));
          const std::int32_t number = sequence.empty() ? 0 : sequence.back() % 1000 + 1;
          harness::generate_row(family, 5, static_cast<std::uint64_t>(number), values);
          return values;
        };
        const BeamProblem problem = {rules_of(width, 3, {7}), row};
        for (const BeamInput input : {BeamInput::logits, BeamInput::logprobs}) {
          BeamBatch batch(one(problem), vocab, input);
          BeamModelState model;
          for (int step = 0; step < 2; ++step) {
            ASSERT_FALSE(batch.step());
            step_model(model, problem, input);
            expect_same(batch, 0, model);
          }
          ASSERT_FALSE(HasFailure()) << harness::to_string(family) << " " << vocab << " " << width;
        }
      }
    }
  }
}

TEST(BeamSearch, TargetsThreadsAndNeighboursDoNotShow) {
  std::mt19937_64 random(5);
  constexpr std::size_t kVocab = 1500;
  std::vector<BeamProblem> problems;
  for (int i = 0; i < 7; ++i) problems.push_back(random_problem(random, kVocab));
  BeamBatch together(problems, kVocab, BeamInput::logits);
  for (int step = 0; step < 3; ++step) ASSERT_FALSE(together.step());
  for (const CpuTarget target :
       {CpuTarget::scalar, CpuTarget::avx2, CpuTarget::avx512, CpuTarget::neon}) {
    if (!is_available(target)) continue;
    BeamBatch same(problems, kVocab, BeamInput::logits);
    for (int step = 0; step < 3; ++step) ASSERT_FALSE(same.step({target, 3}));
    for (std::size_t r = 0; r < problems.size(); ++r) {
      EXPECT_EQ(same.live(r), together.live(r)) << to_string(target);
      EXPECT_EQ(same.pool(r), together.pool(r)) << to_string(target);
    }
  }
  for (std::size_t r = 0; r < problems.size(); ++r) {
    BeamBatch alone({problems[r]}, kVocab, BeamInput::logits);
    for (int step = 0; step < 3; ++step) ASSERT_FALSE(alone.step());
    EXPECT_EQ(alone.live(0), together.live(r));
    EXPECT_EQ(alone.state(0), together.state(r));
  }
}

TEST(BeamSearch, TheCallersRoundingModeDoesNotShow) {
  std::mt19937_64 random(6);
  std::vector<BeamProblem> problems;
  for (int i = 0; i < 20; ++i) problems.push_back(random_problem(random, 9));
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    BeamBatch nearest(problems, 9, BeamInput::logits);
    BeamBatch other(problems, 9, BeamInput::logits);
    while (!nearest.all_done()) {
      ASSERT_FALSE(nearest.step());
      std::fesetround(mode);
      const Error error = other.step();
      EXPECT_EQ(std::fegetround(), mode);
      std::fesetround(FE_TONEAREST);
      ASSERT_FALSE(error) << error.message;
    }
    for (std::size_t r = 0; r < problems.size(); ++r) {
      EXPECT_EQ(other.live(r), nearest.live(r)) << mode;
      EXPECT_EQ(other.pool(r), nearest.pool(r)) << mode;
      const std::vector<BeamHypothesis> expected = nearest.best(r, nearest.max_width);
      std::fesetround(mode);
      const std::vector<BeamHypothesis> best = other.best(r, other.max_width);
      std::fesetround(FE_TONEAREST);
      EXPECT_EQ(best, expected) << mode;
    }
  }
}

TEST(BeamSearch, RowsOfHalfPrecision) {
  const std::vector<std::uint16_t> bfloat16 = {0x3f80, 0x4000, 0xff80, 0x3f80};  // 1, 2, -inf, 1
  const BeamProblem problem = {rules_of(3, 2, {}), [](const TokenSequence&) {
                                 return std::vector<float>{1, 2, -kInfinity, 1};
                               }};
  BeamBatch wide(one(problem), 4, BeamInput::logits);
  BeamBatch narrow(one(problem), 4, BeamInput::logits);
  const std::vector<std::int64_t> begins = {0};
  narrow.request.rows = {bfloat16.data(), DType::bfloat16, 1, 4, 4};
  narrow.request.row_begins = {begins.data(), 1};
  ASSERT_FALSE(wide.step());
  ASSERT_FALSE(narrow.step());
  EXPECT_EQ(narrow.live(0), wide.live(0));
  ASSERT_EQ(wide.live(0).size(), 3U);  // a token of -inf is not a candidate
  EXPECT_EQ(wide.live(0)[2].tokens, TokenSequence{3});
}

TEST(BeamSearch, FewerCandidatesThanBeams) {
  // Only token 1 is allowed, and after it only the end id. So no beam remains, and the pool has the
  // only result.
  const auto row = [](std::size_t length, std::int32_t) {
    return length == 0 ? std::vector<float>{-kInfinity, 3, -kInfinity}
                       : std::vector<float>{-kInfinity, -kInfinity, 5};
  };
  BeamBatch batch(one(problem_of(rules_of(4, 9, {2}), row)), 3, BeamInput::logits);
  ASSERT_FALSE(batch.step());
  EXPECT_EQ(batch.live(0), (std::vector<BeamHypothesis>{{{1}, 0, 0}}));
  ASSERT_FALSE(batch.step());
  EXPECT_EQ(batch.live(0), std::vector<BeamHypothesis>{});
  EXPECT_EQ(batch.state(0), BeamState::length_done);
  EXPECT_EQ(batch.best(0, 4), (std::vector<BeamHypothesis>{{{1, 2}, 0, 0}}));
}

}  // namespace
}  // namespace fairdraw::suites
