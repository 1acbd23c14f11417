#include "suites/gate/cases/case.h"

#include "harness/contract/usage_error.h"

namespace fairdraw::suites {

const char* to_string(Suite suite) {
  switch (suite) {
    case Suite::smoke:
      return "smoke";
    case Suite::gate:
      return "gate";
    case Suite::nightly:
      return "nightly";
  }
  return "unknown";
}

const char* to_string(Check check) {
  switch (check) {
    case Check::mask:
      return "mask";
    case Check::tokens:
      return "tokens";
    case Check::support:
      return "support";
    case Check::status:
      return "status";
    case Check::processing:
      return "processing";
    case Check::replay:
      return "replay";
    case Check::streams:
      return "streams";
    case Check::scripted:
      return "scripted";
    case Check::chain:
      return "chain";
    case Check::chain_distribution:
      return "chain_law";
    case Check::verify:
      return "verify";
    case Check::speculation_distribution:
      return "verify_law";
    case Check::tree_distribution:
      return "verify_tree_law";
    case Check::metamorphic:
      return "metamorphic";
    case Check::float_environment:
      return "float_environment";
    case Check::probabilities:
      return "probabilities";
    case Check::logprobs:
      return "logprobs";
    case Check::chi_squared:
      return "chi_squared";
    case Check::bets:
      return "bets";
    case Check::binomial:
      return "binomial";
    case Check::pit:
      return "pit";
  }
  return "unknown";
}

std::vector<std::string> suite_names() { return {"smoke", "gate", "nightly"}; }

Suite suite_from_name(std::string_view name) {
  for (const Suite suite : {Suite::smoke, Suite::gate, Suite::nightly}) {
    if (name == to_string(suite)) return suite;
  }
  throw harness::UsageError(harness::unknown_name_message("suite", name, suite_names()));
}

bool is_statistical(Check check) {
  return check == Check::streams || check == Check::chi_squared || check == Check::bets ||
         check == Check::binomial || check == Check::pit || check == Check::chain_distribution ||
         check == Check::speculation_distribution || check == Check::tree_distribution;
}

}  // namespace fairdraw::suites
