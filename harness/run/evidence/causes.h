// Ranks the causes of a failed run, likeliest first. All users share this ranking: the terminal,
// every format of a report, `replay`, `identify`, the self-test of the gate and the audit of a
// server.
//
// A check leaves hints (Evidence::suspects): bugs that its own failure resembles. A hint is either
// a cause, which says what the sampler's code does, or a symptom, which causes at earlier steps of
// a sampler have, too: if top_p is misread, masks are wrong, excluded tokens are drawn, and a
// distribution is off. All cases together decide on a cause, including those that passed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/evidence/cause_texts.h"
#include "harness/run/evidence/record.h"

namespace fairdraw::harness {

struct Cause {
  std::string name;    ///< name for programs: "top_p: ignored"
  std::string reason;  ///< the observation behind the cause, in one sentence
  CauseText text;      ///< text for readers; its sentence includes the condition
  /// Conditions of the rows in which the cause shows, if it shows in no others and its name does
  /// not imply them; only for a sampler's first cause.
  std::vector<SharedCondition> conditions = {};
  /// True if more than 5 % of a sampler's failed cases speak against its first cause: they name
  /// other mistakes, or no cause explains them. The sentence then says that no known mistake
  /// explains the failures, and which conditions the wrong rows share.
  bool is_doubtful = false;
  /// Indices in the record of the failed cases that this cause explains and no earlier cause does.
  /// Cases that name the cause come before cases that have its symptoms.
  std::vector<std::size_t> cases;
};

/// Returns the causes of a whole run. A failed case that names no cause and is a symptom of none is
/// not included. Causes of several samplers with the same name are merged. The order of the cases
/// matters only among equal weights.
std::vector<Cause> ranked_causes(const RunRecord& record);

/// Returns whether a hint is about which tokens are kept: temperature, filters, bitmask.
bool is_of_filters(std::string_view hint);

/// Returns whether a cause says what is wrong with the results, but names no mistake in the code.
bool is_symptom(std::string_view cause);

/// Returns whether a cause's name implies the condition: top_p cannot be misread in rows without
/// top_p.
bool is_said_by(std::string_view cause, const SharedCondition& condition);

/// Returns the conditions that a cause's name does not imply.
std::vector<SharedCondition> unsaid_conditions(const std::vector<SharedCondition>& conditions,
                                               std::string_view cause);
/// Maximum number of conditions of a sentence. A longer list of conditions describes a single row,
/// and tells a reader nothing.
inline constexpr std::size_t kMaxConditions = 2;

/// Returns the name of the cause of a sampler that follows another value of a choice than its
/// profile: `meaning` as in reference/semantic_choices.h.
std::string definition_cause(std::string_view meaning, std::string_view value);

}  // namespace fairdraw::harness
