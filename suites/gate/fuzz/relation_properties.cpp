// Properties that compare a sampler with itself: the answers to two calls must be related in a
// known way, whatever the right answers are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "harness/run/calls/logits_source.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/checks/exact/invariances.h"
#include "suites/gate/fuzz/property_lists.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::Request;
using harness::Response;
using harness::RowInput;
using reference::RowParameters;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Returns choice number `index` of a relation, a number below `bound` that is a function of the
// case's salt.
std::uint64_t choice(const Subject& subject, std::uint64_t index, std::uint64_t bound) {
  return harness::mixed(subject.fuzz_case().salt, index) % bound;
}

bool is_greedy(const Request& request, std::int64_t row) {
  const RowParameters& p = request.parameters[static_cast<std::size_t>(row)];
  const bool cold = request.input == RowInput::logits && p.temperature == 0;
  return cold || p.top_k == 1 || p.top_p == 0;
}

Judgement same_call_again(Subject& subject) {
  return expect_same(subject, "the same call again", subject.request());
}

Judgement layout(Subject& subject) {
  Request changed = subject.request();
  changed.row_stride = changed.row_stride == 0
                           ? changed.vocab + 1 + static_cast<std::int64_t>(choice(subject, 0, 40))
                           : 0;
  const auto other = static_cast<std::int64_t>(choice(subject, 1, 64));
  changed.misalignment = changed.misalignment == other ? 63 - other : other;
  return expect_same(subject, "another stride and alignment", changed);
}

// Repeats each output of a call, but at most four outputs, as calls of their own.
Judgement alone(Subject& subject) {
  const Request& request = subject.request();
  if (!subject.outputs_stand_alone()) return not_applicable("outputs share random bits");
  const auto outputs = static_cast<std::uint64_t>(request.outputs());
  bool judged = false;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(outputs, 4); ++i) {
    const auto output = static_cast<std::int64_t>(outputs <= 4 ? i : choice(subject, i, outputs));
    const std::int64_t row = request.row_of(output);
    if (row < 0 || row >= request.rows) continue;
    judged = true;
    const Response single = subject.run(one_output(request, output));
    if (!single.ran()) return fails(fmt::format("output {} alone: {}", output, single.trouble()));
    for (std::int32_t sample = 0; sample < request.num_samples; ++sample) {
      const auto at = static_cast<std::size_t>(output * request.num_samples + sample);
      const std::int32_t token = single.tokens[static_cast<std::size_t>(sample)];
      if (token == subject.response().tokens[at]) continue;
      return fails(fmt::format("output {}, sample {}: token {} in the batch, {} alone", output,
                               sample, subject.response().tokens[at], token));
    }
    if (single.statuses.empty()) continue;
    const std::int32_t status = subject.response().statuses[static_cast<std::size_t>(output)];
    if (single.statuses.front() == status) continue;
    return fails(fmt::format("output {}: status {} in the batch, {} alone", output, status,
                             single.statuses.front()));
  }
  return judged ? holds() : not_applicable("no output has a row");
}

// Permutes the rows, and selects the row of each output by `indices`.
Judgement through_indices(Subject& subject) {
  const Request& request = subject.request();
  const harness::SamplerDescription& sampler = subject.description();
  if (!sampler.per_request_seeds) return not_applicable("has no per-request seeds");
  if (!sampler.indices) return not_applicable("takes no indices");
  if (request.with_indices || request.rows < 1) return not_applicable("has no rows to move");
  std::vector<std::int64_t> order(static_cast<std::size_t>(request.rows));
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  const auto turn = static_cast<std::ptrdiff_t>(choice(subject, 0, order.size()));
  std::rotate(order.begin(), order.begin() + turn, order.end());
  Request changed = with_rows(request, order);
  changed.with_indices = true;
  changed.indices.resize(order.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    changed.indices[static_cast<std::size_t>(order[place])] = static_cast<std::int32_t>(place);
  }
  changed.seed = request.seed;  // seeds belong to outputs, whose order does not change
  changed.offset = request.offset;
  changed.words = request.words;
  const Response moved = subject.run(changed);
  if (!moved.ran()) return fails(fmt::format("rows in another order: {}", moved.trouble()));
  Response expected = subject.response();  // masks and probabilities belong to rows
  expected.mask.clear();
  expected.probs.clear();
  const std::string wrong = difference(request, moved, expected);
  return wrong.empty() ? holds() : fails("rows in another order, through indices: " + wrong);
}

