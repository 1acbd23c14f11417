// Wrong filters: a token is kept that must go, or goes that must stay.
#include <algorithm>
#include <cmath>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;
using Order = FloatSampler::Order;
using Draw = FloatSampler::Draw;
using Scores = FloatSampler::Scores;
using Logits = FloatSampler::Logits;

bool is_random(const Row& row) {
  return row.parameters.temperature != 0 && row.parameters.top_k != 1 && row.parameters.top_p != 0;
}

bool has_top_p(const Row& row) { return is_random(row) && row.parameters.top_p < 1; }

bool has_top_k(const Row& row) {
  return is_random(row) && row.parameters.top_k > 1 &&
         static_cast<std::size_t>(row.parameters.top_k) < row.logits.size();
}

// The survivors of everything but top_p.
Result before_top_p(const Row& row) {
  reference::RowParameters parameters = row.parameters;
  parameters.top_p = 1;
  return result_of(row, parameters);
}

// A pivot for top_p is searched for above the smallest probability, so that a nucleus of all tokens
// ends before the smallest ones.
void pivot_above_the_smallest(Result& result, const Row& row, const Place&) {
  if (!has_top_p(row) || result.status != RowStatus::ok) return;
  const Result before = before_top_p(row);
  if (result.support_size != before.support_size) return;
  std::vector<Candidate> kept = ranked(result, row);
  if (kept.front().value == kept.back().value) return;
  std::erase_if(kept, [smallest = kept.back().value](const Candidate& token) {
    return token.value == smallest;
  });
  keep_only(result, kept);
}

// Whether all probabilities underflow that are taken relative to the average of what is left plus
// ten deviations.
bool underflows_below_ten_deviations(const Scores& scores) {
  double n = 0;
  double sum = 0;
  double squares = 0;
  double largest = kOut;
  for (const double score : scores) {
    if (score == kOut) continue;
    n += 1;
    sum += score;
    squares += score * score;
    largest = std::max(largest, score);
  }
  if (n == 0) return false;
  const double average = sum / n;
  const double deviation = std::sqrt(std::max(squares / n - average * average, 0.0));
  return std::exp(static_cast<float>(largest - (average + 10 * deviation))) == 0;
}

double share(const Candidate& token, const Result& of) {
  return static_cast<double>(token.weight) / static_cast<double>(of.total);
}

// top_p over the survivors of the other filters, one by one in rank order: `keeps(before, after)`
// from the mass in front of a token and with it. The first one stays.
void nucleus(Result& result, const Row& row,
             const std::function<bool(double before, double after)>& keeps) {
  if (!has_top_p(row) || result.status != RowStatus::ok) return;
  result = before_top_p(row);
  std::vector<Candidate> kept;
  double before = 0;
  for (const Candidate& token : ranked(result, row)) {
    const double after = before + share(token, result);
    if (kept.empty() || keeps(before, after)) kept.push_back(token);
    before = after;
  }
  keep_only(result, kept);
}

// Pushes every candidate into a heap, and pops the smallest while the sum exceeds p.
void nucleus_by_heap(Result& result, const Row& row, const Place&) {
  if (!has_top_p(row) || result.status != RowStatus::ok) return;
  result = before_top_p(row);
  const auto larger = [](const Candidate& a, const Candidate& b) { return a.weight > b.weight; };
  std::vector<Candidate> heap;
  double sum = 0;
  std::vector<Candidate> in_id_order = ranked(result, row);
  std::sort(in_id_order.begin(), in_id_order.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  for (const Candidate& token : in_id_order) {
    heap.push_back(token);
    std::push_heap(heap.begin(), heap.end(), larger);
    sum += share(token, result);
    while (sum > static_cast<double>(row.parameters.top_p) && heap.size() > 1) {
      sum -= share(heap.front(), result);
      std::pop_heap(heap.begin(), heap.end(), larger);
      heap.pop_back();
    }
  }
  keep_only(result, heap);
}

// From the small end, as if the survivors of top_k still had mass 1 together.
void top_p_of_unnormalised(Result& result, const Row& row, const Place&) {
  if (!has_top_p(row) || result.status != RowStatus::ok) return;
  result = before_top_p(row);
  std::vector<Candidate> tokens = ranked(result, row);
  std::vector<Candidate> kept;
  double mass = 0;
  for (std::size_t i = tokens.size(); i > 0; --i) {
    mass +=
        static_cast<double>(tokens[i - 1].weight) / static_cast<double>(result.total_unfiltered);
    if (mass > 1 - static_cast<double>(row.parameters.top_p)) kept.push_back(tokens[i - 1]);
  }
  keep_only(result, kept);
}

// Sorted by 8 bits of the logit only, equals by id.
void coarse_sort(Result& result, const Row& row, const Place&) {
  if (!(has_top_p(row) || has_top_k(row)) || result.status != RowStatus::ok) return;
  reference::RowParameters parameters = row.parameters;
  parameters.top_k = 0;
  parameters.top_p = 1;
  result = result_of(row, parameters);
  std::vector<Candidate> tokens = ranked(result, row);
  const double high = static_cast<double>(tokens.front().value);
  const double step = std::max((high - static_cast<double>(tokens.back().value)) / 255, 1e-300);
  const auto bucket = [=](const Candidate& token) {
    return std::floor((high - static_cast<double>(token.value)) / step);
  };
  std::sort(tokens.begin(), tokens.end(), [&](const Candidate& a, const Candidate& b) {
    return bucket(a) != bucket(b) ? bucket(a) < bucket(b) : a.id < b.id;
  });
  if (has_top_k(row)) {
    tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(row.parameters.top_k)));
  }
  double total = 0, before = 0;
  for (const Candidate& token : tokens) total += static_cast<double>(token.weight);
  std::vector<Candidate> kept;
  for (const Candidate& token : tokens) {
    if (before < static_cast<double>(row.parameters.top_p) * total) kept.push_back(token);
    before += static_cast<double>(token.weight);
  }
  keep_only(result, kept);
}

