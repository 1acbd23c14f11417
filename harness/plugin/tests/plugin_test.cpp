// Tests that the harness survives plugins that misbehave, in every way that it promises to survive.
// This test executable is also the process that holds the plugins: see main() at the end.
#include "harness/contract/plugin.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cfenv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "harness/contract/usage_error.h"
#include "harness/plugin/host.h"
#include "harness/plugin/plugin_sampler.h"
#include "harness/plugin/tests/bad_plugin.h"
#include "harness/run/calls/request.h"
#include "harness/run/runner.h"

namespace fairdraw::harness::plugin {
namespace {

std::string why_not_loaded(const Options& options, const std::string& name = kBad) {
  try {
    make(options, name);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "it was loaded";
}

std::size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST(Plugin, saysWhatItIs) {
  for (const Options& options : {isolated(), trusted()}) {
    const SamplerDescription description = make(options)->description();
    EXPECT_EQ(description.name, kBad);
    EXPECT_EQ(description.version, "bad 0");
    EXPECT_EQ(description.semantics, "fairdraw");
    EXPECT_TRUE(description.indices && description.num_samples && description.top_k);
    EXPECT_FALSE(description.top_p || description.reports_mask || description.exact_integer);
    EXPECT_TRUE(description.randomness.replays);
    EXPECT_FALSE(description.randomness.seeds);
    EXPECT_EQ(ability_names(description), "top_k indices num_samples per_request_seeds");
  }
}

TEST(Plugin, promisesWhatItDoesNotDecline) {
  Description said{"spec", "1", "fairdraw", "", FAIRDRAW_CAN_CHAINS, 0, 0};
  const auto described = [&said] { return to_sampler_description(said, "plugin:spec"); };
  EXPECT_TRUE(described().bad_rows && described().flush_modes && described().drafts.faults);
  said.abilities |= FAIRDRAW_DECLINES_BAD_ROWS;
  EXPECT_FALSE(described().bad_rows || described().drafts.faults);
  EXPECT_TRUE(described().flush_modes);
  said.abilities |= FAIRDRAW_DECLINES_FLUSH_MODES;
  EXPECT_FALSE(described().flush_modes);
  EXPECT_EQ(ability_bits(described()), said.abilities);
  EXPECT_EQ(ability_names(described()), "chains declines_bad_rows declines_flush_modes");
  said.abilities |= FAIRDRAW_EXACT_INTEGER;  // exact integers define the results of bad rows
  EXPECT_THROW(described(), UsageError);
}

TEST(Plugin, statesAtMostOneRuleOfAcceptance) {
  Description said{"spec", "1", "fairdraw", "", FAIRDRAW_CAN_CHAINS, 0, 0};
  const auto described = [&said] { return to_sampler_description(said, "plugin:spec"); };
  EXPECT_EQ(described().acceptance_rule, AcceptanceRule::none_stated);
  said.abilities = FAIRDRAW_CAN_CHAINS | FAIRDRAW_ACCEPTS_TOKEN_WISE;
  EXPECT_EQ(described().acceptance_rule, AcceptanceRule::token_wise);
  EXPECT_EQ(ability_names(described()), "chains accepts_token_wise");
  said.abilities = FAIRDRAW_CAN_CHAINS | FAIRDRAW_ACCEPTS_BLOCK;
  EXPECT_EQ(described().acceptance_rule, AcceptanceRule::block);
  EXPECT_EQ(ability_names(described()), "chains accepts_block");
  said.abilities |= FAIRDRAW_ACCEPTS_TOKEN_WISE;
  try {
    described();
    FAIL() << "both rules are taken";
  } catch (const UsageError& error) {
    expect_parts(error.what(), {"plugin:spec", "token-wise and by block", "at most one"});
  }
}

TEST(Plugin, overridesArePartOfItsSemantics) {
  const Bad way("override");
  EXPECT_EQ(make(isolated())->description().semantics,
            "fairdraw,greedy_ties=any,greedy_below=1e-5");
}

TEST(Plugin, whatCannotBeLoadedIsNamed) {
  const std::string folder = testing::TempDir() + "fairdraw_plugin_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/text.so") << "no library\n";
  const std::string fifo = folder + "/fifo";
  unlink(fifo.c_str());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const Options& options : {isolated(), trusted()}) {
    expect_parts(why_not_loaded(options, "plugin:"), {"needs a path"});
    expect_parts(why_not_loaded(options, "plugin:./absent.so"),
                 {"'./absent.so'", "there is no such file"});
    expect_parts(why_not_loaded(options, "plugin:" + folder), {folder, "is a folder"});
    expect_parts(why_not_loaded(options, "plugin:" + folder + "/fifo"), {"is no regular file"});
    expect_parts(why_not_loaded(options, "plugin:" + folder + "/text.so"),
                 {"text.so'", "is not a shared library", "file too short"});
    expect_parts(why_not_loaded(options, std::string("plugin:") + FAIRDRAW_BAD_PLUGIN_NO_RUN),
                 {"exports no symbol 'fairdraw_plugin_run'"});
    expect_parts(why_not_loaded(options, std::string("plugin:") + FAIRDRAW_BAD_PLUGIN_ABI),
                 {fmt::format("version {} of the plugin ABI", FAIRDRAW_PLUGIN_ABI + 1),
                  fmt::format("this fairdraw has version {}", FAIRDRAW_PLUGIN_ABI)});
  }
}

TEST(Plugin, whatItsDescriptionCannotMeanIsNamed) {
  const std::vector<std::pair<const char*, std::vector<std::string>>> ways = {
      {"describe-fails", {"does not describe itself: no licence found"}},
      {"unknown-profile", {"'vllm_toch'", "did you mean 'vllm_torch'"}},
      {"unknown-override", {"greedy_ties", "'some'", "lowest_id", "any"}},
      {"unknown-ability", {"abilities have bit 62"}},
      {"unknown-promise", {"randomness have bit 9"}},
      {"unknown-pointers", {"pointers is 7", "0 (host), 1 (device)"}},
      {"nameless", {"no name"}},
      {"claims-chains", {"exports no symbol 'fairdraw_plugin_run_chain'"}},
  };
  for (const auto& [name, parts] : ways) {
    const Bad way(name);
    for (const Options& options : {isolated(), trusted()}) {
      expect_parts(why_not_loaded(options), parts);
    }
  }
}

TEST(Plugin, describingIsGuardedToo) {
  {
    const Bad way("describe-crashes");
    expect_parts(why_not_loaded(isolated()), {"crashed with SIGABRT while it was loaded"});
  }
  const Bad way("describe-hangs");
  Options options = isolated();
  options.load_seconds = 0.5;
  expect_parts(why_not_loaded(options), {"gave no answer in 0.5 s while it was loaded"});
}

TEST(Plugin, answers) {
  for (const Options& options : {isolated(), trusted()}) {
    const auto sampler = make(options);
    for (int call = 0; call < 3; ++call) {
      const Response response = run_request(*sampler, three_rows(), {});
      EXPECT_TRUE(response.ran()) << response.trouble();
      EXPECT_EQ(response.tokens, kGreedy);
    }
  }
}

TEST(Plugin, mayTalkWhileItLoads) {
  const Bad way("talks-while-loading");
  const auto sampler = make(isolated());
  EXPECT_EQ(run_request(*sampler, three_rows(), {}).tokens, kGreedy);
}

TEST(Plugin, refusalsAreNoCrashes) {
  for (const Options& options : {isolated(), trusted()}) {
    const auto sampler = make(options);
    {
      const Bad way("refuse");
      const auto other = make(options);
      EXPECT_EQ(run_request(*other, three_rows(), {}).refused, "out of tiles");
      EXPECT_EQ(other->broken(), "");
    }
    const Bad way("refuse-silently");
    const auto other = make(options);
    EXPECT_EQ(run_request(*other, three_rows(), {}).refused, "the plugin gives no reason");
  }
}

struct Way {
  const char* name;
  std::vector<std::string> says;
  double seconds = 60;
};

// Each way of misbehaving breaks the sampler, with a message that names what the plugin did. The
// sampler stays broken, as in a case, until it recovers in a new process.
TEST(Plugin, breaksWithAMessageAndRecovers) {
  const std::vector<Way> ways = {
      {"crash", {"crashed with SIGSEGV"}},
      {"write-nowhere", {"crashed with SIGSEGV at address 0x1000"}},
      {"abort", {"crashed with SIGABRT"}},
      {"stack-overflow", {"crashed with SIGSEGV"}},
      {"exit", {"ended its process with exit code 7"}},
      {"kill-keeper", {"was killed with SIGKILL"}},
      {"hang", {"gave no answer in 2 s"}, 2},
      // The process ends by itself, or the judge ends it if the exit takes long (a sanitizer
      // searches for leaks at exit).
      {"close-files", {"the plugin "}},
      {"print", {"printed 18 bytes during a call", "\"debug: top_k = 50\""}},
      {"print-stderr", {"printed 19 bytes during a call", "\"warning: slow path\""}},
      {"print-and-crash", {"crashed with SIGABRT", "it printed \"assertion failed: k <= vocab\""}},
      {"print-forever", {"gave no answer in 2 s", "it printed ... \"", "again and again"}, 2},
      // The plugin writes token 3 + 64 of 4 bytes each, far past the 16 bytes that are compared
      // after a call.
      {"write-far-behind-tokens", {"crashed with SIGSEGV", "268 bytes past the start of tokens"}},
      // The plugin touches memory beyond 64 KiB, and nearly as far away as the longest row.
      {"write-400k-behind-tokens", {"crashed with SIGSEGV", "400012 bytes past the start of"}},
      {"write-2m-behind-tokens", {"crashed with SIGSEGV", "2000012 bytes past the start of"}},
      {"read-far-behind-logits", {"crashed with SIGSEGV", "past the start of logits"}},
  };
  const std::size_t files_before = open_files();
  for (const Way& way : ways) {
    Options options = isolated();
    options.seconds = way.seconds;
    auto sampler = make(isolated());
    {
      const Bad bad(way.name);
      sampler = make(options);
      const Response response = run_request(*sampler, three_rows(), {});
      EXPECT_FALSE(response.ran()) << way.name;
      expect_parts(response.trouble(), way.says);
    }
    EXPECT_NE(sampler->broken(), "") << way.name;
    EXPECT_FALSE(run_request(*sampler, three_rows(), {}).ran()) << way.name;
    sampler->recover();
    const Response again = run_request(*sampler, three_rows(), {});
    EXPECT_TRUE(again.ran()) << way.name << ": " << again.trouble();
    EXPECT_EQ(again.tokens, kGreedy) << way.name;
  }
  EXPECT_EQ(open_files(), files_before);
}

TEST(Plugin, writesOutsideAreFoundAfterTheCall) {
  const std::vector<std::pair<const char*, const char*>> ways = {
      {"write-behind-tokens", "wrote past the end of tokens"},
      {"write-in-front-of-tokens", "wrote in front of tokens"},
      {"write-logits", "changed logits, which it may only read"},
      // The plugin touches memory within the array's own page, in other pages, and as far away as
      // the longest row.
      {"write-2k-in-front-of-tokens", "touched memory in front of tokens"},
      {"write-20k-in-front-of-tokens", "touched memory in front of tokens"},
      {"write-4m-in-front-of-tokens", "touched memory in front of tokens"},
      {"write-20k-in-front-of-logits", "touched memory in front of logits"},
  };
  for (const auto& [name, says] : ways) {
    const Bad way(name);
    const auto sampler = make(isolated());
    EXPECT_EQ(run_request(*sampler, three_rows(), {}).damage, says) << name;
    // Later calls with longer and shorter rows must not be blamed for the damage.
    const Bad good("nothing");
    const auto other = make(isolated());
    for (const std::int64_t rows : {3, 300, 3}) {
      Request request = three_rows();
      while (request.rows < rows) {
        request.logits.insert(request.logits.end(), 8, 0.0F);
        request.parameters.push_back(request.parameters.front());
        request.seed.push_back(0);
        request.offset.push_back(0);
        ++request.rows;
      }
      EXPECT_EQ(run_request(*other, request, {}).damage, "");
    }
  }
}

TEST(Plugin, memoryIsLimited) {
  const Bad way("take-memory");  // 4 GiB
  Options options = isolated();
  options.mebibytes = 256;
  const auto sampler = make(options);
  EXPECT_FALSE(run_request(*sampler, three_rows(), {}).ran());
}

// A process that the plugin started keeps the plugin's files open. This process must neither keep
// the judge waiting nor outlive the plugin.
TEST(Plugin, itsWholeGroupOfProcessesEnds) {
  const std::string fifo = testing::TempDir() + "fairdraw_plugin_fifo";
  unlink(fifo.c_str());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int here = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  setenv("FAIRDRAW_BAD_FIFO", fifo.c_str(), 1);
  const Bad way("children");
  const auto sampler = make(isolated());
  const auto start = std::chrono::steady_clock::now();
  const Response response = run_request(*sampler, three_rows(), {});
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  expect_parts(response.trouble(), {"crashed with SIGABRT"});
  EXPECT_LT(waited.count(), isolated().seconds / 2);
  char byte = 0;
  ASSERT_EQ(read(here, &byte, 1), 1);  // the process existed
  ssize_t size = -1;
  // Once the process has ended, the pipe has no writer, which takes the kernel a moment.
  for (int i = 0; i < 1000 && (size = read(here, &byte, 1)) != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(size, 0);
  close(here);
  unlink(fifo.c_str());
}

// A batch of one row, whose two arrays are in the sampler's memory.
struct Direct {
  explicit Direct(Sampler& sampler)
      : logits(1000, 0.0F, sampler.memory()),
        ones(1, 1.0F, sampler.memory()),
        zeros(1, 0, sampler.memory()),
        seed(1, 0, sampler.memory()),
        tokens(2, 0, sampler.memory()) {
    batch.struct_size = sizeof(batch);
    batch.logits = logits.data();
    batch.rows = batch.outputs = 1;
    batch.vocab = batch.row_stride = 1000;
    batch.temperature = batch.top_p = batch.min_p = ones.data();
    batch.top_k = zeros.data();
    batch.num_samples = 2;
    batch.seed = batch.offset = seed.data();
    batch.tokens = tokens.data();
  }
  std::pmr::vector<float> logits, ones;
  std::pmr::vector<std::int32_t> zeros;
  std::pmr::vector<std::uint64_t> seed;
  std::pmr::vector<std::int32_t> tokens;
  fairdraw_batch batch{};
};

TEST(Plugin, seesTheArraysThemselves) {
  for (const Options& options : {isolated(), trusted()}) {
    for (const bool logits : {false, true}) {
      const Bad way(logits ? "tell-logits" : "tell-tokens");
      const auto sampler = make(options);
      Direct direct(*sampler);
      ASSERT_EQ(sampler->run(direct.batch), "");
      std::uint64_t told = 0;
      std::memcpy(&told, direct.tokens.data(), sizeof(told));
      const void* const here = logits ? static_cast<const void*>(direct.logits.data())
                                      : static_cast<const void*>(direct.tokens.data());
      EXPECT_EQ(told, reinterpret_cast<std::uintptr_t>(here));
    }
  }
}

TEST(Plugin, floatEnvironmentGoesThereAndBack) {
  for (const Options& options : {isolated(), trusted()}) {
    {
      const Bad way("tell-rounding");
      const auto sampler = make(options);
      Direct direct(*sampler);
      std::fesetround(FE_UPWARD);
      const std::string refused = sampler->run(direct.batch);
      std::fesetround(FE_TONEAREST);
      EXPECT_EQ(refused, "");
      EXPECT_EQ(direct.tokens[0], FE_UPWARD);
    }
    const Bad way("change-rounding");
    const auto sampler = make(options);
    Direct direct(*sampler);
    EXPECT_EQ(sampler->run(direct.batch), "");
    EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
    std::fesetround(FE_TONEAREST);
  }
}

// The case of a broken sampler fails, whatever result the check computes from its calls.
TEST(Plugin, aBrokenSamplerFailsItsCase) {
  const Bad way("crash");
  Job job;
  job.make_sampler = [] { return make(isolated()); };
  job.check = [](Sampler& sampler) {
    run_request(sampler, three_rows(), {});
    return CheckOutcome{};
  };
  Job good = job;
  good.check = [](Sampler&) { return CheckOutcome{}; };
  const std::vector<CaseRecord> records = run_jobs({job, good}, 1, {});
  EXPECT_EQ(records[0].verdict, Verdict::failed);
  EXPECT_EQ(records[0].message, "the plugin crashed with SIGSEGV");
  EXPECT_EQ(records[1].verdict, Verdict::passed);
}

// Slots are reused, do not overlap, and end at inaccessible pages.
TEST(SharedArrays, arraysHaveTheirOwnSlots) {
  SharedArrays arrays;
  std::pmr::memory_resource& memory = arrays;
  void* const first = memory.allocate(100, 4);
  void* const second = memory.allocate(std::size_t{5} << 30, 8);  // a wide slot
  EXPECT_NE(first, second);
  EXPECT_EQ(arrays.array_near(reinterpret_cast<std::uintptr_t>(first) + 100), first);
  EXPECT_EQ(arrays.array_near(reinterpret_cast<std::uintptr_t>(second)), second);
  EXPECT_EQ(arrays.array_near(16), nullptr);
  EXPECT_THROW(static_cast<void>(memory.allocate(std::size_t{65} << 30, 8)), std::bad_alloc);
  memory.deallocate(first, 100, 4);
  EXPECT_EQ(memory.allocate(100, 4), first);
  auto* const bytes = static_cast<volatile char*>(first);
  bytes[99] = 1;
  EXPECT_DEATH(bytes[100] = 1, "");
  memory.deallocate(first, 100, 4);
  memory.deallocate(second, std::size_t{5} << 30, 8);
}

}  // namespace
}  // namespace fairdraw::harness::plugin

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "plugin-host") {
    return fairdraw::harness::plugin::host_plugin(argv[2], std::stoull(argv[3]),
                                                  std::stoull(argv[4]));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
