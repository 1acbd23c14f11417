#include "tests/speculation/speculation_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "harness/run/calls/logits_source.h"
#include "harness/run/calls/random_words.h"
#include "tests/sample/random_rows.h"

namespace fairdraw::suites {
namespace {

using reference::IntegerRow;
using reference::PositionWords;
using reference::SpeculationOutcome;

constexpr std::int32_t kUnwritten = -77;

/// The rows and drafted tokens of a request; none if they are invalid. This function is written
/// from the header's text alone.
struct Span {
  std::size_t row, place, drafts;
};

std::optional<Span> span_of(const SpeculationCall& call, std::int64_t b) {
  const auto at = static_cast<std::size_t>(b);
  std::int64_t begin = b * (call.max_draft + 1), end = begin + call.max_draft + 1;
  if (!call.row_begins.empty()) {
    begin = call.row_begins[at];
    end = call.row_begins[at + 1];
  }
  const auto places = static_cast<std::int64_t>(call.draft_tokens.size());
  if (begin < 0 || end > call.target.rows || end <= begin || begin - b < 0) return std::nullopt;
  std::int64_t drafts = end - begin - 1;
  if (!call.draft_lengths.empty()) {
    if (call.draft_lengths[at] > drafts) return std::nullopt;
    drafts = call.draft_lengths[at];
  }
  if (drafts < 0 || drafts > call.max_draft || begin - b + drafts > places) return std::nullopt;
  return Span{static_cast<std::size_t>(begin), static_cast<std::size_t>(begin - b),
              static_cast<std::size_t>(drafts)};
}

reference::RowParameters parameters_of(const OwnedCall& call, std::int64_t b) {
  return {call.temperature.at(b), call.top_k.at(b), call.top_p.at(b), call.min_p.at(b)};
}

bool is_greedy(const reference::RowParameters& p) {
  return p.temperature == 0 || p.top_k == 1 || p.top_p == 0;
}

IntegerRow target_row(const SpeculationCall& call, std::int64_t b, std::size_t row) {
  std::span<const std::uint32_t> allowed;
  if (!call.target.allowed.empty()) {
    allowed = std::span(call.target.allowed)
                  .subspan(row * static_cast<std::size_t>(call.target.allowed_stride),
                           static_cast<std::size_t>((call.target.vocab + 31) / 32));
  }
  return reference::integer_model(call.target_rows[row], allowed, parameters_of(call.target, b),
                                  call.target.tie_rule.scalar, call.target.filter_order.scalar);
}

IntegerRow draft_row(const SpeculationCall& call, std::int64_t b, std::size_t place) {
  if (call.draft_law == DraftLaw::probs) {
    return reference::integer_model_from_probs(call.draft_rows[place], {});
  }
  return reference::integer_model(call.draft_rows[place], {}, parameters_of(call.draft, b),
                                  call.draft.tie_rule.scalar, call.draft.filter_order.scalar);
}

std::uint64_t word_of(const SpeculationCall& call, std::int64_t b, std::size_t position,
                      Purpose purpose, std::uint32_t sibling = 0) {
  const auto index = static_cast<std::uint32_t>(call.target.seed.is_array ? 0 : b);
  return harness::random_word(call.target.seed.at(b), call.target.offset.at(b) + position, purpose,
                              index, sibling);
}

/// Returns the token that `sample` draws at a position from the target's row there.
std::int32_t token_of_target(const SpeculationCall& call, std::int64_t b, std::size_t position,
                             const IntegerRow& row) {
  return row.token_by_attempts(
      [&](std::uint32_t attempt) { return word_of(call, b, position, Purpose::draw, attempt); });
}

/// The parts of one request that the reference's model needs.
struct Parts {
  RowStatus status = RowStatus::ok;
  std::vector<IntegerRow> target, draft;
  std::vector<std::int32_t> drafted, parents;
  std::vector<PositionWords> words;
};

Parts parts_of(const SpeculationCall& call, std::int64_t b) {
  Parts parts;
  if (!call.target.active.empty() && call.target.active[static_cast<std::size_t>(b)] == 0) {
    parts.status = RowStatus::inactive;
    return parts;
  }
  const std::optional<Span> span = span_of(call, b);
  if (!span) {
    parts.status = RowStatus::invalid_draft_length;
    return parts;
  }
  for (std::size_t i = 0; i <= span->drafts; ++i) {
    parts.target.push_back(target_row(call, b, span->row + i));
    parts.words.push_back({word_of(call, b, i, Purpose::draw), word_of(call, b, i, Purpose::accept),
                           word_of(call, b, i, Purpose::recover),
                           word_of(call, b, i, Purpose::bonus)});
    parts.words.back().attempts = [&call, b, i](std::uint32_t attempt) {
      return word_of(call, b, i, Purpose::draw, attempt);
    };
    for (std::uint32_t k = 1; call.trees && k < span->drafts; ++k) {
      parts.words.back().accept_next.push_back(word_of(call, b, i, Purpose::accept, k));
    }
    if (call.trees && call.draft_law != DraftLaw::none) {
      parts.draft.push_back(draft_row(call, b, span->row + i));
    }
    if (i == span->drafts) break;
    parts.drafted.push_back(call.draft_tokens[span->place + i]);
    parts.parents.push_back(call.parents[span->place + i]);
    if (call.trees || call.draft_law == DraftLaw::none) continue;
    parts.draft.push_back(draft_row(call, b, span->place + i));
  }
  return parts;
}

void write(const SpeculationOutcome& outcome, std::int64_t b, std::int64_t width,
           SpeculationOutputs& outputs) {
  const auto at = static_cast<std::size_t>(b);
  std::fill_n(outputs.tokens.begin() + b * (width + 1), width + 1, -1);
  std::copy(outcome.tokens.begin(), outcome.tokens.end(), outputs.tokens.begin() + b * (width + 1));
  std::fill_n(outputs.nodes.begin() + b * width, width, -1);
  std::copy(outcome.nodes.begin(), outcome.nodes.end(), outputs.nodes.begin() + b * width);
  outputs.accepted[at] = outcome.accepted;
  outputs.statuses[at] = outcome.status;
}

// --- Calls ---------------------------------------------------------------------------------------

/// Sets the filters of `batch` requests to those of random rows; in one request of 40, a filter is
/// out of its range.
void randomise_filters(OwnedCall& call, std::int64_t batch, std::mt19937_64& random) {
  call.make_parameter_arrays(batch);
  for (std::int64_t b = 0; b < batch; ++b) {
    const bool plain = random() % 3 == 0;
    const RandomRow row = random_row_of(random(), static_cast<std::size_t>(call.vocab));
    const reference::RowParameters p = plain ? reference::RowParameters{} : row.parameters;
    call.temperature.set(b) = random() % 160 == 0 ? -1.0F : p.temperature;
    call.top_k.set(b) = random() % 160 == 0 ? -2 : p.top_k;
    call.top_p.set(b) = random() % 160 == 0 ? 1.5F : p.top_p;
    call.min_p.set(b) = random() % 160 == 0 ? std::nanf("") : p.min_p;
    call.tie_rule = row.tie_rule;
    call.filter_order = row.filter_order;
  }
}

std::vector<float> rounded(DType dtype, std::vector<float> values) {
  for (float& value : values) value = harness::rounded_to(dtype, value);
  return values;
}

/// Returns logits of a draft, which equal the target's, are near them, or are unrelated.
std::vector<float> draft_logits(const std::vector<float>& target, std::mt19937_64& random) {
  std::vector<float> logits = target;
  const std::uint64_t kind = random() % 4;
  if (kind == 0) return logits;
  for (float& x : logits) x += static_cast<float>(random() >> 40) * 0x1p-23F;  // at most 2
  return kind == 3 ? random_row_of(random(), target.size()).logits : logits;
}

/// Returns a token for a position of a chain; most tokens are drafted as in an engine, with the
/// request's own random bits.
std::int32_t draft_token(const SpeculationCall& call, std::int64_t b, const Span& span,
                         std::size_t i, std::mt19937_64& random) {
  const auto vocab = static_cast<std::uint64_t>(call.target.vocab);
  if (random() % 120 == 0) {
    const std::int32_t outside[] = {-1, static_cast<std::int32_t>(vocab),
                                    std::numeric_limits<std::int32_t>::max(),
                                    std::numeric_limits<std::int32_t>::min()};
    return outside[random() % 4];
  }
  const auto anywhere = static_cast<std::int32_t>(random() % vocab);
  if (random() % 24 == 0) return anywhere;
  const bool known = call.draft_law != DraftLaw::none;
  const IntegerRow row =
      known ? draft_row(call, b, span.place + i) : target_row(call, b, span.row + i);
  const std::int32_t token =
      known ? row.token_for(word_of(call, b, i, Purpose::draft)) : token_of_target(call, b, i, row);
  return token < 0 || (!known && random() % 4 == 0) ? anywhere : token;
}

/// Returns a token for a position of a tree of known distribution. Most tokens are drawn from the
/// part of the draft's distribution that earlier siblings left, or from the whole distribution.
std::int32_t sampled_token(const SpeculationCall& call, std::int64_t b, const Span& span,
                           std::size_t i, std::mt19937_64& random) {
  const auto anywhere =
      static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(call.target.vocab));
  if (random() % 24 == 0) return anywhere;
  const std::int32_t parent = call.parents[span.place + i];
  if (parent < -1 || parent >= static_cast<std::int32_t>(i)) return anywhere;
  IntegerRow row = draft_row(call, b, span.row + static_cast<std::size_t>(parent + 1));
  if (row.status != RowStatus::ok) return anywhere;
  std::vector<std::size_t> kept;
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    if (row.mask[id] != 0) kept.push_back(id);
  }
  for (std::size_t j = 0; call.siblings == SiblingSampling::without_replacement && j < i; ++j) {
    if (call.parents[span.place + j] != parent) continue;
    std::erase(kept, static_cast<std::size_t>(call.draft_tokens[span.place + j]));
  }
  std::uint64_t total = 0;
  for (const std::size_t id : kept) total += row.speculation_weight[id];
  if (total == 0) return anywhere;
  std::uint64_t left = random() % total;
  std::size_t at = 0;
  while (left >= row.speculation_weight[kept[at]]) left -= row.speculation_weight[kept[at++]];
  return static_cast<std::int32_t>(kept[at]);
}

