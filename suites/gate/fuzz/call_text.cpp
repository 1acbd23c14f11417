#include "suites/gate/fuzz/call_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/inputs/narrow_floats.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::Request;

bool can_be_shown(const FuzzCase& fuzz_case) {
  const bool is_batch =
      fuzz_case.kind == CaseKind::batch || fuzz_case.kind == CaseKind::distribution;
  const Request& request = fuzz_case.request;
  return is_batch && request.processing.empty() && request.logits.size() <= kMaxShownValues;
}

/// The spelling of numbers in a programming language.
struct Language {
  /// spellings of infinity and NaN; the last two are suffixes of numbers
  const char *infinity, *nan, *of_float, *of_unsigned;
};
constexpr Language kPython{"inf", "nan", "", ""};
constexpr Language kC{"INFINITY", "NAN", "f", "u"};

std::string number(const Language& language, float value) {
  const char* const sign = std::signbit(value) && !std::isnan(value) ? "-" : "";
  if (std::isnan(value)) return language.nan;
  if (std::isinf(value)) return std::string(sign) + language.infinity;
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text + language.of_float;
}
std::string number(const Language&, std::int32_t value) { return std::to_string(value); }
std::string number(const Language& language, std::uint8_t value) {
  return std::to_string(value) + language.of_unsigned;
}
std::string number(const Language& language, std::uint16_t value) {
  return std::to_string(value) + language.of_unsigned;
}
std::string number(const Language& language, std::uint32_t value) {
  return std::to_string(value) + language.of_unsigned;
}
std::string number(const Language& language, std::uint64_t value) {
  const bool is_c = *language.of_unsigned != '\0';
  return std::to_string(value) + (is_c ? "ull" : "");
}

template <class T>
std::string listed(const Language& language, const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ", ") + number(language, value);
  return text;
}

template <class T>
std::vector<T> of_rows(const Request& request, T reference::RowParameters::*member) {
  std::vector<T> values;
  for (const reference::RowParameters& row : request.parameters) values.push_back(row.*member);
  return values;
}

std::vector<std::uint16_t> narrow(const Request& request) {
  std::vector<std::uint16_t> bits;
  for (const float value : request.logits) {
    bits.push_back(request.dtype == DType::float16 ? harness::to_float16(value)
                                                   : harness::to_bfloat16(value));
  }
  return bits;
}

std::int64_t samples_of(const FuzzCase& fuzz_case) {
  if (fuzz_case.kind != CaseKind::distribution) return fuzz_case.request.num_samples;
  return 1;
}

// Returns the seeds of the call of a fuzz case. A distribution case has no seeds, so the call that
// is shown draws once, with the salt as its seed.
std::vector<std::uint64_t> seeds_of(const FuzzCase& fuzz_case) {
  if (fuzz_case.kind == CaseKind::distribution) return {fuzz_case.salt};
  return fuzz_case.request.seed;
}
std::vector<std::uint64_t> offsets_of(const FuzzCase& fuzz_case) {
  if (fuzz_case.kind == CaseKind::distribution) return {0};
  return fuzz_case.request.offset;
}

}  // namespace

std::string python_call(const FuzzCase& fuzz_case, const std::string& sampler) {
  if (!can_be_shown(fuzz_case)) return {};
  const Request& request = fuzz_case.request;
  const auto array = [](const auto& values, const char* dtype) {
    return fmt::format("np.array([{}], np.{})", listed(kPython, values), dtype);
  };
  const auto matrix = [&](const auto& values, const char* dtype, std::int64_t rows,
                          std::int64_t columns) {
    return fmt::format("{}.reshape({}, {})", array(values, dtype), rows, columns);
  };
  const auto optional = [](bool given, const std::string& text) { return given ? text : "None"; };
  const std::int64_t rows = request.rows, vocab = request.vocab, outputs = request.outputs(),
                     samples = samples_of(fuzz_case);
  // NumPy has no bfloat16, so the rows are given as bits.
  const std::string logits = request.dtype == DType::bfloat16
                                 ? matrix(narrow(request), "uint16", rows, vocab)
                                 : matrix(request.logits, to_string(request.dtype), rows, vocab);
  std::string text =
      "import numpy as np\n"
      "from types import SimpleNamespace\n"
      "inf, nan = np.inf, np.nan\n"
      "batch = SimpleNamespace(\n";
  const auto add = [&text](const char* name, const std::string& value) {
    text += fmt::format("    {}={},\n", name, value);
  };
  add("input", request.input == harness::RowInput::probabilities ? "\"probs\"" : "\"logits\"");
  add("dtype", fmt::format("\"{}\"", to_string(request.dtype)));
  add("rows", std::to_string(rows));
  add("vocab", std::to_string(vocab));
  add("outputs", std::to_string(outputs));
  add("num_samples", std::to_string(samples));
  add("logits", logits);
  add("temperature", array(of_rows(request, &reference::RowParameters::temperature), "float32"));
  add("top_k", array(of_rows(request, &reference::RowParameters::top_k), "int32"));
  add("top_p", array(of_rows(request, &reference::RowParameters::top_p), "float32"));
  add("min_p", array(of_rows(request, &reference::RowParameters::min_p), "float32"));
  add("tie_rule", request.tie_rule == TieRule::lowest_id ? "\"lowest_id\"" : "\"keep_all\"");
  add("filter_order", request.filter_order == FilterOrder::joint ? "\"joint\"" : "\"top_k_first\"");
  add("allowed", optional(!request.allowed.empty(),
                          matrix(request.allowed, "uint32", rows, harness::words_for(vocab))));
  add("active", optional(!request.active.empty(), array(request.active, "uint8")));
  add("indices", optional(request.with_indices, array(request.indices, "int32")));
  add("seed_is_scalar", request.seed_is_scalar ? "True" : "False");
  add("seed", array(seeds_of(fuzz_case), "uint64"));
  add("offset", array(offsets_of(fuzz_case), "uint64"));
  add("words", optional(!request.words.empty(), matrix(request.words, "uint64", outputs, samples)));
  add("out_tokens", fmt::format("np.full(({}, {}), -1, np.int32)", outputs, samples));
  for (const char* const name : {"out_statuses", "out_support_size", "out_logprob",
                                 "out_logprob_filtered", "out_mask", "out_probs"}) {
    add(name, "None");
  }
  return text + fmt::format(")\nprint({}(batch))\n", sampler);
}

