#include "suites/gate/fuzz/serving_capsules.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "harness/run/calls/logits_source.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::SpeculationRequest;
using reference::RowProcessing;

constexpr std::int64_t kLongestList = 1 << 12;
constexpr std::int64_t kMaxDrafts = 64;

std::string digits(float value) {
  return fmt::format("{:08x}", std::bit_cast<std::uint32_t>(value));
}
std::string digits(double value) {
  return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(value));
}
std::string digits(std::uint32_t value) { return fmt::format("{:08x}", value); }

// Values with their runs: ["00000000*40", "3f800000"].
template <class T>
Json runs_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (std::size_t i = 0; i < values.size();) {
    const std::string text = digits(values[i]);
    std::size_t end = i + 1;
    // Bits, not values: -0 is not 0, and a NaN is equal to itself.
    while (end < values.size() && std::memcmp(&values[end], &values[i], sizeof(T)) == 0) ++end;
    list.push_back(end - i == 1 ? text : fmt::format("{}*{}", text, end - i));
    i = end;
  }
  return list;
}

reference::RowParameters parameters_of(Fields fields) {
  reference::RowParameters parameters;
  parameters.temperature = fields.float_bits("temperature");
  parameters.top_k = static_cast<std::int32_t>(fields.integer("top_k", INT32_MIN, INT32_MAX));
  parameters.top_p = fields.float_bits("top_p");
  parameters.min_p = fields.float_bits("min_p");
  fields.expect_no_other_field();
  return parameters;
}

bool same_or_both_nan(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::vector<std::int32_t> ids(Fields& fields, const std::string& key, std::int64_t size) {
  std::vector<std::int32_t> list;
  for (const std::int64_t id : fields.integers(key, size, INT32_MIN, INT32_MAX)) {
    list.push_back(static_cast<std::int32_t>(id));
  }
  return list;
}

std::int64_t size_of(const std::string& place, const Json& list) {
  const auto size = static_cast<std::int64_t>(list.is_array() ? list.size() : 0);
  if (!list.is_array() || size > kLongestList) {
    bad_input(place,
              fmt::format("is {}; expected an array of at most {}", shown(list), kLongestList));
  }
  return size;
}

// A list of any length.
std::vector<std::int32_t> ids(Fields& fields, const std::string& key) {
  return ids(fields, key, size_of(fields.place(key), fields.at(key)));
}

std::int32_t number(Fields& fields, const std::string& key) {
  return static_cast<std::int32_t>(fields.integer(key, INT32_MIN, INT32_MAX));
}

Json row_json(const RowProcessing& row) {
  Json biases = Json::array();
  for (const auto& bias : row.biases) {
    biases.push_back({{"id", bias.id}, {"value", digits(bias.value)}});
  }
  return {{"repetition_penalty", digits(row.repetition_penalty)},
          {"frequency_penalty", digits(row.frequency_penalty)},
          {"presence_penalty", digits(row.presence_penalty)},
          {"min_tokens", row.min_tokens},
          {"prompt", plain(row.prompt)},
          {"output", plain(row.output)},
          {"output_length", row.output_length},
          {"biases", biases},
          {"stop_ids", plain(row.stop_ids)},
          {"bad_words", plain(row.bad_words)},
          {"bad_word_lengths", plain(row.bad_word_lengths)},
          {"allowed_ids", plain(row.allowed_ids)}};
}

RowProcessing read_row(Fields fields) {
  RowProcessing row;
  row.repetition_penalty = fields.float_bits("repetition_penalty");
  row.frequency_penalty = fields.float_bits("frequency_penalty");
  row.presence_penalty = fields.float_bits("presence_penalty");
  row.min_tokens = number(fields, "min_tokens");
  row.prompt = ids(fields, "prompt");
  row.output = ids(fields, "output");
  row.output_length = number(fields, "output_length");
  const Json& biases = fields.at("biases");
  const std::int64_t count = size_of(fields.place("biases"), biases);
  for (std::int64_t i = 0; i < count; ++i) {
    Fields bias(biases[static_cast<std::size_t>(i)],
                fmt::format("{}/{}", fields.place("biases"), i));
    row.biases.push_back({number(bias, "id"), bias.float_bits("value")});
    bias.expect_no_other_field();
  }
  row.stop_ids = ids(fields, "stop_ids");
  row.bad_words = ids(fields, "bad_words");
  row.bad_word_lengths = ids(fields, "bad_word_lengths");
  row.allowed_ids = ids(fields, "allowed_ids");
  fields.expect_no_other_field();
  return row;
}

// Where the rows of requests begin: 0, growing, the end of all.
void read_row_begins(Fields& fields, std::int64_t rows, SpeculationRequest& request) {
  if (!fields.has("row_begins")) {
    if (rows == request.batch * (request.max_draft + 1)) return;
    bad_input(fields.place("rows"), fmt::format("is {}; expected {}, batch * (max_draft + 1)", rows,
                                                request.batch * (request.max_draft + 1)));
  }
  request.row_begins = fields.integers("row_begins", request.batch + 1, 0, rows);
  const std::vector<std::int64_t>& begins = request.row_begins;
  const bool grow =
      std::adjacent_find(begins.begin(), begins.end(), std::greater_equal<>()) == begins.end();
  if (!grow || begins.front() != 0 || begins.back() != rows) {
    bad_input(fields.place("row_begins"),
              fmt::format("is not 0, then growing, then rows, {}", rows));
  }
}

void read_drafts(Fields& fields, std::int64_t places, SpeculationRequest& request) {
  request.draft_tokens = ids(fields, "draft_tokens", places);
  if (fields.has("draft_lengths")) {
    request.draft_lengths = ids(fields, "draft_lengths", request.batch);
  }
  if (request.trees) request.parents = ids(fields, "parents", places);
  request.draft_law =
      static_cast<DraftLaw>(fields.choice("draft_law", {"none", "probs", "logits"}));
  if (request.draft_law == DraftLaw::none) return;
  if (request.trees) bad_input(fields.place("draft_law"), "is known, and drafts are trees");
  request.draft = fields.floats("draft", places * request.vocab);
  expect_dtype(fields, "draft", request.draft, request.vocab, request.dtype);
  if (request.draft_law == DraftLaw::logits) {
    request.draft_parameters = read_parameters(fields, "draft_parameters", request.batch);
  }
}

}  // namespace

