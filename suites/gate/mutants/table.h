// Tables of mutants. A row of these tables is a mutant: its name, the place where the bug was
// found, the bug in one sentence, and the function that is wrong. The types of the function's
// parameters determine which step of the sampler the function replaces. A new mutant needs one row
// in the table of its class (classes/), and a function if the bug is new. A new class needs a
// table, and its function in catalogue.h and catalogue.cpp.
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

/// A correct sampler from which mutants are made. integers claims the exact arithmetic;
/// distribution does not; generator does not take seeds, either. tokens and engine are distribution
/// and generator that report only tokens, and engine reports one token per row of a call. All other
/// bases are a FloatSampler, named by its order and its way to draw.
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

/// A wrong step. The first two alternatives set any steps, and are called for each sampler, so that
/// each sampler has its own state. Each of the other alternatives replaces one step.
using Change = std::variant<
    void (*)(Mutation&), void (*)(FloatMutation&),
    // Steps that change a call, or its results at the end.
    void (*)(fairdraw_batch&), void (*)(fairdraw_batch&, Storage&), void (*)(const fairdraw_batch&),
    // A predicate that selects the calls whose draws ignore the filters; the masks of these calls
    // stay right.
    bool (*)(const fairdraw_batch&),
    // Steps that change a row, its parameters, or its processing. Processing is changed only in
    // valid rows, so that a mutant does not change statuses.
    void (*)(Row&), void (*)(Row&, const Place&), void (*)(Parameters&),
    void (*)(Parameters&, std::size_t vocab), void (*)(reference::RowProcessing&),
    void (*)(reference::RowProcessing&, Row&),
    // Steps that change the result of a row, or the reported values.
    void (*)(Result&, const Row&), void (*)(Result&, const Row&, const Place&),
    reference::RealLogprobs (*)(const Row&, const Result&, LogprobsMode),
    // Steps that change weights for drawing; masks, support sizes and probabilities stay right. An
    // id outside the mask stays outside, and a row that would lose all its weights keeps them.
    void (*)(RowWeights&), void (*)(RowWeights&, const Row&),
    // Steps for the word of a mark, for the random word of a draw, for the token of a word, and for
    // the acceptance of a proposed token.
    std::uint64_t (*)(std::uint64_t word), std::uint64_t (*)(const WordKey&),
    std::int32_t (*)(const DrawWeights&, std::uint64_t word), bool (*)(const Proposal&),
    // Steps that change a chain, each position with a token, or the call.
    void (*)(Chain&), void (*)(Chain&, std::size_t position), void (*)(fairdraw_chain&, Storage&),
    // Steps that change a request with drafted tokens, its outcome, or the call.
    void (*)(harness::DraftedTokens&),
    void (*)(reference::SpeculationOutcome&, const harness::DraftedTokens&),
    void (*)(fairdraw_verification&, Storage&),
    // Steps of FloatSampler: top_p, noise, probabilities.
    void (*)(Scores&, float top_p), double (*)(double uniform), void (*)(std::vector<float>&)>;

/// Values in which a row differs from the defaults of its table: the cases that must detect the
/// mutant, likeliest first and separated by blanks, and its base.
struct By {
  const char* cases = nullptr;
  Base base = Base::of_table;

  constexpr By(Base of) : base(of) {}
  constexpr explicit By(const char* names, Base of = Base::of_table) : cases(names), base(of) {}
};

/// A row of a table: name, source (unless the mutant is systematic), the bug in one sentence, and
/// the change.
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

/// Returns the correct sampler from which the mutants of a base are made.
Twin right_sampler(Base base);

/// Makes a mutant from a row of a table; `prefix` comes before its name. The arguments replace the
/// cases and the base of the row.
Mutant mutant_of(std::string_view kind, std::string_view prefix, const Entry& entry,
                 std::string_view expected, Base base, void (*adapt)(Mutation&) = nullptr);

/// Makes the mutants of a class from its table. `expected` and `base` are the defaults for rows
/// that do not have their own. `adapt` is called for each sampler, after the change of the row.
std::vector<Mutant> mutants_of(std::string_view kind, std::string_view expected, Base base,
                               std::span<const Entry> entries, void (*adapt)(Mutation&) = nullptr);

/// Makes a sampler that reports only tokens, and is right except for its mutation.
std::unique_ptr<harness::Sampler> make_tokens_only(MutatedModel::Claim claim, Mutation mutation);

// --- What many mutants look at or do -------------------------------------------------------------

/// Returns whether the bitmask of the row allows an id.
bool is_allowed(const Row& row, std::size_t id);
/// Returns whether a row takes the largest of its logits.
bool is_greedy(const Row& row);
/// Returns whether top_k is above 1 and small enough to remove ids.
bool filters_by_k(const Row& row);
/// Returns the result that the row has if one parameter is changed.
Result result_with(const Row& row, void (*change)(Parameters&));
/// Removes all ids from `first` on from a row, unless no id would be left.
void drop_from(Row& row, std::size_t first);
/// Returns the number of the row that an output samples, or -1 if there is none.
std::int64_t row_of(const fairdraw_batch& batch, std::int64_t output);
bool is_active(const fairdraw_batch& batch, std::int64_t row);
/// Changes all indices of outputs, if the call has indices and rows.
void change_indices(fairdraw_batch& batch, Storage& storage,
                    std::int32_t (*change)(std::int32_t index, std::int64_t output,
                                           std::int64_t rows));
std::int32_t own_row(std::int32_t index, std::int64_t output, std::int64_t rows);
std::int32_t nearest_row(std::int32_t index, std::int64_t output, std::int64_t rows);
/// Copies the three penalties of `from`.
void take_penalties(reference::RowProcessing& processing, const reference::RowProcessing& from);

/// Returns the random word that another draw has at the same attempt.
std::uint64_t draw_word(const WordKey& of, std::uint64_t seed, std::uint64_t offset,
                        std::uint64_t index);
std::uint64_t word_of(const WordKey& of);
/// Returns the right token for a random word. Steps that change only some words use this function
/// for all other words.
std::int32_t token_of(const DrawWeights& drawn, std::uint64_t word);
double gumbel(double uniform);

}  // namespace fairdraw::suites
