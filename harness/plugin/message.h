// Defines the messages between the judge and the process that holds a plugin; the messages use a
// socket that preserves message boundaries. Both sides run the same executable, so the structs have
// the same layout. Messages do not hold arrays, because arrays are in shared memory at the same
// addresses on both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "harness/plugin/float_state.h"
#include "harness/plugin/library.h"

namespace fairdraw::harness::plugin {

// The numbers of the files that are open in the child process when it starts.
inline constexpr int kSocketFile = 3;
inline constexpr int kArraysFile = 4;
inline constexpr int kLeashFile = 5;  // stream between the judge and the keeper (keeper.h)

struct Command {
  std::uint32_t kind = 0;    ///< number of the call's kind (call_kind.h)
  std::uint32_t number = 0;  ///< number of the call, counted from 1
  std::int32_t threads = 1;  ///< maximum number of OpenMP threads of the call
  FloatState floats;         ///< floating-point state of the caller
  alignas(std::max_align_t) std::byte call[1024] = {};
};

enum class AnswerKind : std::uint32_t {
  described,   ///< the plugin is loaded; text: name, version, semantics and overrides, each ended
               ///< by a zero byte
  not_loaded,  ///< text: the reason
  ran,
  refused,  ///< text: the reason
  fault,    ///< a signal with a known address, which will end the process
};

struct Answer {
  AnswerKind kind = AnswerKind::ran;
  std::uint32_t number = 0;  ///< number of the call that this message answers; 0: none
  std::int32_t signal = 0;
  std::uint64_t address = 0;
  std::uint64_t abilities = 0, randomness = 0;
  std::uint32_t pointers = 0;
  std::uint32_t samples = 0;  ///< in a description: 0 if there is no fairdraw_plugin_run
  std::uint32_t text_bytes = 0;
  FloatState floats;  ///< floating-point state in which the call left the thread
  char text[2048] = {};
};

inline constexpr std::size_t kAnswerHead = offsetof(Answer, text);

// A plugin may send any bytes over the socket, so a message is validated before its fields are
// read. Fields that a kind of answer does not use are 0.

/// True for a valid message of `bytes` bytes that answers call `number` (0: the loading of the
/// plugin) or reports a fault.
bool is_answer(const Answer& answer, std::size_t bytes, std::uint32_t number);
bool is_command(const Command& command);

/// Returns the text of a valid answer, on one line.
std::string text_of(const Answer& answer);
/// Returns the description in an answer of kind `described`.
Description description_of(const Answer& answer);

}  // namespace fairdraw::harness::plugin
