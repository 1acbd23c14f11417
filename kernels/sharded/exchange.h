// Data that shards exchange: blocks, their parts, and the questions that rows may ask all shards.
//
// Every part is a struct without padding, copied byte by byte, because all supported machines are
// little-endian. fairdraw/sharded.h defines the order of the parts.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <variant>
#include <vector>

#include "common/host_device.h"
#include "common/parameters.h"
#include "common/tile_weights.h"

namespace fairdraw::sharded {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::uint32_t kMagic = 0x53485244;  // "DRHS" in memory

struct BlockHeader {
  std::uint32_t magic = kMagic;
  std::uint32_t exchange = 0;     ///< number of the exchange, counted from 0
  std::uint64_t fingerprint = 0;  ///< hash of all data that decides the tokens, the same on all
                                  ///< ranks
};
static_assert(sizeof(BlockHeader) == 16);

/// An unsigned integer of 128 bits.
struct Sum128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  Sum128() = default;
  FAIRDRAW_HOST_DEVICE Sum128(uint128_t value)  // deliberately implicit
      : low(static_cast<std::uint64_t>(value)), high(static_cast<std::uint64_t>(value >> 64)) {}
  FAIRDRAW_HOST_DEVICE uint128_t value() const {
    return (static_cast<uint128_t>(high) << 64) | low;
  }
};
static_assert(sizeof(Sum128) == 16);

/// Number of octave gaps, 0 to kRowBits, at which a tile below the largest tile still has a nonzero
/// weight.
inline constexpr int kOctaveSums = kRowBits + 1;

/// Sums S of a shard's whole tiles by octave: sums[gap] is the sum of the tiles `gap` octaves below
/// the shard's largest tile maximum. A row's octave E is at least that of the shard's maximum, so
/// tiles further below have no weight in the row.
struct OctaveSums {
  Sum128 sums[kOctaveSums];
};
static_assert(sizeof(OctaveSums) == 784);

/// The first part of a row's summary. All fields except the status describe the shard's whole
/// tiles.
struct RowSummary {
  std::int32_t status = 0;         ///< RowStatus of this shard's columns alone
  std::int32_t max_key = 0;        ///< key of the largest value; kEmptyTileKey: no token is allowed
  std::int32_t max_id = -1;        ///< first id whose value is the maximum
  std::uint32_t max_bits = 0;      ///< float bits of the maximum
  std::uint32_t max_raw_bits = 0;  ///< bits of the caller's value at max_id
  std::uint32_t allowed = 0;       ///< number of tokens with a value above -inf
  std::uint32_t listed = 0;        ///< number of candidates that follow the summary
  std::int32_t left_key = 0;       ///< certificate: all values with larger keys are candidates
  OctaveSums octaves;
};
static_assert(sizeof(RowSummary) == 32 + 784);

/// A token and its value. In raw modes of processed rows another word follows, the caller's logit.
struct Candidate {
  std::uint32_t bits = 0;
  std::int32_t id = -1;
};
static_assert(sizeof(Candidate) == 8);

/// Returns the number of candidates that a shard lists for a row, at most the capacity `room` of
/// its summary. Unfiltered and greedy rows need only the `reported` candidates. With top_k a shard
/// lists 2 k candidates, so that the k-th value is known with all its ties, unless more than k
/// values are tied with it.
FAIRDRAW_HOST_DEVICE inline int candidates_of_row(bool is_filtered, std::int32_t top_k,
                                                  std::int64_t vocab, int room, int reported) {
  int wanted = is_filtered ? room : 0;
  if (is_filtered && top_k_is_on(top_k, vocab) && top_k < room / 2) wanted = 2 * top_k;
  if (wanted < reported) wanted = reported;
  return wanted < room ? wanted : room;
}

/// Part of a summary for raw modes, computed from the caller's unprocessed logits at temperature 1.
/// The values of cut tiles (if processing may have changed them) and the n largest tokens follow
/// this part.
struct RawSummary {
  std::int32_t max_key = 0;
  std::uint32_t listed = 0;
  OctaveSums octaves;
};
static_assert(sizeof(RawSummary) == 8 + 784);

// --- Questions

// An undecided row asks all shards one question per exchange. Questions are never sent, because
// every rank derives them from the same answers.

/// Question for all shards' columns of the row, as filters see them, and also the caller's columns
/// if reports need those. Each answer is an array of `columns` f32, where `columns` is the largest
/// number of columns of a shard.
struct GatherRow {
  std::size_t columns = 0;
  bool raw = false;
  bool operator==(const GatherRow&) const = default;
};

