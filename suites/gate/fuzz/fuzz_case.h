// A case of the fuzzer contains exactly the data that are needed to judge a property again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/calls/chain_request.h"
#include "harness/run/calls/request.h"
#include "harness/run/calls/speculation_request.h"

namespace fairdraw::suites::fuzz {

/// The kind of a case. batch: one call of the sampler. chain: one verification of drafted chains,
/// from probabilities. distribution: many draws from one row. speculation: one verification of
/// requests with drafted tokens, from logits.
enum class CaseKind { batch, chain, distribution, speculation };

const char* to_string(CaseKind kind);

struct FuzzCase {
  CaseKind kind = CaseKind::batch;
  /// Seed of the choices that a relation makes (which permutation, which row), or of the draws of a
  /// distribution case.
  std::uint64_t salt = 0;
  harness::Request request;     ///< for batch, the call; for distribution, one row without seeds
  harness::ChainRequest chain;  ///< chain
  harness::SpeculationRequest speculation;
  std::uint64_t draws = 0;  ///< distribution: maximum number
};

// Limits of a case. Limits of a case; the cases that the fuzzer makes are far smaller. The limits
// bound the memory that a capsule from an unknown source can make this program allocate.
inline constexpr std::int64_t kMaxCaseValues = std::int64_t{1} << 22;   ///< rows x vocab
inline constexpr std::int64_t kMaxCaseOutputs = std::int64_t{1} << 12;  ///< also rows, samples
inline constexpr std::uint64_t kMaxDistributionDraws = std::uint64_t{1} << 24;

/// Returns the size of the vocabulary, for a case of any kind.
std::int64_t vocab_of(const FuzzCase& fuzz_case);
std::int64_t rows_of(const FuzzCase& fuzz_case);

/// Returns an ability that the case needs and the sampler does not declare, or an empty string if
/// there is none.
std::string missing_ability(const harness::SamplerDescription& sampler, const FuzzCase& fuzz_case);

// The functions below select parts of cases, for relations and for shrinking. All of these
// functions keep the lengths of a request's arrays consistent with its rows, outputs and
// vocabulary.

/// Keeps the given slices of `width` values each, in the given order; slices may be repeated. An
/// empty list means that the values are not given, and stays empty.
template <class T>
void keep_slices(std::vector<T>& values, std::span<const std::int64_t> slices, std::int64_t width) {
  if (values.empty()) return;
  std::vector<T> kept;
  for (const std::int64_t slice : slices) {
    const auto first = values.begin() + slice * width;
    kept.insert(kept.end(), first, first + width);
  }
  values = std::move(kept);
}

/// Returns the request with only the given rows, in that order; rows may be repeated. Without
/// `indices`, outputs belong to rows and are kept with their rows. With `indices`, outputs of
/// dropped rows are dropped.
harness::Request with_rows(const harness::Request& request, std::span<const std::int64_t> rows);

/// Returns one output as a call of its own, with its row, parameters, seed, offset and words.
/// Precondition: the request has an array of seeds or words, and the output has a row.
harness::Request one_output(const harness::Request& request, std::int64_t output);

/// Returns the request with only the outputs in `outputs`. Precondition: the request has `indices`.
harness::Request with_outputs(const harness::Request& request,
                              std::span<const std::int64_t> outputs);

/// Returns the request with only some chains and some positions of each; a position has a drafted
/// token and its two rows.
harness::ChainRequest with_chains(const harness::ChainRequest& request,
                                  std::span<const std::int64_t> chains,
                                  std::span<const std::int64_t> positions);

/// Returns processing in which token i is token ids[i] of `row`'s processing. Tokens that are not
/// in `ids` are dropped; a bad word with such a token is dropped as a whole. Ids outside the
/// vocabulary stay outside the vocabulary.
reference::RowProcessing with_tokens(const reference::RowProcessing& row,
                                     std::span<const std::int64_t> ids, std::int64_t vocab);

/// Renumbers the tokens in packed rows of bits in the same way.
std::vector<std::uint32_t> with_tokens(const std::vector<std::uint32_t>& allowed,
                                       std::span<const std::int64_t> ids, std::int64_t vocab);

/// Renumbers the tokens in rows of values in the same way.
void keep_columns(std::vector<float>& rows, std::span<const std::int64_t> ids, std::int64_t vocab);

/// Returns the request in which token i is token ids[i] of the given request.
harness::Request with_tokens(const harness::Request& request, std::span<const std::int64_t> ids);

/// Returns a line that describes a case: its shape, its options, and the parameters of the first
/// row.
std::string describe(const FuzzCase& fuzz_case);

}  // namespace fairdraw::suites::fuzz
