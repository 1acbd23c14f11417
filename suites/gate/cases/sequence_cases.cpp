#include "suites/gate/cases/sequence_cases.h"

#include <utility>

#include "suites/gate/cases/operation_lists.h"

namespace fairdraw::suites {

using harness::Family;

std::vector<NamedCase> sequence_cases() {
  std::vector<NamedCase> cases;
  const auto add = [&cases](Suite suite, Input input, const char* name,
                            std::vector<Operation> operations, bool banned = false) {
    Case entry{.suite = suite,
               .check = Check::sequences,
               .input = std::move(input),
               .banned_tokens = banned,
               .rows = 64};  // number of different rows of logits that the requests use
    entry.operations = std::move(operations);
    cases.push_back({std::move(entry), name});
  };
  // With few ids, penalties, bans and bad words concern tokens that were drawn before. In requests
  // without filters, every change of a logit changes which tokens are drawn.
  add(Suite::smoke, family_input(Family::gaussian, 31), "everyday", everyday_operations());
  add(Suite::smoke, family_input(Family::gaussian, 7), "unfiltered", operations_with({}, 7));
  add(Suite::smoke, family_input(Family::gaussian, 65, DType::bfloat16), "everyday",
      everyday_operations(), /*banned=*/true);
  add(Suite::gate, family_input(Family::ties_at_k, 1000), "everyday", everyday_operations());
  add(Suite::gate, family_input(Family::gaussian_wide, 1000, DType::float16), "everyday",
      everyday_operations());
  add(Suite::gate, family_input(Family::all_equal, 33), "unfiltered", operations_with({}, 33));
  return cases;
}

}  // namespace fairdraw::suites
