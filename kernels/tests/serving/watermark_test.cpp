// Marked draws: words, arrival times and their bounds, the race against the independent model on
// rows of every kind, and what is refused.
#include "fairdraw/watermark.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/proposals.h"
#include "harness/inputs/dice.h"
#include "harness/inputs/owned_call.h"
#include "harness/inputs/processing_rows.h"
#include "reference/processing_model.h"
#include "reference/watermark_model.h"
#include "serving/rules/watermark_rules.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"
#include "tests/serving/marked_rows.h"
#include "tests/serving/near_ties.h"

namespace fairdraw::suites {
namespace {

using boost::multiprecision::cpp_int;
using reference::RowMark;
/// Real arithmetic with an error of 2^-330 or so, far below every bound here.
using Real = boost::multiprecision::cpp_bin_float_100;

// A fixed seed makes the test deterministic; RC_PARAMS can set others.
const bool kSeedIsFixed = setenv("RC_PARAMS", "seed=20261128 max_success=5000", 0) == 0;

constexpr std::uint64_t kMaxWord = std::numeric_limits<std::uint64_t>::max();

/// Returns words at both ends, near powers of two, and random ones.
std::vector<std::uint64_t> words_of_every_kind(std::uint64_t random) {
  std::vector<std::uint64_t> words;
  for (int bit = 0; bit < 64; ++bit) {
    for (std::uint64_t near = 0; near < 5; ++near) {
      words.push_back((std::uint64_t{1} << bit) + near - 2);
      words.push_back(kMaxWord - (std::uint64_t{1} << bit) + near - 2);
    }
  }
  harness::Dice dice(41);
  for (std::uint64_t i = 0; i < random; ++i) words.push_back(dice.bits() >> dice.below(64));
  return words;
}

cpp_int integer_of(const ArrivalTime& time) {
  return (cpp_int(time.whole) << 64) + cpp_int(time.fraction);
}

cpp_int integer_of(uint128_t value) {
  return (cpp_int(static_cast<std::uint64_t>(value >> 64)) << 64) +
         static_cast<std::uint64_t>(value);
}

/// Returns a weight of up to 104 bits.
uint128_t random_weight(harness::Dice& dice) {
  return ((static_cast<uint128_t>(dice.bits()) << 40) >> dice.below(104)) + 1U;
}

/// Returns 2^64 times the real value, -log2((2 word + 1) / 2^65).
Real real_time(std::uint64_t word) {
  using boost::multiprecision::log2;
  return (Real(65) - log2(Real(cpp_int(word) * 2 + 1))) * Real(cpp_int(1) << 64);
}

TEST(Watermark, ArrivalTimesAreTheModelsAndWithinTheStatedError) {
  const Real most = Real(1) + Real(1.45) * boost::multiprecision::ldexp(Real(1), -62);
  for (const std::uint64_t word : words_of_every_kind(budget(20000))) {
    const cpp_int time = integer_of(arrival_time(word));
    ASSERT_EQ(time, reference::arrival_time_model(word)) << word;
    const Real error = Real(time) - real_time(word);
    ASSERT_TRUE(error >= 0 && error < most) << word << ": " << error;
    ASSERT_GT(time, 0);
  }
  // By hand: z = 2^65 - 1 is just below 2^65, z = 1 is 2^65 octaves below.
  EXPECT_EQ(integer_of(arrival_time(kMaxWord)), 1);
  EXPECT_EQ(integer_of(arrival_time(0)), cpp_int(65) << 64);
}

/// A carry that is lost in a square changes a digit of few words in 2^62, so squares are compared
/// by themselves.
TEST(Watermark, SquaresAreExact) {
  harness::Dice dice(40);
  constexpr auto kTop = static_cast<uint128_t>(1) << 127;
  for (std::uint64_t i = 0; i < budget(100000); ++i) {
    const std::uint64_t low = dice.pick({dice.bits(), ~(dice.bits() >> 40), dice.bits() >> 40});
    const uint128_t x = (static_cast<uint128_t>(dice.bits()) << 64) | low | kTop;
    ASSERT_EQ(integer_of(square_high(x)), (integer_of(x) * integer_of(x)) >> 128);
  }
}

TEST(Watermark, BoundsHoldTheArrivalTime) {
  harness::Dice dice(42);
  const Real ln2 = boost::multiprecision::log(Real(2));
  for (const std::uint64_t word : words_of_every_kind(budget(20000))) {
    const uint128_t weight = random_weight(dice);
    const Real time = Real(integer_of(arrival_time(word))) * ln2 / Real(cpp_int(1) << 64) /
                      Real(integer_of(weight));
    const double unit = nearest_double(weight);
    const ArrivalBounds bounds = arrival_bounds(word, unit);
    ASSERT_TRUE(Real(bounds.lower) <= time && time <= Real(bounds.upper)) << word;
    // The bound by a product says nothing wrong of times near the bounds.
    for (const double other : {bounds.lower, bounds.upper, 0.7 * bounds.lower}) {
      ASSERT_TRUE(!arrives_after(word, unit, other) || time > Real(other)) << word;
    }
  }
}

TEST(Watermark, ProductsAreComparedExactly) {
  harness::Dice dice(43);
  for (std::uint64_t i = 0; i < budget(100000); ++i) {
    const ArrivalTime a{dice.bits(), static_cast<std::uint32_t>(dice.below(65))};
    uint128_t v = random_weight(dice), w = random_weight(dice);
    ArrivalTime b{dice.bits(), static_cast<std::uint32_t>(dice.below(65))};
    if (i % 3 == 0) b = a;  // in this case the weights alone decide
    if (i % 6 == 0) w = v + (dice.once_in(2) ? 1U : 0U);
    EXPECT_EQ(arrives_before(a, v, b, w),
              integer_of(a) * integer_of(w) < integer_of(b) * integer_of(v))
        << i;
  }
}

/// Words from another implementation of the definition, in Python, whose Threefry gives the
/// published blocks.
TEST(Watermark, WordsAreKnown) {
  struct Known {
    std::uint64_t key;
    std::int32_t window;
    Ids output;
    std::int32_t token;
    std::uint64_t word;
  };
  for (const Known& known : std::vector<Known>{
           {1, 1, {}, 0, 0xc0280b5b61d1a13dU},
           {1, 4, {5, 6}, 7, 0x94907f3470341d75U},
           {0xfeedfacecafebeefU, 2, {3, 1000000, 0}, 1048575, 0xf5d0dfab79aa073fU}}) {
    const std::uint64_t context = context_key(known.key, known.window, known.output.data(),
                                              static_cast<std::int64_t>(known.output.size()));
    EXPECT_EQ(keyed_word(context, known.token), known.word);
    EXPECT_EQ(
        reference::marked_word(
            known.key, reference::context_of(known.output, static_cast<std::size_t>(known.window)),
            known.token),
        known.word);
  }
}

TEST(Watermark, WordsAndRepetitionsAreTheModels) {
  EXPECT_TRUE(rc::check("words and repeated contexts are the model's", [] {
    const auto window = *rc::gen::inRange<std::int32_t>(1, kMaxWatermarkWindow + 1);
    const Ids output = *rc::gen::container<Ids>(rc::gen::inRange(0, 3));
    const auto key = *rc::gen::arbitrary<std::uint64_t>();
    const auto length = static_cast<std::int64_t>(output.size());
    const Ids context = reference::context_of(output, static_cast<std::size_t>(window));
    RC_ASSERT(keyed_word(context_key(key, window, output.data(), length), 2) ==
              reference::marked_word(key, context, 2));
    bool repeated = false;
    for (std::size_t end = 0; end < output.size(); ++end) {
      const auto earlier = std::span(output).first(end);
      repeated = repeated || reference::context_of(earlier, context.size()) == context;
    }
    RC_ASSERT(context_is_repeated(output.data(), length, window) == repeated);
  }));
}

// --- Whole calls against the model ---------------------------------------------------------------

/// Rows of one vocabulary with filters, marks and outputs of their own.
struct MarkedCall {
  std::vector<RandomRow> rows;
  std::vector<RowMark> marks;
  std::vector<reference::RowProcessing> processing;
  harness::OwnedCall call;
  std::size_t vocab;

