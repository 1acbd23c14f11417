// Implements the passes over tiles with the library Highway. The file is compiled once for AVX2,
// once for AVX-512, and for NEON if the compiler targets it (passes_simd.cpp explains the choice of
// targets and how one is selected).
//
// The contract, the definition and the error bound are in tile_passes.h and common/tile_weights.h.
// The results are bit for bit the results of the scalar passes, which evaluate the definition with
// doubles.
//
// A tile is read twice: first for its maximum and for NaN, and then for its weights. The second
// read of the tile, which has 1 KB, comes from the L1 cache. For float16 and bfloat16, masked rows
// and odd addresses, the first read stores the tile as float32 in a buffer, so that conversion and
// bans are paid once. The weights are then computed from these floats, where banned tokens have
// -inf.
//
// The faster sum for near tiles (near_sums.h) is tried first. A tile that is not near is weighed in
// lanes of 64 bits: with floats if the tile's maximum allows this, and otherwise with doubles,
// which costs about 3 times as much. Near tiles have no NaN, so only the other tiles are searched
// for NaN.
//
// Each vector of values takes 2 instructions for the octave and the fraction, 6 for the polynomial,
// 9 from there to two sums of 32 bits, and 1 for the maximum. On Zen 4, whose AVX-512 has the data
// paths of AVX2, these 18 instructions take at least 9 cycles, and 12.5 cycles were measured with
// the work per tile included. AVX2 takes 7.9 cycles for half as many values. Designs that gained
// less than they cost on Zen 4: eight vectors side by side (registers spill), steps of one group
// interleaved with steps of the group before, 64-bit rotations, and shifts over two registers
// (VBMI2; 4 of 100).
#include "cpu/passes/tile_passes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/passes/tile_passes_simd.cpp"
#include <hwy/foreach_target.h>  // this header must be included before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "cpu/passes/near_sums.h"
#include "cpu/passes/tile_vectors.h"
#include "cpu/passes/whole_tile.h"

#ifdef FAIRDRAW_TARGET

