// Mutants of sharded vocabularies: each rank has a part of a row, and a step of the ranks' exchange
// is wrong. The blocks of fairdraw/sharded.h are changed in the same way on all ranks, so that the
// call succeeds.
#include "harness/adapters/sharded.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "fairdraw/tile_index.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using harness::ShardFaults;

constexpr int kShards = 2;
const char* const kTwin = "sharded:2";

// Sizes and byte offsets in a summary of fairdraw/sharded.h.
constexpr std::int64_t kHeader = 16;
constexpr std::int64_t kStatus = 0, kMaxKey = 4, kMaxId = 8, kListed = 24, kLeftKey = 28;
constexpr std::int64_t kCutValues = 816, kCandidate = 8;

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <class T>
void write(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

std::int64_t shards_of(const ShardedRequest& request) { return request.boundaries.size - 1; }

/// Returns the number of values in the cut tiles of a shard: those before its first whole tile and
/// after its last one.
std::int64_t cut_values(const ShardedRequest& request, std::int64_t shard) {
  const std::int64_t begin = request.boundaries.data[shard];
  const std::int64_t end = request.boundaries.data[shard + 1];
  const std::int64_t vocab = request.boundaries.data[shards_of(request)];
  const std::int64_t first = std::min((begin + 255) / 256 * 256, end);
  const std::int64_t last = std::max(first, end == vocab ? end : end / 256 * 256);
  return first - begin + end - last;
}

std::int64_t max_cut_values(const ShardedRequest& request) {
  std::int64_t most = 0;
  for (std::int64_t s = 0; s < shards_of(request); ++s) {
    most = std::max(most, cut_values(request, s));
  }
  return most;
}

/// Calls change(request, summaries) for each row of the first exchange; `summaries` has one summary
/// per shard.
template <class Change>
ShardFaults with_summaries(Change change) {
  ShardFaults faults;
  faults.blocks = [change](const ShardedRequest& request, int exchange, std::byte* blocks,
                           std::int64_t block_bytes) {
    const std::int64_t rows = request.rows.logits.rows;
    if (exchange > 0 || rows == 0) return;
    const std::int64_t bytes = (block_bytes - kHeader) / rows;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::vector<std::byte*> summaries;
      for (std::int64_t s = 0; s < shards_of(request); ++s) {
        summaries.push_back(blocks + s * block_bytes + kHeader + row * bytes);
      }
      change(request, summaries);
    }
  };
  return faults;
}

/// Draws the token from the shard's own columns alone.
ShardFaults own_token() {
  ShardFaults faults;
  faults.result = [](const ShardedRequest& request, const SampleResult& result) {
    // Lists contain ids of the whole vocabulary, so calls with processing are not mutated.
    if (request.rows.logits.vocab == 0 || request.rows.processing.given()) return;
    if (request.input != TileInput::logits || !result.tokens.given()) return;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(result.tokens.size));
    SampleResult own;
    own.tokens = {tokens.data(), result.tokens.size};
    if (sample(request.rows, own, {CpuTarget::best, 1})) return;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0) continue;
      result.tokens.data[i] =
          tokens[i] + static_cast<std::int32_t>(request.boundaries.data[request.shard]);
    }
  };
  return faults;
}

ShardFaults local_maximum() {
  return with_summaries([](const ShardedRequest&, const std::vector<std::byte*>& summaries) {
    std::int32_t largest = std::numeric_limits<std::int32_t>::min();
    for (const std::byte* summary : summaries) {
      largest = std::max(largest, read<std::int32_t>(summary + kMaxKey));
    }
    for (std::byte* summary : summaries) {
      const bool has_tokens = read<std::int32_t>(summary + kMaxId) >= 0;
      if (has_tokens) write(summary + kMaxKey, largest);
    }
  });
}

ShardFaults salted_seeds() {
  ShardFaults faults;
  auto seeds = std::make_shared<std::vector<std::vector<std::uint64_t>>>();
  faults.request = [seeds](ShardedRequest& request) {
    PerRequest<std::uint64_t>& seed = request.rows.seed;
    if (!seed.is_array()) return;
    if (request.shard == 0) seeds->clear();
    std::vector<std::uint64_t>& salted = seeds->emplace_back();
    // Output i gets the token of rank i % shards.
    for (std::int64_t i = 0; i < seed.values.size; ++i) {
      salted.push_back(seed.values.data[i] + static_cast<std::uint64_t>(i % kShards));
    }
    if (!salted.empty()) seed.values = {salted.data(), seed.values.size};
  };
  return faults;
}

ShardFaults no_certificate() {
  return with_summaries([](const ShardedRequest&, const std::vector<std::byte*>& summaries) {
    for (std::byte* summary : summaries) write(summary + kLeftKey, kEmptyTileKey);
  });
}

ShardFaults merged_ties() {
  return with_summaries(
      [](const ShardedRequest& request, const std::vector<std::byte*>& summaries) {
        const std::int64_t list = kCutValues + 4 * max_cut_values(request);
        std::set<float> seen;
        for (std::byte* summary : summaries) {
          const auto listed = read<std::uint32_t>(summary + kListed);
          std::set<float> own;
          std::uint32_t kept = 0;
          for (std::uint32_t i = 0; i < listed; ++i) {
            const auto candidate = read<std::uint64_t>(summary + list + i * kCandidate);
            const auto value = read<float>(summary + list + i * kCandidate);
            if (seen.contains(value)) continue;
            own.insert(value);
            write(summary + list + kept++ * kCandidate, candidate);
          }
          write(summary + kListed, kept);
          seen.merge(own);
        }
      });
}

