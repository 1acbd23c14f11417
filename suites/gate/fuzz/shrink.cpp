#include "suites/gate/fuzz/shrink.h"

#include <rapidcheck/shrinkable/Create.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "suites/gate/fuzz/shrink_steps.h"

namespace fairdraw::suites::fuzz {
namespace {

// The steps of a case, one after the other; those that change nothing are passed over.
class Candidates {
 public:
  using ValueType = FuzzCase;

  explicit Candidates(const FuzzCase& fuzz_case)
      : base_(std::make_shared<const FuzzCase>(fuzz_case)),
        steps_(std::make_shared<const std::vector<Step>>(steps_for(fuzz_case))) {}

  rc::Maybe<FuzzCase> operator()() {
    while (next_ < steps_->size()) {
      FuzzCase candidate = *base_;
      if ((*steps_)[next_++](candidate)) return candidate;
    }
    return rc::Nothing;
  }

 private:
  std::shared_ptr<const FuzzCase> base_;  // a Seq is copied: what does not change is shared
  std::shared_ptr<const std::vector<Step>> steps_;
  std::size_t next_ = 0;
};

}  // namespace

rc::Seq<FuzzCase> simpler_cases(const FuzzCase& fuzz_case) {
  return rc::makeSeq<Candidates>(fuzz_case);
}

rc::Shrinkable<FuzzCase> with_shrinks(FuzzCase fuzz_case) {
  return rc::shrinkable::shrinkRecur(std::move(fuzz_case), &simpler_cases);
}

Shrunk shrink(const rc::Shrinkable<FuzzCase>& failing, std::uint64_t max_evaluations,
              const std::function<bool(FuzzCase&)>& fails) {
  Shrunk result;
  result.fuzz_case = failing.value();
  rc::Seq<rc::Shrinkable<FuzzCase>> candidates = failing.shrinks();
  while (result.evaluations < max_evaluations) {
    const auto candidate = candidates.next();
    if (!candidate) break;
    FuzzCase fuzz_case = candidate->value();
    ++result.evaluations;
    if (!fails(fuzz_case)) continue;
    ++result.steps;
    result.fuzz_case = std::move(fuzz_case);
    candidates = candidate->shrinks();
  }
  return result;
}

}  // namespace fairdraw::suites::fuzz
