#include "suites/gate/fuzz/shrink.h"

#include <rapidcheck/seq/Create.h>
#include <rapidcheck/seq/Transform.h>
#include <rapidcheck/shrink/Shrink.h>
#include <rapidcheck/shrinkable/Create.h>
#include <rapidcheck/shrinkable/Operations.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "harness/run/checks/speculation/speculation_rows.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::ChainRequest;
using harness::Request;
using harness::SpeculationRequest;
using reference::RowParameters;
using reference::RowProcessing;
using Base = std::shared_ptr<const FuzzCase>;  // a shared pointer, because a Seq is copied
using Cases = rc::Seq<FuzzCase>;
using Ids = std::vector<std::int64_t>;

template <class T>
rc::Seq<T> joined(std::vector<rc::Seq<T>> parts) {
  return rc::seq::join(rc::seq::fromContainer(std::move(parts)));
}

// --- Simpler values ------------------------------------------------------------------------------

// Returns the stretches (first, length) of `count` elements that shrinking tries to drop. The
// lengths are powers of two in decreasing order, because a failure may depend on lanes. Stretches
// of length 1 are tried only if there are few elements. (RapidCheck's removeChunks tries every
// length at every place, which takes too long for rows.)
std::vector<Ids> stretches(std::int64_t count) {
  constexpr std::int64_t kFew = 96;
  std::vector<Ids> all;
  auto length = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count)));
  if (length == count && count > 1) length /= 2;
  for (; length >= 1; length /= 2) {
    if (count > kFew && (length == 1 || count / length > 64)) break;
    for (std::int64_t first = 0; first + length <= count; first += length) {
      all.push_back({first, length});
    }
  }
  return all;
}

// Returns the sequences of the ids [0, count) that lack one stretch.
rc::Seq<Ids> shorter(std::int64_t count) {
  return rc::seq::map(rc::seq::fromContainer(stretches(count)), [count](const Ids& stretch) {
    Ids kept;
    for (std::int64_t i = 0; i < count; ++i) {
      if (i < stretch[0] || i >= stretch[0] + stretch[1]) kept.push_back(i);
    }
    return kept;
  });
}

// Returns simpler values: the default `usual`, and the value with a shorter fraction.
rc::Seq<float> simpler(float value, float usual) {
  std::vector<float> all = {usual, std::nearbyint(value), std::nearbyint(value * 2) / 2};
  std::erase_if(all, [=](float one) { return value == usual || one == value || std::isnan(one); });
  return rc::seq::fromContainer(std::move(all));
}

template <std::integral T>
rc::Seq<T> simpler(T value, T /*usual*/) {
  return rc::shrink::integral(value);
}

template <class T>
rc::Seq<std::vector<T>> simpler(const std::vector<T>& values, const std::vector<T>& /*usual*/) {
  if (values.empty()) return {};
  return rc::seq::map(
      rc::seq::concat(rc::seq::just(Ids()), shorter(static_cast<std::int64_t>(values.size()))),
      [values](const Ids& ids) {
        std::vector<T> kept = values;
        keep_slices(kept, ids, 1);
        return kept;
      });
}

// Returns the variants of the struct in which one member is simpler.
template <class T, class... Members>
rc::Seq<T> simpler_members(const T& from, Members T::*... members) {
  const auto with = [&from](auto member) {
    return rc::seq::map(simpler(from.*member, T().*member), [from, member](const auto& value) {
      T one = from;
      one.*member = value;
      return one;
    });
  };
  return joined<T>({with(members)...});
}

rc::Seq<RowParameters> simpler_parameters(const RowParameters& from) {
  return simpler_members(from, &RowParameters::temperature, &RowParameters::top_k,
                         &RowParameters::top_p, &RowParameters::min_p);
}

rc::Seq<RowProcessing> simpler_processing(const RowProcessing& from) {
  using Row = RowProcessing;
  Row no_bad_words = from;
  no_bad_words.bad_words.clear();
  no_bad_words.bad_word_lengths.clear();
  return rc::seq::concat(
      from.bad_word_lengths.empty() ? rc::Seq<Row>() : rc::seq::just(no_bad_words),
      simpler_members(from,
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) &Row::name,
#include "fairdraw/processing_parameters.inc"
                      &Row::biases, &Row::stop_ids, &Row::allowed_ids, &Row::forced_tokens,
                      &Row::dry_breakers, &Row::prompt, &Row::output, &Row::output_length));
}

// --- Cases with a simpler part -------------------------------------------------------------------

// Returns the variants of the case in which a part is replaced by one of `values`. `part` maps a
// case to a reference to its part.
template <class T, class Part>
Cases with(const Base& base, const Part& part, rc::Seq<T> values) {
  return rc::seq::map(std::move(values), [base, part](const T& value) {
    FuzzCase changed = *base;
    part(changed) = value;
    return changed;
  });
}

