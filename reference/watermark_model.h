// A second implementation of the watermark, by big integers and plain loops, from the definition in
// fairdraw/watermark.h.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fairdraw/watermark.h"
#include "reference/integer_model.h"
#include "reference/processing_model.h"

namespace fairdraw::reference {

/// The mark of one row.
struct RowMark {
  std::uint64_t key = 0;  ///< 0: the row is not marked
  std::uint64_t second_key = 0;
  float second_share = 0;
  std::size_t window = 1;
  bool mask_repeated = true;
  WatermarkScheme scheme = WatermarkScheme::race;
  int layers = 30;
  float green_share = 0.25F;
  float green_bias = 2.0F;
};

/// Returns the context of the token after `output`: its last `window` ids, oldest first, with -1
/// before the first id.
std::vector<std::int32_t> context_of(std::span<const std::int32_t> output, std::size_t window);

/// Returns whether the token after `output` is marked.
bool is_marked(const RowMark& mark, std::span<const std::int32_t> output);

/// Returns the keyed word of a token after a context.
std::uint64_t marked_word(std::uint64_t key, std::span<const std::int32_t> context,
                          std::int32_t token);

/// Returns the arrival time of a word, in units of 2^-64.
boost::multiprecision::cpp_int arrival_time_model(std::uint64_t word);

/// Returns the winner of the race among the survivors of a row whose status is ok; word(token) is
/// the token's word.
std::int32_t race_model(const IntegerRow& row,
                        const std::function<std::uint64_t(std::int32_t)>& word);

/// Returns the weights of a row's tokens after the layers of a tournament, 0 for tokens that do not
/// survive; word(token) is the token's word.
std::vector<boost::multiprecision::cpp_int> tournament_model(
    const IntegerRow& row, int layers, const std::function<std::uint64_t(std::int32_t)>& word);

/// Returns the processing of a row with the biases of its green tokens, if the row has any.
/// Precondition: the ids of `output`, and of the row's biases, are tokens.
RowProcessing with_green_biases(RowProcessing processing, const RowMark& mark, std::size_t vocab,
                                const std::function<std::uint64_t(std::uint32_t)>& word);

/// Returns the token of a marked row after `output`: the winner of the race or of the tournament,
/// or in a repeated context, and with green tokens, the token of the ordinary draw. word(i) is the
/// random word of attempt i.
std::int32_t marked_token(const IntegerRow& row, const RowMark& mark,
                          std::span<const std::int32_t> output,
                          const std::function<std::uint64_t(std::uint32_t)>& word);

/// Returns the words of the different pairs of context and token of a text under a key.
std::vector<std::uint64_t> scored_words(std::span<const std::int32_t> text, std::uint64_t key,
                                        std::size_t window);

}  // namespace fairdraw::reference
