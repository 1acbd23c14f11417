#include <algorithm>
#include <utility>

#include "harness/run/checks/speculation/speculation_rows.h"
#include "suites/gate/fuzz/shrink_parts.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::SpeculationRequest;
using harness::words_for;
using reference::RowProcessing;

bool is_plain(const RowProcessing& row) {
  return row.repetition_penalty == 1 && row.frequency_penalty == 0 && row.presence_penalty == 0 &&
         row.min_tokens == 0 && row.prompt.empty() && row.output.empty() &&
         row.output_length == 0 && row.biases.empty() && row.stop_ids.empty() &&
         row.bad_words.empty() && row.bad_word_lengths.empty() && row.allowed_ids.empty();
}

template <class T>
bool drop_all(std::vector<T>& values) {
  const bool had = !values.empty();
  values.clear();
  return had;
}

template <class T>
bool drop_last(std::vector<T>& values) {
  const bool had = !values.empty();
  if (had) values.pop_back();
  return had;
}

// A step of a row's processing.
using Part = bool (*)(RowProcessing&);

constexpr Part kParts[] = {
    [](RowProcessing& row) { return !is_plain(row) && (row = {}, true); },
    [](RowProcessing& row) { return set_float(row.repetition_penalty, 1); },
    [](RowProcessing& row) { return set_float(row.frequency_penalty, 0); },
    [](RowProcessing& row) { return set_float(row.presence_penalty, 0); },
    [](RowProcessing& row) { return drop_all(row.biases); },
    [](RowProcessing& row) { return drop_all(row.stop_ids); },
    [](RowProcessing& row) {
      row.bad_words.clear();
      return drop_all(row.bad_word_lengths);
    },
    [](RowProcessing& row) { return drop_all(row.allowed_ids); },
    [](RowProcessing& row) { return drop_all(row.prompt); },
    [](RowProcessing& row) { return drop_all(row.output); },
    [](RowProcessing& row) { return set_to(row.output_length, 0); },
    [](RowProcessing& row) { return set_to(row.min_tokens, 0); },
    [](RowProcessing& row) { return row.min_tokens > 1 && set_to(row.min_tokens, 1); },
    [](RowProcessing& row) { return drop_last(row.prompt); },
    [](RowProcessing& row) { return drop_last(row.output); },
    [](RowProcessing& row) { return drop_last(row.biases); },
    [](RowProcessing& row) { return drop_last(row.stop_ids); },
    [](RowProcessing& row) { return drop_last(row.allowed_ids); },
    [](RowProcessing& row) {
      return row.frequency_penalty != 0 && set_float(row.frequency_penalty, 1);
    },
    [](RowProcessing& row) {
      return row.presence_penalty != 0 && set_float(row.presence_penalty, 1);
    },
    [](RowProcessing& row) {
      return row.repetition_penalty != 1 && set_float(row.repetition_penalty, 2);
    },
};

// Of all rows of a call at once, then of the first few by themselves.
void add_parts_of_rows(std::size_t rows, std::vector<Step>& steps) {
  constexpr std::size_t kAll = ~std::size_t{0};
  std::vector<std::size_t> chosen = {kAll};
  for (std::size_t row = 0; row < std::min<std::size_t>(rows, 8) && rows > 1; ++row) {
    chosen.push_back(row);
  }
  for (const std::size_t row : chosen) {
    for (const Part part : kParts) {
      steps.emplace_back([row, part](FuzzCase& c) {
        bool changed = false;
        for (std::size_t i = 0; i < c.request.processing.size(); ++i) {
          if (row == kAll || row == i) changed = part(c.request.processing[i]) || changed;
        }
        return changed;
      });
    }
  }
}

