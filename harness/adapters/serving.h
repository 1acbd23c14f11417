// Adds the calls of the serving library to the built-in samplers. In a build without serving
// (FAIRDRAW_SERVING=OFF), no_serving.cpp defines these functions as functions that do nothing.
#pragma once

#include <memory>
#include <string>

#include "fairdraw/cuda.h"
#include "harness/contract/sampler.h"

namespace fairdraw::harness {

/// Returns a sampler that samples rows with `rows`, and also verifies drafts and keeps running
/// batches.
std::unique_ptr<Sampler> with_serving(std::unique_ptr<Sampler> rows, const Execution& execution);

/// Adds the calls of serving, except running batches, to a sampler on a GPU.
std::unique_ptr<Sampler> with_serving(std::unique_ptr<Sampler> rows, cuda::Path path);

/// Makes the sampler "model", which is the integer model. The model accepts drafts and keeps
/// batches in every build, because the model is the reference and does not need the library.
std::unique_ptr<Sampler> make_model_sampler();

/// Makes the sampler "sharded:N" or "cuda:sharded:N"; returns null for any other name. Throws
/// UsageError if N is wrong or the sampler cannot run here; the message has the reason.
std::unique_ptr<Sampler> make_serving_sampler(const std::string& name);

}  // namespace fairdraw::harness
