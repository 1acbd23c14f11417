// The row kernel's tuning: sizes, thresholds and widths that change its speed, and no result.
#pragma once

#include <cstdint>

namespace fairdraw::cuda {

// --- How a call is spread over the GPU (filter_rows.cpp) -----------------------------------------

/// Vectors of a row that 512 threads read at once, in two steps.
inline constexpr std::int64_t kNarrowRow = 1024;
/// What two blocks of 512 threads read in sixteen steps: two rows of that size share two
/// multiprocessors, most of both on chip, and one row's loads hide the other's sums.
inline constexpr std::int64_t kHalfBlockRow = 16384;
/// The bracket of a nucleus grows with the vocabulary: a row of peaked logits has 9000 values in it
/// at 262144, which the list holds without their ids.
inline constexpr std::int64_t kWideVocab = 160000;

// --- Reading a row (row_segment.cuh) -------------------------------------------------------------

/// Reads under way of steps that are not resident.
inline constexpr int kStepsAhead = 4;

// --- Lists of candidates (row_lists.cuh, list_finish.cuh) ----------------------------------------

/// Most candidates that are listed with their ids.
inline constexpr int kMaxListed = 4096;
/// Candidates that are ranked by counting: n^2 comparisons over a block's threads.
inline constexpr int kMaxRanked = 256;
/// Listed values that a warp can note before they are sent.
inline constexpr int kStagedPerWarp = 128;
/// With more threads that have listed values, walking over all vectors is faster.
inline constexpr int kFewThreads = 8;
/// Maxima that a thread can show for the head: of its even and its odd components where blocks
/// are small, so that 1024 threads a row are enough for a top_k of 1000.
constexpr int maxima_of_thread(int threads) { return threads <= 512 ? 2 : 1; }

// --- The guess of a nucleus (filter_rows.cuh, row_nuclei.cuh) ------------------------------------

/// Thread maxima that make the head of a row with top_p alone.
inline constexpr int kHeadSize = 96;
/// Bins of the sample that guesses a nucleus: a word each, from every block.
inline constexpr int kSampleBins = 512;
/// The sample's bins reach 32 octaves below the block's maximum.
inline constexpr float kBinsPerOctave = 16.0F;
/// The sample looks at one value in four.
inline constexpr int kSampleStride = 4;
/// Half the width of a guessed bracket in standard deviations: a miss in 2000 rows.
inline constexpr float kGpuBracketDeviations = 3.5F;

}  // namespace fairdraw::cuda
