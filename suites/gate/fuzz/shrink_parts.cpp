#include "suites/gate/fuzz/shrink_parts.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace fairdraw::suites::fuzz {

using reference::RowParameters;

namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

bool set_float(float& field, float value) {
  if (same_bits(field, value)) return false;
  field = value;
  return true;
}

std::vector<std::int64_t> all_but(std::int64_t count, std::int64_t first, std::int64_t length) {
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i < first || i >= first + length) kept.push_back(i);
  }
  return kept;
}

std::vector<Stretch> stretches(std::int64_t count, std::int64_t singles) {
  std::vector<Stretch> all;
  const auto longest =
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, count - 1)));
  for (auto length = static_cast<std::int64_t>(longest); length >= 1; length /= 2) {
    if (length == 1 && count > singles) break;
    if (count / length > 64 && count > singles) break;
    for (std::int64_t first = 0; first + length <= count; first += length) {
      all.push_back({first, length});
    }
  }
  return all;
}

void add_number_steps(std::vector<Step>& steps,
                      const std::function<std::uint64_t*(FuzzCase&)>& at) {
  for (std::uint64_t value = 0; value <= 3; ++value) {
    steps.emplace_back([at, value](FuzzCase& c) {
      std::uint64_t& number = *at(c);
      if (number <= value) return false;
      number = value;
      return true;
    });
  }
}

void add_numbers_steps(std::vector<Step>& steps, std::size_t count,
                       std::vector<std::uint64_t>& (*numbers)(FuzzCase&)) {
  for (std::size_t i = 0; i < std::min<std::size_t>(count, 16); ++i) {
    add_number_steps(steps, [numbers, i](FuzzCase& c) { return &numbers(c)[i]; });
  }
}

void add_parameter_steps(std::int64_t rows, std::vector<Step>& steps,
                         std::vector<RowParameters>& (*parameters)(FuzzCase&)) {
  // All rows at once, then each by itself.
  for (std::int64_t row = -1; row < std::min<std::int64_t>(rows, 8); ++row) {
    const auto on_rows = [row, parameters,
                          &steps](const std::function<bool(RowParameters&)>& change) {
      steps.emplace_back([row, change, parameters](FuzzCase& c) {
        bool changed = false;
        for (std::size_t i = 0; i < parameters(c).size(); ++i) {
          if (row >= 0 && i != static_cast<std::size_t>(row)) continue;
          changed = change(parameters(c)[i]) || changed;
        }
        return changed;
      });
    };
    on_rows([](RowParameters& p) { return set_float(p.temperature, 1); });
    on_rows([](RowParameters& p) { return set_to(p.top_k, 0); });
    on_rows([](RowParameters& p) { return set_float(p.top_p, 1); });
    on_rows([](RowParameters& p) { return set_float(p.min_p, 0); });
    on_rows([](RowParameters& p) { return p.top_p != 1 && set_float(p.top_p, 0.5F); });
    on_rows([](RowParameters& p) { return p.min_p != 0 && set_float(p.min_p, 0.5F); });
    on_rows([](RowParameters& p) { return p.top_k > 2 && set_to(p.top_k, 2); });
    on_rows([](RowParameters& p) { return p.top_k > 3 && set_to(p.top_k, p.top_k / 2); });
    on_rows([](RowParameters& p) { return p.top_k > 2 && set_to(p.top_k, p.top_k - 1); });
  }
}

namespace {

// A value to 0, or to an integer, or to one fraction bit less: never back.
bool simpler_value(float& value, int way) {
  if (way == 0) return set_float(value, 0);
  if (!std::isfinite(value) || value == 0) return false;
  const float rounded = way == 1 ? std::nearbyint(value) : std::nearbyint(value * 16) / 16;
  return std::isfinite(rounded) && set_float(value, rounded);
}

}  // namespace

void add_value_steps(std::int64_t values, std::int64_t row_length, std::vector<Step>& steps,
                     std::vector<float>& (*array)(FuzzCase&)) {
  const auto on = [&steps, array](std::int64_t first, std::int64_t length, int way) {
    steps.emplace_back([=](FuzzCase& c) {
      bool changed = false;
      for (std::int64_t i = first; i < first + length; ++i) {
        changed = simpler_value(array(c)[static_cast<std::size_t>(i)], way) || changed;
      }
      return changed;
    });
  };
  const std::int64_t shortest =
      values <= kSingleTokens ? 1 : std::max<std::int64_t>(1, row_length / 16);
  for (std::int64_t length = values; length >= shortest && length >= 1; length /= 2) {
    for (std::int64_t first = 0; first + length <= values; first += length) {
      for (int way = 0; way < 3; ++way) on(first, length, way);
    }
  }
}

}  // namespace fairdraw::suites::fuzz
