// A case of the fuzzer: everything that a property needs to be judged again, and nothing else.
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

/// batch: one call of the sampler. chain: one verification of drafted chains, from probabilities.
/// distribution: many draws from one row. speculation: one of requests with drafts, from logits.
enum class CaseKind { batch, chain, distribution, speculation };

const char* to_string(CaseKind kind);

struct FuzzCase {
  CaseKind kind = CaseKind::batch;
  /// What relations choose by (which permutation, which row), and for a distribution the seed of
  /// its draws.
  std::uint64_t salt = 0;
  harness::Request request;     ///< batch; distribution: one row, and no seeds
  harness::ChainRequest chain;  ///< chain
  harness::SpeculationRequest speculation;
  std::uint64_t draws = 0;  ///< distribution: at most so many
};

// Limits of a case. The fuzzer stays far below them; they are for capsules, which come from
// anywhere: what a file makes this program allocate is bounded by them.
inline constexpr std::int64_t kMaxCaseValues = std::int64_t{1} << 22;   ///< rows x vocab
inline constexpr std::int64_t kMaxCaseOutputs = std::int64_t{1} << 12;  ///< and rows, and samples
inline constexpr std::uint64_t kMaxDistributionDraws = std::uint64_t{1} << 24;

/// Largest vocabulary index + 1 of the case, whatever its kind.
std::int64_t vocab_of(const FuzzCase& fuzz_case);
std::int64_t rows_of(const FuzzCase& fuzz_case);

/// Whether the sampler says that it takes such a case; else the ability that it lacks.
std::string missing_ability(const harness::SamplerDescription& sampler, const FuzzCase& fuzz_case);

// Parts of cases, for relations and for shrinking. All keep a request consistent: the arrays that
// belong to rows, outputs and the vocabulary have their lengths.

/// Slices of `width` values, in that order (repeats allowed). An empty list was not given, and
/// stays empty.
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

/// The request with the given rows only, in that order (repeats allowed). Without `indices`,
/// outputs are rows and follow them; with `indices`, entries that point at a dropped row go.
harness::Request with_rows(const harness::Request& request, std::span<const std::int64_t> rows);

/// One output as a call of its own: its row, parameters, seed, offset, words. The request must
/// have an array of seeds, or words, and the output a row.
harness::Request one_output(const harness::Request& request, std::int64_t output);

/// Drops outputs of a request that has `indices`; keeps those in `outputs`.
harness::Request with_outputs(const harness::Request& request,
                              std::span<const std::int64_t> outputs);

/// Some chains, and some positions of each: drafted tokens with their two rows.
harness::ChainRequest with_chains(const harness::ChainRequest& request,
                                  std::span<const std::int64_t> chains,
                                  std::span<const std::int64_t> positions);

/// Processing whose token i is token ids[i] of this one. What is not among `ids` is left out, a bad
/// word with all of its ids; what is no token stays none.
reference::RowProcessing with_tokens(const reference::RowProcessing& row,
                                     std::span<const std::int64_t> ids, std::int64_t vocab);

/// Rows of packed bits, likewise.
std::vector<std::uint32_t> with_tokens(const std::vector<std::uint32_t>& allowed,
                                       std::span<const std::int64_t> ids, std::int64_t vocab);

/// Rows of values, likewise.
void keep_columns(std::vector<float>& rows, std::span<const std::int64_t> ids, std::int64_t vocab);

/// The request whose token i is token ids[i] of this one.
harness::Request with_tokens(const harness::Request& request, std::span<const std::int64_t> ids);

/// One line: shape, options, and the parameters of the first row.
std::string describe(const FuzzCase& fuzz_case);

}  // namespace fairdraw::suites::fuzz
