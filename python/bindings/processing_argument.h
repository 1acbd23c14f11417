// Reads logits processing as an argument, which is the tuple that fairdraw/request_processing.py
// makes.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <variant>

#include "fairdraw/logits_processing.h"
#include "python/bindings/arguments.h"

namespace fairdraw::python {

/// Logits processing of rows, from None or a tuple. The tuple is (repetition, frequency, presence
/// penalty, prompt, output, bias ids, bias values, min_tokens, stop ids, bad words, lengths of bad
/// words, allowed ids, forced tokens or None, breakers or None, top_n_sigma or None, and the
/// filters by probability and the rules of histories in the order of
/// fairdraw/processing_parameters.inc, each an array or None).
class Processing {
 public:
  Processing(nb::handle object, const Place& place) {
    if (object.is_none()) return;
    const auto parts = nb::cast<nb::tuple>(object);
    const auto penalty = [&](std::size_t part, const char* name) {
      const View<const float> values = floats_[part].emplace(name, parts[part], place).view;
      return PerRequest<float>(values.data, values.size);
    };
    const auto lists = [&](std::size_t part, const char* name) {
      if (parts[part].is_none()) return TokenLists{};
      return lists_[part].emplace(name, parts[part], place).view;
    };
    view.repetition_penalty = penalty(0, "repetition_penalty");
    view.frequency_penalty = penalty(1, "frequency_penalty");
    view.presence_penalty = penalty(2, "presence_penalty");
    view.prompt = lists(3, "prompt");
    view.output = lists(4, "output");
    view.bias_ids = lists(5, "bias");
    view.bias_values = floats_[6].emplace("bias", parts[6], place).view;
    const View<const std::int32_t> least = min_tokens_.emplace("min_tokens", parts[7], place).view;
    view.min_tokens = PerRequest<std::int32_t>(least.data, least.size);
    view.stop_ids = lists(8, "stop_ids");
    view.bad_words = lists(9, "bad_words");
    view.bad_word_lengths = lists(10, "bad_words");
    view.allowed_ids = lists(11, "allowed_ids");
    view.forced_tokens = lists(12, "forced_tokens");
    view.dry_breakers = lists(13, "dry_breakers");
    view.top_n_sigma = penalty(14, "top_n_sigma");
    std::size_t part = 15;
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) \
  read_parameter(#name, parts[part++], place, view.name);
#define FAIRDRAW_HISTORY_RULE FAIRDRAW_PROBABILITY_FILTER
#include "fairdraw/processing_parameters.inc"
  }
  LogitsProcessing view;

 private:
  using ParameterInput = std::variant<Input<float>, Input<std::int32_t>, Input<std::uint64_t>>;

  template <class T>
  void read_parameter(const char* name, nb::handle object, const Place& place,
                      PerRequest<T>& parameter) {
    if (object.is_none()) return;
    ParameterInput& input =
        parameters_.emplace_back(std::in_place_type<Input<T>>, name, object, place);
    const View<const T> values = std::get<Input<T>>(input).view;
    parameter = PerRequest<T>(values.data, values.size);
  }

  std::deque<ParameterInput> parameters_;  ///< a deque, because views point into its elements
  std::optional<Input<float>> floats_[15];
  std::optional<Lists> lists_[14];
  std::optional<Input<std::int32_t>> min_tokens_;
};

}  // namespace fairdraw::python
