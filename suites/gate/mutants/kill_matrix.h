// Runs the gate on mutants: the kill matrix.
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

/// Draws that may be spent on a mutant until its kill.
inline constexpr std::uint64_t kMaxDraws = 5'000'000;

struct KillOptions {
  /// false: a mutant's run ends at its first kill, the cases that are expected to make it first,
  /// cheap ones before dear ones. true: it ends when every check has killed it or has no case left.
  bool full = false;
  /// After the first kill some cheap cases of each check of suite smoke are judged too, so that the
  /// causes are those of a run and not of a case.
  bool causes = false;
  /// With `causes`: failed cases are asked again for the condition that they share. Each costs some
  /// forty runs of a case.
  bool conditions = true;
  /// No cases but those of suite smoke and those that are expected to find a mutant, and no twins.
  bool smoke_alone = false;
  std::uint64_t seed = 0;
  unsigned threads = 1;
  std::vector<std::shared_ptr<const harness::CapturedLogits>> captured;
};

/// What one check made of a mutant.
struct CheckKill {
  std::string by;           ///< id of the case that killed it; empty: none did
  std::uint64_t draws = 0;  ///< made on the mutant in this check, up to the kill
};

struct MutantOutcome {
  const Mutant* mutant = nullptr;
  bool killed = false;
  std::string by, message;             ///< id of the first case that killed it, and what that said
  harness::RunRecord record;           ///< the cases that were run, with their evidence
  std::vector<harness::Cause> causes;  ///< of these, likeliest first
  std::uint64_t draws = 0;             ///< made on the mutant, in all checks, up to the first kill
  double seconds = 0;
  std::map<std::string, CheckKill> checks;  ///< checks that judged it, by name
  std::vector<std::string> cases;           ///< ids of those that were run
  std::string trouble;                      ///< a case that could not be run

  /// What is wrong with the gate; empty: killed if it can be, within kMaxDraws; else not.
  std::string complaint() const;
};

struct TwinOutcome {
  const Twin* twin = nullptr;
  std::string semantics;
  std::uint64_t cases = 0;  ///< that judged it, without those that it lacks an ability for
  double seconds = 0;
  std::string red;  ///< the first case that was not green, and what that said
};

struct KillMatrix {
  std::vector<MutantOutcome> mutants;  ///< in the order given
  std::vector<TwinOutcome> twins;      ///< of these mutants
  double seconds = 0;

  bool complete() const;
};

/// Called before and after each mutant and each twin, `ended` one call at a time. `line` says how
/// it ended, and `wrong` that the gate is at fault.
struct KillProgress {
  std::function<void(const std::string& name)> begun;
  std::function<void(const std::string& name, const std::string& line, bool wrong)> ended;
};

/// How many run_kill_matrix judges: the mutants, and the twins of these.
std::size_t judged_count(const std::vector<const Mutant*>& mutants);

/// The cases are those of suite gate, planned and judged as `fairdraw verify` does, each on a fresh
/// instance. Mutants that cannot be told from outside are judged by suite smoke and the cases that
/// look at what is wrong with them; in a full run by all. A twin is judged by every case that its
/// mutants were. The result does not depend on the number of threads.
KillMatrix run_kill_matrix(const std::vector<const Mutant*>& mutants, const KillOptions& options,
                           const KillProgress& progress);

}  // namespace fairdraw::suites
