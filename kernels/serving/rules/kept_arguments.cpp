#include "serving/rules/kept_arguments.h"

namespace fairdraw {

Error check_kept(const KeptSets& kept, std::int64_t sets, const char* meaning) {
  if (Error e = check_size("kept.token_ids.size", kept.token_ids.size, sizeof(std::int32_t))) {
    return e;
  }
  if (!kept.token_ids.given() && kept.token_ids.size > 0) {
    return out_of_range("kept.token_ids", "null", "an array");
  }
  if (!kept.offsets.given()) return out_of_range("kept.offsets", "null", "an array");
  const std::string of_sets = meaning;
  if (Error e = check_array(kept.offsets, "kept.offsets", sets + 1, of_sets + " + 1")) return e;
  return check_optional(kept.overflow, "kept.overflow", sets, of_sets);
}

Error check_kept_mask(const KeptMask& rows, const KeptSets& kept) {
  if (rows.vocab < 0 || rows.vocab > kMaxVocab) {
    return out_of_range("vocab", std::to_string(rows.vocab), "0 to " + std::to_string(kMaxVocab));
  }
  if (rows.first_id < 0 || rows.first_id > kMaxVocab - rows.vocab) {
    return out_of_range("first_id", std::to_string(rows.first_id),
                        "0 to " + std::to_string(kMaxVocab - rows.vocab));
  }
  constexpr std::int64_t kMaxRows = std::int64_t{1} << 32;
  if (rows.mask.rows < 0 || rows.mask.rows > kMaxRows) {
    return out_of_range("mask.rows", std::to_string(rows.mask.rows), "0 to 2^32");
  }
  if (Error e = check_matrix("mask", rows.mask.rows, rows.mask.row_stride, rows.mask.rows,
                             words_of(rows.vocab), "words of a row, ceil(vocab / 32)")) {
    return e;
  }
  if (!rows.mask.given() && rows.mask.rows > 0 && rows.vocab > 0) {
    return out_of_range("mask", "null", "an array");
  }
  if (Error e = check_size("indices.size", rows.indices.size, sizeof(std::int32_t))) return e;
  const std::int64_t outputs = outputs_of(rows);
  if (Error e = check_optional(rows.statuses, "statuses", outputs, "one per output")) return e;
  return check_kept(kept, outputs);
}

}  // namespace fairdraw