// A bisection of 12 steps for the k-th value: what is above its last pivot stays, and of what is
// below the smallest value above the pivot before.
void mismatched_pivots(Result& result, const Row& row, const Place&) {
  if (!has_top_k(row) || result.status != RowStatus::ok) return;
  reference::RowParameters parameters = row.parameters;
  parameters.top_k = 0;
  parameters.top_p = 1;
  const Result all = result_of(row, parameters);
  const std::vector<Candidate> tokens = ranked(all, row);
  double low = static_cast<double>(tokens.back().value);
  double high = static_cast<double>(tokens.front().value);
  float smallest_above = tokens.front().value;
  double pivot = high;
  for (int step = 0; step < 12; ++step) {
    float smallest = tokens.front().value;
    pivot = low + (high - low) / 2;
    std::int32_t above = 0;
    for (const Candidate& token : tokens) {
      if (static_cast<double>(token.value) <= pivot) break;
      smallest = token.value;
      ++above;
    }
    if (above == row.parameters.top_k) return;  // found: no termination is forced
    if (step < 11) smallest_above = smallest;
    (above > row.parameters.top_k ? low : high) = pivot;
  }
  std::vector<Candidate> kept;
  for (const Candidate& token : tokens) {
    if (static_cast<double>(token.value) > pivot || token.value == smallest_above) {
      kept.push_back(token);
    }
  }
  result = all;
  keep_only(result, kept);
}

void allow_from(Row& row, std::size_t first) {
  for (std::size_t id = first; !row.allowed.empty() && id < row.logits.size(); ++id) {
    row.allowed[id / 32] |= 1U << (id % 32);
  }
}

}  // namespace

