// A case: one claim about a sampler, on named inputs. Tests, `verify` and `list` use the same table
// of cases. The ids of cases are stable addresses that never depend on the run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fairdraw/types.h"
#include "harness/inputs/captured_logits.h"
#include "harness/inputs/families.h"
#include "harness/run/checks/checks.h"
#include "suites/gate/cases/operation.h"
#include "suites/gate/cases/sampled/sampled.h"

namespace fairdraw::suites {

/// smoke < gate < nightly: a suite includes the cases of all smaller suites.
enum class Suite { smoke, gate, nightly };

using harness::Check;

const char* to_string(Suite suite);
/// Throws harness::UsageError with the closest name if there is no such suite.
Suite suite_from_name(std::string_view name);
std::vector<std::string> suite_names();

/// Source of a case's rows: a family, or a captured file.
struct Input {
  harness::Family family = harness::Family::gaussian;
  std::shared_ptr<const harness::CapturedLogits> captured;  ///< rows of this captured file instead
                                                            ///< of the family
  std::int64_t vocab = 0;
  DType dtype = DType::float32;
  float added = 0;  ///< number added to all logits of the family
};

struct Case {
  std::string id = {};  ///< check/input/vVOCAB[/dtype]/operations/tTEMPERATURE[/more]
  Suite suite = Suite::gate;
  Check check = Check::mask;
  Input input = {};
  std::vector<Operation> operations = {};  ///< row i gets operations[i % size]; the first one sets
                                           ///< tie rule and filter order
  std::optional<Sampled> sampled = {};     ///< set if the run's seed chooses vocabulary and
                                        ///< operations; until then `vocab` is the largest one, and
                                        ///< `operations` is empty or the case's
  bool literal = false;  ///< keeps top_k 0 even if the profile calls 0 an error; otherwise the
                         ///< vocabulary size replaces it
  bool banned_tokens = false;  ///< whether a bitmask bans half of the ids
  bool processed = false;      ///< whether each row has its own logits processing
  bool from_probs = false;     ///< whether the sampler is given probabilities instead of logits
  std::int64_t first_row = 0;
  std::int64_t rows = 1;
  std::uint64_t draws = 0;
  double declared_discrepancy = 0;  ///< the discrepancy that a statistical check must find
  bool once = false;  ///< whether the case has many draws: judged for only one of several
                      ///< bit-identical samplers
  bool once_a_processor = false;  ///< whether the case has many rows: judged for one instruction
                                  ///< set per processor, because all share the loop over rows
};

/// Returns all cases of `suite`; cases on captured logits come last. Ids are unique.
std::vector<Case> case_table(
    Suite suite, const std::vector<std::shared_ptr<const harness::CapturedLogits>>& captured = {});

/// Number of statistical cases among which the error budget is divided. The number is a constant,
/// so that a case has the same share, and therefore the same verdict, in every suite, shard and
/// replay.
inline constexpr std::uint64_t kStatisticalCases = 1024;

}  // namespace fairdraw::suites
