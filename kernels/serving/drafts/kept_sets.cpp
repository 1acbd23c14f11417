// Implementation of sample_with_kept_sets, which is `sample` with the survivors of each row, and of
// kept sets that are given as rows of bits (fairdraw/kept_sets.h).
#include "serving/drafts/kept_sets.h"

#include <algorithm>
#include <vector>

#include "cpu/batch.h"
#include "serving/rules/kept_arguments.h"

namespace fairdraw {

namespace cpu {

void pack_sets(std::int64_t count,
               const std::function<const std::vector<std::int32_t>*(std::int64_t)>& set_of,
               const KeptSets& kept) {
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    kept.offsets.data[i] = end;
    const std::vector<std::int32_t>* set = set_of(i);
    const std::int64_t size = set == nullptr ? 0 : static_cast<std::int64_t>(set->size());
    const bool fits = size <= kept.token_ids.size - end;
    if (fits && size > 0) {
      std::copy(set->begin(), set->end(), kept.token_ids.data + end);
      end += size;
    }
    if (kept.overflow.given()) kept.overflow.data[i] = fits ? 0 : 1;
  }
  kept.offsets.data[count] = end;
}

}  // namespace cpu

Error sample_with_kept_sets(const SampleRequest& request, const SampleResult& result,
                            const KeptSets& kept, const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_request(request, "logits")) return error;
  const std::int64_t outputs = outputs_of(request);
  if (Error error = check_kept(kept, outputs)) return error;
  cpu::Survivors rows(static_cast<std::size_t>(request.logits.rows));
  const cpu::RowSurvivors keep = [&rows](std::int64_t row, cpu::IndexedRow& sampler) {
    sampler.list_survivors(rows[static_cast<std::size_t>(row)]);
    return RowStatus::ok;
  };
  if (Error error = cpu::run_batch(request, result, execution, "logits",
                                   /*options=*/{}, /*wants_tokens=*/true,
                                   /*given_tokens=*/{}, /*logit_rows=*/nullptr, &keep)) {
    return error;
  }
  const auto set_of = [&](std::int64_t output) -> const std::vector<std::int32_t>* {
    const std::int64_t row = request.indices.given() ? request.indices.data[output] : output;
    const bool in_range = row >= 0 && row < request.logits.rows;
    return in_range ? &rows[static_cast<std::size_t>(row)] : nullptr;
  };
  cpu::pack_sets(outputs, set_of, kept);
  return {};
}

Error kept_sets_of_mask(const KeptMask& rows, const KeptSets& kept) {
  if (Error error = check_kept_mask(rows, kept)) return error;
  std::vector<std::int32_t> ids;
  const auto set_of = [&](std::int64_t output) -> const std::vector<std::int32_t>* {
    const std::int64_t row = rows.indices.given() ? rows.indices.data[output] : output;
    if (row < 0 || row >= rows.mask.rows) return nullptr;
    if (rows.statuses.given() && rows.statuses.data[output] != RowStatus::ok) return nullptr;
    ids.clear();
    const std::uint32_t* words = rows.mask.data + row * rows.mask.row_stride;
    for (std::int64_t id = 0; id < rows.vocab; ++id) {
      if (id % 32 == 0 && words[id / 32] == 0) {
        id += 31;
      } else if (((words[id / 32] >> (id % 32)) & 1U) != 0) {
        ids.push_back(rows.first_id + static_cast<std::int32_t>(id));
      }
    }
    return &ids;
  };
  cpu::pack_sets(outputs_of(rows), set_of, kept);
  return {};
}

}  // namespace fairdraw
