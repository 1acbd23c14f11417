// Samplers with one step mutated, for self-tests of the checks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/adapters/model_sampler.h"

namespace fairdraw::harness {

/// A mutant: a description of its mistake, and its factory.
struct RunMutant {
  std::string name;
  std::function<std::unique_ptr<Sampler>()> make;
};

const std::vector<RunMutant>& mutants();
std::unique_ptr<Sampler> make_mutant(const std::string& name);

}  // namespace fairdraw::harness
