// Mutants of logits processing: penalties, biases, minimum tokens, bad words, allowed ids, and
// values that belong to another row or step. The mutant applies a mutated processing step itself,
// and removes the step from the model's processing.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

using reference::RowProcessing;
using Ids = std::vector<std::int32_t>;

/// Returns how often each token occurs in the output.
std::map<std::int32_t, std::int32_t> counts_of(const RowProcessing& row, std::size_t vocab) {
  std::map<std::int32_t, std::int32_t> counts;
  for (const std::int32_t id : row.output) {
    if (!row.output_counts && id >= 0) ++counts[id];
  }
  for (std::size_t id = 0; row.output_counts && id < vocab; ++id) {
    const std::int32_t count = (*row.output_counts)[id];
    if (count > 0) counts[static_cast<std::int32_t>(id)] = count;
  }
  return counts;
}

std::set<std::int32_t> seen_by(const RowProcessing& row, std::size_t vocab) {
  std::set<std::int32_t> seen(row.prompt.begin(), row.prompt.end());
  for (const auto& [id, count] : counts_of(row, vocab)) seen.insert(id);
  seen.erase(-1);
  return seen;
}

/// Replaces the repetition penalty by the given function.
void repeat_by(RowProcessing& processing, Row& row,
               float (*step)(float x, float penalty, std::int32_t count)) {
  if (processing.repetition_penalty == 1) return;
  const auto counts = counts_of(processing, row.logits.size());
  for (const std::int32_t id : seen_by(processing, row.logits.size())) {
    const auto found = counts.find(id);
    float& x = row.logits[static_cast<std::size_t>(id)];
    if (std::isinf(x)) continue;
    x = step(x, processing.repetition_penalty, found == counts.end() ? 0 : found->second);
  }
  processing.repetition_penalty = 1;
}

float usual_repetition(float x, float penalty) { return x > 0 ? x / penalty : x * penalty; }

constexpr Entry kPenalties[] = {
    {"reppen-negative-logits", "HF transformers #2302, PR #2303; NeMo #8194",
     "negative logits of seen tokens are divided too, and rise", Base::distribution,
     [](RowProcessing& p, Row& row) {
       repeat_by(p, row, [](float x, float penalty, std::int32_t) { return x / penalty; });
     }},
    {"reppen-threshold-one", "tt-metal PR #33543",
     "logits between 0 and 1 are multiplied instead of divided", Base::distribution,
     [](RowProcessing& p, Row& row) {
       repeat_by(p, row, [](float x, float penalty, std::int32_t) {
         return x > 1 ? x / penalty : x * penalty;
       });
     }},
    {"repetition-by-count",
     "the repetition penalty is applied once for each occurrence in the output",
     [](RowProcessing& p, Row& row) {
       repeat_by(p, row, [](float x, float penalty, std::int32_t count) {
         float y = usual_repetition(x, penalty);
         for (; count > 1; --count) y = usual_repetition(y, penalty);
         return std::isfinite(y) ? y : x;
       });
     }},
    {"reppen-skips-prompt", "vLLM PR #1577",
     "the repetition penalty sees the generated tokens only", Base::distribution,
     [](RowProcessing& p) { p.prompt.clear(); }},
    {"penalise-padding", "text-generation-inference PR #1765",
     "places of a history without a token count as the padding id 0",
     [](RowProcessing& p) {
       for (Ids* ids : {&p.prompt, &p.output}) std::ranges::replace(*ids, -1, 0);
     }},
    {"penalty-window-first-n", "llama-cpp-python PR #1295",
     "of a history longer than a window of 8 the first 8 ids count",
     [](RowProcessing& p) {
       for (Ids* ids : {&p.prompt, &p.output}) ids->resize(std::min<std::size_t>(ids->size(), 8));
     }},
    {"freq-presence-swapped", "mistral.rs sampler.rs",
     "the presence penalty is multiplied by counts, the frequency penalty not", Base::distribution,
     [](RowProcessing& p) { std::swap(p.frequency_penalty, p.presence_penalty); }},
    {"frequency-counts-the-prompt", "frequency and presence count the prompt's tokens too",
     [](RowProcessing& p) {
       if (p.output_counts) return;
       p.output.insert(p.output.begin(), p.prompt.begin(), p.prompt.end());
     }},
    {"frequency-fused", "x - f * count is one fused multiply-add, rounded once",
     [](RowProcessing& p, Row& row) {
       if (p.frequency_penalty == 0) return;
       const auto counts = counts_of(p, row.logits.size());
       for (const std::int32_t id : seen_by(p, row.logits.size())) {
         float& x = row.logits[static_cast<std::size_t>(id)];
         const auto found = counts.find(id);
         if (p.repetition_penalty != 1) x = usual_repetition(x, p.repetition_penalty);
         if (found == counts.end()) continue;
         x = std::fma(-p.frequency_penalty, static_cast<float>(found->second), x);
       }
       p.repetition_penalty = 1;
       p.frequency_penalty = 0;
     }},
    {"counts-saturate-at-one",
     "occurrences are kept in a bit: the frequency penalty counts each token once",
     [](RowProcessing& p, Row& row) {
       std::vector<std::int32_t> counts(row.logits.size(), 0);
       for (const auto& [id, count] : counts_of(p, counts.size())) {
         counts[static_cast<std::size_t>(id)] = 1;
       }
       p.output_counts = std::move(counts);
     }},
    {"nan-penalty-is-neutral", "a presence penalty that is NaN passes for 0",
     [](Row& row) {
       if (row.processing && std::isnan(row.processing->presence_penalty)) {
         row.processing->presence_penalty = 0;
       }
     }},
    {"overflow-clamped", "a logit that a penalty makes infinite becomes the largest float",
     [](Row& row) {
       if (!row.processing) return;
       const auto status = reference::process_row(row.logits, {}, *row.processing).status;
       if (status == RowStatus::processing_overflow) row.processing->repetition_penalty = 1;
     }},
};