  MarkedCall(std::uint64_t number, std::size_t vocabulary) : vocab(vocabulary) {
    harness::Dice dice(number);
    constexpr std::size_t kRows = 6;
    call.allocate(DType::float32, kRows, static_cast<std::int64_t>(vocab),
                  static_cast<std::int64_t>(vocab), 0);
    call.make_parameter_arrays(kRows);
    call.seed.make_array(kRows);
    call.offset.make_array(kRows);
    call.tie_rule.make_array(kRows);
    call.filter_order.make_array(kRows);
    const std::size_t window = 1 + dice.below(dice.once_in(4) ? 32 : 3);
    const auto share = dice.pick({0.0F, 0.5F, 1.0F, 0.3F});
    const auto scheme = static_cast<WatermarkScheme>(number / 4 % 3);
    const int layers = dice.pick({1, 4, 30, 64});
    const auto green_share = dice.pick({0.25F, 0.5F, 0.999F, 0x1p-20F});
    const auto green_bias = dice.pick({0.0F, 2.0F, 10.0F, 0x1p32F});
    for (std::size_t r = 0; r < kRows; ++r) {
      rows.push_back(random_row_of(number * kRows + r, vocab));
      rows.back().allowed.clear();
      const auto i = static_cast<std::int64_t>(r);
      call.set_row(i, rows[r].logits.data());
      call.set_parameters(i, rows[r].parameters);
      call.seed.set(i) = rows[r].seed;
      call.offset.set(i) = rows[r].offset;
      call.tie_rule.set(i) = rows[r].tie_rule;
      call.filter_order.set(i) = rows[r].filter_order;
      marks.push_back({.key = dice.once_in(3) ? 0 : dice.bits() | 1U,
                       .second_key = dice.once_in(2) ? 0 : dice.bits(),
                       .second_share = share,
                       .window = window,
                       .mask_repeated = dice.once_in(2),
                       .scheme = scheme,
                       .layers = layers,
                       .green_share = green_share,
                       .green_bias = green_bias});
      processing.push_back(number % 2 == 0 ? reference::RowProcessing{}
                                           : harness::random_processing(
                                                 dice.engine(), static_cast<std::int64_t>(vocab)));
      reference::RowProcessing& processed = processing.back();
      if (number % 4 != 1) {  // otherwise, the outputs have generated tokens and placeholders
        processed.output.clear();
        for (std::uint64_t left = dice.below(20); left > 0; --left) {
          processed.output.push_back(
              static_cast<std::int32_t>(dice.below(std::min<std::uint64_t>(vocab, 3))));
        }
      }
      processed.output_counts.reset();
      processed.output_length = static_cast<std::int32_t>(processed.output.size());
    }
    call.processing = harness::pack(processing, static_cast<std::int64_t>(vocab), {false, false});
  }
};

/// Returns the model's row, with the status of a marked row whose output has an unknown id.
reference::IntegerRow expected_row(const MarkedCall& call, std::size_t r) {
  const RandomRow& row = call.rows[r];
  const DrawWords words{row.seed, row.offset, Purpose::draw, 0};
  const Ids& output = call.processing[r].output;
  const bool known = std::all_of(output.begin(), output.end(), [&](std::int32_t id) {
    return id >= 0 && id < static_cast<std::int32_t>(call.vocab);
  });
  const reference::RowProcessing processing =
      known ? reference::with_green_biases(
                  call.processing[r], call.marks[r], call.vocab,
                  [&words](std::uint32_t attempt) { return words.of_attempt(attempt); })
            : call.processing[r];
  reference::IntegerRow expected = reference::integer_model(
      row.logits, {}, processing, row.parameters, row.tie_rule, row.filter_order);
  if (expected.status == RowStatus::ok && call.marks[r].key != 0 && !known) {
    expected.status = RowStatus::invalid_history;
  }
  return expected;
}

TEST(Watermark, TokensAreTheModelsAndNeighboursAreSamples) {
  std::int64_t marked = 0, moved = 0, unmarked = 0, failed = 0;
  for (std::uint64_t number = 0; number < budget(2500) && !HasFailure(); ++number) {
    const std::size_t vocab = number % 3 == 0 ? 300 + number * 7919 % 1500 : 1 + number % 40;
    const MarkedCall call(number, vocab);
    harness::HostArrays host;
    const SampleRequest request = harness::request_in(call.call, host);
    const MarkArrays arrays(call.marks);
    const auto rows = static_cast<std::int64_t>(call.rows.size());
    std::vector<std::vector<std::int32_t>> found;
    std::vector<RowStatus> statuses(call.rows.size());
    std::vector<std::int32_t> plain(call.rows.size(), -7);
    for (const CpuTarget target : available_targets()) {
      found.emplace_back(call.rows.size(), -7);
      SampleResult result;
      result.tokens = {found.back().data(), rows};
      result.statuses = {statuses.data(), rows};
      const Error error = sample_marked(request, arrays.watermark, result, {target, 1});
      ASSERT_FALSE(error) << error.message;
      EXPECT_EQ(found.back(), found.front());
    }
    SampleResult result;
    result.tokens = {plain.data(), rows};
    ASSERT_FALSE(sample(request, result, {CpuTarget::best, 1}));
    for (std::size_t r = 0; r < call.rows.size(); ++r) {
      const RandomRow& row = call.rows[r];
      const reference::IntegerRow expected = expected_row(call, r);
      const DrawWords words{row.seed, row.offset, Purpose::draw, 0};
      const std::int32_t token = reference::marked_token(
          expected, call.marks[r], call.processing[r].output,
          [&words](std::uint32_t attempt) { return words.of_attempt(attempt); });
      EXPECT_EQ(statuses[r], expected.status) << "call " << number << ", " << describe(row);
      EXPECT_EQ(found.front()[r], token) << "call " << number << ", " << describe(row);
      if (call.marks[r].key == 0) {
        EXPECT_EQ(found.front()[r], plain[r]) << "call " << number;
      }
      (call.marks[r].key == 0 ? unmarked : marked) += token >= 0 ? 1 : 0;
      moved += token != plain[r] ? 1 : 0;
      failed += expected.status == RowStatus::invalid_history ? 1 : 0;
    }
  }
  RecordProperty("moved", std::to_string(moved));
  if (is_reduced()) return;
  EXPECT_GT(marked, 5000);
  EXPECT_GT(unmarked, 2500);
  EXPECT_GT(moved, 1000);
  EXPECT_GT(failed, 10);
}

TEST(Watermark, NearTiesAreDecidedExactly) {
  int undecided = 0;
  for (const NearTie& tie : near_ties(is_reduced() ? 3 : 60)) {
    const std::vector<float> logits(std::begin(tie.logits), std::end(tie.logits));
    const RowMark mark{.key = tie.key, .window = 1};
    std::vector<Ids> outputs = {{}};
    append_marked(logits, {mark}, {1}, outputs);
    const reference::IntegerRow row = reference::integer_model(logits, {}, {});
    EXPECT_EQ(outputs[0].back(), reference::marked_token(row, mark, {}, {})) << tie.key;
    undecided += is_undecided(tie) ? 1 : 0;
  }
  EXPECT_GT(undecided, 0);
}

TEST(Watermark, ManyEqualTokensAreDecidedExactly) {
  constexpr std::size_t kVocab = 20000;
  const std::vector<float> logits(kVocab, 1.5F);
  const reference::IntegerRow row = reference::integer_model(logits, {}, {});
  for (const std::uint64_t key : keys_from(7, 5)) {
    const RowMark mark{.key = key, .window = 4};
    std::vector<Ids> outputs = {{1, 2, 3}};
    const std::int32_t expected = reference::marked_token(row, mark, outputs[0], {});
    append_marked(logits, {mark}, {1}, outputs);
    EXPECT_EQ(outputs[0].back(), expected);
  }
}

TEST(Watermark, AllResultsAreOfTheMarkedToken) {
  harness::Dice dice(44);
  std::vector<float> logits;
  for (int i = 0; i < 2 * 500; ++i) logits.push_back(static_cast<float>(dice.bell() * 2));
  const TokenListRows outputs({{4, 5}, {}});
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, 2, 500, 500};
  request.top_k = 40;
  request.seed = std::uint64_t{3};
  request.processing.output = outputs.lists();
  Watermark watermark;
  watermark.key = std::uint64_t{99};
  std::vector<std::int32_t> tokens(2, -7), support(2, -7);
  std::vector<float> filtered(2, 7), values(2, 7), probs(1000, 7);
  SampleResult result;
  result.tokens = {tokens.data(), 2};
  result.support_size = {support.data(), 2};
  result.logprob = {values.data(), 2};
  result.logprob_filtered = {filtered.data(), 2};
  result.probs = {probs.data(), 2, 500};
  ASSERT_FALSE(sample_marked(request, watermark, result));
  std::vector<float> of_tokens(2, 7);
  LogprobsResult logprobs;
  logprobs.values = {of_tokens.data(), 2};
  logprobs.mode = LogprobsMode::raw_logprobs;
  ASSERT_FALSE(log_probabilities(request, {tokens.data(), 2}, logprobs, {}));
  for (std::size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(support[row], 40);
    EXPECT_EQ(values[row], of_tokens[row]);
    const float probability = probs[row * 500 + static_cast<std::size_t>(tokens[row])];
    EXPECT_GT(probability, 0.0F);
    // The float32 of a logarithm, and of its argument, are each off by at most 2^-24 relative.
    EXPECT_NEAR(filtered[row], std::log(static_cast<double>(probability)),
                0x1p-20 * (1 + std::fabs(static_cast<double>(filtered[row]))));
  }
}

// --- What is refused -----------------------------------------------------------------------------

/// A valid call on two rows; each test invalidates one thing.
struct SmallCall {
  std::vector<float> logits = {0, 1, 2, 3, 3, 2, 1, 0};
  std::vector<std::int32_t> tokens = {-7, -7};
  std::vector<RowStatus> statuses = {RowStatus::ok, RowStatus::ok};
  TokenListRows outputs{{{1, 2}, {3}}};
  std::vector<std::uint64_t> keys = {5, 6, 7};
  SampleRequest request;
  Watermark watermark;
  SampleResult result;

