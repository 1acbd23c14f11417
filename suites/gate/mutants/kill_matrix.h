// Runs the gate on mutants; the result is the kill matrix.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/inputs/captured_logits.h"
#include "harness/run/evidence/causes.h"
#include "harness/run/evidence/record.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {

/// Largest number of draws from a mutant until a case detects it.
inline constexpr std::uint64_t kMaxDraws = 5'000'000;

struct KillOptions {
  /// false if the run of a mutant ends when the first case detects it; expected cases run first,
  /// then cheap cases. true: the run ends when every check has detected the mutant or has no case
  /// left.
  bool full = false;
  /// After the first detection, judges some cheap cases of each check of suite smoke, so that the
  /// causes are those of a run and not of a single case.
  bool causes = false;
  /// With `causes`: repeats failed cases to find the condition that they have in common. Finding
  /// the condition takes about forty runs of a case per mutant.
  bool conditions = true;
  /// Runs only cases of suite smoke and expected cases, and no correct samplers.
  bool smoke_alone = false;
  /// With `causes`: judges all cases of suite smoke after the first kill, as a run of it does.
  bool whole_smoke = false;
  std::uint64_t seed = 0;
  unsigned threads = 1;
  std::vector<std::shared_ptr<const harness::CapturedLogits>> captured;
};

/// The result of one check on a mutant.
struct CheckKill {
  std::string by;           ///< id of the case that detected the mutant; empty if none did
  std::uint64_t draws = 0;  ///< number of draws from the mutant in this check, up to the detection
};

struct MutantOutcome {
  const Mutant* mutant = nullptr;
  bool killed = false;
  std::string by, message;             ///< id and message of the first case that detected the
                                       ///< mutant
  harness::RunRecord record;           ///< record of the judged cases, with their evidence
  std::vector<harness::Cause> causes;  ///< causes of the failures in `record`, likeliest first
  std::uint64_t draws = 0;             ///< number of draws from the mutant in all checks, up to the
                                       ///< first detection
  double seconds = 0;
  std::map<std::string, CheckKill> checks;  ///< results of the checks that judged the mutant, by
                                            ///< name
  std::vector<std::string> cases;           ///< ids of the cases that judged the mutant
  std::string trouble;                      ///< description of a case that could not be run

  /// Returns a description of the gate's fault. The text is empty if a mutant that can be detected
  /// was detected within kMaxDraws, or if a mutant that cannot be detected was not.
  std::string complaint() const;
};

struct TwinOutcome {
  const Twin* twin = nullptr;
  std::string semantics;
  std::uint64_t cases = 0;  ///< number of cases that judged the sampler; cases that need a missing
                            ///< ability do not count
  double seconds = 0;
  std::string red;  ///< id and message of the first case that did not pass
};

struct KillMatrix {
  std::vector<MutantOutcome> mutants;  ///< outcomes of the mutants, in the given order
  std::vector<TwinOutcome> twins;      ///< outcomes of the correct samplers from which these
                                       ///< mutants are made
  double seconds = 0;

  bool complete() const;
};

/// Functions that are called before and after each mutant and each correct sampler. Calls of
/// `ended` do not overlap. `line` describes the outcome; `wrong` means that the gate is at fault.
struct KillProgress {
  std::function<void(const std::string& name)> begun;
  std::function<void(const std::string& name, const std::string& line, bool wrong)> ended;
};

/// Returns the number of samplers that run_kill_matrix judges: the mutants and their correct twins.
std::size_t judged_count(const std::vector<const Mutant*>& mutants);

/// Judges mutants and their twins by the cases of suite gate, planned and judged as by `fairdraw
/// verify`, each on a fresh instance. Mutants that cannot be detected from outside are judged by
/// suite smoke and their expected cases; in a full run they are judged by all cases. A twin is
/// judged by every case that judged one of its mutants. The result does not depend on the number of
/// threads.
KillMatrix run_kill_matrix(const std::vector<const Mutant*>& mutants, const KillOptions& options,
                           const KillProgress& progress);

}  // namespace fairdraw::suites