std::string c_call(const FuzzCase& fuzz_case) {
  if (!can_be_shown(fuzz_case)) return {};
  const Request& request = fuzz_case.request;
  const std::int64_t outputs = request.outputs(), samples = samples_of(fuzz_case);
  std::string arrays, fields;
  const auto set = [&fields](const char* name, const std::string& value) {
    fields += fmt::format("  batch.{} = {};\n", name, value);
  };
  // An empty array gets one unused value, because C has no empty arrays.
  const auto array = [&](const char* type, const char* name, const auto& values) {
    arrays += fmt::format("  static const {} {}[] = {{{}}};\n", type, name,
                          values.empty() ? "0" : listed(kC, values));
    set(name, name);
  };
  if (request.dtype == DType::float32) {
    array("float", "logits", request.logits);
  } else {
    array("uint16_t", "logits", narrow(request));  // bits
  }
  set("input", request.input == harness::RowInput::probabilities ? "1" : "0");
  set("dtype", std::to_string(static_cast<int>(request.dtype)));
  set("rows", std::to_string(request.rows));
  set("vocab", std::to_string(request.vocab));
  set("row_stride", std::to_string(request.vocab));
  array("float", "temperature", of_rows(request, &reference::RowParameters::temperature));
  array("int32_t", "top_k", of_rows(request, &reference::RowParameters::top_k));
  array("float", "top_p", of_rows(request, &reference::RowParameters::top_p));
  array("float", "min_p", of_rows(request, &reference::RowParameters::min_p));
  set("tie_rule", request.tie_rule == TieRule::lowest_id ? "1" : "0");
  set("filter_order", request.filter_order == FilterOrder::joint ? "1" : "0");
  if (!request.allowed.empty()) {
    array("uint32_t", "allowed", request.allowed);
    set("allowed_stride", std::to_string(harness::words_for(request.vocab)));
  }
  if (!request.active.empty()) array("uint8_t", "active", request.active);
  if (request.with_indices) array("int32_t", "indices", request.indices);
  set("outputs", std::to_string(outputs));
  set("num_samples", std::to_string(samples));
  set("seed_is_scalar", request.seed_is_scalar ? "1" : "0");
  array("uint64_t", "seed", seeds_of(fuzz_case));
  array("uint64_t", "offset", offsets_of(fuzz_case));
  if (!request.words.empty()) array("uint64_t", "words", request.words);
  return fmt::format(
      "#include <fairdraw/plugin.h>\n"
      "#include <math.h>\n"
      "#include <stdio.h>\n"
      "int main(void) {{\n"
      "{}"
      "  static int32_t tokens[{}];\n"
      "  char message[256] = \"\";\n"
      "  fairdraw_batch batch = {{.struct_size = sizeof(fairdraw_batch)}};\n"
      "{}"
      "  batch.tokens = tokens;\n"
      "  if (fairdraw_plugin_run(&batch, message, sizeof(message)) != 0) {{\n"
      "    printf(\"refused: %s\\n\", message);\n"
      "    return 1;\n"
      "  }}\n"
      "  for (int i = 0; i < {}; ++i) printf(\"%d\\n\", (int)tokens[i]);\n"
      "  return 0;\n"
      "}}\n",
      arrays, std::max<std::int64_t>(1, outputs * samples), fields, outputs * samples);
}

}  // namespace fairdraw::suites::fuzz