// Gives one row of the batch other parameters and seeds and an invalid value, which must not change
// the outputs of other rows.
Judgement neighbours(Subject& subject) {
  const Request& request = subject.request();
  if (!subject.outputs_stand_alone()) return not_applicable("outputs share random bits");
  if (request.rows < 2 || request.with_indices) return not_applicable("has no neighbours");
  const std::uint64_t row = choice(subject, 0, static_cast<std::uint64_t>(request.rows));
  Request changed = request;
  changed.parameters[row] = {.temperature = 0.5F, .top_k = 1};
  for (std::int64_t id = 0; id < request.vocab; ++id) {
    changed.logits[row * static_cast<std::size_t>(request.vocab) + static_cast<std::size_t>(id)] =
        request.row(static_cast<std::int64_t>(row))[request.vocab - 1 - id];
  }
  if (!changed.seed_is_scalar) changed.seed[row] = ~changed.seed[row];
  const Response response = subject.run(changed);
  if (!response.ran()) return fails(fmt::format("another batch-mate: {}", response.trouble()));
  for (std::size_t at = 0; at < response.tokens.size(); ++at) {
    if (at / static_cast<std::size_t>(request.num_samples) == row) continue;
    if (response.tokens[at] == subject.response().tokens[at]) continue;
    return fails(fmt::format("token {} of the call is {}, and {} next to another row {}", at,
                             subject.response().tokens[at], response.tokens[at], row));
  }
  return holds();
}

// Requires that masks grow with larger k, larger p and smaller min_p.
Judgement nested(Subject& subject) {
  const Request& request = subject.request();
  if (!subject.exact()) return not_applicable("float32 sums may round differently");
  if (subject.response().mask.empty()) return not_applicable("reports no masks");
  const char* const names[] = {"top_k", "top_p", "min_p"};
  const std::uint64_t way = choice(subject, 0, 3);
  Request looser = request;
  std::vector<bool> comparable;
  for (std::int64_t row = 0; row < request.rows; ++row) {
    RowParameters& p = looser.parameters[static_cast<std::size_t>(row)];
    const std::uint64_t step = choice(subject, static_cast<std::uint64_t>(row) + 1, 4);
    bool changed = false;
    if (way == 0 && p.top_k > 0) {
      const std::int32_t room = std::numeric_limits<std::int32_t>::max() - p.top_k;
      p.top_k = step == 0 ? 0 : p.top_k + std::min(room, static_cast<std::int32_t>(step * step));
      changed = true;
    } else if (way == 1 && p.top_p >= 0 && p.top_p < 1) {
      p.top_p = step == 0   ? 1.0F
                : step == 1 ? std::nextafter(p.top_p, 2.0F)
                            : p.top_p + (1 - p.top_p) / 2;
      changed = true;
    } else if (way == 2 && p.min_p > 0 && p.min_p <= 1) {
      p.min_p = step == 0 ? 0.0F : step == 1 ? std::nextafter(p.min_p, 0.0F) : p.min_p / 2;
      changed = true;
    }
    comparable.push_back(changed && request.is_active(row));
  }
  if (std::find(comparable.begin(), comparable.end(), true) == comparable.end()) {
    return not_applicable("no row has that filter");
  }
  const Response wider = subject.run(looser);
  if (!wider.ran()) return fails(wider.trouble());
  for (std::int64_t row = 0; row < request.rows; ++row) {
    if (!comparable[static_cast<std::size_t>(row)]) continue;
    for (std::int64_t id = 0; id < request.vocab; ++id) {
      if (!subject.response().kept(row, request.vocab, id) || wider.kept(row, request.vocab, id)) {
        continue;
      }
      return fails(fmt::format(
          "row {}: token {} is kept with {}, and dropped with {}: a looser {}", row, id,
          harness::describe(request.parameters[static_cast<std::size_t>(row)]),
          harness::describe(looser.parameters[static_cast<std::size_t>(row)]), names[way]));
    }
  }
  return holds();
}

// Permutes the ids. Filters that keep ties depend on values alone, so that masks must be permuted
// like the ids if no weight depends on its tile.
Judgement permuted(Subject& subject) {
  const Request& request = subject.request();
  if (!subject.exact()) return not_applicable("float32 sums may round differently");
  if (subject.response().mask.empty()) return not_applicable("reports no masks");
  if (request.tie_rule != TieRule::keep_all) return not_applicable("ties are broken by id");
  std::vector<std::int64_t> ids(static_cast<std::size_t>(request.vocab));
  std::iota(ids.begin(), ids.end(), 0);
  for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[choice(subject, i, i)]);
  const Request changed = with_tokens(request, ids);
  const Response response = subject.run(changed);
  if (!response.ran()) return fails("permuted vocabulary: " + response.trouble());
  if (response.statuses != subject.response().statuses) {
    return fails("permuted vocabulary: statuses differ");
  }
  for (std::int64_t row = 0; row < request.rows; ++row) {
    if (!request.is_active(row) || is_greedy(request, row)) continue;
    if (!harness::is_free_of_tiles(request, row)) continue;
    for (std::int64_t id = 0; id < request.vocab; ++id) {
      const std::int64_t before = ids[static_cast<std::size_t>(id)];
      const bool kept = subject.response().kept(row, request.vocab, before);
      if (response.kept(row, request.vocab, id) == kept) continue;
      return fails(fmt::format("row {}: token {} is {} as {}, and not as {}", row, before,
                               kept ? "kept" : "dropped", before, id));
    }
  }
  return holds();
}

