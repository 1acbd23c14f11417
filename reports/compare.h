// Two runs side by side: what changed, and whether that is a regression.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::reports {

/// A case, under one sampler, whose verdict is another one. Absent: the run has no such case.
struct VerdictChange {
  std::string id, sampler;
  std::optional<harness::Verdict> base, head;
  std::string message;  ///< the head's
  std::string replay;   ///< the head's
  bool regression = false;
  bool fixed = false;  ///< it was red, and passes
};

/// An effect whose intervals do not meet.
struct EffectChange {
  std::string id, sampler;
  harness::Effect base, head;
  bool regression = false;
};

/// A row of a benchmark that takes another time, or a check of a run that does.
struct SpeedChange {
  std::string name;
  std::string unit;  ///< "x floor", "us", "s"
  double base = 0, head = 0;
  bool regression = false;
};

/// A feature that one of the runs judged of a sampler and the other did not: coverage.h.
struct FeatureChange {
  std::string name, sampler;
  std::uint64_t base = 0, head = 0;  ///< cases that ran, with the feature in them
  bool gained = false;               ///< else it is lost
  std::vector<std::string> lacks;    ///< what the head would have to declare
  bool regression = false;
};

struct Comparison {
  std::string base, head;               ///< what they are: "commit 0123abc, gate, seed 7"
  std::vector<VerdictChange> verdicts;  ///< regressions first, else in the order of the head
  std::vector<EffectChange> effects;
  std::vector<SpeedChange> speeds;
  std::vector<FeatureChange> features;
  /// Samplers of the base with those of the head that they are compared with, where names differ.
  std::vector<std::pair<std::string, std::string>> paired;
  std::uint64_t compared = 0;  ///< cases, or rows, that both have
  std::string apart;           ///< why that may be none: "base judges cpu, head judges model"
  bool incomplete = false;     ///< the head ended before all of its cases were run

  std::uint64_t changes() const {
    return verdicts.size() + effects.size() + speeds.size() + features.size();
  }
  std::uint64_t regressions() const;
  std::uint64_t fixed() const;  ///< red cases that pass now
  /// False where no regression does not mean that there is none: the two have nothing in common,
  /// or the head is incomplete.
  bool says_something() const { return compared > 0 && !incomplete; }
};

/// Runs. A case is known by its id and its sampler. Samplers are compared by name; others by the
/// name that a plugin declares, where one of each run has it; and where each run has just one,
/// these two. A regression is a case that passed and does not, or is gone though both runs chose
/// the same cases; or a feature that was judged and is not, though both did; or an effect that
/// moved away from what is expected so far that intervals three times as wide do not meet. (Half
/// widths are from bounds like exp(-2 n t^2): three times as wide ones miss with a probability of
/// 0.01^9 = 1e-18 where the plain ones miss with 0.01. Plain ones that do not meet are shown, and
/// chance alone does that to some case of many.) Seconds of a check, in sum, are shown from a
/// factor of 1.5 and one second on where both ran on the same CPU, and are never a regression:
/// other work on the machine changes them as much.
Comparison compare(const harness::RunRecord& base, const harness::RunRecord& head);

/// Benchmarks. Rows are matched by all that names them but the machine. What is compared is the
/// ratio to the floor of the same run where both have one (it travels between machines), else
/// microseconds. Changes by more than `tolerance` (a part of the base) are shown; slower ones are
/// regressions, and so are rows that are gone.
Comparison compare(const std::vector<harness::BenchmarkRecord>& base,
                   const std::vector<harness::BenchmarkRecord>& head, double tolerance);

/// Medians of a quiet machine repeat within 5 %, of two runs within 10 %.
inline constexpr double kSpeedTolerance = 0.1;

/// "worse  cpu  mask/...  passed, now failed: ...", a line a change, under the headline.
std::string to_terminal(const Comparison& comparison, bool colours);
/// A table of deltas only, at most 60 KiB: GitHub takes comments of up to 64 KiB.
std::string to_markdown(const Comparison& comparison);
/// One page without script that loads nothing.
std::string to_html(const Comparison& comparison);
/// One JSON object: base, head, paired, compared, fixed, regressions, verdicts, effects,
/// speeds, features.
std::string to_json(const Comparison& comparison);

}  // namespace fairdraw::reports
