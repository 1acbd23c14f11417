// The operations on probabilities, renormalisation and masks are compared with the integer model,
// bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <span>

#include "common/philox.h"
#include "fairdraw/sampling.h"
#include "harness/inputs/families.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

using reference::IntegerRow;
using reference::RowParameters;

std::size_t random_vocab(std::mt19937_64& random) {
  return random() % 2 == 0 ? 128 + random() % 900 : 1 + random() % 127;
}

RowsView view_of(const std::vector<float>& probs) {
  const auto vocab = static_cast<std::int64_t>(probs.size());
  return {probs.data(), DType::float32, 1, vocab, vocab};
}

/// A draw of three tokens per call, which the test compares with the model's tokens.
struct Draw {
  std::uint64_t seed, offset;
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(3, -7);
  RowStatus status = RowStatus::index_out_of_range;

  DrawOptions options() const {
    DrawOptions draw_options;
    draw_options.seed = {&seed, 1};
    draw_options.offset = {&offset, 1};
    draw_options.num_samples = 3;
    return draw_options;
  }
  DrawResult result() { return {{tokens.data(), 3}, {&status, 1}}; }

  void expect(const IntegerRow& expected, const char* operation) const {
    EXPECT_EQ(status, expected.status) << operation;
    for (std::uint32_t s = 0; s < 3; ++s) {
      EXPECT_EQ(tokens[s], token_of(expected, {seed, offset, Purpose::draw, s}))
          << operation << " sample " << s;
    }
  }
};

TEST(ProbsDifferential, SamplingFromProbabilitiesEqualsTheIntegerModel) {
  for (std::uint64_t i = 0; i < budget(10000); ++i) {
    std::mt19937_64 random(i);
    const std::vector<float> probs = random_probs(i, random_vocab(random));
    const auto vocab = static_cast<std::int32_t>(probs.size());
    const std::int32_t top_k =
        static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab + 3)) - 1;
    const float top_p = random() % 5 == 0 ? 0.5F : static_cast<float>(random() >> 40) * 0x1p-24F;
    const float min_p = random() % 5 == 0 ? 0.25F : static_cast<float>(random() >> 40) * 0x1p-24F;
    const std::uint64_t seed = random();
    const std::uint64_t offset = random();
    for (const CpuTarget target : available_targets()) {
      SCOPED_TRACE(::testing::Message()
                   << "row " << i << " vocab " << vocab << " on " << to_string(target) << " top_k "
                   << top_k << " top_p " << top_p << " min_p " << min_p);
      const Execution execution{target, 1};
      const RowsView view = view_of(probs);
      Draw draw{seed, offset};
      const auto check = [&](const char* name, const Error& error, const RowParameters& parameters,
                             FilterOrder order = FilterOrder::top_k_first) {
        ASSERT_FALSE(error) << name;
        draw.expect(integer_model_from_probs(probs, parameters, order), name);
      };
      const auto call = [&](auto operation, auto... filters) {
        return operation(view, filters..., draw.options(), draw.result(), execution);
      };
      check("sampling_from_probs", call(sampling_from_probs), {});
      check("top_k_sampling_from_probs", call(top_k_sampling_from_probs, top_k), {1, top_k, 1, 0});
      check("top_p_sampling_from_probs", call(top_p_sampling_from_probs, top_p), {1, 0, top_p, 0});
      check("min_p_sampling_from_probs", call(min_p_sampling_from_probs, min_p), {1, 0, 1, min_p});
      for (const FilterOrder order : {FilterOrder::top_k_first, FilterOrder::joint}) {
        check("top_k_top_p_sampling_from_probs",
              call(top_k_top_p_sampling_from_probs, top_k, top_p, order), {1, top_k, top_p, 0},
              order);
      }
    }
    if (::testing::Test::HasFailure()) break;
  }
}

void expect_probabilities(const std::vector<float>& got, const IntegerRow& expected) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float probability = expected.status == RowStatus::ok
                                  ? expected.probability(static_cast<std::int32_t>(i))
                                  : 0.0F;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(probability))
        << "token " << i << ": " << got[i] << " instead of " << probability;
  }
}

