// Mutants for parameters at the ends of their range and inside it, and for equal logits.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "harness/run/calls/logits_source.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

constexpr Entry kTies[] = {
    {"topk-threshold-keeps-ties-by-batch", "vLLM PR #50979",
     "top_k keeps all ties, or exactly k in batches of eight and more",
     [](Row& row, const Place& place) {
       if (place.call->rows >= 8) row.tie_rule = TieRule::lowest_id;
     }},
    {"unstable-sort-at-nucleus-edge", "SGLang issue #4876",
     "which of the ties at the edge of the nucleus stay depends on the order of the sort",
     By("mask/ties_at_k/v1000/edges mask/ties_at_k/*"),
     [](Result& result, const Row& row) {
       const bool filtered = row.parameters.top_p > 0 && row.parameters.top_p < 1;
       if (!filtered || result.status != RowStatus::ok) return;
       std::vector<Candidate> kept = ranked(result, row);
       const auto total = static_cast<double>(result.total);
       // Adds tokens one by one, as a sort without a tie rule does, and keeps only as many tokens
       // of the last value as p needs.
       double mass = 0;
       const Result whole = result_with(row, [](Parameters& p) { p.top_p = 1; });
       const auto base = static_cast<double>(whole.total);
       const double needed = static_cast<double>(row.parameters.top_p) * std::max(base, total);
       std::size_t count = 0;
       while (count < kept.size() && mass < needed) {
         mass += static_cast<double>(kept[count++].weight);
       }
       kept.resize(std::max<std::size_t>(count, 1));
       keep_only(result, kept);
     }},
    {"argmax-last-wins", "lattice #280; PyTorch #93630, #27542; tt-metal PR #50687",
     "greedy rows take the last id among equal maxima",
     By("mask/all_equal/v1000/edges mask/ties_at_k/*", Base::distribution),
     [](Result& result, const Row& row) {
       if (result.greedy_token < 0 || row.from_probs) return;
       const float largest = row.logits[static_cast<std::size_t>(result.greedy_token)];
       for (std::size_t id = row.logits.size(); id > 0; --id) {
         if (row.logits[id - 1] != largest || !is_allowed(row, id - 1)) continue;
         keep_only(result, {{static_cast<std::int32_t>(id - 1), largest, 0}});
         return;
       }
     }},
    {"argmax-after-softmax-creates-ties", "vLLM PR #13312",
     "greedy rows take the largest probability, in float16: logits that differ become equal",
     By("mask/flat/v1000/edges mask/gaussian/v1000/edges", Base::distribution),
     [](Result& result, const Row& row) {
       if (result.greedy_token < 0 || row.from_probs) return;
       const auto half = [&](std::size_t id) {
         const double share =
             static_cast<double>(result.weight[id]) / static_cast<double>(result.total_unfiltered);
         return harness::rounded_to(DType::float16, static_cast<float>(share));
       };
       std::size_t best = static_cast<std::size_t>(result.greedy_token);
       for (std::size_t id = best; id-- > 0;) {
         if (half(id) >= half(best)) best = id;
       }
       keep_only(result, {{static_cast<std::int32_t>(best), row.logits[best], 0}});
     }},
};

constexpr Entry kEdges[] = {
    {"topk-zero-is-greedy", "llama.cpp PR #5388; tpu-inference #1386",
     "a top_k that is off is taken for 1", [](Parameters& p) { p.top_k = std::max(p.top_k, 1); }},
    {"topk-gt-vocab",
     "CTranslate2 PR #586; TransformerLens PR #1347; TensorRT-LLM PR #12088; ollama transforms.go "
     "@00a948ad",
     "a top_k above the vocabulary reads candidates past the end of the row",
     By("tokens/*/v1000/edges metamorphic/*/v31/*", Base::integers),
     [](Mutation& mutation) {
       const auto beyond = std::make_shared<bool>(false);
       mutation.call = [beyond](fairdraw_batch& batch, Storage&) {
         *beyond = false;
         for (std::int64_t row = 0; row < batch.rows; ++row) {
           if (batch.top_k[row] > batch.vocab) *beyond = true;
         }
       };
       mutation.finish = [beyond](const fairdraw_batch& batch) {
         if (!*beyond) return;
         for (std::int64_t output = 0; output < batch.outputs; ++output) {
           const std::int64_t row = row_of(batch, output);
           if (row < 0 || batch.top_k[row] <= batch.vocab) continue;
           // the bits of a float32, taken for an id
           batch.tokens[output * batch.num_samples] = 0x3f800000;
         }
       };
     }},
    {"topp-one-is-greedy", "ChatRWKV PR #170",
     "top_p 1 finds no partial sum above it, and falls back on the first candidate",
     [](Parameters& p) { p.top_k = p.top_p == 1 ? 1 : p.top_k; }},
    {"topp-zero-empty", "HF transformers PR #19839; google-deepmind/simply PR #42",
     "top_p 0 leaves nothing, and token 0 is returned",
     [](Result& result, const Row& row) {
       if (result.status == RowStatus::ok && row.parameters.top_p == 0) keep_only(result, {});
     }},
    {"temperature-zero-divides", "CTranslate2 PR #1659; exllamav2 #50; nanoGPT PR #756",
     "temperature 0 divides by zero, and NaN makes token 0",
     [](Result& result, const Row& row) {
       if (result.status == RowStatus::ok && row.parameters.temperature == 0) keep_only(result, {});
     }},
    {"temperature-1e-4-fp16-overflow", "vLLM #3063, PR #2937, PR #890; TensorRT-LLM #15715",
     "logits divided by a small temperature overflow float16, and NaN makes token 0",
     [](Result& result, const Row& row) {
       const float temperature = row.parameters.temperature;
       if (result.status != RowStatus::ok || row.from_probs || temperature <= 0) return;
       const auto overflows = [temperature](float x) { return x / temperature >= 65520; };
       if (std::ranges::any_of(row.logits, overflows)) keep_only(result, {});
     }},
    {"inverted-temperature-guard", "inspect_ai PR #266",
     "a guard that should raise tiny temperatures lowers all others to 0.02",
     By("mask/*/v32000/everyday mask/*/v1000/edges"),
     [](Parameters& p) { p.temperature = p.temperature > 0.02F ? 0.02F : p.temperature; }},
};

