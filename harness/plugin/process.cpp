#include "harness/plugin/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <utility>

#include "harness/contract/usage_error.h"
#include "harness/plugin/how_it_ended.h"
#include "harness/plugin/one_line.h"

namespace fairdraw::harness::plugin {
namespace {

constexpr std::size_t kPrintedKept = 600;  // number of last bytes of output in a message

void expect(bool good, const char* what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

// A file of this process, which is closed also when an exception is thrown.
class OwnFile {
 public:
  explicit OwnFile(int file) : file_(file) {}
  OwnFile(OwnFile&& other) noexcept : file_(other.release()) {}
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;
  OwnFile& operator=(OwnFile&&) = delete;
  ~OwnFile() {
    if (file_ >= 0) close(file_);
  }

  int number() const { return file_; }
  int release() { return std::exchange(file_, -1); }

 private:
  int file_;
};

// Duplicates a file of this process to a number that is not one of the child's files. Every child
// process closes the duplicate.
OwnFile moved_up(const OwnFile& file) {
  constexpr int kFirst = 16;
  OwnFile moved(fcntl(file.number(), F_DUPFD_CLOEXEC, kFirst));
  expect(moved.number() >= 0, "fcntl");
  return moved;
}

struct Pair {
  OwnFile judge, child;
};

Pair moved_up(const std::array<int, 2>& files) {
  const OwnFile judge(files[0]), child(files[1]);
  return {moved_up(judge), moved_up(child)};
}

// Calls poll(), and calls it again when a signal interrupts it.
int poll_for(pollfd& file, int milliseconds) {
  using Clock = RunningClock;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(milliseconds);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    const int ready = poll(&file, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready > 0 || left <= 0 || (ready < 0 && errno != EINTR)) return ready;
  }
}

// Opens a pipe whose read end does not block, because a plugin may print without end.
Pair open_output() {
  std::array<int, 2> files{};
  expect(pipe2(files.data(), O_CLOEXEC) == 0, "pipe");
  Pair pair = moved_up(files);
  fcntl(pair.judge.number(), F_SETFL, O_NONBLOCK);
  return pair;
}

Pair open_socket(int type) {
  std::array<int, 2> files{};
  expect(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, files.data()) == 0, "socketpair");
  return moved_up(files);
}

struct Files {
  int socket, output, arrays, leash;
};

pid_t spawn(std::vector<std::string> words, const Files& files) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, files.output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, files.output, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, files.socket, kSocketFile);
  posix_spawn_file_actions_adddup2(&actions, files.arrays, kArraysFile);
  posix_spawn_file_actions_adddup2(&actions, files.leash, kLeashFile);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  // The parent of this process may have set signals to be ignored, so the defaults are restored. If
  // SIGCHLD were ignored, the status of a child would be lost.
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t process = -1;
  const int error = posix_spawnp(&process, words.front().c_str(), &actions, &attributes,
                                 arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  errno = error;
  expect(error == 0, "start of a process for a plugin");
  return process;
}

}  // namespace

std::vector<std::string>& host_command() {
  static std::vector<std::string> words = {"/proc/self/exe", "plugin-host"};
  return words;
}

Process::Process(const std::string& path, const Options& options, const SharedArrays& arrays,
                 Clock::time_point last)
    : seconds_(options.seconds) {
  expect_file(path);
  std::vector<std::string> words = options.host;
  words.push_back(path);
  words.push_back(std::to_string(reinterpret_cast<std::uintptr_t>(arrays.address())));
  words.push_back(std::to_string(options.mebibytes));
  {
    Pair socket = open_socket(SOCK_SEQPACKET), leash = open_socket(SOCK_STREAM);
    Pair output = open_output();
    const OwnFile file = moved_up(OwnFile(dup(arrays.file())));
    keeper_ = spawn(std::move(words), {socket.child.number(), output.child.number(), file.number(),
                                       leash.child.number()});
    socket_ = socket.judge.release();
    leash_ = leash.judge.release();
    output_ = output.judge.release();
  }
  exit_ = file_of_process(keeper_);  // -1 if the system has none; poll() then ignores it
  const std::variant<Answer, Ended> outcome = wait_for_answer(options.load_seconds, last);
  std::string why;
  if (const Ended* const end = std::get_if<Ended>(&outcome)) {
    why = fmt::format("plugin '{}': {} while it was loaded{}", path, end->how, end->printed);
  } else {
    const Answer& answer = std::get<Answer>(outcome);
    if (answer.kind == AnswerKind::described) {
      description_ = description_of(answer);
    } else {
      why = text_of(answer);
    }
  }
  if (why.empty()) return;
  end();
  throw UsageError(why);
}

