#include "python/bindings/ability_names.h"

namespace fairdraw::python {

using harness::SamplerDescription;

const std::map<std::string, Ability>& abilities() {
  static const std::map<std::string, Ability> all = {
      {"exact_integer", &SamplerDescription::exact_integer},
      {"per_request_seeds", &SamplerDescription::per_request_seeds},
      {"float16", &SamplerDescription::float16},
      {"bfloat16", &SamplerDescription::bfloat16},
      {"from_probs", &SamplerDescription::from_probs},
      {"from_probs_all_filters", &SamplerDescription::from_probs_all_filters},
      {"scripted_words", &SamplerDescription::scripted_words},
      {"allowed_mask", &SamplerDescription::allowed_mask},
      {"active_rows", &SamplerDescription::active_rows},
      {"indices", &SamplerDescription::indices},
      {"num_samples", &SamplerDescription::num_samples},
      {"lowest_id_ties", &SamplerDescription::lowest_id_ties},
      {"joint_order", &SamplerDescription::joint_order},
      {"processing", &SamplerDescription::processing},
      {"reports_status", &SamplerDescription::reports_status},
      {"reports_support", &SamplerDescription::reports_support},
      {"reports_mask", &SamplerDescription::reports_mask},
      {"reports_probs", &SamplerDescription::reports_probs},
      {"reports_logprobs", &SamplerDescription::reports_logprobs},
      {"reports_raw", &SamplerDescription::reports_raw},
      {"reports_processed", &SamplerDescription::reports_processed},
      {"ranks_position", &SamplerDescription::ranks_position},
      {"ranks_at_least", &SamplerDescription::ranks_at_least}};
  return all;
}

const std::map<std::string, Ability>& filters() {
  static const std::map<std::string, Ability> all = {{"top_k", &SamplerDescription::top_k},
                                                     {"top_p", &SamplerDescription::top_p},
                                                     {"min_p", &SamplerDescription::min_p}};
  return all;
}

const std::map<std::string, Promise>& promises() {
  using Contract = harness::RandomnessContract;
  static const std::map<std::string, Promise> all = {{"seeds", &Contract::seeds},
                                                     {"offsets", &Contract::offsets},
                                                     {"outputs", &Contract::outputs},
                                                     {"samples", &Contract::samples},
                                                     {"replays", &Contract::replays}};
  return all;
}

}  // namespace fairdraw::python
