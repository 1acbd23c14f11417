// This fuzz target reads bytes as a message between the judge and a plugin's process, unchanged and
// with each byte of the head inverted. The judge must reject or accept the message, and its own
// state must stay the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "harness/contract/usage_error.h"
#include "harness/plugin/call_kind.h"
#include "harness/plugin/message.h"
#include "suites/gate/fuzz/targets/target.h"

namespace {

using namespace fairdraw::harness;
using namespace fairdraw::harness::plugin;

void expect(bool holds) {
  if (!holds) std::abort();
}

void describe(const Answer& answer) {
  const Description said = description_of(answer);
  for (const std::string* text : {&said.name, &said.version, &said.semantics, &said.overrides}) {
    expect(text->find_first_of("\n\r\t\x1b") == std::string::npos);
  }
  try {
    to_sampler_description(said, "plugin:./fuzzed.so");
  } catch (const UsageError&) {
    // The message is rejected, because the bytes are not a message.
  }
}

void take_modes(const FloatState& said) {
  const FloatState before = float_state();
  take_float_modes(said);
  const FloatState after = float_state();
  take_float_modes(before);
  expect(float_traps(after) == float_traps(before));
  expect(is_float_state(after));
  // Every floating-point trap in the message has a name.
  expect(unmasked_traps(0, float_traps(said)).empty() == (float_traps(said) == 0));
}

void take(const Answer& answer, std::size_t size) {
  for (const std::uint32_t number : {0U, answer.number}) {
    if (!is_answer(answer, size, number)) continue;
    const std::string text = text_of(answer);
    expect(text.find('\n') == std::string::npos);
    if (answer.kind == AnswerKind::ran) expect(text.empty());
    if (answer.kind == AnswerKind::refused) expect(!text.empty());
    if (answer.kind == AnswerKind::described) describe(answer);
    take_modes(answer.floats);
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Answer answer;
  std::memcpy(&answer, data, std::min(size, sizeof(answer)));
  take(answer, size);
  auto* const bytes = reinterpret_cast<unsigned char*>(&answer);
  for (std::size_t i = 0; i < kAnswerHead; ++i) {
    bytes[i] ^= 0xff;
    take(answer, size);
    bytes[i] ^= 0xff;
  }
  Command command;
  std::memcpy(&command, data, std::min(size, sizeof(command)));
  if (is_command(command)) {
    expect(call_kind(command.kind).bytes <= sizeof(command.call));
    take_modes(command.floats);
  }
  return 0;
}
