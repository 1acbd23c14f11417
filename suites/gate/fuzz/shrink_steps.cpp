#include "suites/gate/fuzz/shrink_steps.h"

#include <algorithm>
#include <span>
#include <utility>

#include "suites/gate/fuzz/shrink_parts.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::ChainRequest;
using harness::Request;
using reference::RowParameters;

// False where no output would be left: through `indices`, a row may have none.
bool keep_rows(FuzzCase& c, std::span<const std::int64_t> rows) {
  Request kept = with_rows(c.request, rows);
  if (kept.outputs() == 0) return false;
  c.request = std::move(kept);
  return true;
}

void add_row_steps(const FuzzCase& fuzz_case, std::vector<Step>& steps) {
  const Request& request = fuzz_case.request;
  for (std::int64_t row = 0; row < request.rows && request.rows > 1; ++row) {
    steps.emplace_back([row](FuzzCase& c) {
      const std::int64_t only[] = {row};
      return keep_rows(c, only);
    });
  }
  if (request.rows > 2) {
    for (const Stretch& cut : stretches(request.rows, 64)) {
      steps.emplace_back([cut](FuzzCase& c) {
        return keep_rows(c, all_but(c.request.rows, cut.first, cut.length));
      });
    }
  }
  if (request.with_indices) {
    const std::int64_t outputs = request.outputs();
    for (std::int64_t i = 0; i < outputs && outputs > 1; ++i) {
      steps.emplace_back([i, outputs](FuzzCase& c) {
        c.request = with_outputs(c.request, all_but(outputs, i, 1));
        return true;
      });
    }
    steps.emplace_back([](FuzzCase& c) {  // each row is an output, with the first one's bits
      Request& r = c.request;
      if (r.outputs() == 0) return false;
      const auto rows = static_cast<std::size_t>(r.rows);
      if (!r.seed_is_scalar) {
        r.seed.assign(rows, r.seed.front());
        r.offset.assign(rows, r.offset.front());
      }
      std::vector<std::uint64_t> words = std::move(r.words);
      words.resize(words.empty() ? 0 : static_cast<std::size_t>(r.num_samples));
      r.words.clear();
      for (std::size_t i = 0; i < rows; ++i) {
        r.words.insert(r.words.end(), words.begin(), words.end());
      }
      r.with_indices = false;
      r.indices.clear();
      return true;
    });
  }
}

void add_option_steps(std::vector<Step>& steps) {
  steps.emplace_back([](FuzzCase& c) {
    const bool had = !c.request.allowed.empty();
    c.request.allowed.clear();
    return had;
  });
  steps.emplace_back([](FuzzCase& c) {
    const bool had = !c.request.active.empty();
    c.request.active.clear();
    return had;
  });
  steps.emplace_back([](FuzzCase& c) {
    const bool had = !c.request.words.empty();
    c.request.words.clear();
    return had;
  });
  steps.emplace_back([](FuzzCase& c) {
    const std::int32_t samples = c.request.num_samples;
    if (samples == 1) return false;
    std::vector<std::uint64_t> first;
    for (std::size_t i = 0; i < c.request.words.size(); i += static_cast<std::size_t>(samples)) {
      first.push_back(c.request.words[i]);
    }
    c.request.words = std::move(first);
    c.request.num_samples = 1;
    return true;
  });
  steps.emplace_back([](FuzzCase& c) { return set_to(c.request.row_stride, std::int64_t{0}); });
  steps.emplace_back([](FuzzCase& c) { return set_to(c.request.misalignment, std::int64_t{0}); });
  steps.emplace_back([](FuzzCase& c) { return set_to(c.request.dtype, DType::float32); });
  steps.emplace_back([](FuzzCase& c) { return set_to(c.request.tie_rule, TieRule::keep_all); });
  steps.emplace_back(
      [](FuzzCase& c) { return set_to(c.request.filter_order, FilterOrder::top_k_first); });
}

std::vector<RowParameters>& parameters_of(FuzzCase& c) { return c.request.parameters; }
std::vector<float>& logits_of(FuzzCase& c) { return c.request.logits; }
std::vector<float>& draft_of(FuzzCase& c) { return c.chain.draft_probs; }
std::vector<float>& target_of(FuzzCase& c) { return c.chain.target_probs; }

void add_request_steps(const FuzzCase& fuzz_case, std::vector<Step>& steps) {
  const Request& request = fuzz_case.request;
  add_row_steps(fuzz_case, steps);
  for (const Stretch& cut : stretches(request.vocab, kSingleTokens)) {
    steps.emplace_back([cut](FuzzCase& c) {
      if (c.request.vocab < 2) return false;
      c.request = with_tokens(c.request, all_but(c.request.vocab, cut.first, cut.length));
      return true;
    });
  }
  add_option_steps(steps);
  add_parameter_steps(request.rows, steps, parameters_of);
  add_processing_steps(fuzz_case, steps);
  add_numbers_steps(steps, request.seed.size(),
                    [](FuzzCase& c) -> std::vector<std::uint64_t>& { return c.request.seed; });
  add_numbers_steps(steps, request.offset.size(),
                    [](FuzzCase& c) -> std::vector<std::uint64_t>& { return c.request.offset; });
  add_numbers_steps(steps, request.words.size(),
                    [](FuzzCase& c) -> std::vector<std::uint64_t>& { return c.request.words; });
  const auto values = static_cast<std::int64_t>(request.logits.size());
  add_value_steps(values, request.vocab, steps, logits_of);
}

