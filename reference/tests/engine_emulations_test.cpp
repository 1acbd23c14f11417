// Compares the profiles with float32 emulations of the engines, which are written from published
// algorithms and order equal values at random. No emulation may leave the oracle's bounds under the
// profile of its engine. Conversely, where the definitions of two engines differ, the oracle must
// detect that an emulation does not follow the other engine's profile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "reference/real_oracle.h"
#include "reference/tests/random_rows.h"

namespace fairdraw::reference {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
using Floats = std::vector<float>;

void divide(Floats& x, float temperature) {
  for (float& v : x) v /= temperature;
}

Floats softmax(const Floats& x) {
  const float largest = *std::max_element(x.begin(), x.end());
  Floats p(x.size());
  float sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += p[i] = std::exp(x[i] - largest);
  for (float& v : p) v /= sum;
  return p;
}

// Masks values below the k-th largest.
void mask_top_k(Floats& x, std::int32_t top_k) {
  if (top_k <= 0 || static_cast<std::size_t>(top_k) >= x.size()) return;
  Floats sorted = x;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const float cut = sorted[static_cast<std::size_t>(top_k) - 1];
  for (float& v : x) v = v < cut ? kMasked : v;
}

void mask_min_p(Floats& x, float min_p) {
  const Floats p = softmax(x);
  const float least = min_p * *std::max_element(p.begin(), p.end());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = p[i] < least ? kMasked : x[i];
}

std::vector<std::size_t> sorted_ids(const Floats& x, bool descending, RandomRows& random) {
  std::vector<std::size_t> ids(x.size());
  std::iota(ids.begin(), ids.end(), std::size_t{0});
  for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[random.below(i)]);
  std::stable_sort(ids.begin(), ids.end(), [&](std::size_t a, std::size_t b) {
    return descending ? x[a] > x[b] : x[a] < x[b];
  });
  return ids;
}

// Returns ids by decreasing value; equal values are in the order of their ids or in a random order.
std::vector<std::size_t> largest_first(const Floats& x, bool by_id, RandomRows& random) {
  std::vector<std::size_t> ids = sorted_ids(x, true, random);
  if (by_id) {
    std::sort(ids.begin(), ids.end());
    std::stable_sort(ids.begin(), ids.end(),
                     [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  }
  return ids;
}

// Masks tokens like vLLM and Hugging Face: drops tokens with cumulative mass <= 1 - p, counted from
// the small end of the sort, but never the last one.
void mask_top_p_ascending(Floats& x, float top_p, RandomRows& random) {
  const Floats p = softmax(x);
  const std::vector<std::size_t> ids = sorted_ids(x, false, random);
  float sum = 0;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    sum += p[ids[i]];
    if (sum <= 1 - top_p) x[ids[i]] = kMasked;
  }
}

// Masks tokens like RoseLLM and SonicSampler: drops tokens with inclusive cumulative mass > p, but
// never the first one.
void mask_top_p_inclusive(Floats& x, float top_p, bool by_id, RandomRows& random) {
  if (top_p <= 0 || top_p >= 1) return;
  const Floats p = softmax(x);
  const std::vector<std::size_t> ids = largest_first(x, by_id, random);
  float sum = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    sum += p[ids[i]];
    if (i > 0 && sum > top_p) x[ids[i]] = kMasked;
  }
}

// Masks tokens like FlashInfer: accepts a token while the mass of strictly larger probabilities is
// < p.
void mask_top_p_by_pivot(Floats& x, float top_p) {
  const Floats p = softmax(x);
  Floats masked = x;
  for (std::size_t t = 0; t < x.size(); ++t) {
    float above = 0;
    for (const float other : p) above += other > p[t] ? other : 0;
    if (!(above < top_p)) masked[t] = kMasked;
  }
  x = masked;
}

