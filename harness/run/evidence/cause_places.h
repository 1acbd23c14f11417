// Places of the causes and symptoms that hints name, among the steps of a sampler (causes.cpp).
#pragma once

#include <string_view>

namespace fairdraw::harness {

/// The steps of a sampler at which a mistake may be. A mistake at one step shows at all later
/// steps.
enum class Step {
  call,         ///< memory, the process
  batch,        ///< a wrong row or parameter, or data left over from other rows and calls
  rows,         ///< bad values in rows
  processing,   ///< penalties, bias, bans
  filters,      ///< temperature, top_k, top_p, min_p, the bitmask
  draw,         ///< the sum of weights and the search for a token
  words,        ///< random numbers
  reports,      ///< log-probabilities
  speculation,  ///< drafts
  operations,   ///< softmax, masks and renormalised rows
  marks,        ///< watermarks, which need every step of a draw
};

enum class Kind {
  cause,    ///< the hint is a mistake in the code
  symptom,  ///< the hint is an effect of a cause at this step or before it
};

struct CausePlace {
  std::string_view name;  ///< whole name of a hint, or its cause
  Step step;
  Kind kind;
};

/// The beginning of the names of causes that are other definitions.
inline constexpr std::string_view kDefinition = "definition of ";

/// Returns the place of a hint: that of its whole name, or else that of its cause.
CausePlace place_of(std::string_view hint);

}  // namespace fairdraw::harness
