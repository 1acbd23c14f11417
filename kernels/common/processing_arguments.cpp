// Checks of LogitsProcessing that read no array: the lengths, the strides, and the arguments that
// require each other.
#include "common/arguments.h"

namespace fairdraw {
namespace {

const char* const kARow = "one per row of logits";

Error check_row_lists(const TokenLists& lists, const std::string& name, std::int64_t rows) {
  return check_token_lists(lists, name, rows, kARow);
}

Error check_histories(const LogitsProcessing& processing, std::int64_t rows, std::int64_t vocab) {
  if (Error e = check_row_lists(processing.prompt, "prompt", rows)) return e;
  if (Error e = check_row_lists(processing.output, "output", rows)) return e;
  const auto& mask = processing.prompt_mask;
  if (mask.given()) {
    if (processing.prompt.given()) {
      return out_of_range("prompt_mask", "given", "null where prompt is given");
    }
    if (Error e = check_length("prompt_mask.rows", mask.rows, rows, kARow)) return e;
    if (Error e =
            check_stride("prompt_mask.row_stride", mask.row_stride, words_of(vocab),
                         "words of a row, ceil(vocab / 32)", mask.rows, sizeof(std::uint32_t))) {
      return e;
    }
  }
  const TokenCounts& counts = processing.output_counts;
  if (counts.given()) {
    if (Error e = check_length("output_counts.rows", counts.rows, rows, kARow)) return e;
    if (Error e = check_stride("output_counts.row_stride", counts.row_stride, vocab, "vocab",
                               counts.rows, sizeof(std::int32_t))) {
      return e;
    }
  }
  return check_optional(processing.output_lengths, "output_lengths", rows, kARow);
}

/// Packed prompts have no order, and counts do not say where a token was.
Error check_history_rules(const LogitsProcessing& processing) {
  if (!processing.prompt_mask.given() && !processing.output_counts.given()) return {};
  const char* const packed = processing.prompt_mask.given() ? "prompt_mask" : "output_counts";
  const auto check_off = [packed](const char* name, const auto& rule, auto neutral) {
    if (!rule.is_array() && rule.scalar == neutral) return Error{};
    return out_of_range(name, rule.is_array() ? "an array" : text_of(rule.scalar),
                        text_of(neutral) + " where " + packed + " is given");
  };
  if (processing.forced_tokens.given()) {
    return out_of_range("forced_tokens", "given",
                        std::string("null where ") + packed + " is given");
  }
#define FAIRDRAW_HISTORY_RULE(type, name, neutral) \
  if (Error e = check_off(#name, processing.name, neutral)) return e;
#include "fairdraw/processing_parameters.inc"
  return {};
}

Error check_bias(const LogitsProcessing& processing, std::int64_t rows) {
  if (Error e = check_row_lists(processing.bias_ids, "bias_ids", rows)) return e;
  if (!processing.bias_ids.given()) {
    if (!processing.bias_values.given()) return {};
    return out_of_range("bias_values", "given", "null where bias_ids is not given");
  }
  if (!processing.bias_values.given() && processing.bias_ids.size > 0) {
    return out_of_range("bias_values", "null", "an array, because bias_ids is given");
  }
  return check_array(processing.bias_values, "bias_values", processing.bias_ids.size,
                     "bias_ids.size");
}

Error check_bad_words(const LogitsProcessing& processing, std::int64_t rows) {
  if (Error e = check_row_lists(processing.bad_words, "bad_words", rows)) return e;
  if (Error e = check_row_lists(processing.bad_word_lengths, "bad_word_lengths", rows)) return e;
  if (processing.bad_words.given() != processing.bad_word_lengths.given()) {
    return processing.bad_words.given()
               ? out_of_range("bad_word_lengths", "null", "lists, because bad_words is given")
               : out_of_range("bad_words", "null", "lists, because bad_word_lengths is given");
  }
  if (processing.bad_words.given() && !processing.output.given()) {
    return out_of_range("output", "null", "lists, because bad_words compares with their ends");
  }
  return {};
}

}  // namespace

Error check_token_lists(const TokenLists& lists, const std::string& name, std::int64_t rows,
                        const std::string& meaning) {
  if (!lists.given()) {
    if (!lists.begins.given() && lists.data == nullptr) return {};
    return out_of_range(name + ".lengths", "null", "an array, because other parts are given");
  }
  if (Error e = check_size(name + ".size", lists.size, sizeof(std::int32_t))) return e;
  if (lists.data == nullptr && lists.size > 0) {
    return out_of_range(name + ".data", "null", "a pointer to size ids");
  }
  if (!lists.begins.given()) return out_of_range(name + ".begins", "null", "an array");
  if (Error e = check_array(lists.begins, name + ".begins", rows, meaning)) return e;
  return check_array(lists.lengths, name + ".lengths", rows, meaning);
}

Error check_processing(const LogitsProcessing& processing, std::int64_t rows, std::int64_t vocab) {
  const auto check_parameter = [rows](const auto& parameter, const char* name) {
    return check_per_request(parameter, name, rows, kARow);
  };
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) \
  if (Error e = check_parameter(processing.name, #name)) return e;
#include "fairdraw/processing_parameters.inc"
  if (Error e = check_histories(processing, rows, vocab)) return e;
  if (Error e = check_history_rules(processing)) return e;
  if (Error e = check_bias(processing, rows)) return e;
  if (Error e = check_row_lists(processing.stop_ids, "stop_ids", rows)) return e;
  const bool counts_tokens = processing.min_tokens.is_array() || processing.min_tokens.scalar != 0;
  const bool has_lengths = processing.output_lengths.given() || processing.output.given();
  if (processing.stop_ids.given() && counts_tokens && !has_lengths) {
    return out_of_range("output_lengths", "null",
                        "an array, or lists in output, because min_tokens counts their tokens");
  }
  if (Error e = check_bad_words(processing, rows)) return e;
  if (Error e = check_row_lists(processing.allowed_ids, "allowed_ids", rows)) return e;
  if (Error e = check_row_lists(processing.dry_breakers, "dry_breakers", rows)) return e;
  if (Error e = check_row_lists(processing.forced_tokens, "forced_tokens", rows)) return e;
  if (processing.forced_tokens.given() && !processing.output.given()) {
    return out_of_range("output", "null", "lists, because forced_tokens counts their ids");
  }
  return {};
}

}  // namespace fairdraw
