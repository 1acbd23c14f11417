// Cases of values that users of engines type, and of top_k next to the vocabulary size.
#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include "suites/gate/cases/operation_lists.h"
#include "suites/gate/cases/range_cases.h"

namespace fairdraw::suites {
namespace {

using harness::Family;

// Returns operations with top_k around and above 1024, the size of a thread block, to which some
// kernels have clamped top_k.
std::vector<Operation> large_top_k() {
  return parse_operations({"top_k_1000/t1", "top_k_1200/t1", "top_k_2048/t0.7", "top_k_3000/t1",
                           "top_k_4096/t1", "top_k_5000+top_p_0.95/t0.8", "top_k_8192/t1",
                           "min_p_0.05+top_k_4096/t1"});
}

class Cases {
 public:
  void add(Case entry, const std::string& name, std::vector<Operation> operations) {
    entry.operations = std::move(operations);
    entry.once = entry.check != Check::batches;
    cases_.push_back({std::move(entry), name});
  }

  void add(NamedCase named) { cases_.push_back(std::move(named)); }

  // Adds draws from directed rows for each operation. boundary_rows.cpp states which errors n draws
  // detect.
  void add_rows(Suite suite, const Input& input, const std::string& name,
                const std::vector<Operation>& operations, std::uint64_t draws,
                bool banned = false) {
    add({.suite = suite,
         .check = Check::boundaries,
         .input = input,
         .banned_tokens = banned,
         .draws = draws},
        name, operations);
  }

  // Adds a pit case with draws from `turns` rows per operation. The declared distance applies to
  // all operations together, as in the other tables of pit. If only one operation is wrong, the
  // distance that is detected is larger by the square root of the number of operations.
  void add_pit(Suite suite, const Input& input, const std::string& name,
               const std::vector<Operation>& operations, std::int64_t turns,
               std::uint64_t draws_a_row) {
    Case entry{.suite = suite, .check = Check::pit, .input = input};
    entry.rows = turns * static_cast<std::int64_t>(operations.size());
    entry.draws = static_cast<std::uint64_t>(entry.rows) * draws_a_row;
    entry.declared_discrepancy = 1.1 * 5.6 / std::sqrt(static_cast<double>(entry.draws));
    add(std::move(entry), name, operations);
  }

  std::vector<NamedCase> take() { return std::move(cases_); }

 private:
  std::vector<NamedCase> cases_;
};

std::vector<Operation> joined(std::vector<Operation> list, const std::vector<Operation>& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

void add_typed(Cases& cases) {
  constexpr std::uint64_t kDraws = 1024;  // so many draws detect a missing probability of 0.04
  const std::vector<Operation> typed = typed_operations();
  cases.add_rows(Suite::smoke, family_input(Family::gaussian, 1000), "typed", typed, kDraws);
  cases.add_rows(Suite::smoke, family_input(Family::gaussian, 1000), "typed", typed, kDraws, true);
  // A 16-bit type cannot represent sums of many equal shares.
  std::vector<Operation> with_top_p = typed;
  std::erase_if(with_top_p,
                [](const Operation& operation) { return operation.parameters.top_p == 1; });
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    cases.add_rows(Suite::smoke, family_input(Family::gaussian, 1000, dtype), "typed_top_p",
                   with_top_p, kDraws);
  }
  cases.add_rows(Suite::smoke, family_input(Family::gaussian, 10'007), "large_top_k", large_top_k(),
                 512);
  cases.add_pit(Suite::smoke, family_input(Family::gaussian_wide, 1000), "typed+next_to_vocab",
                joined(typed, top_k_next_to_vocab(1000)), 64, 32);
}

void add_next_to_vocab(Cases& cases) {
  for (const auto& [suite, vocab, draws] :
       {std::tuple(Suite::smoke, 31, 1024), std::tuple(Suite::smoke, 1000, 512),
        std::tuple(Suite::smoke, 32'003, 128)}) {
    cases.add_rows(suite, family_input(Family::gaussian, vocab), "next_to_vocab",
                   top_k_next_to_vocab(vocab), static_cast<std::uint64_t>(draws));
  }
  // The list has nine operations, an odd number, for the reason that batch_cases.cpp gives.
  for (const std::int64_t vocab : {1000, 32'003}) {
    std::vector<Operation> nine = top_k_next_to_vocab(vocab);
    nine.pop_back();
    Case entry{.suite = Suite::gate,
               .check = Check::batches,
               .input = family_input(Family::gaussian_wide, vocab),
               .once_a_processor = vocab > 1000};
    entry.rows = static_cast<std::int64_t>(nine.size());
    cases.add(std::move(entry), "next_to_vocab", nine);
  }
  for (const char* operation : {"top_k_1000/t1", "top_k_1001+top_p_0.9/t1"}) {
    cases.add(distribution_case(
        Check::bets, {Suite::gate, Family::gaussian_wide, 1000, operation, 100'000, 0.045}));
  }
}

// Adds rows that detect uniform numbers of few bits, and uniform numbers that do not reach 0 or 1.
void add_uniforms(Cases& cases) {
  const std::vector<Operation> unfiltered = {parse_operation("none/t0.7")};
  cases.add_rows(Suite::smoke, family_input(Family::gaussian, (1 << 16) + 31), "uniforms",
                 unfiltered, 2800);
  // The samples of these rows detect a missing probability of 0.99e-4, and ten times as many
  // samples detect 0.99e-5. Samplers with several samples per output make ten times as many draws;
  // for all other samplers, suite gate has this number of draws.
  cases.add_rows(Suite::smoke, family_input(Family::gaussian, 40), "uniforms", unfiltered, 490'000);
  cases.add_rows(Suite::gate, family_input(Family::gaussian, 48), "uniforms", unfiltered,
                 4'900'000);
}

}  // namespace

std::vector<NamedCase> value_cases() {
  Cases cases;
  add_typed(cases);
  add_next_to_vocab(cases);
  add_uniforms(cases);
  return cases.take();
}

}  // namespace fairdraw::suites
