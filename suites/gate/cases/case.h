// A case is one claim about a sampler, on named inputs. Tests, `verify` and `list` use the same
// table of cases. The id of a case is a stable address that never depends on the run.
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
#include "harness/run/calls/marks.h"
#include "harness/run/checks/checks.h"
#include "suites/gate/cases/operation.h"
#include "suites/gate/cases/sampled/sampled.h"

namespace fairdraw::suites {

/// The suites, smoke < gate < nightly: a suite includes the cases of all smaller suites.
enum class Suite { smoke, gate, nightly };

using harness::Check;

const char* to_string(Suite suite);
/// Returns the suite of this name. Throws harness::UsageError with the closest name if there is no
/// such suite.
Suite suite_from_name(std::string_view name);
std::vector<std::string> suite_names();

/// The source of a case's rows: a family, or a captured file.
struct Input {
  harness::Family family = harness::Family::gaussian;
  /// captured file that gives the rows, instead of the family
  std::shared_ptr<const harness::CapturedLogits> captured;
  std::int64_t vocab = 0;
  DType dtype = DType::float32;
  float added = 0;       ///< number that is added to all logits of the family
  bool widened = false;  ///< true if the values of `dtype` are stored in float32
  float divisor = 1;     ///< number by which the values of float32 rows are divided at last
};

struct Case {
  std::string id = {};  ///< the id has the form
                        ///< check/input/vVOCAB[/dtype]/operations/tTEMPERATURE[/more]
  Suite suite = Suite::gate;
  Check check = Check::mask;
  Input input = {};
  std::vector<Operation> operations = {};  ///< row i gets operations[i % size]; the first operation
                                           ///< sets tie rule and filter order for the call
  /// Set if the run's seed chooses vocabulary and operations. Until the seed has chosen, `vocab` is
  /// the largest vocabulary, and `operations` is empty or that of the case.
  std::optional<Sampled> sampled = {};
  bool literal = false;        ///< true if top_k 0 is kept even if the profile calls 0 an error;
                               ///< otherwise the vocabulary size replaces it
  bool banned_tokens = false;  ///< true if a bitmask bans half of the ids
  bool processed = false;      ///< true if each row has its own logits processing
  bool from_probs = false;     ///< true if the sampler gets probabilities instead of logits
  /// Set if the draws of a row are marked.
  std::optional<harness::MarkScheme> marked = {};
  std::int64_t first_row = 0;
  std::int64_t rows = 1;
  std::int64_t requests_of_call = 0;  ///< set in neighbours of cases; 0: the check's own number
  std::uint64_t draws = 0;
  double declared_discrepancy = 0;  ///< the discrepancy that a statistical check must be able to
                                    ///< detect
  bool once = false;              ///< true if the case has many draws, so that only one of several
                                  ///< bit-identical samplers is judged by it
  bool once_a_processor = false;  ///< true if the case has many rows, so that only one instruction
                                  ///< set per processor is judged by it, because all instruction
                                  ///< sets share the loop over rows
};

/// Returns all cases of `suite`; cases on captured logits come last. Ids are unique.
std::vector<Case> case_table(
    Suite suite, const std::vector<std::shared_ptr<const harness::CapturedLogits>>& captured = {});

/// Number of statistical cases among which the error budget is divided. The number is constant, so
/// that a case has the same share of the budget, and therefore the same verdict, in every suite,
/// shard and replay.
inline constexpr std::uint64_t kStatisticalCases = 1024;

}  // namespace fairdraw::suites
