#include "suites/gate/cases/operation_lists.h"

#include <cmath>
#include <limits>

#include "harness/run/calls/random_words.h"

namespace fairdraw::suites {
namespace {

// If a source is only the name of a model, it means the model's generation_config.json.
constexpr TypedValues kTyped[] = {
    {"none/t1", "default of vLLM (SamplingParams), SGLang, OpenAI's API"},
    {"greedy", "temperature 0 of every engine"},
    {"top_k_50/t1", "default of transformers (GenerationConfig)"},
    {"top_k_1/t1", "greedy decoding by top_k alone"},
    {"min_p_0.05+top_k_40+top_p_0.95/t0.8", "default of llama.cpp (common_params_sampling)"},
    {"top_k_40+top_p_0.9/t0.8", "default of Ollama"},
    {"top_k_40/t1", "llama.cpp, --top-k alone"},
    {"min_p_0.05/t1", "llama.cpp, --min-p alone"},
    {"min_p_0.05+top_k_40/t1", "llama.cpp, without top-p"},
    {"top_p_0.95/t0.8", "vLLM, examples of its documentation"},
    {"top_p_0.95/t1", "vLLM, SGLang: top_p alone; DeepSeek-V3.1"},
    {"top_p_0.95/t0.6", "DeepSeek-R1-0528"},
    {"top_p_0.95/t0.3", "DeepSeek-Coder-V2-Lite-Instruct"},
    {"top_k_20+top_p_0.95/t0.6", "Qwen3, thinking"},
    {"top_k_20+top_p_0.8/t0.7", "Qwen2.5 and Qwen3, instruct"},
    {"top_p_0.9/t0.6", "Llama 3 and 3.1"},
    {"top_p_0.9/t1", "nucleus sampling as its paper has it"},
    {"top_k_64+top_p_0.95/t1", "Gemma 3"},
    {"min_p_0.01+top_k_64+top_p_0.95/t1", "Gemma 3, as its quantised versions recommend it"},
    {"top_k_50+top_p_0.95/t0.8", "Phi-4-reasoning"},
    {"min_p_0.06+top_k_50+top_p_0.75/t0.15", "Trinity-Mini"},
    {"top_p_0.8/t1", "openPangu-Embedded"},
    {"none/t0.1", "Buzz-8b, Aira-OPT: nearly greedy"},
    {"none/t0.3", "Qwen2.5-Coder-Shell, normistral: without a filter"},
    {"none/t0.6", "what reasoning models recommend, without a filter"},
    {"none/t0.7", "vLLM, documentation of the temperature"},
    {"top_k_10/t0.7", "vLLM, documentation of top_k"},
    {"min_p_0.1/t1.5", "min-p sampling as its paper recommends it for high temperatures"},
};

}  // namespace

std::vector<Operation> everyday_operations() {
  return parse_operations({"top_k_50+top_p_0.9/t0.7", "none/t1", "greedy", "top_p_0.95/t1.2",
                           "top_k_1000/t1", "min_p_0.05/t1.5", "top_k_1/t1", "top_p_0.5/t0.3",
                           "min_p_0.1+top_k_40+top_p_0.95/t0.8", "none/t0.6", "top_k_5/t2",
                           "top_p_0.9/t1", "min_p_0.3/t1", "top_k_200+top_p_0.99/t1", "top_p_0/t1",
                           "top_k_20+top_p_0.8/t0.7"});
}

std::vector<Operation> large_k_operations(std::int64_t vocab) {
  std::vector<Operation> list;
  const auto v = static_cast<std::int32_t>(vocab);
  for (const std::int32_t k : {255,    256,       257,
                               1023,   1024,      1025,
                               2047,   2048,      2049,
                               4097,   10'000,    32'768,
                               65'535, 65'536,    65'537,
                               v / 2,  v / 2 + 1, v - 1,
                               v,      v + 1,     std::numeric_limits<std::int32_t>::max()}) {
    list.push_back({.parameters = {.top_k = k}});
    list.push_back({.parameters = {.temperature = 0.8F, .top_k = k, .top_p = 0.95F}});
  }
  return list;
}

std::vector<Operation> scattered_operations(std::int64_t vocab, std::size_t count) {
  // The values of parameters are computed from a counter by IEEE operations, so that they are the
  // same in every run. Half of all filters are off, so that each filter occurs alone, in pairs and
  // with all others.
  std::vector<Operation> list;
  const int octaves_of_vocab = std::ilogb(static_cast<double>(vocab)) + 1;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto word = [i](std::uint64_t which) { return harness::mixed(which, i); };
    const auto on = [&word](std::uint64_t which) { return word(which) % 2 == 0; };
    // `mantissa` lies in [1, 2); `scaled` lies in [2^low, 2^high), and its binary exponent is
    // uniform.
    const auto mantissa = [&word](std::uint64_t which) {
      return std::ldexp(static_cast<double>((word(which) >> 40) + (1U << 24)), -24);
    };
    const auto scaled = [&](std::uint64_t which, int low, int high) {
      const auto octaves = static_cast<std::uint64_t>(high - low);
      return std::ldexp(mantissa(which), low + static_cast<int>(word(which + 1) % octaves));
    };
    const auto fraction = [&](std::uint64_t which) {
      const double near = scaled(which + 1, -21, 0) / 2;
      const double values[] = {mantissa(which) - 1, near, 1 - near};
      return static_cast<float>(values[word(which + 3) % 3]);
    };
    reference::RowParameters row;
    if (on(0)) row.temperature = static_cast<float>(scaled(1, -8, 5));
    if (on(3)) row.top_k = static_cast<std::int32_t>(scaled(4, 0, octaves_of_vocab));
    if (on(6)) row.top_p = fraction(7);
    if (on(11)) row.min_p = fraction(12);
    list.push_back({.parameters = row});
  }
  return list;
}

