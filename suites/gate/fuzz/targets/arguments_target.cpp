// This fuzz target reads bytes as values of the command line: operations, 64-bit numbers, shards,
// sampled values, dtypes, property names. Each value must be accepted or rejected with a
// UsageError, and an accepted operation must have exactly one name.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "harness/contract/usage_error.h"
#include "suites/command/captured_files.h"
#include "suites/command/run_options.h"
#include "suites/command/seed.h"
#include "suites/gate/cases/operation.h"
#include "suites/gate/cases/sampled/sampled_text.h"
#include "suites/gate/fuzz/properties.h"
#include "suites/gate/fuzz/targets/target.h"
#include "suites/gate/run/plan.h"

namespace {

using namespace fairdraw;

template <class Parse>
void try_to(Parse parse) {
  try {
    parse();
  } catch (const harness::UsageError&) {
    // Bad input.
  }
}

// Returns a case of one row whose filters are all chosen by the seed.
suites::Case sampled_case() {
  suites::Case entry;
  entry.id = "sampled";
  entry.sampled = suites::Sampled{.largest_vocab = 1000, .filters = {true, true, true}};
  return suites::with_values(entry, 1);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try_to([&] {
    const suites::Operation operation = suites::parse_operation(text);
    const std::string name = suites::operation_name(operation);
    if (suites::operation_name(suites::parse_operation(name)) != name) std::abort();
  });
  try_to([&] {
    const std::uint64_t number = cli::parse_uint64("--seed", text);
    if (cli::parse_uint64("--seed", std::to_string(number)) != number) std::abort();
  });
  try_to([&] {
    const harness::CasePart part = cli::parse_part("--shard", text);
    if (part.part < 1 || part.part > part.parts) std::abort();
  });
  try_to([&] {
    static const suites::Case entry = sampled_case();
    const std::string said = suites::sampled_text(suites::with_sampled_text(entry, text));
    if (suites::sampled_text(suites::with_sampled_text(entry, said)) != said) std::abort();
  });
  try_to([&] { cli::dtype_from_name(text); });
  try_to([&] { suites::fuzz::find_property(text); });
  try_to([&] { suites::suite_from_name(text); });
  return 0;
}