Floats vllm_torch(Floats x, const RowParameters& parameters, RandomRows& random) {
  divide(x, parameters.temperature);
  if (parameters.min_p > 0) mask_min_p(x, parameters.min_p);
  mask_top_k(x, parameters.top_k);
  mask_top_p_ascending(x, parameters.top_p, random);
  return x;
}

Floats hf(Floats x, const RowParameters& parameters, RandomRows& random) {
  divide(x, parameters.temperature);
  mask_top_k(x, parameters.top_k);
  if (parameters.top_p < 1) mask_top_p_ascending(x, parameters.top_p, random);
  if (parameters.min_p > 0) mask_min_p(x, parameters.min_p);
  return x;
}

Floats flashinfer(Floats x, const RowParameters& parameters, RandomRows&) {
  const float inverse = 1 / parameters.temperature;
  for (float& v : x) v *= inverse;
  mask_top_k(x, parameters.top_k);
  mask_top_p_by_pivot(x, parameters.top_p);
  if (parameters.min_p > 0) mask_min_p(x, parameters.min_p);
  return x;
}

// Keeps the first k tokens of a sort by decreasing value.
void mask_all_but_k(Floats& x, std::int32_t top_k, bool by_id, RandomRows& random) {
  if (top_k <= 0 || static_cast<std::size_t>(top_k) >= x.size()) return;
  const std::vector<std::size_t> ids = largest_first(x, by_id, random);
  for (std::size_t i = static_cast<std::size_t>(top_k); i < ids.size(); ++i) x[ids[i]] = kMasked;
}

// Masks tokens from the large end of a sort, with sums one after another: a token stays while the
// mass in front of it is below p times the sum (with `equality_too`, at most p times the sum).
void mask_top_p_descending(Floats& x, const Floats& p, float top_p, bool equality_too, bool by_id,
                           RandomRows& random) {
  const std::vector<std::size_t> ids = largest_first(x, by_id, random);
  float in_front = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool stays = equality_too ? in_front <= top_p : in_front < top_p;
    if (i > 0 && !stays) x[ids[i]] = kMasked;
    in_front += p[ids[i]];
  }
}

void mask_all_but_one_maximum(Floats& x, RandomRows& random) {
  const std::size_t kept = sorted_ids(x, true, random).front();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i != kept) x[i] = kMasked;
  }
}

// Emulates FlashInfer's filter order "joint", in which top_p uses the mass of the whole row.
Floats flashinfer_joint(Floats x, const RowParameters& parameters, RandomRows&) {
  const float inverse = 1 / parameters.temperature;
  for (float& v : x) v *= inverse;
  Floats by_mass = x;
  mask_top_p_by_pivot(by_mass, parameters.top_p);
  mask_top_k(x, parameters.top_k);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = by_mass[i] == kMasked ? kMasked : x[i];
  if (parameters.min_p > 0) mask_min_p(x, parameters.min_p);
  return x;
}

Floats sglang(Floats x, const RowParameters& parameters, RandomRows& random) {
  return parameters.min_p > 0 ? flashinfer(std::move(x), parameters, random)
                              : flashinfer_joint(std::move(x), parameters, random);
}

Floats flashinfer_cake(Floats x, const RowParameters& parameters, RandomRows& random) {
  const float inverse = 1 / parameters.temperature;
  for (float& v : x) v *= inverse;
  mask_all_but_k(x, parameters.top_k, true, random);
  if (parameters.top_p < 1)
    mask_top_p_descending(x, softmax(x), parameters.top_p, false, true, random);
  if (parameters.min_p > 0) mask_min_p(x, parameters.min_p);
  return x;
}

Floats sglang_torch(Floats x, const RowParameters& parameters, RandomRows& random) {
  divide(x, parameters.temperature);
  const Floats p = softmax(x);
  Floats by_mass = x;
  mask_top_p_descending(by_mass, p, parameters.top_p, true, false, random);
  mask_all_but_k(x, parameters.top_k, false, random);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = by_mass[i] == kMasked ? kMasked : x[i];
  if (parameters.min_p > 0) mask_min_p(x, parameters.min_p);
  return x;
}

