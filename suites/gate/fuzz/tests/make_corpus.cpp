// Writes the regression corpus: the program fuzzes every mutant, and saves a shrunk capsule for
// each property that finds it. Usage: fairdraw_make_corpus FOLDER [CASES]
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <set>

#include "harness/run/tests/mutants.h"
#include "suites/gate/fuzz/capsule_files.h"
#include "suites/gate/fuzz/fuzzer.h"

namespace fairdraw::suites::fuzz {
namespace {

// Many properties find the same mutant, so the number of capsules is limited. At most two
// properties that no earlier mutant has failed are saved; if there is none, the first property is
// saved.
constexpr std::size_t kCapsulesAMutant = 2;

void write(const std::string& folder, const harness::RunMutant& mutant, const FuzzOptions& options,
           std::set<std::string>& shown) {
  const auto sampler = mutant.make();
  const reference::Semantics& semantics = *reference::find_profile("fairdraw");
  const FuzzResult result = fuzz(*sampler, semantics, options);
  std::size_t saved = 0;
  for (const bool only_new : {true, false}) {
    for (const Finding& finding : result.findings) {
      if (saved >= (only_new ? kCapsulesAMutant : 1)) break;
      if (only_new && shown.contains(finding.property)) continue;
      Capsule capsule = capsule_of(finding, *sampler, semantics);
      const auto model = harness::make_builtin_sampler("model");
      if (replay(capsule, *model, semantics).outcome != Outcome::holds) continue;
      capsule.sampler = "mutant: " + mutant.name;
      save_capsule(folder, capsule);
      shown.insert(finding.property);
      ++saved;
    }
  }
  fmt::print("{}: {} properties of {} cases found it, {} capsules\n", mutant.name,
             result.findings.size(), result.statistics.cases, saved);
  for (const Finding& finding : result.findings) {
    fmt::print("    {} at case {}, {} judged: {}: {}\n", finding.property, finding.case_number,
               finding.evaluations, describe(finding.shrunk), finding.message);
  }
}

int run(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: fairdraw_make_corpus FOLDER [CASES]\n");
    return 2;
  }
  FuzzOptions options;
  options.seed = 1;
  options.keep_going = true;
  options.cases = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 4000;
  std::set<std::string> shown;
  for (const harness::RunMutant& mutant : harness::mutants()) {
    // This mutant sorts by rank without checking that the row has a thousand tokens.
    if (mutant.name == "tail beyond rank 1000 never drawn") continue;
    write(argv[1], mutant, options, shown);
    FuzzOptions distributions = options;
    distributions.statistical = true;
    distributions.cases = 50;
    distributions.generate.max_vocab = 257;
    write(argv[1], mutant, distributions, shown);
  }
  return 0;
}

}  // namespace
}  // namespace fairdraw::suites::fuzz

int main(int argc, char** argv) {
  try {
    return fairdraw::suites::fuzz::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "fairdraw_make_corpus: {}\n", error.what());
    return 2;
  }
}