void lay_out(SpeculationCall& call, std::mt19937_64& random) {
  std::int64_t rows = call.batch * (call.max_draft + 1), places = call.batch * call.max_draft;
  const auto width = static_cast<std::uint64_t>(call.max_draft + 1);
  if (random() % 2 == 0) {
    call.row_begins = {0};
    for (std::int64_t b = 0; b < call.batch; ++b) {
      call.row_begins.push_back(call.row_begins.back() + 1 +
                                static_cast<std::int64_t>(random() % width));
    }
    rows = call.row_begins.back() + static_cast<std::int64_t>(random() % 3);  // spare rows
    places = rows - call.batch;
  }
  if (random() % 2 == 0) {
    for (std::int64_t b = 0; b < call.batch; ++b) {
      const std::int64_t most = call.row_begins.empty()
                                    ? call.max_draft
                                    : call.row_begins[static_cast<std::size_t>(b) + 1] -
                                          call.row_begins[static_cast<std::size_t>(b)] - 1;
      const auto fit = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(most + 1));
      const std::int32_t no_fit[] = {-1, static_cast<std::int32_t>(most + 1),
                                     std::numeric_limits<std::int32_t>::max(),
                                     std::numeric_limits<std::int32_t>::min()};
      call.draft_lengths.push_back(random() % 24 == 0 ? no_fit[random() % 4] : fit);
    }
  }
  // A begin that is out of order makes at most two requests invalid.
  if (!call.row_begins.empty() && random() % 6 == 0) {
    const std::int64_t wild[] = {-1, rows + 1, 0, std::numeric_limits<std::int64_t>::min(),
                                 std::numeric_limits<std::int64_t>::max()};
    call.row_begins[random() % call.row_begins.size()] = wild[random() % 5];
  }
  call.draft_tokens.assign(static_cast<std::size_t>(places), 0);
  call.parents.assign(static_cast<std::size_t>(places), -1);
  const auto sometimes = [&random](std::uint64_t bound) {
    return static_cast<std::int64_t>(random() % 2 == 0 ? 0 : random() % bound);
  };
  const auto shift = [&] { return static_cast<std::size_t>(sometimes(20)); };
  const std::int64_t vocab = call.target.vocab;
  call.target.allocate(static_cast<DType>(random() % 3), rows, vocab, vocab + sometimes(9),
                       shift());
  if (call.draft_law == DraftLaw::none) return;
  const auto type = random() % 2 == 0 ? call.target.dtype : static_cast<DType>(random() % 3);
  call.draft.allocate(type, call.trees ? rows : places, vocab, vocab + sometimes(9), shift());
}