Judgement shifted(Subject& subject) {
  const Request& request = subject.request();
  if (!subject.exact()) return not_applicable("float32 may round differently");
  if (request.input != RowInput::logits) return not_applicable("probabilities are scaled instead");
  if (!request.processing.empty()) return not_applicable("a penalty is no shift");
  const float shifts[] = {0.5F, 1.0F, -2.0F, 16.0F, -64.0F, 1024.0F, 0x1p-10F, -0x1p20F};
  const float shift = shifts[choice(subject, 0, std::size(shifts))];
  Request changed = request;
  for (float& logit : changed.logits) {
    if (!std::isfinite(logit)) continue;
    // The exponents of two float32 values may differ by more than 53, and then float64 rounds their
    // sum, too.
    const double sum = static_cast<double>(logit) + static_cast<double>(shift);
    const bool exact_sum = sum - static_cast<double>(shift) == static_cast<double>(logit);
    if (!exact_sum ||
        static_cast<double>(harness::rounded_to(request.dtype, static_cast<float>(sum))) != sum) {
      return not_applicable("a sum is not exact");
    }
    logit = static_cast<float>(sum);
  }
  const std::string what = fmt::format("all logits shifted by {}", shift);
  const bool exact = std::ranges::all_of(changed.parameters, [shift](const RowParameters& row) {
    return harness::shifts_exactly(row, shift);
  });
  if (exact) return expect_same(subject, what.c_str(), changed);
  const Response response = subject.run(changed);
  if (!response.ran()) return fails(what + ": " + response.trouble());
  const std::string wrong =
      harness::outside_of_band(subject.bare_input(), changed, response, subject.response());
  return wrong.empty() ? holds() : fails(fmt::format("{}: {} outside of the band", what, wrong));
}

Judgement padded(Subject& subject) {
  const Request& request = subject.request();
  if (!subject.exact()) return not_applicable("float32 sums may round differently");
  if (!has_tokens_alone(request)) return not_applicable("a column would become a token's");
  const std::int64_t columns = std::int64_t{1} << choice(subject, 0, 7);
  Request changed = request;
  harness::widen_vocab(changed, columns);
  if (changed.row_stride != 0) changed.row_stride += columns;
  changed.logits.clear();
  changed.allowed.clear();
  const float nothing = request.input == RowInput::logits ? kMinusInfinity : 0.0F;
  const std::int64_t words = harness::words_for(request.vocab);
  for (std::int64_t row = 0; row < request.rows; ++row) {
    changed.logits.insert(changed.logits.end(), request.row(row), request.row(row) + request.vocab);
    changed.logits.insert(changed.logits.end(), static_cast<std::size_t>(columns), nothing);
    if (request.allowed.empty()) continue;
    const auto first = request.allowed.begin() + row * words;
    changed.allowed.insert(changed.allowed.end(), first, first + words);
    changed.allowed.resize(static_cast<std::size_t>((row + 1) * harness::words_for(changed.vocab)),
                           0xffffffffU);
  }
  const Response response = subject.run(changed);
  const char* const what = "columns of nothing at the end";
  if (!response.ran()) return fails(fmt::format("{}: {}", what, response.trouble()));
  const Response& expected = subject.response();
  if (response.tokens != expected.tokens) return fails(fmt::format("{}: tokens differ", what));
  if (response.statuses != expected.statuses) {
    return fails(fmt::format("{}: statuses differ", what));
  }
  for (std::int64_t row = 0; row < request.rows && !expected.mask.empty(); ++row) {
    for (std::int64_t id = 0; id < changed.vocab && request.is_active(row); ++id) {
      const bool before = id < request.vocab && expected.kept(row, request.vocab, id);
      if (response.kept(row, changed.vocab, id) == before) continue;
      return fails(fmt::format("{}: row {}: token {} is {}, and was not", what, row, id,
                               before ? "dropped" : "kept"));
    }
  }
  return holds();
}

