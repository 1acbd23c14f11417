#include "harness/contract/sampler.h"

namespace fairdraw::harness {

std::string Sampler::run_operation(const fairdraw_operation& /*operation*/) {
  return description().name + " has no operations on rows";
}

std::string Sampler::run_serving(const ServingCall& /*call*/) {
  return description().name + " takes no calls of serving";
}

}  // namespace fairdraw::harness
