// Signals while a verb runs. Handlers are functions and never SIG_IGN: a plugin's process inherits
// what is ignored, and not what is handled.
#pragma once

#include <csignal>
#include <string>
#include <vector>

namespace fairdraw::cli {

/// While it lives, `handler` has these signals; afterwards those have them that had them before.
class HandledSignals {
 public:
  HandledSignals(const std::vector<int>& signals, void (*handler)(int));
  ~HandledSignals();
  HandledSignals(const HandledSignals&) = delete;
  HandledSignals& operator=(const HandledSignals&) = delete;

 private:
  struct Before {
    int signal;
    struct sigaction action;
  };
  std::vector<Before> before_;
};

/// While it lives, a write that fails because the reader has gone or a file would be too large
/// returns its error, in place of ending the process with SIGPIPE or SIGXFSZ.
class FailedWritesReturn {
 private:
  HandledSignals signals_{{SIGPIPE, SIGXFSZ}, [](int) {}};
};

/// While it lives, a signal that ends the process takes along what is half written
/// (reports::remove_pending_files). One that has a handler already, as in a Python interpreter,
/// keeps it.
class SignalsTakeAlong {
 public:
  SignalsTakeAlong();

 private:
  HandledSignals signals_;
};

/// While it lives, SIGINT, SIGTERM and SIGHUP wait, until let_signals_in() or the end: a call
/// removes first what an earlier one left.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_{};
};

void let_signals_in();

/// While it lives, the first SIGINT, SIGTERM or SIGHUP asks for an end (stop_reason), and a second
/// one, more than a moment later, ends the process at once. One that is ignored (nohup) stays so,
/// and those that HeldSignals has kept are let in.
class StopSignals {
 public:
  StopSignals();

 private:
  struct Fresh {
    Fresh();
  };
  Fresh fresh_;
  HandledSignals signals_;
};

/// "stopped by SIGINT"; empty: no signal asked for an end.
std::string stop_reason();

}  // namespace fairdraw::cli
