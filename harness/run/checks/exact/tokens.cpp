// Judges tokens one by one, by the integer model and by the support of their rows.
#include <fmt/format.h>

#include <algorithm>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/evidence/mask_suspects.h"
#include "harness/run/evidence/pictures.h"
#include "harness/run/evidence/token_suspects.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

// Returns a request of `draws` draws per row of some rows, as far as the sampler's abilities allow.
// With `indices` every second draw takes the rows in reverse order, so that outputs and rows have
// different numbers.
Request with_draws(Request request, std::int64_t draws, const SamplerDescription& sampler) {
  if (draws <= 1) return request;
  if (sampler.indices) {
    request.with_indices = true;
    request.indices.clear();
    const std::vector<std::uint64_t> row_seed = std::move(request.seed);
    request.seed.clear();
    request.offset.clear();
    for (std::int64_t draw = 0; draw < draws; ++draw) {
      for (std::int64_t i = 0; i < request.rows; ++i) {
        const std::int64_t row = draw % 2 == 0 ? i : request.rows - 1 - i;
        request.indices.push_back(static_cast<std::int32_t>(row));
        request.seed.push_back(row_seed[static_cast<std::size_t>(row)]);
        request.offset.push_back(static_cast<std::uint64_t>(draw) * 0x100000001ULL);
      }
    }
  } else if (sampler.num_samples) {
    request.num_samples = static_cast<std::int32_t>(draws);
  }
  return request;
}

std::int64_t draws_per_row(const CheckInput& input) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(input.draws) / input.rows);
}

std::int64_t rows_per_chunk(const CheckInput& input) {
  return std::max<std::int64_t>(1, (std::int64_t{1} << 20) / input.logits->vocab());
}

std::string at(const Request& request, std::int64_t first, std::int64_t row, std::int64_t output) {
  const auto seed_at = static_cast<std::size_t>(request.seed_is_scalar ? 0 : output);
  return fmt::format("row {} ({}), seed {}, offset {}", first + row,
                     describe(request.parameters[static_cast<std::size_t>(row)]),
                     request.seed[seed_at], request.offset[seed_at]);
}

using Models = std::vector<reference::IntegerRow>;

Models models_of(const Request& request) {
  Models models;
  for (std::int64_t row = 0; row < request.rows; ++row) models.push_back(model_of(request, row));
  return models;
}

void suspect_status(CheckOutcome& outcome) {
  outcome.evidence.suspects.push_back(
      {"bad values", "the status contradicts the token: only rows with status ok have a token"});
}

// Compares tokens with the integer models; `models[row % size]` is the model of row `row`.
void compare_tokens(const CheckInput& input, const Request& request, const Response& response,
                    const Models& models, std::int64_t first, CheckOutcome& outcome) {
  for (std::int64_t output = 0; output < request.outputs(); ++output) {
    const std::int64_t row = request.row_of(output);
    for (std::int32_t sample = 0; sample < request.num_samples; ++sample) {
      const ExpectedToken expected = expected_token(
          request, models[static_cast<std::size_t>(row) % models.size()], output, sample);
      const auto i = static_cast<std::size_t>(output * request.num_samples + sample);
      ++outcome.draws;
      if (response.tokens[i] != expected.token) {
        outcome.fail(fmt::format("{}: token {}, the integer model says {}",
                                 at(request, first, row, output), response.tokens[i],
                                 expected.token));
        if (expected.token < 0 || response.tokens[i] == -1) suspect_status(outcome);
        note_wrong_draw(input, request, response, models, first, output, sample, outcome);
        return;
      }
      if (response.statuses.empty()) continue;
      const std::int32_t status = response.statuses[static_cast<std::size_t>(output)];
      if (status != static_cast<std::int32_t>(expected.status)) {
        outcome.fail(fmt::format("{}: status {}, expected {}", at(request, first, row, output),
                                 status, to_string(expected.status)));
        suspect_status(outcome);
        return;
      }
    }
  }
}

void run_and_compare(const CheckInput& input, const Request& request, const Models& models,
                     std::int64_t first, CheckOutcome& outcome) {
  const SamplerDescription& sampler = input.sampler->description();
  if (outcome.failed() || is_left_out(input, request, outcome)) return;
  const Response response =
      run_request(*input.sampler, request, reported(sampler, request, {.statuses = true}));
  if (response.ran()) {
    compare_tokens(input, request, response, models, first, outcome);
  } else {
    outcome.fail(response.trouble());
  }
}

// Returns the request with one seed for the whole call, so that draws differ only by their number
// in the call.
Request with_one_seed(Request request) {
  request.seed_is_scalar = true;
  request.seed.resize(1);
  request.offset.resize(1);
  return request;
}

