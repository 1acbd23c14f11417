#include "harness/plugin/seclusion.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <sstream>
#include <string>

namespace fairdraw::harness::plugin {
namespace {

constexpr const char* kNeutralName = "worker";

std::mutex secluded_mutex;
int secluded = 0;         // how many ask for it
int dumpable_before = 1;  // what the process was
std::set<std::string> said;

}  // namespace

Secluded::Secluded() {
  const std::lock_guard<std::mutex> lock(secluded_mutex);
  if (secluded++ > 0) return;
  dumpable_before = prctl(PR_GET_DUMPABLE);
  prctl(PR_SET_DUMPABLE, 0);
}

Secluded::~Secluded() {
  const std::lock_guard<std::mutex> lock(secluded_mutex);
  if (--secluded > 0 || dumpable_before != 1) return;  // 2 cannot be set
  prctl(PR_SET_DUMPABLE, 1);
}

void say_how_secluded(const std::string& what) {
  const std::lock_guard<std::mutex> lock(secluded_mutex);
  said.insert(what);
}

std::string how_secluded() {
  const std::lock_guard<std::mutex> lock(secluded_mutex);
  return fmt::format("{}", fmt::join(said, "; "));
}

void give_up_tracing() {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // nor does a program that it starts get it back
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, CAP_SYS_PTRACE, 0, 0);
  prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, data) != 0) return;
  __user_cap_data_struct& word = data[CAP_TO_INDEX(CAP_SYS_PTRACE)];
  constexpr std::uint32_t kOthers = ~CAP_TO_MASK(CAP_SYS_PTRACE);
  word.effective &= kOthers;
  word.permitted &= kOthers;
  word.inheritable &= kOthers;
  syscall(SYS_capset, &header, data);
}

bool can_read_memory_of(pid_t process) {
  const int file = open(fmt::format("/proc/{}/mem", process).c_str(), O_RDONLY | O_CLOEXEC);
  if (file >= 0) close(file);
  return file >= 0;
}

void take_neutral_name() {
  prctl(PR_SET_NAME, kNeutralName);
  unsetenv("FAIRDRAW_DATA");  // which a Python interpreter sets again when it loads the package
  std::ifstream file("/proc/self/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const std::size_t after_name = line.rfind(") ");
  if (after_name == std::string::npos) return;
  // proc(5): the name is field 2; the command line lies from field 48 to field 49.
  constexpr int kFirstBehindName = 3, kBegin = 48, kEnd = 49;
  std::istringstream fields(line.substr(after_name + 2));
  std::uintptr_t begin = 0, end = 0;
  std::string field;
  for (int i = kFirstBehindName; i <= kEnd && fields >> field; ++i) {
    if (i == kBegin) begin = std::strtoull(field.c_str(), nullptr, 10);
    if (i == kEnd) end = std::strtoull(field.c_str(), nullptr, 10);
  }
  const std::size_t needed = std::strlen(kNeutralName) + 1;
  if (begin == 0 || end < begin + needed) return;
  auto* const words = reinterpret_cast<char*>(begin);  // NOLINT(performance-no-int-to-ptr)
  std::memset(words, 0, end - begin);
  std::memcpy(words, kNeutralName, needed);
}

}  // namespace fairdraw::harness::plugin
