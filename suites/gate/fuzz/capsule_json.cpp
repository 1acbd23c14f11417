// Reads and writes the fields of a capsule. The limits of fuzz_case.h bound the memory that a file
// can make this program allocate, because every size is checked before its values are read.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <utility>

#include "harness/contract/semantics_text.h"
#include "harness/contract/usage_error.h"
#include "harness/run/calls/logits_source.h"
#include "harness/statistics/compensated_sum.h"
#include "reports/json_fields.h"
#include "suites/gate/fuzz/capsule.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::words_for;
using reports::Decimal;
using reports::Json;
using reports::JsonObject;
using reports::Length;
using reports::Value;
using reports::Whole;

constexpr reports::Format kFormat{.name = "capsule", .pointers = true, .deepest = 8};
constexpr Length kAnyList{0, 1 << 12};
constexpr Whole kDrafts{0, 64};
constexpr Whole kSize{0, kMaxCaseOutputs}, kVocab{1, kMaxVocab};
constexpr auto kMaxCapsuleDraws = static_cast<std::int64_t>(kMaxDistributionDraws);

// --- Numbers, bit for bit ------------------------------------------------------------------------

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
std::string digits(T value) {
  return fmt::format("{:0{}x}", std::bit_cast<BitsOf<T>>(value), 2 * sizeof(T));
}

template <class Number>
bool parse_whole(std::string_view text, Number& number, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

template <class T>
bool parse_digits(std::string_view text, T& value) {
  BitsOf<T> bits = 0;
  if (!parse_whole(text, bits, 16)) return false;
  value = std::bit_cast<T>(bits);
  return digits(value) == text;
}

// A float32 that is written as the hexadecimal digits of its bits.
struct Bits {
  float& value;
};

Json written(const Bits& bits) { return digits(bits.value); }

void read(const Value& value, const Bits& to) {
  if (value.json().is_string() && parse_digits(value.json().get<std::string>(), to.value)) return;
  value.refuse("expected a string with the 8 hexadecimal digits of a float32");
}

// Values in which runs of equal values are joined: ["00000000*40", "3f800000"].
template <class T>
struct Runs {
  std::vector<T>& values;
  std::int64_t size = 0;
};

template <class T>
Json written(const Runs<T>& runs) {
  const std::vector<T>& values = runs.values;
  Json list = Json::array();
  for (std::size_t i = 0; i < values.size();) {
    const std::string text = digits(values[i]);
    std::size_t end = i + 1;
    // Bits are compared, so that -0 differs from 0 and a NaN equals itself.
    const auto bits = [&values](std::size_t at) { return std::bit_cast<BitsOf<T>>(values[at]); };
    while (end < values.size() && bits(end) == bits(i)) ++end;
    list.push_back(end - i == 1 ? text : fmt::format("{}*{}", text, end - i));
    i = end;
  }
  return list;
}

template <class T>
void read(const Value& value, const Runs<T>& to) {
  expect_array(value);
  const Json& list = value.json();
  const auto wanted = static_cast<std::size_t>(to.size);
  to.values.clear();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Value here(list[i], value, i);
    const std::string text = list[i].is_string() ? list[i].get<std::string>() : std::string();
    const std::size_t star = std::min(text.find('*'), text.size());
    T one{};
    std::uint64_t count = 1;
    const bool good =
        parse_digits(std::string_view(text).substr(0, star), one) &&
        (star == text.size() || (parse_whole(std::string_view(text).substr(star + 1), count, 10) &&
                                 std::to_string(count) == text.substr(star + 1)));
    if (!good || count == 0) {
      here.refuse(
          fmt::format("expected {} hexadecimal digits, and *COUNT for a run", 2 * sizeof(T)));
    }
    if (count > wanted - to.values.size()) {  // the count is checked before any memory is allocated
      here.fail(here.path(),
                fmt::format("makes {} + {} values; expected {}", to.values.size(), count, to.size));
    }
    to.values.insert(to.values.end(), count, one);
  }
  if (to.values.size() == wanted) return;
  value.fail(value.path(), fmt::format("has {} values; expected {}", to.values.size(), to.size));
}