void fill_rows(SpeculationCall& call, std::mt19937_64& random) {
  const auto vocab = static_cast<std::size_t>(call.target.vocab);
  const bool masked = random() % 3 == 0;
  call.target.allowed_stride = static_cast<std::int64_t>((vocab + 31) / 32 + random() % 2);
  for (std::int64_t r = 0; r < call.target.rows; ++r) {
    RandomRow row = random_row_of(random(), vocab);
    call.target_rows.push_back(rounded(call.target.dtype, row.logits));
    call.target.set_row(r, call.target_rows.back().data());
    if (!masked) continue;
    row.allowed.resize(static_cast<std::size_t>(call.target.allowed_stride),
                       row.allowed.empty() ? ~0U : 0U);
    call.target.allowed.insert(call.target.allowed.end(), row.allowed.begin(), row.allowed.end());
  }
  for (std::int64_t place = 0; place < call.draft.rows; ++place) {
    const bool probs = call.draft_law == DraftLaw::probs;
    // The row is near the target's row for which it drafts, if requests are packed or have two
    // rows.
    const auto near = static_cast<std::size_t>(std::min(place, call.target.rows - 1));
    std::vector<float> row = draft_logits(call.target_rows[near], random);
    if (probs) {
      float largest = -INFINITY;
      for (const float x : row) largest = std::max(largest, x);
      for (float& x : row) x = std::exp(x - largest);
      if (random() % 2 == 0) row = random_probs(random(), vocab);
    }
    call.draft_rows.push_back(rounded(call.draft.dtype, row));
    call.draft.set_row(place, call.draft_rows.back().data());
  }
}

}  // namespace

