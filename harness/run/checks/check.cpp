#include "harness/run/checks/check.h"

#include <fmt/format.h>

#include <iterator>
#include <random>

#include "harness/inputs/processing_rows.h"
#include "harness/run/calls/kept_answers.h"
#include "harness/run/calls/marks.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/calls/row_probabilities.h"
#include "reference/float32_bound.h"
#include "reference/probability_filters.h"

namespace fairdraw::harness {

bool CheckInput::exact() const {
  return sampler->description().exact_integer && semantics.name == "fairdraw";
}

CheckOutcome skipped(std::string reason) {
  CheckOutcome outcome;
  outcome.verdict = Verdict::skipped;
  outcome.message = std::move(reason);
  return outcome;
}

CheckOutcome skipped(const Lack& lack) {
  CheckOutcome outcome = skipped(lack.reason);
  outcome.leave_out(lack);
  return outcome;
}

CheckOutcome underpowered(std::string reason) {
  CheckOutcome outcome;
  outcome.verdict = Verdict::underpowered;
  outcome.message = std::move(reason);
  return outcome;
}

bool is_left_out(const CheckInput& input, const Request& request, CheckOutcome& outcome) {
  const Lack lack = lack_for(input.sampler->description(), request);
  outcome.leave_out(lack);
  return !lack.empty();
}

namespace {

// Returns packed bits that allow about half of the ids, chosen anew for each row.
std::vector<std::uint32_t> allowed_ids(const CheckInput& input, std::int64_t row) {
  std::vector<std::uint32_t> words;
  const std::int64_t size = words_for(input.logits->vocab());
  for (std::int64_t word = 0; word < size; ++word) {
    const auto index = static_cast<std::uint64_t>(row * size + word);
    words.push_back(static_cast<std::uint32_t>(mixed(~input.seed, index)));
  }
  return words;
}

}  // namespace

reference::RowProcessing processing_for_row(std::uint64_t seed, std::int64_t row,
                                            std::int64_t vocab) {
  ProcessingSteps steps;
  bool* const members[] = {&steps.penalties, &steps.bias, &steps.min_tokens, &steps.bad_words,
                           &steps.allowed_ids};
  if (row % 2 != 0) *members[static_cast<std::size_t>(row / 2) % std::size(members)] = false;
  std::mt19937_64 random(mixed(seed + 5, static_cast<std::uint64_t>(row)));
  return random_processing(random, vocab, steps);
}

reference::RowProcessing processing_for_distribution(std::int64_t vocab) {
  const auto id = [vocab](std::int64_t any) { return static_cast<std::int32_t>(any % vocab); };
  reference::RowProcessing row;
  row.repetition_penalty = 1.5F;
  row.frequency_penalty = 0.5F;
  row.presence_penalty = -0.75F;  // a negative penalty, which raises tokens that have occurred
  row.prompt = {id(1), id(4)};
  row.output = {id(2), id(2), -1, id(1)};
  row.output_length = static_cast<std::int32_t>(row.output.size());
  row.biases = {{id(2), 0.5F}, {id(vocab - 1), -0.5F}};
  row.stop_ids = {id(3)};
  row.min_tokens = row.output_length + 2;  // stop ids are banned for exactly two more tokens
  row.bad_words = {id(2), id(2), id(5), id(6), id(1), id(5)};
  row.bad_word_lengths = {2, 2, 2};
  return row;
}

Request make_request(const CheckInput& input, std::int64_t first, std::int64_t count) {
  Request request;
  request.input = input.row_input;
  request.dtype = input.logits->dtype();
  request.rows = count;
  request.vocab = input.logits->vocab();
  request.tie_rule = input.tie_rule;
  request.filter_order = input.filter_order;
  const auto vocab = static_cast<std::size_t>(request.vocab);
  request.logits.resize(static_cast<std::size_t>(count) * vocab);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = first + i;
    const auto values =
        std::span(request.logits).subspan(static_cast<std::size_t>(i) * vocab, vocab);
    input.logits->fill(input.first_row + row, values);
    request.parameters.push_back(
        input.parameters[static_cast<std::size_t>(row) % input.parameters.size()]);
    request.seed.push_back(mixed(input.seed, static_cast<std::uint64_t>(row)));
    request.offset.push_back(0);
    if (!input.processing.empty()) {
      request.processing.push_back(
          input.processing[static_cast<std::size_t>(row) % input.processing.size()]);
    }
    std::vector<std::uint32_t> allowed;
    if (input.banned_tokens) allowed = allowed_ids(input, row);
    if (input.row_input == RowInput::logits) {
      request.allowed.insert(request.allowed.end(), allowed.begin(), allowed.end());
      continue;
    }
    to_probabilities(values, request.parameters.back().temperature, request.dtype);
    // Probabilities may have any scale, so rows of this check sum to about 1/32, 1 or 8.
    constexpr float kScales[] = {0x1p-5F, 1, 8};
    const float scale = kScales[static_cast<std::size_t>(input.first_row + row) % 3];
    for (float& value : values) value = rounded_to(request.dtype, value * scale);
    for (std::size_t id = 0; !allowed.empty() && id < vocab; ++id) {
      if (((allowed[id / 32] >> (id % 32)) & 1U) == 0) values[id] = 0;
    }
  }
  if (input.marked) mark_rows(*input.marked, mixed(input.seed, ~std::uint64_t{0}), request);
  return request;
}