Json runs(const std::vector<float>& values) { return runs_of(values); }
Json runs(const std::vector<double>& values) { return runs_of(values); }
Json runs(const std::vector<std::uint32_t>& values) { return runs_of(values); }

Json decimals(const std::vector<std::uint64_t>& values) {
  Json list = Json::array();
  for (const std::uint64_t value : values) list.push_back(std::to_string(value));
  return list;
}

Json parameters_json(const std::vector<reference::RowParameters>& parameters) {
  Json list = Json::array();
  for (const reference::RowParameters& p : parameters) {
    list.push_back({{"temperature", digits(p.temperature)},
                    {"top_k", p.top_k},
                    {"top_p", digits(p.top_p)},
                    {"min_p", digits(p.min_p)}});
  }
  return list;
}

std::vector<reference::RowParameters> read_parameters(Fields& fields, const std::string& key,
                                                      std::int64_t size) {
  const Json& list = fields.at(key);
  if (!list.is_array() || list.size() != static_cast<std::size_t>(size)) {
    bad_input(fields.place(key),
              fmt::format("is {}; expected an array of {} objects", shown(list), size));
  }
  std::vector<reference::RowParameters> parameters;
  for (std::size_t i = 0; i < list.size(); ++i) {
    parameters.push_back(parameters_of({list[i], fmt::format("{}/{}", fields.place(key), i)}));
  }
  return parameters;
}

void expect_dtype(const Fields& fields, const std::string& key, const std::vector<float>& values,
                  std::int64_t vocab, DType dtype) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float value = values[i];
    if (same_or_both_nan(harness::rounded_to(dtype, value), value)) continue;
    bad_input(fields.place(key),
              fmt::format("has {} for token {} of row {}, which is no {}", value,
                          static_cast<std::int64_t>(i) % vocab,
                          static_cast<std::int64_t>(i) / vocab, to_string(dtype)));
  }
}

std::int64_t bounded_product(const std::string& place, std::int64_t a, std::int64_t b,
                             std::int64_t limit) {
  // Both are at most 2^22 by the limits of their own fields: no overflow.
  if (a * b > limit) bad_input(place, fmt::format("makes {} values; at most {}", a * b, limit));
  return a * b;
}

Json processing_json(const std::vector<RowProcessing>& rows) {
  Json list = Json::array();
  for (const RowProcessing& row : rows) list.push_back(row_json(row));
  return list;
}

std::vector<RowProcessing> read_processing(Fields& fields, const std::string& key,
                                           std::int64_t rows) {
  const Json& list = fields.at(key);
  if (!list.is_array() || list.size() != static_cast<std::size_t>(rows)) {
    bad_input(fields.place(key),
              fmt::format("is {}; expected an array of {} objects", shown(list), rows));
  }
  std::vector<RowProcessing> processing;
  for (std::size_t i = 0; i < list.size(); ++i) {
    processing.push_back(read_row({list[i], fmt::format("{}/{}", fields.place(key), i)}));
  }
  return processing;
}

