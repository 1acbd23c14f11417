// Completion for shells: what a script is made of. command_line.cpp reads it off the parser, so
// that no verb or option is missing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "suites/command/verbs.h"

namespace fairdraw::cli {

struct OptionWords {
  std::vector<std::string> names;  ///< with their dashes
  bool takes_value = false;
};

struct VerbWords {
  std::string name;
  std::vector<OptionWords> options;
};

/// `verbs` may be filled in after the call.
Verb add_completion(App& app, std::shared_ptr<const std::vector<VerbWords>> verbs);

}  // namespace fairdraw::cli
