#include "suites/gate/cases/mark_cases.h"

#include <utility>

#include "suites/gate/cases/operation_lists.h"

namespace fairdraw::suites {

using harness::Family;
using harness::MarkScheme;

std::vector<NamedCase> mark_cases() {
  std::vector<NamedCase> cases;
  const auto relations = [&cases](Suite suite, Input input, const char* name,
                                  std::vector<Operation> operations) {
    Case entry{.suite = suite, .check = Check::marks, .input = std::move(input), .rows = 64};
    entry.operations = std::move(operations);
    cases.push_back({std::move(entry), name});
  };
  relations(Suite::smoke, family_input(Family::gaussian, 250), "everyday", everyday_operations());
  relations(Suite::smoke, family_input(Family::gaussian, 31), "unfiltered",
            operations_with({}, 31));
  relations(Suite::gate, family_input(Family::ties_at_k, 1000), "everyday", everyday_operations());
  relations(Suite::gate, family_input(Family::gaussian_wide, 1000, DType::bfloat16), "everyday",
            everyday_operations());

  // Each marked draw is a row of its own, so that the vocabularies are small. In a large one, more
  // words are next to 1, where a generator of few bits has ties.
  struct Row {
    Check check;
    MarkScheme scheme;
    DistributionRow draws;
  };
  const Row rows[] = {
      {Check::chi_squared,
       MarkScheme::by_key,
       {Suite::smoke, Family::gaussian, 31, "top_p_0.9/t1", 50'000, 0.04}},
      {Check::chi_squared,
       MarkScheme::by_key_and_seed,
       {Suite::smoke, Family::gaussian, 31, "top_p_0.9/t1", 50'000, 0.04}},
      {Check::bets,
       MarkScheme::by_key,
       {Suite::gate, Family::gaussian_wide, 1000, "none/t1", 50'000, 0.05}},
      {Check::bets,
       MarkScheme::by_key_and_seed,
       {Suite::gate, Family::gaussian_wide, 250, "min_p_0.01/t1", 50'000, 0.05}},
  };
  for (const auto& [check, scheme, draws] : rows) {
    NamedCase named = distribution_case(check, draws);
    named.entry.marked = scheme;
    cases.push_back(std::move(named));
  }
  return cases;
}

}  // namespace fairdraw::suites
