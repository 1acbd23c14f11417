// Adds the library of serving to the built-in samplers. In a build without serving
// (FAIRDRAW_SERVING=OFF) no_serving.cpp defines these functions, and they add nothing.
#pragma once

#include <memory>
#include <string>

#include "fairdraw/cuda.h"
#include "harness/contract/sampler.h"

namespace fairdraw::harness {

/// Returns a sampler that samples rows with `rows`, verifies drafts, and keeps running batches.
std::unique_ptr<Sampler> with_serving(std::unique_ptr<Sampler> rows, const Execution& execution);

/// Adds serving calls to a sampler on a GPU, without running batches.
std::unique_ptr<Sampler> with_serving(std::unique_ptr<Sampler> rows, cuda::Path path);

/// Makes the sampler "model". The model verifies drafts and keeps batches in every build, because
/// it is the reference and needs no library.
std::unique_ptr<Sampler> make_model_sampler();

/// Makes the sampler "sharded:N" or "cuda:sharded:N"; returns null for any other name. Throws
/// UsageError for a wrong N, or with the reason if the sampler cannot run here.
std::unique_ptr<Sampler> make_serving_sampler(const std::string& name);

}  // namespace fairdraw::harness
