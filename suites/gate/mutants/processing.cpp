// Logits processing gone wrong: penalties, bias, minimum tokens, bad words, allowed ids, and what
// is given of another row or of another step. A mutated step is taken by hand and then left out.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using reference::RowProcessing;
using Row = MutatedModel::Row;
using Ids = std::vector<std::int32_t>;

const char* const kPenalties = "penalties";

/// `change` is called for rows that have processing, with what is asked of them.
using Change = std::function<void(RowProcessing&, Row&)>;

std::function<void(Mutation&)> changed(Change change) {
  return [change = std::move(change)](Mutation& mutation) {
    mutation.row = [change](Row& row, const Place&) {
      if (row.processing) change(*row.processing, row);
    };
  };
}

/// The same where nothing is wrong with the row: a mutant is not to change statuses by the way.
std::function<void(Mutation&)> changed_good(const Change& change) {
  return changed([change](RowProcessing& processing, Row& row) {
    const auto status = reference::process_row(row.logits, {}, processing).status;
    if (status == RowStatus::ok || status == RowStatus::no_allowed_token) change(processing, row);
  });
}

Mutant wrong(const char* name, const char* source, const char* sentence,
             std::function<void(Mutation&)> mutation) {
  return mutated_integers({name, source, kPenalties, sentence, {"processing/*"}},
                          std::move(mutation));
}

/// By a sampler that claims the distribution alone: its masks and supports must give it away.
Mutant wrong_distribution(const char* name, const char* source, const char* sentence,
                          std::function<void(Mutation&)> mutation) {
  return mutated_distribution({name, source, kPenalties, sentence, {"processing/*"}},
                              std::move(mutation));
}

/// How often a token occurs in the output.
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

/// Another repetition penalty: the given step by hand, and then none.
std::function<void(Mutation&)> other_repetition(float (*step)(float x, float penalty,
                                                              std::int32_t count)) {
  return changed_good([step](RowProcessing& processing, Row& row) {
    if (processing.repetition_penalty == 1) return;
    const auto counts = counts_of(processing, row.logits.size());
    for (const std::int32_t id : seen_by(processing, row.logits.size())) {
      const auto found = counts.find(id);
      float& x = row.logits[static_cast<std::size_t>(id)];
      if (std::isinf(x)) continue;
      x = step(x, processing.repetition_penalty, found == counts.end() ? 0 : found->second);
    }
    processing.repetition_penalty = 1;
  });
}

float usual_repetition(float x, float penalty) { return x > 0 ? x / penalty : x * penalty; }

