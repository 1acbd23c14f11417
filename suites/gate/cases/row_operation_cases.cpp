#include "suites/gate/cases/row_operation_cases.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "suites/gate/cases/operation_lists.h"

namespace fairdraw::suites {
namespace {

using harness::Family;

constexpr Check kRowOperations[] = {
    Check::softmax,           Check::log_softmax,        Check::top_k_mask_logits,
    Check::min_p_mask_logits, Check::top_k_renorm_probs, Check::top_p_renorm_probs};

Operation with(const reference::RowParameters& parameters) { return {.parameters = parameters}; }

// Returns operations with both ends of the parameter's range, their neighbours, and usual values.
std::vector<Operation> parameters_of(Check check, std::int64_t vocab) {
  const auto of_vocab = [vocab](std::int64_t k) {
    return static_cast<std::int32_t>(k < 1 ? 1 : k > 4 * vocab ? 4 * vocab : k);
  };
  // At this temperature, the weights of integer logits are powers of two with exact partial sums.
  // So it is certain on which side of a boundary a token lies whose partial sum equals the
  // boundary.
  constexpr float kExact = kDyadicTemperature;
  std::vector<Operation> list;
  switch (check) {
    case Check::softmax:
      for (const float t :
           {1.0F, 0.7F, 0.0F, 0.05F, 1e-3F, 1e-4F, 1.5F, 5.0F, 0x1p-126F, 0x1p64F}) {
        list.push_back(with({.temperature = t}));
      }
      break;
    case Check::top_k_mask_logits:
    case Check::top_k_renorm_probs:
      for (const std::int64_t k :
           {of_vocab(1), of_vocab(2), of_vocab(3), of_vocab(7), of_vocab(50), of_vocab(vocab / 2),
            of_vocab(vocab - 1), of_vocab(vocab), of_vocab(vocab + 1), 0, -1,
            std::numeric_limits<std::int32_t>::max()}) {
        list.push_back(with({.temperature = kExact, .top_k = static_cast<std::int32_t>(k)}));
      }
      break;
    case Check::min_p_mask_logits:
      // No min_p is so small that exponentials at the threshold are subnormal.
      for (const float p : {0.05F, 0.0F, 1e-30F, 0.001F, 0.1F, 0.5F, 1 - 0x1p-24F, 1.0F}) {
        list.push_back(with({.min_p = p}));
      }
      break;
    case Check::top_p_renorm_probs:
      // Two values of top_p lie just above a partial sum of mass_exactly_p, by more than the
      // float32 error in a vocabulary of 31.
      for (const float p : {0.9F, 0.0F, 0x1p-149F, 0.1F, 0.5F, 0.75F, 0.750006F, 0.875F, 0.500006F,
                            0.95F, 0.999F, 1 - 0x1p-24F, 1.0F}) {
        list.push_back(with({.temperature = kExact, .top_p = p}));
      }
      break;
    default:
      list.push_back(with({}));
  }
  return list;
}

}  // namespace

bool is_row_operation(Check check) { return is_row_operation(harness::to_string(check)); }

bool is_row_operation(std::string_view check) {
  return std::ranges::any_of(kRowOperations,
                             [check](Check one) { return check == harness::to_string(one); });
}

std::vector<NamedCase> row_operation_cases() {
  std::vector<NamedCase> cases;
  const auto add = [&cases](Suite suite, Check check, Family family, std::int64_t vocab,
                            DType dtype = DType::float32, std::int64_t rows_of_each = 2) {
    Case entry{.suite = suite,
               .check = check,
               .input = family_input(family, vocab, dtype),
               .literal = true};
    entry.operations = parameters_of(check, vocab);
    const auto size = static_cast<std::int64_t>(entry.operations.size());
    // Several rows have the same parameter, so that calls with one parameter are possible; there
    // are fewer such rows if rows are expensive.
    entry.rows = std::max<std::int64_t>(vocab > 1000 ? size : rows_of_each * size, 4);
    cases.push_back({std::move(entry), "edges"});
  };
  for (const Check check : kRowOperations) {
    const bool renorm = check == Check::top_k_renorm_probs || check == Check::top_p_renorm_probs;
    for (const std::int64_t vocab : {1, 2}) add(Suite::smoke, check, Family::gaussian, vocab);
    for (const Family family : {Family::gaussian_wide, Family::ties_at_k, Family::masked,
                                Family::few_allowed, Family::single_support, Family::all_equal}) {
      add(Suite::smoke, check, family, 1000);
    }
    // Probabilities have no signed zeros, no subnormals and hardly any range.
    const std::vector<Family> own =
        renorm ? std::vector{Family::peaked}
               : std::vector{Family::huge_range, Family::subnormal, Family::signed_zeros};
    for (const Family family : own) add(Suite::smoke, check, family, 1000);
    // With few tokens sums are nearly exact, so that small errors of a boundary or a scale are
    // visible. An error in the last bit of scaled logits is visible in one row of 30. So 2 rows per
    // parameter miss it with every second seed, and 32 rows with one seed in 2^16.
    const Family few = renorm ? Family::mass_exactly_p : Family::all_negative;
    add(Suite::smoke, check, few, 31, DType::float32, 32);
    for (const DType dtype : {DType::float16, DType::bfloat16}) {
      add(Suite::smoke, check, Family::gaussian_wide, 1000, dtype);
      add(Suite::gate, check, Family::peaked, 32000, dtype);
    }
    for (const Family family : {Family::gaussian, Family::flat, Family::bf16_rounded,
                                Family::all_negative, Family::head_and_tail, Family::tile_ends}) {
      add(Suite::gate, check, family, 1003);
    }
    for (const Family family : {Family::gaussian, Family::peaked, Family::ties_at_k}) {
      add(Suite::gate, check, family, kLargeVocab);
    }
  }
  return cases;
}

}  // namespace fairdraw::suites