// Of the first rows of requests: those after them follow from these and the drafts, and are no
// step's to change, or it would have something to do for ever.
void add_parts_of_requests(std::vector<Step>& steps) {
  for (const Part part : kParts) {
    steps.emplace_back([part](FuzzCase& c) {
      SpeculationRequest& request = c.speculation;
      bool changed = false;
      for (std::int64_t b = 0; b < request.batch && !request.processing.empty(); ++b) {
        const std::int64_t first = request.row_begins.empty()
                                       ? b * (request.max_draft + 1)
                                       : request.row_begins[static_cast<std::size_t>(b)];
        changed = part(request.processing[static_cast<std::size_t>(first)]) || changed;
      }
      if (changed) harness::grow_histories(request);
      return changed;
    });
  }
}

// --- Requests with drafts ------------------------------------------------------------------------

// The one request of the call with its first n drafts, packed.
bool keep_drafts(SpeculationRequest& request, std::int64_t n) {
  const std::vector<std::int64_t> packed = {0, n + 1};
  if (request.batch != 1 || n < 0 || n >= request.rows()) return false;
  if (request.row_begins == packed && request.draft_lengths.empty() && request.rows() == n + 1 &&
      request.max_draft == n) {
    return false;
  }
  const auto keep = [](auto& values, std::int64_t size) {
    if (!values.empty()) values.resize(static_cast<std::size_t>(size));
  };
  keep(request.target, (n + 1) * request.vocab);
  keep(request.allowed, (n + 1) * words_for(request.vocab));
  keep(request.processing, n + 1);
  keep(request.draft, n * request.vocab);
  keep(request.draft_tokens, n);
  keep(request.parents, n);
  request.row_begins = packed;
  request.draft_lengths.clear();
  request.max_draft = n;
  return true;
}

std::int64_t drafts_of(const SpeculationRequest& request) {
  return static_cast<std::int64_t>(harness::split_request(request, 0).drafted.size());
}

void keep_tokens(SpeculationRequest& request, const std::vector<std::int64_t>& ids) {
  for (auto* const values : {&request.target, &request.draft}) {
    std::vector<std::int64_t> kept;
    const auto rows = static_cast<std::int64_t>(values->size()) / request.vocab;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (const std::int64_t id : ids) kept.push_back(row * request.vocab + id);
    }
    keep_slices(*values, kept, 1);
  }
  const auto vocab = static_cast<std::int64_t>(ids.size());
  std::vector<std::uint32_t> allowed;
  const auto rows = static_cast<std::int64_t>(request.target.size()) / vocab;
  for (std::int64_t row = 0; row < rows && !request.allowed.empty(); ++row) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(words_for(vocab)), 0);
    for (std::int64_t id = 0; id < vocab; ++id) {
      const std::int64_t from = ids[static_cast<std::size_t>(id)];
      const auto word = static_cast<std::size_t>(row * words_for(request.vocab) + from / 32);
      words[static_cast<std::size_t>(id / 32)] |= ((request.allowed[word] >> (from % 32)) & 1U)
                                                  << (id % 32);
    }
    allowed.insert(allowed.end(), words.begin(), words.end());
  }
  request.allowed = std::move(allowed);
  for (RowProcessing& row : request.processing) row = with_tokens(row, ids, request.vocab);
  for (std::int32_t& token : request.draft_tokens) {
    const auto found = std::find(ids.begin(), ids.end(), token);
    const bool outside = token < 0 || token >= request.vocab;
    if (found != ids.end())
      token = static_cast<std::int32_t>(found - ids.begin());
    else if (!outside)
      token = 0;
    else if (token >= 0)
      token = static_cast<std::int32_t>(vocab);
  }
  request.vocab = vocab;
  harness::grow_histories(request);
}