Json speculation_json(const FuzzCase& fuzz_case) {
  const SpeculationRequest& request = fuzz_case.speculation;
  constexpr const char* kDistributions[] = {"none", "probs", "logits"};
  Json json = {
      {"salt", std::to_string(fuzz_case.salt)},
      {"dtype", to_string(request.dtype)},
      {"batch", request.batch},
      {"max_draft", request.max_draft},
      {"max_depth", request.max_depth},
      {"rows", request.rows()},
      {"vocab", request.vocab},
      {"trees", request.trees},
      {"tie_rule", request.tie_rule == TieRule::keep_all ? "keep_all" : "lowest_id"},
      {"filter_order", request.filter_order == FilterOrder::top_k_first ? "top_k_first" : "joint"},
      {"target", runs(request.target)},
      {"parameters", parameters_json(request.parameters)},
  };
  if (!request.processing.empty()) {
    json["processing"] = processing_json(request.processing);
    if (request.history_form.grown) json["grown"] = true;
  }
  if (!request.allowed.empty()) json["allowed"] = runs(request.allowed);
  if (!request.row_begins.empty()) json["row_begins"] = plain(request.row_begins);
  if (!request.active.empty()) json["active"] = plain(request.active);
  json["seed_is_scalar"] = request.seed_is_scalar;
  json["seed"] = decimals(request.seed);
  json["offset"] = decimals(request.offset);
  json["draft_tokens"] = plain(request.draft_tokens);
  if (!request.draft_lengths.empty()) json["draft_lengths"] = plain(request.draft_lengths);
  if (request.trees) json["parents"] = plain(request.parents);
  json["draft_law"] = kDistributions[static_cast<std::size_t>(request.draft_law)];
  if (request.draft_law == DraftLaw::none) return json;
  json["draft"] = runs(request.draft);
  if (request.draft_law == DraftLaw::logits) {
    json["draft_parameters"] = parameters_json(request.draft_parameters);
  }
  return json;
}

void read_speculation(Fields fields, FuzzCase& fuzz_case) {
  SpeculationRequest& request = fuzz_case.speculation;
  fuzz_case.salt = fields.decimal("salt");
  request.dtype = static_cast<DType>(fields.choice("dtype", {"float32", "float16", "bfloat16"}));
  request.batch = fields.integer("batch", 1, kMaxCaseOutputs);
  request.max_draft = fields.integer("max_draft", 0, kMaxDrafts);
  request.max_depth = fields.integer("max_depth", 0, kMaxDrafts);
  const std::int64_t rows = fields.integer("rows", request.batch, kMaxCaseOutputs);
  request.vocab = fields.integer("vocab", 1, kMaxVocab);
  request.trees = fields.boolean("trees");
  request.tie_rule = static_cast<TieRule>(fields.choice("tie_rule", {"keep_all", "lowest_id"}));
  request.filter_order =
      static_cast<FilterOrder>(fields.choice("filter_order", {"top_k_first", "joint"}));
  request.target = fields.floats(
      "target", bounded_product(fields.place("vocab"), rows, request.vocab, kMaxCaseValues));
  expect_dtype(fields, "target", request.target, request.vocab, request.dtype);
  request.parameters = read_parameters(fields, "parameters", request.batch);
  if (fields.has("processing")) {
    request.processing = read_processing(fields, "processing", rows);
    if (fields.has("grown")) request.history_form.grown = fields.boolean("grown");
  }
  if (fields.has("allowed")) {
    for (const std::uint64_t word :
         fields.bit_runs("allowed", 8, rows * harness::words_for(request.vocab))) {
      request.allowed.push_back(static_cast<std::uint32_t>(word));
    }
  }
  read_row_begins(fields, rows, request);
  if (fields.has("active")) {
    for (const std::int64_t active : fields.integers("active", request.batch, 0, 1)) {
      request.active.push_back(static_cast<std::uint8_t>(active));
    }
  }
  request.seed_is_scalar = fields.boolean("seed_is_scalar");
  const std::int64_t seeds = request.seed_is_scalar ? 1 : request.batch;
  request.seed = fields.decimals("seed", seeds);
  request.offset = fields.decimals("offset", seeds);
  read_drafts(fields, rows - request.batch, request);
  fields.expect_no_other_field();
}

}  // namespace fairdraw::suites::fuzz
