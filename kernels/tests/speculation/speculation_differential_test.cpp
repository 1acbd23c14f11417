// accept_chain and accept_tree must equal the model bit for bit, on every target, and must equal
// `sample` if the draft's distribution is unknown.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "common/philox.h"
#include "fairdraw/process_logits.h"
#include "fairdraw/sample.h"
#include "fairdraw/speculative.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"
#include "tests/speculation/speculation_calls.h"

namespace fairdraw::suites {
namespace {

// A call takes less time than starting threads would.
constexpr Execution kOneThread{CpuTarget::best, 1};

std::uint64_t calls_in_a_test() { return is_reduced() ? 3000 : 6000; }

std::int64_t vocab_of(std::uint64_t number) {
  constexpr std::array<std::int64_t, 8> kVocabs = {1, 2, 5, 31, 33, 64, 130, 257};
  return kVocabs.at((number / 3) % kVocabs.size());
}

TEST(SpeculationDifferential, ChainsEqualTheModelOnEveryTarget) {
  HostArrays arrays;
  std::set<RowStatus> seen;
  // counts for each kind of knowledge about the draft
  std::array<std::int64_t, 3> accepted{}, rejected{};
  for (std::uint64_t number = 0; number < calls_in_a_test(); ++number) {
    const SpeculationCall call = random_speculation_call(number, vocab_of(number));
    SpeculationOutputs expected = expected_chain_outputs(call);
    std::fill(expected.nodes.begin(), expected.nodes.end(), 0);
    for (const CpuTarget target : available_targets()) {
      SpeculationOutputs got(call, call.max_draft);
      std::fill(got.nodes.begin(), got.nodes.end(), 0);
      const Error error = accept_chain(chain_in(call, arrays),
                                       speculation_result_in<AcceptChainResult>(got, arrays),
                                       {target, number % 16 == 0 ? 2 : 1});
      ASSERT_FALSE(error) << error.message;
      ASSERT_EQ(difference(expected, got), "") << "call " << number << ", " << to_string(target);
    }
    SpeculationOutputs tokens_alone(call, call.max_draft, false);
    ASSERT_FALSE(accept_chain(chain_in(call, arrays),
                              speculation_result_in<AcceptChainResult>(tokens_alone, arrays),
                              kOneThread));
    ASSERT_EQ(tokens_alone.tokens, expected.tokens);
    seen.insert(expected.statuses.begin(), expected.statuses.end());
    const auto distribution = static_cast<std::size_t>(call.draft_law);
    for (std::size_t b = 0; b < expected.statuses.size(); ++b) {
      if (expected.statuses[b] != RowStatus::ok) continue;
      accepted.at(distribution) += expected.accepted[b];
      rejected.at(distribution) += expected.accepted[b] < call.max_draft ? 1 : 0;
    }
  }
  // The calls must have every status of a chain, and both outcomes for each kind of knowledge about
  // the draft.
  for (const RowStatus status :
       {RowStatus::ok, RowStatus::inactive, RowStatus::nan_input, RowStatus::infinite_input,
        RowStatus::no_allowed_token, RowStatus::invalid_temperature, RowStatus::invalid_top_k,
        RowStatus::invalid_top_p, RowStatus::invalid_min_p, RowStatus::index_out_of_range,
        RowStatus::invalid_draft_length, RowStatus::impossible_draft}) {
    EXPECT_EQ(seen.count(status), 1U) << to_string(status);
  }
  for (std::size_t distribution = 0; distribution < 3; ++distribution) {
    EXPECT_GT(accepted.at(distribution), 20) << distribution;
    EXPECT_GT(rejected.at(distribution), 20) << distribution;
  }
}

// The bonus row has many tokens 24 to 25 octaves below its largest. The bits that speculation's
// weights cut off these tokens together exceed one token's weight. So the weights of `sample` would
// give another bonus token.
TEST(SpeculationDifferential, BonusTokensComeFromTheWeightsOfTheRule) {
  constexpr std::int64_t kVocab = std::int64_t{1} << 18;
  std::vector<float> target(2 * kVocab, -INFINITY), draft(kVocab, -INFINITY);
  target.front() = draft.front() = 0;  // this token is always drafted and accepted
  const std::span bonus = std::span(target).subspan(kVocab);
  bonus[0] = 0;
  for (std::size_t id = 1; id < bonus.size(); ++id) {
    bonus[id] = -24 - static_cast<float>(id % 1000) / 1024;
  }
  const std::int32_t drafted = 0;
  std::uint64_t seed = 0;
  AcceptChainRequest request;
  request.target.logits = {target.data(), DType::float32, 2, kVocab, kVocab};
  request.target.filters.temperature = 0x1.715476p0F;
  request.target.batch = 1;
  request.target.seed = {&seed, 1};
  request.max_draft = 1;
  request.draft_tokens = {&drafted, 1};
  request.draft_law = DraftLaw::logits;
  request.draft = {draft.data(), DType::float32, 1, kVocab, kVocab};
  const reference::IntegerRow row =
      reference::integer_model(bonus, {}, {.temperature = 0x1.715476p0F});
  const std::uint64_t total = row.speculation_total();
  int others = 0;
  for (; seed < 4096; ++seed) {
    const std::uint64_t word = random_word(seed, 1, Purpose::bonus, 0);
    // One word in 90 gives a token other than the first.
    if (reference::position_of(word, total) < row.speculation_weight[0]) continue;
    const std::int32_t expected = row.speculation_token_for(word);
    if (row.token_for(word) != expected) ++others;
    std::int32_t tokens[2];
    ASSERT_FALSE(accept_chain(request, {{tokens, 2}, {}, {}}, kOneThread));
    ASSERT_EQ(tokens[0], 0);
    ASSERT_EQ(tokens[1], expected) << "seed " << seed;
  }
  EXPECT_GT(others, 10);
}

TEST(SpeculationDifferential, TreesEqualTheModelOnEveryTarget) {
  HostArrays arrays;
  std::set<RowStatus> seen;
  std::array<std::int64_t, 3> branches{};  // numbers of paths that skip the next node, for each
                                           // kind of knowledge about the draft
  std::array<std::int64_t, 2> rejected{};  // numbers of trees with known distribution that end
                                           // before a leaf, by sibling rule
  for (std::uint64_t number = 0; number < calls_in_a_test(); ++number) {
    const SpeculationCall call = random_speculation_call(number, vocab_of(number), true);
    const SpeculationOutputs expected = expected_tree_outputs(call);
    for (const CpuTarget target : available_targets()) {
      SpeculationOutputs got(call, call.max_depth);
      const Error error =
          accept_tree(tree_in(call, arrays), speculation_result_in<AcceptTreeResult>(got, arrays),
                      {target, number % 16 == 0 ? 2 : 1});
      ASSERT_FALSE(error) << error.message;
      ASSERT_EQ(difference(expected, got), "") << "call " << number << ", " << to_string(target);
    }
    SpeculationOutputs tokens_alone(call, call.max_depth, false);
    ASSERT_FALSE(accept_tree(tree_in(call, arrays),
                             speculation_result_in<AcceptTreeResult>(tokens_alone, arrays),
                             kOneThread));
    ASSERT_EQ(tokens_alone.tokens, expected.tokens);
    seen.insert(expected.statuses.begin(), expected.statuses.end());
    for (std::size_t b = 0; call.max_depth > 0 && b < expected.statuses.size(); ++b) {
      const auto first = static_cast<std::ptrdiff_t>(b) * call.max_depth;
      bool branch = false;
      for (std::ptrdiff_t i = 0; i < expected.accepted[b]; ++i) {
        const std::int32_t* const node = expected.nodes.data() + first + i;
        branch = branch || *node != (i == 0 ? 0 : node[-1] + 1);
      }
      branches.at(static_cast<std::size_t>(call.draft_law)) += branch ? 1 : 0;
      if (call.draft_law == DraftLaw::none || expected.statuses[b] != RowStatus::ok) continue;
      rejected.at(static_cast<std::size_t>(call.siblings)) += expected.accepted[b] == 0 ? 1 : 0;
    }
  }
  for (const RowStatus status : {RowStatus::ok, RowStatus::index_out_of_range,
                                 RowStatus::invalid_draft_length, RowStatus::invalid_draft_tree}) {
    EXPECT_EQ(seen.count(status), 1U) << to_string(status);
  }
  EXPECT_EQ(seen.count(RowStatus::impossible_draft), 1U);
  for (const std::int64_t count : branches) EXPECT_GT(count, 20);
  for (const std::int64_t count : rejected) EXPECT_GT(count, 20);
}

// The residual weights after many siblings are exact, with 60 bits more per sibling.
TEST(SpeculationDifferential, NodesOfManyChildrenEqualTheModel) {
  HostArrays arrays;
  std::array<std::int64_t, 3> ends{};  // counts of the outcomes: a late child is accepted; no child
                                       // is accepted; too many children
  const std::uint64_t calls = calls_in_a_test() / 20;
  for (std::uint64_t number = 0; number < calls; ++number) {
    const std::int64_t vocab = std::array<std::int64_t, 4>{3, 40, 130, 257}.at(number / 4 % 4);
    // Without replacement there are at most as many children as tokens.
    const std::int64_t most = number % 2 == 0 ? 48 : std::min<std::int64_t>(vocab, 48);
    const SpeculationCall call = wide_speculation_call(number, most, vocab);
    const SpeculationOutputs expected = expected_tree_outputs(call);
    for (const CpuTarget target : available_targets()) {
      SpeculationOutputs got(call, 1);
      const Error error = accept_tree(
          tree_in(call, arrays), speculation_result_in<AcceptTreeResult>(got, arrays), {target, 1});
      ASSERT_FALSE(error) << error.message;
      ASSERT_EQ(difference(expected, got), "") << "call " << number << ", " << to_string(target);
    }
    ends[0] += expected.nodes[0] >= 8 ? 1 : 0;
    ends[1] += expected.accepted[0] == 0 ? 1 : 0;
  }
  // One node has the maximum number of children, and then one child more.
  for (const std::int64_t children : {kMaxSiblings, kMaxSiblings + 1}) {
    const SpeculationCall call = wide_speculation_call(4, children, 3);
    const SpeculationOutputs expected = expected_tree_outputs(call);
    SpeculationOutputs got(call, 1);
    ASSERT_FALSE(accept_tree(tree_in(call, arrays),
                             speculation_result_in<AcceptTreeResult>(got, arrays), kOneThread));
    ASSERT_EQ(difference(expected, got), "") << children;
    ends[2] += expected.statuses[0] == RowStatus::invalid_draft_tree ? 1 : 0;
  }
  EXPECT_GT(ends[0], 10);
  EXPECT_GT(ends[1], 10);
  EXPECT_EQ(ends[2], 1);
}

// A chain is a tree with one child per node. So for the calls of ChainsEqualTheModelOnEveryTarget,
// accept_tree must give the results of accept_chain with the same distribution, bit for bit.
TEST(SpeculationDifferential, ChainsAsTreesGiveWhatChainsGive) {
  HostArrays arrays;
  for (std::uint64_t number = 0; number < calls_in_a_test(); ++number) {
    SpeculationCall call = random_speculation_call(number, vocab_of(number));
    SpeculationOutputs chain(call, call.max_draft);
    ASSERT_FALSE(accept_chain(chain_in(call, arrays),
                              speculation_result_in<AcceptChainResult>(chain, arrays), kOneThread));
    // The same request is made as a tree, so that draft rows are parallel to the target's rows.
    const SpeculationCall as_chain = call;
    call.trees = true;
    call.max_depth = call.max_draft;
    call.siblings = static_cast<SiblingSampling>(number / 24 % 2);
    if (call.draft_law != DraftLaw::none) {
      call.draft.allocate(as_chain.draft.dtype, call.target.rows, call.draft.vocab,
                          call.draft.vocab, 0);
      const std::vector<float> nowhere(static_cast<std::size_t>(call.draft.vocab), std::nanf(""));
      for (std::int64_t r = 0; r < call.draft.rows; ++r) call.draft.set_row(r, nowhere.data());
    }
    for (std::int64_t b = 0; b < call.batch; ++b) {
      const auto at = static_cast<std::size_t>(b);
      const bool packed = !call.row_begins.empty();
      const std::int64_t begin = packed ? call.row_begins[at] : b * (call.max_draft + 1);
      const std::int64_t end = packed ? call.row_begins[at + 1] : begin + call.max_draft + 1;
      // A request without a position for drafts is rejected.
      if (begin < b || end <= begin || end > call.target.rows) continue;
      for (std::int64_t row = begin; row + 1 < end; ++row) {
        const auto place = static_cast<std::size_t>(row - b);
        if (place >= call.parents.size()) break;
        call.parents[place] = static_cast<std::int32_t>(row - begin) - 1;
        if (call.draft_law != DraftLaw::none) {
          call.draft.set_row(row, as_chain.draft_rows[place].data());
        }
      }
    }
    SpeculationOutputs tree(call, call.max_depth);
    ASSERT_FALSE(accept_tree(tree_in(call, arrays),
                             speculation_result_in<AcceptTreeResult>(tree, arrays), kOneThread));
    tree.nodes = chain.nodes;
    // Begins out of order give two requests the same positions, which can form the chain of only
    // one request.
    if (call.row_begins.empty() || std::is_sorted(call.row_begins.begin(), call.row_begins.end())) {
      ASSERT_EQ(difference(chain, tree), "") << "call " << number;
    }
  }
}

// Speculation without a known distribution changes only the speed: each token equals the token that
// `sample` gives for the row at its offset. The seeds are in an array. Requests without drafts are
// also compared, for any kind of knowledge about the draft.
TEST(SpeculationDifferential, ChainsWithoutADistributionEmitTheTokensOfSample) {
  HostArrays arrays;
  std::int64_t compared = 0;
  for (std::uint64_t number = 0; number < calls_in_a_test(); ++number) {
    SpeculationCall call = random_speculation_call(number, vocab_of(number));
    if (!call.target.seed.is_array || !call.target.offset.is_array) continue;
    if (call.draft_law != DraftLaw::none) {
      call.draft_lengths.assign(static_cast<std::size_t>(call.batch), 0);
    }
    SpeculationOutputs got(call, call.max_draft);
    const AcceptChainRequest request = chain_in(call, arrays);
    ASSERT_FALSE(
        accept_chain(request, speculation_result_in<AcceptChainResult>(got, arrays), kOneThread));
    for (std::int64_t b = 0; b < call.batch; ++b) {
      if (got.statuses[static_cast<std::size_t>(b)] != RowStatus::ok) continue;
      const std::int64_t begin = call.row_begins.empty()
                                     ? b * (call.max_draft + 1)
                                     : call.row_begins[static_cast<std::size_t>(b)];
      for (std::int64_t i = 0; i <= got.accepted[static_cast<std::size_t>(b)]; ++i) {
        SampleRequest one;
        one.logits = request.target.logits;
        one.temperature = call.target.temperature.at(b);
        one.top_k = call.target.top_k.at(b);
        one.top_p = call.target.top_p.at(b);
        one.min_p = call.target.min_p.at(b);
        one.tie_rule = call.target.tie_rule.scalar;
        one.filter_order = call.target.filter_order.scalar;
        one.allowed = request.target.allowed;
        const auto row = static_cast<std::int32_t>(begin + i);
        one.indices = {&row, 1};
        const std::uint64_t seed = call.target.seed.at(b);
        const std::uint64_t offset = call.target.offset.at(b) + static_cast<std::uint64_t>(i);
        one.seed = {&seed, 1};
        one.offset = {&offset, 1};
        std::int32_t token = -7;
        SampleResult result;
        result.tokens = {&token, 1};
        ASSERT_FALSE(sample(one, result, kOneThread));
        ASSERT_EQ(got.tokens[static_cast<std::size_t>(b * (call.max_draft + 1) + i)], token)
            << "call " << number << ", request " << b << ", position " << i;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, static_cast<std::int64_t>(calls_in_a_test()) / 2);
}

// Target rows are processed, each with the history that ends with its own drafted token; the lists
// of rows overlap in one buffer of prompt, output and drafts. The results must equal those for rows
// that were processed beforehand.
TEST(SpeculationDifferential, TargetRowsAreProcessedWithTheGrowingPrefix) {
  HostArrays arrays;
  std::int64_t changed = 0;
  for (std::uint64_t number = 0; number < calls_in_a_test() / 4; ++number) {
    SpeculationCall call = random_speculation_call(number, vocab_of(number));
    const std::int64_t rows = call.target.rows;
    // All histories share one list: ten tokens, followed by the call's drafted tokens if these are
    // valid tokens.
    std::vector<std::int32_t> history;
    for (std::int32_t i = 0; i < 10; ++i) {
      history.push_back(
          static_cast<std::int32_t>((number + std::uint64_t{7} * static_cast<std::uint64_t>(i)) %
                                    static_cast<std::uint64_t>(call.target.vocab)));
    }
    for (const std::int32_t token : call.draft_tokens) {
      const bool is_token = token >= 0 && token < call.target.vocab;
      history.push_back(is_token ? token : -1);
    }
    std::vector<std::int64_t> begins(static_cast<std::size_t>(rows), 0);
    std::vector<std::int32_t> lengths;
    std::vector<float> repetition, frequency;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto most = static_cast<std::int64_t>(history.size());
      lengths.push_back(static_cast<std::int32_t>(std::min(10 + row % 6, most)));
      repetition.push_back(row % 7 == 6 ? -1.0F : 1.0F + static_cast<float>(row % 3) / 4);
      frequency.push_back(static_cast<float>(row % 4) / 8);
    }
    AcceptChainRequest request = chain_in(call, arrays);
    LogitsProcessing& processing = request.target.processing;
    processing.repetition_penalty = {repetition.data(), rows};
    processing.frequency_penalty = {frequency.data(), rows};
    processing.output = {history.data(),
                         static_cast<std::int64_t>(history.size()),
                         {begins.data(), rows},
                         {lengths.data(), rows}};
    SpeculationOutputs processed_there(call, call.max_draft), plain(call, call.max_draft);
    Error error = accept_chain(
        request, speculation_result_in<AcceptChainResult>(processed_there, arrays), kOneThread);
    ASSERT_FALSE(error) << error.message;
    AcceptChainRequest unprocessed = chain_in(call, arrays);
    ASSERT_FALSE(accept_chain(unprocessed, speculation_result_in<AcceptChainResult>(plain, arrays),
                              kOneThread));
    changed += plain == processed_there ? 0 : 1;

    std::vector<float> logits(static_cast<std::size_t>(rows * call.target.vocab));
    std::vector<RowStatus> row_statuses(static_cast<std::size_t>(rows));
    error = process_logits({request.target.logits, processing, request.target.allowed, {}},
                           {{logits.data(), rows, call.target.vocab}, {row_statuses.data(), rows}},
                           kOneThread);
    ASSERT_FALSE(error) << error.message;
    unprocessed.target.logits = {logits.data(), DType::float32, rows, call.target.vocab,
                                 call.target.vocab};
    unprocessed.target.allowed = {};
    SpeculationOutputs processed_before(call, call.max_draft);
    ASSERT_FALSE(accept_chain(unprocessed,
                              speculation_result_in<AcceptChainResult>(processed_before, arrays),
                              kOneThread));
    for (std::size_t b = 0; b < processed_there.statuses.size(); ++b) {
      // A row whose processing fails is all -inf in the other call, so that it has another status
      // there.
      const RowStatus there = processed_there.statuses[b], before = processed_before.statuses[b];
      const bool failed_row = before == RowStatus::no_allowed_token;
      if (failed_row) {
        ASSERT_NE(there, RowStatus::ok) << "call " << number << ", request " << b;
        continue;
      }
      ASSERT_EQ(there, before) << "call " << number << ", request " << b;
      for (std::int64_t i = 0; i <= call.max_draft; ++i) {
        const auto at =
            b * static_cast<std::size_t>(call.max_draft + 1) + static_cast<std::size_t>(i);
        ASSERT_EQ(processed_there.tokens[at], processed_before.tokens[at])
            << "call " << number << ", request " << b;
      }
    }
  }
  EXPECT_GT(changed, static_cast<std::int64_t>(calls_in_a_test()) / 40);
}

// Engines use the names verify_chain and verify_tree.
TEST(SpeculationAliases, GiveTheResultsOfTheFunctionsThatTheyName) {
  HostArrays arrays;
  for (std::uint64_t number = 0; number < 30; ++number) {
    const SpeculationCall chains = random_speculation_call(number, 33);
    SpeculationOutputs chain(chains, chains.max_draft);
    const VerifyChainRequest chain_request = chain_in(chains, arrays);
    ASSERT_FALSE(verify_chain(chain_request,
                              speculation_result_in<VerifyChainResult>(chain, arrays), kOneThread));
    SpeculationOutputs expected = expected_chain_outputs(chains);
    expected.nodes = chain.nodes;  // chains have no nodes
    ASSERT_EQ(difference(expected, chain), "") << "call " << number;

    const SpeculationCall trees = random_speculation_call(number, 33, true);
    SpeculationOutputs tree(trees, trees.max_depth);
    const VerifyTreeRequest tree_request = tree_in(trees, arrays);
    ASSERT_FALSE(verify_tree(tree_request, speculation_result_in<VerifyTreeResult>(tree, arrays),
                             kOneThread));
    ASSERT_EQ(difference(expected_tree_outputs(trees), tree), "") << "call " << number;
  }
}

TEST(AcceptTree, SgLangsLinksBecomeParents) {
  // Root 0 has the children 1 and 2; node 1 has the children 3 and 4, and node 3 has the child 5.
  // The second request has invalid links.
  const std::vector<std::int32_t> child = {1, 3, -1, 5, -1, -1, /**/ 1, 1, 9, -1, -1, -1};
  const std::vector<std::int32_t> sibling = {-1, 2, -1, 4, -1, -1, /**/ -1, 2, -1, 4, -1, -1};
  std::vector<std::int32_t> parents(10, -77);
  ASSERT_FALSE(
      parents_from_links({child.data(), 12}, {sibling.data(), 12}, 2, 6, {parents.data(), 10}));
  EXPECT_EQ(std::vector<std::int32_t>(parents.begin(), parents.begin() + 5),
            (std::vector<std::int32_t>{-1, -1, 0, 0, 2}));
  // Node 1 links to itself, and node 2 out of the tree; no link reaches node 3, and only node 3
  // links to node 4.
  EXPECT_LT(parents[5], -1);
  EXPECT_LT(parents[6], -1);
  EXPECT_LT(parents[7], -1);
  const Error error =
      parents_from_links({child.data(), 12}, {sibling.data(), 11}, 2, 6, {parents.data(), 10});
  EXPECT_NE(error.message.find("next_sibling"), std::string::npos);
}

// An error names the field, its value and the allowed range, and nothing is written.
TEST(SpeculationArguments, ErrorsNameTheField) {
  HostArrays arrays;
  SpeculationCall call;
  for (std::uint64_t number = 2;; number += 3) {  // searches for a call with draft logits, padded
                                                  // rows and drafted tokens
    call = random_speculation_call(number, 5);
    if (call.row_begins.empty() && call.max_draft > 0 && !call.draft_lengths.empty()) break;
  }
  const SpeculationOutputs untouched(call, call.max_draft);
  SpeculationOutputs outputs = untouched;
  struct Case {
    const char* name;
    std::function<void(AcceptChainRequest&, AcceptChainResult&)> set;
  };
  using Request = AcceptChainRequest&;
  using Result = AcceptChainResult&;
  const std::vector<Case> cases = {
      {"max_draft", [](Request r, Result) { r.max_draft = -1; }},
      {"batch", [](Request r, Result) { r.target.batch = -1; }},
      {"target.logits", [](Request r, Result) { r.target.logits.rows -= 1; }},
      {"target.logits.vocab", [](Request r, Result) { r.target.logits.vocab = 0; }},
      {"target.filters.top_k", [](Request r, Result) { r.target.filters.top_k.values.size += 1; }},
      {"target.filters.tie_rule",
       [](Request r, Result) { r.target.filters.tie_rule = static_cast<TieRule>(2); }},
      {"target.row_begins",
       [](Request r, Result) {
         static const std::int64_t begin = 0;
         r.target.row_begins = {&begin, 1};
       }},
      {"target.seed", [](Request r, Result) { r.target.seed = {r.target.seed.values.data, 99}; }},
      {"draft_tokens", [](Request r, Result) { r.draft_tokens.size += 1; }},
      {"draft_tokens", [](Request r, Result) { r.draft_tokens.data = nullptr; }},
      {"draft_lengths", [](Request r, Result) { r.draft_lengths.size += 1; }},
      {"draft_law", [](Request r, Result) { r.draft_law = static_cast<DraftLaw>(3); }},
      {"draft", [](Request r, Result) { r.draft.rows -= 1; }},
      {"draft.vocab", [](Request r, Result) { r.draft.vocab -= 1; }},
      {"accept_rule", [](Request r, Result) { r.accept_rule = static_cast<AcceptRule>(2); }},
      {"accept_rule",
       [](Request r, Result) {
         static const AcceptRule rule = AcceptRule::block;
         r.accept_rule = {&rule, 99};
       }},
      {"draft_filters.min_p", [](Request r, Result) { r.draft_filters.min_p.values.size += 1; }},
      {"tokens", [](Request, Result r) { r.tokens.size -= 1; }},
      {"tokens", [](Request, Result r) { r.tokens.data = nullptr; }},
      {"accepted", [](Request, Result r) { r.accepted.size += 1; }},
      {"statuses", [](Request, Result r) { r.statuses.size += 1; }}};
  static const std::uint64_t seed = 0;
  for (const Case& bad : cases) {
    AcceptChainRequest request = chain_in(call, arrays);
    if (!request.target.seed.is_array()) request.target.seed = {&seed, call.batch};
    AcceptChainResult result = speculation_result_in<AcceptChainResult>(outputs, arrays);
    bad.set(request, result);
    const Error error = accept_chain(request, result);
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << bad.name;
    EXPECT_NE(error.message.find(bad.name), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("allowed: "), std::string::npos) << error.message;
  }
  // The draft has logits that are parallel to the target's rows.
  SpeculationCall tree_call;
  for (std::uint64_t number = 2;; number += 3) {
    tree_call = random_speculation_call(number, 5, true);
    if (tree_call.row_begins.empty() && tree_call.max_draft > 0) break;
  }
  struct TreeCase {
    const char* name;
    std::function<void(AcceptTreeRequest&)> set;
  };
  using Tree = AcceptTreeRequest&;
  const std::vector<TreeCase> tree_cases = {
      {"parents", [](Tree r) { r.parents.size -= 1; }},
      {"max_depth", [](Tree r) { r.max_depth = -1; }},
      {"draft_law", [](Tree r) { r.draft_law = static_cast<DraftLaw>(3); }},
      {"siblings", [](Tree r) { r.siblings = static_cast<SiblingSampling>(2); }},
      {"draft", [](Tree r) { r.draft.rows -= 1; }},
      {"draft.vocab", [](Tree r) { r.draft.vocab -= 1; }},
      {"draft_filters.top_p", [](Tree r) { r.draft_filters.top_p.values.size += 1; }}};
  SpeculationOutputs tree_outputs(tree_call, tree_call.max_depth);
  const SpeculationOutputs untouched_tree = tree_outputs;
  for (const TreeCase& bad : tree_cases) {
    AcceptTreeRequest request = tree_in(tree_call, arrays);
    bad.set(request);
    const Error error =
        accept_tree(request, speculation_result_in<AcceptTreeResult>(tree_outputs, arrays));
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << bad.name;
    EXPECT_NE(error.message.find(bad.name), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("allowed: "), std::string::npos) << error.message;
  }
  EXPECT_EQ(tree_outputs, untouched_tree);
  EXPECT_EQ(outputs, untouched);
}

}  // namespace
}  // namespace fairdraw::suites
