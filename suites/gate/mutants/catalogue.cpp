#include "suites/gate/mutants/catalogue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "harness/contract/usage_error.h"
#include "harness/run/calls/forwarding_sampler.h"
#include "suites/gate/mutants/sharded.h"

namespace fairdraw::suites {
namespace {

using Claim = MutatedModel::Claim;
using Order = FloatSampler::Order;
using Draw = FloatSampler::Draw;

std::string float_twin_name(Order order, Draw draw) {
  constexpr const char* kOrders[] = {"vllm_torch", "hf", "rosellm"};
  constexpr const char* kDraws[] = {"inverse_cdf", "race"};
  return std::string("float:") + kOrders[static_cast<std::size_t>(order)] + ":" +
         kDraws[static_cast<std::size_t>(draw)];
}

Mutant described(MutantText text, std::string twin, Maker make) {
  return {std::move(text.name),     std::move(text.source),
          std::move(text.kind),     std::move(text.wrong),
          std::move(text.expected), std::move(twin),
          std::move(make),          std::move(text.unreachable_reason)};
}

std::string model_twin_name(Claim claim) {
  constexpr const char* kClaims[] = {"integers", "law", "generator"};
  return std::string("model:") + kClaims[static_cast<std::size_t>(claim)];
}

std::string tokens_twin_name(Claim claim) {
  return claim == Claim::generator ? "tokens:generator" : "tokens:seeds";
}

Mutant mutated_model(MutantText text, Claim claim, std::function<void(Mutation&)> mutation) {
  return described(std::move(text), model_twin_name(claim),
                   [claim, mutation = std::move(mutation)] {
                     Mutation steps;
                     mutation(steps);
                     return std::make_unique<MutatedModel>(claim, std::move(steps));
                   });
}

// What a mutant is made of calls itself "model" or "float", which would send its findings to a
// right sampler.
class NamedMutant : public harness::ForwardingSampler {
 public:
  NamedMutant(std::unique_ptr<harness::Sampler> mutant, std::string name)
      : ForwardingSampler(*mutant), mutant_(std::move(mutant)) {
    description_ = mutant_->description();
    description_.name = std::move(name);
  }

  const harness::SamplerDescription& description() const override { return description_; }

 private:
  std::unique_ptr<harness::Sampler> mutant_;
  harness::SamplerDescription description_;
};

}  // namespace

std::unique_ptr<harness::Sampler> make_mutant(const std::string& name) {
  std::vector<std::string> names;
  for (const Mutant& mutant : catalogue()) {
    if (mutant.name == name) {
      return std::make_unique<NamedMutant>(mutant.make(), std::string(kMutantPrefix) + mutant.name);
    }
    names.push_back(mutant.name);
  }
  throw harness::UsageError(harness::unknown_name_message("mutant", name, names));
}

const char* to_string(EntryState state) {
  switch (state) {
    case EntryState::mutant:
      return "mutant";
    case EntryState::unreachable:
      return "unreachable";
    case EntryState::later:
      return "later";
  }
  return "unknown";
}

Mutant mutated_integers(MutantText text, std::function<void(Mutation&)> mutation) {
  return mutated_model(std::move(text), Claim::integers, std::move(mutation));
}

Mutant mutated_distribution(MutantText text, std::function<void(Mutation&)> mutation) {
  return mutated_model(std::move(text), Claim::distribution, std::move(mutation));
}

Mutant mutated_generator(MutantText text, std::function<void(Mutation&)> mutation) {
  return mutated_model(std::move(text), Claim::generator, std::move(mutation));
}

Mutant mutated_tokens_only(MutantText text, Claim claim, std::function<void(Mutation&)> mutation) {
  return described(std::move(text), tokens_twin_name(claim),
                   [claim, mutation = std::move(mutation)] {
                     Mutation steps;
                     mutation(steps);
                     return make_tokens_only(claim, std::move(steps));
                   });
}

Mutant mutated_float(MutantText text, Order order, Draw draw,
                     std::function<void(FloatMutation&)> mutation) {
  return described(std::move(text), float_twin_name(order, draw),
                   [order, draw, mutation = std::move(mutation)] {
                     FloatMutation steps;
                     mutation(steps);
                     return std::make_unique<FloatSampler>(order, draw, std::move(steps));
                   });
}

const std::vector<Twin>& twins() {
  static const std::vector<Twin> all = [] {
    std::vector<Twin> list;
    for (const Claim claim : {Claim::integers, Claim::distribution, Claim::generator}) {
      list.push_back({model_twin_name(claim),
                      [claim] { return std::make_unique<MutatedModel>(claim, Mutation{}); }});
    }
    for (const Claim claim : {Claim::distribution, Claim::generator}) {
      list.push_back(
          {tokens_twin_name(claim), [claim] { return make_tokens_only(claim, Mutation{}); }});
    }
    for (const Order order : {Order::vllm_torch, Order::hf, Order::rosellm}) {
      for (const Draw draw : {Draw::inverse_cdf, Draw::race}) {
        list.push_back({float_twin_name(order, draw), [order, draw] {
                          return std::make_unique<FloatSampler>(order, draw, FloatMutation{});
                        }});
      }
    }
    std::ranges::move(acceptance_rule_twins(), std::back_inserter(list));
    std::ranges::move(sharded_twins(), std::back_inserter(list));
    std::ranges::move(row_operation_twins(), std::back_inserter(list));
    return list;
  }();
  return all;
}

Mutant expecting(std::vector<std::string> expected, Mutant mutant) {
  mutant.expected = std::move(expected);
  return mutant;
}

std::vector<Mutant> joined(std::vector<std::vector<Mutant>> parts) {
  std::vector<Mutant> all;
  for (std::vector<Mutant>& part : parts) std::ranges::move(part, std::back_inserter(all));
  return all;
}

const std::vector<Mutant>& catalogue() {
  static const std::vector<Mutant> all = joined({
      mask_mutants(),
      distribution_mutants(),
      random_mutants(),
      seed_mutants(),
      edge_mutants(),
      bad_value_mutants(),
      engine_bad_row_mutants(),
      numeric_mutants(),
      tile_weight_mutants(),
      chain_mutants(),
      batch_mutants(),
      range_mutants(),
      systematic_mutants(),
      shape_mutants(),
      state_mutants(),
      result_mutants(),
      logprob_mutants(),
      parameter_mutants(),
      counter_mutants(),
      running_batch_mutants(),
      sequence_mutants(),
      shared_word_mutants(),
      generator_mutants(),
      fresh_start_mutants(),
      next_call_mutants(),
      chain_shape_mutants(),
      processing_mutants(),
      speculation_mutants(),
      processed_logprob_mutants(),
      processed_speculation_mutants(),
      drafted_tree_mutants(),
      random_word_mutants(),
      sampled_mutants(),
      batch_size_mutants(),
      tokens_only_mutants(),
      acceptance_rule_mutants(),
      sharded_mutants(),
      row_operation_mutants(),
  });
  return all;
}

}  // namespace fairdraw::suites
