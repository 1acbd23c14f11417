// Random words that are cut to the bits of a float32 before a token is looked up: no number of
// draws that a run makes shows it. Words that are given do at once, where tokens are compared bit
// for bit.
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

// Of every word the first 24 bits alone.
void cut(Mutation& mutation) {
  mutation.pick = [](const DrawWeights& drawn, std::uint64_t word) {
    return drawn.token_at(drawn.position(word >> 40 << 40));
  };
}

}  // namespace

std::vector<Mutant> random_word_mutants() {
  return {
      mutated_integers({"exact-uniforms-of-24-bits",
                        "systematic",
                        "numeric-precision",
                        "a draw looks at 24 bits of its word, behind exact arithmetic otherwise",
                        {"scripted/*/v1000/*", "scripted/*"}},
                       cut),
      mutated_distribution({"uniforms-of-24-bits",
                            "systematic",
                            "numeric-precision",
                            "the uniform is a float32 in [0, 1): it has 24 bits",
                            {"scripted/*/v1000/*"},
                            "a sampler that claims no more than the distribution may round as "
                            "float32 does, which has 24 bits too; to see a token of 2^-24 lost "
                            "takes more than 10^8 draws"},
                           cut),
  };
}

}  // namespace fairdraw::suites
