// Samplers with one mutated step, for self-tests of the checks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/adapters/model_sampler.h"

namespace fairdraw::harness {

/// A mutant, with a description of its mistake and a function that makes it.
struct RunMutant {
  std::string name;
  std::function<std::unique_ptr<Sampler>()> make;
};

const std::vector<RunMutant>& mutants();
std::unique_ptr<Sampler> make_mutant(const std::string& name);

}  // namespace fairdraw::harness