/// Limits for a row whose threshold is unknown: the number of attempts per token that a shard
/// lists, and the number that is tried. Only an attempt whose value is larger than all earlier ones
/// can be the first accepted attempt. A nucleus of p rejects four such records with the probability
/// that a Poisson variable of mean -ln(p) is at least 4, 5e-6 for .9, and sixteen attempts with (1
/// - p)^16.
inline constexpr std::uint32_t kRecords = 4;
inline constexpr std::uint32_t kWideAttempts = 16;

/// Asks all shards for attempts of draws (common/proposals.h) in their whole tiles that may be the
/// first accepted one: attempts with a larger value than the shard's earlier ones, up to one that
/// is certainly accepted. A row without dropped tokens has one attempt.
struct DrawTokens {
  std::uint32_t listed = 1;  ///< maximum per token
  struct Draw {
    std::uint32_t token = 0;     ///< number of the token in the row
    std::uint32_t attempts = 0;  ///< number of attempts to try
    bool operator==(const Draw&) const = default;
  };
  std::vector<Draw> draws;
  bool operator==(const DrawTokens&) const = default;
};
struct DrawnToken {
  std::uint32_t attempts = 0;  ///< number of attempts up to and including this one; 0: end of the
                               ///< list
  std::int32_t id = 0;
  std::uint32_t bits = 0;
  std::uint32_t raw_bits = 0;
};
static_assert(sizeof(DrawnToken) == 16);

/// Asks all shards for the weight of their columns above given values, in the row's unit: Sum128
/// each.
struct SumAbove {
  std::vector<std::int32_t> keys;  ///< kRecords keys per token; kNoRecord: no question
  bool operator==(const SumAbove&) const = default;
};
inline constexpr std::int32_t kNoRecord = 0x7fffffff;

/// Question for the number of each shard's columns that rank before given tokens, as an i32 each.
/// The count is of reported values; values of cut tiles are counted by the shard that has the
/// column.
struct CountInFront {
  struct Token {
    std::uint32_t bits = 0;  ///< its value
    std::int32_t end = 0;    ///< equal values count if their id is below `end`
    bool operator==(const Token&) const = default;
  };
  std::vector<Token> tokens;
  bool operator==(const CountInFront&) const = default;
};

using Question = std::variant<std::monostate, GatherRow, DrawTokens, SumAbove, CountInFront>;

/// Returns the size of a shard's answer.
inline std::size_t answer_bytes(const Question& question) {
  if (const auto* row = std::get_if<GatherRow>(&question)) {
    return row->columns * sizeof(float) * (row->raw ? 2 : 1);
  }
  if (const auto* draws = std::get_if<DrawTokens>(&question)) {
    return draws->draws.size() * draws->listed * sizeof(DrawnToken);
  }
  if (const auto* sums = std::get_if<SumAbove>(&question)) {
    return sums->keys.size() * sizeof(Sum128);
  }
  if (const auto* counts = std::get_if<CountInFront>(&question)) {
    return counts->tokens.size() * sizeof(std::int32_t);
  }
  return 0;
}

// --- Reading and writing
// --------------------------------------------------------------------------

template <class T>
T read_at(const std::byte* bytes, std::size_t index = 0) {
  T value;
  std::memcpy(static_cast<void*>(&value), bytes + index * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void write_at(std::byte* bytes, const T& value, std::size_t index = 0) {
  std::memcpy(bytes + index * sizeof(T), static_cast<const void*>(&value), sizeof(T));
}

/// The positions of the parts of a row's summary, the same for all rows and ranks of a call.
struct SummaryLayout {
  std::size_t cut_values = 0;  ///< capacity in f32: the largest number of cut values of a shard
  std::size_t candidates = 0;  ///< capacity
  std::size_t reported = 0;    ///< number of a row's largest values that reports need
  bool raw_bits = false;       ///< whether candidates have 12 bytes instead of 8
  bool raw_summary = false;
  bool raw_cut_values = false;
  std::size_t raw_candidates = 0;
  std::size_t row_columns = 0;  ///< capacity for a shard's columns, if rows of the call may be
                                ///< gathered
  std::uint32_t attempts = 1;   ///< maximum number of attempts per token that a shard lists

  std::size_t candidate_bytes() const { return sizeof(Candidate) + (raw_bits ? 4 : 0); }
  std::size_t cut_at() const { return sizeof(RowSummary); }
  std::size_t candidates_at() const { return cut_at() + 4 * cut_values; }
  std::size_t raw_at() const { return candidates_at() + candidates * candidate_bytes(); }
  std::size_t raw_cut_at() const { return raw_at() + (raw_summary ? sizeof(RawSummary) : 0); }
  std::size_t raw_candidates_at() const {
    return raw_cut_at() + (raw_cut_values ? 4 * cut_values : 0);
  }
  std::size_t bytes() const { return raw_candidates_at() + raw_candidates * sizeof(Candidate); }
};

}  // namespace fairdraw::sharded
