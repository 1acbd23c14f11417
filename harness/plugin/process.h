// The judge's end of a process that holds a plugin.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "harness/plugin/library.h"
#include "harness/plugin/message.h"
#include "harness/plugin/shared_arrays.h"

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
  /// Starts it, executed afresh: nothing of this process is in it. Throws std::system_error where
  /// that cannot be done, UsageError where the plugin cannot be loaded or does not describe itself.
  Process(const std::string& path, const Options& options, const SharedArrays& arrays);
  /// Ends its whole group of processes.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const Description& description() const { return description_; }

  /// Sends a command and waits. Where there is no answer in time, or the plugin printed, the
  /// process is of no further use.
  std::variant<Answer, Ended> ask(const Command& command);

 private:
  using Clock = std::chrono::steady_clock;

  std::variant<Answer, Ended> wait_for_answer(double seconds);
  bool receive(Answer& answer);
  void read_output();
  std::string output_clause() const;
  Ended ended(const std::string& how);
  int end_group();  ///< returns the status of the process
  void end();

  double seconds_;
  pid_t process_ = -1;
  int socket_ = -1, output_ = -1, exit_ = -1;
  std::string printed_;  ///< the end of what came since the last command
  std::uint64_t printed_bytes_ = 0;
  Answer fault_;
  Description description_;
};

}  // namespace fairdraw::harness::plugin
