// Why a run is red: its causes, likeliest first. The one place where they are ranked, for the
// terminal, every format of a report, `replay`, `identify`, the self-test of the gate and the audit
// of a server.
//
// A check leaves hints (Evidence::suspects): what its own failure looks like. A hint is either a
// cause, which says what the sampler's code does, or a symptom, which a cause further up in a
// sampler's steps has, too: where top_p is misread masks are wrong, tokens are drawn that must not
// be, and a distribution is off. What all cases say together decides, those that passed included.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/run/evidence/cause_texts.h"
#include "harness/run/evidence/record.h"

namespace fairdraw::harness {

struct Cause {
  std::string name;    ///< for programs: "top_p: ignored"
  std::string reason;  ///< the observation that points there, in one sentence
  CauseText text;      ///< for readers; the condition is in the sentence
  /// The rows that it shows in, where it does not show in others; of a sampler's first cause alone.
  SharedCondition condition = {};
  /// Places in the record of the failed cases that it explains, and that none before it does; those
  /// that name it before those whose symptoms it has.
  std::vector<std::size_t> cases;
};

/// Of a whole run. A failed case that names nothing, and that no cause has as a symptom, is in
/// none. Causes of several samplers that have the same name are one. It does not depend on the
/// order of the cases but among equals.
std::vector<Cause> ranked_causes(const RunRecord& record);

/// Whether a hint is about which tokens stay: temperature, filters, bitmask.
bool is_of_filters(std::string_view hint);

/// Says whether a cause tells by its name that it needs the condition: top_p cannot be misread in
/// rows without top_p.
bool is_said_by(std::string_view cause, const SharedCondition& condition);

/// The name of the cause that a sampler has which follows another value of a choice than the
/// profile that it is judged by: `meaning` as reference/semantic_choices.h has it.
std::string definition_cause(std::string_view meaning, std::string_view value);

}  // namespace fairdraw::harness
