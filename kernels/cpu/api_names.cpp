// Names of the public enums.
#include "fairdraw/cuda.h"
#include "fairdraw/log_probabilities.h"
#include "fairdraw/types.h"

namespace fairdraw {

const char* to_string(RowStatus status) noexcept {
  switch (status) {
    case RowStatus::ok:
      return "ok";
    case RowStatus::inactive:
      return "inactive";
    case RowStatus::nan_input:
      return "nan_input";
    case RowStatus::infinite_input:
      return "infinite_input";
    case RowStatus::negative_probability:
      return "negative_probability";
    case RowStatus::no_allowed_token:
      return "no_allowed_token";
    case RowStatus::invalid_temperature:
      return "invalid_temperature";
    case RowStatus::invalid_top_k:
      return "invalid_top_k";
    case RowStatus::invalid_top_p:
      return "invalid_top_p";
    case RowStatus::invalid_min_p:
      return "invalid_min_p";
    case RowStatus::index_out_of_range:
      return "index_out_of_range";
    case RowStatus::invalid_history:
      return "invalid_history";
    case RowStatus::invalid_penalty:
      return "invalid_penalty";
    case RowStatus::invalid_logit_bias:
      return "invalid_logit_bias";
    case RowStatus::invalid_min_tokens:
      return "invalid_min_tokens";
    case RowStatus::invalid_bad_words:
      return "invalid_bad_words";
    case RowStatus::invalid_allowed_ids:
      return "invalid_allowed_ids";
    case RowStatus::processing_overflow:
      return "processing_overflow";
    case RowStatus::invalid_draft_length:
      return "invalid_draft_length";
    case RowStatus::impossible_draft:
      return "impossible_draft";
    case RowStatus::invalid_draft_tree:
      return "invalid_draft_tree";
    case RowStatus::invalid_stop_criteria:
      return "invalid_stop_criteria";
    case RowStatus::invalid_beam:
      return "invalid_beam";
    case RowStatus::invalid_top_n_sigma:
      return "invalid_top_n_sigma";
    case RowStatus::invalid_tie_rule:
      return "invalid_tie_rule";
    case RowStatus::invalid_filter_order:
      return "invalid_filter_order";
    case RowStatus::invalid_probability_filter:
      return "invalid_probability_filter";
    case RowStatus::invalid_history_rule:
      return "invalid_history_rule";
  }
  return "unknown";
}

const char* to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
  }
  return "unknown";
}

const char* to_string(LogprobsMode mode) noexcept {
  switch (mode) {
    case LogprobsMode::raw_logits:
      return "raw_logits";
    case LogprobsMode::raw_logprobs:
      return "raw_logprobs";
    case LogprobsMode::processed_logits:
      return "processed_logits";
    case LogprobsMode::processed_logprobs:
      return "processed_logprobs";
  }
  return "unknown";
}

const char* to_string(RankRule rule) noexcept {
  switch (rule) {
    case RankRule::position:
      return "position";
    case RankRule::at_least:
      return "at_least";
  }
  return "unknown";
}

const char* to_string(CpuTarget target) noexcept {
  switch (target) {
    case CpuTarget::best:
      return "best";
    case CpuTarget::scalar:
      return "scalar";
    case CpuTarget::avx2:
      return "avx2";
    case CpuTarget::avx512:
      return "avx512";
    case CpuTarget::neon:
      return "neon";
  }
  return "unknown";
}

const char* cuda::to_string(Path path) noexcept {
  switch (path) {
    case Path::best:
      return "best";
    case Path::cluster:
      return "cluster";
    case Path::block:
      return "block";
  }
  return "unknown";
}

}  // namespace fairdraw
