// sample_with_kept_sets: `sample`, and the survivors of each row (fairdraw/kept_sets.h).
#include "fairdraw/kept_sets.h"

#include <algorithm>
#include <vector>

#include "common/arguments.h"
#include "cpu/batch.h"
#include "cpu/outputs_by_row.h"

namespace fairdraw {
namespace {

/// The sets of rows, packed by outputs.
void pack(const SampleRequest& request, const std::vector<std::vector<std::int32_t>>& rows,
          const KeptSets& kept) {
  const std::int64_t outputs = outputs_of(request);
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::int64_t row = request.indices.given() ? request.indices.data[i] : i;
    kept.offsets.data[i] = end;
    bool fits = true;
    if (row >= 0 && row < request.logits.rows) {
      const std::vector<std::int32_t>& ids = rows[static_cast<std::size_t>(row)];
      const auto size = static_cast<std::int64_t>(ids.size());
      fits = size <= kept.token_ids.size - end;
      if (fits && size > 0) {
        std::copy(ids.begin(), ids.end(), kept.token_ids.data + end);
        end += size;
      }
    }
    if (kept.overflow.given()) kept.overflow.data[i] = fits ? 0 : 1;
  }
  kept.offsets.data[outputs] = end;
}

}  // namespace

Error sample_with_kept_sets(const SampleRequest& request, const SampleResult& result,
                            const KeptSets& kept, const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_request(request, "logits")) return error;
  if (Error error = check_kept(kept, outputs_of(request))) return error;
  std::vector<std::vector<std::int32_t>> rows(static_cast<std::size_t>(request.logits.rows));
  const cpu::RowSurvivors keep = [&rows](std::int64_t row, cpu::IndexedRow& sampler) {
    sampler.list_survivors(rows[static_cast<std::size_t>(row)]);
  };
  if (Error error = cpu::run_batch(request, result, execution, "logits",
                                   cpu::filter_options_of(request), /*wants_tokens=*/true,
                                   /*given_tokens=*/{}, /*logit_rows=*/nullptr, &keep)) {
    return error;
  }
  pack(request, rows, kept);
  return {};
}

}  // namespace fairdraw
