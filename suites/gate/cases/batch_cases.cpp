#include "suites/gate/cases/batch_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "harness/run/checks/batch_sizes.h"
#include "suites/gate/cases/operation_lists.h"

namespace fairdraw::suites {
namespace {

using harness::Family;

// Returns operations whose temperatures differ from row to row, between 0.05 and 2. The list has
// eleven operations, an odd number, so that rows whose distance is a power of two have different
// operations.
std::vector<Operation> by_row() {
  return parse_operations({"none/t0.05", "top_k_50+top_p_0.9/t0.7", "greedy", "top_p_0.95/t2",
                           "top_k_5/t2", "min_p_0.05/t1.5", "top_k_1000/t0.5", "none/t2",
                           "top_p_0.9/t1", "none/t1", "min_p_0.1+top_k_20+top_p_0.8/t0.3"});
}

struct Lists {
  const char* name;
  bool top_k, top_p, min_p;
};

// Returns those operations of by_row() that use only the filters in `keep`, with repetitions to an
// odd number.
std::vector<Operation> without(const Lists& keep) {
  std::vector<Operation> list = by_row();
  std::erase_if(list, [&keep](const Operation& operation) {
    const reference::RowParameters& row = operation.parameters;
    return (!keep.top_k && row.top_k != 0) || (!keep.top_p && row.top_p != 1) ||
           (!keep.min_p && row.min_p != 0);
  });
  if (list.size() % 2 == 0) list.push_back(parse_operation("none/t0.3"));
  return list;
}

void add(std::vector<NamedCase>& cases, Case entry, const std::string& name,
         std::vector<Operation> operations) {
  entry.rows = static_cast<std::int64_t>(operations.size());
  entry.operations = std::move(operations);
  cases.push_back({std::move(entry), name});
}

// Up to this size of the vocabulary every sampler is judged, not only one per processor
// (once_a_processor).
constexpr std::int64_t kVocabOfEach = 1000;

Case batches(Suite suite, const Input& input) {
  return {.suite = suite,
          .check = Check::batches,
          .input = input,
          .once_a_processor = input.vocab > kVocabOfEach};
}

void add_sizes(std::vector<NamedCase>& cases) {
  struct Row {
    Suite suite;
    Family family;
    std::int64_t vocab;
    DType dtype = DType::float32;
  };
  const Row rows[] = {
      {Suite::smoke, Family::gaussian_wide, 1000},
      {Suite::gate, Family::ties_at_k, 1000},
      {Suite::gate, Family::few_allowed, 1000},
      {Suite::gate, Family::gaussian_wide, 1000, DType::bfloat16},
      {Suite::gate, Family::gaussian_wide, 1000, DType::float16},
      {Suite::gate, Family::tile_ends, 32003},
      {Suite::gate, Family::gaussian, 131072},
  };
  for (const Row& row : rows) {
    add(cases, batches(row.suite, family_input(row.family, row.vocab, row.dtype)), "by_row",
        by_row());
  }
  Case entry = batches(Suite::gate, family_input(Family::gaussian_wide, 1000));
  entry.banned_tokens = true;
  add(cases, entry, "by_row", by_row());
  entry = batches(Suite::gate, family_input(Family::gaussian_wide, 32003));
  entry.banned_tokens = true;
  add(cases, entry, "by_row", by_row());
  for (const std::int64_t vocab : {1000, 32003}) {
    entry = batches(Suite::gate, family_input(Family::gaussian_wide, vocab));
    entry.processed = true;
    add(cases, entry, "by_row", by_row());
    entry.processed = false;
    entry.from_probs = true;
    add(cases, entry, "by_row", without_min_p(by_row()));
  }
  // These lists are for samplers that lack a filter, and therefore skip every list that contains
  // it.
  for (const Lists& keep :
       {Lists{"unfiltered", false, false, false}, Lists{"top_k_alone", true, false, false},
        Lists{"top_p_alone", false, true, false}, Lists{"top_k_and_top_p", true, true, false}}) {
    for (const std::int64_t vocab : {1000, 32003}) {
      const bool alone = keep.top_k != keep.top_p;  // samplers with only one of these filters are
                                                    // rare
      if (alone && vocab > 1000) continue;
      add(cases,
          batches(vocab == 1000 ? Suite::smoke : Suite::gate,
                  family_input(Family::gaussian_wide, vocab)),
          keep.name, without(keep));
    }
  }
}

// Adds checks that use more features of a call than `batches` does, at the same batch sizes. A
// feature for which an engine has a separate kernel (log-probabilities, drafts, several samples,
// strided rows) may also have a separate batch size at which the kernel is chosen. The vocabulary
// exceeds 256 and is not a multiple of 32, so that no kernel has only whole tiles.
void add_other_checks(std::vector<NamedCase>& cases) {
  constexpr std::int64_t kVocab = 301;
  constexpr std::int64_t kRowsOfEach = 65;
  struct Row {
    Check check;
    std::int64_t calls = 1;     // number of calls among which the rows of a case are divided
    std::int64_t smallest = 1;  // smallest batch size that the check has
  };
  const Row rows[] = {{Check::replay},
                      {Check::metamorphic},
                      {Check::logprobs},
                      {Check::status},
                      {Check::float_environment},
                      {Check::verify, harness::kSpeculationCalls, harness::kMinSpeculations},
                      {Check::chain, harness::kChainCalls}};
  const auto add_size = [&cases](const Row& row, std::int64_t size, const char* name,
                                 std::vector<Operation> operations) {
    // The rotation puts an operation with a filter first, so that even a batch of one row has a
    // filter.
    std::rotate(operations.begin(), operations.begin() + 1, operations.end());
    Case entry{.suite = Suite::gate,
               .check = row.check,
               .input = family_input(Family::gaussian_wide, kVocab),
               .operations = std::move(operations),
               .rows = size * row.calls,
               .once_a_processor = size > kRowsOfEach};
    cases.push_back({std::move(entry), fmt::format("{}/b{}", name, size)});
  };
  for (const Row& row : rows) {
    for (const std::int64_t size : harness::kBatchSizes) {
      if (size < row.smallest) continue;
      if (row.check == Check::chain) {
        add_size(row, size, "none/t1", {parse_operation("none/t1")});
        continue;
      }
      add_size(row, size, "by_row", by_row());
      // These cases are for samplers that lack filters.
      if (size == 33 || size == 257) {
        add_size(row, size, "unfiltered", without({"unfiltered", false, false, false}));
      }
    }
  }
}

// The DKWM bound says that the test detects a distance of 0.0567 in 9900 draws per batch size, at a
// twentieth of a case's share of the error budget. The declared discrepancy is slightly larger than
// this distance.
void add_distributions(std::vector<NamedCase>& cases) {
  struct Row {
    Suite suite;
    Family family;
    std::int64_t vocab;
  };
  for (const Row& row :
       {Row{Suite::gate, Family::gaussian_wide, 1000}, Row{Suite::gate, Family::ties_at_k, 1000},
        Row{Suite::gate, Family::tile_ends, 32003}}) {
    Case entry{.suite = row.suite,
               .check = Check::batch_distribution,
               .input = family_input(row.family, row.vocab)};
    entry.draws = 99'000;
    entry.declared_discrepancy = 0.058;
    entry.once = true;
    add(cases, entry, "by_row", by_row());
    if (row.family == Family::ties_at_k) continue;
    add(cases, entry, "unfiltered", without({"unfiltered", false, false, false}));
  }
}

// A token of probability 0.04 is missing from 1024 draws with a probability of 7e-19.
void add_boundaries(std::vector<NamedCase>& cases) {
  struct Row {
    Suite suite;
    std::int64_t vocab;
    DType dtype = DType::float32;
  };
  for (const Row& row :
       {Row{Suite::smoke, 16}, Row{Suite::smoke, 1000}, Row{Suite::smoke, 1000, DType::bfloat16},
        Row{Suite::gate, 1000, DType::float16}, Row{Suite::gate, 4099},
        Row{Suite::nightly, 50257}}) {
    Case entry{.suite = row.suite,
               .check = Check::boundaries,
               .input = family_input(Family::gaussian, row.vocab, row.dtype)};
    entry.draws = 1024;
    add(cases, entry, "heavy", {parse_operation("none/t1")});
    if (row.dtype != DType::float32) continue;
    entry.from_probs = true;
    add(cases, entry, "heavy", {parse_operation("none/t1")});
  }
}

}  // namespace

std::vector<NamedCase> batch_cases() {
  std::vector<NamedCase> cases;
  add_sizes(cases);
  add_other_checks(cases);
  add_distributions(cases);
  add_boundaries(cases);
  return cases;
}

}  // namespace fairdraw::suites