// Replaces parameters by equivalent ones: other values that turn a filter off, and zeros with the
// other sign.
Judgement spelled(Subject& subject) {
  if (subject.semantics().name != "fairdraw") return not_applicable("is of semantics fairdraw");
  Request changed = subject.request();
  const auto vocab = static_cast<std::int32_t>(changed.vocab);
  const std::int32_t off[] = {0, -1, vocab, vocab + 1, std::numeric_limits<std::int32_t>::max()};
  for (std::size_t row = 0; row < changed.parameters.size(); ++row) {
    RowParameters& p = changed.parameters[row];
    const bool is_off = p.top_k == 0 || p.top_k == -1 || (p.top_k >= vocab && p.top_k > 1);
    const std::int32_t other = off[choice(subject, row, std::size(off))];
    if (is_off && other != 1) p.top_k = other;
    for (float* const value : {&p.temperature, &p.top_p, &p.min_p}) {
      if (*value == 0) *value = -*value;
    }
  }
  for (float& value : changed.logits) {
    if (value == 0) value = -value;
  }
  return expect_same(subject, "other spellings of the same", changed);
}

}  // namespace

Judgement expect_same(Subject& subject, const char* what, const Request& changed) {
  if (!subject.description().per_request_seeds) return not_applicable("has no per-request seeds");
  const Response again = subject.run(changed);
  if (!again.ran()) return fails(fmt::format("{}: {}", what, again.trouble()));
  const std::string wrong = difference(changed, again, subject.response());
  return wrong.empty() ? holds() : fails(fmt::format("{}: {}", what, wrong));
}

std::string difference(const Request& request, const Response& a, const Response& b) {
  for (std::size_t at = 0; at < a.tokens.size(); ++at) {
    if (a.tokens[at] != b.tokens[at]) {
      return fmt::format("token {} of the call is {}, was {}", at, a.tokens[at], b.tokens[at]);
    }
  }
  for (std::size_t at = 0; at < std::min(a.statuses.size(), b.statuses.size()); ++at) {
    if (a.statuses[at] != b.statuses[at]) {
      return fmt::format("output {} has status {}, had {}", at, a.statuses[at], b.statuses[at]);
    }
  }
  for (std::size_t at = 0; at < std::min(a.support_size.size(), b.support_size.size()); ++at) {
    if (a.support_size[at] != b.support_size[at]) {
      return fmt::format("output {} has support size {}, had {}", at, a.support_size[at],
                         b.support_size[at]);
    }
  }
  if (!a.mask.empty() && !b.mask.empty() && a.mask != b.mask) {
    const auto place = std::mismatch(a.mask.begin(), a.mask.end(), b.mask.begin());
    const auto word = place.first - a.mask.begin();
    return fmt::format("word {} of the masks is {:#x}, was {:#x}", word, *place.first,
                       *place.second);
  }
  for (std::size_t at = 0; at < std::min(a.probs.size(), b.probs.size()); ++at) {
    if (std::memcmp(&a.probs[at], &b.probs[at], sizeof(float)) == 0) continue;
    const auto vocab = static_cast<std::size_t>(request.vocab);
    return fmt::format("row {}: probability of token {} is {}, was {}", at / vocab, at % vocab,
                       a.probs[at], b.probs[at]);
  }
  return {};
}

std::vector<Property> relation_properties() {
  return {
      {"call.again", "the same call gives the same answer", CaseKind::batch, 1, same_call_again},
      {"batch.layout", "row stride and alignment change nothing", CaseKind::batch, 1, layout},
      {"batch.alone", "an output alone is that output in its batch", CaseKind::batch, 1, alone},
      {"batch.indices", "rows in another order, through indices, change nothing", CaseKind::batch,
       1, through_indices},
      {"batch.neighbours", "no row sees another row", CaseKind::batch, 1, neighbours},
      {"mask.nested", "masks grow with k and p, and with a smaller min_p", CaseKind::batch, 1,
       nested},
      {"vocabulary.permuted", "a permutation of the vocabulary permutes a keep_all mask",
       CaseKind::batch, 1, permuted},
      {"vocabulary.padded", "columns of nothing at the end change nothing", CaseKind::batch, 1,
       padded},
      {"logits.shifted",
       "a shift of all logits by whole octaves changes nothing, by others no more than weights do",
       CaseKind::batch, 1, shifted},
      {"parameters.spelled", "filters that are off, and signs of zeros, are one spelling",
       CaseKind::batch, 1, spelled},
  };
}

}  // namespace fairdraw::suites::fuzz
