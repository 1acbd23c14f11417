// This fuzz target reads bytes as a report.json. from_json() must accept the bytes or name the
// error. An accepted report must be rendered, and must be read back unchanged after writing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "reports/report.h"
#include "suites/gate/fuzz/targets/target.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fairdraw;
  harness::RunRecord record;
  try {
    record = reports::from_json(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const std::runtime_error&) {
    return 0;  // bad input
  }
  const std::string text = reports::to_json(record);
  if (reports::to_json(reports::from_json(text)) != text) std::abort();
  for (const std::string& page : {reports::to_html(record), reports::to_markdown(record),
                                  reports::to_junit_xml(record), reports::to_terminal(record)}) {
    if (page.empty()) std::abort();
  }
  return 0;
}
