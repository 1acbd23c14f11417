#include "serving/rules/speculative_arguments.h"

#include <limits>

namespace fairdraw {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
constexpr const char* kARequest = "one per request";

Error check_count(const char* name, std::int64_t value, std::int64_t most, const char* range) {
  if (value >= 0 && value <= most) return {};
  return out_of_range(name, std::to_string(value), range);
}

Error check_filters(const LawFilters& filters, const std::string& prefix, std::int64_t batch) {
  const auto name = [&prefix](const char* field) { return prefix + field; };
  if (Error e = check_per_request(filters.temperature, name("temperature"), batch, kARequest)) {
    return e;
  }
  if (Error e = check_per_request(filters.top_k, name("top_k"), batch, kARequest)) return e;
  if (Error e = check_per_request(filters.top_p, name("top_p"), batch, kARequest)) return e;
  if (Error e = check_per_request(filters.min_p, name("min_p"), batch, kARequest)) return e;
  if (static_cast<std::uint32_t>(filters.tie_rule) > 1) {
    return out_of_range(name("tie_rule"),
                        std::to_string(static_cast<std::uint32_t>(filters.tie_rule)),
                        "0 (keep_all) or 1 (lowest_id)");
  }
  if (static_cast<std::uint32_t>(filters.filter_order) > 1) {
    return out_of_range(name("filter_order"),
                        std::to_string(static_cast<std::uint32_t>(filters.filter_order)),
                        "0 (top_k_first) or 1 (joint)");
  }
  return {};
}

// Precondition: `max_draft` is in range.
Error check_target(const TargetRows& target, std::int64_t max_draft,
                   const View<const std::int32_t>& draft_tokens,
                   const View<const std::int32_t>& draft_lengths) {
  const std::int64_t batch = target.batch;
  if (Error e = check_count("target.batch", batch, kMax, "0 to 2^31 - 1")) return e;
  if (Error e = check_filters(target.filters, "target.filters.", batch)) return e;
  if (Error e = check_per_request(target.seed, "target.seed", batch, kARequest)) return e;
  if (Error e = check_per_request(target.offset, "target.offset", batch, kARequest)) return e;
  if (Error e = check_optional(target.active, "target.active", batch, kARequest)) return e;
  if (Error e = check_optional(draft_lengths, "draft_lengths", batch, kARequest)) return e;
  if (Error e = check_size("draft_tokens.size", draft_tokens.size, sizeof(std::int32_t))) return e;
  if (!draft_tokens.given() && draft_tokens.size > 0) {
    return out_of_range("draft_tokens", "null", "an array");
  }
  if (target.row_begins.given()) {
    if (Error e = check_array(target.row_begins, "target.row_begins", batch + 1, "batch + 1")) {
      return e;
    }
  } else {
    if (Error e = check_length("target.logits", target.logits.rows, batch * (max_draft + 1),
                               "batch * (max_draft + 1)")) {
      return e;
    }
    if (Error e = check_length("draft_tokens", draft_tokens.size, batch * max_draft,
                               "batch * max_draft")) {
      return e;
    }
  }
  return check_request(rows_of(target), "target.logits");
}

// Checks the distribution of the draft, which the caller must give. `rows` is the number of rows
// that the distribution must have.
Error check_draft(const RowsView& draft, const LawFilters& filters, const TargetRows& target,
                  std::int64_t rows, const char* meaning) {
  if (Error e = check_rows(draft, "draft")) return e;
  if (Error e = check_length("draft", draft.rows, rows, meaning)) return e;
  if (draft.vocab != target.logits.vocab) {
    return out_of_range("draft.vocab", std::to_string(draft.vocab),
                        std::to_string(target.logits.vocab) + " (the vocabulary of target.logits)");
  }
  return check_filters(filters, "draft_filters.", target.batch);
}

Error check_accept_rule(AcceptRule rule, const std::string& name) {
  if (rule == AcceptRule::token_wise || rule == AcceptRule::block) return {};
  return out_of_range(name, std::to_string(static_cast<std::uint32_t>(rule)),
                      "0 (token_wise) or 1 (block)");
}

Error check_distribution(DraftLaw distribution) {
  if (static_cast<std::uint32_t>(distribution) <= 2) return {};
  return out_of_range("draft_law", std::to_string(static_cast<std::uint32_t>(distribution)),
                      "0 (none), 1 (probs) or 2 (logits)");
}

}  // namespace

SampleRequest rows_of(const TargetRows& target) {
  SampleRequest rows;
  rows.logits = target.logits;
  rows.tie_rule = target.filters.tie_rule;
  rows.filter_order = target.filters.filter_order;
  rows.allowed = target.allowed;
  rows.processing = target.processing;
  return rows;
}

