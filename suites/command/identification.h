// Results of `identify` as text and as JSON, for the command and for Python.
#pragma once

#include <string>

#include "harness/contract/sampler.h"
#include "suites/command/seed.h"
#include "suites/gate/identify/identify.h"

namespace fairdraw::cli {

/// The findings about a sampler, with its name and seed.
struct Identified {
  std::string name;  ///< name of the sampler on the command line
  const harness::SamplerDescription* sampler;
  const suites::Identification* found;
  SeedChoice seed;
};

/// Returns the results as lines of text; `evidence` adds questions and answers.
std::string identification_text(const Identified& identified, bool evidence);

/// Returns one JSON object with all questions and answers.
std::string identification_json(const Identified& identified);

}  // namespace fairdraw::cli
