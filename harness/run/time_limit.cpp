#include "harness/run/time_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "harness/contract/interruptible.h"

namespace fairdraw::harness {

TimeLimit::TimeLimit(double seconds) : seconds_(seconds) {
  if (seconds <= 0) return;
  end_ = Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string run_is_over(const TimeLimit& run) {
  return fmt::format("the run took more than {:g} s (--run-timeout)", run.seconds());
}

LimitedSampler::LimitedSampler(Sampler& sampler, const TimeLimit& of_case, const TimeLimit& of_run)
    : ForwardingSampler(sampler), case_(of_case), run_(of_run) {
  auto* const interruptible = dynamic_cast<Interruptible*>(&sampler);
  if (interruptible != nullptr) interruptible->end_calls_at(std::min(case_.end(), run_.end()));
}

std::string LimitedSampler::broken() const {
  return over_.empty() ? ForwardingSampler::broken() : over_;
}

std::string LimitedSampler::before_call() {
  look_at_the_clock(true);
  if (over_.empty()) ++calls_;
  return over_;
}

void LimitedSampler::after_call() { look_at_the_clock(!ForwardingSampler::broken().empty()); }

// An answer counts even if the time ran out during its call.
void LimitedSampler::look_at_the_clock(bool unanswered) {
  if (!over_.empty()) return;
  if (unanswered && case_.is_over()) {
    over_ = fmt::format("the case took more than {:g} s (--case-timeout), in {} calls",
                        case_.seconds(), calls_);
  } else if (unanswered && run_.is_over()) {
    over_ = run_is_over(run_);
    run_was_over_ = true;
  }
}

}  // namespace fairdraw::harness