  SmallCall() {
    request.logits = {logits.data(), DType::float32, 2, 4, 4};
    request.processing.output = outputs.lists();
    watermark.key = {keys.data(), 2};
    result.tokens = {tokens.data(), 2};
    result.statuses = {statuses.data(), 2};
  }
  SmallCall(const SmallCall&) = delete;  // views point into it
  SmallCall& operator=(const SmallCall&) = delete;
};

void refuse(const std::function<void(SmallCall&)>& change, const std::string& message) {
  SmallCall call;
  change(call);
  EXPECT_EQ(sample_marked(call.request, call.watermark, call.result).message, message);
  EXPECT_EQ(call.tokens, (std::vector<std::int32_t>{-7, -7}));
}

TEST(Watermark, RefusesByNameValueAndRange) {
  SmallCall valid;
  EXPECT_FALSE(sample_marked(valid.request, valid.watermark, valid.result));
  refuse([](SmallCall& c) { c.watermark.key = std::uint64_t{0}; },
         "key is 0; allowed: 1 to 2^64 - 1, or an array, with 0 for rows that are not marked");
  refuse([](SmallCall& c) { c.watermark.key = {c.keys.data(), 3}; },
         "length of key is 3; allowed: 2 (one per row of logits)");
  refuse([](SmallCall& c) { c.watermark.rule.window = 0; }, "window is 0; allowed: 1 to 32");
  refuse([](SmallCall& c) { c.watermark.rule.window = 33; }, "window is 33; allowed: 1 to 32");
  refuse([](SmallCall& c) { c.watermark.rule.scheme = static_cast<WatermarkScheme>(3); },
         "scheme is 3; allowed: 0 (race), 1 (tournament) or 2 (green_list)");
  refuse([](SmallCall& c) { c.watermark.rule.layers = 65; }, "layers is 65; allowed: 1 to 64");
  refuse([](SmallCall& c) { c.watermark.rule.green_share = 1; },
         "green_share is 1; allowed: 2^-20 to below 1");
  refuse([](SmallCall& c) { c.watermark.green_bias = -1; }, "green_bias is -1; allowed: 0 to 2^32");
  refuse([](SmallCall& c) { c.watermark.second_share = 1.5F; },
         "second_share is 1.5; allowed: 0 to 1");
  refuse([](SmallCall& c) { c.watermark.second_share = std::nanf(""); },
         "second_share is nan; allowed: 0 to 1");
  refuse([](SmallCall& c) { c.request.num_samples = 2; },
         "num_samples is 2; allowed: 1, because each marked row has one token");
  refuse([](SmallCall& c) { c.request.processing.output = {}; },
         "output is null; allowed: lists of the ids that each request has generated");
  refuse([](SmallCall& c) { c.request.indices = {c.tokens.data(), 2}; },
         "indices is an array; allowed: null, because each marked row has one token");
}

TEST(Watermark, AnUnknownIdFailsItsRowIfThatIsMarked) {
  for (int number = 0; number < 9; ++number) {
    const std::int32_t id = std::array{-1, 4, -2}[static_cast<std::size_t>(number % 3)];
    SmallCall call;
    call.watermark.rule.scheme = static_cast<WatermarkScheme>(number / 3);
    call.outputs.ids()[1] = id;
    ASSERT_FALSE(sample_marked(call.request, call.watermark, call.result));
    EXPECT_EQ(call.statuses, (std::vector{RowStatus::invalid_history, RowStatus::ok}));
    EXPECT_EQ(call.tokens[0], -1);
    EXPECT_GE(call.tokens[1], 0);
    call.keys[0] = 0;
    ASSERT_FALSE(sample_marked(call.request, call.watermark, call.result));
    EXPECT_EQ(call.statuses, (std::vector{RowStatus::ok, RowStatus::ok}));
  }
}

// The lists of biases are rebuilt for green tokens; a list outside its buffer still fails its row.
TEST(Watermark, ABadListOfBiasesFailsItsRowBesideGreenTokens) {
  SmallCall call;
  call.watermark.rule.scheme = WatermarkScheme::green_list;
  const std::vector<std::int32_t> ids = {1, 2};
  const std::vector<float> values = {0x1p64F, -0x1p64F};
  std::vector<std::int64_t> begins = {0, 1};
  const std::vector<std::int32_t> lengths = {1, 1};
  call.request.processing.bias_ids = {ids.data(), 2, {begins.data(), 2}, {lengths.data(), 2}};
  call.request.processing.bias_values = {values.data(), 2};
  call.watermark.green_bias = 0x1p32F;
  ASSERT_FALSE(sample_marked(call.request, call.watermark, call.result));
  EXPECT_EQ(call.statuses, (std::vector{RowStatus::ok, RowStatus::ok}));
  EXPECT_EQ(call.tokens[0], 1);  // no other bias is near 2^64
  begins[1] = 2;
  ASSERT_FALSE(sample_marked(call.request, call.watermark, call.result));
  EXPECT_EQ(call.statuses, (std::vector{RowStatus::ok, RowStatus::invalid_logit_bias}));
}

}  // namespace
}  // namespace fairdraw::suites