HWY_BEFORE_NAMESPACE();
namespace fairdraw::cpu {
namespace HWY_NAMESPACE {
namespace {

static_assert(kMaxLanes <= kTileSlack);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// --- Weights of values ---------------------------------------------------------------------------

/// Sums all values of a whole tile. The type Rule is NearLogits or WideTerms.
template <class Rule>
HWY_INLINE std::uint64_t sum_whole(const float* x, Rule& rule) {
  const std::size_t step = lanes();
  VecU64 total = hn::Zero(U64());
  for (const float* end = x + kTileSize; x != end;) {
    typename Rule::Sum part;
    for (const float* part_end = x + kPartTerms * step; x != part_end; x += kChains * step) {
      VecF values[kChains];
      typename Rule::Term terms[kChains];
      for (std::size_t j = 0; j < kChains; ++j) values[j] = hn::LoadU(F32(), x + j * step);
      rule.weigh(values, terms);
      for (const typename Rule::Term& term : terms) part.add(term);
    }
    total = hn::Add(total, part.total());
  }
  return sum_of_lanes(U64(), total);
}

template <class Rule>
std::uint64_t sum_from(const float* x, std::size_t n, const Rule& rule, float low) {
  const std::size_t step = lanes();
  const VecF threshold = hn::Set(F32(), low);
  WeightSum total;
  for (std::size_t i = 0; i < n; i += step) {
    const VecF value =
        HWY_LIKELY(i + step <= n) ? hn::LoadU(F32(), x + i) : load_tail(x + i, n - i);
    total.add(weights_from(value, rule, threshold));
  }
  return sum_of_lanes(U64(), total.total());
}

/// Sums the weights of the values >= low. Precondition: `low` is a near value, so that all values
/// that are summed are near values, too.
std::uint64_t sum_near_from(const float* x, std::size_t n, NearLogits& rule, float low) {
  const std::size_t step = lanes();
  const VecF threshold = hn::Set(F32(), low);
  VecU64 total = hn::Zero(U64());
  PartSum part;
  std::size_t terms_in_part = 0;
  const auto add = [&](const auto& values, auto& terms, std::size_t count) HWY_ATTR {
    if (terms_in_part + count > kPartTerms) {
      total = hn::Add(total, part.total());
      part = PartSum();
      terms_in_part = 0;
    }
    terms_in_part += count;
    rule.weigh(values, terms);
    for (std::size_t j = 0; j < count; ++j) {
      part.add_where(hn::Ge(values[j], threshold), terms[j]);
    }
  };
  std::size_t i = 0;
  for (; i + kChains * step <= n; i += kChains * step) {
    VecF values[kChains];
    WeightParts terms[kChains];
    for (std::size_t j = 0; j < kChains; ++j) values[j] = hn::LoadU(F32(), x + i + j * step);
    add(values, terms, kChains);
  }
  for (; i < n; i += step) {
    const VecF values[1] = {HWY_LIKELY(i + step <= n) ? hn::LoadU(F32(), x + i)
                                                      : load_tail(x + i, n - i)};
    WeightParts terms[1];
    add(values, terms, 1);
  }
  return sum_of_lanes(U64(), hn::Add(total, part.total()));
}

template <class Rule>
void weigh_from(const float* x, std::size_t n, const Rule& rule, float low, std::uint64_t* out) {
  const std::size_t step = lanes();
  const VecF threshold = hn::Set(F32(), low);
  for (std::size_t i = 0; i < n; i += step) {
    const VecF value =
        HWY_LIKELY(i + step <= n) ? hn::LoadU(F32(), x + i) : load_tail(x + i, n - i);
    const Weights weights = weights_from(value, rule, threshold);
    hn::StoreInterleaved2(weights.even, weights.odd, U64(), out + i);
  }
}

std::uint64_t sum(const float* x, std::size_t n, const WeightRule& rule, float maximum, float low) {
  if (rule.from_probs) return sum_from(x, n, Probabilities(maximum), low);
  if (!float_octaves_are_exact(maximum, rule.scale)) {
    return sum_from(x, n, DoubleLogits(maximum, rule.scale), low);
  }
  NearLogits near_rule(maximum, rule.scale);
  return n >= kChains * lanes() && near_rule.is_near(low)
             ? sum_near_from(x, n, near_rule, low)
             : sum_from(x, n, FloatLogits(maximum, rule.scale), low);
}

void weigh(const float* x, std::size_t n, const WeightRule& rule, float maximum, float low,
           std::uint64_t* out) {
  if (rule.from_probs) return weigh_from(x, n, Probabilities(maximum), low, out);
  float_octaves_are_exact(maximum, rule.scale)
      ? weigh_from(x, n, FloatLogits(maximum, rule.scale), low, out)
      : weigh_from(x, n, DoubleLogits(maximum, rule.scale), low, out);
}

// --- Reading tiles -------------------------------------------------------------------------------

/// Faults that were found among values, including the values of banned tokens.
class ValueWatch {
 public:
  HWY_INLINE ValueWatch()
      : nan_(hn::IsNaN(hn::Zero(F32()))),
        largest_(hn::Set(F32(), -kInfinity)),
        smallest_(hn::Zero(F32())) {}

  HWY_INLINE void see_pair(VecF a, VecF b) { nan_ = hn::Or(nan_, nan_in(a, b)); }
  /// Searches a tile for NaN.
  HWY_NOINLINE void see_tile(const float* x) {
    for (std::size_t i = 0; i < kTileSize; i += 2 * lanes()) {
      see_pair(hn::LoadU(F32(), x + i), hn::LoadU(F32(), x + i + lanes()));
    }
  }
  HWY_INLINE void see_largest(VecF x) { largest_ = hn::Max(largest_, x); }
  HWY_INLINE void see_smallest(VecF x) { smallest_ = hn::Min(smallest_, x); }

  HWY_INLINE void report(RowFindings& found) const {
    found.nan |= !hn::AllFalse(F32(), nan_);
    found.infinite |= hn::GetLane(hn::MaxOfLanes(F32(), largest_)) == kInfinity;
    found.negative |= hn::GetLane(hn::MinOfLanes(F32(), smallest_)) < 0;
  }