reference::Semantics effective_semantics(const CheckInput& input) {
  reference::Semantics semantics = input.semantics;
  if (input.tie_rule == TieRule::lowest_id) semantics.top_k_ties = reference::TopKTies::lowest_id;
  if (input.filter_order == FilterOrder::joint) semantics.top_p_base = reference::TopPBase::joint;
  return semantics;
}

namespace {

std::span<const std::uint32_t> allowed_of(const Request& request, std::int64_t row) {
  if (request.allowed.empty()) return {};
  const auto words = static_cast<std::size_t>(words_for(request.vocab));
  return std::span(request.allowed).subspan(static_cast<std::size_t>(row) * words, words);
}

}  // namespace

reference::IntegerRow model_of(const Request& request, std::int64_t row) {
  const std::span values(request.row(row), static_cast<std::size_t>(request.vocab));
  const reference::RowParameters& parameters = request.parameters[static_cast<std::size_t>(row)];
  if (request.input == RowInput::probabilities) {
    return model_of_probs(values, parameters, request.filter_order);
  }
  if (!request.processing.empty()) {
    return reference::integer_model(values, allowed_of(request, row),
                                    request.processing[static_cast<std::size_t>(row)], parameters,
                                    request.tie_rule, request.filter_order);
  }
  return model_of_logits(values, allowed_of(request, row), parameters, request.tie_rule,
                         request.filter_order);
}

reference::ProcessedRow processed_row(const Request& request, std::int64_t row,
                                      const reference::FilterBound* other) {
  return reference::process_row(
      std::span(request.row(row), static_cast<std::size_t>(request.vocab)),
      allowed_of(request, row), request.processing[static_cast<std::size_t>(row)], other);
}

reference::RowParameters parameters_now(const Request& request, std::int64_t row) {
  const auto at = static_cast<std::size_t>(row);
  reference::RowParameters parameters = request.parameters[at];
  if (!request.processing.empty()) {
    const reference::RowProcessing& processing = request.processing[at];
    parameters.top_p = reference::decayed_top_p(processing, parameters.top_p);
    if (processing.dynatemp_range != 0) {
      parameters.temperature = reference::dynamic_temperature(processed_row(request, row).logits,
                                                              processing, parameters.temperature);
    }
  }
  return parameters;
}

reference::RealDistribution distribution_of(const CheckInput& input, const Request& request,
                                            std::int64_t row) {
  return distribution_under(effective_semantics(input), input, request, row);
}

reference::WeightBound weight_bound(const CheckInput& input) {
  if (input.sampler->description().exact_integer) return {};
  reference::WeightBound bound = reference::kFloat32Weights;
  const double stated = input.semantics.relative_weight_error;
  bound.constant =
      reference::WeightBound{}.constant + (stated == 0 ? reference::weight_error({}) : stated);
  return bound;
}

JudgedBy judged_by(const reference::Semantics& profile, bool exact_integer, std::int64_t vocab) {
  if (exact_integer) return {profile, {}};
  JudgedBy by = {profile, reference::kFloat32Weights};
  if (profile.relative_weight_error == 0) {
    // The profile allows no rounding error, because fairdraw's own arithmetic has none. But another
    // sampler with the same profile may use float32 with pairwise sums, or integer weights.
    const std::size_t additions = reference::tree_additions(static_cast<std::size_t>(vocab));
    by.semantics = reference::in_float32(profile, {.additions = additions});
    by.bound.constant = reference::WeightBound{}.constant;
  }
  return by;
}