// --- Parameters clamped, rounded or replaced, in ranges that people set -------------------------

float in_f16(float value) { return harness::rounded_to(DType::float16, value); }

constexpr Entry kTopK[] = {
    {"top-k-at-most-1024", "TensorRT-LLM, kernels of top-k up to 1024",
     "a top_k above 1024 is taken for 1024",
     [](Parameters& p, std::size_t v) {
       if (static_cast<std::size_t>(std::max(p.top_k, 0)) < v) p.top_k = std::min(p.top_k, 1024);
     }},
    {"top-k-above-2048-off", "a top_k above 2048 does not fit the kernel, and is off",
     [](Parameters& p) { p.top_k = p.top_k > 2048 ? 0 : p.top_k; }},
    {"top-k-in-16-bits", "top_k is stored in 16 bits",
     [](Parameters& p, std::size_t v) {
       const bool filters = p.top_k > 0 && static_cast<std::size_t>(p.top_k) < v;
       if (filters) p.top_k = std::max(p.top_k & 0xffff, 1);
     }},
    {"top-k-largest-int-overflows", "top_k + 1 overflows: the largest int is taken for 1",
     [](Parameters& p) {
       if (p.top_k == std::numeric_limits<std::int32_t>::max()) p.top_k = 1;
     }},
    {"top-k-to-multiple-of-16", "a top_k above 16 is rounded up to a multiple of 16",
     [](Parameters& p) { p.top_k = p.top_k > 16 ? (p.top_k + 15) / 16 * 16 : p.top_k; }},
    {"top-k-of-half-the-vocabulary-off", "a top_k of more than half of the vocabulary is off",
     [](Parameters& p, std::size_t v) {
       if (2 * static_cast<std::size_t>(std::max(p.top_k, 0)) > v &&
           static_cast<std::size_t>(p.top_k) + 1 < v) {
         p.top_k = 0;
       }
     }},
};

constexpr Entry kFloats[] = {
    {"top-p-0.999-off", "a top_p of 0.995 and more is off",
     [](Parameters& p) { p.top_p = p.top_p >= 0.995F && p.top_p < 1 ? 1 : p.top_p; }},
    {"top-p-floor", "a top_p below 0.1 is taken for 0.1",
     [](Parameters& p) { p.top_p = p.top_p > 0 ? std::max(p.top_p, 0.1F) : p.top_p; }},
    {"top-p-in-bf16", "top_p is rounded to bfloat16",
     [](Parameters& p) { p.top_p = to_bf16(p.top_p); }},
    {"top-p-in-f16", "top_p is rounded to float16",
     [](Parameters& p) { p.top_p = in_f16(p.top_p); }},
    {"min-p-in-bf16", "min_p is rounded to bfloat16",
     [](Parameters& p) { p.min_p = to_bf16(p.min_p); }},
    {"min-p-at-least-0.001", "a min_p below 0.01 is off",
     [](Parameters& p) { p.min_p = p.min_p < 0.01F ? 0 : p.min_p; }},
    {"min-p-at-most-half", "a min_p above 1/2 is taken for 1/2",
     [](Parameters& p) { p.min_p = p.min_p < 1 ? std::min(p.min_p, 0.5F) : p.min_p; }},
    {"temperature-in-bf16", "the temperature is rounded to bfloat16",
     [](Parameters& p) { p.temperature = to_bf16(p.temperature); }},
    {"temperature-floor-0.01", "vLLM, _MAX_TEMP", "a temperature below 0.01 is taken for 0.01",
     [](Parameters& p) {
       if (p.temperature > 0) p.temperature = std::max(p.temperature, 0.01F);
     }},
    {"temperature-at-most-2", "a temperature above 2 is taken for 2",
     [](Parameters& p) { p.temperature = std::min(p.temperature, 2.0F); }},
    {"temperature-near-1-skipped", "a temperature within a tenth of 1 is taken for 1",
     By("chi_squared/gaussian_wide/v1000/none/t1.05/*"),
     [](Parameters& p) {
       if (std::fabs(p.temperature - 1) < 0.1F) p.temperature = 1;
     }},
    {"temperature-of-zeros-twice", "sglang-jax PR #1563",
     "where min_p is on, the temperature is applied a second time behind it", By("mask/*/v1000/*"),
     [](Row& row) {
       if (row.parameters.min_p > 0 && row.parameters.temperature != 0 && !row.from_probs) {
         row.parameters.temperature = std::clamp(
             row.parameters.temperature * row.parameters.temperature, 0x1p-126F, 0x1p64F);
       }
     }},
};

