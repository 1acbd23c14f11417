// Mutants of rows that a secret key marks. A mutant changes the keys, the histories or the filters
// of a call's marked rows, and the model marks the changed rows.
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "harness/run/calls/logits_source.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

/// Replaces the keys of a call, if it has any, by key(call, row).
void change_keys(fairdraw_batch& call, Storage& storage,
                 std::uint64_t (*key)(const fairdraw_batch& call, std::int64_t row)) {
  if (call.mark_key == nullptr) return;
  std::vector<std::uint64_t> keys;
  for (std::int64_t row = 0; row < call.rows; ++row) keys.push_back(key(call, row));
  call.mark_key = storage.keep(std::move(keys));
}

/// Gives all marked rows of a call the same key.
void give_one_key(fairdraw_batch& call, Storage& storage) {
  change_keys(call, storage, [](const fairdraw_batch& of, std::int64_t row) {
    return std::uint64_t{of.mark_key[row] == 0 ? 0U : 1U};
  });
}

/// Changes the generated ids of each row by change(ids, window), if the call has any.
void change_outputs(fairdraw_batch& call, Storage& storage,
                    void (*change)(std::span<std::int32_t> ids, std::size_t window)) {
  if (call.mark_key == nullptr) return;
  std::vector<std::int32_t> outputs(call.mark_output,
                                    call.mark_output + call.rows * call.mark_output_size);
  const auto size = static_cast<std::size_t>(call.mark_output_size);
  for (std::size_t row = 0; row < outputs.size() / size; ++row) {
    change(std::span(outputs).subspan(row * size, size),
           static_cast<std::size_t>(call.mark_window));
  }
  call.mark_output = storage.keep(std::move(outputs));
}

void mark_neighbours(fairdraw_batch& call, Storage& storage) {
  change_keys(call, storage, [](const fairdraw_batch& of, std::int64_t row) {
    const std::int64_t from = of.mark_key[row] == 0 && row > 0 ? row - 1 : row;
    return of.mark_key[from];
  });
}

/// Removes the ids before the context, where it may have occurred before.
void mark_repeated_contexts(fairdraw_batch& call, Storage& storage) {
  change_outputs(call, storage, [](std::span<std::int32_t> ids, std::size_t window) {
    std::ranges::fill(ids.first(ids.size() - window), -1);
  });
}

constexpr Entry kMarks[] = {
    {"mark-key-by-row", "the key of a row is mixed with the row's place in the batch",
     [](fairdraw_batch& call, Storage& storage) {
       change_keys(call, storage, [](const fairdraw_batch& of, std::int64_t row) {
         const std::uint64_t key = of.mark_key[row];
         return key == 0 ? 0 : key + static_cast<std::uint64_t>(row);
       });
     }},
    {"mark-key-of-first-row", "all marked rows of a call have the first row's key",
     [](fairdraw_batch& call, Storage& storage) {
       change_keys(call, storage, [](const fairdraw_batch& of, std::int64_t row) {
         return of.mark_key[row] == 0 ? 0 : of.mark_key[0];
       });
     }},
    {"mark-key-of-32-bits", "only the upper half of the key is hashed, which is equal for all",
     give_one_key},
    {"mark-key-ignored-with-seeds", "where seeds draw, too, all marked rows have the same key",
     [](fairdraw_batch& call, Storage& storage) {
       if (call.mark_scheme != FAIRDRAW_MARK_BY_KEY) give_one_key(call, storage);
     }},
    {"mark-neighbours", "unmarked rows next to a marked row get its key", mark_neighbours},
    {"engine-mark-neighbours",
     "with a generator of its own: unmarked rows next to a marked row get its key", Base::engine,
     mark_neighbours},
    {"mark-context-off-by-one", "the context ends before the last id",
     [](fairdraw_batch& call, Storage& storage) {
       change_outputs(call, storage, [](std::span<std::int32_t> ids, std::size_t) {
         std::ranges::rotate(ids, ids.end() - 1);
         ids.front() = -1;
       });
     }},
    {"mark-context-one-longer", "the context has one id more than its window",
     [](fairdraw_batch& call) { ++call.mark_window; }},
    {"mark-context-one-shorter", "the context lacks the first id of its window",
     [](fairdraw_batch& call) { call.mark_window = std::max(call.mark_window - 1, 1); }},
    {"mark-repeated-contexts", "a context that the request had before is marked again",
     mark_repeated_contexts},
    {"engine-mark-repeated-contexts",
     "with a generator of its own: a context that the request had before is marked again",
     Base::engine, mark_repeated_contexts},
    {"mark-before-filters", "marked tokens are chosen before the filters",
     [](Result& result, const Row&, const Place& place) {
       const std::uint64_t* const keys = place.call->mark_key;
       if (keys == nullptr || keys[place.row] == 0 || result.status != RowStatus::ok) return;
       result.total = 0;
       for (std::size_t id = 0; id < result.mask.size(); ++id) {
         result.mask[id] = result.weight[id] != 0;
         result.total += result.weight[id];
       }
     }},
    {"mark-noise-in-half-precision",
     "a word becomes a uniform number in float16, whose largest values are 1",
     [](std::uint64_t word) {
       const auto uniform = static_cast<float>(std::ldexp(static_cast<double>(word), -64));
       const float rounded = harness::rounded_to(DType::float16, uniform);
       return rounded >= 1 ? ~std::uint64_t{0}
                           : static_cast<std::uint64_t>(std::ldexp(rounded, 64));
     }},
};

}  // namespace

std::vector<Mutant> mark_mutants() {
  return mutants_of("marks", "marks/* */marked_*", Base::distribution, kMarks);
}

}  // namespace fairdraw::suites
