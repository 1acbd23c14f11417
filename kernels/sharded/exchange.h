// Data that shards exchange: the blocks, the parts of blocks, and the questions that rows may ask
// all shards.
//
// Every part is a struct without padding, which is copied byte by byte; this is possible because
// all supported machines are little-endian. The order of the parts is defined in
// fairdraw/sharded.h.
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
  std::uint64_t fingerprint = 0;  ///< hash of all data that decides the tokens, which is the same
                                  ///< on all ranks
};
static_assert(sizeof(BlockHeader) == 16);

/// Unsigned integer of 128 bits.
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

/// Number of distances in octaves, from 0 to kRowBits, at which a tile below the largest tile still
/// has a weight above 0.
inline constexpr int kOctaveSums = kRowBits + 1;

/// Sums S of a shard's whole tiles by octave: sums[gap] is the sum of all tiles whose maximum is
/// `gap` octaves below the largest maximum of the shard's tiles. The octave E of a row is at least
/// the octave of the shard's maximum, so tiles that are farther below have no weight in the row.
struct OctaveSums {
  Sum128 sums[kOctaveSums];
};
static_assert(sizeof(OctaveSums) == 784);

/// First part of a row's summary. All fields except the status describe the shard's whole tiles.
struct RowSummary {
  std::int32_t status = 0;         ///< RowStatus that follows from this shard's columns alone
  std::int32_t max_key = 0;        ///< key of the largest value, or kEmptyTileKey if no token is
                                   ///< allowed
  std::int32_t max_id = -1;        ///< lowest id that has the largest value
  std::uint32_t max_bits = 0;      ///< bits of the largest value as a float
  std::uint32_t max_raw_bits = 0;  ///< bits of the caller's value of the token max_id
  std::uint32_t allowed = 0;       ///< number of tokens with a value above -inf
  std::uint32_t listed = 0;        ///< number of candidates that follow the summary
  std::int32_t left_key = 0;       ///< limit: all values with larger keys are among the
                                   ///< candidates
  OctaveSums octaves;
};
static_assert(sizeof(RowSummary) == 32 + 784);

/// A token, with the bits of its value. In raw modes of processed rows, another word follows, which
/// is the caller's logit.
struct Candidate {
  std::uint32_t bits = 0;
  std::int32_t id = -1;
};
static_assert(sizeof(Candidate) == 8);

/// Returns the number of candidates that a shard lists for a row, which is at most the capacity
/// `room` of a summary. Rows that are unfiltered or greedy need only the `reported` candidates.
/// With top_k, a shard lists 2 k candidates, so that the k-th value is known together with all
/// tokens tied with it, unless more than k values are tied.
FAIRDRAW_HOST_DEVICE inline int candidates_of_row(bool is_filtered, std::int32_t top_k,
                                                  std::int64_t vocab, int room, int reported) {
  int wanted = is_filtered ? room : 0;
  if (is_filtered && top_k_is_on(top_k, vocab) && top_k < room / 2) wanted = 2 * top_k;
  if (wanted < reported) wanted = reported;
  return wanted < room ? wanted : room;
}

/// Part of a summary for raw modes, computed from the caller's unprocessed logits at temperature 1.
/// After this part come the values of cut tiles (if processing may have changed them) and the n
/// largest tokens.
struct RawSummary {
  std::int32_t max_key = 0;
  std::uint32_t listed = 0;
  OctaveSums octaves;
};
static_assert(sizeof(RawSummary) == 8 + 784);

// --- Questions

// A row that is undecided asks all shards one question in each exchange. The questions themselves
// are never sent, because every rank derives the same questions from the same answers.

/// Question for the columns of the row from all shards, as the filters see them, and also for the
/// caller's columns if reports need these. Each answer is an array of `columns` float32 values,
/// where `columns` is the largest number of columns that a shard has.
struct GatherRow {
  std::size_t columns = 0;
  bool raw = false;
  bool operator==(const GatherRow&) const = default;
};

