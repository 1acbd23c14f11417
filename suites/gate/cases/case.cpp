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

std::vector<std::string> suite_names() { return {"smoke", "gate", "nightly"}; }

Suite suite_from_name(std::string_view name) {
  for (const Suite suite : {Suite::smoke, Suite::gate, Suite::nightly}) {
    if (name == to_string(suite)) return suite;
  }
  throw harness::UsageError(harness::unknown_name_message("suite", name, suite_names()));
}

}  // namespace fairdraw::suites
