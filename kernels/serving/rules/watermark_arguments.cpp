// Checks of the arguments of fairdraw/watermark.h, the same for every backend.
#include <string>

#include "common/arguments.h"
#include "serving/rules/watermark_rules.h"

namespace fairdraw {

Error check_watermark_rule(const WatermarkRule& rule) {
  if (rule.window < 1 || rule.window > kMaxWatermarkWindow) {
    return out_of_range("window", std::to_string(rule.window),
                        "1 to " + std::to_string(kMaxWatermarkWindow));
  }
  if (rule.scheme > WatermarkScheme::green_list) {
    return out_of_range("scheme", std::to_string(static_cast<std::uint32_t>(rule.scheme)),
                        "0 (race), 1 (tournament) or 2 (green_list)");
  }
  if (rule.layers < 1 || rule.layers > 64) {
    return out_of_range("layers", std::to_string(rule.layers), "1 to 64");
  }
  if (!(rule.green_share >= 0x1p-20F && rule.green_share < 1.0F)) {
    return out_of_range("green_share", text_of(rule.green_share), "2^-20 to below 1");
  }
  return {};
}

Error check_watermark(const SampleRequest& request, const Watermark& watermark) {
  const std::int64_t rows = request.logits.rows;
  const char* one = "one per row of logits";
  if (!watermark.key.is_array() && watermark.key.scalar == 0) {
    return out_of_range("key", "0",
                        "1 to 2^64 - 1, or an array, with 0 for rows that are not marked");
  }
  if (Error e = check_per_request(watermark.key, "key", rows, one)) return e;
  if (Error e = check_per_request(watermark.second_key, "second_key", rows, one)) return e;
  if (!(watermark.second_share >= 0.0F && watermark.second_share <= 1.0F)) {
    return out_of_range("second_share", text_of(watermark.second_share), "0 to 1");
  }
  if (Error e = check_watermark_rule(watermark.rule)) return e;
  if (!(watermark.green_bias >= 0.0F && watermark.green_bias <= 0x1p32F)) {
    return out_of_range("green_bias", text_of(watermark.green_bias), "0 to 2^32");
  }
  if (Error e = check_per_request(watermark.mask_repeated, "mask_repeated", rows, one)) return e;
  if (request.indices.given()) {
    return out_of_range("indices", "an array", "null, because each marked row has one token");
  }
  if (request.num_samples != 1) {
    return out_of_range("num_samples", std::to_string(request.num_samples),
                        "1, because each marked row has one token");
  }
  if (request.processing.output.given()) return {};
  return out_of_range("output", "null", "lists of the ids that each request has generated");
}

Error check_watermark_text(const WatermarkText& text) {
  const std::int64_t length = text.tokens.size;
  if (Error e = check_size("tokens.size", length, sizeof(std::int32_t))) return e;
  if (Error e = check_needed(text.tokens, "tokens", length, "ids")) return e;
  if (Error e = check_size("keys.size", text.keys.size, sizeof(std::uint64_t))) return e;
  if (!text.keys.given() || text.keys.size == 0) {
    return out_of_range("keys", "empty", "an array of at least one key");
  }
  if (Error e = check_watermark_rule(text.rule)) return e;
  for (std::int64_t i = 0; i < length; ++i) {
    if (is_token(text.tokens.data[i], kMaxVocab)) continue;
    return out_of_range("tokens[" + std::to_string(i) + "]", std::to_string(text.tokens.data[i]),
                        "0 to " + std::to_string(kMaxVocab - 1));
  }
  for (std::int64_t i = 0; i < text.keys.size; ++i) {
    if (text.keys.data[i] != 0) continue;
    return out_of_range("keys[" + std::to_string(i) + "]", "0", "1 to 2^64 - 1");
  }
  return {};
}

}  // namespace fairdraw
