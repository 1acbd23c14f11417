// A case: one claim about a sampler, on named inputs. One table of cases feeds tests, verify and
// the list; its ids are addresses and never depend on the run.
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

/// smoke < gate < nightly: a suite runs its own cases and those of the ones before it.
enum class Suite { smoke, gate, nightly };

using harness::Check;

const char* to_string(Suite suite);
/// Throws harness::UsageError with the closest name.
Suite suite_from_name(std::string_view name);
std::vector<std::string> suite_names();

/// Rows of a family, or of a captured file.
struct Input {
  harness::Family family = harness::Family::gaussian;
  std::shared_ptr<const harness::CapturedLogits> captured;  ///< instead of the family
  std::int64_t vocab = 0;
  DType dtype = DType::float32;
};

struct Case {
  std::string id = {};  ///< check/input/vVOCAB[/dtype]/operations/tTEMPERATURE[/more]
  Suite suite = Suite::gate;
  Check check = Check::mask;
  Input input = {};
  std::vector<Operation> operations = {};  ///< row i is asked operations[i % size]; tie rule and
                                           ///< filter order are the first one's
  std::optional<Sampled> sampled = {};  ///< the run's seed chooses vocabulary and operations; until
                                        ///< then these are the largest one, and empty or the case's
  bool literal = false;  ///< asks for top_k 0 even where the profile calls it an error; else the
                         ///< vocabulary size replaces 0 there
  bool banned_tokens = false;  ///< a bitmask bans half of the ids
  bool processed = false;      ///< each row has logits processing of its own
  bool from_probs = false;     ///< the sampler is given probabilities instead of logits
  std::int64_t first_row = 0;
  std::int64_t rows = 1;
  std::uint64_t draws = 0;
  double declared_discrepancy = 0;  ///< what a statistical check must find
  bool once = false;  ///< many draws: judged for one of several samplers that are bit-identical
  bool once_a_processor = false;  ///< many rows: judged for one instruction set of a processor,
                                  ///< since all share the code that goes from row to row
};

/// All cases of `suite`, the ones on captured logits last. Ids are unique.
std::vector<Case> case_table(
    Suite suite, const std::vector<std::shared_ptr<const harness::CapturedLogits>>& captured = {});

/// Statistical cases that the error budget is shared out to. A constant, so that a case has the
/// same share, and with it the same verdict, in every suite, shard and replay.
inline constexpr std::uint64_t kStatisticalCases = 1024;

}  // namespace fairdraw::suites
