// Declares the judge's side of a process that holds a plugin.
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

/// Returns the command that starts host_plugin(); the code appends a path, an address and a limit.
/// The default command is this executable with the word "plugin-host". Other programs, such as a
/// Python interpreter, must set the command before the first plugin is loaded.
std::vector<std::string>& host_command();

struct Options {
  bool trusted = false;             ///< true if the plugin runs in this process, without guards
  double seconds = 60;              ///< maximum time of each call in seconds
  double load_seconds = 60;         ///< maximum time to start the process and load the plugin
  std::uint64_t mebibytes = 16384;  ///< maximum memory in MiB beyond arrays of a call; 0: no limit
  std::vector<std::string> host = host_command();
};

/// The way in which a process ended or was ended, and the address at which it crashed.
struct Ended {
  std::string how;            ///< a clause such as "crashed with SIGSEGV", "gave no answer in 2 s"
  std::string printed;        ///< text such as "; it printed ...", or empty
  std::uint64_t address = 0;  ///< address whose access crashed; 0 if not known
};

class Process {
 public:
  using Clock = RunningClock;

  /// Starts the process by a new exec, so that the process inherits no memory of this one. Throws
  /// std::system_error if the process cannot be started. Throws UsageError if the plugin cannot be
  /// loaded or does not describe itself by `last` or in the time that the options allow.
  Process(const std::string& path, const Options& options, const SharedArrays& arrays,
          Clock::time_point last);
  /// Ends the plugin's process, and every process that the plugin started.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const Description& description() const { return description_; }

  /// Sends a command and waits for the answer until `end`, but at most as long as the options
  /// allow. If no answer comes in time, or the plugin prints, the process cannot be used again.
  std::variant<Answer, Ended> ask(Command& command, Clock::time_point end);

 private:
  /// Waits for the plugin's answer until `last`, but at most `seconds` seconds.
  std::variant<Answer, Ended> wait_for_answer(double seconds, Clock::time_point last);
  /// Receives a message from the plugin's process, if there is one: an answer to call `calls_`, or
  /// how the process has ended.
  std::optional<std::variant<Answer, Ended>> receive();
  void read_output();
  std::string output_clause() const;
  Ended ended(const std::string& how);
  int end_all();  ///< returns the exit status of the plugin's process
  void end();

  double seconds_;
  pid_t keeper_ = -1;  ///< the parent of the plugin's process (keeper.h)
  int socket_ = -1, output_ = -1, leash_ = -1, exit_ = -1;
  std::uint32_t calls_ = 0;
  std::string printed_;  ///< last part of the output since the last command
  std::uint64_t printed_bytes_ = 0;
  Answer fault_;
  Description description_;
};

}  // namespace fairdraw::harness::plugin