void add_shape_steps(const SpeculationRequest& request, std::vector<Step>& steps) {
  steps.emplace_back([](FuzzCase& c) {
    SpeculationRequest& r = c.speculation;
    if (!r.seed_is_scalar) return false;
    r.seed_is_scalar = false;
    r.seed.assign(static_cast<std::size_t>(r.batch), r.seed.front());
    r.offset.assign(static_cast<std::size_t>(r.batch), r.offset.front());
    return true;
  });
  for (std::int64_t b = 0; b < request.batch && request.batch > 1; ++b) {
    steps.emplace_back([b](FuzzCase& c) {
      if (c.speculation.seed_is_scalar) return false;
      c.speculation = harness::pick_requests(c.speculation, {b});
      return true;
    });
  }
  for (std::int64_t less = 4; less >= 0; --less) {  // 0: without the padding alone
    steps.emplace_back([less](FuzzCase& c) {
      return c.speculation.batch == 1 &&
             keep_drafts(c.speculation, drafts_of(c.speculation) - less);
    });
  }
  for (const Stretch& cut : stretches(request.vocab, kSingleTokens)) {
    steps.emplace_back([cut](FuzzCase& c) {
      if (c.speculation.vocab < 2) return false;
      keep_tokens(c.speculation, all_but(c.speculation.vocab, cut.first, cut.length));
      return true;
    });
  }
}

void add_speculation_option_steps(std::vector<Step>& steps) {
  steps.emplace_back([](FuzzCase& c) { return drop_all(c.speculation.processing); });
  steps.emplace_back([](FuzzCase& c) { return drop_all(c.speculation.allowed); });
  steps.emplace_back([](FuzzCase& c) { return drop_all(c.speculation.active); });
  steps.emplace_back([](FuzzCase& c) {
    c.speculation.draft.clear();
    c.speculation.draft_parameters.clear();
    return set_to(c.speculation.draft_law, DraftLaw::none);
  });
  steps.emplace_back([](FuzzCase& c) { return set_to(c.speculation.history_form.grown, false); });
  steps.emplace_back([](FuzzCase& c) { return set_to(c.speculation.dtype, DType::float32); });
  steps.emplace_back([](FuzzCase& c) { return set_to(c.speculation.tie_rule, TieRule::keep_all); });
  steps.emplace_back(
      [](FuzzCase& c) { return set_to(c.speculation.filter_order, FilterOrder::top_k_first); });
}

}  // namespace

void add_processing_steps(const FuzzCase& fuzz_case, std::vector<Step>& steps) {
  if (fuzz_case.request.processing.empty()) return;
  steps.emplace_back([](FuzzCase& c) {
    c.request.history_form = {};
    return drop_all(c.request.processing);
  });
  add_parts_of_rows(fuzz_case.request.processing.size(), steps);
  steps.emplace_back([](FuzzCase& c) { return set_to(c.request.history_form.grown, false); });
}

void add_speculation_steps(const FuzzCase& fuzz_case, std::vector<Step>& steps) {
  const SpeculationRequest& request = fuzz_case.speculation;
  add_shape_steps(request, steps);
  add_speculation_option_steps(steps);
  if (!request.processing.empty()) add_parts_of_requests(steps);
  add_parameter_steps(request.batch, steps,
                      [](FuzzCase& c) -> std::vector<reference::RowParameters>& {
                        return c.speculation.parameters;
                      });
  add_parameter_steps(static_cast<std::int64_t>(request.draft_parameters.size()), steps,
                      [](FuzzCase& c) -> std::vector<reference::RowParameters>& {
                        return c.speculation.draft_parameters;
                      });
  add_numbers_steps(steps, request.seed.size(),
                    [](FuzzCase& c) -> std::vector<std::uint64_t>& { return c.speculation.seed; });
  add_numbers_steps(steps, request.offset.size(), [](FuzzCase& c) -> std::vector<std::uint64_t>& {
    return c.speculation.offset;
  });
  add_value_steps(static_cast<std::int64_t>(request.target.size()), request.vocab, steps,
                  [](FuzzCase& c) -> std::vector<float>& { return c.speculation.target; });
  add_value_steps(static_cast<std::int64_t>(request.draft.size()), request.vocab, steps,
                  [](FuzzCase& c) -> std::vector<float>& { return c.speculation.draft; });
}

}  // namespace fairdraw::suites::fuzz