std::vector<Mutant> penalties() {
  return {
      wrong_distribution(
          "reppen-negative-logits", "HF transformers #2302, PR #2303; NeMo #8194",
          "negative logits of seen tokens are divided too, and rise",
          other_repetition([](float x, float penalty, std::int32_t) { return x / penalty; })),
      wrong_distribution("reppen-threshold-one", "tt-metal PR #33543",
                         "logits between 0 and 1 are multiplied instead of divided",
                         other_repetition([](float x, float penalty, std::int32_t) {
                           return x > 1 ? x / penalty : x * penalty;
                         })),
      wrong("repetition-by-count", "systematic",
            "the repetition penalty is applied once for each occurrence in the output",
            other_repetition([](float x, float penalty, std::int32_t count) {
              float y = usual_repetition(x, penalty);
              for (; count > 1; --count) y = usual_repetition(y, penalty);
              return std::isfinite(y) ? y : x;
            })),
      wrong_distribution(
          "reppen-skips-prompt", "vLLM PR #1577",
          "the repetition penalty sees the generated tokens only",
          changed_good([](RowProcessing& processing, Row&) { processing.prompt.clear(); })),
      wrong("penalise-padding", "text-generation-inference PR #1765",
            "places of a history without a token count as the padding id 0",
            changed_good([](RowProcessing& processing, Row&) {
              for (Ids* ids : {&processing.prompt, &processing.output}) {
                std::replace(ids->begin(), ids->end(), -1, 0);
              }
            })),
      wrong("penalty-window-first-n", "llama-cpp-python PR #1295",
            "of a history longer than a window of 8 the first 8 ids count",
            changed_good([](RowProcessing& processing, Row&) {
              for (Ids* ids : {&processing.prompt, &processing.output}) {
                ids->resize(std::min<std::size_t>(ids->size(), 8));
              }
            })),
      wrong_distribution("freq-presence-swapped", "mistral.rs sampler.rs",
                         "the presence penalty is multiplied by counts, the frequency penalty not",
                         changed_good([](RowProcessing& processing, Row&) {
                           std::swap(processing.frequency_penalty, processing.presence_penalty);
                         })),
      wrong("frequency-counts-the-prompt", "systematic",
            "frequency and presence count the prompt's tokens too",
            changed_good([](RowProcessing& processing, Row&) {
              if (processing.output_counts) return;
              processing.output.insert(processing.output.begin(), processing.prompt.begin(),
                                       processing.prompt.end());
            })),
      wrong("frequency-fused", "systematic",
            "x - f * count is one fused multiply-add, rounded once",
            changed_good([](RowProcessing& processing, Row& row) {
              if (processing.frequency_penalty == 0) return;
              const auto counts = counts_of(processing, row.logits.size());
              for (const std::int32_t id : seen_by(processing, row.logits.size())) {
                float& x = row.logits[static_cast<std::size_t>(id)];
                const auto found = counts.find(id);
                if (processing.repetition_penalty != 1) {
                  x = usual_repetition(x, processing.repetition_penalty);
                }
                if (found == counts.end()) continue;
                x = std::fma(-processing.frequency_penalty, static_cast<float>(found->second), x);
              }
              processing.repetition_penalty = 1;
              processing.frequency_penalty = 0;
            })),
      wrong("counts-saturate-at-one", "systematic",
            "occurrences are kept in a bit: the frequency penalty counts each token once",
            changed_good([](RowProcessing& processing, Row& row) {
              std::vector<std::int32_t> counts(row.logits.size(), 0);
              for (const auto& [id, count] : counts_of(processing, counts.size())) {
                counts[static_cast<std::size_t>(id)] = 1;
              }
              processing.output_counts = std::move(counts);
            })),
      wrong("nan-penalty-is-neutral", "systematic", "a presence penalty that is NaN passes for 0",
            changed([](RowProcessing& processing, Row&) {
              if (std::isnan(processing.presence_penalty)) {
                processing.presence_penalty = 0;
              }
            })),
      wrong("overflow-clamped", "systematic",
            "a logit that a penalty makes infinite becomes the largest float",
            changed([](RowProcessing& processing, Row& row) {
              const auto status = reference::process_row(row.logits, {}, processing).status;
              if (status == RowStatus::processing_overflow) {
                processing.repetition_penalty = 1;
              }
            })),
  };
}

std::vector<Mutant> bias() {
  return {
      wrong("bias-before-penalties", "systematic",
            "the bias is added before the repetition penalty divides",
            changed_good([](RowProcessing& processing, Row& row) {
              std::map<std::int32_t, float> biases;
              for (const auto& bias : processing.biases) biases[bias.id] = bias.value;
              processing.biases.clear();
              for (const auto& [id, value] : biases) {
                if (value == kOut) {
                  processing.biases.push_back({id, value});
                } else {
                  row.logits[static_cast<std::size_t>(id)] += value;
                }
              }
            })),
      wrong("biases-of-an-id-add-up", "systematic", "of an id listed twice both biases are added",
            changed_good([](RowProcessing& processing, Row&) {
              std::map<std::int32_t, float> biases;
              for (const auto& bias : processing.biases) biases[bias.id] += bias.value;
              processing.biases.clear();
              for (const auto& [id, value] : biases) {
                processing.biases.push_back({id, value});
              }
            })),
      wrong("first-bias-counts", "systematic", "of an id listed twice the first bias counts",
            changed_good([](RowProcessing& processing, Row&) {
              std::reverse(processing.biases.begin(), processing.biases.end());
            })),
      wrong("bias-clamped-to-100", "systematic",
            "biases are clamped to [-100, 100], and -inf with them: no ban",
            changed_good([](RowProcessing& processing, Row&) {
              for (auto& bias : processing.biases) {
                bias.value = std::clamp(bias.value, -100.0F, 100.0F);
              }
            })),
      wrong("logit-bias-oov", "vLLM PR #16529",
            "the bias of an id beyond the vocabulary is not refused",
            changed([](RowProcessing& processing, Row& row) {
              const auto vocab = static_cast<std::int32_t>(row.logits.size());
              std::erase_if(processing.biases,
                            [vocab](const auto& bias) { return bias.id >= vocab; });
            })),
  };
}