TEST(ProbsDifferential, RenormalisedProbabilitiesEqualTheIntegerModelToTheBit) {
  for (std::uint64_t i = 0; i < budget(5000); ++i) {
    std::mt19937_64 random(100000 + i);
    const std::vector<float> probs = random_probs(100000 + i, random_vocab(random));
    const auto vocab = static_cast<std::int64_t>(probs.size());
    const std::int32_t top_k = 1 + static_cast<std::int32_t>(random() % probs.size());
    const float top_p = static_cast<float>(random() >> 40) * 0x1p-24F;
    for (const CpuTarget target : available_targets()) {
      SCOPED_TRACE(::testing::Message() << "row " << i << " on " << to_string(target));
      std::vector<float> out(probs.size(), -7.0F);
      RowStatus status = RowStatus::index_out_of_range;
      const FloatRows rows{out.data(), 1, vocab};
      RowParameters k;
      k.top_k = top_k;
      ASSERT_FALSE(top_k_renorm_probs(view_of(probs), top_k, rows, {&status, 1}, {target, 1}));
      const IntegerRow top_k_row =
          integer_model_from_probs(probs, k, FilterOrder::top_k_first, /*top_k_1_keeps_ties=*/true);
      EXPECT_EQ(status, top_k_row.status);
      expect_probabilities(out, top_k_row);
      RowParameters p;
      p.top_p = top_p;
      ASSERT_FALSE(top_p_renorm_probs(view_of(probs), top_p, rows, {&status, 1}, {target, 1}));
      expect_probabilities(out, integer_model_from_probs(probs, p));
    }
    if (::testing::Test::HasFailure()) break;
  }
}

TEST(ProbsDifferential, SoftmaxEqualsTheIntegerModelAndSumsToOne) {
  for (std::uint64_t i = 0; i < budget(2000); ++i) {
    const RandomRow row = random_row(700000 + i);
    RowParameters parameters;
    parameters.temperature = row.parameters.temperature;
    const IntegerRow expected = reference::integer_model(row.logits, {}, parameters);
    for (const CpuTarget target : available_targets()) {
      std::vector<float> out(row.logits.size(), -7.0F);
      ASSERT_FALSE(softmax(view_of(row.logits), parameters.temperature,
                           {out.data(), 1, static_cast<std::int64_t>(out.size())}, {},
                           {target, 1}));
      expect_probabilities(out, expected);
    }
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << describe(row);
      break;
    }
  }
}

/// Returns a row as 16-bit patterns of a dtype; a float32 row keeps its own bytes.
std::vector<std::uint8_t> bytes_of(const std::vector<float>& row, DType dtype) {
  std::vector<std::uint8_t> bytes;
  for (const float x : row) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    std::size_t size = 4;
    if (dtype != DType::float32) {
      bits = dtype == DType::float16 ? harness::to_float16(x) : harness::to_bfloat16(x);
      size = 2;
    }
    for (std::size_t b = 0; b < size; ++b) {
      bytes.push_back(static_cast<std::uint8_t>(bits >> (8 * b)));
    }
  }
  return bytes;
}

std::vector<float> floats_of(const std::vector<std::uint8_t>& bytes, DType dtype) {
  const std::size_t size = dtype == DType::float32 ? 4 : 2;
  std::vector<float> row(bytes.size() / size);
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * size, size);
    const auto narrow = static_cast<std::uint16_t>(bits);
    row[i] = dtype == DType::float32   ? std::bit_cast<float>(bits)
             : dtype == DType::float16 ? reference::float_from_half(narrow)
                                       : reference::float_from_bfloat16(narrow);
  }
  return row;
}

TEST(ProbsDifferential, TopKMaskLogitsKeepsExactlyTheModelsSetInEveryDtype) {
  for (std::uint64_t i = 0; i < budget(3000); ++i) {
    const RandomRow row = random_row(800000 + i);
    for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
      const std::vector<std::uint8_t> in = bytes_of(row.logits, dtype);
      const std::vector<float> values = floats_of(in, dtype);
      RowParameters parameters;
      parameters.top_k = row.parameters.top_k;
      const IntegerRow expected = reference::integer_model(values, {}, parameters);
      const std::vector<std::uint8_t> mask = reference::top_k_mask(values, parameters.top_k);
      const auto vocab = static_cast<std::int64_t>(values.size());
      for (const CpuTarget target : available_targets()) {
        std::vector<std::uint8_t> out(in.size(), 0xca);
        RowStatus status = RowStatus::index_out_of_range;
        ASSERT_FALSE(top_k_mask_logits({in.data(), dtype, 1, vocab, vocab}, parameters.top_k,
                                       out.data(), vocab, {&status, 1}, {target, 1}));
        ASSERT_EQ(status, expected.status) << describe(row);
        const std::vector<float> masked = floats_of(out, dtype);
        for (std::size_t t = 0; t < masked.size(); ++t) {
          const bool kept = status == RowStatus::ok && mask[t] != 0;
          if (kept) {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(masked[t]),
                      std::bit_cast<std::uint32_t>(values[t]))
                << describe(row) << " token " << t;
          } else {
            ASSERT_EQ(masked[t], -INFINITY) << describe(row) << " token " << t;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