constexpr Entry kBias[] = {
    {"bias-before-penalties", "the bias is added before the repetition penalty divides",
     [](RowProcessing& p, Row& row) {
       std::map<std::int32_t, float> biases;
       for (const auto& bias : p.biases) biases[bias.id] = bias.value;
       p.biases.clear();
       for (const auto& [id, value] : biases) {
         if (value == kOut) {
           p.biases.push_back({id, value});
         } else {
           row.logits[static_cast<std::size_t>(id)] += value;
         }
       }
     }},
    {"biases-of-an-id-add-up", "of an id listed twice both biases are added",
     [](RowProcessing& p) {
       std::map<std::int32_t, float> biases;
       for (const auto& bias : p.biases) biases[bias.id] += bias.value;
       p.biases.clear();
       for (const auto& [id, value] : biases) p.biases.push_back({id, value});
     }},
    {"first-bias-counts", "of an id listed twice the first bias counts",
     [](RowProcessing& p) { std::ranges::reverse(p.biases); }},
    {"bias-clamped-to-100", "biases are clamped to [-100, 100], and -inf with them: no ban",
     [](RowProcessing& p) {
       for (auto& bias : p.biases) bias.value = std::clamp(bias.value, -100.0F, 100.0F);
     }},
    {"logit-bias-oov", "vLLM PR #16529", "the bias of an id beyond the vocabulary is not refused",
     [](Row& row) {
       if (!row.processing) return;
       const auto vocab = static_cast<std::int32_t>(row.logits.size());
       std::erase_if(row.processing->biases,
                     [vocab](const auto& bias) { return bias.id >= vocab; });
     }},
};

constexpr Entry kBans[] = {
    {"min-tokens-bans-last-id", "TensorRT-LLM PR #12358",
     "the last id of the vocabulary is banned instead of the stop ids", Base::distribution,
     [](RowProcessing& p, Row& row) {
       for (std::int32_t& id : p.stop_ids) id = static_cast<std::int32_t>(row.logits.size()) - 1;
     }},
    {"min-tokens-counts-the-prompt", "TensorRT-LLM #12166",
     "the prompt's tokens count towards min_tokens",
     [](RowProcessing& p) { p.output_length += static_cast<std::int32_t>(p.prompt.size()); }},
    {"min-tokens-plus-one", "stop ids are banned for one token too many",
     [](RowProcessing& p) {
       if (p.min_tokens > 0) ++p.min_tokens;
     }},
    {"bad-words-of-one-id-only", "words of several ids are never matched", Base::distribution,
     [](RowProcessing& p) {
       const Ids lengths = p.bad_word_lengths;
       const Ids ids = p.bad_words;
       p.bad_word_lengths.clear();
       p.bad_words.clear();
       std::size_t begin = 0;
       for (const std::int32_t length : lengths) {
         if (length == 1) {
           p.bad_word_lengths.push_back(1);
           p.bad_words.push_back(ids[begin]);
         }
         begin += static_cast<std::size_t>(length);
       }
     }},
    {"bad-word-prefix-not-compared",
     "the last id of a bad word is banned whatever the output ends with",
     [](RowProcessing& p) {
       Ids last;
       std::size_t end = 0;
       for (const std::int32_t length : p.bad_word_lengths) {
         end += static_cast<std::size_t>(length);
         last.push_back(p.bad_words[end - 1]);
       }
       p.bad_word_lengths.assign(last.size(), 1);
       p.bad_words = std::move(last);
     }},
    {"empty-allowed-ids-ban-all-but-one", "an empty list of allowed ids allows id 0 alone",
     [](RowProcessing& p) {
       if (p.allowed_ids.empty()) p.allowed_ids = {0};
     }},
    {"allowed-ids-lose-the-last", "the last id of the allowed ones is not read",
     [](RowProcessing& p) {
       if (p.allowed_ids.size() > 1) p.allowed_ids.pop_back();
     }},
    {"bans-skipped-on-greedy-fast-path", "tt-xla PR #3564, issue #3563",
     "greedy rows take the largest logit as it is: no bias, no bans", Base::distribution,
     [](RowProcessing& p, Row& row) {
       if (row.parameters.temperature == 0) p = RowProcessing{};
     }},
};

