// The catalogue of mutants has real bugs of samplers as small wrong samplers, which test the
// harness. The gate must fail each mutant, and must pass the correct samplers from which mutants
// are made.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/contract/sampler.h"

namespace fairdraw::suites {

using Maker = std::function<std::unique_ptr<harness::Sampler>()>;

/// A correct sampler from which mutants are made.
struct Twin {
  std::string name;
  Maker make;
};

struct Mutant {
  std::string name;
  std::string source;  ///< project and issue, pull request or file; "systematic" for mutants
                       ///< without such a source
  std::string kind;    ///< class of the bug: mask, distribution, rng and so on
  std::string wrong;   ///< one sentence that describes the bug
  /// Cases that are expected to detect the mutant, likeliest first; '*' and '?' match any
  /// characters.
  std::vector<std::string> expected;
  std::string twin;  ///< name of the correct sampler from which the mutant is made
  Maker make;
  std::string unreachable_reason = {};  ///< reason why the mutant cannot be detected from outside;
                                        ///< empty if it can be detected
};

const std::vector<Twin>& twins();

/// Returns all mutants, ordered by class. Names are unique.
const std::vector<Mutant>& catalogue();

/// Logit of a token that a filter has removed.
inline constexpr float kOut = -std::numeric_limits<float>::infinity();

/// Prefix of a mutant's name in the option --sampler.
inline constexpr std::string_view kMutantPrefix = "mutant:";

/// Makes the mutant with this name (without the prefix), so that its report can be inspected. The
/// description of the sampler has the mutant's name, not that of the sampler inside. Throws
/// harness::UsageError for an unknown name.
std::unique_ptr<harness::Sampler> make_mutant(const std::string& name);

/// The state of a documented bug.
enum class EntryState {
  mutant,       ///< the catalogue has a mutant `name`, which the gate must detect
  unreachable,  ///< no test from outside can detect the bug
  later,        ///< the bug concerns an operation that this project does not have
};
const char* to_string(EntryState state);

struct KnownBug {
  std::string name;
  EntryState state;
  std::string reason;  ///< reason for the state, if the state is unreachable or later
};

/// Returns all documented bugs from which the catalogue was made.
const std::vector<KnownBug>& known_bugs();

// --- For the files of the catalogue --------------------------------------------------------------

/// Joins the tables of one class of mutants.
std::vector<Mutant> joined(std::vector<std::vector<Mutant>> parts);

/// Splits a text of names of cases or bugs at its blanks.
std::vector<std::string> names_of(std::string_view text);

std::vector<Mutant> mask_mutants();
std::vector<Mutant> distribution_mutants();
std::vector<Mutant> random_mutants();
std::vector<Mutant> random_word_mutants();
std::vector<Mutant> proposal_mutants();
std::vector<Mutant> seed_mutants();
std::vector<Mutant> edge_mutants();
std::vector<Mutant> bad_value_mutants();
std::vector<Mutant> engine_bad_row_mutants();
std::vector<Mutant> numeric_mutants();
std::vector<Mutant> tile_weight_mutants();
std::vector<Mutant> chain_mutants();
std::vector<Mutant> batch_mutants();
std::vector<Mutant> range_mutants();
std::vector<Mutant> systematic_mutants();
std::vector<Mutant> shape_mutants();
std::vector<Mutant> state_mutants();
std::vector<Mutant> result_mutants();
std::vector<Mutant> logprob_mutants();
std::vector<Mutant> parameter_mutants();
std::vector<Mutant> counter_mutants();
std::vector<Mutant> running_batch_mutants();
std::vector<Mutant> sequence_mutants();
std::vector<Mutant> shared_word_mutants();
std::vector<Mutant> generator_mutants();
std::vector<Mutant> fresh_start_mutants();
std::vector<Mutant> next_call_mutants();
std::vector<Mutant> chain_shape_mutants();
std::vector<Mutant> processing_mutants();
std::vector<Mutant> filter_mutants();
std::vector<Mutant> processing_list_mutants();
std::vector<Mutant> processed_logprob_mutants();
std::vector<Mutant> processed_speculation_mutants();
std::vector<Mutant> speculation_mutants();
std::vector<Mutant> drafted_tree_mutants();
std::vector<Mutant> stray_draft_mutants();
std::vector<Mutant> sampled_mutants();
std::vector<Mutant> vocabulary_mutants();
std::vector<Mutant> batch_size_mutants();
std::vector<Mutant> row_operation_mutants();
std::vector<Twin> row_operation_twins();
std::vector<Mutant> tokens_only_mutants();
std::vector<Mutant> typed_value_mutants();
std::vector<Mutant> acceptance_rule_mutants();
std::vector<Twin> acceptance_rule_twins();
std::vector<Mutant> mark_mutants();
std::vector<Mutant> sharded_mutants();  ///< in a build without serving, there are none
std::vector<Twin> sharded_twins();

}  // namespace fairdraw::suites
