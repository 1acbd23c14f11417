// Has texts about a cause for readers: what the sampler does, what to change, and which engines
// have had the same bug. The texts are found by the names of suspects (evidence.h), so that an old
// record is shown with the current sentences. They decide nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fairdraw::harness {

struct CauseText {
  std::string sentence;  ///< description of what the sampler does
  std::string change;    ///< place to look at and change to make; empty if unknown
};

/// Returns the cause in the name of a suspect's bug: "temperature" for "temperature: ignored".
std::string_view cause_of(std::string_view bug);

/// Returns the text for the full name of a bug, otherwise for its cause, otherwise the name itself.
CauseText text_of_cause(std::string_view bug);

/// A bug that an engine has had, and the cause that a report suspects if a sampler has this bug.
struct EngineBug {
  std::string_view mutant;   ///< name of the bug in the catalogue of mutants
  std::string_view source;   ///< "llama.cpp PR #1953"
  std::string_view wrong;    ///< one sentence that describes the mistake
  std::string_view suspect;  ///< full name of the suspected cause
};

/// Returns all bugs of engines, in the order of their suspected causes.
const std::vector<EngineBug>& engine_bugs();

/// Returns at most `most` bugs whose suspected cause has this name or, if there are none, the same
/// cause.
std::vector<EngineBug> engine_bugs_like(std::string_view bug, std::size_t most);

}  // namespace fairdraw::harness