// Returns the variants of the case that a change makes with one of `values`. `change` returns false
// if it cannot be made.
template <class T, class Change>
Cases changed_by(const Base& base, rc::Seq<T> values, const Change& change) {
  return rc::seq::mapMaybe(std::move(values),
                           [base, change](const T& value) -> rc::Maybe<FuzzCase> {
                             FuzzCase changed = *base;
                             if (!change(changed, value)) return rc::Nothing;
                             return changed;
                           });
}

Cases changed_by(const Base& base, bool (*change)(FuzzCase&)) {
  return changed_by(base, rc::seq::just(change), [](FuzzCase& c, auto* made) { return made(c); });
}

// Returns the variants of the case in which one member of the request has its default value.
template <class R, class... Members>
Cases reset(const Base& base, R FuzzCase::*request, Members R::*... members) {
  const auto one = [&](auto member) {
    const auto change = [request, member](FuzzCase& c, int) {
      auto& value = c.*request.*member;
      const auto usual = R().*member;
      if constexpr (requires { value.empty(); }) {
        if (value.empty()) return false;
      } else {
        if (value == usual) return false;
      }
      value = usual;
      return true;
    };
    return changed_by(base, rc::seq::just(0), change);
  };
  return joined<FuzzCase>({one(members)...});
}

// Returns the variants of the case in which one element of a list is simpler.
template <class R, class T, class Simpler>
Cases elements(const Base& base, R FuzzCase::*request, std::vector<T> R::*list,
               const Simpler& simpler_element) {
  return with(
      base, [=](FuzzCase& c) -> std::vector<T>& { return c.*request.*list; },
      rc::shrink::eachElement((*base).*request.*list, simpler_element));
}

// Returns the variants of the case in which one 64-bit number (seed, offset, word) is simpler.
template <class R, class... Members>
Cases numbers(const Base& base, R FuzzCase::*request, Members R::*... lists) {
  return joined<FuzzCase>({elements(
      base, request, lists, [](std::uint64_t number) { return rc::shrink::integral(number); })...});
}

// Changes values to 0, to integers, or to values with fewer fraction bits, and never back to more
// complex ones.
template <class R>
Cases values(const Base& base, R FuzzCase::*request, std::vector<float> R::*list) {
  std::vector<Cases> all;
  for (const auto simpler_value :
       {+[](float) { return 0.0F; }, +[](float value) { return std::nearbyint(value); },
        +[](float value) { return std::nearbyint(value * 16) / 16; }}) {
    Ids places;
    const std::vector<float>& now = (*base).*request.*list;
    for (std::size_t i = 0; i < now.size(); ++i) {
      const float to = simpler_value(now[i]);
      if (std::isfinite(to) && to != now[i]) places.push_back(static_cast<std::int64_t>(i));
    }
    auto some = rc::seq::fromContainer(stretches(static_cast<std::int64_t>(places.size())));
    all.push_back(changed_by(base, std::move(some), [=](FuzzCase& c, const Ids& stretch) {
      for (std::int64_t i = stretch[0]; i < stretch[0] + stretch[1]; ++i) {
        const auto place = places[static_cast<std::size_t>(i)];
        float& value = (c.*request.*list)[static_cast<std::size_t>(place)];
        value = simpler_value(value);
      }
      return true;
    }));
  }
  return joined(std::move(all));
}

// Simplifies the options that both kinds of requests have.
template <class R>
Cases simpler_options(const Base& base, R FuzzCase::*request) {
  const bool grown = ((*base).*request).history_form.grown;
  return joined<FuzzCase>({
      reset(base, request, &R::allowed, &R::active, &R::processing, &R::dtype, &R::tie_rule,
            &R::filter_order),
      with(
          base, [request](FuzzCase& c) -> bool& { return (c.*request).history_form.grown; },
          rc::shrink::boolean(grown)),
      elements(base, request, &R::parameters, simpler_parameters),
      numbers(base, request, &R::seed, &R::offset),
  });
}

// Returns the variants of the case with fewer of `count` elements. `keep` keeps the elements of a
// case that have the given ids.
template <class Keep>
Cases fewer(const Base& base, std::int64_t count, const Keep& keep) {
  return count < 2 ? Cases() : changed_by(base, shorter(count), keep);
}

// --- Calls ---------------------------------------------------------------------------------------

bool keep_rows(FuzzCase& c, const Ids& rows) {
  c.request = with_rows(c.request, rows);
  return c.request.outputs() > 0;  // with `indices`, a row may have no output
}

bool keep_outputs(FuzzCase& c, const Ids& outputs) {
  c.request = with_outputs(c.request, outputs);
  return true;
}