Floats vllm_triton(Floats x, const RowParameters& parameters, RandomRows& random) {
  divide(x, parameters.temperature);
  if (parameters.min_p > 0) mask_min_p(x, parameters.min_p);
  mask_all_but_k(x, parameters.top_k, true, random);
  if (parameters.top_p < 1)
    mask_top_p_descending(x, softmax(x), parameters.top_p, false, false, random);
  return x;
}

// Does the first steps that three emulations of TensorRT-LLM share: those of two of its samplers
// and of a reading of its documentation. Returns true if the row is greedy, so that no further step
// is needed.
bool ends_greedily(Floats& x, const RowParameters& parameters, RandomRows& random) {
  if (parameters.top_k == 1) {  // greedy: argmax of the logits before any change
    mask_all_but_one_maximum(x, random);
    return true;
  }
  divide(x, parameters.temperature);
  if (parameters.min_p > 0) mask_min_p(x, parameters.min_p);
  return false;
}

Floats trtllm_torch(Floats x, const RowParameters& parameters, RandomRows& random) {
  if (ends_greedily(x, parameters, random)) return x;
  mask_top_k(x, parameters.top_k);
  if (parameters.top_p < 1) mask_top_p_by_pivot(x, parameters.top_p);
  return x;
}

Floats trtllm_vanilla(Floats x, const RowParameters& parameters, RandomRows& random) {
  if (ends_greedily(x, parameters, random)) return x;
  mask_top_k(x, parameters.top_k);
  if (parameters.top_p < 1)
    mask_top_p_descending(x, softmax(x), parameters.top_p, false, false, random);
  return x;
}

Floats trtllm_documented(Floats x, const RowParameters& parameters, RandomRows& random) {
  if (ends_greedily(x, parameters, random)) return x;
  mask_all_but_k(x, parameters.top_k, false, random);
  if (parameters.top_p < 1)
    mask_top_p_descending(x, softmax(x), parameters.top_p, true, false, random);
  return x;
}

// Masks tokens by the weights w = exp(l / T - max): keeps a token if the weights strictly above it
// sum to at most p times `base`, a sum of weights.
void mask_top_p_by_weight(Floats& x, const Floats& w, float top_p, float base) {
  Floats masked = x;
  for (std::size_t t = 0; t < x.size(); ++t) {
    float above = 0;
    for (const float other : w) above += other > w[t] ? other : 0;
    if (above > top_p * base) masked[t] = kMasked;
  }
  x = masked;
}

Floats relative_weights(const Floats& x) {
  const float largest = *std::max_element(x.begin(), x.end());
  Floats w(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) w[i] = std::exp(x[i] - largest);
  return w;
}

void mask_small_weights(Floats& x, float least) {
  const Floats w = relative_weights(x);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = w[i] < least ? kMasked : x[i];
}

float sum(const Floats& w) { return std::accumulate(w.begin(), w.end(), 0.0F); }

Floats trtllm_fused(Floats x, const RowParameters& parameters, RandomRows&) {
  divide(x, parameters.temperature);
  mask_small_weights(x, parameters.min_p);
  mask_top_k(x, parameters.top_k);
  const Floats w = relative_weights(x);
  if (parameters.top_p < 1) mask_top_p_by_weight(x, w, parameters.top_p, sum(w));
  return x;
}

// The draw always ends at the token that crosses p, so no token after it is ever drawn.
Floats trtllm_legacy(Floats x, const RowParameters& parameters, RandomRows& random) {
  divide(x, parameters.temperature);
  mask_all_but_k(x, parameters.top_k, false, random);
  if (parameters.top_p < 1)
    mask_top_p_descending(x, softmax(x), parameters.top_p, false, false, random);
  return x;
}

