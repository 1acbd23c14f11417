// Judges that the caller's floating-point environment changes no result, and is restored after the
// call.
//
// A sampler that computes in float32 and ignores the floating-point environment computes in the
// caller's environment, and is right in the default environment. Therefore flushing is reported as
// a separate cause, and as a promise that can be declined; a rounding mode that changes a result is
// a cause of precision.
#include <fmt/format.h>

#include <cfenv>

#include "harness/run/calls/forwarding_sampler.h"
#include "harness/run/checks/checks.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fairdraw::harness {
namespace {

struct Mode {
  const char* name;
  unsigned bits;  // bits of MXCSR on x86, otherwise a rounding mode of <cfenv>
  bool flushes = false;
};

#if defined(__x86_64__)
constexpr unsigned kControl = 0xffc0U;  // all bits of MXCSR except the sticky exception flags
constexpr unsigned kDaz = 1U << 6, kFtz = 1U << 15, kDown = 1U << 13, kUp = 2U << 13,
                   kZero = 3U << 13;
const Mode kModes[] = {{"FTZ", kFtz, true},
                       {"DAZ", kDaz, true},
                       {"FTZ and DAZ", kFtz | kDaz, true},
                       {"rounding down", kDown},
                       {"rounding up", kUp},
                       {"rounding to zero", kZero},
                       {"rounding up, FTZ and DAZ", kUp | kFtz | kDaz, true}};
unsigned get_mode() { return _mm_getcsr() & kControl; }
void set_mode(unsigned bits) { _mm_setcsr(bits); }
unsigned with(unsigned before, const Mode& mode) { return before | mode.bits; }
#else
const Mode kModes[] = {{"rounding down", FE_DOWNWARD},
                       {"rounding up", FE_UPWARD},
                       {"rounding to zero", FE_TOWARDZERO}};
unsigned get_mode() { return static_cast<unsigned>(std::fegetround()); }
void set_mode(unsigned bits) { std::fesetround(static_cast<int>(bits)); }
unsigned with(unsigned, const Mode& mode) { return mode.bits; }
#endif

// A sampler that records the float mode after each call, before the mode is restored.
class WatchedSampler final : public ForwardingSampler {
 public:
  using ForwardingSampler::ForwardingSampler;
  unsigned left() const { return left_; }

 private:
  void after_call() override { left_ = get_mode(); }

  unsigned left_ = get_mode();
};

// Returns the result that a float mode changed, or null if there is none.
const char* changed_by_mode(const Response& response, const Response& expected, bool exact) {
  if (response.tokens != expected.tokens) return "tokens";
  if (response.mask != expected.mask) return "masks";
  if (response.support_size != expected.support_size) return "support sizes";
  if (response.statuses != expected.statuses) return "statuses";
  return exact && response.probs != expected.probs ? "probabilities" : nullptr;
}

}  // namespace

CheckOutcome check_float_environment(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.per_request_seeds) return skipped(lack_of("per_request_seeds"));
  const Request request = make_request(input, 0, input.rows);
  if (const Lack lacks = lack_for(sampler, request); !lacks.empty()) {
    return skipped(lacks);
  }
  const WantedResults wanted = reported(
      sampler, request, {.statuses = true, .support_size = true, .mask = true, .probs = true});
  const unsigned before = get_mode();
  WatchedSampler watched(*input.sampler);
  const Response expected = run_request(watched, request, wanted);
  const unsigned after_default = watched.left();
  CheckOutcome outcome;
  if (!expected.ran()) return outcome.fail(expected.trouble());
  outcome.rows = static_cast<std::uint64_t>(input.rows);
  outcome.draws = outcome.rows;

  if (after_default != before) {
    return outcome.fail(fmt::format("the call changed the caller's mode from {:#x} to {:#x}",
                                    before, after_default));
  }
  if (!sampler.flush_modes) outcome.leave_out(lack_of("flush_modes"));
  bool flushed = false;  // a flushing mode changes results, so other modes tell nothing new
  for (const Mode& mode : kModes) {
    if (mode.flushes && (flushed || !sampler.flush_modes)) continue;
    const unsigned set = with(before, mode);
    set_mode(set);
    const Response response = run_request(watched, request, wanted);
    const unsigned after = watched.left();
    set_mode(before);
    outcome.draws += outcome.rows;
    ++outcome.measures["modes"];
    if (!response.ran()) return outcome.fail(response.trouble());
    if (after != set) {
      return outcome.fail(fmt::format("{}: the call changed the caller's mode from {:#x} to {:#x}",
                                      mode.name, set, after));
    }
    const char* const changed = changed_by_mode(response, expected, input.exact());
    if (changed == nullptr) continue;
    const std::string what = fmt::format("{} of the caller changes {}", mode.name, changed);
    outcome.fail(what);
    outcome.evidence.suspects.push_back(
        {mode.flushes ? "follows the caller's FTZ" : "numeric precision", what});
    if (!mode.flushes) return outcome;
    flushed = true;
  }
  if (outcome.failed()) return outcome;
  outcome.message = fmt::format("{} modes of the caller change nothing", outcome.measures["modes"]);
  return outcome;
}

}  // namespace fairdraw::harness