SpeculationCall random_speculation_call(std::uint64_t number, std::int64_t vocab, bool trees) {
  std::mt19937_64 random(number);
  SpeculationCall call;
  call.trees = trees;
  call.siblings = static_cast<SiblingSampling>(number / 24 % 2);
  call.draft_law = static_cast<DraftLaw>(number % 3);
  call.batch = static_cast<std::int64_t>(1 + random() % 6);
  call.max_draft = static_cast<std::int64_t>(random() % 6);
  call.max_depth =
      static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(call.max_draft + 2));
  call.target.vocab = call.draft.vocab = vocab;
  lay_out(call, random);
  randomise_filters(call.target, call.batch, random);
  randomise_filters(call.draft, call.batch, random);
  fill_rows(call, random);
  call.target.seed.scalar = random();
  call.target.offset.scalar = random() % 2 == 0 ? random() : ~std::uint64_t{1};  // may wrap
  if (random() % 4 != 0) call.target.seed.make_array(call.batch);
  if (random() % 4 != 0) call.target.offset.make_array(call.batch);
  for (std::uint64_t& value : call.target.seed.values) value = random();
  for (std::uint64_t& value : call.target.offset.values) {
    value = random() % 4 == 0 ? ~std::uint64_t{0} : random();
  }
  if (random() % 4 == 0) {
    for (std::int64_t b = 0; b < call.batch; ++b) call.target.active.push_back(random() % 4 != 0);
  }
  for (std::int64_t b = 0; b < call.batch; ++b) {
    const std::optional<Span> span = span_of(call, b);
    if (!span) continue;
    for (std::size_t i = 0; i < span->drafts; ++i) {
      const bool sampled = trees && call.draft_law != DraftLaw::none;
      if (!sampled) call.draft_tokens[span->place + i] = draft_token(call, b, *span, i, random);
      // In half of the positions the tree is a chain; otherwise the parent is any earlier node or
      // the root.
      const auto above = static_cast<std::int32_t>(i) - 1;
      std::int32_t& parent = call.parents[span->place + i];
      parent = random() % 2 == 0 ? above : static_cast<std::int32_t>(random() % (i + 1)) - 1;
      // If the distribution is known, siblings are the important case.
      if (sampled && i > 0 && random() % 2 == 0) parent = call.parents[span->place + i - 1];
      // This is the token that the target draws there, so that paths branch. The walk from the root
      // takes at most i steps, because every parent so far comes before its child.
      if (call.draft_law == DraftLaw::none && parent != above && random() % 2 == 0) {
        std::size_t depth = 0;
        for (std::int32_t at = parent; at >= 0 && depth < i; ++depth) {
          at = call.parents[span->place + static_cast<std::size_t>(at)];
        }
        const IntegerRow row =
            target_row(call, b, span->row + static_cast<std::size_t>(parent + 1));
        const std::int32_t token = token_of_target(call, b, depth, row);
        if (token >= 0) call.draft_tokens[span->place + i] = token;
      }
      if (sampled) call.draft_tokens[span->place + i] = sampled_token(call, b, *span, i, random);
      if (random() % 60 == 0) parent = random() % 2 == 0 ? above + 1 : -2;
    }
  }
  return call;
}