namespace {

reference::RealDistribution oracles_answer(const reference::Semantics& profile,
                                           const CheckInput& input, const Request& request,
                                           std::int64_t row) {
  if (request.input == RowInput::probabilities) {
    return reference::real_oracle_from_probs(
        std::span(request.row(row), static_cast<std::size_t>(request.vocab)),
        request.parameters[static_cast<std::size_t>(row)], profile,
        input.sampler->description().exact_integer);
  }
  const auto [semantics, bound] =
      judged_by(profile, input.sampler->description().exact_integer, request.vocab);
  const reference::RowParameters& parameters = request.parameters[static_cast<std::size_t>(row)];
  if (!request.processing.empty()) {
    const reference::ProcessedRow processed = processed_row(request, row);
    const bool has_bad_logits =
        processed.status == RowStatus::nan_input || processed.status == RowStatus::infinite_input;
    if (!has_bad_logits) {  // rows with bad logits are judged below
      reference::RealDistribution distribution = reference::real_oracle(
          processed.logits, {}, parameters_now(request, row), semantics, bound);
      distribution.must_fail =
          distribution.must_fail ||
          (processed.status != RowStatus::ok && processed.status != RowStatus::no_allowed_token);
      return distribution;
    }
  }
  const std::span values(request.row(row), static_cast<std::size_t>(request.vocab));
  const std::span allowed = allowed_of(request, row);
  return kept_answer(
      "real_oracle",
      [&] { return reference::real_oracle(values, allowed, parameters, semantics, bound); }, values,
      allowed, parameters, semantics, bound);
}

}  // namespace

reference::RealDistribution distribution_under(const reference::Semantics& profile,
                                               const CheckInput& input, const Request& request,
                                               std::int64_t row) {
  reference::RealDistribution distribution = oracles_answer(profile, input, request, row);
  if (input.sampler->description().bad_rows || !distribution.must_fail) return distribution;
  // The sampler's caller refuses such a row, so the sampler itself may return anything for it.
  const std::size_t vocab = distribution.probability.size();
  distribution = {};
  distribution.defined = false;
  distribution.membership.assign(vocab, reference::Membership::out);
  distribution.probability.assign(vocab, 0.0);
  return distribution;
}

bool must_fail(const reference::RowParameters& parameters, const reference::Semantics& semantics,
               RowInput row_input, std::int64_t vocab) {
  // A row whose values are all equal is valid.
  const auto size = static_cast<std::size_t>(vocab);
  if (row_input == RowInput::probabilities) {
    const std::vector<float> probs(size, 1 / static_cast<float>(vocab));
    return reference::real_oracle_from_probs(probs, parameters, semantics).must_fail;
  }
  const std::vector<float> logits(size, 0.0F);
  return reference::real_oracle(logits, {}, parameters, semantics).must_fail;
}

bool may_refuse(const CheckInput& input, const Request& request) {
  const SamplerDescription& sampler = input.sampler->description();
  if (sampler.reports_status && sampler.bad_rows) return false;
  for (std::int64_t row = 0; row < request.rows; ++row) {
    const reference::RealDistribution distribution = distribution_of(input, request, row);
    if (!distribution.defined || distribution.must_fail) return true;
  }
  return false;
}

void expect_refusals(const CheckInput& input, CheckOutcome& outcome) {
  if (!input.refused.empty() && !input.sampler->description().bad_rows) {
    outcome.leave_out(lack_of("bad_rows"));
    return;
  }
  for (const reference::RowParameters& parameters : input.refused) {
    CheckInput alone = input;
    alone.parameters = {parameters};
    const Request request = make_request(alone, 0, 1);
    if (outcome.failed() || is_left_out(input, request, outcome)) return;
    const Response response = run_request(*input.sampler, request, {});
    ++outcome.measures["refused"];
    if (!response.damage.empty()) outcome.fail(response.damage);
    if (!response.ran() || response.tokens.front() == -1) continue;
    outcome.fail(fmt::format("row 0 ({}): token {} for a row that must fail under {}",
                             describe(parameters), response.tokens.front(), input.semantics.name));
  }
}

ExpectedToken expected_token(const Request& request, const reference::IntegerRow& model,
                             std::int64_t output, std::int32_t sample) {
  const std::int64_t row = request.row_of(output);
  if (row < 0 || row >= request.rows) return {-1, RowStatus::index_out_of_range};
  if (!request.active.empty() && request.active[static_cast<std::size_t>(row)] == 0) {
    return {-1, RowStatus::inactive};
  }
  if (model.status != RowStatus::ok) return {-1, model.status};
  if (!request.words.empty()) {
    const auto at = static_cast<std::size_t>(output * request.num_samples + sample);
    return {model.token_for(request.words[at]), RowStatus::ok};
  }
  const auto at = static_cast<std::size_t>(request.seed_is_scalar ? 0 : output);
  const std::int64_t index =
      request.seed_is_scalar ? output * request.num_samples + sample : sample;
  const auto word = [&](std::uint32_t attempt) {
    return random_word(request.seed[at], request.offset[at], Purpose::draw,
                       static_cast<std::uint32_t>(index), attempt);
  };
  return {model.token_by_attempts(word), RowStatus::ok};
}

std::string describe(const reference::RowParameters& parameters) {
  return fmt::format("temperature {}, top_k {}, top_p {}, min_p {}", parameters.temperature,
                     parameters.top_k, parameters.top_p, parameters.min_p);
}

}  // namespace fairdraw::harness