// MAX. On the GPU, MAX applies top_p to the whole row's mass; on the CPU there is a stable sort and
// no min_p.
Floats max_gpu(Floats x, const RowParameters& parameters, RandomRows&) {
  divide(x, parameters.temperature);
  const Floats w = relative_weights(x);
  Floats by_mass = x;
  mask_top_p_by_weight(by_mass, w, parameters.top_p, sum(w));
  mask_top_k(x, parameters.top_k);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = by_mass[i] == kMasked ? kMasked : x[i];
  mask_small_weights(x, parameters.min_p);
  return x;
}

Floats max_cpu(Floats x, const RowParameters& parameters, RandomRows& random) {
  divide(x, parameters.temperature);
  mask_all_but_k(x, parameters.top_k, true, random);
  if (parameters.top_p < 1)
    mask_top_p_descending(x, softmax(x), parameters.top_p, false, true, random);
  return x;
}

// Masks logits below the largest logit plus ln p; logits that equal this threshold stay if
// `at_least`.
void mask_below_log_min_p(Floats& x, float min_p, bool at_least) {
  if (min_p <= 0) return;
  const float least = *std::max_element(x.begin(), x.end()) + std::log(min_p);
  for (float& v : x) v = v < least || (!at_least && v == least) ? kMasked : v;
}

// llama.cpp applies the temperature after the filters, so the temperature does not change which
// tokens stay.
Floats llama_chain(Floats x, const RowParameters& parameters, bool at_least, RandomRows& random) {
  mask_all_but_k(x, parameters.top_k, false, random);
  if (parameters.top_p < 1)
    mask_top_p_descending(x, softmax(x), parameters.top_p, false, false, random);
  mask_below_log_min_p(x, parameters.min_p, at_least);
  return x;
}

Floats llamacpp(Floats x, const RowParameters& parameters, RandomRows& random) {
  return llama_chain(std::move(x), parameters, true, random);
}

Floats llamacpp_backend(Floats x, const RowParameters& parameters, RandomRows& random) {
  return llama_chain(std::move(x), parameters, false, random);
}

Floats rosellm(Floats x, const RowParameters& parameters, RandomRows& random) {
  divide(x, parameters.temperature);
  mask_top_k(x, parameters.top_k);
  mask_top_p_inclusive(x, parameters.top_p, false, random);
  return x;
}

Floats sonicsampler(Floats x, const RowParameters& parameters, RandomRows& random) {
  divide(x, parameters.temperature);
  mask_all_but_k(x, parameters.top_k, true, random);
  mask_top_p_inclusive(x, parameters.top_p, true, random);
  mask_below_log_min_p(x, parameters.min_p, true);
  return x;
}

struct Engine {
  const char* profile;
  Floats (*emulation)(Floats, const RowParameters&, RandomRows&);
};
const Engine kEngines[] = {
    {"vllm_torch", vllm_torch},
    {"vllm_triton", vllm_triton},
    {"flashinfer", flashinfer},
    {"flashinfer_fast", flashinfer},  // rows of at most 257 tokens do not use the fast path
    {"flashinfer_joint", flashinfer_joint},
    {"flashinfer_cake", flashinfer_cake},
    {"sglang", sglang},
    {"sglang_torch", sglang_torch},
    {"trtllm_torch", trtllm_torch},
    {"trtllm_vanilla", trtllm_vanilla},
    {"trtllm_fused", trtllm_fused},
    {"trtllm_legacy", trtllm_legacy},
    {"trtllm_documented", trtllm_documented},
    {"max_gpu", max_gpu},
    {"max_cpu", max_cpu},
    {"llamacpp", llamacpp},
    {"llamacpp_backend", llamacpp_backend},
    {"hf", hf},
    {"rosellm", rosellm},
    {"sonicsampler", sonicsampler},
};

TEST(EngineEmulations, AreThereForEveryProfileOfAnEngine) {
  std::vector<std::string> emulated = {"fairdraw"};
  for (const Engine& engine : kEngines) emulated.emplace_back(engine.profile);
  EXPECT_EQ(emulated, std::vector<std::string>(profile_names().begin(), profile_names().end()));
}

