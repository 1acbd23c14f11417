// Bugs that samplers have had, as small wrong samplers: the harness on trial. The gate must turn
// each of them red, and none of the right samplers that they were made from.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/contract/sampler.h"
#include "suites/gate/mutants/float_sampler.h"
#include "suites/gate/mutants/mutated_model.h"

namespace fairdraw::suites {

using Maker = std::function<std::unique_ptr<harness::Sampler>()>;

/// A right sampler that mutants are made from.
struct Twin {
  std::string name;
  Maker make;
};

struct Mutant {
  std::string name;
  std::string source;  ///< project and issue, pull request or file; "systematic" for the others
  std::string kind;    ///< class of the bug: mask, distribution, rng, ...
  std::string wrong;   ///< in one sentence
  /// Cases that are expected to find it, likeliest first; '*' and '?' match any characters.
  std::vector<std::string> expected;
  std::string twin;  ///< name of the right sampler
  Maker make;
  std::string unreachable_reason = {};  ///< why it cannot be told from outside; empty: it can
};

const std::vector<Twin>& twins();

/// All mutants, class by class. Names are unique.
const std::vector<Mutant>& catalogue();

/// The logit of a token that is out.
inline constexpr float kOut = -std::numeric_limits<float>::infinity();

/// Before a mutant's name, where a sampler is named.
inline constexpr std::string_view kMutantPrefix = "mutant:";

/// The wrong sampler of that name (without the prefix), to look at what the gate says of it. It
/// describes itself by its own name, and not as the sampler that it was made of. Throws
/// harness::UsageError.
std::unique_ptr<harness::Sampler> make_mutant(const std::string& name);

/// What became of a documented bug.
enum class EntryState {
  mutant,       ///< `name` stands in the catalogue, and must be killed
  unreachable,  ///< no test from outside can find it
  later,        ///< concerns an operation that does not exist here
};
const char* to_string(EntryState state);

struct KnownBug {
  std::string name;
  EntryState state;
  std::string reason;  ///< for the last two
};

/// The documented bugs that the catalogue was made from, all of them.
const std::vector<KnownBug>& known_bugs();

// --- For the files of the catalogue --------------------------------------------------------------

/// A mutant without its maker.
struct MutantText {
  std::string name, source, kind, wrong;
  std::vector<std::string> expected;
  std::string unreachable_reason = {};
};

/// `mutation` sets what is wrong; it is called for each sampler made, so that what its steps
/// remember is the sampler's own. integers: the sampler claims the exact arithmetic. distribution:
/// it does not. generator: nor does it take seeds.
Mutant mutated_integers(MutantText text, std::function<void(Mutation&)> mutation);
Mutant mutated_distribution(MutantText text, std::function<void(Mutation&)> mutation);
Mutant mutated_generator(MutantText text, std::function<void(Mutation&)> mutation);
/// As `claim` has it, in a sampler that reports tokens alone; with generator, one token a row of a
/// call, as engines without a random stream a request have.
Mutant mutated_tokens_only(MutantText text, MutatedModel::Claim claim,
                           std::function<void(Mutation&)> mutation);
Mutant mutated_float(MutantText text, FloatSampler::Order order, FloatSampler::Draw draw,
                     std::function<void(FloatMutation&)> mutation);

/// `mutant`, expected to be found by other cases.
Mutant expecting(std::vector<std::string> expected, Mutant mutant);

/// The tables of a class as one.
std::vector<Mutant> joined(std::vector<std::vector<Mutant>> parts);

std::vector<Mutant> mask_mutants();
std::vector<Mutant> distribution_mutants();
std::vector<Mutant> random_mutants();
std::vector<Mutant> random_word_mutants();
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
std::vector<Mutant> processed_logprob_mutants();
std::vector<Mutant> processed_speculation_mutants();
std::vector<Mutant> speculation_mutants();
std::vector<Mutant> drafted_tree_mutants();
std::vector<Mutant> sampled_mutants();
std::vector<Mutant> batch_size_mutants();
std::vector<Mutant> row_operation_mutants();
std::vector<Twin> row_operation_twins();

/// tokens_only.cpp: also the right ones, without a mutation.
std::vector<Mutant> tokens_only_mutants();
std::unique_ptr<harness::Sampler> make_tokens_only(MutatedModel::Claim claim, Mutation mutation);
std::vector<Mutant> acceptance_rule_mutants();
std::vector<Twin> acceptance_rule_twins();

}  // namespace fairdraw::suites