struct Decimals {
  std::vector<std::uint64_t>& numbers;
  std::int64_t size = 0;
};

Json written(const Decimals& decimals) {
  Json list = Json::array();
  for (std::uint64_t& number : decimals.numbers) list.push_back(written(Decimal{number}));
  return list;
}

void read(const Value& value, const Decimals& to) {
  Length::exactly(to.size).expect(value, "numbers as strings");
  to.numbers.resize(value.json().size());
  for (std::size_t i = 0; i < to.numbers.size(); ++i) {
    read(Value(value.json()[i], value, i), Decimal{to.numbers[i]});
  }
}

// Values that the dtype must be able to represent.
struct OfDtype {
  DType dtype;
  std::int64_t vocab;

  void operator()(const Value& value, const Runs<float>& runs) const {
    for (std::size_t i = 0; i < runs.values.size(); ++i) {
      const float number = runs.values[i], rounded = harness::rounded_to(dtype, number);
      if (rounded == number || (std::isnan(rounded) && std::isnan(number))) continue;
      const auto place = static_cast<std::int64_t>(i);
      value.fail(value.path(), fmt::format("has {} for token {} of row {}, which is no {}", number,
                                           place % vocab, place / vocab, to_string(dtype)));
    }
  }
};

// Returns a * b, and makes the reader fail if the product exceeds `limit`. Both factors of the
// product are at most 2^22 by the limits of their fields.
std::int64_t bounded_product(const JsonObject& json, const char* key, std::int64_t a,
                             std::int64_t b, std::int64_t limit) {
  if (json.reading() && a * b > limit) {
    json.fail(key, fmt::format("makes {} values; at most {}", a * b, limit));
  }
  return a * b;
}

// --- Cases ---------------------------------------------------------------------------------------

void parameter_fields(JsonObject& json, reference::RowParameters& parameters) {
  json("temperature", Bits{parameters.temperature});
  json("top_k", parameters.top_k);
  json("top_p", Bits{parameters.top_p});
  json("min_p", Bits{parameters.min_p});
}

void processing_row_fields(JsonObject& json, reference::RowProcessing& row) {
  json("repetition_penalty", Bits{row.repetition_penalty});
  json("frequency_penalty", Bits{row.frequency_penalty});
  json("presence_penalty", Bits{row.presence_penalty});
  json("min_tokens", row.min_tokens);
  if (json.has("top_n_sigma", row.top_n_sigma != 0)) json("top_n_sigma", Bits{row.top_n_sigma});
  const auto parameter = [&json](const char* name, auto& value, auto neutral) {
    if (!json.has(name, value != neutral)) return;
    if constexpr (std::is_same_v<decltype(value), float&>) {
      json(name, Bits{value});
    } else {
      json(name, value);
    }
  };
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) parameter(#name, row.name, neutral);
#define FAIRDRAW_HISTORY_RULE FAIRDRAW_PROBABILITY_FILTER
#include "fairdraw/processing_parameters.inc"
  json("prompt", row.prompt, kAnyList);
  json("output", row.output, kAnyList);
  json("output_length", row.output_length);
  json.list(
      "biases", row.biases,
      [](JsonObject& of, reference::RowProcessing::Bias& bias) {
        of("id", bias.id);
        of("value", Bits{bias.value});
      },
      kAnyList);
  json("stop_ids", row.stop_ids, kAnyList);
  json("bad_words", row.bad_words, kAnyList);
  json("bad_word_lengths", row.bad_word_lengths, kAnyList);
  json("allowed_ids", row.allowed_ids, kAnyList);
  const auto list = [&json](const char* name, std::vector<std::int32_t>& ids) {
    if (json.has(name, !ids.empty())) json(name, ids, kAnyList);
  };
  list("forced_tokens", row.forced_tokens);
  list("dry_breakers", row.dry_breakers);
}

// Reads or writes the fields that calls and verifications have in common.

template <class Request>
void rule_fields(JsonObject& json, Request& request) {
  json.choice("tie_rule", request.tie_rule, {"keep_all", "lowest_id"});
  json.choice("filter_order", request.filter_order, {"top_k_first", "joint"});
}

