// Results of `identify` as text and as JSON, for the command and for Python.
#pragma once

#include <string>

#include "harness/contract/sampler.h"
#include "suites/command/seed.h"
#include "suites/gate/identify/identify.h"

namespace fairdraw::cli {

/// The findings about one sampler, with its name and the seed.
struct Identified {
  std::string name;  ///< name of the sampler as the command line gives it
  const harness::SamplerDescription* sampler;
  const suites::Identification* found;
  SeedChoice seed;
};

/// Returns the findings as lines of text; if `evidence` is true, also the questions and answers.
std::string identification_text(const Identified& identified, bool evidence);

/// Returns the findings as one JSON object with all questions and answers.
std::string identification_json(const Identified& identified);

}  // namespace fairdraw::cli
