#include "harness/contract/sampler.h"

namespace fairdraw::harness {

std::string Sampler::run_chain(const fairdraw_chain& /*chain*/) {
  return description().name + " verifies no drafted chains";
}

std::string Sampler::run_speculation(const fairdraw_verification& /*verification*/) {
  return description().name + " verifies no requests";
}

std::string Sampler::run_event(const fairdraw_event& /*event*/) {
  return description().name + " keeps no requests";
}

std::string Sampler::run_operation(const fairdraw_operation& /*operation*/) {
  return description().name + " has no operations on rows";
}

}  // namespace fairdraw::harness