Process::~Process() { end(); }

int Process::end_all() {
  int status = 0;
  if (keeper_ <= 0) return status;
  // The keeper ends all remaining processes, and reports the status of the plugin's process. If a
  // keeper takes longer than this limit, somebody has stopped the keeper.
  constexpr int kPatience = 15'000;  // milliseconds
  shutdown(leash_, SHUT_WR);
  pollfd leash{leash_, POLLIN, 0};
  poll_for(leash, kPatience);
  const bool said = recv(leash_, &status, sizeof(status), MSG_DONTWAIT) == sizeof(status);
  int of_keeper = 0;
  if (!said) kill(-keeper_, SIGKILL);  // this also ends the process of the plugin
  while (waitpid(keeper_, &of_keeper, 0) < 0 && errno == EINTR) {
  }
  keeper_ = -1;
  return said ? status : of_keeper;
}

void Process::end() {
  end_all();
  for (int* const file : {&socket_, &output_, &leash_, &exit_}) {
    if (*file >= 0) close(*file);
    *file = -1;
  }
}

void Process::read_output() {
  if (output_ < 0) return;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t size = read(output_, buffer.data(), buffer.size());
    if (size == 0) {  // the other end is closed, so no more output will come
      close(output_);
      output_ = -1;
    }
    if (size <= 0) return;
    printed_bytes_ += static_cast<std::uint64_t>(size);
    printed_.append(buffer.data(), static_cast<std::size_t>(size));
    if (printed_.size() > kPrintedKept) printed_.erase(0, printed_.size() - kPrintedKept);
    // Only the end of the output is kept. Reading stops after this number of bytes, so that the
    // time limit also ends a plugin that prints for ever.
    if (printed_bytes_ > (std::uint64_t{1} << 26)) return;
  }
}

std::string Process::output_clause() const {
  if (printed_bytes_ == 0) return {};
  const bool whole = printed_bytes_ <= kPrintedKept;
  return fmt::format("; it printed {}\"{}\"", whole ? "" : "... ", on_one_line(printed_));
}

std::optional<std::variant<Answer, Ended>> Process::receive() {
  Answer answer;
  const ssize_t size = recv(socket_, &answer, sizeof(answer), MSG_DONTWAIT | MSG_TRUNC);
  pollfd closed{socket_, POLLRDHUP, 0};
  if (size < 0 || (size == 0 && poll(&closed, 1, 0) > 0)) return std::nullopt;
  const auto bytes = static_cast<std::size_t>(size);
  if (!is_answer(answer, bytes, calls_)) {
    return ended(fmt::format("sent a malformed message of {} bytes to the judge", bytes));
  }
  if (answer.kind != AnswerKind::fault) return answer;
  fault_ = answer;
  return std::nullopt;  // gives no answer, because the process is about to end
}

Ended Process::ended(const std::string& how) {
  end_all();
  read_output();
  return {how, output_clause(), fault_.address};
}

std::variant<Answer, Ended> Process::wait_for_answer(double seconds, Clock::time_point last) {
  const std::chrono::duration<double> until_last = last - Clock::now();
  seconds = std::clamp(until_last.count(), 0.0, seconds);
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
      const int fault_before = fault_.signal;
      if (const auto answer = receive()) return *answer;
      if (fault_.signal != fault_before) continue;
    }
    if (files[0].revents == 0 && files[2].revents == 0) continue;
    // The process is gone or about to end, because its end of the socket is closed. The process
    // gets some time to end with its own exit code.
    constexpr int kLastMoment = 2000;  // milliseconds
    pollfd gone{exit_, POLLIN, 0};
    if (exit_ >= 0 && files[2].revents == 0) poll_for(gone, kLastMoment);
    const int status = end_all();
    read_output();
    const bool killed_here = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    const std::string how = killed_here && fault_.signal != 0
                                ? "crashed with " + signal_name(fault_.signal)
                                : how_it_ended(status);
    return Ended{how, output_clause(), fault_.address};
  }
}

std::variant<Answer, Ended> Process::ask(Command& command, Clock::time_point end) {
  command.number = ++calls_;
  read_output();
  printed_.clear();
  printed_bytes_ = 0;
  // If the process is already gone, the code that waits for the answer will notice.
  send(socket_, &command, sizeof(command), MSG_NOSIGNAL);
  std::variant<Answer, Ended> outcome = wait_for_answer(seconds_, end);
  if (std::holds_alternative<Ended>(outcome)) return outcome;
  read_output();
  if (printed_bytes_ == 0) return outcome;
  return Ended{fmt::format("printed {} bytes during a call", printed_bytes_), output_clause(), 0};
}

}  // namespace fairdraw::harness::plugin
