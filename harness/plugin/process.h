// The judge's end of a process that holds a plugin.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/plugin/library.h"
#include "harness/plugin/message.h"
#include "harness/plugin/shared_arrays.h"
#include "harness/run/running_clock.h"

namespace fairdraw::harness::plugin {

/// What becomes a process that calls host_plugin(); a path, an address and a limit are added. This
/// executable with the word "plugin-host"; a program of another shape (a Python interpreter) sets
/// it before it loads the first plugin.
std::vector<std::string>& host_command();

struct Options {
  bool trusted = false;             ///< in this process: nothing guards it
  double seconds = 60;              ///< that each call may take
  double load_seconds = 60;         ///< that starting the process and loading the plugin may take
  std::uint64_t mebibytes = 16384;  ///< of memory, beyond the arrays of a call; 0: no limit
  std::vector<std::string> host = host_command();
};

/// How a process ended, or was ended, and where it was when it did.
struct Ended {
  std::string how;            ///< "crashed with SIGSEGV", "gave no answer in 2 s", one clause
  std::string printed;        ///< "; it printed ...", or nothing
  std::uint64_t address = 0;  ///< that a crash has touched; 0: not known
};

class Process {
 public:
  using Clock = RunningClock;

  /// Starts it, executed afresh: nothing of this process is in it. Throws std::system_error where
  /// that cannot be done, UsageError where the plugin cannot be loaded or does not describe itself,
  /// by `last` or in the time that the options allow.
  Process(const std::string& path, const Options& options, const SharedArrays& arrays,
          Clock::time_point last);
  /// Ends it, and every process that it started.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const Description& description() const { return description_; }

  /// Sends a command and waits, until `end` and no longer than the options allow. Where there is no
  /// answer in time, or the plugin printed, the process is of no further use.
  std::variant<Answer, Ended> ask(Command& command, Clock::time_point end);

 private:
  /// Until `last`, and so many seconds at the most.
  std::variant<Answer, Ended> wait_for_answer(double seconds, Clock::time_point last);
  /// Whether there was a message; an answer to `calls_`, or else how the process has ended.
  std::optional<std::variant<Answer, Ended>> receive();
  void read_output();
  std::string output_clause() const;
  Ended ended(const std::string& how);
  int end_all();  ///< returns the status of the process
  void end();

  double seconds_;
  pid_t keeper_ = -1;  ///< above the plugin's process (keeper.h)
  int socket_ = -1, output_ = -1, leash_ = -1, exit_ = -1;
  std::uint32_t calls_ = 0;
  std::string printed_;  ///< the end of what came since the last command
  std::uint64_t printed_bytes_ = 0;
  Answer fault_;
  Description description_;
};

}  // namespace fairdraw::harness::plugin
