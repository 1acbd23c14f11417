#include "tests/sample/random_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "harness/inputs/families.h"

namespace fairdraw::suites {
namespace {

template <class T>
T pick(std::mt19937_64& random, const std::vector<T>& values) {
  return values[random() % values.size()];
}

/// In [0, 1), a multiple of 2^-24.
float uniform(std::mt19937_64& random) { return static_cast<float>(random() >> 40) * 0x1p-24F; }

void randomise_parameters(RandomRow& row, std::mt19937_64& random) {
  const auto vocab = static_cast<std::int32_t>(row.logits.size());
  reference::RowParameters& parameters = row.parameters;
  parameters.temperature =
      pick<float>(random, {1, 1, 1, 1, 0.7F, 2, 5, 0, 1e-4F, 0x1p-126F, 0x1p64F, 0x1.715476p0F,
                           0.1F + 3 * uniform(random)});
  parameters.top_k = pick<std::int32_t>(
      random, {0, 0, -1, 1, 2, 50, vocab - 1, vocab, vocab + 1, std::max(1, vocab / 2),
               1 + static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab)),
               1 + static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab))});
  parameters.top_k = std::max(parameters.top_k, -1);
  parameters.top_p = pick<float>(random, {1, 1, 1, 0, 0x1p-149F, 1 - 0x1p-24F, 0.5F, 0.75F, 0.9F,
                                          0.95F, uniform(random), uniform(random)});
  parameters.min_p =
      pick<float>(random, {0, 0, 0, 0x1p-149F, 1 - 0x1p-24F, 1, 0.05F, 0.5F, uniform(random)});
  row.tie_rule = random() % 2 == 0 ? TieRule::keep_all : TieRule::lowest_id;
  row.filter_order = random() % 4 == 0 ? FilterOrder::joint : FilterOrder::top_k_first;
  row.seed = random();
  row.offset = random() % 3 == 0 ? random() : random() % 100;
}

}  // namespace

RandomRow random_row_of(std::uint64_t number, std::size_t vocab) {
  std::mt19937_64 random(number);
  RandomRow row;
  row.number = number;
  row.logits.resize(vocab);
  const auto families = harness::all_families();
  harness::generate_row(families[random() % families.size()], number, random() % 1000, row.logits);
  switch (random() % 8) {
    case 0:  // few distinct values: every cut falls inside a tie
      for (float& x : row.logits)
        x = std::isfinite(x) ? std::nearbyint(std::clamp(x, -9.F, 9.F)) : x;
      break;
    case 1:  // zeros of both signs
      for (float& x : row.logits) {
        if (random() % 3 == 0) x = random() % 2 == 0 ? 0.0F : -0.0F;
      }
      break;
    case 2:  // one bad value: the row must fail
      if (random() % 4 == 0) {
        row.logits[random() % vocab] = random() % 2 == 0 ? NAN : INFINITY;
      }
      break;
    default:
      break;
  }
  if (random() % 4 == 0) {
    row.allowed.resize((vocab + 31) / 32);
    const bool dense = random() % 2 == 0;
    for (std::uint32_t& word : row.allowed) {
      const auto a = static_cast<std::uint32_t>(random());
      const auto b = static_cast<std::uint32_t>(random());
      word = dense ? a | b : a & b;  // bits beyond the vocabulary are set too: they mean nothing
    }
  }
  randomise_parameters(row, random);
  return row;
}

RandomRow random_row(std::uint64_t number) {
  std::mt19937_64 random(~number);
  const bool large = number % 2 == 0;
  const std::size_t vocab = large ? 128 + random() % 1920 : 1 + random() % 127;
  return random_row_of(number, vocab);
}

std::vector<float> random_probs(std::mt19937_64& random, std::size_t vocab) {
  std::vector<float> probs(vocab);
  const int scale = static_cast<int>(random() % 200) - 130;
  const std::uint64_t kind = random() % 4;
  for (float& p : probs) {
    const auto mantissa = static_cast<float>(random() >> 40);
    int exponent = scale - static_cast<int>(random() % 30);
    if (kind == 0) exponent = scale - static_cast<int>(random() % 3);  // dyadic, with ties
    p = std::ldexp(kind == 0 ? 1.0F : mantissa, std::clamp(exponent - 24, -149, 90));
    if (random() % 8 == 0) p = random() % 2 == 0 ? 0.0F : -0.0F;
  }
  if (kind == 1 && random() % 8 == 0) probs[random() % vocab] = random() % 2 == 0 ? -1.0F : NAN;
  return probs;
}

SampleRequest request_of(const RandomRow& row, std::int32_t num_samples) {
  SampleRequest request;
  const auto vocab = static_cast<std::int64_t>(row.logits.size());
  request.logits = {row.logits.data(), DType::float32, 1, vocab, vocab};
  request.temperature = row.parameters.temperature;
  request.top_k = row.parameters.top_k;
  request.top_p = row.parameters.top_p;
  request.min_p = row.parameters.min_p;
  request.tie_rule = row.tie_rule;
  request.filter_order = row.filter_order;
  request.seed = {&row.seed, 1};
  request.offset = {&row.offset, 1};
  request.num_samples = num_samples;
  if (!row.allowed.empty()) {
    request.allowed = {row.allowed.data(), 1, static_cast<std::int64_t>(row.allowed.size())};
  }
  return request;
}

std::string describe(const RandomRow& row) {
  const reference::RowParameters& p = row.parameters;
  return fmt::format(
      "row {} (vocab {}, T {:a}, top_k {}, top_p {:a}, min_p {:a}, tie_rule {}, filter_order {}, "
      "banned {})",
      row.number, row.logits.size(), p.temperature, p.top_k, p.top_p, p.min_p,
      static_cast<int>(row.tie_rule), static_cast<int>(row.filter_order), !row.allowed.empty());
}

std::vector<CpuTarget> available_targets() {
  std::vector<CpuTarget> targets;
  for (const CpuTarget target :
       {CpuTarget::scalar, CpuTarget::avx2, CpuTarget::avx512, CpuTarget::neon}) {
    if (is_available(target)) targets.push_back(target);
  }
  return targets;
}

}  // namespace fairdraw::suites
