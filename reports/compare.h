// Compares two runs: finds their differences, and decides which of these are regressions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::reports {

/// A case of one sampler whose verdict differs between the runs. If a run does not have the case,
/// the verdict of this run is absent.
struct VerdictChange {
  std::string id, sampler;
  std::optional<harness::Verdict> base, head;
  std::string message;  ///< message of the case in the head run
  std::string replay;   ///< replay line of the case in the head run
  bool regression = false;
  bool fixed = false;  ///< true if the case failed in the base run and passes in the head run
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

/// A feature of a sampler that only one of the two runs judged (coverage.h).
struct FeatureChange {
  std::string name, sampler;
  std::uint64_t base = 0, head = 0;  ///< numbers of cases of base and head that ran and had the
                                     ///< feature
  bool gained = false;               ///< false if the head run no longer judges the feature
  std::vector<std::string> lacks;    ///< abilities that the head run would need to judge the
                                     ///< feature
  bool regression = false;
};

struct Comparison {
  std::string base, head;               ///< descriptions of the runs, for example "commit 0123abc,
                                        ///< gate, seed 7"
  std::vector<VerdictChange> verdicts;  ///< cases whose verdict changed: regressions first,
                                        ///< otherwise in the order of the head run
  std::vector<EffectChange> effects;
  std::vector<SpeedChange> speeds;
  std::vector<FeatureChange> features;
  /// Samplers of the base run and the samplers of the head run with which they are compared, if the
  /// names differ.
  std::vector<std::pair<std::string, std::string>> paired;
  std::uint64_t compared = 0;  ///< number of cases or rows that both runs have
  std::string apart;           ///< reason why the runs have no common case, for example "base
                               ///< judges cpu, head judges model"
  bool incomplete = false;     ///< true if the head run ended before all its cases were run

  std::uint64_t changes() const {
    return verdicts.size() + effects.size() + speeds.size() + features.size();
  }
  std::uint64_t regressions() const;
  std::uint64_t fixed() const;  ///< Returns the number of failed cases that pass now.
  /// Returns false if the absence of regressions means nothing: the two runs have nothing in
  /// common, or the head run is incomplete.
  bool says_something() const { return compared > 0 && !incomplete; }
};

/// Compares runs. A case is identified by its id and its sampler. Samplers are paired by name.
/// The remaining samplers are paired by the name that a plugin declares, if one sampler of each run
/// has this name. If each run then has exactly one unpaired sampler, these two are paired. A
/// regression is one of three changes. A case passed and now does not, or is missing although both
/// runs chose the same cases. A feature is no longer judged although both runs chose the same
/// cases. An effect has moved away from its expected value so far that intervals three times as
/// wide do not overlap. (Half widths come from bounds like exp(-2 n t^2). If plain intervals miss
/// with a probability of 0.01, intervals three times as wide miss with a probability of 0.01^9 =
/// 1e-18. Plain intervals that do not overlap are shown; among many cases some occur by chance
/// alone.) The total time of a check is shown if it differs by a factor of at least 1.5 and by at
/// least one second, and both runs used the same CPU. A difference in time is never a regression,
/// because other work on the machine changes times as much.
Comparison compare(const harness::RunRecord& base, const harness::RunRecord& head);

/// Compares benchmarks. Rows of benchmarks are matched by all their names except that of the
/// machine. The compared value is the ratio to the floor of the same run if both rows have a floor
/// (such ratios are comparable between machines), and the microseconds otherwise. Changes by more
/// than `tolerance` (a fraction of the base value) are shown. Slower rows and missing rows are
/// regressions.
Comparison compare(const std::vector<harness::BenchmarkRecord>& base,
                   const std::vector<harness::BenchmarkRecord>& head, double tolerance);

/// Largest change of a speed that is not reported. On a quiet machine, medians repeat within 5 %,
/// and medians of two runs within 10 %.
inline constexpr double kSpeedTolerance = 0.1;

/// Returns one line per change, such as "worse cpu mask/... passed, now failed: ...", after the
/// headline.
std::string to_terminal(const Comparison& comparison, bool colours);
/// Returns a table of the changes alone, at most 60 KiB, because GitHub accepts comments of up to
/// 64 KiB.
std::string to_markdown(const Comparison& comparison);
/// Returns one page that has no script and loads nothing.
std::string to_html(const Comparison& comparison);
/// Returns one JSON object: base, head, paired, compared, fixed, regressions, verdicts, effects,
/// speeds, features.
std::string to_json(const Comparison& comparison);

}  // namespace fairdraw::reports
