#include "harness/plugin/message.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "harness/plugin/call_kind.h"
#include "harness/plugin/one_line.h"

namespace fairdraw::harness::plugin {
namespace {

constexpr std::size_t kTexts = 4;  // texts of a description

// Splits the texts of a description, each of which ends with a zero byte.
std::array<std::string, kTexts> texts_of(std::string_view text) {
  std::array<std::string, kTexts> texts;
  for (std::string& one : texts) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    one = on_one_line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return texts;
}

bool describes(const Answer& answer, std::string_view text) {
  return answer.samples <= 1 && text.ends_with('\0') &&
         std::ranges::count(text, '\0') == static_cast<std::ptrdiff_t>(kTexts);
}

bool tells_of_a_fault(const Answer& answer) {
  return (answer.signal == SIGSEGV || answer.signal == SIGBUS) && answer.text_bytes == 0;
}

}  // namespace

bool is_answer(const Answer& answer, std::size_t bytes, std::uint32_t number) {
  if (bytes < kAnswerHead || bytes > sizeof(answer)) return false;
  if (answer.text_bytes != bytes - kAnswerHead || !is_float_state(answer.floats)) return false;
  if (answer.kind == AnswerKind::fault) return answer.number == 0 && tells_of_a_fault(answer);
  if (answer.number != number || answer.signal != 0 || answer.address != 0) return false;
  switch (answer.kind) {
    case AnswerKind::described:
      return number == 0 && describes(answer, {answer.text, answer.text_bytes});
    case AnswerKind::not_loaded:
      return number == 0 && !text_of(answer).empty();
    case AnswerKind::ran:
      return number != 0 && answer.text_bytes == 0;
    case AnswerKind::refused:
      return number != 0 && !text_of(answer).empty();
    case AnswerKind::fault:
      break;
  }
  return false;  // an unknown kind
}

bool is_command(const Command& command) {
  return command.kind < call_kinds() && command.number != 0 && command.threads >= 1 &&
         is_float_state(command.floats);
}

std::string text_of(const Answer& answer) {
  return on_one_line({answer.text, std::min<std::size_t>(answer.text_bytes, sizeof(answer.text))});
}

Description description_of(const Answer& answer) {
  const std::array<std::string, kTexts> texts = texts_of({answer.text, answer.text_bytes});
  return {texts[0],         texts[1],          texts[2],        texts[3],
          answer.abilities, answer.randomness, answer.pointers, answer.samples != 0};
}

}  // namespace fairdraw::harness::plugin