template <class Request>
void processing_fields(JsonObject& json, Request& request, std::int64_t rows) {
  if (!json.has("processing", !request.processing.empty())) return;
  json.list("processing", request.processing, processing_row_fields, Length::exactly(rows));
  json.optional("grown", request.history_form.grown);
}

template <class Request>
void allowed_fields(JsonObject& json, Request& request, std::int64_t rows) {
  if (!json.has("allowed", !request.allowed.empty())) return;
  json("allowed", Runs<std::uint32_t>{request.allowed, rows * words_for(request.vocab)});
}

template <class Request>
void seed_fields(JsonObject& json, Request& request, std::int64_t outputs) {
  json("seed_is_scalar", request.seed_is_scalar);
  const std::int64_t seeds = request.seed_is_scalar ? 1 : outputs;
  json("seed", Decimals{request.seed, seeds});
  json("offset", Decimals{request.offset, seeds});
}

void request_fields(JsonObject& json, FuzzCase& fuzz_case) {
  harness::Request& request = fuzz_case.request;
  json.choice("input", request.input, {"logits", "probabilities"});
  json.choice("dtype", request.dtype, {"float32", "float16", "bfloat16"});
  const bool distribution = fuzz_case.kind == CaseKind::distribution;
  json("rows", request.rows, distribution ? Whole{1, 1} : kSize);
  json("vocab", request.vocab, kVocab);
  const std::int64_t rows = request.rows;
  const std::int64_t values = bounded_product(json, "vocab", rows, request.vocab, kMaxCaseValues);
  json("row_stride", request.row_stride, Whole{0, 2 * kMaxVocab});
  if (json.reading() && request.row_stride != 0 && request.row_stride < request.vocab) {
    json.fail("row_stride", fmt::format("is {}; expected 0, or at least vocab, {}",
                                        request.row_stride, request.vocab));
  }
  bounded_product(json, "row_stride", rows, request.row_stride, 2 * kMaxCaseValues);
  json("misalignment", request.misalignment, Whole{0, 63});
  rule_fields(json, request);
  json("values", Runs<float>{request.logits, values}, OfDtype{request.dtype, request.vocab});
  json.list("parameters", request.parameters, parameter_fields, Length::exactly(rows));
  if (!distribution) {
    processing_fields(json, request, rows);
    if (json.has("processing", false) && request.input != harness::RowInput::logits) {
      json.fail("processing", "is there, and rows are probabilities");
    }
  }
  allowed_fields(json, request, rows);
  if (distribution) {
    json("draws", fuzz_case.draws, Whole{1, kMaxCapsuleDraws});
    return;
  }
  json.optional("active", request.active, Length::exactly(rows), Whole{0, 1});
  request.with_indices = json.has("indices", request.with_indices);
  if (request.with_indices) json("indices", request.indices, Length{1, kMaxCaseOutputs});
  json("num_samples", request.num_samples, Whole{1, kMaxCaseOutputs});
  const std::int64_t words =
      bounded_product(json, "num_samples", request.outputs(), request.num_samples, kMaxCaseValues);
  seed_fields(json, request, request.outputs());
  if (json.has("words", !request.words.empty())) json("words", Decimals{request.words, words});
}

void chain_fields(JsonObject& json, harness::ChainRequest& chain) {
  json("batch", chain.batch, kSize);
  json("num_draft_tokens", chain.num_draft_tokens, kDrafts);
  json("vocab", chain.vocab, kVocab);
  const std::int64_t batch = chain.batch, drafts = batch * chain.num_draft_tokens;
  const std::int64_t target =
      bounded_product(json, "vocab", drafts + batch, chain.vocab, kMaxCaseValues);
  json("draft_probs", Runs<float>{chain.draft_probs, drafts * chain.vocab});
  json("draft_tokens", chain.draft_tokens, Length::exactly(drafts));
  json("target_probs", Runs<float>{chain.target_probs, target});
  seed_fields(json, chain, batch);
  if (!json.has("bonus_words", !chain.bonus_words.empty())) return;
  json("accept_words", Decimals{chain.accept_words, drafts});
  json("recover_words", Decimals{chain.recover_words, drafts});
  json("bonus_words", Decimals{chain.bonus_words, batch});
}

