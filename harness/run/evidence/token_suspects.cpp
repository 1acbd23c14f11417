#include "harness/run/evidence/token_suspects.h"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>

#include "harness/run/calls/conditions.h"
#include "harness/run/checks/exact/replay_relations.h"
#include "harness/run/evidence/mask_suspects.h"
#include "harness/run/evidence/parameter_suspects.h"
#include "harness/run/evidence/pictures.h"

namespace fairdraw::harness {
namespace {

using Models = std::vector<reference::IntegerRow>;

constexpr std::uint64_t kLower = 0xffffffff;

// A mistake, and the token that a sampler with this mistake draws.
struct Mistake {
  const char* bug;
  const char* what;
  std::function<std::int32_t(std::int64_t, std::int32_t)> token;
};

std::vector<Mistake> mistakes_of(const Request& request, const Models& models) {
  const auto& model_of_row = [&models](std::int64_t row) -> const reference::IntegerRow& {
    return models[static_cast<std::size_t>(row) % models.size()];
  };
  // Returns the right tokens of the same call with other seeds and offsets.
  const auto with = [&request, model_of_row](const std::function<void(Request&)>& change) {
    Request other = request;
    other.logits.clear();  // not needed after the models are made
    change(other);
    return [other, model_of_row](std::int64_t output, std::int32_t sample) {
      return expected_token(other, model_of_row(other.row_of(output)), output, sample).token;
    };
  };
  const auto each = [](std::vector<std::uint64_t>& values, auto change) {
    for (std::uint64_t& value : values) value = change(value);
  };
  return {
      {"shared random bits", "every output drew with the seed of the first one",
       with([&each](Request& other) {
         const std::uint64_t first = other.seed.front();
         each(other.seed, [first](std::uint64_t) { return first; });
       })},
      {"shared random bits", "every draw was made at offset 0",
       with([&each](Request& other) { each(other.offset, [](std::uint64_t) { return 0U; }); })},
      {"seeds: 64 bits cut to 32", "the upper half of the seed is lost",
       with([&each](Request& other) {
         each(other.seed, [](std::uint64_t seed) { return seed & kLower; });
       })},
      {"counters: 64 bits cut to 32", "the upper half of the offset is lost",
       with([&each](Request& other) {
         each(other.offset, [](std::uint64_t offset) { return offset & kLower; });
       })},
      {"batches: indices", "seeds were read by the number of the row, not of the output",
       with([](Request& other) {
         const std::vector<std::uint64_t> seeds = other.seed;
         for (std::size_t i = 0; i < other.seed.size() && seeds.size() > 1; ++i) {
           other.seed[i] =
               seeds[static_cast<std::size_t>(other.row_of(static_cast<std::int64_t>(i)))];
         }
       })},
      {"shared random bits", "every sample of an output is its first one",
       [&request, model_of_row](std::int64_t output, std::int32_t) {
         return expected_token(request, model_of_row(request.row_of(output)), output, 0).token;
       }},
      {"batches: indices", "outputs were drawn from the row of their own number",
       [&request, model_of_row](std::int64_t output, std::int32_t sample) {
         return expected_token(request, model_of_row(output % request.rows), output, sample).token;
       }}};
}

// Returns the first mistake that explains every token of the call. At least three wrong tokens are
// needed, because chance may explain one.
std::optional<Suspect> explained(const Request& request, const Response& response,
                                 const Models& models) {
  constexpr std::size_t kWrong = 3;
  for (const Mistake& mistake : mistakes_of(request, models)) {
    std::vector<RowFacts> wrong, right;  // rows with the mistake and rows without it
    bool all = true;
    for (std::int64_t output = 0; output < request.outputs() && all; ++output) {
      const reference::IntegerRow& model =
          models[static_cast<std::size_t>(request.row_of(output)) % models.size()];
      for (std::int32_t sample = 0; sample < request.num_samples && all; ++sample) {
        const std::int32_t token =
            response.tokens[static_cast<std::size_t>(output * request.num_samples + sample)];
        const bool is_right = token == expected_token(request, model, output, sample).token;
        const bool is_mistake = mistake.token(output, sample) == token;
        all = is_right || is_mistake;
        if (is_right == is_mistake) continue;
        (is_right ? right : wrong).push_back(facts_of(request, request.row_of(output)));
      }
    }
    if (all && wrong.size() >= kWrong && (right.empty() || some_condition_tells(wrong, right))) {
      return Suspect{mistake.bug, fmt::format("{}: that gives all {} wrong tokens of the call",
                                              mistake.what, wrong.size())};
    }
  }
  return std::nullopt;
}

// Divides rows into wrong and right ones; a row is wrong if any of its tokens is wrong.
SortedRows sorted_rows(const Request& request, const Response& response, const Models& models) {
  std::vector<int> wrong(static_cast<std::size_t>(request.rows), -1);  // -1: no output
  for (std::int64_t output = 0; output < request.outputs(); ++output) {
    const std::int64_t row = request.row_of(output);
    if (row < 0 || row >= request.rows) continue;
    const reference::IntegerRow& model = models[static_cast<std::size_t>(row) % models.size()];
    int& of_row = wrong[static_cast<std::size_t>(row)];
    of_row = std::max(of_row, 0);
    for (std::int32_t sample = 0; sample < request.num_samples; ++sample) {
      const auto at = static_cast<std::size_t>(output * request.num_samples + sample);
      if (response.tokens[at] != expected_token(request, model, output, sample).token) of_row = 1;
    }
  }
  SortedRows rows;
  for (std::size_t row = 0; row < wrong.size(); ++row) {
    if (wrong[row] < 0) continue;
    // A row with one possible token gives this token for any random numbers.
    if (wrong[row] == 0 && models[row % models.size()].support_size <= 1) continue;
    (wrong[row] == 1 ? rows.wrong : rows.right).push_back(request.parameters[row]);
  }
  return rows;
}

// Returns a request with only the row and the seed of one output.
Request alone(const Request& request, std::int64_t output) {
  const auto place = static_cast<std::size_t>(output);
  Request one = request;
  one.rows = 1;
  one.logits.clear();
  one.parameters.clear();
  one.allowed.clear();
  one.processing.clear();
  append_row(request, request.row_of(output), one);
  one.seed = {request.seed[place]};
  one.offset = {request.offset[place]};
  one.with_indices = false;
  one.indices.clear();
  return one;
}

}  // namespace

void note_no_token(std::int32_t token, std::int64_t vocab, CheckOutcome& outcome) {
  if (token >= -1 && token < vocab) return;
  outcome.evidence.suspects.push_back({"out of support: no token of the vocabulary",
                                       fmt::format("{} is none of {} tokens", token, vocab)});
}

void note_own_mask(const CheckInput& input, const Request& request, std::int64_t row,
                   Boundary& boundary) {
  const WantedResults wanted = reported(input.sampler->description(), request, {.mask = true});
  if (!wanted.mask || !input.sampler->broken().empty()) return;
  const Response response = run_request(*input.sampler, request, wanted);
  if (!response.ran() || response.mask.empty()) return;
  for (BoundaryToken& entry : boundary.tokens) {
    entry.kept = response.kept(row, request.vocab, static_cast<std::int64_t>(entry.token));
  }
}

void note_wrong_draw(const CheckInput& input, const Request& request, const Response& response,
                     const Models& models, std::int64_t first, std::int64_t output,
                     std::int32_t sample, CheckOutcome& outcome) {
  Evidence& evidence = outcome.evidence;
  if (!evidence.observed.empty()) return;
  const std::int64_t row = request.row_of(output);
  if (row < 0 || row >= request.rows) return;
  const reference::IntegerRow& model = models[static_cast<std::size_t>(row) % models.size()];
  const auto i = static_cast<std::size_t>(output * request.num_samples + sample);
  const std::int32_t token = response.tokens[i];
  const std::int32_t expected = expected_token(request, model, output, sample).token;
  evidence.observed = fmt::format("token {}", token);
  evidence.expected = fmt::format("token {}", expected);
  if (token >= 0 && token < request.vocab && model.status == RowStatus::ok) {
    evidence.boundary = boundary_around(request, distribution_of(input, request, row), row,
                                        static_cast<std::uint64_t>(first + row), token, {});
    for (BoundaryToken& entry : evidence.boundary->tokens) {
      if (entry.token == static_cast<std::uint64_t>(token)) entry.drawn = 1;
    }
    note_own_mask(input, request, row, *evidence.boundary);
  }
  if (auto suspect = explained(request, response, models)) {
    evidence.suspects.push_back(*suspect);
  } else if (const SamplerDescription& sampler = input.sampler->description();
             sampler.reports_mask && request.input == RowInput::logits) {
    // A draw from a wrong set of tokens gives a wrong token.
    const Response masks = run_request(*input.sampler, request,
                                       reported(sampler, {.support_size = true, .mask = true}));
    const std::size_t before = evidence.suspects.size();
    if (masks.ran() && note_mask_mistakes(input, request, masks, outcome) &&
        evidence.suspects.size() == before) {
      evidence.suspects.push_back({"mask", "the mask of the same call is wrong too"});
    }
  }
  if (evidence.suspects.empty()) {
    note_common_parameter(sorted_rows(request, response, models), request.vocab, outcome);
    note_no_token(token, request.vocab, outcome);
  }
  if (request.seed_is_scalar || !request.words.empty() || !request.active.empty()) {
    evidence.smallest = fmt::format("{} outputs of {} rows of {} tokens", request.outputs(),
                                    request.rows, request.vocab);
    return;
  }
  const Request one = alone(request, output);
  const Response again = run_request(*input.sampler, one, {});
  const bool wrong = again.ran() && again.tokens[static_cast<std::size_t>(sample)] != expected;
  evidence.smallest =
      wrong ? fmt::format("one row of {} tokens alone in a call", request.vocab)
            : fmt::format("{} outputs of {} rows of {} tokens: alone in a call the token is right",
                          request.outputs(), request.rows, request.vocab);
  if (!wrong) {
    evidence.suspects.push_back(
        {"batch dependence", "alone in a call the same row, seed and offset give another token"});
  }
}

}  // namespace fairdraw::harness