SpeculationCall wide_speculation_call(std::uint64_t number, std::int64_t children,
                                      std::int64_t vocab) {
  std::mt19937_64 random(number);
  SpeculationCall call;
  call.trees = true;
  call.siblings = static_cast<SiblingSampling>(number % 2);
  call.draft_law = number / 2 % 2 == 0 ? DraftLaw::logits : DraftLaw::probs;
  call.batch = 1;
  call.max_draft = children;
  call.max_depth = 1;
  call.target.vocab = call.draft.vocab = vocab;
  call.target.allocate(DType::float32, children + 1, vocab, vocab, 0);
  call.draft.allocate(DType::float32, children + 1, vocab, vocab, 0);
  call.target.seed.scalar = random();
  const float slope = static_cast<float>(random() % 40) / static_cast<float>(vocab);
  const auto noise = [&random] { return static_cast<float>(random() >> 40) * 0x1p-24F; };
  std::vector<float> target, draft, leaf(static_cast<std::size_t>(vocab), 0.0F);
  for (std::int64_t id = 0; id < vocab; ++id) {
    target.push_back(slope * static_cast<float>(id) + noise());
    draft.push_back(-slope * static_cast<float>(id) + noise());
  }
  // The reference's weights of the draft's rows, from which tokens are drawn.
  std::vector<std::uint64_t> weights;
  if (call.draft_law == DraftLaw::probs) {
    for (float& x : draft) x = std::exp(x);
    weights = reference::integer_model_from_probs(draft, {}).speculation_weight;
  } else {
    weights = reference::integer_model(draft, {}, {}).speculation_weight;
  }
  for (std::int64_t row = 0; row <= children; ++row) {
    call.target_rows.push_back(row == 0 ? target : leaf);
    call.draft_rows.push_back(row == 0 ? draft : leaf);
    call.target.set_row(row, call.target_rows.back().data());
    call.draft.set_row(row, call.draft_rows.back().data());
    if (row == 0) continue;
    std::uint64_t total = 0;
    for (const std::uint64_t weight : weights) total += weight;
    std::uint64_t left = total == 0 ? 0 : random() % total;
    std::size_t token = 0;
    while (total > 0 && left >= weights[token]) left -= weights[token++];
    call.draft_tokens.push_back(static_cast<std::int32_t>(token));
    call.parents.push_back(-1);
    if (call.siblings == SiblingSampling::without_replacement) weights[token] = 0;
  }
  return call;
}

