// Handles signals while a verb runs. Handlers are functions and never SIG_IGN, because a plugin's
// process inherits ignored signals, but not handlers.
#pragma once

#include <csignal>
#include <string>
#include <vector>

namespace fairdraw::cli {

/// Installs `handler` for these signals during its lifetime, and then restores the previous
/// handlers.
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

/// Lets a write to a closed pipe or a too large file return its error during its lifetime, instead
/// of ending the process with SIGPIPE or SIGXFSZ.
class FailedWritesReturn {
 private:
  HandledSignals signals_{{SIGPIPE, SIGXFSZ}, [](int) {}};
};

/// Removes half-written files (reports::remove_pending_files) if a signal ends the process during
/// its lifetime. A signal that already has a handler, as in a Python interpreter, keeps it.
class SignalsTakeAlong {
 public:
  SignalsTakeAlong();

 private:
  HandledSignals signals_;
};

/// Delays SIGINT, SIGTERM and SIGHUP until let_signals_in() or the end of its lifetime, so that a
/// call can first remove the results of an earlier call.
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

/// Handles SIGINT, SIGTERM and SIGHUP during its lifetime: the first requests an end (stop_reason),
/// and a second one, at least 0.2 s later, ends the process at once. Ignored signals (nohup) stay
/// ignored, and signals delayed by HeldSignals are let in.
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

/// Returns "stopped by SIGINT", or an empty string if no signal has requested an end.
std::string stop_reason();

}  // namespace fairdraw::cli
