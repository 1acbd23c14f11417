// Mutants of operations on rows in which one step is wrong: softmax, log-softmax, masks of logits,
// renormalised probabilities.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "harness/inputs/narrow_floats.h"
#include "suites/gate/mutants/catalogue.h"
#include "suites/gate/mutants/row_operation_sampler.h"

namespace fairdraw::suites {
namespace {

using harness::OperationKind;
using Arithmetic = RowOperationSampler::Arithmetic;
using Steps = RowOperationMutation;
using Row = RowOperationSampler::Row;
using Kept = RowOperationSampler::Kept;
using Values = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

constexpr const char* kSoftmax = "softmax/*";
constexpr const char* kLogSoftmax = "log_softmax/*";
constexpr const char* kTopK = "top_k_mask_logits/* top_k_renorm_probs/*";
constexpr const char* kTopP = "top_p_renorm_probs/*";
constexpr const char* kMinP = "min_p_mask_logits/*";
constexpr const char* kMasks = "top_k_mask_logits/* min_p_mask_logits/*";
constexpr const char* kRenorm = "top_k_renorm_probs/* top_p_renorm_probs/*";
constexpr const char* kAny = "softmax/* top_k_mask_logits/*";

// A row of the table, with the wrong step as its function.
struct Wrong {
  const char *name, *source, *sentence, *expected;
  std::variant<void (*)(fairdraw_operation&), void (*)(Row&), std::vector<double> (*)(const Row&),
               double (*)(std::span<const double> terms, const Row&), void (*)(Kept&, const Row&),
               void (*)(Values& result, const Row&), void (*)(const fairdraw_operation&)>
      step;
  Arithmetic arithmetic = Arithmetic::float64;
};

float half(float value) { return harness::from_float16(harness::to_float16(value)); }
float bfloat(float value) { return harness::from_bfloat16(harness::to_bfloat16(value)); }

bool filters_by_k(const Row& row) {
  return row.top_k > 0 && static_cast<std::size_t>(row.top_k) < row.vocab();
}

std::size_t largest_id(const Row& row) { return ids_by_value(row.values).front(); }

// Returns the sum of the terms, added one after another and rounded after each addition.
double narrow_sum(std::span<const double> terms, float (*rounded)(float)) {
  float sum = 0;
  for (const double term : terms) sum = rounded(sum + static_cast<float>(term));
  return static_cast<double>(sum);
}

void each_value(Values& result, void (*change)(float&)) { std::ranges::for_each(result, change); }

constexpr Wrong kOperations[] = {
    {"operation-k-plus-one", "systematic", "top_k keeps k + 1 tokens", kTopK,
     [](Row& row) { row.top_k += row.top_k > 0 ? 1 : 0; }},
    {"operation-k-minus-one", "systematic", "top_k keeps k - 1 tokens where k is above 1", kTopK,
     [](Row& row) { row.top_k -= row.top_k > 1 ? 1 : 0; }},
    {"operation-ties-dropped", "FlashInfer: issue #3774, the other way round",
     "exactly k tokens stay, whatever ties with the k-th", kTopK,
     [](Kept& kept, const Row& row) {
       if (!filters_by_k(row)) return;
       const auto order = ids_by_value(row.values);
       for (auto i = static_cast<std::size_t>(row.top_k); i < order.size(); ++i) kept[order[i]] = 0;
     }},
    {"operation-ties-added", "systematic",
     "the k-th value is compared in float16, and more tokens tie with it", kTopK,
     [](Kept& kept, const Row& row) {
       if (!filters_by_k(row)) return;
       const auto order = ids_by_value(row.values);
       const float last = row.values[order[static_cast<std::size_t>(row.top_k) - 1]];
       for (std::size_t id = 0; id < kept.size(); ++id) {
         kept[id] = half(row.values[id]) >= half(last) ? 1 : 0;
       }
     }},
    {"operation-k-one-is-greedy", "systematic",
     "top_k 1 keeps one of several tokens that are the largest", kTopK,
     [](Kept& kept, const Row& row) {
       if (row.top_k != 1) return;
       std::ranges::fill(kept, 0);
       kept[largest_id(row)] = 1;
     }},
    {"operation-k-zero-masks-all", "FlashInfer: RadixFindThresholdBucket",
     "top_k 0 finds no threshold, and nothing is kept", kTopK,
     [](Kept& kept, const Row& row) {
       const bool by_k = row.kind == OperationKind::top_k_mask_logits ||
                         row.kind == OperationKind::top_k_renorm_probs;
       if (by_k && row.top_k == 0) std::ranges::fill(kept, 0);
     }},
    {"operation-negative-zero-is-less", "systematic",
     "keys order -0 below +0, so that it does not tie", "top_k_mask_logits/signed_zeros/*",
     [](Kept& kept, const Row& row) {
       if (row.kind != OperationKind::top_k_mask_logits || !filters_by_k(row)) return;
       std::int64_t positive = 0;
       for (const float x : row.values) positive += x == 0 && !std::signbit(x) ? 1 : 0;
       if (positive < row.top_k) return;
       for (std::size_t id = 0; id < kept.size(); ++id) {
         if (row.values[id] == 0 && std::signbit(row.values[id])) kept[id] = 0;
       }
     }},
    {"operation-crossing-dropped", "RoseLLM", "the token at which the nucleus is full is not in it",
     kTopP,
     [](Kept& kept, const Row& row) {
       const auto order = ids_by_value(row.values);
       const auto size = static_cast<std::size_t>(std::ranges::count(kept, 1));
       if (row.top_p < 1 && size > 1) kept[order[size - 1]] = 0;  // drops the smallest kept token
     }},
    {"operation-one-after-crossing", "systematic",
     "the token after the one at which the nucleus is full stays", kTopP,
     [](Kept& kept, const Row& row) {
       const auto order = ids_by_value(row.values);
       const auto size = static_cast<std::size_t>(std::ranges::count(kept, 1));
       if (row.kind == OperationKind::top_p_renorm_probs && size < order.size()) {
         kept[order[size]] = 1;
       }
     }},
    {"operation-boundary-lost", "FlashInfer: issue #2202",
     "the nucleus ends 1e-5 too early, so that it may have less than p", kTopP,
     [](Row& row) { row.top_p -= row.top_p > 0.1F && row.top_p < 1 ? 1e-5F : 0; }},
    {"operation-top-p-one-is-greedy", "ChatRWKV: PR #170",
     "no prefix sum exceeds p = 1, and the first token alone is kept", kTopP,
     [](Kept& kept, const Row& row) {
       if (row.kind != OperationKind::top_p_renorm_probs || row.top_p < 1) return;
       std::ranges::fill(kept, 0);
       kept[largest_id(row)] = 1;
     }},
    {"operation-top-p-zero-is-empty", "HF transformers: PR #19839", "p = 0 keeps nothing", kTopP,
     [](Kept& kept, const Row& row) {
       if (row.top_p == 0) std::ranges::fill(kept, 0);
     }},
    {"operation-cumsum-in-bfloat16", "tt-metal: PR #41635",
     "the nucleus is added up in bfloat16, whose sum stalls", kTopP,
     [](Kept& kept, const Row& row) {
       if (row.kind != OperationKind::top_p_renorm_probs || row.top_p == 0) return;
       const auto order = ids_by_value(row.values);
       float total = 0, above = 0;
       for (const float value : row.values) total += value;
       for (const std::size_t id : order) {
         kept[id] = above < row.top_p * total ? 1 : 0;
         above = bfloat(above + row.values[id]);
       }
     }},
    {"operation-absolute-p", "FlashInfer: ternary search of top_p_renorm",
     "p is compared with masses as they are, in rows that do not sum to 1", kTopP,
     [](Row& row) {
       double total = 0;
       for (const float value : row.values) total += static_cast<double>(value);
       if (row.kind != OperationKind::top_p_renorm_probs || row.top_p == 1) return;
       row.top_p = static_cast<float>(std::min(1.0, static_cast<double>(row.top_p) / total));
     }},
    {"operation-renorm-by-whole-sum", "ONNX Runtime GenAI: PR #1371",
     "what is kept is divided by the sum of the whole row", kRenorm,
     [](std::span<const double> terms, const Row& row) {
       const bool renorm = harness::takes_probabilities(row.kind);
       double sum = 0;
       for (const double term : terms) sum += renorm ? 0 : term;
       for (const float value : row.values) sum += renorm ? static_cast<double>(value) : 0;
       return sum;
     }},
    {"operation-not-renormalised", "mlx-lm: PR #388", "what is kept is left as it was", kRenorm,
     [](Values& result, const Row& row) {
       if (!harness::takes_probabilities(row.kind)) return;
       for (std::size_t id = 0; id < result.size(); ++id) {
         if (result[id] > 0) result[id] = row.values[id];
       }
     }},
    {"operation-sum-in-float16", "systematic", "sums are kept in float16",
     "softmax/* top_k_renorm_probs/*",
     [](std::span<const double> terms, const Row&) { return narrow_sum(terms, half); }},
    {"operation-floor-under-zeros", "RoseLLM: clamp_min(1e-9)", "probabilities of 0 become 1e-9",
     "softmax/masked/* top_k_renorm_probs/*",
     [](Values& result, const Row& row) {
       if (harness::masks_logits(row.kind) || row.kind == OperationKind::log_softmax) return;
       each_value(result, [](float& value) { value = std::max(value, 1e-9F); });
     }},
    {"operation-mask-fill-1e-10", "minGPT: issue #10",
     "masked logits become 1e-10, above every negative one", kMasks,
     [](Values& result, const Row& row) {
       if (!harness::masks_logits(row.kind)) return;
       each_value(result, [](float& x) { x = x == -kInfinity ? 1e-10F : x; });
     }},
    {"operation-mask-fill-lowest", "systematic", "masked logits become the lowest finite number",
     kMasks,
     [](Values& result, const Row& row) {
       if (!harness::masks_logits(row.kind)) return;
       each_value(result, [](float& x) { x = x == -kInfinity ? -60000.0F : x; });
     }},
    {"operation-minp-in-logit-space", "sglang-jax: PR #1563",
     "min_p times the largest logit is compared with logits", kMinP,
     [](Kept& kept, const Row& row) {
       if (row.kind != OperationKind::min_p_mask_logits || row.min_p == 0) return;
       const float least = row.min_p * row.values[largest_id(row)];
       for (std::size_t id = 0; id < kept.size(); ++id) kept[id] = row.values[id] >= least ? 1 : 0;
     }},
    {"operation-minp-of-the-whole", "systematic",
     "min_p is compared with probabilities, and not with parts of the largest", kMinP,
     [](Kept& kept, const Row& row) {
       if (row.kind != OperationKind::min_p_mask_logits || row.min_p == 0) return;
       const std::size_t largest = largest_id(row);
       const auto weight = [&](std::size_t id) {
         return std::exp(static_cast<double>(row.values[id]) -
                         static_cast<double>(row.values[largest]));
       };
       double sum = 0;
       for (std::size_t id = 0; id < kept.size(); ++id) sum += weight(id);
       for (std::size_t id = 0; id < kept.size(); ++id) {
         const bool stays = id == largest || weight(id) >= static_cast<double>(row.min_p) * sum;
         kept[id] = stays ? 1 : 0;
       }
     }},
    {"operation-minus-infinity-is-nan", "vLLM: issue #22180",
     "-inf times 0 makes tokens NaN that have no probability", "softmax/masked/*",
     [](Values& result, const Row& row) {
       if (row.kind != OperationKind::softmax) return;
       for (std::size_t id = 0; id < result.size(); ++id) {
         if (row.values[id] == -kInfinity) result[id] = kNaN;
       }
     }},
    {"operation-temperature-ignored", "systematic", "softmax at temperature 1, always", kSoftmax,
     [](Row& row) { row.temperature = row.temperature == 0 ? 0.0F : 1.0F; }},
    {"operation-inverted-temperature-guard", "inspect_ai: PR #266",
     "every temperature above 0.02 is 0.02", kSoftmax,
     [](Row& row) { row.temperature = std::min(row.temperature, 0.02F); }},
    {"operation-temperature-in-float16", "vLLM: issue #3063",
     "logits are divided by the temperature in float16, which overflows", kSoftmax,
     [](const Row& row) {
       std::vector<double> weights;
       const float inverse = row.temperature == 0 ? 1e30F : 1 / row.temperature;
       const float largest = half(row.values[largest_id(row)] * inverse);
       for (const float x : row.values) {
         weights.push_back(std::exp(static_cast<double>(half(x * inverse) - largest)));
       }
       return weights;
     }},
    {"operation-maximum-not-subtracted", "systematic",
     "exponentials of the logits themselves overflow", kSoftmax,
     [](const Row& row) {
       std::vector<double> weights;
       for (const float x : row.values) {
         weights.push_back(static_cast<double>(std::exp(x / row.temperature)));
       }
       return weights;
     },
     Arithmetic::float32},
    {"operation-maximum-kept-at-one", "ollama: transforms.go",
     "the maximum is not subtracted where the temperature is 1", "softmax/huge_range/*",
     [](const Row& row) {
       std::vector<double> weights;
       const std::size_t id_of_largest = largest_id(row);
       const float largest = row.temperature == 1 ? 0 : row.values[id_of_largest] / row.temperature;
       for (std::size_t id = 0; id < row.vocab(); ++id) {
         const bool greedy = row.temperature == 0;
         const float x = greedy ? 0 : row.values[id] / row.temperature - largest;
         const bool counts = !greedy || id == id_of_largest;
         weights.push_back(counts ? static_cast<double>(std::exp(x)) : 0);
       }
       return weights;
     },
     Arithmetic::float32},
    {"operation-scaled-twice-otherwise", "FlashInfer: issue #5088",
     "the second pass rounds scaled logits otherwise than the first, and rows do not sum to 1",
     "softmax/all_negative/*",
     [](std::span<const double> terms, const Row& row) {
       double sum = 0;
       if (row.kind != OperationKind::softmax || row.temperature == 0) {
         for (const double term : terms) sum += term;
         return sum;
       }
       const float inverse = 1 / row.temperature;
       const float largest = row.values[largest_id(row)] * inverse;
       for (const float x : row.values) sum += std::exp(static_cast<double>(x * inverse - largest));
       return sum;
     }},
    {"operation-result-in-bfloat16", "DeepSpec: issue #31",
     "float32 results have the 8 bits of bfloat16", kSoftmax,
     [](Values& result, const Row&) {
       each_value(result, [](float& value) { value = bfloat(value); });
     }},
    {"operation-log-of-softmax", "systematic",
     "log-probabilities are logarithms of float32 probabilities, -inf where these are 0",
     "log_softmax/huge_range/*",
     [](Values& result, const Row& row) {
       if (row.kind != OperationKind::log_softmax) return;
       each_value(result, [](float& value) { value = std::log(std::exp(value)); });
     }},
    {"operation-logarithm-base-2", "systematic", "log-probabilities are in bits", kLogSoftmax,
     [](Values& result, const Row& row) {
       if (row.kind != OperationKind::log_softmax) return;
       each_value(result, [](float& value) { value *= 1.442695F; });
     }},
    {"operation-row-stride-ignored", "systematic", "rows are read as if nothing lay between them",
     kAny, [](fairdraw_operation& call) { call.row_stride = call.vocab; }},
    {"operation-result-stride-ignored", "systematic",
     "results are written as if nothing was to lie between rows", kAny,
     [](fairdraw_operation& call) { call.result_stride = call.vocab; }},
    {"operation-first-parameter-for-all", "FlashInfer: issue #2325",
     "the first row's parameter is used for every row", kAny,
     [](fairdraw_operation& call) { call.parameter_is_scalar = 1; }},
    {"operation-input-changed", "systematic", "the largest value of the first row is written over",
     kAny,
     [](const fairdraw_operation& call) {
       if (call.rows == 0 || call.values == call.result) return;
       auto* const bytes =
           const_cast<unsigned char*>(static_cast<const unsigned char*>(call.values));
       bytes[0] ^= 1;
     }},
    {"operation-tail-of-four-lost", "systematic",
     "the last tokens, fewer than a vector holds, are never kept",
     "softmax/all_negative/v31/* top_k_mask_logits/all_negative/v31/*",
     [](Values& result, const Row& row) {
       const bool logits =
           harness::masks_logits(row.kind) || row.kind == OperationKind::log_softmax;
       for (std::size_t id = row.vocab() / 4 * 4; id < row.vocab(); ++id) {
         result[id] = logits ? -kInfinity : 0;
       }
     }},
    {"operation-bad-row-spreads", "FlashInfer: PR #2456",
     "a row that fails leaves the first row of the call NaN", kAny,
     [](const fairdraw_operation& call) {
       if (call.statuses == nullptr || call.result_dtype != 0) return;
       if (std::all_of(call.statuses, call.statuses + call.rows,
                       [](std::int32_t status) { return status == 0; })) {
         return;
       }
       static_cast<float*>(call.result)[0] = kNaN;
     }},
    {"operation-bad-row-left-as-it-was", "systematic",
     "a row that fails has its status, and what it came with as its result", "top_k_mask_logits/*",
     [](const fairdraw_operation& call) {
       for (std::int64_t row = 0; row < call.rows && call.statuses != nullptr; ++row) {
         if (call.statuses[row] == 0 || call.result_dtype != 0) continue;
         static_cast<float*>(call.result)[row * call.result_stride] = 7;
       }
     }},
};

Steps steps_of(const Wrong& wrong) {
  Steps steps;
  if (const auto* const is = std::get_if<0>(&wrong.step)) steps.call = *is;
  if (const auto* const is = std::get_if<1>(&wrong.step)) steps.row = *is;
  if (const auto* const is = std::get_if<2>(&wrong.step)) steps.weights = *is;
  if (const auto* const is = std::get_if<3>(&wrong.step)) steps.sum = *is;
  if (const auto* const is = std::get_if<4>(&wrong.step)) steps.kept = *is;
  if (const auto* const is = std::get_if<5>(&wrong.step)) steps.result = *is;
  if (const auto* const is = std::get_if<6>(&wrong.step)) steps.finish = *is;
  return steps;
}

}  // namespace

std::vector<Mutant> row_operation_mutants() {
  std::vector<Mutant> mutants;
  for (const Wrong& wrong : kOperations) {
    const bool wide = wrong.arithmetic == Arithmetic::float64;
    mutants.push_back(
        {wrong.name, wrong.source, "row-operations", wrong.sentence, names_of(wrong.expected),
         wide ? "operations:float64" : "operations:float32", [wrong] {
           return std::make_unique<RowOperationSampler>(wrong.arithmetic, steps_of(wrong));
         }});
  }
  return mutants;
}

std::vector<Twin> row_operation_twins() {
  return {{"operations:float64",
           [] { return std::make_unique<RowOperationSampler>(Arithmetic::float64, Steps{}); }},
          {"operations:float32",
           [] { return std::make_unique<RowOperationSampler>(Arithmetic::float32, Steps{}); }}};
}

}  // namespace fairdraw::suites
