// The tests replay every capsule of the corpus: the sampler on which it was found must still fail,
// and no built-in sampler may fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "harness/run/tests/mutants.h"
#include "suites/gate/fuzz/capsule_files.h"

namespace fairdraw::suites::fuzz {
namespace {

constexpr const char* kMutant = "mutant: ";

std::vector<std::filesystem::path> corpus() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(FAIRDRAW_FUZZ_CORPUS)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

const reference::Semantics& fairdraw_semantics() { return *reference::find_profile("fairdraw"); }

TEST(Corpus, FailsOnWhatItWasFoundOn) {
  std::set<std::string> mutants;
  for (const auto& path : corpus()) {
    SCOPED_TRACE(path.filename());
    const Capsule capsule = load_capsule(path);
    if (!capsule.sampler.starts_with(kMutant)) continue;
    const std::string name = capsule.sampler.substr(std::string(kMutant).size());
    mutants.insert(name);
    const auto mutant = harness::make_mutant(name);
    const Judgement judgement = replay(capsule, *mutant, fairdraw_semantics());
    EXPECT_TRUE(judgement.failed()) << judgement.message;
    EXPECT_EQ(judgement.message, capsule.message);
  }
  // One mutant has no capsule in the corpus, because it needs 1000 tokens, and the fuzzer's rows
  // are shorter.
  std::set<std::string> all;
  for (const harness::RunMutant& mutant : harness::mutants()) all.insert(mutant.name);
  all.erase("tail beyond rank 1000 never drawn");
  EXPECT_EQ(mutants, all);
}

TEST(Corpus, HoldsOnEveryBuiltInSampler) {
  for (const std::string& name : harness::builtin_sampler_names()) {
    if (name.starts_with("cuda")) continue;
    const auto sampler = harness::make_builtin_sampler(name);
    std::size_t judged = 0;
    for (const auto& path : corpus()) {
      SCOPED_TRACE(path.filename().string() + " on " + name);
      const Judgement judgement = replay(load_capsule(path), *sampler, fairdraw_semantics());
      EXPECT_FALSE(judgement.failed()) << judgement.message;
      if (judgement.outcome == Outcome::holds) ++judged;
    }
    // The model supports every case; other samplers may lack rows of probabilities, or chains.
    EXPECT_GE(judged, name == "model" ? corpus().size() : corpus().size() / 2) << name;
  }
}

TEST(Corpus, CapsulesAreWrittenAsTheyWereRead) {
  for (const auto& path : corpus()) {
    SCOPED_TRACE(path.filename());
    std::string text(kMaxCapsuleBytes, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    EXPECT_EQ(to_json(from_json(text)), text);
  }
}

}  // namespace
}  // namespace fairdraw::suites::fuzz
