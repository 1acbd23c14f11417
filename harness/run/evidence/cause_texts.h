// Texts about a cause for readers: what the sampler does, what to change, and which engines have
// had the same bug. The texts are looked up by the names of suspects (evidence.h), so that an old
// record is shown with the current sentences. They decide nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fairdraw::harness {

struct CauseText {
  std::string sentence;  ///< what the sampler does, in plain English
  std::string change;    ///< where to look and what to do; empty if unknown
};

/// Returns the cause of a suspect's bug: "temperature" of "temperature: ignored".
std::string_view cause_of(std::string_view bug);

/// Returns the text of a bug's whole name, otherwise of its cause, otherwise the name itself.
CauseText text_of_cause(std::string_view bug);

/// A bug that an engine has had, and the cause that a report suspects if a sampler has it.
struct EngineBug {
  std::string_view mutant;   ///< name of the bug in the catalogue of mutants
  std::string_view source;   ///< "llama.cpp PR #1953"
  std::string_view wrong;    ///< the mistake in one sentence
  std::string_view suspect;  ///< whole name of the suspected cause
};

/// Returns all bugs, in the order of their suspects.
const std::vector<EngineBug>& engine_bugs();

/// Returns at most `most` bugs whose suspect has this name or, if there are none, this cause.
std::vector<EngineBug> engine_bugs_like(std::string_view bug, std::size_t most);

}  // namespace fairdraw::harness
