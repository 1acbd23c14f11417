// What the judge and the process that holds a plugin say to each other, over a socket that keeps
// the bounds of messages. Both sides are the same executable: the layouts agree. Arrays are not in
// the messages; they lie in shared memory at the same addresses on both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "harness/plugin/float_state.h"
#include "harness/plugin/library.h"

namespace fairdraw::harness::plugin {

// Open in the child when it starts.
inline constexpr int kSocketFile = 3;
inline constexpr int kArraysFile = 4;
inline constexpr int kLeashFile = 5;  // of its keeper, a stream (keeper.h)

struct Command {
  std::uint32_t kind = 0;    ///< of the call (call_kind.h)
  std::uint32_t number = 0;  ///< of the call, from 1 on
  std::int32_t threads = 1;  ///< OpenMP threads that the call may use
  FloatState floats;         ///< of the caller
  alignas(std::max_align_t) std::byte call[1024] = {};
};

enum class AnswerKind : std::uint32_t {
  described,   ///< loaded; text: name, version, semantics and overrides, each with its 0
  not_loaded,  ///< text: why
  ran,
  refused,  ///< text: why
  fault,    ///< a signal whose address is known; the process ends of it
};

struct Answer {
  AnswerKind kind = AnswerKind::ran;
  std::uint32_t number = 0;  ///< of the call that it answers; 0: it answers none
  std::int32_t signal = 0;
  std::uint64_t address = 0;
  std::uint64_t abilities = 0, randomness = 0;
  std::uint32_t pointers = 0;
  std::uint32_t samples = 0;  ///< of a description: 0 where there is no fairdraw_plugin_run
  std::uint32_t text_bytes = 0;
  FloatState floats;  ///< as the call left them
  char text[2048] = {};
};

inline constexpr std::size_t kAnswerHead = offsetof(Answer, text);

// Whoever has the other end may send anything: a message that does not pass is not looked at
// further. A kind that sets no field leaves its 0 there.

/// True for a message of `bytes` that answers call `number` (0: the loading), or tells of a fault.
bool is_answer(const Answer& answer, std::size_t bytes, std::uint32_t number);
bool is_command(const Command& command);

/// Returns the text of an answer that is one, on one line.
std::string text_of(const Answer& answer);
/// Returns the description of an answer that describes.
Description description_of(const Answer& answer);

}  // namespace fairdraw::harness::plugin
