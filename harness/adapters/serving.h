// What the library of serving adds to the built-in samplers. In a build without it
// (FAIRDRAW_SERVING=OFF) no_serving.cpp has these functions, and adds nothing.
#pragma once

#include <memory>
#include <string>

#include "fairdraw/cuda.h"
#include "harness/contract/sampler.h"

namespace fairdraw::harness {

/// The sampler of rows, verifying drafts and keeping running batches too.
std::unique_ptr<Sampler> with_serving(std::unique_ptr<Sampler> rows, const Execution& execution);

/// The same on a GPU, without running batches.
std::unique_ptr<Sampler> with_serving(std::unique_ptr<Sampler> rows, cuda::Path path);

/// The sampler "model", which verifies drafts and keeps batches in every build: it is the
/// reference, and needs no library.
std::unique_ptr<Sampler> make_model_sampler();

/// The sampler "sharded:N" or "cuda:sharded:N"; null for another name. Throws UsageError for a
/// wrong N, or with the reason where it cannot run here.
std::unique_ptr<Sampler> make_serving_sampler(const std::string& name);

}  // namespace fairdraw::harness
