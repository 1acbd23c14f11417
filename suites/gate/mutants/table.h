// Tables of mutants. A row is a mutant: its name, where the bug was found, what is wrong in one
// sentence, and the function that is wrong. The parameters of that function say which step of the
// sampler it takes the place of. A new mutant is one row in the table of its class (classes/), with
// a function where what is wrong is new; a new class is a table, and its function in catalogue.h
// and catalogue.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "suites/gate/mutants/catalogue.h"
#include "suites/gate/mutants/float_sampler.h"
#include "suites/gate/mutants/mutated_model.h"

namespace fairdraw::suites {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;
using Scores = FloatSampler::Scores;
using Logits = FloatSampler::Logits;
using Parameters = reference::RowParameters;

/// A right sampler that mutants are made of. integers: claims the exact arithmetic. distribution:
/// does not. generator: nor does it take seeds. tokens, engine: distribution and generator that
/// report tokens alone, engine one token a row of a call. The others are FloatSampler, by order and
/// draw.
enum class Base {
  of_table,
  integers,
  distribution,
  generator,
  tokens,
  engine,
  vllm_cdf,
  vllm_race,
  hf_cdf,
  hf_race,
  rosellm_cdf,
  rosellm_race
};

/// A step that is wrong. The first two set any steps, and are called for each sampler made, so that
/// what these remember is the sampler's own; all others are one step.
using Change = std::variant<
    void (*)(Mutation&), void (*)(FloatMutation&),
    // A call, and what it has written when it ends.
    void (*)(fairdraw_batch&), void (*)(fairdraw_batch&, Storage&), void (*)(const fairdraw_batch&),
    // Calls for which it holds: their draws forget the filters, which masks do not.
    bool (*)(const fairdraw_batch&),
    // A row, its parameters, and its processing where it has some and is a good row: a mutant is
    // not to change statuses by the way.
    void (*)(Row&), void (*)(Row&, const Place&), void (*)(Parameters&),
    void (*)(Parameters&, std::size_t vocab), void (*)(reference::RowProcessing&),
    void (*)(reference::RowProcessing&, Row&),
    // Results of a row, and the values that are reported.
    void (*)(Result&, const Row&), void (*)(Result&, const Row&, const Place&),
    reference::RealLogprobs (*)(const Row&, const Result&, LogprobsMode),
    // Weights that are drawn from: masks, sizes of supports and probabilities stay right. An id
    // that is not in the mask stays out, and a row that would be left with nothing keeps what it
    // has.
    void (*)(RowWeights&), void (*)(RowWeights&, const Row&),
    // The word of a draw, the token that a word stands for, and whether a proposal is taken.
    std::uint64_t (*)(const WordKey&), std::int32_t (*)(const DrawWeights&, std::uint64_t word),
    bool (*)(const Proposal&),
    // A chain, each of its positions that has a token, and the call.
    void (*)(Chain&), void (*)(Chain&, std::size_t position), void (*)(fairdraw_chain&, Storage&),
    // A request with drafts, what became of it, and the call.
    void (*)(harness::DraftedTokens&),
    void (*)(reference::SpeculationOutcome&, const harness::DraftedTokens&),
    void (*)(fairdraw_verification&, Storage&),
    // FloatSampler's: top_p, noise, probabilities.
    void (*)(Scores&, float top_p), double (*)(double uniform), void (*)(std::vector<float>&)>;

/// Words of a row that are not those of its table: cases that are to find the mutant, likeliest
/// first and with a blank between two, and what it is made of.
struct By {
  const char* cases = nullptr;
  Base base = Base::of_table;

  constexpr By(Base of) : base(of) {}
  constexpr explicit By(const char* names, Base of = Base::of_table) : cases(names), base(of) {}
};

/// A row of a table: its name, the source unless it is systematic, what is wrong, and the change.
struct Entry {
  const char *name, *source, *wrong;
  By by;
  Change change;
  const char* unreachable_reason;

  constexpr Entry(const char* of, const char* from, const char* is_wrong, By found, Change is,
                  const char* unreachable = "")
      : name(of),
        source(from),
        wrong(is_wrong),
        by(found),
        change(is),
        unreachable_reason(unreachable) {}
  constexpr Entry(const char* of, const char* is_wrong, By found, Change is,
                  const char* unreachable = "")
      : Entry(of, "systematic", is_wrong, found, is, unreachable) {}
  constexpr Entry(const char* of, const char* from, const char* is_wrong, Change is)
      : Entry(of, from, is_wrong, Base::of_table, is) {}
  constexpr Entry(const char* of, const char* is_wrong, Change is)
      : Entry(of, is_wrong, Base::of_table, is) {}
};

/// The twin of the mutants of a base.
Twin right_sampler(Base base);

/// A row as a mutant, with something before its name; what the row says of cases and base does not
/// count.
Mutant mutant_of(std::string_view kind, std::string_view prefix, const Entry& entry,
                 std::string_view expected, Base base, void (*adapt)(Mutation&) = nullptr);

/// The table of a class as mutants. `expected` and `base` are of the rows that do not say.
/// `adapt` is called for each sampler behind its change.
std::vector<Mutant> mutants_of(std::string_view kind, std::string_view expected, Base base,
                               std::span<const Entry> entries, void (*adapt)(Mutation&) = nullptr);

/// A right sampler that reports tokens alone, but for its mutation.
std::unique_ptr<harness::Sampler> make_tokens_only(MutatedModel::Claim claim, Mutation mutation);

// --- What many mutants look at or do -------------------------------------------------------------

/// True of an id that the bitmask of the row leaves in.
bool is_allowed(const Row& row, std::size_t id);
/// True of a row that takes the largest of its logits.
bool is_greedy(const Row& row);
/// True where top_k, above 1, takes ids out.
bool filters_by_k(const Row& row);
/// The result of the row with one parameter changed.
Result result_with(const Row& row, void (*change)(Parameters&));
/// Takes the ids from `first` on out of a row, unless these are all.
void drop_from(Row& row, std::size_t first);
/// The row that an output samples; -1 where there is no such row.
std::int64_t row_of(const fairdraw_batch& batch, std::int64_t output);
bool is_active(const fairdraw_batch& batch, std::int64_t row);
/// Changes all indices of outputs, where the call has some and rows.
void change_indices(fairdraw_batch& batch, Storage& storage,
                    std::int32_t (*change)(std::int32_t index, std::int64_t output,
                                           std::int64_t rows));
std::int32_t own_row(std::int32_t index, std::int64_t output, std::int64_t rows);
std::int32_t nearest_row(std::int32_t index, std::int64_t output, std::int64_t rows);
/// Takes the three penalties of `from`.
void take_penalties(reference::RowProcessing& processing, const reference::RowProcessing& from);

/// The word of the same attempt of another draw.
std::uint64_t draw_word(const WordKey& of, std::uint64_t seed, std::uint64_t offset,
                        std::uint64_t index);
std::uint64_t word_of(const WordKey& of);
/// The token of the word where a step that changes some words is right.
std::int32_t token_of(const DrawWeights& drawn, std::uint64_t word);
double gumbel(double uniform);

}  // namespace fairdraw::suites
