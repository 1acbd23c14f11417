#include "reference/tests/tile_answers.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace fairdraw::reference {
namespace {

using nlohmann::json;

float to_float(const json& text) { return std::strtof(text.get<std::string>().c_str(), nullptr); }

RowWeight to_weight(const json& text) {
  RowWeight weight = 0;
  for (const char digit : text.get<std::string>()) {
    weight = weight * 10 + static_cast<RowWeight>(digit - '0');
  }
  return weight;
}

std::vector<float> to_values(const json& runs) {
  std::vector<float> values;
  for (const json& run : runs) {
    const auto text = run.get<std::string>();
    const std::size_t star = text.find('*');
    const std::size_t count = star == std::string::npos ? 1 : std::stoul(text.substr(star + 1));
    values.insert(values.end(), count, std::strtof(text.substr(0, star).c_str(), nullptr));
  }
  return values;
}

void read_parameters(const json& row, TileAnswer& answer) {
  answer.parameters.top_k = row["top_k"];
  answer.parameters.top_p = to_float(row["top_p"]);
  answer.parameters.min_p = to_float(row["min_p"]);
  if (row["joint"].get<bool>()) answer.filter_order = FilterOrder::joint;
  if (answer.from_probs) {
    answer.top_k_1_keeps_ties = row["top_k_1_keeps_ties"];
    return;
  }
  answer.parameters.temperature = to_float(row["temperature"]);
  if (row["lowest_id"].get<bool>()) answer.tie_rule = TieRule::lowest_id;
  if (row["banned"].empty()) return;
  answer.allowed.assign((answer.values.size() + 31) / 32, ~std::uint32_t{0});
  for (const std::size_t id : row["banned"]) answer.allowed[id / 32] &= ~(1U << (id % 32));
}

void read_tiles(const json& row, TileAnswer& answer) {
  for (const json& maximum : row["maxima"]) {
    answer.maxima.push_back(maximum.is_null() ? std::nullopt
                                              : std::optional<float>(to_float(maximum)));
  }
  for (const json& octave : row["octaves"]) {
    answer.octaves.push_back(octave.is_null()
                                 ? std::nullopt
                                 : std::optional<double>(std::stod(octave.get<std::string>())));
  }
  answer.sums = row["sums"].get<std::vector<std::uint64_t>>();
  answer.octave = std::stod(row["octave"].get<std::string>());
}

TileAnswer read_answer(const json& row, bool from_probs) {
  TileAnswer answer;
  answer.name = (from_probs ? "probs " : "logits ") + row["name"].get<std::string>();
  answer.from_probs = from_probs;
  answer.values = to_values(row[from_probs ? "probs" : "logits"]);
  read_parameters(row, answer);
  read_tiles(row, answer);
  answer.total_unfiltered = to_weight(row["total_unfiltered"]);
  answer.total = to_weight(row["total"]);
  answer.greedy_token = row["greedy"];
  answer.draws = row["draws"].get<std::vector<std::pair<std::uint64_t, std::int32_t>>>();
  if (row.contains("draws_by_attempts")) {
    answer.draws_by_attempts = row["draws_by_attempts"].get<decltype(answer.draws_by_attempts)>();
  }
  for (const json& entry : row["probabilities"]) {
    answer.probabilities.emplace_back(entry[0].get<std::int32_t>(), to_float(entry[1]));
  }
  if (row.contains("weights")) {
    for (const json& weight : row["weights"]) answer.weights.push_back(to_weight(weight));
    answer.kept = row["kept"].get<std::vector<std::int32_t>>();
    answer.support_size = static_cast<std::int32_t>(answer.kept.size());
  } else {
    answer.support_size = row["kept_count"];
  }
  return answer;
}

std::vector<TileAnswer> read_answers() {
  const json file = json::parse(std::ifstream(FAIRDRAW_TILE_ANSWERS));
  std::vector<TileAnswer> answers;
  for (const json& row : file["logits"]) answers.push_back(read_answer(row, false));
  for (const json& row : file["probs"]) answers.push_back(read_answer(row, true));
  return answers;
}

}  // namespace

const std::vector<TileAnswer>& tile_answers() {
  static const std::vector<TileAnswer> answers = read_answers();
  return answers;
}

std::string to_string(RowWeight weight) {
  std::string digits;
  for (; weight > 0; weight /= 10)
    digits.push_back(static_cast<char>('0' + static_cast<int>(weight % 10)));
  std::ranges::reverse(digits);
  return digits.empty() ? "0" : digits;
}

}  // namespace fairdraw::reference