// Makes each row an output; all outputs have the random bits of the first output.
bool drop_indices(FuzzCase& c) {
  Request& request = c.request;
  if (!request.with_indices || request.outputs() == 0) return false;
  const Ids first(static_cast<std::size_t>(request.rows), 0);
  keep_slices(request.words, first, request.num_samples);
  if (!request.seed_is_scalar) {
    keep_slices(request.seed, first, 1);
    keep_slices(request.offset, first, 1);
  }
  request.indices.clear();
  request.with_indices = false;
  return true;
}

bool keep_tokens(FuzzCase& c, const Ids& ids) {
  c.request = with_tokens(c.request, ids);
  return true;
}

bool keep_first_sample(FuzzCase& c) {
  Request& request = c.request;
  if (request.num_samples == 1) return false;
  Ids first;
  for (std::int64_t i = 0; i < request.outputs(); ++i) first.push_back(i * request.num_samples);
  keep_slices(request.words, first, 1);
  request.num_samples = 1;
  return true;
}

Cases simpler_requests(const Base& base) {
  constexpr auto kRequest = &FuzzCase::request;
  const Request& request = base->request;
  return joined<FuzzCase>({
      fewer(base, request.rows, keep_rows),
      fewer(base, request.with_indices ? request.outputs() : 0, keep_outputs),
      changed_by(base, drop_indices),
      fewer(base, request.vocab, keep_tokens),
      reset(base, kRequest, &Request::words, &Request::row_stride, &Request::misalignment),
      changed_by(base, keep_first_sample),
      simpler_options(base, kRequest),
      elements(base, kRequest, &Request::processing, simpler_processing),
      numbers(base, kRequest, &Request::words),
      values(base, kRequest, &Request::logits),
  });
}

// --- Chains --------------------------------------------------------------------------------------

// Renumbers drafted tokens. A dropped token becomes 0, and a token outside the vocabulary stays
// outside.
void move_tokens(std::vector<std::int32_t>& tokens, const Ids& ids, std::int64_t vocab) {
  for (std::int32_t& token : tokens) {
    const auto found = std::ranges::find(ids, token);
    if (found != ids.end()) {
      token = static_cast<std::int32_t>(found - ids.begin());
    } else if (token >= 0) {
      token = token < vocab ? 0 : static_cast<std::int32_t>(ids.size());
    }
  }
}

bool keep_chain_tokens(FuzzCase& c, const Ids& ids) {
  ChainRequest& chain = c.chain;
  keep_columns(chain.draft_probs, ids, chain.vocab);
  keep_columns(chain.target_probs, ids, chain.vocab);
  move_tokens(chain.draft_tokens, ids, chain.vocab);
  chain.vocab = static_cast<std::int64_t>(ids.size());
  return true;
}

bool drop_chain_words(FuzzCase& c) {
  c.chain.accept_words.clear();
  c.chain.recover_words.clear();
  return !std::exchange(c.chain.bonus_words, {}).empty();
}

Cases simpler_chains(const Base& base) {
  constexpr auto kChain = &FuzzCase::chain;
  const ChainRequest& chain = base->chain;
  Ids chains(static_cast<std::size_t>(chain.batch));
  Ids positions(static_cast<std::size_t>(chain.num_draft_tokens));
  std::iota(chains.begin(), chains.end(), 0);
  std::iota(positions.begin(), positions.end(), 0);
  const auto keep_chains = [positions](FuzzCase& c, const Ids& ids) {
    c.chain = with_chains(c.chain, ids, positions);
    return true;
  };
  const auto keep_drafts = [chains](FuzzCase& c, const Ids& ids) {
    c.chain = with_chains(c.chain, chains, ids);
    return true;
  };
  return joined<FuzzCase>({
      fewer(base, chain.batch, keep_chains),
      changed_by(base, shorter(chain.num_draft_tokens), keep_drafts),
      fewer(base, chain.vocab, keep_chain_tokens),
      changed_by(base, drop_chain_words),
      numbers(base, kChain, &ChainRequest::seed, &ChainRequest::offset),
      values(base, kChain, &ChainRequest::draft_probs),
      values(base, kChain, &ChainRequest::target_probs),
  });
}

// --- Requests with drafts ------------------------------------------------------------------------

// Packs the only request of the call, and drops its last `less` drafted tokens.
bool drop_drafts(FuzzCase& c, int less) {
  SpeculationRequest& request = c.speculation;
  if (request.batch != 1) return false;
  const auto drafts = harness::split_request(request, 0).drafted.size();
  const std::int64_t n = static_cast<std::int64_t>(drafts) - less;
  const Ids packed = {0, n + 1};
  if (n < 0 || n >= request.rows()) return false;
  if (request.row_begins == packed && request.draft_lengths.empty() && request.rows() == n + 1 &&
      request.max_draft == n) {
    return false;
  }
  const auto keep = [](auto& list, std::int64_t size) {
    if (!list.empty()) list.resize(static_cast<std::size_t>(size));
  };
  keep(request.target, (n + 1) * request.vocab);
  keep(request.allowed, (n + 1) * harness::words_for(request.vocab));
  keep(request.processing, n + 1);
  keep(request.draft, n * request.vocab);
  keep(request.draft_tokens, n);
  keep(request.parents, n);
  request.row_begins = packed;
  request.draft_lengths.clear();
  request.max_draft = n;
  return true;
}

