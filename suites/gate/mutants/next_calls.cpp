// Verification of drafts whose words are those of the call that an engine makes next, at the offset
// behind what was emitted. Within one call nothing is wrong.
#include <cstdint>
#include <memory>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

// The word of purpose `of` is the acceptance word of the next offset.
template <Purpose of>
Mutant of_purpose(const char* name, const char* wrong) {
  return mutated_distribution(
      {name, "systematic", "independence", wrong, {"chain_law/*"}}, [](Mutation& mutation) {
        mutation.chain_word = [](std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                                 std::uint32_t index) {
          return purpose == of ? harness::random_word(seed, offset + 1, Purpose::accept, index)
                               : harness::random_word(seed, offset, purpose, index);
        };
      });
}

/// Where a verification's requests are in their streams of random bits.
struct Streams {
  const fairdraw_verification* call = nullptr;
  std::int64_t request = 0;  ///< the next one; all of a call are valid in what this is for

  /// The word of the offset that is `ahead` from the request's own.
  std::uint64_t word(std::uint64_t ahead, Purpose purpose) const {
    const bool scalar = call->seed_is_scalar != 0;
    const std::int64_t s = scalar ? 0 : request;
    return harness::random_word(call->seed[s], call->offset[s] + ahead, purpose,
                                static_cast<std::uint32_t>(scalar ? request : 0));
  }
};

// The last word of a request's chain, changed to one of the next call's first offset.
Mutant of_last_word(const char* name, const char* wrong,
                    void (*change)(reference::PositionWords& last, const Streams& streams,
                                   std::uint64_t next)) {
  return mutated_distribution(
      {name, "systematic", "independence", wrong, {"verify_law/*"}}, [change](Mutation& mutation) {
        const auto streams = std::make_shared<Streams>();
        const auto call = std::make_shared<fairdraw_verification>();
        mutation.speculation_call = [streams, call](fairdraw_verification& given, Storage&) {
          *call = given;
          *streams = {call.get(), 0};
        };
        mutation.drafted = [streams, change](harness::DraftedTokens& request) {
          if (!request.tree) change(request.words.back(), *streams, request.words.size());
          ++streams->request;
        };
      });
}

}  // namespace

std::vector<Mutant> next_call_mutants() {
  return {
      of_purpose<Purpose::recover>(
          "recovery-is-next-acceptance",
          "a recovered token and the next call's first acceptance share a word"),
      of_purpose<Purpose::bonus>(
          "bonus-is-next-acceptance",
          "the bonus token and the next call's first acceptance share a word"),
      mutated_distribution({"verify-recovery-is-next-acceptance",
                            "systematic",
                            "independence",
                            "in requests a recovered token and the next call's first acceptance "
                            "share a word",
                            {"verify_law/*"}},
                           [](Mutation& mutation) {
                             mutation.drafted = [](harness::DraftedTokens& request) {
                               for (std::size_t i = 0; i + 1 < request.words.size(); ++i) {
                                 request.words[i].recover = request.words[i + 1].accept;
                               }
                             };
                           }),
      of_last_word("verify-bonus-is-next-acceptance",
                   "in requests the bonus token and the next call's first acceptance share a word",
                   [](reference::PositionWords& last, const Streams& streams, std::uint64_t next) {
                     last.bonus = streams.word(next, Purpose::accept);
                   }),
      of_last_word("verify-last-draw-is-next-draw",
                   "after drafts of unknown distribution the last token is drawn with the next "
                   "call's first word",
                   [](reference::PositionWords& last, const Streams& streams, std::uint64_t next) {
                     last.draw = streams.word(next, Purpose::draw);
                   }),
  };
}

}  // namespace fairdraw::suites