// Returns the request with `outputs` outputs of its rows, in an order that mixes the rows.
Request through_indices(Request request, std::int64_t outputs, std::uint64_t seed) {
  request.with_indices = true;
  request.indices.clear();
  request.seed.clear();
  request.offset.clear();
  for (std::int64_t i = 0; i < outputs; ++i) {
    request.indices.push_back(static_cast<std::int32_t>((i * 3 + 1) % request.rows));
    request.seed.push_back(mixed(seed, static_cast<std::uint64_t>(i)));
    request.offset.push_back(0);
  }
  return request;
}

// Judges the number that a draw has within its call, in every form of a call with many draws, and
// seeds that might be special.
void compare_numbers(const CheckInput& input, const Request& rows, const Models& models,
                     std::int64_t first, CheckOutcome& outcome) {
  const auto compare = [&](const Request& request) {
    run_and_compare(input, request, models, first, outcome);
  };
  Request samples = rows;
  samples.num_samples = 5;
  compare(samples);
  compare(with_one_seed(rows));
  compare(with_one_seed(samples));
  samples = through_indices(samples, rows.rows + 3, input.seed);
  compare(samples);
  compare(with_one_seed(samples));
  Request special = rows;
  const std::uint64_t seeds[] = {0, ~std::uint64_t{0}, 0xffffffff, 0x80000000,
                                 std::uint64_t{1} << 63};
  for (std::size_t i = 0; i < special.seed.size(); ++i) {
    special.seed[i] = seeds[i % std::size(seeds)];
    special.offset[i] = seeds[i / std::size(seeds) % std::size(seeds)];
  }
  compare(special);

  // The numbers of rows, outputs and samples exceed 16 bits, for narrow rows only.
  constexpr std::int64_t kVocab = 2, kMany = 70'000;
  if (rows.vocab > kVocab) return;
  samples = rows;
  samples.num_samples = static_cast<std::int32_t>(1 + kMany / rows.rows);
  compare(with_one_seed(samples));
  compare(with_one_seed(through_indices(rows, kMany, input.seed)));
  samples.num_samples = kMany;
  samples = through_indices(samples, 2, input.seed);
  compare(samples);
  Request many = rows;
  while (many.rows < kMany) {
    many.rows += rows.rows;
    many.logits.insert(many.logits.end(), rows.logits.begin(), rows.logits.end());
    many.parameters.insert(many.parameters.end(), rows.parameters.begin(), rows.parameters.end());
    many.allowed.insert(many.allowed.end(), rows.allowed.begin(), rows.allowed.end());
  }
  compare(with_one_seed(many));
}

// Returns the reason why no sampler may give this token as a sample of this output, or null if it
// may.
const char* fault_of(const Request& request, const Response& response,
                     const reference::RealDistribution& distribution, std::int64_t output,
                     std::int32_t token) {
  const bool in_range = token >= 0 && token < request.vocab;
  const std::int64_t row = request.row_of(output);
  const bool active = request.is_active(row);
  if (distribution.must_fail || !active) {
    if (token != -1) return active ? "for a row that must fail" : "for an inactive row";
  } else if (!in_range) {
    return "outside of the vocabulary";
  } else if (distribution.membership[static_cast<std::size_t>(token)] == Membership::out) {
    return "outside of the support";
  }
  const bool judged = !response.statuses.empty();
  const bool ok = judged && response.statuses[static_cast<std::size_t>(output)] == 0;
  return judged && ok != in_range ? "against its status" : nullptr;
}

// Judges tokens by the support of their rows; `distributions[row % size]` is the distribution of
// row `row`.
void expect_in_support(const CheckInput& input, const Request& request,
                       const std::vector<reference::RealDistribution>& distributions,
                       const std::string& how, std::int64_t first, CheckOutcome& outcome) {
  const SamplerDescription& sampler = input.sampler->description();
  if (outcome.failed() || is_left_out(input, request, outcome)) return;
  const Response response =
      run_request(*input.sampler, request, reported(sampler, request, {.statuses = true}));
  if (!response.ran()) {
    outcome.fail(how + response.trouble());
    return;
  }
  for (std::int64_t output = 0; output < request.outputs(); ++output) {
    const std::int64_t row = request.row_of(output);
    const reference::RealDistribution& distribution =
        distributions[static_cast<std::size_t>(row) % distributions.size()];
    if (!distribution.defined) continue;
    for (std::int32_t sample = 0; sample < request.num_samples; ++sample) {
      const auto i = static_cast<std::size_t>(output * request.num_samples + sample);
      ++outcome.draws;
      const char* const what =
          fault_of(request, response, distribution, output, response.tokens[i]);
      if (what == nullptr) continue;
      outcome.fail(fmt::format("{}{}: token {} {}", how, at(request, first, row, output),
                               response.tokens[i], what));
      if (response.tokens[i] == -1) suspect_status(outcome);
      outcome.evidence.observed = fmt::format("token {} {}", response.tokens[i], what);
      outcome.evidence.expected = "a token of the support, or -1 if the row must fail";
      if (response.tokens[i] >= 0 && response.tokens[i] < request.vocab) {
        outcome.evidence.boundary =
            boundary_around(request, distribution, row, static_cast<std::uint64_t>(first + row),
                            response.tokens[i], {});
        for (BoundaryToken& entry : outcome.evidence.boundary->tokens) {
          if (entry.token == static_cast<std::uint64_t>(response.tokens[i])) entry.drawn = 1;
        }
        note_own_mask(input, request, row, *outcome.evidence.boundary);
        note_ban(request, row, response.tokens[i], "drawn", outcome);
      }
      return;
    }
  }
}

