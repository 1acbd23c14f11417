#include "harness/plugin/host.h"

#include <omp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <vector>

#include "harness/contract/error_text.h"
#include "harness/plugin/call_kind.h"
#include "harness/plugin/keeper.h"
#include "harness/plugin/library.h"
#include "harness/plugin/message.h"
#include "harness/plugin/shared_arrays.h"
#include "harness/run/calls/kept_float_environment.h"

namespace fairdraw::harness::plugin {
namespace {

constexpr int kExitUsage = 2;

// Reports a fault by calling only functions that a signal handler may call.
void report_fault(int signal, siginfo_t* info, void* /*context*/) {
  Answer answer;
  answer.kind = AnswerKind::fault;
  answer.signal = signal;
  // A fault of the hardware, and not a call of raise() or kill().
  const bool of_an_instruction = info->si_code > 0;
  if (of_an_instruction) answer.address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  send(kSocketFile, &answer, kAnswerHead, MSG_DONTWAIT | MSG_NOSIGNAL);
  // The instruction runs again and ends the process as it would have done without this handler.
  std::signal(signal, SIG_DFL);
  if (!of_an_instruction) std::raise(signal);
}

// The number of bytes of the handler's own stack, which it needs if the plugin's stack has
// overflowed.
constexpr std::size_t kSignalStack = std::size_t{1} << 16;

void catch_faults() {
  stack_t stack{};
  sigaltstack(nullptr, &stack);
  if ((static_cast<unsigned>(stack.ss_flags) & SS_DISABLE) != 0) {  // no sanitizer has a stack here
    static std::vector<std::byte> memory(kSignalStack);
    stack = {};
    stack.ss_sp = memory.data();
    stack.ss_size = memory.size();
    sigaltstack(&stack, nullptr);
  }
  struct sigaction action {};
  action.sa_sigaction = report_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS}) sigaction(signal, &action, nullptr);
}

std::uint64_t mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  file >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

void limit_memory(std::uint64_t mebibytes) {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  const std::uint64_t allowed = mapped_bytes() + (mebibytes << 20);
  limit.rlim_cur = mebibytes == 0 ? limit.rlim_max : std::min<rlim_t>(allowed, limit.rlim_max);
  setrlimit(RLIMIT_AS, &limit);
}

void leave_no_core() {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

void set_text(Answer& answer, const std::string& text) {
  answer.text_bytes = static_cast<std::uint32_t>(std::min(text.size(), sizeof(answer.text)));
  std::memcpy(answer.text, text.data(), answer.text_bytes);
}

bool reply(const Answer& answer) {
  // The plugin's output is flushed into the pipe before the judge looks for output.
  std::fflush(nullptr);
  const std::size_t size = kAnswerHead + answer.text_bytes;
  return send(kSocketFile, &answer, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

Answer not_loaded(const std::string& why) {
  Answer answer;
  answer.kind = AnswerKind::not_loaded;
  set_text(answer, why);
  return answer;
}

Answer described(const Description& description) {
  Answer answer;
  answer.kind = AnswerKind::described;
  answer.abilities = description.abilities;
  answer.randomness = description.randomness;
  answer.pointers = description.pointers;
  answer.samples = description.samples ? 1 : 0;
  std::string text;
  for (const std::string* field :
       {&description.name, &description.version, &description.semantics, &description.overrides}) {
    text += *field;
    text += '\0';
  }
  set_text(answer, text);
  return answer;
}

Answer execute(Library& library, const Command& command) {
  Answer answer;
  answer.number = command.number;
  std::string refused;
  omp_set_num_threads(command.threads);
  const KeptFloatEnvironment own;
  take_float_modes(command.floats);
  try {
    refused = library.run({command.kind, command.call});
    answer.floats = float_state();
  } catch (const std::exception& error) {
    answer.floats = float_state();
    refused = "threw an exception through the C interface: " + error_text(error);
  }
  answer.kind = refused.empty() ? AnswerKind::ran : AnswerKind::refused;
  set_text(answer, refused);
  return answer;
}

}  // namespace

int host_plugin(const std::string& path, std::uint64_t address, std::uint64_t mebibytes) {
  int type = 0;
  socklen_t size = sizeof(type);
  if (getsockopt(kSocketFile, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) {
    std::fprintf(stderr, "fairdraw: plugin-host is started by fairdraw itself\n");
    return kExitUsage;
  }
  if (!fork_under_a_keeper(kLeashFile, {STDOUT_FILENO, STDERR_FILENO, kSocketFile, kArraysFile})) {
    reply(not_loaded("the plugin's process cannot be forked"));
    return kExitUsage;
  }
  setsid();  // so that signals to the plugin's group do not reach the keeper
  leave_no_core();
  if (!SharedArrays::map_in_child(kArraysFile, address)) {
    reply(not_loaded("the address range of its arrays is in use in the plugin's process"));
    return kExitUsage;
  }
  limit_memory(mebibytes);
  catch_faults();
  std::unique_ptr<Library> library;
  try {
    library = std::make_unique<Library>(path);
  } catch (const std::exception& error) {
    reply(not_loaded(error.what()));
    return kExitUsage;
  }
  // With device pointers there is no limit, because the CUDA driver reserves a huge address space
  // and uses little of it.
  if (library->description().pointers == FAIRDRAW_DEVICE_POINTERS) limit_memory(0);
  if (!reply(described(library->description()))) return kExitUsage;
  for (Command command; recv(kSocketFile, &command, sizeof(command), 0) == sizeof(command);) {
    if (!is_command(command) || !reply(execute(*library, command))) break;
  }
  return 0;
}

}  // namespace fairdraw::harness::plugin
