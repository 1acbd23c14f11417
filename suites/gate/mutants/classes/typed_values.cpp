// Mutants that report only tokens. Each mutant is wrong for one value that users type, for top_k
// next to the vocabulary size, in one shape of call, or in tails that its uniform numbers cannot
// reach.
#include <algorithm>
#include <cmath>
#include <limits>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

std::int32_t size_of(std::size_t vocab) { return static_cast<std::int32_t>(vocab); }

bool is_alone(const Parameters& p) { return p.top_p == 1 && p.min_p == 0; }

// Bugs of top_k next to the vocabulary size, each on a sampler with seeds and on a sampler with a
// generator of its own.
constexpr Entry kNextToVocab[] = {
    {"k-of-vocab-keeps-half", "a top_k of the whole vocabulary keeps half of it",
     [](Parameters& p, std::size_t v) {
       if (p.top_k == size_of(v)) p.top_k = std::max(size_of(v) / 2, 1);
     }},
    {"k-of-vocab-is-greedy", "a top_k of the whole vocabulary takes the largest logit",
     [](Parameters& p, std::size_t v) {
       if (p.top_k == size_of(v)) p.top_k = 1;
     }},
    {"k-above-vocab-is-1", "a top_k above the vocabulary is taken for 1",
     [](Parameters& p, std::size_t v) {
       if (p.top_k > size_of(v)) p.top_k = 1;
     }},
    {"k-above-vocab-wraps", "of a top_k above the vocabulary what is left of it is taken",
     [](Parameters& p, std::size_t v) {
       if (p.top_k > size_of(v)) p.top_k = std::max(p.top_k % size_of(v), 1);
     }},
    {"k-below-vocab-is-off", "a top_k of one less than the vocabulary drops nothing",
     [](Parameters& p, std::size_t v) {
       if (p.top_k == size_of(v) - 1 && v > 2) p.top_k = 0;
     }},
    {"k-below-vocab-is-greedy", "a top_k of one less than the vocabulary takes the largest logit",
     [](Parameters& p, std::size_t v) {
       if (p.top_k == size_of(v) - 1) p.top_k = 1;
     }},
    {"k-of-vocab-drops-top-p", "a top_k of the whole vocabulary and more turns top_p off",
     [](Parameters& p, std::size_t v) {
       if (p.top_k >= size_of(v)) p.top_p = 1;
     }},
};

constexpr Entry kTyped[] = {
    {"k-of-40-is-20", "a top_k of 40, alone, is 20",
     [](Parameters& p) {
       if (p.top_k == 40 && is_alone(p)) p.top_k = 20;
     }},
    {"k-of-40-is-41", "a top_k of 40, alone, keeps one more",
     [](Parameters& p) {
       if (p.top_k == 40 && is_alone(p)) p.top_k = 41;
     }},
    {"k-of-50-is-47", "a top_k of 50, alone, keeps three less",
     [](Parameters& p) {
       if (p.top_k == 50 && is_alone(p)) p.top_k = 47;
     }},
    {"k-at-most-1024", "a top_k above 1024 is taken for 1024", By("boundaries/*/large_top_k"),
     [](Parameters& p, std::size_t v) {
       if (p.top_k < size_of(v)) p.top_k = std::min(p.top_k, 1024);
     }},
    {"k-of-4096-is-2048", "a top_k of 4096 is taken for 2048", By("boundaries/*/large_top_k"),
     [](Parameters& p, std::size_t v) {
       if (p.top_k == 4096 && p.top_k < size_of(v)) p.top_k = 2048;
     }},
    {"k-turns-min-p-off", "where top_k is on and top_p is not, min_p is off",
     [](Parameters& p) {
       if (p.top_k > 1 && p.top_p == 1) p.min_p = 0;
     }},
    {"three-filters-are-two", "where all three filters are on, min_p is off",
     [](Parameters& p) {
       if (p.top_k > 1 && p.top_p < 1) p.min_p = 0;
     }},
    {"p-of-0.95-is-0.96", "a top_p of 0.95 is 0.96",
     [](Parameters& p) {
       if (p.top_p == 0.95F) p.top_p = 0.96F;
     }},
    {"p-of-0.95-alone-is-0.9", "a top_p of 0.95 is 0.9 where top_k is off",
     [](Parameters& p) {
       if (p.top_p == 0.95F && p.top_k == 0) p.top_p = 0.9F;
     }},
    {"p-of-1-is-0.9999", "a top_p of 1 is 0.9999", By("boundaries/*/v40/uniforms"),
     [](Parameters& p) {
       if (p.top_p == 1 && p.temperature != 0) p.top_p = 0.9999F;
     }},
    {"temperature-of-0.6-is-0.8", "a temperature of 0.6 is 0.8",
     By("pit/gaussian_wide/v1000/typed*"),
     [](Parameters& p) {
       if (p.temperature == 0.6F) p.temperature = 0.8F;
     }},
    {"temperature-of-0.1-is-0.2", "a temperature of 0.1 is 0.2",
     By("pit/gaussian_wide/v1000/typed*"),
     [](Parameters& p) {
       if (p.temperature == 0.1F) p.temperature = 0.2F;
     }},
    {"last-bitmask-word-ignored", "the last word of a bitmask is not looked at",
     By("boundaries/*/typed/banned"),
     [](Row& row) {
       if (!row.allowed.empty()) row.allowed.back() = ~0U;
     }},
    {"last-bitmask-word-bans", "the last word of a bitmask is taken for 0, if another allows ids",
     By("boundaries/*/typed/banned"),
     [](Row& row) {
       if (row.allowed.size() < 2) return;
       const std::uint32_t last = row.allowed.back();
       row.allowed.back() = 0;
       const bool left = std::ranges::any_of(row.allowed, [](auto word) { return word != 0; });
       if (!left) row.allowed.back() = last;
     }},
    {"bans-after-top-k", "a mask is applied behind top_k: banned ids count among the k largest",
     By("boundaries/*/typed/banned"),
     [](Result& result, const Row& row) {
       if (result.status != RowStatus::ok || row.allowed.empty() || !filters_by_k(row)) return;
       Row free = row;
       free.allowed.clear();
       const Result all = result_of(
           free, {.temperature = row.parameters.temperature, .top_k = row.parameters.top_k});
       if (all.status != RowStatus::ok) return;
       std::vector<Candidate> kept = ranked(result, row);
       std::erase_if(kept, [&all](const Candidate& token) {
         return all.mask[static_cast<std::size_t>(token.id)] == 0;
       });
       if (!kept.empty()) keep_only(result, kept);
     }},
    {"row-behind-padding-is-greedy", "a row behind one of padding takes its largest logit",
     [](Row& row, const Place& place) {
       if (place.row > 0 && !is_active(*place.call, place.row - 1) && !row.from_probs) {
         row.parameters.temperature = 0;
       }
     }},
    {"16-large-rows-are-greedy", "in calls of 16 rows of 32000 ids and more all are greedy",
     By("boundaries/*/v32003/*"),
     [](Row& row, const Place& place) {
       if (place.call->rows == 16 && row.logits.size() >= 32'000 && !row.from_probs) {
         row.parameters.temperature = 0;
       }
     }},
};

