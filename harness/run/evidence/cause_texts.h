// What a reader is told of a cause: what the sampler does, what to change, and which engines have
// had the same bug. A table by the names of suspects (evidence.h), so that a record written before
// a sentence was improved is shown with the better one. It decides nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fairdraw::harness {

struct CauseText {
  std::string sentence;  ///< what the sampler does, in plain English
  std::string change;    ///< where to look and what to do; empty: nothing is known
};

/// "temperature" of "temperature: ignored": the cause of a suspect's bug.
std::string_view cause_of(std::string_view bug);

/// Of a suspect's bug: the text of its whole name, else of its cause, else its name as it is.
CauseText text_of_cause(std::string_view bug);

/// A bug that an engine has had, and what a report suspects of a sampler that has it.
struct EngineBug {
  std::string_view mutant;   ///< its name in the catalogue of mutants, where it can be looked at
  std::string_view source;   ///< "llama.cpp PR #1953"
  std::string_view wrong;    ///< in one sentence
  std::string_view suspect;  ///< the whole name
};

/// All of them, by the name of the suspect.
const std::vector<EngineBug>& engine_bugs();

/// Those whose suspect has this name, or, where there is none, this cause. At most `most`.
std::vector<EngineBug> engine_bugs_like(std::string_view bug, std::size_t most);

}  // namespace fairdraw::harness