DraftedCall::DraftedCall(const AcceptChainRequest& chain, const AcceptChainResult& to)
    : request{.target = chain.target,
              .max_draft = chain.max_draft,
              .max_depth = chain.max_draft,
              .draft_tokens = chain.draft_tokens,
              .parents = {},
              .draft_lengths = chain.draft_lengths,
              .draft_law = chain.draft_law,
              .siblings = SiblingSampling::with_replacement,
              .draft = chain.draft,
              .draft_filters = chain.draft_filters},
      result{to.tokens, {}, to.accepted, to.statuses},
      accept_rule(chain.accept_rule),
      is_chain(true) {}

Error check_drafted_call(const DraftedCall& call) {
  const AcceptTreeRequest& request = call.request;
  const AcceptTreeResult& result = call.result;
  const std::int64_t batch = request.target.batch;
  if (Error e = check_count("max_draft", request.max_draft, kMax - 1, "0 to 2^31 - 2")) return e;
  if (Error e = check_count("max_depth", request.max_depth, kMax - 1, "0 to 2^31 - 2")) return e;
  if (Error e = check_target(request.target, request.max_draft, request.draft_tokens,
                             request.draft_lengths)) {
    return e;
  }
  const std::int64_t links = call.is_chain ? 0 : request.draft_tokens.size;
  if (Error e = check_needed(request.parents, "parents", links, "as draft_tokens")) return e;
  if (Error e = check_distribution(request.draft_law)) return e;
  if (static_cast<std::uint32_t>(request.siblings) > 1) {
    return out_of_range("siblings", std::to_string(static_cast<std::uint32_t>(request.siblings)),
                        "0 (with_replacement) or 1 (without_replacement)");
  }
  if (Error e = check_per_request(call.accept_rule, "accept_rule", batch, kARequest)) return e;
  if (!call.accept_rule.is_array()) {
    if (Error e = check_accept_rule(call.accept_rule.scalar, "accept_rule")) return e;
  }
  if (call.knows_distribution()) {
    const char* const meaning =
        call.is_chain ? "one row per place for a draft" : "one row per row of target.logits";
    if (Error e = check_draft(request.draft, request.draft_filters, request.target,
                              call.draft_rows(), meaning)) {
      return e;
    }
  }
  if (Error e =
          check_optional(result.nodes, "nodes", batch * request.max_depth, "batch * max_depth")) {
    return e;
  }
  if (Error e = check_needed(result.tokens, "tokens", batch * call.width(), call.width_text())) {
    return e;
  }
  if (Error e = check_optional(result.accepted, "accepted", batch, kARequest)) return e;
  return check_optional(result.statuses, "statuses", batch, kARequest);
}

Error check_accept_rules(const PerRequest<AcceptRule>& rules) {
  for (std::int64_t b = 0; rules.is_array() && b < rules.values.size; ++b) {
    const std::string name = "accept_rule[" + std::to_string(b) + "]";
    if (Error e = check_accept_rule(rules.values.data[b], name)) return e;
  }
  return {};
}

Error check_chain(const ChainSpeculativeRequest& request, const ChainSpeculativeResult& result) {
  const std::int64_t batch = request.batch;
  const std::int64_t n = request.num_draft_tokens;
  if (batch < 0 || batch > kMax) {
    return out_of_range("batch", std::to_string(batch), "0 to 2^31 - 1");
  }
  if (n < 0 || n >= kMax) {
    return out_of_range("num_draft_tokens", std::to_string(n), "0 to 2^31 - 2");
  }
  if (Error e = check_rows(request.target_probs, "target_probs")) return e;
  if (Error e = check_length("target_probs", request.target_probs.rows, batch * (n + 1),
                             "batch * (num_draft_tokens + 1)")) {
    return e;
  }
  if (n > 0) {
    if (Error e = check_rows(request.draft_probs, "draft_probs")) return e;
    if (Error e = check_length("draft_probs", request.draft_probs.rows, batch * n,
                               "batch * num_draft_tokens")) {
      return e;
    }
    if (request.draft_probs.vocab != request.target_probs.vocab) {
      return out_of_range(
          "draft_probs.vocab", std::to_string(request.draft_probs.vocab),
          std::to_string(request.target_probs.vocab) + " (the vocabulary of target_probs)");
    }
  }
  if (Error e = check_needed(request.draft_tokens, "draft_tokens", batch * n,
                             "batch * num_draft_tokens")) {
    return e;
  }
  if (Error e = check_needed(result.tokens, "tokens", batch * (n + 1),
                             "batch * (num_draft_tokens + 1)")) {
    return e;
  }
  const char* a_request = "one per request";
  if (Error e = check_per_request(request.seed, "seed", batch, a_request)) return e;
  if (Error e = check_per_request(request.offset, "offset", batch, a_request)) return e;
  if (Error e = check_optional(result.accepted, "accepted", batch, a_request)) return e;
  if (Error e = check_optional(result.emitted, "emitted", batch, a_request)) return e;
  return check_optional(result.statuses, "statuses", batch, a_request);
}

}  // namespace fairdraw
