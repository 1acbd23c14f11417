// The caller's float environment must not reach the results, and must come back as it was.
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
  unsigned bits;  // of MXCSR on x86, a rounding mode of <cfenv> elsewhere
};

#if defined(__x86_64__)
constexpr unsigned kControl = 0xffc0U;  // all of MXCSR but the sticky exception flags
constexpr unsigned kDaz = 1U << 6, kFtz = 1U << 15, kDown = 1U << 13, kUp = 2U << 13,
                   kZero = 3U << 13;
const Mode kModes[] = {{"FTZ", kFtz},
                       {"DAZ", kDaz},
                       {"FTZ and DAZ", kFtz | kDaz},
                       {"rounding down", kDown},
                       {"rounding up", kUp},
                       {"rounding to zero", kZero},
                       {"rounding up, FTZ and DAZ", kUp | kFtz | kDaz}};
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

// The mode as each call left it: the caller gets its own back.
class WatchedSampler final : public ForwardingSampler {
 public:
  using ForwardingSampler::ForwardingSampler;
  unsigned left() const { return left_; }

 private:
  void after_call() override { left_ = get_mode(); }

  unsigned left_ = get_mode();
};

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
  for (const Mode& mode : kModes) {
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
    const char* changed = nullptr;
    if (response.tokens != expected.tokens) changed = "tokens";
    if (response.mask != expected.mask) changed = "masks";
    if (response.support_size != expected.support_size) changed = "support sizes";
    if (response.statuses != expected.statuses) changed = "statuses";
    if (input.exact() && response.probs != expected.probs) changed = "probabilities";
    if (changed != nullptr) {
      return outcome.fail(fmt::format("{} of the caller changes {}", mode.name, changed));
    }
  }
  outcome.message = fmt::format("{} modes of the caller change nothing", outcome.measures["modes"]);
  return outcome;
}

}  // namespace fairdraw::harness
