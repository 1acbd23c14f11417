// What `identify` found, as text and as JSON: for the command and for Python.
#pragma once

#include <string>

#include "harness/contract/sampler.h"
#include "suites/command/seed.h"
#include "suites/gate/identify/identify.h"

namespace fairdraw::cli {

/// A sampler's findings, and how it was asked.
struct Identified {
  std::string name;  ///< of the sampler, as it was asked for
  const harness::SamplerDescription* sampler;
  const suites::Identification* found;
  SeedChoice seed;
};

/// Lines for people. `evidence`: with what was asked and seen.
std::string identification_text(const Identified& identified, bool evidence);

/// One object: everything that was asked and seen.
std::string identification_json(const Identified& identified);

}  // namespace fairdraw::cli
