#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "suites/gate/fuzz/capsule.h"
#include "suites/gate/fuzz/serving_capsules.h"

namespace fairdraw::suites::fuzz {
namespace {

// Optional parts are written where they are there: the reader takes their absence for "not given".
Json request_json(const FuzzCase& fuzz_case) {
  const harness::Request& request = fuzz_case.request;
  Json json = {
      {"salt", std::to_string(fuzz_case.salt)},
      {"input", request.input == harness::RowInput::logits ? "logits" : "probabilities"},
      {"dtype", to_string(request.dtype)},
      {"rows", request.rows},
      {"vocab", request.vocab},
      {"row_stride", request.row_stride},
      {"misalignment", request.misalignment},
      {"tie_rule", request.tie_rule == TieRule::keep_all ? "keep_all" : "lowest_id"},
      {"filter_order", request.filter_order == FilterOrder::top_k_first ? "top_k_first" : "joint"},
      {"values", runs(request.logits)},
      {"parameters", parameters_json(request.parameters)},
  };
  if (!request.processing.empty()) {
    json["processing"] = processing_json(request.processing);
    if (request.history_form.grown) json["grown"] = true;
  }
  if (!request.allowed.empty()) json["allowed"] = runs(request.allowed);
  if (fuzz_case.kind == CaseKind::distribution) {
    json["draws"] = fuzz_case.draws;
    return json;
  }
  if (!request.active.empty()) json["active"] = plain(request.active);
  if (request.with_indices) json["indices"] = plain(request.indices);
  json["num_samples"] = request.num_samples;
  json["seed_is_scalar"] = request.seed_is_scalar;
  json["seed"] = decimals(request.seed);
  json["offset"] = decimals(request.offset);
  if (!request.words.empty()) json["words"] = decimals(request.words);
  return json;
}

Json chain_json(const FuzzCase& fuzz_case) {
  const harness::ChainRequest& chain = fuzz_case.chain;
  Json json = {
      {"salt", std::to_string(fuzz_case.salt)},
      {"batch", chain.batch},
      {"num_draft_tokens", chain.num_draft_tokens},
      {"vocab", chain.vocab},
      {"draft_probs", runs(chain.draft_probs)},
      {"draft_tokens", plain(chain.draft_tokens)},
      {"target_probs", runs(chain.target_probs)},
      {"seed_is_scalar", chain.seed_is_scalar},
      {"seed", decimals(chain.seed)},
      {"offset", decimals(chain.offset)},
  };
  if (!chain.bonus_words.empty()) {
    json["accept_words"] = decimals(chain.accept_words);
    json["recover_words"] = decimals(chain.recover_words);
    json["bonus_words"] = decimals(chain.bonus_words);
  }
  return json;
}

Json case_json(const FuzzCase& fuzz_case) {
  if (fuzz_case.kind == CaseKind::chain) return chain_json(fuzz_case);
  if (fuzz_case.kind == CaseKind::speculation) return speculation_json(fuzz_case);
  return request_json(fuzz_case);
}

}  // namespace

void add_drawn_distribution(Capsule& capsule, harness::Sampler& sampler,
                            const reference::Semantics& semantics) {
  if (capsule.fuzz_case.kind != CaseKind::distribution) return;
  Subject subject(sampler, semantics, capsule.fuzz_case);
  capsule.distribution = distribution_of_case(subject);
  if (!capsule.distribution) return;
  const DrawEvidence evidence = draw_evidence(subject, *capsule.distribution);
  capsule.counts = evidence.counts;
  capsule.counted_draws = evidence.draws;
}

std::string to_json(const Capsule& capsule) {
  Json json = {
      {"schema_version", kCapsuleVersion},
      {"kind", to_string(capsule.fuzz_case.kind)},
      {"tool", {{"name", "fairdraw"}, {"version", capsule.tool_version}}},
      {"sampler", capsule.sampler},
      {"semantics", capsule.semantics},
      {"property", capsule.property},
      {"message", capsule.message},
      {"case", case_json(capsule.fuzz_case)},
  };
  if (capsule.distribution) {
    json["oracle"] = {{"probability", runs(capsule.distribution->probability)}};
    json["drawn"] = {{"draws", capsule.counted_draws}, {"counts", plain(capsule.counts)}};
  }
  std::string text = json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
  if (text.size() > kMaxCapsuleBytes) {
    throw std::length_error(fmt::format("the case needs {} bytes; a capsule has at most {}",
                                        text.size(), kMaxCapsuleBytes));
  }
  return text;
}

}  // namespace fairdraw::suites::fuzz
