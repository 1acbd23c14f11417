#include "tests/golden/golden_rows.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/inputs/counter_random.h"

namespace fairdraw::suites {
namespace {

using harness::CounterRandom;
using nlohmann::ordered_json;

constexpr const char* kFormat = "fairdraw golden tokens 1";
constexpr int kDTypes = 3;
constexpr int kFilters = 12;
constexpr int kRounds = 4;

std::int64_t vocab_of(const CounterRandom& random) {
  switch (random.below(20, 10)) {
    case 0:
      return 131072;
    case 1:
      return std::array<std::int64_t, 5>{32000, 50304, 65537, 128256, 131071}[random.below(5, 11)];
    case 2:  // values around powers of two
    case 3:
    case 4: {
      const std::int64_t power = std::int64_t{1} << random.below(15, 11);
      return std::max<std::int64_t>(1, power + static_cast<std::int64_t>(random.below(3, 12)) - 1);
    }
    case 5:
    case 6:
      return static_cast<std::int64_t>(2048 + random.below(20000, 11));
    case 7:
    case 8:
    case 9:
    case 10:
      return static_cast<std::int64_t>(1 + random.below(127, 11));
    default:
      return static_cast<std::int64_t>(128 + random.below(1920, 11));
  }
}

/// Sets every filter alone, the usual combinations, and the three ways to be greedy.
void set_filter(int filter, const CounterRandom& random, GoldenInput& input) {
  const auto uniform = [&random](std::uint64_t index) {
    return static_cast<float>(random.word(index) >> 40) * 0x1p-24F;
  };
  const auto vocab = static_cast<std::uint64_t>(input.vocab);
  // A bound is a small value as in common use, or any value.
  const std::uint64_t bound =
      random.below(2, 20) == 0 ? std::min<std::uint64_t>(vocab, 100) : vocab;
  const auto top_k = static_cast<std::int32_t>(1 + random.below(bound, 21));
  const float top_p = random.below(2, 22) == 0 ? 0.9F : uniform(23);
  const float min_p = random.below(2, 24) == 0 ? 0.05F : uniform(25);
  switch (filter) {
    case 0:
      break;
    case 1:
      input.top_k = top_k;
      break;
    case 2:
      input.top_k = top_k;
      input.tie_rule = TieRule::lowest_id;
      break;
    case 3:
      input.top_p = top_p;
      break;
    case 4:
      input.min_p = min_p;
      break;
    case 5:
      input.top_k = top_k;
      input.top_p = top_p;
      break;
    case 6:
      input.top_k = top_k;
      input.top_p = top_p;
      input.filter_order = FilterOrder::joint;
      break;
    case 7:
      input.top_p = top_p;
      input.min_p = min_p;
      break;
    case 8:
      input.top_k = top_k;
      input.top_p = top_p;
      input.min_p = min_p;
      input.tie_rule = TieRule::lowest_id;
      break;
    case 9:
      input.temperature = 0.0F;
      break;
    case 10:
      input.top_k = 1;
      break;
    default:
      input.top_p = 0.0F;
      break;
  }
}

DType dtype_from_name(const std::string& name) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    if (name == to_string(dtype)) return dtype;
  }
  throw std::runtime_error("golden tokens: dtype '" + name + "'");
}

RowStatus status_from_name(const std::string& name) {
  for (int i = 0; i < kRowStatuses; ++i) {
    if (name == to_string(static_cast<RowStatus>(i))) return static_cast<RowStatus>(i);
  }
  throw std::runtime_error("golden tokens: status '" + name + "'");
}

ordered_json json_of(const GoldenRow& row) {
  const GoldenInput& input = row.input;
  // Floats are written as doubles of equal value, which JSON represents exactly.
  return {{"family", harness::to_string(input.family)},
          {"stream", input.stream},
          {"row", input.row_number},
          {"vocab", input.vocab},
          {"dtype", to_string(input.dtype)},
          {"temperature", static_cast<double>(input.temperature)},
          {"top_k", input.top_k},
          {"top_p", static_cast<double>(input.top_p)},
          {"min_p", static_cast<double>(input.min_p)},
          {"ties", input.tie_rule == TieRule::keep_all ? "keep_all" : "lowest_id"},
          {"order", input.filter_order == FilterOrder::joint ? "joint" : "top_k_first"},
          {"seed", input.seed},
          {"offset", input.offset},
          {"status", to_string(row.given.status)},
          {"support", row.given.support_size},
          {"tokens", row.given.tokens}};
}