// Reads or writes the number of the first row of each request. The numbers begin with 0, increase,
// and end with the number of rows.
void row_begin_fields(JsonObject& json, harness::SpeculationRequest& request, std::int64_t rows) {
  std::vector<std::int64_t>& begins = request.row_begins;
  json.optional("row_begins", begins, Length::exactly(request.batch + 1), Whole{0, rows});
  if (!json.reading()) return;
  const std::int64_t unpacked = request.batch * (request.max_draft + 1);
  if (begins.empty() && rows != unpacked) {
    json.fail("rows", fmt::format("is {}; expected {}, batch * (max_draft + 1)", rows, unpacked));
  }
  if (begins.empty()) return;
  const bool grow =
      std::adjacent_find(begins.begin(), begins.end(), std::greater_equal<>()) == begins.end();
  if (!grow || begins.front() != 0 || begins.back() != rows) {
    json.fail("row_begins", fmt::format("is not 0, then growing, then rows, {}", rows));
  }
}

void speculation_fields(JsonObject& json, harness::SpeculationRequest& request) {
  json.choice("dtype", request.dtype, {"float32", "float16", "bfloat16"});
  json("batch", request.batch, Whole{1, kMaxCaseOutputs});
  json("max_draft", request.max_draft, kDrafts);
  json("max_depth", request.max_depth, kDrafts);
  std::int64_t rows = json.reading() ? 0 : request.rows();
  json("rows", rows, Whole{request.batch, kMaxCaseOutputs});
  json("vocab", request.vocab, kVocab);
  json("trees", request.trees);
  rule_fields(json, request);
  const OfDtype of_dtype{request.dtype, request.vocab};
  const std::int64_t values = bounded_product(json, "vocab", rows, request.vocab, kMaxCaseValues);
  json("target", Runs<float>{request.target, values}, of_dtype);
  const Length requests = Length::exactly(request.batch);
  json.list("parameters", request.parameters, parameter_fields, requests);
  processing_fields(json, request, rows);
  allowed_fields(json, request, rows);
  row_begin_fields(json, request, rows);
  json.optional("active", request.active, requests, Whole{0, 1});
  seed_fields(json, request, request.batch);
  const std::int64_t places = rows - request.batch;
  json("draft_tokens", request.draft_tokens, Length::exactly(places));
  json.optional("draft_lengths", request.draft_lengths, requests);
  if (request.trees) json("parents", request.parents, Length::exactly(places));
  json.choice("draft_law", request.draft_law, {"none", "probs", "logits"});
  if (request.draft_law == DraftLaw::none) return;
  if (request.trees && json.reading()) json.fail("draft_law", "is known, and drafts are trees");
  json("draft", Runs<float>{request.draft, places * request.vocab}, of_dtype);
  if (request.draft_law != DraftLaw::logits) return;
  json.list("draft_parameters", request.draft_parameters, parameter_fields, requests);
}

void case_fields(JsonObject& json, FuzzCase& fuzz_case) {
  json("salt", Decimal{fuzz_case.salt});
  if (fuzz_case.kind == CaseKind::chain) return chain_fields(json, fuzz_case.chain);
  if (fuzz_case.kind == CaseKind::speculation) {
    return speculation_fields(json, fuzz_case.speculation);
  }
  request_fields(json, fuzz_case);
}

// --- The capsule ---------------------------------------------------------------------------------

// Checks that the probabilities are finite and not negative, and that they sum to 1. If V float64
// probabilities were each rounded once, their sum differs from 1 by at most 2^-53, apart from the
// rounding of the sum itself.
void is_distribution(const Value& value, const Runs<double>& runs) {
  statistics::CompensatedSum sum;
  for (std::size_t i = 0; i < runs.values.size(); ++i) {
    const double p = runs.values[i];
    if (!(p >= 0 && p <= 1)) {
      value.fail(value.path(), fmt::format("has {} for token {}; expected 0 to 1", p, i));
    }
    sum.add(p);
  }
  constexpr double kRounding = 0x1p-51;
  if (std::fabs(sum.value() - 1) <= kRounding) return;
  value.fail(value.path(), fmt::format("sums to {:.17g}; expected 1 within 2^-51", sum.value()));
}