// --- Chains -------------------------------------------------------------------------------------

void keep_chain(ChainRequest& chain, std::int64_t b) {
  const std::int64_t only[] = {b};
  const std::int64_t n = chain.num_draft_tokens;
  keep_slices(chain.draft_probs, only, n * chain.vocab);
  keep_slices(chain.target_probs, only, (n + 1) * chain.vocab);
  keep_slices(chain.draft_tokens, only, n);
  keep_slices(chain.accept_words, only, n);
  keep_slices(chain.recover_words, only, n);
  keep_slices(chain.bonus_words, only, 1);
  if (!chain.seed_is_scalar) {
    keep_slices(chain.seed, only, 1);
    keep_slices(chain.offset, only, 1);
  }
  chain.batch = 1;
}

// Drops one position of every chain: a drafted token with its two rows.
void drop_position(ChainRequest& chain, std::int64_t position) {
  const std::int64_t n = chain.num_draft_tokens;
  std::vector<std::int64_t> drafted, rows;
  for (std::int64_t b = 0; b < chain.batch; ++b) {
    for (std::int64_t i = 0; i <= n; ++i) {
      if (i == position) continue;
      rows.push_back(b * (n + 1) + i);
      if (i < n) drafted.push_back(b * n + i);
    }
  }
  keep_slices(chain.target_probs, rows, chain.vocab);
  keep_slices(chain.draft_probs, drafted, chain.vocab);
  keep_slices(chain.draft_tokens, drafted, 1);
  keep_slices(chain.accept_words, drafted, 1);
  keep_slices(chain.recover_words, drafted, 1);
  --chain.num_draft_tokens;
}

void keep_tokens(ChainRequest& chain, const std::vector<std::int64_t>& ids) {
  for (std::vector<float>* const probs : {&chain.draft_probs, &chain.target_probs}) {
    std::vector<std::int64_t> kept;
    const auto rows = static_cast<std::int64_t>(probs->size()) / chain.vocab;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (const std::int64_t id : ids) kept.push_back(row * chain.vocab + id);
    }
    keep_slices(*probs, kept, 1);
  }
  const auto vocab = static_cast<std::int64_t>(ids.size());
  for (std::int32_t& token : chain.draft_tokens) {
    // The token keeps its place where that is still there, and stays outside if it was outside.
    const auto found = std::find(ids.begin(), ids.end(), token);
    const bool outside = token < 0 || token >= chain.vocab;
    if (found != ids.end())
      token = static_cast<std::int32_t>(found - ids.begin());
    else if (!outside)
      token = 0;
    else if (token >= 0)
      token = static_cast<std::int32_t>(vocab);
  }
  chain.vocab = vocab;
}

void add_chain_steps(const FuzzCase& fuzz_case, std::vector<Step>& steps) {
  const ChainRequest& chain = fuzz_case.chain;
  for (std::int64_t b = 0; b < chain.batch && chain.batch > 1; ++b) {
    steps.emplace_back([b](FuzzCase& c) {
      keep_chain(c.chain, b);
      return true;
    });
  }
  for (std::int64_t i = 0; i < chain.num_draft_tokens; ++i) {
    steps.emplace_back([i](FuzzCase& c) {
      drop_position(c.chain, i);
      return true;
    });
  }
  for (const Stretch& cut : stretches(chain.vocab, kSingleTokens)) {
    steps.emplace_back([cut](FuzzCase& c) {
      if (c.chain.vocab < 2) return false;
      keep_tokens(c.chain, all_but(c.chain.vocab, cut.first, cut.length));
      return true;
    });
  }
  steps.emplace_back([](FuzzCase& c) {
    const bool had = !c.chain.bonus_words.empty();
    c.chain.accept_words.clear();
    c.chain.recover_words.clear();
    c.chain.bonus_words.clear();
    return had;
  });
  add_numbers_steps(steps, chain.seed.size(),
                    [](FuzzCase& c) -> std::vector<std::uint64_t>& { return c.chain.seed; });
  add_numbers_steps(steps, chain.offset.size(),
                    [](FuzzCase& c) -> std::vector<std::uint64_t>& { return c.chain.offset; });
  const auto size = [](const std::vector<float>& values) {
    return static_cast<std::int64_t>(values.size());
  };
  add_value_steps(size(chain.draft_probs), chain.vocab, steps, draft_of);
  add_value_steps(size(chain.target_probs), chain.vocab, steps, target_of);
}

}  // namespace

std::vector<Step> steps_for(const FuzzCase& fuzz_case) {
  std::vector<Step> steps;
  if (fuzz_case.kind == CaseKind::chain) {
    add_chain_steps(fuzz_case, steps);
  } else if (fuzz_case.kind == CaseKind::speculation) {
    add_speculation_steps(fuzz_case, steps);
  } else {
    add_request_steps(fuzz_case, steps);
  }
  // The draws of a distribution belong to its seed: only a batch's relations may choose more
  // simply.
  if (fuzz_case.kind != CaseKind::distribution) {
    add_number_steps(steps, [](FuzzCase& c) { return &c.salt; });
  }
  return steps;
}

}  // namespace fairdraw::suites::fuzz