std::vector<Mutant> mask_mutants() {
  const std::string kind = "mask";
  return {
      mutated_distribution(
          {"topp-drops-crossing",
           "llama.cpp PR #1953; fish-speech PR #1171; Biohub/esm PR #360",
           kind,
           "top_p keeps the largest prefix of mass at most p, so the token that crosses p is lost",
           {"mask/*/v1000/edges"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              nucleus(result, row,
                      [p = static_cast<double>(row.parameters.top_p)](double, double after) {
                        return after <= p;
                      });
            };
          }),
      mutated_integers({"topp-extra-at-equality",
                        "HF transformers issue #18976",
                        kind,
                        "top_p keeps one token too many where a partial sum equals p exactly",
                        {"mask/mass_exactly_p/v31/partial_sums"}},
                       [](Mutation& mutation) {
                         mutation.result = [](Result& result, const Row& row, const Place&) {
                           nucleus(result, row,
                                   [p = static_cast<double>(row.parameters.top_p)](
                                       double before, double) { return before <= p; });
                         };
                       }),
      mutated_distribution({"topp-nonprefix-heap",
                            "exllamav2 sampling.cpp @617d697",
                            kind,
                            "top_p keeps what is left in a heap that pops the smallest while "
                            "the sum exceeds p: no prefix of the ranking",
                            {"mask/*/v1000/edges"}},
                           [](Mutation& mutation) { mutation.result = nucleus_by_heap; }),
      mutated_distribution({"topp-loses-the-smallest",
                            "vLLM 0.33 topk_topp_triton.py",
                            kind,
                            "top_p keeps what is above a pivot, which is searched for above the "
                            "smallest probability: where all tokens are needed, the smallest are "
                            "lost",
                            {"mask/few_allowed/*"}},
                           [](Mutation& mutation) { mutation.result = pivot_above_the_smallest; }),
      mutated_float({"topp-one-drops-a-tail",
                     "systematic",
                     kind,
                     "top_p 1 is taken for 1 - 2^-20: the smallest tokens go",
                     {"mask/peaked/v1000/edges", "mask/zipf/v1000/edges"}},
                    Order::vllm_torch, Draw::inverse_cdf,
                    [](FloatMutation& mutation) {
                      mutation.top_p = [](Scores& scores, float top_p) {
                        float_top_p(scores, top_p == 1 ? 1 - 0x1p-20F : top_p);
                      };
                    }),
      mutated_float({"topp-underflows-below-ten-deviations",
                     "vLLM 0.33 topk_topp_triton.py",
                     kind,
                     "probabilities are taken relative to the average logit plus ten deviations: "
                     "where all of them underflow, top_p filters nothing",
                     {"mask/gaussian/v1000/scattered", "mask/peaked/v1000/scattered"}},
                    Order::vllm_torch, Draw::inverse_cdf,
                    [](FloatMutation& mutation) {
                      mutation.top_p = [](Scores& scores, float top_p) {
                        if (!underflows_below_ten_deviations(scores)) float_top_p(scores, top_p);
                      };
                    }),
      mutated_float({"topp-cumsum-of-logprobs",
                     "tiny-llm issue #32",
                     kind,
                     "top_p sums log-probabilities, which never reach p; where the first token "
                     "alone has mass p, "
                     "nothing is left",
                     {"mask/gaussian_wide/v1000/edges"}},
                    Order::vllm_torch, Draw::inverse_cdf,
                    [](FloatMutation& mutation) {
                      mutation.top_p = [](Scores& scores, float top_p) {
                        const std::vector<float> probs = float_softmax(scores);
                        if (*std::max_element(probs.begin(), probs.end()) < top_p) return;
                        std::fill(scores.begin(), scores.end(), kOut);
                      };
                    }),
      mutated_float({"mask-fill-1e-10",
                     "minGPT issue #10",
                     kind,
                     "filtered logits become 1e-10 instead of -inf: tokens that can be drawn",
                     {"mask/all_negative/v1000/edges"}},
                    Order::vllm_torch, Draw::inverse_cdf,
                    [](FloatMutation& mutation) {
                      mutation.filtered = [](Scores& scores, const Logits&,
                                             const reference::RowParameters& parameters) {
                        for (double& score : scores) {
                          if (score == kOut)
                            score = static_cast<double>(1e-10F / parameters.temperature);
                        }
                      };
                    }),
      mutated_distribution({"topk-then-topp-unnormalised",
                            "mlx-lm PR #388",
                            kind,
                            "top_p takes the mass that top_k left for 1, and may drop "
                            "everything",
                            {"mask/*/v32000/everyday"}},
                           [](Mutation& mutation) { mutation.result = top_p_of_unnormalised; }),
      mutated_distribution(
          {"topk-before-topp-renorm",
           "SGLang PR #36173; sglang-jax PR #1563; onnxruntime-genai PR #1371",
           kind,
           "the joint order is asked for, and top_p is measured on what top_k left",
           {"mask/gaussian/v1000/everyday+joint"}},
          [](Mutation& mutation) {
            mutation.row = [](Row& row, const Place&) {
              row.filter_order = FilterOrder::top_k_first;
            };
          }),
      mutated_float(
          {"minp-in-logit-space",
           "sglang-jax PR #1563; state-spaces/mamba PR #1010",
           kind,
           "min_p times the largest logit is the threshold on logits, and what goes becomes 0",
           {"mask/all_negative/v1000/edges", "mask/gaussian/v1000/edges"}},
          Order::vllm_torch, Draw::inverse_cdf,
          [](FloatMutation& mutation) {
            mutation.min_p = [](Scores& scores, const Logits& logits,
                                const reference::RowParameters& parameters) {
              if (parameters.min_p == 0) return;
              const float largest = *std::max_element(logits.begin(), logits.end());
              for (std::size_t id = 0; id < logits.size(); ++id) {
                if (logits[id] >= parameters.min_p * largest) continue;
                scores[id] = 0;
              }
            };
          }),
      mutated_distribution({"nucleus-over-approximate-sort",
                            "ollama transforms.go @00a948ad",
                            kind,
                            "tokens are sorted by 8 bits of their logits only",
                            {"mask/*/v32000/everyday"}},
                           [](Mutation& mutation) { mutation.result = coarse_sort; }),
      mutated_distribution(
          {"topk-threshold-estimator-collapses",
           "FreeToken PR #345",
           kind,
           "where one token has more than 0.4 of the mass the estimated threshold of top_k "
           "collapses "
           "and everything is kept",
           {"mask/head_and_tail/v1000/edges", "mask/peaked/*"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              if (!has_top_k(row) || result.status != RowStatus::ok) return;
              reference::RowParameters parameters = row.parameters;
              parameters.top_k = 0;
              const Result all = result_of(row, parameters);
              const RowWeight largest = *std::max_element(all.weight.begin(), all.weight.end());
              if (static_cast<double>(largest) > 0.4 * static_cast<double>(all.total_unfiltered)) {
                result = all;
              }
            };
          }),
      mutated_distribution(
          {"pivot-search-state-mismatch",
           "vllm-ascend PR #13847",
           kind,
           "a bisection that is cut short takes the boundary of one step and the pivot of another",
           {"mask/*/v32000/everyday", "mask/*/v1000/edges"}},
          [](Mutation& mutation) { mutation.result = mismatched_pivots; }),
      mutated_integers(
          {"topp-renorm-boundary-lost",
           "FlashInfer issue #2202",
           kind,
           "the token that crosses p is lost where the mass in front of it is within 1e-5 of p",
           {"mask/mass_exactly_p/v31/partial_sums"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              nucleus(result, row,
                      [p = static_cast<double>(row.parameters.top_p)](double before, double) {
                        return before < p - 1e-5;
                      });
            };
          }),
      mutated_distribution({"padded-vocab-sampled",
                            "tt-metal PR #47021, #17195; mlx-vlm #1917; lmdeploy PR #3661",
                            kind,
                            "the padding behind a row, logits of 0, is sampled too",
                            {"replay/*/v31/*", "replay/*/v1000/*"}},
                           [](Mutation& mutation) {
                             mutation.row = [](Row& row, const Place& place) {
                               const std::int64_t gap = place.call->row_stride - place.call->vocab;
                               if (gap <= 0 || row.from_probs) return;
                               row.logits.insert(row.logits.end(), static_cast<std::size_t>(gap),
                                                 0.0F);
                               if (!row.allowed.empty())
                                 row.allowed.resize((row.logits.size() + 31) / 32, 0xffffffffU);
                             };
                           }),
      mutated_distribution(
          {"bitmask-tail-unmasked",
           "mlc-llm PR #2651; xgrammar PR #694, #902; modular PR #5498",
           kind,
           "the last word of the bitmask is not looked at: ids behind the last multiple of 32 are "
           "allowed",
           {"mask/*/v1000/edges/banned"}},
          [](Mutation& mutation) {
            mutation.row = [](Row& row, const Place&) {
              allow_from(row, row.logits.size() / 32 * 32);
            };
          }),
      mutated_distribution({"mask-skipped-on-greedy-fast-path",
                            "tt-xla PR #3564, #3415, issue #3563",
                            kind,
                            "greedy rows take the largest logit without looking at the bitmask",
                            {"mask/*/v1000/edges/banned"}},
                           [](Mutation& mutation) {
                             mutation.row = [](Row& row, const Place&) {
                               if (row.parameters.temperature == 0) row.allowed.clear();
                             };
                           }),
      mutated_float({"rosellm-drops-crossing",
                     "RoseLLM PR 003",
                     kind,
                     "every token whose inclusive mass is above p goes: the one that crosses p too",
                     {"mask/gaussian_wide/v1000/edges"}},
                    Order::vllm_torch, Draw::inverse_cdf,
                    [](FloatMutation& mutation) {
                      mutation.top_p = [](Scores& scores, float top_p) {
                        if (top_p >= 1) return;
                        std::vector<std::pair<float, std::size_t>> order;
                        const std::vector<float> probs = float_softmax(scores);
                        for (std::size_t id = 0; id < probs.size(); ++id)
                          order.emplace_back(-probs[id], id);
                        std::sort(order.begin(), order.end());
                        double mass = 0;
                        for (std::size_t i = 0; i < order.size(); ++i) {
                          mass += static_cast<double>(probs[order[i].second]);
                          if (i > 0 && mass > static_cast<double>(top_p))
                            scores[order[i].second] = kOut;
                        }
                      };
                    }),
      mutated_float({"rosellm-clamp-after-masking",
                     "RoseLLM PR 003",
                     kind,
                     "probabilities are clamped to 1e-9 from below after masking, so that filtered "
                     "tokens can be "
                     "drawn",
                     {"binomial/peaked/v131072/top_k_*"}},
                    Order::vllm_torch, Draw::inverse_cdf,
                    [](FloatMutation& mutation) {
                      mutation.probabilities = [](std::vector<float>& probs) {
                        for (float& probability : probs) probability = std::max(probability, 1e-9F);
                      };
                    }),
  };
}

}  // namespace fairdraw::suites