/// Limits for a row whose threshold is unknown: the number of attempts that a shard lists for each
/// token, and the number of attempts that are tried. An attempt can be the first accepted one only
/// if its value is larger than the values of all earlier attempts; such attempts are called
/// records. A nucleus of p rejects four records with the probability that a Poisson variable of
/// mean -ln(p) is at least 4, which is 5e-6 for p = 0.9. A nucleus rejects sixteen attempts with
/// the probability (1 - p)^16.
inline constexpr std::uint32_t kRecords = 4;
inline constexpr std::uint32_t kWideAttempts = 16;

/// Question for the attempts of draws (common/proposals.h) that are in each shard's whole tiles and
/// may be the first accepted attempt. Each shard lists the attempts whose value is larger than the
/// values of its earlier attempts, up to an attempt that is certainly accepted. In a row without
/// dropped tokens, there is only one attempt.
struct DrawTokens {
  std::uint32_t listed = 1;  ///< maximum per token
  struct Draw {
    std::uint32_t token = 0;     ///< number of the token among the tokens of the row
    std::uint32_t attempts = 0;  ///< number of attempts to be tried
    bool operator==(const Draw&) const = default;
  };
  std::vector<Draw> draws;
  bool operator==(const DrawTokens&) const = default;
};
/// An attempt of a draw that may be the first accepted one, with the token that it draws.
struct TokenAttempt {
  std::uint32_t attempts = 0;  ///< number of attempts up to and including this one, or 0 at the end
                               ///< of the list
  std::int32_t id = 0;
  std::uint32_t bits = 0;
  std::uint32_t raw_bits = 0;
};
static_assert(sizeof(TokenAttempt) == 16);

/// Question for the weight of each shard's columns above given values, in the row's unit; each
/// answer is a Sum128.
struct SumAbove {
  std::vector<std::int32_t> keys;  ///< kRecords keys per token, where kNoRecord means that nothing
                                   ///< is asked
  bool operator==(const SumAbove&) const = default;
};
inline constexpr std::int32_t kNoRecord = 0x7fffffff;

/// Question for the number of columns of each shard that precede given tokens in rank; each answer
/// is an int32. The counts compare reported values; a value of a cut tile is counted by the shard
/// that has the value's column.
struct CountInFront {
  struct Token {
    std::uint32_t bits = 0;  ///< its value
    std::int32_t end = 0;    ///< columns with an equal value are counted if their id is below `end`
    bool operator==(const Token&) const = default;
  };
  std::vector<Token> tokens;
  bool operator==(const CountInFront&) const = default;
};

using Question = std::variant<std::monostate, GatherRow, DrawTokens, SumAbove, CountInFront>;

/// Returns the size in bytes of the answer of a shard.
inline std::size_t answer_bytes(const Question& question) {
  if (const auto* row = std::get_if<GatherRow>(&question)) {
    return row->columns * sizeof(float) * (row->raw ? 2 : 1);
  }
  if (const auto* draws = std::get_if<DrawTokens>(&question)) {
    return draws->draws.size() * draws->listed * sizeof(TokenAttempt);
  }
  if (const auto* sums = std::get_if<SumAbove>(&question)) {
    return sums->keys.size() * sizeof(Sum128);
  }
  if (const auto* counts = std::get_if<CountInFront>(&question)) {
    return counts->tokens.size() * sizeof(std::int32_t);
  }
  return 0;
}

// --- Reading and writing -------------------------------------------------------------------------

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

/// Positions of the parts of a row's summary, which are the same for all rows and ranks of a call.
struct SummaryLayout {
  std::size_t cut_values = 0;  ///< capacity in float32 values, which is the largest number of cut
                               ///< values that a shard has
  std::size_t candidates = 0;  ///< capacity
  std::size_t reported = 0;    ///< number of the row's largest values that reports need
  bool raw_bits = false;       ///< whether candidates have 12 bytes instead of 8, because the
                               ///< caller's logit follows
  bool raw_summary = false;
  bool raw_cut_values = false;
  std::size_t raw_candidates = 0;
  std::size_t row_columns = 0;  ///< capacity for the columns of a shard, if rows of the call may be
                                ///< gathered
  std::uint32_t attempts = 1;   ///< maximum number of attempts that a shard lists for a token

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