std::vector<Mutant> bans() {
  return {
      wrong_distribution("min-tokens-bans-last-id", "TensorRT-LLM PR #12358",
                         "the last id of the vocabulary is banned instead of the stop ids",
                         changed_good([](RowProcessing& processing, Row& row) {
                           for (std::int32_t& id : processing.stop_ids) {
                             id = static_cast<std::int32_t>(row.logits.size()) - 1;
                           }
                         })),
      wrong("min-tokens-counts-the-prompt", "TensorRT-LLM #12166",
            "the prompt's tokens count towards min_tokens",
            changed_good([](RowProcessing& processing, Row&) {
              processing.output_length += static_cast<std::int32_t>(processing.prompt.size());
            })),
      wrong("min-tokens-plus-one", "systematic", "stop ids are banned for one token too many",
            changed_good([](RowProcessing& processing, Row&) {
              if (processing.min_tokens > 0) ++processing.min_tokens;
            })),
      wrong_distribution("bad-words-of-one-id-only", "systematic",
                         "words of several ids are never matched",
                         changed_good([](RowProcessing& processing, Row&) {
                           const Ids lengths = processing.bad_word_lengths;
                           const Ids ids = processing.bad_words;
                           processing.bad_word_lengths.clear();
                           processing.bad_words.clear();
                           std::size_t begin = 0;
                           for (const std::int32_t length : lengths) {
                             if (length == 1) {
                               processing.bad_word_lengths.push_back(1);
                               processing.bad_words.push_back(ids[begin]);
                             }
                             begin += static_cast<std::size_t>(length);
                           }
                         })),
      wrong("bad-word-prefix-not-compared", "systematic",
            "the last id of a bad word is banned whatever the output ends with",
            changed_good([](RowProcessing& processing, Row&) {
              Ids last;
              std::size_t end = 0;
              for (const std::int32_t length : processing.bad_word_lengths) {
                end += static_cast<std::size_t>(length);
                last.push_back(processing.bad_words[end - 1]);
              }
              processing.bad_word_lengths.assign(last.size(), 1);
              processing.bad_words = std::move(last);
            })),
      wrong("empty-allowed-ids-ban-all-but-one", "systematic",
            "an empty list of allowed ids allows id 0 alone",
            changed_good([](RowProcessing& processing, Row&) {
              if (processing.allowed_ids.empty()) processing.allowed_ids = {0};
            })),
      wrong("allowed-ids-lose-the-last", "systematic",
            "the last id of the allowed ones is not read",
            changed_good([](RowProcessing& processing, Row&) {
              if (processing.allowed_ids.size() > 1) processing.allowed_ids.pop_back();
            })),
      wrong_distribution("bans-skipped-on-greedy-fast-path", "tt-xla PR #3564, issue #3563",
                         "greedy rows take the largest logit as it is: no bias, no bans",
                         changed_good([](RowProcessing& processing, Row& row) {
                           if (row.parameters.temperature != 0) return;
                           processing = RowProcessing{};
                         })),
  };
}

std::vector<Mutant> rows() {
  return {
      wrong("penalties-of-row-0", "systematic",
            "all rows of a batch get the penalties of the first",
            [](Mutation& mutation) {
              mutation.row = [](Row& row, const Place& place) {
                if (!row.processing) return;
                const fairdraw_processing& given = place.call->processing;
                row.processing->repetition_penalty = given.repetition_penalty[0];
                row.processing->frequency_penalty = given.frequency_penalty[0];
                row.processing->presence_penalty = given.presence_penalty[0];
              };
            }),
      wrong("prompt-mask-tail-lost", "systematic",
            "the last word of a packed prompt mask is not read where it is not full",
            [](Mutation& mutation) {
              mutation.row = [](Row& row, const Place& place) {
                const bool masked = place.call->processing.prompt_mask != nullptr;
                if (!row.processing || !masked) return;
                const auto whole = static_cast<std::int32_t>(row.logits.size() / 32 * 32);
                std::erase_if(row.processing->prompt,
                              [whole](std::int32_t id) { return id >= whole; });
              };
            }),
      wrong("bitmask-before-penalties-forgotten", "systematic",
            "rows with processing ignore the packed bitmask",
            changed([](RowProcessing&, Row& row) { row.allowed.clear(); })),
      wrong("counts-of-the-call-before", "systematic",
            "a slot's counts are not cleared: the call before adds to them",
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
            }),
  };
}

}  // namespace

std::vector<Mutant> processing_mutants() { return joined({penalties(), bias(), bans(), rows()}); }

}  // namespace fairdraw::suites