// Simplifies the histories of the first row of each request. The histories of later rows follow
// from these and the drafted tokens; changing them, too, would never end.
Cases simpler_histories(const Base& base) {
  const SpeculationRequest& request = base->speculation;
  std::vector<Cases> all;
  for (std::int64_t b = 0; b < request.batch && !request.processing.empty(); ++b) {
    const auto first = static_cast<std::size_t>(
        request.row_begins.empty() ? b * (request.max_draft + 1)
                                   : request.row_begins[static_cast<std::size_t>(b)]);
    all.push_back(changed_by(base, simpler_processing(request.processing[first]),
                             [first](FuzzCase& c, const RowProcessing& row) {
                               c.speculation.processing[first] = row;
                               harness::grow_histories(c.speculation);
                               return true;
                             }));
  }
  return joined(std::move(all));
}

bool keep_requests(FuzzCase& c, const Ids& requests) {
  SpeculationRequest& request = c.speculation;
  if (request.seed_is_scalar) {
    request.seed_is_scalar = false;
    request.seed.assign(static_cast<std::size_t>(request.batch), request.seed.front());
    request.offset.assign(static_cast<std::size_t>(request.batch), request.offset.front());
  }
  request = harness::pick_requests(request, requests);
  return true;
}

bool keep_drafted_tokens(FuzzCase& c, const Ids& ids) {
  SpeculationRequest& request = c.speculation;
  keep_columns(request.target, ids, request.vocab);
  keep_columns(request.draft, ids, request.vocab);
  request.allowed = with_tokens(request.allowed, ids, request.vocab);
  for (RowProcessing& row : request.processing) row = with_tokens(row, ids, request.vocab);
  move_tokens(request.draft_tokens, ids, request.vocab);
  request.vocab = static_cast<std::int64_t>(ids.size());
  harness::grow_histories(request);
  return true;
}

bool drop_draft_distribution(FuzzCase& c) {
  c.speculation.draft.clear();
  c.speculation.draft_parameters.clear();
  return std::exchange(c.speculation.draft_law, DraftLaw::none) != DraftLaw::none;
}

Cases simpler_speculations(const Base& base) {
  using Call = SpeculationRequest;
  constexpr auto kCall = &FuzzCase::speculation;
  const std::vector<int> drafts = {4, 3, 2, 1, 0};  // 0 drops only the padding of requests
  return joined<FuzzCase>({
      fewer(base, base->speculation.batch, keep_requests),
      changed_by(base, rc::seq::fromContainer(drafts), drop_drafts),
      fewer(base, base->speculation.vocab, keep_drafted_tokens),
      changed_by(base, drop_draft_distribution),
      simpler_options(base, kCall),
      simpler_histories(base),
      elements(base, kCall, &Call::draft_parameters, simpler_parameters),
      values(base, kCall, &Call::target),
      values(base, kCall, &Call::draft),
  });
}

}  // namespace

rc::Seq<FuzzCase> simpler_cases(const FuzzCase& fuzz_case) {
  const auto base = std::make_shared<const FuzzCase>(fuzz_case);
  const auto salts = with(
      base, [](FuzzCase& c) -> std::uint64_t& { return c.salt; },
      rc::shrink::integral(fuzz_case.salt));
  switch (fuzz_case.kind) {
    case CaseKind::chain:
      return rc::seq::concat(simpler_chains(base), salts);
    case CaseKind::speculation:
      return rc::seq::concat(simpler_speculations(base), salts);
    case CaseKind::distribution:  // the draws of a distribution case depend on its salt
      return simpler_requests(base);
    case CaseKind::batch:
      break;
  }
  return rc::seq::concat(simpler_requests(base), salts);
}

rc::Shrinkable<FuzzCase> with_shrinks(FuzzCase fuzz_case) {
  return rc::shrinkable::shrinkRecur(std::move(fuzz_case), &simpler_cases);
}

Shrunk shrink(const rc::Shrinkable<FuzzCase>& failing, std::uint64_t max_evaluations,
              const std::function<bool(FuzzCase&)>& fails) {
  Shrunk result;
  const auto still_fails = [&](FuzzCase& candidate) {
    if (result.evaluations >= max_evaluations) return false;
    ++result.evaluations;
    return fails(candidate);
  };
  result.fuzz_case = rc::shrinkable::findLocalMin(failing, still_fails).first;
  return result;
}

}  // namespace fairdraw::suites::fuzz
