// Finds the largest values of each row that beams use, in order, and the logarithm of the row's
// mass.
//
// Contract. Each row whose entries are requested gets a status. A row with the status ok also gets
// its largest value and its first entries: the requested number of them, or all entries above -inf.
// Entries are ordered by value, largest first, and by token id among equal values. For logits, the
// row also gets the logarithm of its mass at temperature 1 (fairdraw/log_probabilities.h). Nothing
// is written for all other rows.
//
// Algorithm and cost. From 1 to 16 blocks share a row and index its tiles (tile_pass.cuh), without
// the tiles' sums if no mass is requested. The first block has the index in shared memory, and
// reads the tiles that contain the first entries again (outputs/row_heads.cuh). This is about one
// tile per entry, because the largest value of each tile is known. The blocks have kEndThreads
// threads, because this search requires so many.
//
// Randomness: none. Numerics: the weights are defined in common/tile_weights.h; the logarithm is
// computed on the device. Determinism: only integers are summed, and entries are sorted by value
// and id.
#include "common/tile_weights.h"
#include "cuda/beams/beam_search.h"
#include "cuda/outputs/index_mass.cuh"
#include "cuda/outputs/row_heads.cuh"
#include "cuda/rows/filtered_row.cuh"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/tile_search.cuh"

namespace fairdraw::cuda {
namespace {

static_assert(kMaxOfBeam <= HeadSearch::kMax);

struct Shared {
  HeadSearch::Memory search;
  HeadEntries entries;
  IndexMass::Scratch mass;
};

/// Part of a row that a single thread block processes.
template <RowForm kForm>
class BeamRowFinder {
 public:
  __device__ BeamRowFinder(const BeamTask& task, int blocks_log2, Shared& shared,
                           unsigned char* dynamic)
      : task_(task),
        number_(blockIdx.x >> static_cast<unsigned>(blocks_log2)),
        row_(task.step.rows, {}, number_, false),
        ring_(dynamic),
        blocks_(blocks_log2, row_.tiles(), dynamic + TileRing<kForm>::kLaneBytes * blockDim.x),
        shared_(shared),
        rule_{logit_scale(1.0F), task.step.input == BeamInput::logits} {}

  __device__ void run() {
    // Either all blocks of the row return here or none of them.
    if (task_.wanted[number_] == 0) return;
    blocks_.cluster().announce();
    visit_tiles(
        row_, ring_, blocks_.steps(), [this] { blocks_.cluster().await_all(); },
        [this](int tile, const RawTile& raw) {
          using Pass = TilePass<kForm, false>;
          float x[kLaneValues];
          const std::int32_t key = Pass::largest(row_, raw, x);
          blocks_.send(tile, {key, rule_.wants_sums ? Pass::sum(x, key, rule_) : 0});
        });
    blocks_.cluster().sync();
    if (blocks_.is_first()) end();
  }

 private:
  /// Finishes the row, with all kEndThreads threads of the first block, after this block has
  /// received the whole index.
  __device__ void end() const {
    const RowIndex index = blocks_.index();
    const TileKeys keys = find_tile_keys(index);
    BeamRow found{status_of_key(keys.largest), 0, 0.0F, 0.0};
    if (found.status == RowStatus::ok) {
      found.max = from_order_key(keys.largest);
      if (rule_.wants_sums) {
        const IndexMass mass = IndexMass::of(index, shared_.mass);
        if (threadIdx.x == 0) found.log_mass = mass.log_mass();
      }
      found.entries = write_entries(index, keys);
    }
    if (threadIdx.x == 0) task_.rows[number_] = found;
  }

  /// Writes the entries of the row, and returns the number of entries.
  __device__ int write_entries(const RowIndex& index, const TileKeys& keys) const {
    const FilteredRow values = FilteredRow::whole(task_.step.rows, number_, false);
    const int wanted = task_.wanted[number_];
    const KeyedRow row{values, index.keys, index.tiles};
    HeadSearch search(shared_.search);
    const HeadSearch::Head head = search.find(row, keys, wanted, shared_.entries);
    const int n = min(head.n, wanted);
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
      task_.values[number_ * kMaxOfBeam + i] = shared_.entries.value[i];
      task_.ids[number_ * kMaxOfBeam + i] = shared_.entries.id[i];
    }
    return n;
  }

  const BeamTask& task_;
  std::int64_t number_;
  RowOfTiles<kForm> row_;
  TileRing<kForm> ring_;
  RowBlocks blocks_;
  Shared& shared_;
  TileWeighing rule_;
};

template <DType kType, TileAccess kAccess>
__global__ void __launch_bounds__(kEndThreads, 4)
    find_beam_rows_kernel(const __grid_constant__ BeamTask task, int blocks_log2) {
  // The storage is an array of bytes, because a variable in shared memory must not have a
  // constructor.
  __shared__ alignas(Shared) unsigned char storage[sizeof(Shared)];
  extern __shared__ __align__(16) unsigned char dynamic[];
  auto& shared = *reinterpret_cast<Shared*>(storage);
  BeamRowFinder<RowForm{kType, kAccess}>(task, blocks_log2, shared, dynamic).run();
}

template <RowForm kForm>
cudaError_t launch(const BeamTask& task, const TileSpread& spread, cudaStream_t stream) {
  const RowsView& rows = task.step.rows;
  const SpreadNeeds needs{[tiles = tiles_of(rows.vocab)](int threads) {
                            return TileRing<kForm>::kLaneBytes * threads + index_bytes(tiles);
                          },
                          false};
  return launch_spread<find_beam_rows_kernel<kForm.type, kForm.access>>(rows.rows, spread, needs,
                                                                        stream, task);
}

}  // namespace

cudaError_t find_beam_rows(const BeamTask& task, Path path, cudaStream_t stream) {
  TileSpread spread;
  const cudaError_t error = best_spread(task.step.rows, path, spread);
  if (error != cudaSuccess) return error;
  // A row has as many threads as in the row kernel, in twice as many blocks of half the size.
  static_assert(kMaxThreadsOfBlock == 2 * kEndThreads);
  spread.threads = kEndThreads;
  if (spread.blocks > 1 && spread.blocks < kMaxBlocksOfRow) spread.blocks *= 2;
  return launch_for_form(task.step.rows,
                         [&]<RowForm kForm>() { return launch<kForm>(task, spread, stream); });
}

}  // namespace fairdraw::cuda
