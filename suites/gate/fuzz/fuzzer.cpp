#include "suites/gate/fuzz/fuzzer.h"

#include <fnmatch.h>

#include <chrono>

#include "harness/contract/usage_error.h"
#include "harness/run/calls/random_words.h"
#include "suites/gate/fuzz/shrink.h"

namespace fairdraw::suites::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

// Largest numbers of judgements while a failure is shrunk. Judging a case of a few tokens takes
// microseconds; judging a distribution case takes a large part of a second.
constexpr std::uint64_t kShrinkEvaluations = 20000;
constexpr std::uint64_t kDistributionShrinkEvaluations = 1500;

class Run {
 public:
  Run(harness::Sampler& sampler, const reference::Semantics& semantics, const FuzzOptions& options)
      : sampler_(sampler),
        semantics_(semantics),
        options_(options),
        batches_(batch_cases(sampler.description(), options.generate)),
        chains_(chain_cases(sampler.description(), options.generate)),
        speculations_(speculation_cases(sampler.description(), options.generate)),
        distributions_(distribution_cases(sampler.description(), options.generate)) {
    for (const Property& property : properties()) {
      const bool statistical = property.kind == CaseKind::distribution;
      if (statistical != options.statistical) continue;
      if (fnmatch(options.property_glob.c_str(), property.name.c_str(), 0) == 0) {
        wanted_.push_back(&property);
      }
    }
    if (wanted_.empty()) {
      throw harness::UsageError("--property: no " +
                                std::string(options.statistical ? "statistical " : "") +
                                "property matches '" + options.property_glob + "'");
    }
  }

  FuzzResult run(const FuzzProgress& progress) {
    const auto start = Clock::now();
    FuzzStatistics& statistics = result_.statistics;
    for (std::uint64_t i = 0; i < options_.cases && !done_; ++i) {
      judge_case(options_.first_case + i);
      ++statistics.cases;
      statistics.seconds = std::chrono::duration<double>(Clock::now() - start).count();
      if (progress) progress(statistics);
      if ((statistics.stopped = options_.stop())) break;
      if (options_.seconds > 0 && statistics.seconds >= options_.seconds) break;
    }
    return std::move(result_);
  }

 private:
  rc::Shrinkable<FuzzCase> make_case(std::uint64_t number) const {
    const rc::Random random(harness::mixed(options_.seed, number));
    constexpr int kSize = 100;  // RapidCheck's size parameter, which the generators ignore
    if (options_.statistical) return distributions_(random, kSize);
    if (sampler_.description().speculation && number % 4 == 1) {
      return speculations_(random, kSize);
    }
    return sampler_.description().chains && number % 4 == 3 ? chains_(random, kSize)
                                                            : batches_(random, kSize);
  }

  void judge_case(std::uint64_t number) {
    const rc::Shrinkable<FuzzCase> shrinkable = make_case(number);
    const FuzzCase fuzz_case = shrinkable.value();
    Subject subject(sampler_, semantics_, fuzz_case);
    for (const Property* const property : wanted_) {
      if (property->kind != fuzz_case.kind || number % property->period != 0) continue;
      if (found_.contains(property->name)) continue;
      const Judgement judgement = judge(*property, subject);
      if (judgement.outcome == Outcome::not_applicable) {
        ++result_.statistics.skipped;
        continue;
      }
      ++result_.statistics.judged;
      ++result_.statistics.judged_by_property[property->name];
      if (!judgement.failed()) continue;
      if (options_.stop()) return;  // calls may have been rejected because of the stop
      if (property->kind == CaseKind::distribution && !fails_on_fresh_draws(*property, fuzz_case)) {
        ++result_.statistics.unconfirmed;
        continue;
      }
      report(*property, number, shrinkable, judgement.message);
      if (done_) return;
    }
  }

  Judgement judge_again(const Property& property, const FuzzCase& fuzz_case) {
    Subject subject(sampler_, semantics_, fuzz_case);
    return judge(property, subject);
  }

  // Judges the case again on fresh draws. The case was not chosen because of these fresh draws, so
  // their evidence counts in full.
  bool fails_on_fresh_draws(const Property& property, const FuzzCase& fuzz_case) {
    FuzzCase fresh = fuzz_case;
    fresh.salt = harness::mixed(~fuzz_case.salt, 0);
    return judge_again(property, fresh).failed();
  }

  void report(const Property& property, std::uint64_t number,
              const rc::Shrinkable<FuzzCase>& shrinkable, const std::string& message) {
    const bool distribution = property.kind == CaseKind::distribution;
    std::uint64_t evaluation = 0;
    const Shrunk shrunk =
        shrink(shrinkable, distribution ? kDistributionShrinkEvaluations : kShrinkEvaluations,
               [&](FuzzCase& candidate) {
                 // Every candidate is judged on fresh draws; otherwise shrinking would keep cases
                 // that failed by chance.
                 if (distribution)
                   candidate.salt = harness::mixed(shrinkable.value().salt, ++evaluation);
                 const bool failed = judge_again(property, candidate).failed();
                 return failed && !options_.stop();
               });
    Finding finding;
    finding.property = property.name;
    finding.case_number = number;
    finding.original = shrinkable.value();
    finding.shrunk = shrunk.fuzz_case;
    finding.evaluations = shrunk.evaluations;
    const Judgement last = judge_again(property, shrunk.fuzz_case);
    finding.message = options_.stop() ? message : last.message;
    result_.findings.push_back(std::move(finding));
    found_[property.name] = true;
    done_ = !options_.keep_going || found_.size() == wanted_.size();
  }

  harness::Sampler& sampler_;
  const reference::Semantics& semantics_;
  const FuzzOptions& options_;
  rc::Gen<FuzzCase> batches_, chains_, speculations_, distributions_;
  std::vector<const Property*> wanted_;
  std::map<std::string, bool> found_;
  FuzzResult result_;
  bool done_ = false;
};

}  // namespace

FuzzResult fuzz(harness::Sampler& sampler, const reference::Semantics& semantics,
                const FuzzOptions& options, const FuzzProgress& progress) {
  return Run(sampler, semantics, options).run(progress);
}

Capsule capsule_of(const Finding& finding, harness::Sampler& sampler,
                   const reference::Semantics& semantics) {
  Capsule capsule;
  capsule.tool_version = FAIRDRAW_VERSION;
  capsule.sampler = sampler.description().name;
  capsule.semantics = semantics.name;
  capsule.property = finding.property;
  capsule.message = finding.message;
  capsule.fuzz_case = finding.shrunk;
  add_drawn_distribution(capsule, sampler, semantics);
  return capsule;
}

}  // namespace fairdraw::suites::fuzz
