// The built-in samplers on a GPU: fairdraw::cuda::sample on each path.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"

namespace fairdraw::harness {

/// Those that this build and this machine's GPU can run; empty without a GPU.
std::vector<std::string> cuda_sampler_names();

/// The sampler "cuda", "cuda:cluster" or "cuda:block"; null for any other name. Throws UsageError
/// with the reason where it cannot run here.
std::unique_ptr<Sampler> make_cuda_sampler(const std::string& name);

/// The sampler "cuda:sharded:N", N from 1 to 8: sharded calls, all shards on one GPU. Null for a
/// name that does not begin so; UsageError for another N, or with the reason where it cannot run
/// here.
std::unique_ptr<Sampler> make_cuda_sharded_sampler(const std::string& name);

}  // namespace fairdraw::harness