SpeculationCall open_speculation_call(std::uint64_t number, std::int64_t vocab, bool trees) {
  constexpr std::int64_t kTokens = 4;
  std::mt19937_64 random(number);
  SpeculationCall call;
  call.trees = trees;
  call.siblings = static_cast<SiblingSampling>(number % 2);
  call.draft_law = DraftLaw::probs;
  call.batch = 6;
  call.max_draft = call.max_depth = 3;
  const std::int64_t rows = call.batch * (call.max_draft + 1);
  const std::int64_t draft_rows = trees ? rows : call.batch * call.max_draft;
  call.target.vocab = call.draft.vocab = vocab;
  call.target.allocate(DType::float32, rows, vocab, vocab, 0);
  call.draft.allocate(DType::float32, draft_rows, vocab, vocab, 0);
  call.target.seed.scalar = random();
  // Token t of the small draft has id vocab / kTokens * t.
  const std::int64_t apart = vocab / kTokens;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<float> target(static_cast<std::size_t>(vocab), -100.0F);
    std::vector<float> draft(static_cast<std::size_t>(vocab), 0.0F);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const auto id = static_cast<std::size_t>(t * apart);
      target[id] = static_cast<float>(random() % 1000) * 0x1p-10F;
      draft[id] = static_cast<float>(1 + random() % 2) * 0x1p-149F;
    }
    call.target_rows.push_back(target);
    call.target.set_row(row, target.data());
    if (row >= draft_rows) continue;
    call.draft_rows.push_back(draft);
    call.draft.set_row(row, draft.data());
  }
  for (std::int64_t place = 0; place < call.batch * call.max_draft; ++place) {
    const auto token = static_cast<std::int64_t>(random() % kTokens);
    call.draft_tokens.push_back(static_cast<std::int32_t>(token * apart));
    // The root has two children, which may have the same token, and the first child has one child.
    call.parents.push_back(place % call.max_draft == 2 ? 0 : -1);
  }
  return call;
}

SpeculationCall exchanged_speculation_call(std::uint64_t number, std::int64_t vocab) {
  std::mt19937_64 random(number);
  const auto any = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  SpeculationCall call;
  call.draft_law = DraftLaw::logits;
  call.batch = 4;
  call.max_draft = 2;
  const std::int64_t draft_rows = call.batch * call.max_draft;
  const std::int64_t rows = draft_rows + call.batch;
  call.target.vocab = call.draft.vocab = vocab;
  call.target.allocate(DType::float32, rows, vocab, vocab, 0);
  call.draft.allocate(DType::float32, draft_rows, vocab, vocab, 0);
  call.target.seed.scalar = random();
  std::normal_distribution<float> normal(0.0F, 1.0F);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<float> values(static_cast<std::size_t>(vocab));
    for (float& value : values) value = normal(random);
    // The target has its head (large value) at a token where the draft has a bulk (small) value.
    const auto head = static_cast<std::size_t>(any(vocab));
    const auto drafted = static_cast<std::size_t>(any(vocab));
    values[head] = std::log(static_cast<float>(vocab)) + 1.0F;
    call.target_rows.push_back(values);
    call.target.set_row(row, values.data());
    const std::int64_t position = row % (call.max_draft + 1);
    if (position == call.max_draft) continue;
    std::swap(values[head], values[drafted]);
    if (row % 2 == 0) {
      float& value = values[static_cast<std::size_t>(any(vocab))];
      value = std::nextafter(value, std::numeric_limits<float>::infinity());
    }
    call.draft_rows.push_back(values);
    call.draft.set_row(row / (call.max_draft + 1) * call.max_draft + position, values.data());
    call.draft_tokens.push_back(static_cast<std::int32_t>(drafted));
    call.parents.push_back(static_cast<std::int32_t>(position) - 1);
  }
  return call;
}

void set_block_rules(SpeculationCall& call, std::uint64_t number) {
  call.accept_rule = AcceptRule::block;
  if (number % 4 < 2) return;
  call.accept_rule.make_array(call.batch);
  for (std::int64_t b = 0; b < call.batch; ++b) {
    call.accept_rule.set(b) = static_cast<AcceptRule>((number >> (b + 2)) % 2);
  }
}

