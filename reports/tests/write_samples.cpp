// Prints the sample records as one JSON object: {name: {"report": ..., "junit": ..., "html": ...,
// "markdown": ...}}, each a string. The Python checks read it.

#include <iostream>
#include <nlohmann/json.hpp>

#include "reports/report.h"
#include "sample_records.h"

int main() {
  using namespace fairdraw::reports;
  nlohmann::ordered_json samples;
  const auto add = [&samples](const char* name, const fairdraw::harness::RunRecord& record) {
    samples[name] = {{"report", to_json(record)},
                     {"junit", to_junit_xml(record)},
                     {"html", to_html(record)},
                     {"markdown", to_markdown(record)}};
  };
  add("small", small_record());
  add("nasty", nasty_record());
  // A run without a case, and without the strings that a caller may leave out.
  fairdraw::harness::RunRecord empty;
  empty.tool_version = "0.1.0";
  empty.suite = "gate";
  empty.shard = "1/1";
  add("empty", empty);
  std::cout << samples.dump() << '\n';
}
