// The vocabulary sizes of served models. This header is the only list of the vocabulary sizes of
// served models.
#pragma once

#include <array>
#include <cstdint>

namespace fairdraw::harness {

struct ModelVocabulary {
  std::int64_t size;
  const char* models;  ///< names of models whose config.json has this vocab_size
};

/// Vocabularies by size.
inline constexpr auto kModelVocabularies = std::to_array<ModelVocabulary>({
    {32000, "Llama 1 and 2, Mistral 7B v0.1, Mixtral 8x7B"},
    {32768, "Mistral 7B v0.3, Codestral 22B"},
    {50257, "GPT-2, GPT-Neo"},
    {50304, "OLMo 1, Pythia up to 2.8B"},
    {100352, "DBRX, OLMo 2, Phi-4"},
    {128256, "Llama 3, 3.1, 3.2 and 3.3"},
    {129280, "DeepSeek V3 and R1"},
    {151936, "Qwen 3, Qwen 2.5 up to 3B"},
    {152064, "Qwen 2.5 from 7B on"},
    {200064, "Phi-4-mini"},
    {201088, "gpt-oss"},
    {202048, "Llama 4"},
    {256000, "Gemma 1 and 2, Command R, Nemotron-4"},
    {262144, "Gemma 3 1B"},
});

}  // namespace fairdraw::harness