constexpr Entry kValues[] = {
    {"bf16-through-float16",
     "bfloat16 logits pass through float16: what is above 65504 becomes the largest value",
     [](Row& row, const Place& place) {
       if (place.call->dtype != 2 || row.from_probs) return;
       for (float& logit : row.logits) {
         if (std::isfinite(logit)) logit = std::clamp(in_f16(logit), -65504.0F, 65504.0F);
       }
     }},
    {"float16-subnormals-flushed", "float16 logits below 2^-14 are read as 0",
     By("mask/*/float16/*"),
     [](Row& row, const Place& place) {
       if (place.call->dtype != 1) return;
       for (float& logit : row.logits) {
         if (std::fabs(logit) < 0x1p-14F) logit = 0;
       }
     }},
    {"signed-zero-keys", "SuperNPUBench PR #78",
     "keys for a radix sort are made of the bits: -0 is less than +0", By("mask/*"),
     [](Row& row) {
       for (float& logit : row.logits) {
         if (!row.from_probs && logit == 0 && std::signbit(logit)) logit = -0x1p-149F;
       }
     }},
    {"argmax-from-zero", "MXNet issue #9007",
     "the running maximum of a greedy row starts at 0: a row of negative logits gives id 0",
     By("mask/all_negative/*"),
     [](Result& result, const Row& row) {
       if (result.greedy_token < 0 || row.from_probs) return;
       if (row.logits[static_cast<std::size_t>(result.greedy_token)] < 0) {
         keep_only(result, {{0, row.logits[0], 0}});
       }
     }},
    {"probabilities-taken-for-normalised", "mlx-lm PR #388; FlashInfer issue #2202",
     "rows of probabilities are taken to sum to 1: top_p of a row that sums to less keeps more",
     By("tokens/*/probs chi_squared/*/probs*"),
     [](Row& row) {
       if (!row.from_probs || !(row.parameters.top_p > 0 && row.parameters.top_p < 1)) return;
       double sum = 0;
       for (const float p : row.logits) sum += static_cast<double>(p);
       if (std::isfinite(sum) && sum > 0) {
         row.parameters.top_p = static_cast<float>(
             std::clamp(static_cast<double>(row.parameters.top_p) / sum, 0x1p-126, 1.0));
       }
     }},
    {"top-k-counts-banned", "sglang-jax PR #1563", "top_k is counted before the bans",
     By("mask/*/banned"),
     [](Row& row) {
       const std::int32_t k = row.parameters.top_k;
       const bool filters = k > 1 && static_cast<std::size_t>(k) < row.logits.size();
       if (!filters || row.allowed.empty() || row.from_probs) return;
       std::vector<float> sorted = row.logits;
       std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<>());
       const float cut = sorted[static_cast<std::size_t>(k - 1)];
       bool left = false;
       for (std::size_t id = 0; id < row.logits.size(); ++id) {
         left = left || (is_allowed(row, id) && row.logits[id] >= cut);
       }
       if (!left) return;
       row.parameters.top_k = 0;
       for (float& logit : row.logits) logit = logit < cut ? kOut : logit;
     }},
};

}  // namespace

std::vector<Mutant> edge_mutants() {
  return joined(
      {mutants_of("edge-parameter", "mask/*/v1000/edges", Base::distribution, kEdges),
       mutants_of("ties", "mask/ties_at_k/v1000/edges metamorphic/*", Base::integers, kTies)});
}

std::vector<Mutant> parameter_mutants() {
  return joined(
      {mutants_of("parameter-range", "mask/*/v1000/edges mask/*", Base::distribution, kTopK),
       mutants_of("parameter-range", "mask/*/v1000/edges mask/*", Base::distribution, kFloats),
       mutants_of("parameter-range", "mask/*/bfloat16/*", Base::distribution, kValues)});
}

}  // namespace fairdraw::suites