// Returns the number of a sample within its output.
std::uint32_t sample_of(const WordKey& of) {
  return of.index % static_cast<std::uint32_t>(of.call->num_samples);
}

// The functions below return the random word that corresponds to a uniform number with `bits` bits,
// and to a number scaled to [0, end).
std::uint64_t cut_to(int bits, std::uint64_t word) { return word >> (64 - bits) << (64 - bits); }
std::uint64_t scaled_to(double end, std::uint64_t word) {
  return static_cast<std::uint64_t>(static_cast<double>(word >> 11) * end) << 11;
}

constexpr Entry kWords[] = {
    {"samples-2-to-7-in-the-lower-half",
     "where an output has 16 samples and more, numbers 2 to 7 take the first half of the row",
     By("pit/gaussian_wide/v1000/typed*"),
     [](const WordKey& of) {
       const std::uint64_t word = word_of(of);
       const bool wrong = of.call->num_samples >= 16 && sample_of(of) >= 2 && sample_of(of) <= 7;
       return wrong ? word >> 1 : word;
     }},
    {"uniforms-of-16-bits", "a draw looks at 16 bits of its word",
     [](const DrawWeights& drawn, std::uint64_t word) {
       return token_of(drawn, cut_to(16, word));
     }},
    {"uniforms-of-20-bits", "a draw looks at 20 bits of its word",
     [](const DrawWeights& drawn, std::uint64_t word) {
       return token_of(drawn, cut_to(20, word));
     }},
    {"uniforms-of-20-bits-between", "the uniform is half-way between two multiples of 2^-20",
     [](const DrawWeights& drawn, std::uint64_t word) {
       return token_of(drawn, cut_to(20, word) | std::uint64_t{1} << 43);
     }},
    {"uniforms-end-at-0.9999", "uniforms lie in [0, 0.9999)", By("boundaries/*/v40/uniforms"),
     [](const DrawWeights& drawn, std::uint64_t word) {
       return token_of(drawn, scaled_to(0.9999, word));
     }},
    {"uniforms-end-at-0.99999", "uniforms lie in [0, 0.99999)", By("boundaries/*/v40/uniforms"),
     [](const DrawWeights& drawn, std::uint64_t word) {
       return token_of(drawn, scaled_to(0.99999, word));
     }},
    {"uniforms-begin-at-0.00001", "uniforms lie in [0.00001, 1)", By("boundaries/*/v40/uniforms"),
     [](const DrawWeights& drawn, std::uint64_t word) {
       return token_of(drawn, ~scaled_to(0.99999, ~word));
     }},
    {"noise-ends-at-0.99999", "the uniforms of Gumbel noise lie in [0, 0.99999)",
     By("boundaries/*/v65567/uniforms", Base::vllm_race),
     [](double uniform) { return gumbel(std::max(uniform * 0.99999, 0x1p-64)); }},
    {"noise-of-16-bits", "the uniforms of Gumbel noise have 16 bits",
     By("boundaries/*/v65567/uniforms", Base::vllm_race),
     [](double uniform) { return gumbel((std::floor(uniform * 0x1p16) + 0.5) * 0x1p-16); }},
};

}  // namespace

std::vector<Mutant> typed_value_mutants() {
  constexpr std::string_view kKind = "typed-values";
  std::vector<Mutant> all;
  for (const Entry& entry : kNextToVocab) {
    all.push_back(mutant_of(kKind, "tokens-", entry, "boundaries/*/next_to_vocab", Base::tokens));
    all.push_back(mutant_of(kKind, "engine-", entry, "boundaries/*/next_to_vocab", Base::engine));
    all.back().wrong = "with a generator of its own: " + all.back().wrong;
  }
  for (const Entry& entry : kTyped) {
    all.push_back(
        mutant_of(kKind, "tokens-", entry,
                  entry.by.cases == nullptr ? "boundaries/gaussian/v1000/typed" : entry.by.cases,
                  Base::tokens));
  }
  return joined(
      {std::move(all), mutants_of(kKind, "boundaries/*/v65567/uniforms", Base::tokens, kWords)});
}

}  // namespace fairdraw::suites