// Judges the same rows in other memory layouts and batches, by their support. Relations between
// calls would detect more mistakes, but need draws that can be repeated.
void compare_layouts(const CheckInput& input, const Request& rows,
                     const std::vector<reference::RealDistribution>& distributions,
                     std::int64_t first, CheckOutcome& outcome) {
  const auto expect = [&](const char* how, const Request& request) {
    expect_in_support(input, request, distributions, how, first, outcome);
  };
  Request request = rows;
  request.row_stride = rows.vocab + 5;
  request.gap = 2;
  expect("rows with gaps between them: ", request);
  request.misalignment = rows.dtype == DType::float32 ? 4 : 2;
  expect("misaligned rows: ", request);
  request = rows;
  for (std::int64_t i = 0; i < rows.rows; ++i) request.active.push_back(i % 2 == 0 ? 1 : 0);
  expect("padding between rows: ", request);
  request = rows;
  request.num_samples = 3;
  expect("three samples: ", request);
  request = rows;
  constexpr std::int64_t kMany = 80;
  while (request.rows < kMany) {
    request.rows += rows.rows;
    request.logits.insert(request.logits.end(), rows.logits.begin(), rows.logits.end());
    request.parameters.insert(request.parameters.end(), rows.parameters.begin(),
                              rows.parameters.end());
    request.allowed.insert(request.allowed.end(), rows.allowed.begin(), rows.allowed.end());
  }
  for (auto i = static_cast<std::uint64_t>(rows.rows);
       request.seed.size() < static_cast<std::size_t>(request.rows); ++i) {
    request.seed.push_back(mixed(input.seed, i));
    request.offset.push_back(0);
  }
  expect("many rows: ", request);
}

}  // namespace

CheckOutcome check_tokens(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!input.exact()) return skipped(lack_of("exact_integer"));
  CheckOutcome outcome;
  const std::int64_t chunk = rows_per_chunk(input);
  std::int64_t number = 0;
  for (std::int64_t first = 0; first < input.rows && !outcome.failed(); first += chunk, ++number) {
    const Request rows = make_request(input, first, std::min(chunk, input.rows - first));
    Request request = with_draws(rows, draws_per_row(input), sampler);
    if (number % 4 == 3) request = with_one_seed(std::move(request));
    if (const Lack lacks = lack_for(sampler, request); !lacks.empty()) {
      return skipped(lacks);
    }
    const Models models = models_of(request);
    run_and_compare(input, request, models, first, outcome);
    if (number == 0) compare_numbers(input, rows, models, first, outcome);
    outcome.rows += static_cast<std::uint64_t>(request.rows);
  }
  if (!outcome.failed()) {
    outcome.message = fmt::format("{} tokens of {} rows agree", outcome.draws, outcome.rows);
  }
  return outcome;
}

CheckOutcome check_support(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  CheckOutcome outcome;
  const std::int64_t chunk = rows_per_chunk(input);
  for (std::int64_t first = 0; first < input.rows && !outcome.failed(); first += chunk) {
    const Request rows = make_request(input, first, std::min(chunk, input.rows - first));
    const Request request = with_draws(rows, draws_per_row(input), sampler);
    if (const Lack lacks = lack_for(sampler, request); !lacks.empty()) {
      return skipped(lacks);
    }
    std::vector<reference::RealDistribution> distributions;
    for (std::int64_t row = 0; row < rows.rows; ++row)
      distributions.push_back(distribution_of(input, rows, row));
    expect_in_support(input, request, distributions, "", first, outcome);
    // If the sampler has neither outputs nor samples per row, the test makes more calls.
    Request again = rows;
    const bool one_each = !sampler.indices && !sampler.num_samples;
    for (std::int64_t call = 1; one_each && call < draws_per_row(input); ++call) {
      for (std::uint64_t& offset : again.offset) ++offset;
      expect_in_support(input, again, distributions, "", first, outcome);
    }
    if (first == 0) compare_layouts(input, rows, distributions, first, outcome);
    outcome.rows += static_cast<std::uint64_t>(rows.rows);
  }
  expect_refusals(input, outcome);
  if (outcome.draws == 0 && !outcome.failed()) {
    return skipped("semantics " + input.semantics.name + " defines none of these rows");
  }
  if (!outcome.failed()) {
    outcome.message =
        fmt::format("{} tokens of {} rows are in the support", outcome.draws, outcome.rows);
  }
  return outcome;
}

}  // namespace fairdraw::harness
