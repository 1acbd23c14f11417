// Declares the built-in samplers on a GPU: fairdraw::cuda::sample on each of its code paths.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"

namespace fairdraw::harness {

/// Returns the names of the samplers that this build and this machine's GPU can run; empty without
/// a GPU.
std::vector<std::string> cuda_sampler_names();

/// Makes the sampler "cuda", "cuda:cluster" or "cuda:block"; returns null for any other name.
/// Throws UsageError with the reason if the sampler cannot run on this machine.
std::unique_ptr<Sampler> make_cuda_sampler(const std::string& name);

}  // namespace fairdraw::harness
