// The data that shards exchange: blocks, their parts, and the questions that rows may ask.
//
// Every part is a struct without padding, copied byte by byte, because all supported machines are
// little-endian. fairdraw/sharded.h has the order of the parts.
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
  std::uint32_t exchange = 0;     ///< number of the exchange, from 0 on
  std::uint64_t fingerprint = 0;  ///< of everything that decides the tokens, the same on all ranks
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

/// Number of octave gaps, 0 to kRowBits, at which a tile below the largest still weighs something.
inline constexpr int kOctaveSums = kRowBits + 1;

/// The sums S of a shard's whole tiles by octave: sums[gap] is that of tiles `gap` octaves below
/// the shard's largest tile maximum. A row's octave E is at least that of the maximum, so a tile
/// further below weighs nothing in the row.
struct OctaveSums {
  Sum128 sums[kOctaveSums];
};
static_assert(sizeof(OctaveSums) == 784);

/// The first part of a row's summary. Except for the status, it describes the shard's whole tiles.
struct RowSummary {
  std::int32_t status = 0;         ///< RowStatus of the shard's columns alone
  std::int32_t max_key = 0;        ///< kEmptyTileKey: no allowed token
  std::int32_t max_id = -1;        ///< first id with the maximum
  std::uint32_t max_bits = 0;      ///< bits of the maximum
  std::uint32_t max_raw_bits = 0;  ///< bits of the caller's value at max_id
  std::uint32_t allowed = 0;       ///< number of tokens with a value above -inf
  std::uint32_t listed = 0;        ///< number of candidates that follow
  std::int32_t left_key = 0;       ///< certificate: all values with larger keys are candidates
  OctaveSums octaves;
};
static_assert(sizeof(RowSummary) == 32 + 784);

/// A token with its value. Raw modes of processed rows add another word, the caller's logit.
struct Candidate {
  std::uint32_t bits = 0;
  std::int32_t id = -1;
};
static_assert(sizeof(Candidate) == 8);

/// Returns the number of candidates that a shard lists for a row, at most the capacity `room` of
/// its summary. Unfiltered and greedy rows need only the `reported` ones. With top_k it is 2 k, so
/// that the k-th value is known with all its ties, unless more than k values are tied with it.
FAIRDRAW_HOST_DEVICE inline int candidates_of_row(bool is_filtered, std::int32_t top_k,
                                                  std::int64_t vocab, int room, int reported) {
  int wanted = is_filtered ? room : 0;
  if (is_filtered && top_k_is_on(top_k, vocab) && top_k < room / 2) wanted = 2 * top_k;
  if (wanted < reported) wanted = reported;
  return wanted < room ? wanted : room;
}

/// The part for raw modes: from the caller's logits, unprocessed, at temperature 1. It is followed
/// by the values of cut tiles (if processing may have changed them) and the n largest tokens.
struct RawSummary {
  std::int32_t max_key = 0;
  std::uint32_t listed = 0;
  OctaveSums octaves;
};
static_assert(sizeof(RawSummary) == 8 + 784);

// --- Questions

// An undecided row asks all shards one question per exchange. Questions are never sent, because
// every rank derives them from the same answers.

/// Asks all shards for their columns of the row, as filters see them, and also as the caller has
/// them if reports need those. Each is an array of `columns` f32, the largest number of columns of
/// a shard.
struct GatherRow {
  std::size_t columns = 0;
  bool raw = false;
  bool operator==(const GatherRow&) const = default;
};

/// Limits for a row without a known threshold: the attempts per token that a shard lists, and those
/// that are tried. Only an attempt with a larger value than all before can be the first accepted
/// one. A nucleus of p rejects four such records with the probability that a Poisson variable of
/// mean -ln(p) is at least 4, 5e-6 for .9, and sixteen attempts with (1 - p)^16.
inline constexpr std::uint32_t kRecords = 4;
inline constexpr std::uint32_t kWideAttempts = 16;

/// Asks all shards for attempts of draws (common/proposals.h) in their whole tiles that may be the
/// first accepted one: attempts with a larger value than the shard's earlier ones, up to one that
/// is certainly accepted. A row that drops nothing has one attempt.
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
  std::uint32_t attempts = 0;  ///< number of attempts up to this one; 0: end of the list
  std::int32_t id = 0;
  std::uint32_t bits = 0;
  std::uint32_t raw_bits = 0;
};
static_assert(sizeof(DrawnToken) == 16);

/// Asks all shards for the weight of their columns above given values, in the row's unit: Sum128
/// each.
struct SumAbove {
  std::vector<std::int32_t> keys;  ///< kRecords per token; kNoRecord: no question
  bool operator==(const SumAbove&) const = default;
};
inline constexpr std::int32_t kNoRecord = 0x7fffffff;

/// Asks all shards for the number of their columns that rank before given tokens: an i32 each. It
/// counts the values that are reported; values of cut tiles count with the shard that has the
/// column.
struct CountInFront {
  struct Token {
    std::uint32_t bits = 0;  ///< its value
    std::int32_t end = 0;    ///< equal values count if their id is below this
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
  std::size_t cut_values = 0;  ///< capacity in f32: the largest number of a shard
  std::size_t candidates = 0;  ///< capacity
  std::size_t reported = 0;    ///< number of largest values of a row that reports need
  bool raw_bits = false;       ///< whether candidates have 12 bytes instead of 8
  bool raw_summary = false;
  bool raw_cut_values = false;
  std::size_t raw_candidates = 0;
  std::size_t row_columns = 0;  ///< capacity for a shard's columns, if rows may be gathered
  std::uint32_t attempts = 1;   ///< maximum per token that a shard lists

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