 private:
  hn::Mask<F32> nan_;
  VecF largest_, smallest_;
};

/// Kind of the row that a pass reads.
template <class Value_, bool kMasked_, bool kFromProbs_>
struct RowKind {
  using Value = Value_;
  static constexpr bool kMasked = kMasked_;
  static constexpr bool kFromProbs = kFromProbs_;
  /// True if values change when they are read; the changed values are kept as float32 in a buffer.
  static constexpr bool kStaged = kMasked || sizeof(Value) != sizeof(float);
  /// True if only tiles that are not near are searched for NaN, because near tiles have no NaN.
  static constexpr bool kNearTellsNan = !kMasked && !kFromProbs;
  /// Value that stands for a banned token.
  static constexpr float kBanned = kFromProbs ? 0.0F : -kInfinity;
};

template <class Kind>
HWY_INLINE VecF stage(const WholeTile<typename Kind::Value>& tile, std::size_t i, VecF value,
                      float* staged) {
  if constexpr (Kind::kMasked) {
    value = hn::IfThenElse(tile.allowed(i), value, hn::Set(F32(), Kind::kBanned));
  }
  if constexpr (Kind::kStaged) hn::StoreU(value, F32(), staged + i);
  return value;
}

/// Returns the largest allowed value of a tile, and writes the values to `staged` if Kind::kStaged
/// is true.
template <class Kind>
HWY_INLINE float scan(const WholeTile<typename Kind::Value>& tile, float* staged,
                      ValueWatch& watch) {
  const std::size_t step = lanes();
  const VecF lowest = hn::Set(F32(), -kInfinity);
  VecF first = lowest;
  VecF second = lowest;
  for (std::size_t i = 0; i < kTileSize; i += 2 * step) {
    const VecF a = load(tile.values() + i);
    const VecF b = load(tile.values() + i + step);
    if constexpr (!Kind::kNearTellsNan) watch.see_pair(a, b);
    if constexpr (Kind::kMasked) {
      watch.see_largest(a);
      watch.see_largest(b);
    }
    if constexpr (Kind::kFromProbs) {
      watch.see_smallest(a);
      watch.see_smallest(b);
    }
    first = hn::Max(first, stage<Kind>(tile, i, a, staged));
    second = hn::Max(second, stage<Kind>(tile, i + step, b, staged));
  }
  return hn::GetLane(hn::MaxOfLanes(F32(), hn::Max(first, second)));
}

/// Sums the weights of a tile that is not near. The function is out of line, because the loop of
/// the caller needs all registers.
HWY_NOINLINE std::uint64_t sum_wide(const float* values, float maximum, float scale) {
  if (!float_octaves_are_exact(maximum, scale)) {
    return sum_from(values, kTileSize, DoubleLogits(maximum, scale), -kInfinity);
  }
  WideTerms terms{FloatLogits(maximum, scale)};
  return sum_whole(values, terms);
}

/// Sums the weights of a tile that has an allowed token.
template <class Kind>
HWY_INLINE std::uint64_t sum_of_tile(const float* values, float maximum, float scale,
                                     NearTiles& near_tiles, ValueWatch& watch) {
  if constexpr (Kind::kFromProbs) {
    WideTerms terms{Probabilities(maximum)};
    return sum_whole(values, terms);
  } else {
    if (HWY_LIKELY(float_octaves_are_exact(maximum, scale) && near_tiles.tries())) {
      NearLogits terms(maximum, scale);
      const std::uint64_t sum = sum_whole(values, terms);
      if (HWY_LIKELY(terms.all_near())) return sum;
      near_tiles.missed();
    }
    if constexpr (Kind::kNearTellsNan) watch.see_tile(values);
    return sum_wide(values, maximum, scale);
  }
}

/// Tile whose maximum is known, and whose values are in `staged` as float32, or in the row.
struct ScannedTile {
  float maximum;
  const float* values;
};

/// Buffers for the values of a scanned tile that cannot be read from the row, until the tile is
/// weighed.
template <class Value>
struct TileBuffers {
  HWY_ALIGN float staged[kTileSize];
  HWY_ALIGN Value copy[kTileSize];
};

template <class Kind>
HWY_INLINE ScannedTile scan_tile(const RowInMemory& row, const WeightRule& rule, std::int64_t tile,
                                 TileBuffers<typename Kind::Value>& buffers, ValueWatch& watch) {
  const WholeTile<typename Kind::Value> whole(row, rule, tile, buffers.copy);
  const float maximum = scan<Kind>(whole, buffers.staged, watch);
  if constexpr (Kind::kStaged) {
    return {maximum, buffers.staged};
  } else {
    return {maximum, whole.values()};
  }
}

/// Indexes a row. The next tile is scanned before this tile is weighed. Otherwise the processor
/// would wait for the next maximum (a vector reduction) and for the L2 cache, with nothing to weigh
/// in the meantime.
template <class Kind>
RowStatus index_kind(const RowInMemory& row, const WeightRule& rule, std::int32_t* keys,
                     std::uint64_t* sums) {
  RowFindings found;
  ValueWatch watch;
  NearTiles near_tiles;
  TileBuffers<typename Kind::Value> buffers[2];
  const std::int64_t tiles = tiles_of(row.vocab);
  ScannedTile next = scan_tile<Kind>(row, rule, 0, buffers[0], watch);
  for (std::int64_t t = 0; t < tiles; ++t) {
    const auto [maximum, values] = next;
    if (t + 1 < tiles) next = scan_tile<Kind>(row, rule, t + 1, buffers[(t + 1) % 2], watch);
    const bool finite = maximum > Kind::kBanned && maximum < kInfinity;
    keys[t] = finite ? order_key(maximum) : kEmptyTileKey;
    if (HWY_LIKELY(finite)) {
      sums[t] = sum_of_tile<Kind>(values, maximum, rule.scale, near_tiles, watch);
    } else {
      sums[t] = 0;
      if constexpr (Kind::kNearTellsNan) watch.see_tile(values);
    }
    found.allowed |= finite;
    found.infinite |= maximum == kInfinity;
  }
  watch.report(found);
  return status_of(found);
}

template <class Value>
RowStatus index_values(const RowInMemory& row, const WeightRule& rule, std::int32_t* keys,
                       std::uint64_t* sums) {
  if (rule.from_probs) {
    return row.allowed == nullptr ? index_kind<RowKind<Value, false, true>>(row, rule, keys, sums)
                                  : index_kind<RowKind<Value, true, true>>(row, rule, keys, sums);
  }
  return row.allowed == nullptr ? index_kind<RowKind<Value, false, false>>(row, rule, keys, sums)
                                : index_kind<RowKind<Value, true, false>>(row, rule, keys, sums);
}

RowStatus index(const RowInMemory& row, const WeightRule& rule, std::int32_t* keys,
                std::uint64_t* sums) {
  if (row.dtype == DType::float16) return index_values<hwy::float16_t>(row, rule, keys, sums);
  if (row.dtype == DType::bfloat16) return index_values<hwy::bfloat16_t>(row, rule, keys, sums);
  return index_values<float>(row, rule, keys, sums);
}

template <class Kind>
void read_kind(const WholeTile<typename Kind::Value>& tile, float* buffer) {
  for (std::size_t i = 0; i < kTileSize; i += lanes()) {
    const VecF value = stage<Kind>(tile, i, load(tile.values() + i), buffer);
    if constexpr (!Kind::kStaged) hn::StoreU(value, F32(), buffer + i);
  }
}

template <class Value>
const float* read_values(const RowInMemory& row, const WeightRule& rule, std::int64_t tile,
                         float* buffer) {
  HWY_ALIGN Value copy[kTileSize];
  const WholeTile<Value> whole(row, rule, tile, copy);
  if (row.allowed == nullptr) {
    if constexpr (sizeof(Value) == sizeof(float)) {
      if (whole.values() != copy) return whole.values();
    }
    read_kind<RowKind<Value, false, false>>(whole, buffer);
  } else if (rule.from_probs) {
    read_kind<RowKind<Value, true, true>>(whole, buffer);
  } else {
    read_kind<RowKind<Value, true, false>>(whole, buffer);
  }
  return buffer;
}

const float* read(const RowInMemory& row, const WeightRule& rule, std::int64_t tile,
                  float* buffer) {
  if (row.dtype == DType::float16) return read_values<hwy::float16_t>(row, rule, tile, buffer);
  if (row.dtype == DType::bfloat16) return read_values<hwy::bfloat16_t>(row, rule, tile, buffer);
  return read_values<float>(row, rule, tile, buffer);
}

}  // namespace

// Each target has one table, which simd_tile_passes() below returns.
extern const TilePasses kTilePasses;
const TilePasses kTilePasses = TilePasses{index, read, sum, weigh};

}  // namespace HWY_NAMESPACE
}  // namespace fairdraw::cpu
HWY_AFTER_NAMESPACE();

#endif  // FAIRDRAW_TARGET

#if HWY_ONCE

namespace fairdraw::cpu {

const TilePasses* simd_tile_passes(CpuTarget target) {
#if HWY_TARGETS & HWY_AVX2
  if (target == CpuTarget::avx2) return &N_AVX2::kTilePasses;
#endif
#if HWY_TARGETS & HWY_AVX3
  if (target == CpuTarget::avx512) return &N_AVX3::kTilePasses;
#endif
#if HWY_ARCH_ARM_A64
  if (target == CpuTarget::neon) return &HWY_STATIC_DISPATCH(kTilePasses);
#endif
  return nullptr;
}

}  // namespace fairdraw::cpu

#endif  // HWY_ONCE