void drawn_fields(JsonObject& json, Capsule& capsule) {
  json("draws", capsule.counted_draws, Whole{0, kMaxCapsuleDraws});
  json("counts", capsule.counts, Length::exactly(capsule.fuzz_case.request.vocab),
       Whole{0, kMaxCapsuleDraws});
  std::uint64_t sum = 0;
  for (const std::uint64_t count : capsule.counts) sum += count;
  if (json.reading() && sum > capsule.counted_draws) {
    json.fail("counts", fmt::format("sum to {}, of {} draws", sum, capsule.counted_draws));
  }
}

void is_short(const Value& value, const std::string& text) {
  constexpr std::size_t kLongestText = 4096;
  if (text.size() <= kLongestText) return;
  value.fail(value.path(),
             fmt::format("has {} bytes; at most {} are allowed", text.size(), kLongestText));
}

void is_semantics(const Value& value, const std::string& text) {
  try {
    harness::semantics_from_text(text);
  } catch (const harness::UsageError& error) {
    value.fail(value.path(), "is " + reports::shown(value.json()) + ": " + error.what());
  }
}

struct PropertyOfKind {
  CaseKind kind;

  void operator()(const Value& value, const std::string& name) const {
    const auto property = std::ranges::find(properties(), name, &Property::name);
    if (property == properties().end()) {
      value.fail(value.path(), "is " + reports::shown(value.json()) + ", which is no property");
    }
    if (property->kind == kind) return;
    value.fail(value.path(), fmt::format("is {}, which is not for kind {}", name, to_string(kind)));
  }
};

void capsule_fields(JsonObject& json, Capsule& capsule) {
  std::uint64_t version = kCapsuleVersion;
  json("schema_version", version, [](const Value& value, std::uint64_t number) {
    if (number != kCapsuleVersion) value.refuse("this version reads 1");
  });
  const CaseKind& kind = capsule.fuzz_case.kind;
  json.choice("kind", capsule.fuzz_case.kind, {"batch", "chain", "law", "verification"});
  json.object("tool", [&capsule](JsonObject& tool) {
    constexpr const char* kName[] = {"fairdraw"};
    std::string name = kName[0];
    tool("name", name, reports::OneOf{kName});
    tool("version", capsule.tool_version, is_short);
  });
  json("sampler", capsule.sampler, is_short);
  json("semantics", capsule.semantics, is_short, is_semantics);
  json("property", capsule.property, is_short, PropertyOfKind{kind});
  json("message", capsule.message, is_short);
  json.object("case", [&capsule](JsonObject& of) { case_fields(of, capsule.fuzz_case); });
  if (json.reading() && kind == CaseKind::distribution) capsule.distribution.emplace();
  if (!capsule.distribution) return;
  json.object("oracle", [&capsule](JsonObject& oracle) {
    oracle("probability",
           Runs<double>{capsule.distribution->probability, capsule.fuzz_case.request.vocab},
           is_distribution);
  });
  json.object("drawn", [&capsule](JsonObject& drawn) { drawn_fields(drawn, capsule); });
}

}  // namespace

std::string to_json(const Capsule& capsule) {
  const Json json = object_json(capsule, capsule_fields);
  std::string text = json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
  if (text.size() > kMaxCapsuleBytes) {
    throw std::length_error(fmt::format("the case needs {} bytes; a capsule has at most {}",
                                        text.size(), kMaxCapsuleBytes));
  }
  return text;
}

Capsule from_json(std::string_view text) {
  if (text.size() > kMaxCapsuleBytes) {
    throw harness::UsageError(fmt::format("capsule: has more than {} bytes", kMaxCapsuleBytes));
  }
  Capsule capsule;
  try {
    const Json json = reports::parse_json(text, kFormat);
    JsonObject::read_object(Value(json, kFormat),
                            [&capsule](JsonObject& of) { capsule_fields(of, capsule); });
  } catch (const reports::JsonError& error) {
    throw harness::UsageError(error.what());
  }
  return capsule;
}

}  // namespace fairdraw::suites::fuzz
