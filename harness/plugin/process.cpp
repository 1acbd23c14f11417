#include "harness/plugin/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

#include "harness/contract/usage_error.h"

namespace fairdraw::harness::plugin {
namespace {

constexpr std::size_t kPrintedKept = 600;  // bytes of its end that a message can hold

void expect(bool good, const char* what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

// A file of this process under a number that no file of the child has, closed in every child.
int moved_up(int file) {
  constexpr int kFirst = 16;
  const int moved = fcntl(file, F_DUPFD_CLOEXEC, kFirst);
  const int error = errno;
  close(file);
  errno = error;
  expect(moved >= 0, "fcntl");
  return moved;
}

struct Pair {
  int judge = -1, child = -1;
};

// Its output is read without waiting for it: a plugin that prints without end must not block.
Pair open_output() {
  std::array<int, 2> files{};
  expect(pipe2(files.data(), O_CLOEXEC) == 0, "pipe");
  const Pair pair{moved_up(files[0]), moved_up(files[1])};
  fcntl(pair.judge, F_SETFL, O_NONBLOCK);
  return pair;
}

Pair open_socket() {
  std::array<int, 2> files{};
  expect(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, files.data()) == 0, "socketpair");
  return {moved_up(files[0]), moved_up(files[1])};
}

pid_t spawn(std::vector<std::string> words, int socket, int output, int arrays) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, kSocketFile);
  posix_spawn_file_actions_adddup2(&actions, arrays, kArraysFile);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  pid_t process = -1;
  const int error = posix_spawnp(&process, words.front().c_str(), &actions, &attributes,
                                 arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  errno = error;
  expect(error == 0, "start of a process for a plugin");
  return process;
}

std::string signal_name(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string how_it_ended(int status) {
  if (WIFEXITED(status))
    return fmt::format("ended its process with exit code {}", WEXITSTATUS(status));
  // No process ends itself so: a person did it, or the kernel when memory ran out.
  const bool killed = WTERMSIG(status) == SIGKILL;
  return (killed ? "was killed with " : "crashed with ") + signal_name(WTERMSIG(status));
}

// One line of plain characters, whatever was printed.
std::string printable(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == '\n' || c == '\t' || c == '\r';
    const bool plain = c >= ' ' && c <= '~';
    line += blank ? ' ' : plain ? c : '?';
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace

std::vector<std::string>& host_command() {
  static std::vector<std::string> words = {"/proc/self/exe", "plugin-host"};
  return words;
}

Process::Process(const std::string& path, const Options& options, const SharedArrays& arrays)
    : seconds_(options.seconds) {
  expect_file(path);
  const Pair socket = open_socket(), output = open_output();
  socket_ = socket.judge;
  output_ = output.judge;
  std::vector<std::string> words = options.host;
  words.push_back(path);
  words.push_back(std::to_string(reinterpret_cast<std::uintptr_t>(arrays.address())));
  words.push_back(std::to_string(options.mebibytes));
  try {
    const int file = moved_up(dup(arrays.file()));
    process_ = spawn(std::move(words), socket.child, output.child, file);
    close(file);
    close(socket.child);
    close(output.child);
  } catch (...) {
    close(socket.child);
    close(output.child);
    end();
    throw;
  }
  exit_ = static_cast<int>(syscall(SYS_pidfd_open, process_, 0));  // -1 where there is none: poll
                                                                   // passes it over
  const std::variant<Answer, Ended> outcome = wait_for_answer(options.load_seconds);
  std::string why;
  if (const Ended* const end = std::get_if<Ended>(&outcome)) {
    why = fmt::format("plugin '{}': {} while it was loaded{}", path, end->how, end->printed);
  } else {
    const Answer& answer = std::get<Answer>(outcome);
    const std::string text(answer.text, answer.text_bytes);
    if (answer.kind == AnswerKind::described) {
      std::array<std::string, 4> fields;
      std::size_t at = 0;
      for (std::string& field : fields) {
        field = text.c_str() + std::min(at, text.size());
        at += field.size() + 1;
      }
      description_ = {fields[0],        fields[1],         fields[2],      fields[3],
                      answer.abilities, answer.randomness, answer.pointers};
    } else {
      why = text;
    }
  }
  if (why.empty()) return;
  end();
  throw UsageError(why);
}

Process::~Process() { end(); }

int Process::end_group() {
  int status = 0;
  if (process_ <= 0) return status;
  kill(-process_, SIGKILL);  // first: afterwards the number may be somebody else's
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  return status;
}

void Process::end() {
  end_group();
  for (int* const file : {&socket_, &output_, &exit_}) {
    if (*file >= 0) close(*file);
    *file = -1;
  }
}

void Process::read_output() {
  if (output_ < 0) return;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t size = read(output_, buffer.data(), buffer.size());
    if (size == 0) {  // closed at the other end: nothing more to wait for
      close(output_);
      output_ = -1;
    }
    if (size <= 0) return;
    printed_bytes_ += static_cast<std::uint64_t>(size);
    printed_.append(buffer.data(), static_cast<std::size_t>(size));
    if (printed_.size() > kPrintedKept) printed_.erase(0, printed_.size() - kPrintedKept);
    // Only the end is kept, and only for a while: a limit on time is a limit on this.
    if (printed_bytes_ > (std::uint64_t{1} << 26)) return;
  }
}

std::string Process::output_clause() const {
  if (printed_bytes_ == 0) return {};
  const bool whole = printed_bytes_ <= kPrintedKept;
  return fmt::format("; it printed {}\"{}\"", whole ? "" : "... ", printable(printed_));
}

bool Process::receive(Answer& answer) {
  const ssize_t size = recv(socket_, &answer, sizeof(answer), MSG_DONTWAIT);
  return size >= static_cast<ssize_t>(kAnswerHead) &&
         static_cast<std::size_t>(size) == kAnswerHead + answer.text_bytes;
}

Ended Process::ended(const std::string& how) {
  end_group();
  read_output();
  return {how, output_clause(), fault_.address};
}

std::variant<Answer, Ended> Process::wait_for_answer(double seconds) {
  const auto limit =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const Clock::time_point end = Clock::now() + limit;
  fault_ = {};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return ended(fmt::format("gave no answer in {:g} s", seconds));
    std::array<pollfd, 3> files = {
        {{socket_, POLLIN, 0}, {output_, POLLIN, 0}, {exit_, POLLIN, 0}}};
    const int most = 1 << 30;
    poll(files.data(), files.size(), static_cast<int>(std::min<std::int64_t>(left, most)));
    if (files[1].revents != 0) read_output();
    if (files[0].revents != 0) {
      Answer answer;
      if (receive(answer)) {
        if (answer.kind != AnswerKind::fault) return answer;
        fault_ = answer;
        continue;
      }
    }
    if (files[0].revents == 0 && files[2].revents == 0) continue;
    // The process is gone, or about to: its end of the socket is closed. It has a moment to say by
    // its exit code how it went.
    constexpr int kLastMoment = 2000;  // milliseconds
    pollfd gone{exit_, POLLIN, 0};
    if (exit_ >= 0 && files[2].revents == 0) poll(&gone, 1, kLastMoment);
    const int status = end_group();
    read_output();
    const bool killed_here = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    const std::string how = killed_here && fault_.signal != 0
                                ? "crashed with " + signal_name(fault_.signal)
                                : how_it_ended(status);
    return Ended{how, output_clause(), fault_.address};
  }
}

std::variant<Answer, Ended> Process::ask(const Command& command) {
  read_output();
  printed_.clear();
  printed_bytes_ = 0;
  // One that is gone already is found by waiting for its answer.
  send(socket_, &command, sizeof(command), MSG_NOSIGNAL);
  std::variant<Answer, Ended> outcome = wait_for_answer(seconds_);
  if (std::holds_alternative<Ended>(outcome)) return outcome;
  read_output();
  if (printed_bytes_ == 0) return outcome;
  return Ended{fmt::format("printed {} bytes during a call", printed_bytes_), output_clause(), 0};
}

}  // namespace fairdraw::harness::plugin
