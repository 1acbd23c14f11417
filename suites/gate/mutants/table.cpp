#include "suites/gate/mutants/table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>

#include "harness/run/calls/random_words.h"

namespace fairdraw::suites {
namespace {

using Claim = MutatedModel::Claim;
using harness::DraftedTokens;
using reference::RowProcessing;
using reference::SpeculationOutcome;

// Throws, because the base sampler of a table row does not have this step.
template <class Steps, class Step>
void set(Steps&, Step) {
  throw std::logic_error("a mutant's change is no step of what it is made of");
}

void set(Mutation& steps, void (*change)(Mutation&)) { change(steps); }
void set(Mutation& steps, void (*change)(fairdraw_batch&)) {
  steps.call = [change](fairdraw_batch& batch, Storage&) { change(batch); };
}
void set(Mutation& steps, void (*change)(fairdraw_batch&, Storage&)) { steps.call = change; }
void set(Mutation& steps, void (*change)(const fairdraw_batch&)) { steps.finish = change; }
void set(Mutation& steps, bool (*unfiltered)(const fairdraw_batch&)) {
  const auto holds = std::make_shared<bool>(false);
  steps.call = [holds, unfiltered](fairdraw_batch& batch, Storage&) { *holds = unfiltered(batch); };
  steps.weights = [holds](RowWeights& weights, const Result& row) {
    if (*holds) weights = row.weight;
  };
}

void set(Mutation& steps, void (*change)(Row&)) {
  steps.row = [change](Row& row, const Place&) { change(row); };
}
void set(Mutation& steps, void (*change)(Row&, const Place&)) { steps.row = change; }
void set(Mutation& steps, void (*change)(Parameters&)) {
  steps.row = [change](Row& row, const Place&) { change(row.parameters); };
}
void set(Mutation& steps, void (*change)(Parameters&, std::size_t)) {
  steps.row = [change](Row& row, const Place&) { change(row.parameters, row.logits.size()); };
}
template <class Apply>
void set_processing(Mutation& steps, Apply apply) {
  steps.row = [apply](Row& row, const Place&) {
    if (!row.processing) return;
    const auto status = reference::process_row(row.logits, {}, *row.processing).status;
    if (status == RowStatus::ok || status == RowStatus::no_allowed_token) apply(row);
  };
}
void set(Mutation& steps, void (*change)(RowProcessing&)) {
  set_processing(steps, [change](Row& row) { change(*row.processing); });
}
void set(Mutation& steps, void (*change)(RowProcessing&, Row&)) {
  set_processing(steps, [change](Row& row) { change(*row.processing, row); });
}

void set(Mutation& steps, void (*change)(Result&, const Row&)) {
  steps.result = [change](Result& result, const Row& row, const Place&) { change(result, row); };
}
void set(Mutation& steps, void (*change)(Result&, const Row&, const Place&)) {
  steps.result = change;
}
void set(Mutation& steps,
         reference::RealLogprobs (*values)(const Row&, const Result&, LogprobsMode)) {
  steps.report_values = values;
}

void set(Mutation& steps, void (*change)(RowWeights&)) {
  steps.weights = [change](RowWeights& weights, const Result&) {
    RowWeights right = weights;
    change(weights);
    const auto is_none = [](RowWeight weight) { return weight == 0; };
    if (std::ranges::all_of(weights, is_none)) weights = std::move(right);
  };
}

std::uint64_t hash_of(const RowWeights& weights) {
  std::uint64_t hash = 0;
  for (const RowWeight weight : weights) {
    hash = harness::mixed(hash ^ static_cast<std::uint64_t>(weight),
                          static_cast<std::uint64_t>(weight >> 64));
  }
  return hash;
}

// Sets a change of weights that needs the row. The row is known when its result is made, and the
// weights when a token is drawn.
void set(Mutation& steps, void (*change)(RowWeights&, const Row&)) {
  const auto wrong = std::make_shared<std::map<std::uint64_t, RowWeights>>();
  steps.call = [wrong](fairdraw_batch&, Storage&) { wrong->clear(); };
  steps.result = [wrong, change](Result& result, const Row& row, const Place&) {
    if (result.status != RowStatus::ok) return;
    RowWeights weights = result.weight;
    for (std::size_t id = 0; id < weights.size(); ++id) weights[id] *= result.mask[id];
    RowWeights right = weights;
    change(weights, row);
    for (std::size_t id = 0; id < weights.size(); ++id) weights[id] *= result.mask[id];
    if (weights != right) (*wrong)[hash_of(right)] = std::move(weights);
  };
  steps.weights = [wrong](RowWeights& weights, const Result&) {
    const auto found = wrong->find(hash_of(weights));
    if (found != wrong->end()) weights = found->second;
  };
}

void set(Mutation& steps, std::uint64_t (*word)(std::uint64_t)) { steps.word_of_mark = word; }
void set(Mutation& steps, std::uint64_t (*word)(const WordKey&)) { steps.word = word; }
void set(Mutation& steps, std::int32_t (*pick)(const DrawWeights&, std::uint64_t)) {
  steps.pick = pick;
}
void set(Mutation& steps, bool (*accepts)(const Proposal&)) { steps.accepts = accepts; }

void set(Mutation& steps, void (*change)(Chain&)) { steps.chain = change; }
void set(Mutation& steps, void (*change)(Chain&, std::size_t)) {
  steps.chain = [change](Chain& chain) {
    for (std::size_t i = 0; i < chain.draft_tokens.size(); ++i) {
      const std::int32_t token = chain.draft_tokens[i];
      if (token >= 0 && static_cast<std::size_t>(token) < chain.vocab) change(chain, i);
    }
  };
}
void set(Mutation& steps, void (*change)(fairdraw_chain&, Storage&)) { steps.chain_call = change; }

void set(Mutation& steps, void (*change)(DraftedTokens&)) { steps.drafted = change; }
void set(Mutation& steps, void (*change)(SpeculationOutcome&, const DraftedTokens&)) {
  steps.accepted = change;
}
void set(Mutation& steps, void (*change)(fairdraw_verification&, Storage&)) {
  steps.speculation_call = change;
}

void set(FloatMutation& steps, void (*change)(FloatMutation&)) { change(steps); }
void set(FloatMutation& steps, void (*change)(fairdraw_batch&)) {
  steps.call = [change](fairdraw_batch& batch, Storage&) { change(batch); };
}
void set(FloatMutation& steps, void (*change)(fairdraw_batch&, Storage&)) { steps.call = change; }
void set(FloatMutation& steps, void (*top_p)(Scores&, float)) { steps.top_p = top_p; }
void set(FloatMutation& steps, double (*noise)(double)) { steps.noise = noise; }
void set(FloatMutation& steps, void (*change)(std::vector<float>&)) {
  steps.probabilities = change;
}

template <class Steps>
Steps steps_of(const std::optional<Change>& change) {
  Steps steps;
  if (change) std::visit([&steps](const auto step) { set(steps, step); }, *change);
  return steps;
}

// Returns a base sampler with one step changed, or the right sampler if there is no change.
Twin made_of(Base base, const std::optional<Change>& change, void (*adapt)(Mutation&)) {
  using Order = FloatSampler::Order;
  using Draw = FloatSampler::Draw;
  const auto steps = [change, adapt] {
    auto made = steps_of<Mutation>(change);
    if (adapt != nullptr) adapt(made);
    return made;
  };
  const auto model = [&steps](const char* name, Claim claim) -> Twin {
    return {name, [=] { return std::make_unique<MutatedModel>(claim, steps()); }};
  };
  const auto tokens = [&steps](const char* name, Claim claim) -> Twin {
    return {name, [=] { return make_tokens_only(claim, steps()); }};
  };
  const auto floats = [&change](const char* name, Order order, Draw draw) -> Twin {
    return {name, [=] {
              return std::make_unique<FloatSampler>(order, draw, steps_of<FloatMutation>(change));
            }};
  };
  switch (base) {
    case Base::integers:
      return model("model:integers", Claim::integers);
    case Base::distribution:
      return model("model:law", Claim::distribution);
    case Base::generator:
      return model("model:generator", Claim::generator);
    case Base::tokens:
      return tokens("tokens:seeds", Claim::distribution);
    case Base::engine:
      return tokens("tokens:generator", Claim::generator);
    case Base::vllm_cdf:
      return floats("float:vllm_torch:inverse_cdf", Order::vllm_torch, Draw::inverse_cdf);
    case Base::vllm_race:
      return floats("float:vllm_torch:race", Order::vllm_torch, Draw::race);
    case Base::hf_cdf:
      return floats("float:hf:inverse_cdf", Order::hf, Draw::inverse_cdf);
    case Base::hf_race:
      return floats("float:hf:race", Order::hf, Draw::race);
    case Base::rosellm_cdf:
      return floats("float:rosellm:inverse_cdf", Order::rosellm, Draw::inverse_cdf);
    case Base::rosellm_race:
      return floats("float:rosellm:race", Order::rosellm, Draw::race);
    case Base::of_table:
      break;
  }
  throw std::logic_error("a table of mutants says no base");
}

}  // namespace

Twin right_sampler(Base base) { return made_of(base, {}, nullptr); }

Mutant mutant_of(std::string_view kind, std::string_view prefix, const Entry& entry,
                 std::string_view expected, Base base, void (*adapt)(Mutation&)) {
  Twin made = made_of(base, entry.change, adapt);
  return {.name = std::string(prefix) + entry.name,
          .source = entry.source,
          .kind = std::string(kind),
          .wrong = entry.wrong,
          .expected = names_of(expected),
          .twin = std::move(made.name),
          .make = std::move(made.make),
          .unreachable_reason = entry.unreachable_reason};
}

std::vector<Mutant> mutants_of(std::string_view kind, std::string_view expected, Base base,
                               std::span<const Entry> entries, void (*adapt)(Mutation&)) {
  std::vector<Mutant> mutants;
  for (const Entry& entry : entries) {
    mutants.push_back(mutant_of(kind, "", entry,
                                entry.by.cases == nullptr ? expected : entry.by.cases,
                                entry.by.base == Base::of_table ? base : entry.by.base, adapt));
  }
  return mutants;
}

bool is_allowed(const Row& row, std::size_t id) {
  return row.allowed.empty() || ((row.allowed[id / 32] >> (id % 32)) & 1U) != 0;
}

bool is_greedy(const Row& row) {
  return row.parameters.temperature == 0 || row.parameters.top_k == 1 || row.parameters.top_p == 0;
}

bool filters_by_k(const Row& row) {
  return row.parameters.top_k > 1 &&
         static_cast<std::size_t>(row.parameters.top_k) < row.logits.size();
}

Result result_with(const Row& row, void (*change)(Parameters&)) {
  Parameters parameters = row.parameters;
  change(parameters);
  return result_of(row, parameters);
}

void drop_from(Row& row, std::size_t first) {
  if (first == 0 || first >= row.logits.size()) return;
  std::fill(row.logits.begin() + static_cast<std::ptrdiff_t>(first), row.logits.end(),
            row.from_probs ? 0.0F : kOut);
}

std::int64_t row_of(const fairdraw_batch& batch, std::int64_t output) {
  const std::int64_t row = batch.indices != nullptr ? batch.indices[output] : output;
  return row < 0 || row >= batch.rows ? -1 : row;
}

bool is_active(const fairdraw_batch& batch, std::int64_t row) {
  return batch.active == nullptr || batch.active[row] != 0;
}

void change_indices(fairdraw_batch& batch, Storage& storage,
                    std::int32_t (*change)(std::int32_t, std::int64_t, std::int64_t)) {
  if (batch.indices == nullptr || batch.rows == 0) return;
  std::vector<std::int32_t> indices(batch.indices, batch.indices + batch.outputs);
  for (std::size_t output = 0; output < indices.size(); ++output) {
    indices[output] = change(indices[output], static_cast<std::int64_t>(output), batch.rows);
  }
  batch.indices = storage.keep(std::move(indices));
}

std::int32_t own_row(std::int32_t, std::int64_t output, std::int64_t rows) {
  return static_cast<std::int32_t>(output % rows);
}

std::int32_t nearest_row(std::int32_t index, std::int64_t, std::int64_t rows) {
  return std::clamp(index, 0, static_cast<std::int32_t>(rows - 1));
}

void take_penalties(RowProcessing& processing, const RowProcessing& from) {
  processing.repetition_penalty = from.repetition_penalty;
  processing.frequency_penalty = from.frequency_penalty;
  processing.presence_penalty = from.presence_penalty;
}

std::uint64_t draw_word(const WordKey& of, std::uint64_t seed, std::uint64_t offset,
                        std::uint64_t index) {
  return harness::random_word(seed, offset, Purpose::draw, static_cast<std::uint32_t>(index),
                              of.attempt);
}

std::uint64_t word_of(const WordKey& of) { return draw_word(of, of.seed, of.offset, of.index); }

std::int32_t token_of(const DrawWeights& drawn, std::uint64_t word) {
  return drawn.token_at(drawn.position(word));
}

double gumbel(double uniform) { return -std::log(-std::log(uniform)); }

}  // namespace fairdraw::suites