void ban(RowProcessing& processing, const Row& row, const Ids& ids) {
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < std::ssize(row.logits)) processing.biases.push_back({id, kOut});
  }
}

/// Gives a row whose top_p decays another top_p of its next token.
void with_top_p(RowProcessing& processing, Row& row,
                float (*wrong)(const RowProcessing& processing, float top_p)) {
  float& top_p = row.parameters.top_p;
  if (processing.top_p_decay == 1 || top_p == 0) return;
  top_p = wrong(processing, top_p);
  processing.top_p_decay = 1;
}

float decayed_once_more(const RowProcessing& processing, float top_p) {
  return std::max(reference::decayed_top_p(processing, top_p) * processing.top_p_decay,
                  processing.top_p_min);
}

constexpr Entry kHistoryRules[] = {
    {"dry-of-output-alone", "the penalty of repetitions does not see the prompt",
     [](RowProcessing& p) {
       if (p.dry_multiplier == 0) return;
       const auto length = static_cast<std::int32_t>(p.output.size());
       p.dry_window = p.dry_window < 0 ? length : std::min(p.dry_window, length);
     }},
    {"dry-breakers-ignored", "repetitions go on across breakers",
     [](RowProcessing& p) { p.dry_breakers.clear(); }},
    {"dry-exponent-of-the-length", "the penalty of repetitions has the power of the whole length",
     [](RowProcessing& p) {
       if (p.dry_multiplier == 0) return;
       for (std::int32_t i = 0; i < p.dry_allowed_length; ++i) {
         p.dry_multiplier = std::min(p.dry_multiplier * p.dry_base, 0x1p64F);
       }
     }},
    {"dry-allows-one-more", "repetitions of the allowed length get no penalty",
     [](RowProcessing& p) {
       if (p.dry_multiplier == 0) return;
       ++p.dry_allowed_length;
       p.dry_multiplier = std::min(p.dry_multiplier * p.dry_base, 0x1p64F);
     }},
    {"forced-one-late", "forced tokens begin one token late",
     [](RowProcessing& p) { ++p.forced_delay; }},
    {"forced-although-ended", "vLLM, a budget of thinking that has ended itself",
     "tokens are forced although the end came by itself",
     [](RowProcessing& p) {
       if (p.forced_tokens.empty() || reference::forced_token(p)) return;
       RowProcessing other = p;
       other.forced_tokens.back() = std::numeric_limits<std::int32_t>::max();
       const std::optional<std::int32_t> forced = reference::forced_token(other);
       if (forced)
         p.allowed_ids = {*forced == other.forced_tokens.back() ? p.forced_tokens.back() : *forced};
     }},
    {"forced-after-the-first", "the delay counts from the first id that begins it",
     [](RowProcessing& p) {
       const std::vector<std::int32_t> history = reference::whole_history(p);
       const auto first = std::ranges::find(history, p.forced_after);
       const auto last = std::find(history.rbegin(), history.rend(), p.forced_after);
       if (p.forced_after < 0 || first == history.end()) return;
       p.forced_delay -= static_cast<std::int32_t>(last.base() - 1 - first);
       if (p.forced_delay < 0) p.forced_tokens.clear();
       p.forced_delay = std::max(p.forced_delay, 0);
     }},
    {"decay-one-early", "top_p has decayed once before the first token",
     [](RowProcessing& p, Row& row) { with_top_p(p, row, decayed_once_more); }},
    {"decay-by-the-length", "top_p decays with the length of prompt and output together",
     [](RowProcessing& p, Row& row) {
       with_top_p(p, row, [](const RowProcessing& of, float top_p) {
         RowProcessing whole = of;
         whole.output = reference::whole_history(of);
         return reference::decayed_top_p(whole, top_p);
       });
     }},
    {"decay-without-reset", "top_p_reset_id is ignored",
     [](RowProcessing& p) { p.top_p_reset_id = -1; }},
    {"decay-at-the-reset", "the token that resets top_p decays it at once",
     [](RowProcessing& p, Row& row) {
       with_top_p(p, row, [](const RowProcessing& of, float top_p) {
         const auto reset = std::ranges::find(of.output, of.top_p_reset_id);
         if (of.top_p_reset_id < 0 || reset == of.output.end()) {
           return reference::decayed_top_p(of, top_p);
         }
         return decayed_once_more(of, top_p);
       });
     }},
    {"decay-without-minimum", "top_p_min is ignored",
     [](RowProcessing& p) { p.top_p_min = std::numeric_limits<float>::min(); }},
    {"decay-minimum-is-a-share", "top_p_min is a share of the request's top_p",
     [](RowProcessing& p, Row& row) {
       with_top_p(p, row, [](const RowProcessing& of, float top_p) {
         RowProcessing share = of;
         share.top_p_min *= top_p;
         return reference::decayed_top_p(share, top_p);
       });
     }},
    {"window-plus-one", "the penalties see one token more than their window has",
     [](RowProcessing& p) {
       if (p.penalty_window >= 0) ++p.penalty_window;
     }},
    {"window-of-output-alone", "the window of the penalties ends where the output begins",
     [](RowProcessing& p) {
       if (p.penalty_window > static_cast<std::int32_t>(p.output.size())) {
         p.penalty_window = static_cast<std::int32_t>(p.output.size());
       }
     }},
    {"window-of-zero-is-all", "a window of 0 tokens passes for one without an end",
     [](RowProcessing& p) {
       if (p.penalty_window == 0) p.penalty_window = -1;
     }},
    {"counts-of-prompt-ignored", "frequency and presence never count the prompt",
     [](RowProcessing& p) { p.counts_of_prompt = 0; }},
    {"ngrams-of-output-alone", "n-grams of the prompt may be repeated",
     [](RowProcessing& p, Row& row) {
       ban(p, row, reference::ends_of_ngrams(p.output, std::exchange(p.no_repeat_ngram_size, 0)));
     }},
    {"ngrams-one-longer", "an n-gram of n + 1 ids must not occur twice, one of n may",
     [](RowProcessing& p) {
       if (p.no_repeat_ngram_size > 0) ++p.no_repeat_ngram_size;
     }},
    {"ngrams-ban-the-first-only", "of the ids that would repeat an n-gram the first is banned",
     [](RowProcessing& p, Row& row) {
       Ids ends = reference::ends_of_ngrams(reference::whole_history(p),
                                            std::exchange(p.no_repeat_ngram_size, 0));
       if (!ends.empty()) ends.resize(1);
       ban(p, row, ends);
     }},
};

