// Implementation of tile_index on the GPU (fairdraw/cuda_tile_index.h), with the checks of its
// arguments. The kernel that computes the index is in tiles/index_tiles.cu.
#include "common/arguments.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "cuda/outputs/index_tiles.h"
#include "fairdraw/cuda_tile_index.h"

namespace fairdraw::cuda {
namespace {

Error check_pointers(const TileIndexRequest& request, const TileIndexResult& result) {
  DevicePointers pointers;
  pointers.check("rows", request.rows);
  pointers.check("temperature", request.temperature);
  pointers.check("allowed", request.allowed);
  pointers.check("active", request.active);
  if (request.rows.rows > 0) {
    pointers.check("keys", result.keys.data, alignof(std::int32_t));
    pointers.check("sums", result.sums.data, alignof(std::uint64_t));
  }
  pointers.check("statuses", result.statuses);
  return pointers.error();
}

}  // namespace

Error tile_index(const TileIndexRequest& request, const TileIndexResult& result, void* stream) {
  if (Error error = check_tile_index(request, result)) return error;
  if (Error error = check_batch(request.rows, "rows")) return error;
  Path path = Path::best;
  if (Error error = check_path(path)) return error;
  if (Error error = check_pointers(request, result)) return error;
  if (request.rows.rows == 0) return {};
  TileSpread spread;
  if (Error error = check_call("best_spread", best_spread(request.rows, path, spread))) {
    return error;
  }
  return check_launch("index_tiles",
                      index_tiles(request, result, spread, static_cast<cudaStream_t>(stream)));
}

}  // namespace fairdraw::cuda
