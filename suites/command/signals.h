// Handles signals while a verb runs. Handlers are always functions and never SIG_IGN, because a
// plugin's process inherits ignored signals, but not handlers.
#pragma once

#include <csignal>
#include <string>
#include <vector>

namespace fairdraw::cli {

/// Installs `handler` for the given signals during the lifetime of the object, and then restores
/// the previous handlers.
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

/// During the lifetime of the object, a write to a closed pipe or to a file that is too large
/// returns its error, instead of ending the process with SIGPIPE or SIGXFSZ.
class FailedWritesReturn {
 private:
  HandledSignals signals_{{SIGPIPE, SIGXFSZ}, [](int) {}};
};

/// During the lifetime of the object, a signal that ends the process also removes half-written
/// files (reports::remove_pending_files). If a signal already has a handler, as in a Python
/// interpreter, it keeps that handler.
class SignalsTakeAlong {
 public:
  SignalsTakeAlong();

 private:
  HandledSignals signals_;
};

/// Delays SIGINT, SIGTERM and SIGHUP until let_signals_in() or the end of the object's lifetime, so
/// that a call can first remove the results of an earlier call.
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

/// Handles SIGINT, SIGTERM and SIGHUP during the lifetime of the object. The first signal requests
/// an end (stop_reason); a second one, at least 0.2 s later, ends the process at once. Signals that
/// are ignored (nohup) stay ignored, and signals that HeldSignals has delayed are let in.
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

/// Returns a text such as "stopped by SIGINT", or an empty string if no signal has requested an
/// end.
std::string stop_reason();

}  // namespace fairdraw::cli
