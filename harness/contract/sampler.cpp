#include "harness/contract/sampler.h"

namespace fairdraw::harness {

std::string Sampler::run_chain(const fairdraw_chain& /*chain*/) {
  return description().name + " verifies no drafted chains";
}

}  // namespace fairdraw::harness