SpeculationCall long_speculation_call(std::uint64_t number, std::int64_t vocab) {
  std::mt19937_64 random(number);
  SpeculationCall call;
  call.draft_law = DraftLaw::logits;
  call.batch = 2;
  call.max_draft = 70;
  const std::int64_t places = call.batch * call.max_draft;
  call.target.vocab = call.draft.vocab = vocab;
  call.target.allocate(DType::float32, places + call.batch, vocab, vocab, 0);
  call.draft.allocate(DType::float32, places, vocab, vocab, 0);
  call.target.seed.scalar = random();
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(vocab));
  for (std::int64_t row = 0; row < call.target.rows; ++row) {
    for (float& value : values) value = normal(random);
    call.target.set_row(row, values.data());
    if (row % (call.max_draft + 1) == call.max_draft) continue;
    for (float& value : values) value += 0.05F * normal(random);
    call.draft.set_row(static_cast<std::int64_t>(call.draft_tokens.size()), values.data());
    call.draft_tokens.push_back(reference::integer_model(values, {}, {}).token_for(random()));
  }
  return call;
}

SpeculationOutputs::SpeculationOutputs(const SpeculationCall& call, std::int64_t width,
                                       bool optional_results)
    : tokens(static_cast<std::size_t>(call.batch * (width + 1)), kUnwritten) {
  if (!optional_results) return;
  nodes.assign(static_cast<std::size_t>(call.batch * width), kUnwritten);
  accepted.assign(static_cast<std::size_t>(call.batch), kUnwritten);
  statuses.assign(static_cast<std::size_t>(call.batch), static_cast<RowStatus>(kUnwritten));
}

SpeculationOutputs expected_chain_outputs(const SpeculationCall& call) {
  SpeculationOutputs outputs(call, call.max_draft);
  const auto vocab = static_cast<std::size_t>(call.target.vocab);
  for (std::int64_t b = 0; b < call.batch; ++b) {
    const Parts parts = parts_of(call, b);
    const bool greedy = is_greedy(parameters_of(call.target, b));
    SpeculationOutcome outcome{parts.status, {}, {}, 0};
    if (parts.status == RowStatus::ok) {
      outcome = accept_chain_model(parts.target, parts.draft, parts.drafted, parts.words, vocab,
                                   greedy, call.accept_rule.at(b));
    }
    write(outcome, b, call.max_draft, outputs);
  }
  return outputs;
}

SpeculationOutputs expected_tree_outputs(const SpeculationCall& call) {
  SpeculationOutputs outputs(call, call.max_depth);
  const auto vocab = static_cast<std::size_t>(call.target.vocab);
  for (std::int64_t b = 0; b < call.batch; ++b) {
    const Parts parts = parts_of(call, b);
    SpeculationOutcome outcome{parts.status, {}, {}, 0};
    if (parts.status == RowStatus::ok) {
      const bool greedy = is_greedy(parameters_of(call.target, b));
      outcome = accept_tree_model(parts.target, parts.drafted, parts.parents, parts.words, vocab,
                                  static_cast<std::size_t>(call.max_depth),
                                  {parts.draft, call.siblings, greedy});
    }
    write(outcome, b, call.max_depth, outputs);
  }
  return outputs;
}

std::string difference(const SpeculationOutputs& expected, const SpeculationOutputs& got) {
  if (expected == got) return {};
  const auto batch = static_cast<std::ptrdiff_t>(expected.statuses.size());
  const auto text = [batch](const SpeculationOutputs& outputs, std::ptrdiff_t b) {
    const auto part = [&](const std::vector<std::int32_t>& values) {
      const auto width = static_cast<std::ptrdiff_t>(values.size()) / batch;
      const auto first = values.begin() + b * width;
      return fmt::format("{}", fmt::join(first, first + width, " "));
    };
    return fmt::format("tokens {}, nodes {}, accepted {}, status {}", part(outputs.tokens),
                       part(outputs.nodes), outputs.accepted[static_cast<std::size_t>(b)],
                       static_cast<int>(outputs.statuses[static_cast<std::size_t>(b)]));
  };
  for (std::ptrdiff_t b = 0; b < batch; ++b) {
    if (text(expected, b) == text(got, b)) continue;
    return fmt::format("request {}: {}; expected {}", b, text(got, b), text(expected, b));
  }
  return "sizes differ";
}

}  // namespace fairdraw::suites