// Returns an empty string, or a description of the first token at which the masked logits
// contradict the distribution. Tokens of probability 0 are not in the support, whatever the filters
// keep.
std::string outside(const Floats& masked, const RealDistribution& distribution) {
  const Floats p = softmax(masked);
  std::int32_t support = 0;
  for (std::size_t id = 0; id < masked.size(); ++id) {
    const bool kept = masked[id] != kMasked;
    if (kept) ++support;
    // If a probability underflows to 0 in float32, the engine's mask may lack the token.
    const bool sure =
        distribution.membership[id] == Membership::out ||
        (distribution.membership[id] == Membership::in && distribution.probability[id] > 0x1p-126);
    if (sure && kept != (distribution.membership[id] == Membership::in)) {
      return "token " + std::to_string(id) + (kept ? " is kept" : " is dropped");
    }
    if (kept && distribution.membership[id] == Membership::out && p[id] > 0) {
      return "token " + std::to_string(id) + " is outside the support";
    }
  }
  if (support > distribution.support_high) return "more tokens than the distribution allows";
  return "";
}

RowParameters random_parameters(RandomRows& random, std::size_t vocab) {
  RowParameters parameters;
  const float temperatures[] = {1, 0.7F, 1.9F, 2.5F};
  parameters.temperature = temperatures[random.below(std::size(temperatures))];
  parameters.top_k = 1 + static_cast<std::int32_t>(random.below(vocab));
  if (random.chance(0.5)) parameters.top_p = random.chance(0.3) ? 0.5F : random.unit();
  if (parameters.top_p == 0) parameters.top_p = 1;
  if (random.chance(0.5)) parameters.min_p = 0.3F * random.unit();
  return parameters;
}

RowKind random_kind(RandomRows& random) {
  const RowKind kinds[] = {RowKind::smooth, RowKind::tied,  RowKind::peaked, RowKind::masked,
                           RowKind::flat,   RowKind::close, RowKind::shifted};
  return kinds[random.below(std::size(kinds))];
}

bool has_finite(const Floats& x) {
  return std::any_of(x.begin(), x.end(), [](float v) { return v != kMasked; });
}

// Returns a profile without the clamp of RoseLLM, which would make every token drawable.
Semantics masks_of(const char* profile) {
  Semantics semantics = *find_profile(profile);
  semantics.masked_probability_floor = 0;
  return semantics;
}

TEST(EngineEmulations, StayWithinTheirProfiles) {
  RandomRows random(5);
  const std::size_t vocabs[] = {1, 2, 3, 8, 50, 128, 257};
  for (int i = 0; i < 8000; ++i) {
    const std::size_t vocab = vocabs[random.below(std::size(vocabs))];
    const RowKind kind = random_kind(random);
    const Floats logits = random.logits(kind, vocab);
    if (!has_finite(logits)) continue;
    const RowParameters parameters = random_parameters(random, vocab);
    for (const Engine& engine : kEngines) {
      const Semantics semantics = masks_of(engine.profile);
      const RealDistribution distribution = real_oracle(logits, {}, parameters, semantics);
      ASSERT_EQ(distribution.must_fail,
                semantics.top_k_limit > 0 && parameters.top_k > semantics.top_k_limit);
      if (distribution.must_fail) continue;
      ASSERT_TRUE(distribution.defined);
      ASSERT_EQ(outside(engine.emulation(logits, parameters, random), distribution), "")
          << engine.profile << " row " << i << " kind " << static_cast<int>(kind) << " vocab "
          << vocab << " T " << parameters.temperature << " top_k " << parameters.top_k << " top_p "
          << parameters.top_p << " min_p " << parameters.min_p;
    }
  }
}