constexpr Entry kRows[] = {
    {"penalties-of-row-0", "all rows of a batch get the penalties of the first",
     [](Row& row, const Place& place) {
       if (!row.processing) return;
       const fairdraw_processing& given = place.call->processing;
       row.processing->repetition_penalty = given.repetition_penalty[0];
       row.processing->frequency_penalty = given.frequency_penalty[0];
       row.processing->presence_penalty = given.presence_penalty[0];
     }},
    {"prompt-mask-tail-lost",
     "the last word of a packed prompt mask is not read where it is not full",
     [](Row& row, const Place& place) {
       const bool masked = place.call->processing.prompt_mask != nullptr;
       if (!row.processing || !masked) return;
       const auto whole = static_cast<std::int32_t>(row.logits.size() / 32 * 32);
       std::erase_if(row.processing->prompt, [whole](std::int32_t id) { return id >= whole; });
     }},
    {"bitmask-before-penalties-forgotten", "rows with processing ignore the packed bitmask",
     [](Row& row) {
       if (row.processing) row.allowed.clear();
     }},
    {"counts-of-the-call-before", "a slot's counts are not cleared: the call before adds to them",
     [](Mutation& mutation) {
       const auto before = std::make_shared<std::map<std::int64_t, Ids>>();
       mutation.row = [before](Row& row, const Place& place) {
         if (!row.processing) return;
         const Ids now = row.processing->output;
         const auto vocab = static_cast<std::int32_t>(row.logits.size());
         for (const std::int32_t id : (*before)[place.row]) {
           if (id >= 0 && id < vocab) {
             row.processing->output.insert(row.processing->output.begin(), id);
           }
         }
         (*before)[place.row] = now;
       };
     }},
};

}  // namespace

std::vector<Mutant> processing_mutants() {
  return joined({mutants_of("penalties", "processing/*", Base::integers, kPenalties),
                 mutants_of("penalties", "processing/*", Base::integers, kBias),
                 mutants_of("penalties", "processing/*", Base::integers, kBans),
                 mutants_of("penalties", "processing/*", Base::integers, kHistoryRules),
                 mutants_of("penalties", "processing/*", Base::integers, kRows)});
}

}  // namespace fairdraw::suites
