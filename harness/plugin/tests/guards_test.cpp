// Tests that a plugin's process cannot harm the judge, and leaves no process behind.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cfenv>
#include <chrono>
#include <csignal>
#include <string>

#include "harness/contract/usage_error.h"
#include "harness/plugin/message.h"
#include "harness/plugin/monitor.h"
#include "harness/plugin/tests/bad_plugin.h"
#include "harness/run/runner.h"

namespace fairdraw::harness::plugin {
namespace {

// A named pipe that a process of the plugin holds open as long as it exists.
class Pipe {
 public:
  Pipe() : path_(fmt::format("{}fairdraw_held_{}", testing::TempDir(), getpid())) {
    unlink(path_.c_str());
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    here_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    setenv("FAIRDRAW_BAD_FIFO", path_.c_str(), 1);
  }
  ~Pipe() {
    close(here_);
    unlink(path_.c_str());
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  // Waits for a byte, which a process writes when it holds the pipe.
  bool is_held() const {
    pollfd file{here_, POLLIN, 0};
    char byte = 0;
    return poll(&file, 1, 20'000) == 1 && read(here_, &byte, 1) == 1;
  }
  // True if no process has the pipe open for writing. The function reads all bytes that were
  // written to the pipe.
  bool is_let_go() const {
    char byte = 0;
    ssize_t size = 1;
    while (size > 0) size = read(here_, &byte, 1);
    return size == 0;
  }
  bool is_let_go_soon() const {
    pollfd file{here_, 0, 0};  // poll() always reports a pipe that no writer has open
    return poll(&file, 1, 20'000) == 1;
  }

 private:
  std::string path_;
  int here_ = -1;
};

// A daemon is no child of the plugin's process, and is in none of its groups and sessions. The
// daemon must still end at once when the sampler is destroyed.
TEST(PluginGuards, daemonsEndWithTheirProcess) {
  for (const char* const name : {"daemon", "daemon-and-crash"}) {
    const Pipe pipe;
    const Bad way(name);
    auto sampler = make(isolated());
    const Response response = run_request(*sampler, three_rows(), {});
    if (std::string(name) == "daemon") {
      EXPECT_TRUE(response.ran()) << response.trouble();
      EXPECT_TRUE(pipe.is_held());
    } else {
      expect_parts(response.trouble(), {"crashed with SIGABRT"});
    }
    sampler.reset();
    EXPECT_TRUE(pipe.is_let_go()) << name;
  }
}

TEST(PluginGuards, malformedMessagesAreCalledThat) {
  // The plugin sends three bytes, no byte, more than an answer, and an answer to no call; a right
  // answer follows each of these.
  for (const std::size_t bytes :
       {std::size_t{3}, std::size_t{0}, std::size_t{60'000}, kAnswerHead}) {
    const Bad way(fmt::format("send-{}", bytes).c_str());
    const auto sampler = make(isolated());
    const Response response = run_request(*sampler, three_rows(), {});
    EXPECT_EQ(response.trouble(),
              fmt::format("the plugin sent a malformed message of {} bytes to the judge", bytes));
  }
}

// These are answers to the first call, each with one wrong field.
TEST(PluginGuards, noFieldOfAMessageIsTakenOnTrust) {
  const Bad way("forge-message");
  Answer right;
  right.number = 1;
  right.floats = float_state();
  std::vector<Answer> wrong(7, right);
  wrong[0].kind = AnswerKind(7);
  wrong[1].number = 2;
  wrong[2].signal = SIGSEGV;
  wrong[3].text_bytes = 1;
  wrong[4].kind = AnswerKind::refused;  // a refusal without a reason looks like success
  wrong[5].floats.control = 0xffffffff;
  wrong[6].floats.x87_control = 0xffffffff;
  for (const Answer& answer : wrong) {
    std::string digits;
    for (std::size_t i = 0; i < kAnswerHead; ++i) {
      digits += fmt::format("{:02x}", reinterpret_cast<const unsigned char*>(&answer)[i]);
    }
    setenv("FAIRDRAW_BAD_MESSAGE", digits.c_str(), 1);
    const auto sampler = make(isolated());
    EXPECT_EQ(
        run_request(*sampler, three_rows(), {}).trouble(),
        fmt::format("the plugin sent a malformed message of {} bytes to the judge", kAnswerHead));
  }
  unsetenv("FAIRDRAW_BAD_MESSAGE");
}

// True if any floating-point exception traps in this thread.
bool traps() { return fegetexcept() != 0; }

TEST(PluginGuards, trapsStayWithThePlugin) {
  if (feenableexcept(FE_INVALID) < 0) GTEST_SKIP() << "this processor traps nothing";
  fedisableexcept(FE_ALL_EXCEPT);
  const Bad way("unmask-traps");
  for (const Options& options : {isolated(), trusted()}) {
    const auto sampler = make(options);
    const Response response = run_request(*sampler, three_rows(), {});
    EXPECT_FALSE(traps());
    fedisableexcept(FE_ALL_EXCEPT);
    expect_parts(response.trouble(), {"the plugin left floating-point exceptions unmasked",
                                      "(invalid operation, division by zero, inexact result)"});
    EXPECT_EQ(sampler->broken(), response.trouble());
  }
}

// The rounding and flush modes that a plugin leaves set must not change the oracles of its own
// case, or of the next case.
TEST(PluginGuards, roundingStaysWithThePlugin) {
  const Bad way("change-rounding");
  for (const Options& options : {isolated(), trusted()}) {
    Job job;
    job.make_sampler = [&] { return make(options); };
    job.check = [](Sampler& sampler) {
      CheckOutcome outcome;
      run_request(sampler, three_rows(), {});
      outcome.measures["rounding"] = std::fegetround();
      return outcome;
    };
    const std::vector<CaseRecord> records = run_jobs({job, job}, 1, {});
    for (const CaseRecord& record : records) {
      EXPECT_EQ(record.verdict, Verdict::passed) << record.message;
      EXPECT_EQ(record.measures.at("rounding"), FE_TONEAREST);
    }
  }
}

std::string why_not(const std::function<int()>& work) {
  try {
    return fmt::format("returned {}", monitored("plugin:./x.so", work));
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Monitored, anEarlyEndIsAnErrorWhateverItsCode) {
  EXPECT_EQ(why_not([] { return 3; }), "returned 3");
  EXPECT_EQ(why_not([]() -> int { end_work(3); }), "returned 3");
  EXPECT_EXIT(end_work(3), testing::ExitedWithCode(3), "");
  EXPECT_EQ(why_not([]() -> int { throw UsageError("no such case"); }), "no such case");
  const auto ends = [](const char* how) {
    return fmt::format(
        "plugin:./x.so, loaded into fairdraw's own process, {} before the end of the run; the "
        "results of the run are lost",
        how);
  };
  EXPECT_EQ(why_not([]() -> int { std::exit(0); }), ends("ended its process with exit code 0"));
  EXPECT_EQ(why_not([]() -> int { _exit(0); }), ends("ended its process with exit code 0"));
  EXPECT_EQ(why_not([]() -> int { std::abort(); }), ends("crashed with SIGABRT"));
  EXPECT_EQ(why_not([] { return raise(SIGKILL); }), ends("was killed with SIGKILL"));
}

// The work loads a plugin that starts a daemon and then ends itself or hangs.
int work_with_a_daemon() {
  const auto sampler = make(trusted());
  run_request(*sampler, three_rows(), {});
  return 3;
}

TEST(Monitored, daemonsEndWithTheWork) {
  for (const auto& [name, says] :
       {std::pair{"daemon", "returned 3"}, std::pair{"daemon-and-crash", "crashed with SIGABRT"}}) {
    const Pipe pipe;
    const Bad way(name);
    expect_parts(why_not(work_with_a_daemon), {says});
    EXPECT_TRUE(pipe.is_held()) << name;
    EXPECT_TRUE(pipe.is_let_go()) << name;
  }
}

TEST(Monitored, workAndDaemonsEndWhereTheMonitorIsKilled) {
  const Pipe pipe;
  const Bad way("daemon-and-hang");
  const pid_t monitor = fork();
  if (monitor == 0) {
    why_not(work_with_a_daemon);
    _exit(0);
  }
  EXPECT_TRUE(pipe.is_held());
  kill(monitor, SIGKILL);
  waitpid(monitor, nullptr, 0);
  EXPECT_TRUE(pipe.is_let_go_soon());
}

TEST(Plugin, aCaseIsEndedInTheMiddleOfACall) {
  const Bad way("hang");
  Job job;
  job.seconds = 0.5;
  job.make_sampler = [] { return make(isolated()); };
  job.check = [](Sampler& sampler) {
    run_request(sampler, three_rows(), {});
    return CheckOutcome{};
  };
  const std::vector<CaseRecord> records = run_jobs({job}, 1, {});
  EXPECT_EQ(records[0].verdict, Verdict::failed);
  EXPECT_EQ(records[0].message, "the case took more than 0.5 s (--case-timeout), in 1 calls");
  EXPECT_LT(records[0].seconds, isolated().seconds / 2);
}

TEST(Plugin, aCaseIsEndedInTheMiddleOfLoading) {
  Job job;
  job.seconds = 0.5;
  job.make_sampler = [] { return make(isolated()); };
  job.check = [](Sampler& sampler) {
    const Bad way("describe-hangs");  // the plugin is loaded again at the first call
    run_request(sampler, three_rows(), {});
    return CheckOutcome{};
  };
  const std::vector<CaseRecord> records = run_jobs({job}, 1, {});
  EXPECT_EQ(records[0].verdict, Verdict::failed);
  EXPECT_EQ(records[0].message, "the case took more than 0.5 s (--case-timeout), in 1 calls");
  EXPECT_LT(records[0].seconds, isolated().load_seconds / 2);
}

TEST(Plugin, timeInWhichTheJudgeIsStoppedIsNotThePlugins) {
  const Bad way("stop-the-judge");
  setenv("FAIRDRAW_BAD_JUDGE", std::to_string(getpid()).c_str(), 1);
  Job job;
  job.seconds = 2;
  job.make_sampler = [] {
    Options options = isolated();
    options.seconds = 1;
    return make(options);
  };
  job.check = [](Sampler& sampler) {
    CheckOutcome outcome;
    const Response response = run_request(sampler, three_rows(), {});
    return response.tokens == kGreedy ? outcome : outcome.fail(response.trouble());
  };
  const std::vector<CaseRecord> records = run_jobs({job}, 1, {}, 2);
  EXPECT_EQ(records[0].verdict, Verdict::passed) << records[0].message;
  EXPECT_GE(records[0].seconds, 2.5);
}

TEST(Plugin, signalsToTheJudgeDoNotHideHowItEnded) {
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, &before);
  constexpr itimerval kOften = {{0, 1000}, {0, 1000}}, kNever = {};  // every millisecond
  setitimer(ITIMER_REAL, &kOften, nullptr);
  const Bad way("exit");
  for (int i = 0; i < 10; ++i) {
    const auto sampler = make(isolated());
    run_request(*sampler, three_rows(), {});
    EXPECT_EQ(sampler->broken(), "the plugin ended its process with exit code 7");
  }
  setitimer(ITIMER_REAL, &kNever, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

}  // namespace
}  // namespace fairdraw::harness::plugin