// Logits of -30000 divided by 0.7 have ulps of 2^-8, and each weight is off by up to half an ulp of
// its logit, so the error of scaling dominates. The rows have few tokens, so that scaled logits do
// not become equal.
TEST(EngineEmulations, StayWithinTheirProfilesFarFromZero) {
  RandomRows random(9);
  for (int i = 0; i < 4000; ++i) {
    const Floats logits = random.logits(RowKind::shifted, 8);
    const RowParameters parameters = {.temperature = 0.7F, .top_k = 8, .top_p = random.unit()};
    if (parameters.top_p == 0) continue;
    for (const Engine& engine : kEngines) {
      const RealDistribution distribution =
          real_oracle(logits, {}, parameters, masks_of(engine.profile));
      ASSERT_EQ(outside(engine.emulation(logits, parameters, random), distribution), "")
          << engine.profile << " row " << i << " top_p " << parameters.top_p;
    }
  }
}

// Counts the rows in which an emulation leaves the bounds of the given profile.
int rows_outside(const Engine& engine, const Semantics& semantics, RowKind kind,
                 const std::function<void(RowParameters&)>& restrict) {
  RandomRows random(6);
  int outside_rows = 0;
  for (int i = 0; i < 300; ++i) {
    const Floats logits = random.logits(kind, 50);
    RowParameters parameters = random_parameters(random, 50);
    restrict(parameters);
    const RealDistribution distribution = real_oracle(logits, {}, parameters, semantics);
    if (!outside(engine.emulation(logits, parameters, random), distribution).empty())
      ++outside_rows;
  }
  return outside_rows;
}

TEST(EngineEmulations, AreToldFromOtherDefinitions) {
  const auto only_top_p = [](RowParameters& parameters) {
    parameters.top_k = 0;
    parameters.min_p = 0;
    parameters.top_p = 0.6F;
  };
  const auto top_p_and_min_p = [](RowParameters& parameters) {
    parameters.top_k = 0;
    parameters.min_p = 0.1F;
    parameters.top_p = 0.8F;
  };
  const Semantics usual = masks_of("fairdraw");
  // RoseLLM drops the token that crosses p, so every row whose nucleus has several tokens differs.
  EXPECT_GT(rows_outside({"rosellm", rosellm}, usual, RowKind::smooth, only_top_p), 0);
  EXPECT_EQ(rows_outside({"rosellm", rosellm}, masks_of("rosellm"), RowKind::smooth, only_top_p),
            0);
  // A sort keeps only some of the tied tokens at the boundary; the usual definition keeps all of
  // them.
  EXPECT_GT(rows_outside({"vllm_torch", vllm_torch}, usual, RowKind::tied, only_top_p), 0);
  // These parameters distinguish top_p on the survivors of top_k from top_p on the whole row.
  const auto top_k_and_top_p = [](RowParameters& parameters) {
    parameters.top_k = 5;
    parameters.min_p = 0;
    parameters.top_p = 0.7F;
  };
  EXPECT_GT(rows_outside({"max_gpu", max_gpu}, masks_of("trtllm_fused"), RowKind::smooth,
                         top_k_and_top_p),
            0);
  // These parameters distinguish a temperature before the filters from one after the filters.
  const auto hot_top_p = [](RowParameters& parameters) {
    parameters = {.temperature = 1.9F, .top_p = 0.6F};
  };
  EXPECT_GT(
      rows_outside({"llamacpp", llamacpp}, masks_of("trtllm_vanilla"), RowKind::smooth, hot_top_p),
      0);
  // A sampler without min_p.
  EXPECT_GT(
      rows_outside({"max_cpu", max_cpu}, masks_of("llamacpp"), RowKind::smooth, top_p_and_min_p),
      0);
  // With min_p after top_p, more of the nucleus stays than with min_p before top_p.
  EXPECT_GT(rows_outside({"hf", hf}, masks_of("vllm_torch"), RowKind::smooth, top_p_and_min_p), 0);
}

}  // namespace
}  // namespace fairdraw::reference
