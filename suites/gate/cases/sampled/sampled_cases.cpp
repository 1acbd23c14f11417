#include "suites/gate/cases/sampled/sampled_cases.h"

#include <cmath>

#include "suites/gate/cases/sampled/sampled.h"

namespace fairdraw::suites {
namespace {

using harness::Family;
using Spread = Sampled::Spread;

struct VocabRange {
  std::int64_t smallest, largest;
};

constexpr VocabRange kShortRows = {40, 250};

Case sampled_case(Suite suite, Check check, Family family, const VocabRange& vocab,
                  const Filters& filters, DType dtype = DType::float32) {
  return {
      .suite = suite,
      .check = check,
      .input = family_input(family, vocab.largest, dtype),
      .sampled = Sampled{
          .smallest_vocab = vocab.smallest, .largest_vocab = vocab.largest, .filters = filters}};
}

NamedCase named(Case entry) {
  std::string name = sampled_name(entry.sampled->filters);
  return {std::move(entry), std::move(name)};
}

// Adds so many rows with parameters of their own that hardly any band of parameters stays empty.
// 4096 rows miss a band of temperatures of width 0.05 with probability 2.3e-36, and a band of top_p
// or min_p of width 0.01 with probability 1.2e-9.
void add_exact(std::vector<NamedCase>& cases) {
  struct Row {
    Suite suite;
    Check check;
    Family family;
    Filters filters;
    DType dtype;
  };
  const Row rows[] = {
      {Suite::smoke, Check::tokens, Family::gaussian_wide, {}, DType::float32},
      {Suite::smoke, Check::mask, Family::gaussian_wide, {.top_k = true}, DType::float32},
      {Suite::smoke, Check::mask, Family::gaussian_wide, {.top_p = true}, DType::float32},
      {Suite::smoke, Check::mask, Family::gaussian, {.min_p = true}, DType::float32},
      {Suite::gate, Check::mask, Family::bf16_rounded, {true, true, true}, DType::float32},
      {Suite::gate, Check::tokens, Family::peaked, {true, true, true}, DType::float32},
      {Suite::gate, Check::mask, Family::gaussian, {.top_p = true}, DType::bfloat16},
      {Suite::gate, Check::mask, Family::gaussian_wide, {.top_p = true}, DType::float16},
  };
  constexpr std::int64_t kRows = 4096;
  for (const Row& row : rows) {
    Case entry = sampled_case(row.suite, row.check, row.family, kShortRows, row.filters, row.dtype);
    entry.rows = kRows;
    entry.sampled->operations = kRows;
    if (row.check == Check::tokens) entry.draws = 4 * kRows;
    cases.push_back(named(std::move(entry)));
  }
}

// Adds draws from one row, whose vocabulary and parameters the run's seed chooses.
void add_single_rows(std::vector<NamedCase>& cases) {
  struct Row {
    Suite suite;
    Check check;
    Family family;
    VocabRange vocab;
    Filters filters;
    std::uint64_t draws;
    double declared;
  };
  const Row rows[] = {
      {Suite::smoke, Check::chi_squared, Family::gaussian_wide, {600, 1400}, {}, 100'000, 0.05},
      {Suite::gate,
       Check::chi_squared,
       Family::gaussian_wide,
       {300, 6000},
       {.top_p = true},
       400'000,
       0.025},
      {Suite::gate, Check::bets, Family::zipf, {20000, 60000}, {}, 100'000, 0.045},
      {Suite::gate, Check::bets, Family::gaussian, {100, 900}, {.top_k = true}, 200'000, 0.03},
      {Suite::gate,
       Check::binomial,
       Family::gaussian_wide,
       {200, 30000},
       {.min_p = true},
       200'000,
       0.015},
  };
  for (const Row& row : rows) {
    Case entry = sampled_case(row.suite, row.check, row.family, row.vocab, row.filters);
    entry.sampled->spread = Spread::moderate;
    entry.draws = row.draws;
    entry.declared_discrepancy = row.declared;
    entry.once = true;
    cases.push_back(named(std::move(entry)));
  }
}

// Adds pit cases of rows with parameters of their own. The probability integral transform is
// uniform for all parameters, and in every band of parameters.
void add_pit(std::vector<NamedCase>& cases) {
  struct Row {
    Suite suite;
    Filters filters;
    DType dtype;
    std::int64_t rows;
    std::int64_t draws_a_row;
    bool from_probs = false;
  };
  const Row rows[] = {
      {Suite::smoke, {}, DType::float32, 4096, 16},
      {Suite::gate, {}, DType::float32, 16384, 32},
      {Suite::gate, {.top_p = true}, DType::float32, 8192, 16},
      {Suite::gate, {true, true, true}, DType::float32, 8192, 16},
      {Suite::gate, {}, DType::bfloat16, 4096, 16},
      {Suite::gate, {}, DType::float16, 4096, 16},
      {Suite::gate, {.top_p = true}, DType::float32, 4096, 16, true},
  };
  for (const Row& row : rows) {
    Case entry = sampled_case(row.suite, Check::pit, Family::gaussian_wide, kShortRows, row.filters,
                              row.dtype);
    entry.from_probs = row.from_probs;
    entry.rows = row.rows;
    entry.sampled->operations = static_cast<std::size_t>(row.rows);
    entry.draws = static_cast<std::uint64_t>(row.rows * row.draws_a_row);
    // The declared distance is computed as in the table of pit cases. Up to four parameters share
    // the level of the case, too, which adds 0.02 to the distance.
    entry.declared_discrepancy = 1.1 * 5.6 / std::sqrt(static_cast<double>(entry.draws));
    entry.once = true;
    cases.push_back(named(std::move(entry)));
  }
}

}  // namespace

std::vector<NamedCase> sampled_cases() {
  std::vector<NamedCase> cases;
  add_exact(cases);
  add_single_rows(cases);
  add_pit(cases);
  return cases;
}

}  // namespace fairdraw::suites
