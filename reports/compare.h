// Compares two runs: their differences, and which of these are regressions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::reports {

/// A case of one sampler whose verdict differs. A verdict is absent if the run has no such case.
struct VerdictChange {
  std::string id, sampler;
  std::optional<harness::Verdict> base, head;
  std::string message;  ///< the message of the case in the head run
  std::string replay;   ///< the replay line in the head run
  bool regression = false;
  bool fixed = false;  ///< whether the case failed before and passes now
};

/// An effect whose confidence intervals in the two runs do not overlap.
struct EffectChange {
  std::string id, sampler;
  harness::Effect base, head;
  bool regression = false;
};

/// A row of a benchmark, or a check of a run, whose time differs.
struct SpeedChange {
  std::string name;
  std::string unit;  ///< "x floor", "us", "s"
  double base = 0, head = 0;
  bool regression = false;
};

/// A feature of a sampler that only one of the runs judged; see coverage.h.
struct FeatureChange {
  std::string name, sampler;
  std::uint64_t base = 0, head = 0;  ///< cases of base and head that ran and had the feature
  bool gained = false;               ///< false: the feature was lost
  std::vector<std::string> lacks;    ///< abilities that the head lacks to be judged on it
  bool regression = false;
};

struct Comparison {
  std::string base, head;               ///< descriptions: "commit 0123abc, gate, seed 7"
  std::vector<VerdictChange> verdicts;  ///< regressions first, otherwise in the order of the head
  std::vector<EffectChange> effects;
  std::vector<SpeedChange> speeds;
  std::vector<FeatureChange> features;
  /// Samplers of the base and the samplers of the head they are compared with, if the names differ.
  std::vector<std::pair<std::string, std::string>> paired;
  std::uint64_t compared = 0;  ///< number of cases or rows in both runs
  std::string apart;           ///< a reason for none: "base judges cpu, head judges model"
  bool incomplete = false;     ///< whether the head ended before all its cases were run

  std::uint64_t changes() const {
    return verdicts.size() + effects.size() + speeds.size() + features.size();
  }
  std::uint64_t regressions() const;
  std::uint64_t fixed() const;  ///< number of failed cases that pass now
  /// False if the absence of regressions means nothing: the two runs have nothing in common, or the
  /// head is incomplete.
  bool says_something() const { return compared > 0 && !incomplete; }
};

/// Compares runs. A case is identified by its id and its sampler. Samplers are paired by name; then
/// by the name that a plugin declares, if one sampler of each run has it; then, if each run has
/// just one sampler left, with each other. A regression is a case that passed and does not, or is
/// missing though both runs chose the same cases; or a feature that is no longer judged though both
/// runs chose the same cases; or an effect that moved away from its expected value so far that
/// intervals three times as wide do not overlap. (Half widths come from bounds like exp(-2 n t^2):
/// intervals three times as wide miss with a probability of 0.01^9 = 1e-18 if the plain ones miss
/// with 0.01. Plain intervals that do not overlap are shown; among many cases chance alone causes
/// some.) The total seconds of a check are shown from a factor of 1.5 and one second on, if both
/// ran on the same CPU. Times are never a regression, because other work on the machine changes
/// them as much.
Comparison compare(const harness::RunRecord& base, const harness::RunRecord& head);

/// Compares benchmarks. Rows of benchmarks are matched by all their names except the machine. The
/// compared value is the ratio to the floor of the same run, if both rows have one (it is
/// comparable between machines), otherwise microseconds. Changes by more than `tolerance` (a
/// fraction of the base) are shown. Slower rows and missing rows are regressions.
Comparison compare(const std::vector<harness::BenchmarkRecord>& base,
                   const std::vector<harness::BenchmarkRecord>& head, double tolerance);

/// Maximum change of a speed that is not reported. On a quiet machine, medians repeat within 5 %,
/// and medians of two runs within 10 %.
inline constexpr double kSpeedTolerance = 0.1;

/// Returns "worse  cpu  mask/...  passed, now failed: ...", one line per change, under the
/// headline.
std::string to_terminal(const Comparison& comparison, bool colours);
/// Returns a table of the changes only, at most 60 KiB, because GitHub takes comments of up to 64
/// KiB.
std::string to_markdown(const Comparison& comparison);
/// Returns one page that has no script and loads nothing.
std::string to_html(const Comparison& comparison);
/// Returns one JSON object: base, head, paired, compared, fixed, regressions, verdicts, effects,
/// speeds, features.
std::string to_json(const Comparison& comparison);

}  // namespace fairdraw::reports