std::vector<Operation> edge_operations(std::int64_t vocab) {
  const auto v = static_cast<std::int32_t>(vocab);
  const float below_one = 1 - 0x1p-24F;
  const std::int32_t top_k[] = {0, 1, -1, v - 1, v, v + 1, 2, 50};
  const float top_p[] = {1, 0, 0x1p-149F, below_one, 0.9F, 0.5F};
  const float temperature[] = {1, 0, 0x1p-126F, 1e-4F, 5, 0x1p64F, 0.7F};
  const float min_p[] = {0, 0x1p-149F, below_one, 1, 0.05F};
  std::vector<Operation> list;
  const auto add = [&list](const reference::RowParameters& parameters) {
    list.push_back({.parameters = parameters});
  };
  for (const std::int32_t k : top_k) add({.top_k = k});
  for (const float p : top_p) add({.top_p = p});
  for (const float t : temperature) add({.temperature = t});
  for (const float m : min_p) add({.min_p = m});
  // These operations combine all four parameters. The strides differ, so that many pairs of values
  // occur.
  for (std::size_t i = 0; i < 14; ++i) {
    add({.temperature = temperature[(3 * i + 2) % 7],
         .top_k = top_k[(5 * i + 3) % 8],
         .top_p = top_p[(i + 2) % 6],
         .min_p = min_p[(2 * i) % 5]});
  }
  return list;
}

std::span<const TypedValues> typed_values() { return kTyped; }

std::vector<Operation> typed_operations() {
  std::vector<Operation> list;
  for (const TypedValues& typed : kTyped) list.push_back(parse_operation(typed.operation));
  return list;
}

std::vector<Operation> top_k_next_to_vocab(std::int64_t vocab) {
  std::vector<Operation> list;
  const auto v = static_cast<std::int32_t>(vocab);
  for (const std::int32_t k :
       {v - 1, v, v + 1, v + 1000, std::numeric_limits<std::int32_t>::max()}) {
    list.push_back({.parameters = {.top_k = k}});
    list.push_back({.parameters = {.temperature = 0.8F, .top_k = k, .top_p = 0.9F}});
  }
  return list;
}

std::vector<Operation> operations_with(const Filters& filters, std::int64_t vocab) {
  std::vector<Operation> list = edge_operations(vocab);
  const std::vector<Operation> everyday = everyday_operations();
  list.insert(list.end(), everyday.begin(), everyday.end());
  std::erase_if(list, [&filters](const Operation& operation) {
    const reference::RowParameters& row = operation.parameters;
    return (!filters.top_k && row.top_k != 0) || (!filters.top_p && row.top_p != 1) ||
           (!filters.min_p && row.min_p != 0);
  });
  return list;
}

std::vector<Operation> partial_sum_operations() {
  std::vector<Operation> list;
  for (const float sum : {0.5F, 0.75F, 0.875F}) {
    for (const float top_p : {std::nextafter(sum, 0.0F), sum, std::nextafter(sum, 1.0F)}) {
      list.push_back({.parameters = {.temperature = kDyadicTemperature, .top_p = top_p}});
      list.push_back(
          {.parameters = {.temperature = kDyadicTemperature, .top_k = 6, .top_p = top_p}});
    }
  }
  for (const float min_p : {0.5F, std::nextafter(0.5F, 0.0F), std::nextafter(0.5F, 1.0F), 0.25F}) {
    list.push_back({.parameters = {.temperature = kDyadicTemperature, .min_p = min_p}});
  }
  return list;
}

std::vector<Operation> without_min_p(std::vector<Operation> operations) {
  std::erase_if(operations,
                [](const Operation& operation) { return operation.parameters.min_p != 0; });
  return operations;
}

std::vector<Operation> min_p_alone(std::vector<Operation> operations) {
  std::erase_if(operations, [](const Operation& operation) {
    return operation.parameters.top_k != 0 || operation.parameters.top_p != 1;
  });
  return operations;
}

}  // namespace fairdraw::suites