ShardFaults ids_of_the_shard() {
  ShardFaults faults;
  faults.result = [](const ShardedRequest& request, const SampleResult& result) {
    for (std::int64_t i = 0; i < result.tokens.size; ++i) {
      std::int32_t& token = result.tokens.data[i];
      if (token < 0) continue;
      const std::int64_t* end = request.boundaries.data + request.boundaries.size;
      const std::int64_t* after =
          std::upper_bound(request.boundaries.data, end, static_cast<std::int64_t>(token));
      token -= static_cast<std::int32_t>(*std::prev(after));
    }
  };
  return faults;
}

ShardFaults empty_shard_says_zero() {
  ShardFaults faults =
      with_summaries([](const ShardedRequest& request, const std::vector<std::byte*>& summaries) {
        for (std::int64_t s = 0; s < shards_of(request); ++s) {
          if (request.boundaries.data[s] < request.boundaries.data[s + 1]) continue;
          std::byte* summary = summaries[static_cast<std::size_t>(s)];
          write(summary + kMaxKey, std::int32_t{0});
          write(summary + kMaxId, static_cast<std::int32_t>(request.boundaries.data[s]));
        }
      });
  faults.boundaries = [](std::int64_t vocab) {
    return std::vector<std::int64_t>{0, vocab / 3, vocab / 3, vocab / 2, vocab};
  };
  return faults;
}

ShardFaults nan_of_one_rank() {
  return with_summaries([](const ShardedRequest&, const std::vector<std::byte*>& summaries) {
    for (std::size_t s = 1; s < summaries.size(); ++s) {
      const auto status = static_cast<RowStatus>(read<std::int32_t>(summaries[s] + kStatus));
      if (status != RowStatus::nan_input) continue;
      write(summaries[s] + kStatus, static_cast<std::int32_t>(RowStatus::no_allowed_token));
    }
  });
}

ShardFaults dropped_cut_tiles() {
  return with_summaries(
      [](const ShardedRequest& request, const std::vector<std::byte*>& summaries) {
        for (std::int64_t s = 0; s < shards_of(request); ++s) {
          std::byte* at = summaries[static_cast<std::size_t>(s)] + kCutValues;
          const bool has_whole_tiles =
              read<std::int32_t>(summaries[static_cast<std::size_t>(s)] + kMaxId) >= 0;
          if (!has_whole_tiles) continue;  // a small vocabulary has only cut tiles
          for (std::int64_t i = 0; i < cut_values(request, s); ++i) {
            write(at + 4 * i, -std::numeric_limits<float>::infinity());
          }
        }
      });
}

constexpr const char* kUnfiltered = "tokens/gaussian_wide/v1000/unfiltered tokens/*";

struct Wrong {
  const char *name, *wrong, *expected;
  ShardFaults (*faults)();
};
constexpr Wrong kSharded[] = {
    {"shard-keeps-its-own-token", "each rank draws from its own columns, and keeps what it drew",
     kUnfiltered, own_token},
    {"shard-masses-by-its-own-maximum",
     "masses of shards, each relative to the shard's largest logit, are added as they are",
     kUnfiltered, local_maximum},
    {"shard-salts-seeds", "each rank adds its number to the request's seed", kUnfiltered,
     salted_seeds},
    {"shard-candidates-without-certificate",
     "what shards have left out of their candidates is taken for nothing",
     "tokens/flat/v1000/edges tokens/gaussian_wide/v1000/top_p_alone", no_certificate},
    {"shard-merges-ties", "a candidate that ties with one of a shard before it is dropped",
     "mask/bf16_rounded/v1000/edges tokens/gaussian_wide/v1000/bfloat16/edges", merged_ties},
    {"shard-ids-not-offset", "a token's id is counted from its shard's first column", kUnfiltered,
     ids_of_the_shard},
    {"shard-empty-says-zero", "a rank without columns says that its largest logit is 0",
     "mask/all_negative/v1000/edges tokens/gaussian_wide/v1000/min_p_alone", empty_shard_says_zero},
    {"shard-nan-of-one-rank", "a NaN fails the row on the first rank alone",
     "status/gaussian/v1000/everyday status/*", nan_of_one_rank},
    {"shard-drops-cut-tiles", "the values of a tile that a boundary cuts are in no shard's sums",
     kUnfiltered, dropped_cut_tiles},
};

}  // namespace

std::vector<Twin> sharded_twins() {
  return {{kTwin, [] { return harness::make_sharded_sampler(kTwin, kShards, {}); }}};
}

std::vector<Mutant> sharded_mutants() {
  std::vector<Mutant> mutants;
  for (const Wrong& row : kSharded) {
    mutants.push_back(
        {row.name, "systematic", "sharded", row.wrong, names_of(row.expected), kTwin,
         [row] { return harness::make_sharded_sampler(kTwin, kShards, row.faults()); }});
  }
  return mutants;
}

}  // namespace fairdraw::suites
