// Translates the bits of a plugin's description to the abilities and promises of the harness.
#include <fmt/format.h>

#include "fairdraw/types.h"
#include "harness/contract/semantics_text.h"
#include "harness/contract/usage_error.h"
#include "harness/plugin/library.h"

namespace fairdraw::harness::plugin {
namespace {

struct Ability {
  std::uint64_t bit;
  const char* name;
  bool SamplerDescription::*member;
};

constexpr Ability kAbilities[] = {
#define FAIRDRAW_ABILITY(member, bit, short_name, place, reason) \
  {bit, short_name, &SamplerDescription::member},
#define FAIRDRAW_PROMISE(member, bit, reason)
#define FAIRDRAW_DECLINABLE(member, bit, short_name, reason)
#include "harness/run/evidence/abilities.inc"
};

// The bits of promises that a plugin can decline; a set bit means that the promise is not made.
constexpr Ability kDeclinable[] = {
#define FAIRDRAW_ABILITY(member, bit, short_name, place, reason)
#define FAIRDRAW_PROMISE(member, bit, reason)
#define FAIRDRAW_DECLINABLE(member, bit, short_name, reason) \
  {bit, short_name, &SamplerDescription::member},
#include "harness/run/evidence/abilities.inc"
};

struct Rule {
  std::uint64_t bit;
  const char* name;
  AcceptanceRule rule;
};

constexpr Rule kRules[] = {
    {FAIRDRAW_ACCEPTS_TOKEN_WISE, "accepts_token_wise", AcceptanceRule::token_wise},
    {FAIRDRAW_ACCEPTS_BLOCK, "accepts_block", AcceptanceRule::block},
};

struct Promise {
  std::uint64_t bit;
  bool RandomnessContract::*member;
};

constexpr Promise kPromises[] = {
#define FAIRDRAW_ABILITY(member, bit, short_name, place, reason)
#define FAIRDRAW_PROMISE(member, bit, reason) {bit, &RandomnessContract::member},
#define FAIRDRAW_DECLINABLE(member, bit, short_name, reason)
#include "harness/run/evidence/abilities.inc"
};

// Statuses are defined once in C and once in C++. Two statuses, those of stop criteria and beams,
// have no name in C, because plugins have no such calls.
constexpr bool same(fairdraw_row_status plugin, RowStatus status) {
  return static_cast<std::int32_t>(plugin) == static_cast<std::int32_t>(status);
}
static_assert(same(FAIRDRAW_ROW_OK, RowStatus::ok) &&
              same(FAIRDRAW_ROW_INACTIVE, RowStatus::inactive) &&
              same(FAIRDRAW_ROW_NAN_INPUT, RowStatus::nan_input) &&
              same(FAIRDRAW_ROW_INFINITE_INPUT, RowStatus::infinite_input) &&
              same(FAIRDRAW_ROW_NEGATIVE_PROBABILITY, RowStatus::negative_probability) &&
              same(FAIRDRAW_ROW_NO_ALLOWED_TOKEN, RowStatus::no_allowed_token) &&
              same(FAIRDRAW_ROW_INVALID_TEMPERATURE, RowStatus::invalid_temperature) &&
              same(FAIRDRAW_ROW_INVALID_TOP_K, RowStatus::invalid_top_k) &&
              same(FAIRDRAW_ROW_INVALID_TOP_P, RowStatus::invalid_top_p) &&
              same(FAIRDRAW_ROW_INVALID_MIN_P, RowStatus::invalid_min_p) &&
              same(FAIRDRAW_ROW_INDEX_OUT_OF_RANGE, RowStatus::index_out_of_range) &&
              same(FAIRDRAW_ROW_INVALID_HISTORY, RowStatus::invalid_history) &&
              same(FAIRDRAW_ROW_INVALID_PENALTY, RowStatus::invalid_penalty) &&
              same(FAIRDRAW_ROW_INVALID_LOGIT_BIAS, RowStatus::invalid_logit_bias) &&
              same(FAIRDRAW_ROW_INVALID_MIN_TOKENS, RowStatus::invalid_min_tokens) &&
              same(FAIRDRAW_ROW_INVALID_BAD_WORDS, RowStatus::invalid_bad_words) &&
              same(FAIRDRAW_ROW_INVALID_ALLOWED_IDS, RowStatus::invalid_allowed_ids) &&
              same(FAIRDRAW_ROW_PROCESSING_OVERFLOW, RowStatus::processing_overflow) &&
              same(FAIRDRAW_ROW_INVALID_DRAFT_LENGTH, RowStatus::invalid_draft_length) &&
              same(FAIRDRAW_ROW_IMPOSSIBLE_DRAFT, RowStatus::impossible_draft) &&
              same(FAIRDRAW_ROW_INVALID_DRAFT_TREE, RowStatus::invalid_draft_tree) &&
              same(FAIRDRAW_ROW_INVALID_TOP_N_SIGMA, RowStatus::invalid_top_n_sigma) &&
              FAIRDRAW_ROW_INVALID_DRAFT_TREE + 3 == FAIRDRAW_ROW_INVALID_TOP_N_SIGMA &&
              // A call of a plugin has one tie rule and one filter order, so the C header needs no
              // status for rows with wrong rules of their own.
              FAIRDRAW_ROW_INVALID_TOP_N_SIGMA + 3 == FAIRDRAW_ROW_INVALID_PROBABILITY_FILTER &&
              same(FAIRDRAW_ROW_INVALID_PROBABILITY_FILTER,
                   RowStatus::invalid_probability_filter) &&
              same(FAIRDRAW_ROW_INVALID_HISTORY_RULE, RowStatus::invalid_history_rule) &&
              static_cast<int>(RowStatus::invalid_history_rule) + 1 == kRowStatuses);

// Throws if `given` has bits that are not in `known`, the bits with a meaning.
void expect_known_bits(const char* field, std::uint64_t given, std::uint64_t known,
                       const std::string& sampler) {
  const std::uint64_t unknown = given & ~known;
  if (unknown == 0) return;
  int bit = 0;
  while (((unknown >> bit) & 1U) == 0) ++bit;
  throw UsageError(
      fmt::format("plugin '{}': its {} have bit {}, which has no meaning in version {} of the ABI",
                  sampler, field, bit, FAIRDRAW_PLUGIN_ABI));
}

}  // namespace

SamplerDescription to_sampler_description(const Description& description,
                                          const std::string& sampler_name) {
  const auto refuse = [&sampler_name](const std::string& why) {
    throw UsageError(fmt::format("plugin '{}': {}", sampler_name, why));
  };
  if (description.name.empty()) refuse("its description has no name");
  SamplerDescription sampler;
  sampler.name = sampler_name;
  sampler.version = description.name;
  if (!description.version.empty()) sampler.version += " " + description.version;
  sampler.semantics = description.semantics;
  if (!description.overrides.empty()) sampler.semantics += "," + description.overrides;
  try {
    semantics_from_text(sampler.semantics);
  } catch (const UsageError& error) {
    refuse(error.what());
  }
  std::uint64_t known = 0;
  for (const Ability& ability : kAbilities) {
    sampler.*ability.member = (description.abilities & ability.bit) != 0;
    known |= ability.bit;
  }
  for (const Ability& promise : kDeclinable) {
    sampler.*promise.member = (description.abilities & promise.bit) == 0;
    known |= promise.bit;
  }
  sampler.drafts.faults = sampler.bad_rows;
  for (const Rule& rule : kRules) {
    known |= rule.bit;
    if ((description.abilities & rule.bit) == 0) continue;
    if (sampler.acceptance_rule != AcceptanceRule::none_stated) {
      refuse("accepts drafts token-wise and by block; allowed: at most one rule");
    }
    sampler.acceptance_rule = rule.rule;
  }
  if (sampler.exact_integer) {  // because the specification defines bad rows and the rule
    if (!sampler.bad_rows) {
      refuse(
          "claims the integer arithmetic and declines bad rows; a sampler that claims the integer "
          "arithmetic must answer bad rows as the specification defines");
    }
    if (sampler.acceptance_rule == AcceptanceRule::block) {
      refuse(
          "claims the integer arithmetic and accepts drafts by block; allowed with the integer "
          "arithmetic: token-wise");
    }
    sampler.acceptance_rule = AcceptanceRule::token_wise;
  }
  expect_known_bits("abilities", description.abilities, known, sampler_name);
  known = 0;
  for (const Promise& promise : kPromises) {
    sampler.randomness.*promise.member = (description.randomness & promise.bit) != 0;
    known |= promise.bit;
  }
  expect_known_bits("promises of randomness", description.randomness, known, sampler_name);
  if (description.pointers > FAIRDRAW_DEVICE_POINTERS) {
    refuse(fmt::format("pointers is {}; allowed: 0 (host), 1 (device)", description.pointers));
  }
  sampler.samples = description.samples;
  const bool processes = sampler.processing || sampler.speculation_processing;
  if (processes && description.pointers == FAIRDRAW_DEVICE_POINTERS) {
    refuse("takes processing in device memory; allowed: in host memory");
  }
  return sampler;
}

std::uint64_t ability_bits(const SamplerDescription& sampler) {
  std::uint64_t bits = 0;
  for (const Ability& ability : kAbilities) {
    if (sampler.*ability.member) bits |= ability.bit;
  }
  for (const Ability& promise : kDeclinable) {
    if (!(sampler.*promise.member)) bits |= promise.bit;
  }
  for (const Rule& rule : kRules) {
    if (sampler.acceptance_rule == rule.rule) bits |= rule.bit;
  }
  return bits;
}

std::uint64_t promise_bits(const SamplerDescription& sampler) {
  std::uint64_t bits = 0;
  for (const Promise& promise : kPromises) {
    if (sampler.randomness.*promise.member) bits |= promise.bit;
  }
  return bits;
}

bool has_operations(const SamplerDescription& sampler) {
  return sampler.softmax || sampler.log_softmax || sampler.top_k_mask_logits ||
         sampler.min_p_mask_logits || sampler.top_k_renorm_probs || sampler.top_p_renorm_probs;
}

std::string ability_names(const SamplerDescription& sampler) {
  std::string names;
  for (const Ability& ability : kAbilities) {
    if (!(sampler.*ability.member)) continue;
    names += names.empty() ? ability.name : std::string(" ") + ability.name;
  }
  for (const Ability& promise : kDeclinable) {
    if (sampler.*promise.member) continue;
    names += names.empty() ? promise.name : std::string(" ") + promise.name;
  }
  for (const Rule& rule : kRules) {
    if (sampler.acceptance_rule != rule.rule) continue;
    names += names.empty() ? rule.name : std::string(" ") + rule.name;
  }
  return names;
}

}  // namespace fairdraw::harness::plugin