GoldenRow row_of(const ordered_json& json) {
  GoldenRow row;
  GoldenInput& input = row.input;
  const auto is = [&json](const char* key, const char* one, const char* other) {
    const auto value = json.at(key).get<std::string>();
    if (value != one && value != other) {
      throw std::runtime_error("golden tokens: " + std::string(key) + " '" + value + "'");
    }
    return value == one;
  };
  input.family = harness::family_from_name(json.at("family").get<std::string>());
  input.stream = json.at("stream").get<std::uint64_t>();
  input.row_number = json.at("row").get<std::uint64_t>();
  input.vocab = json.at("vocab").get<std::int64_t>();
  input.dtype = dtype_from_name(json.at("dtype").get<std::string>());
  input.temperature = static_cast<float>(json.at("temperature").get<double>());
  input.top_k = json.at("top_k").get<std::int32_t>();
  input.top_p = static_cast<float>(json.at("top_p").get<double>());
  input.min_p = static_cast<float>(json.at("min_p").get<double>());
  input.tie_rule = is("ties", "keep_all", "lowest_id") ? TieRule::keep_all : TieRule::lowest_id;
  input.filter_order =
      is("order", "joint", "top_k_first") ? FilterOrder::joint : FilterOrder::top_k_first;
  input.seed = json.at("seed").get<std::uint64_t>();
  input.offset = json.at("offset").get<std::uint64_t>();
  row.given.status = status_from_name(json.at("status").get<std::string>());
  row.given.support_size = json.at("support").get<std::int32_t>();
  row.given.tokens = json.at("tokens").get<std::vector<std::int32_t>>();
  return row;
}

}  // namespace

std::span<const harness::Family> golden_families() {
  // The table has the families that existed when the tokens were stored; more families would
  // renumber the rows.
  return harness::all_families().first(16);
}

std::vector<GoldenInput> golden_inputs() {
  constexpr std::uint64_t kStream = 20;
  std::vector<GoldenInput> inputs;
  std::uint64_t number = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (const harness::Family family : golden_families()) {
      for (int dtype = 0; dtype < kDTypes; ++dtype) {
        for (int filter = 0; filter < kFilters; ++filter) {
          const CounterRandom random = CounterRandom::of(2000, kStream, number);
          GoldenInput input;
          input.family = family;
          input.stream = kStream;
          input.row_number = number++;
          input.vocab = vocab_of(random);
          input.dtype = static_cast<DType>(dtype);
          const std::array<float, 6> temperatures = {1.0F, 1.0F, 0.7F, 2.0F, 0.01F, 0x1.715476p0F};
          input.temperature = temperatures[random.below(6, 0)];
          input.seed = random.word(1);
          input.offset = random.below(2, 2) == 0 ? random.word(3) : random.below(1000, 3);
          set_filter(filter, random, input);
          inputs.push_back(input);
        }
      }
    }
  }
  return inputs;
}

OwnedCall golden_call(const GoldenInput& input) {
  std::vector<float> logits(static_cast<std::size_t>(input.vocab));
  harness::generate_row(input.family, input.stream, input.row_number, logits);
  OwnedCall call;
  call.allocate(input.dtype, 1, input.vocab, input.vocab, 0);
  call.set_row(0, logits.data());
  call.temperature.scalar = input.temperature;
  call.top_k.scalar = input.top_k;
  call.top_p.scalar = input.top_p;
  call.min_p.scalar = input.min_p;
  call.tie_rule = input.tie_rule;
  call.filter_order = input.filter_order;
  call.seed.scalar = input.seed;
  call.seed.make_array(1);
  call.offset.scalar = input.offset;
  call.num_samples = kGoldenSamples;
  return call;
}

GoldenTokens tokens_of(const SampleOutputs& outputs) {
  return {outputs.statuses.at(0), outputs.tokens, outputs.support_size.at(0)};
}

std::string to_json(const GoldenFile& file) {
  const ordered_json head = {
      {"format", kFormat}, {"gpu", file.gpu}, {"driver", file.driver}, {"date", file.date}};
  // The file has one row per line, so that a diff shows which rows changed.
  std::string text = head.dump();
  text.pop_back();
  text += ",\n\"rows\": [\n";
  for (std::size_t i = 0; i < file.rows.size(); ++i) {
    text += json_of(file.rows[i]).dump();
    text += i + 1 < file.rows.size() ? ",\n" : "\n";
  }
  return text + "]}\n";
}

GoldenFile golden_file_from_json(const std::string& text) {
  try {
    const ordered_json json = ordered_json::parse(text);
    if (json.at("format").get<std::string>() != kFormat) {
      throw std::runtime_error("golden tokens: another format");
    }
    GoldenFile file{json.at("gpu").get<std::string>(),
                    json.at("driver").get<std::string>(),
                    json.at("date").get<std::string>(),
                    {}};
    for (const ordered_json& row : json.at("rows")) file.rows.push_back(row_of(row));
    return file;
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(std::string("golden tokens: ") + error.what());
  }
}

}  // namespace fairdraw::suites
