#include "suites/gate/mutants/catalogue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "harness/contract/usage_error.h"
#include "harness/run/calls/forwarding_sampler.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

// A mutant that carries its own name. The samplers inside are named "model" or "float"; under these
// names, a report would blame a correct sampler.
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

const std::vector<Twin>& twins() {
  static const std::vector<Twin> all = [] {
    std::vector<Twin> list;
    for (const Base base : {Base::integers, Base::distribution, Base::generator, Base::tokens,
                            Base::engine, Base::vllm_cdf, Base::vllm_race, Base::hf_cdf,
                            Base::hf_race, Base::rosellm_cdf, Base::rosellm_race}) {
      list.push_back(right_sampler(base));
    }
    std::ranges::move(acceptance_rule_twins(), std::back_inserter(list));
    std::ranges::move(sharded_twins(), std::back_inserter(list));
    std::ranges::move(row_operation_twins(), std::back_inserter(list));
    return list;
  }();
  return all;
}

std::vector<std::string> names_of(std::string_view text) {
  std::vector<std::string> cases;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    cases.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return cases;
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
      proposal_mutants(),
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
      filter_mutants(),
      processing_list_mutants(),
      speculation_mutants(),
      processed_logprob_mutants(),
      processed_speculation_mutants(),
      drafted_tree_mutants(),
      stray_draft_mutants(),
      random_word_mutants(),
      sampled_mutants(),
      vocabulary_mutants(),
      batch_size_mutants(),
      tokens_only_mutants(),
      typed_value_mutants(),
      acceptance_rule_mutants(),
      mark_mutants(),
      sharded_mutants(),
      row_operation_mutants(),
  });
  return all;
}

}  // namespace fairdraw::suites
