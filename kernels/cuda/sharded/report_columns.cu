// Writes the log-probabilities of all columns of this shard, for calls that request whole rows.
//
// Contract. Rows with a result get the value of every column (fairdraw/log_probabilities.h), which
// is -inf for columns without a reported value; all columns of failed rows get -inf. Padding rows
// and rows that still wait are left unchanged.
//
// Algorithm and cost. Each column costs a read and a write, and each thread computes two logarithms
// of the row's mass.
//
// Randomness: none. Numerics: the values are computed in reported_value.cuh. Determinism: each
// value is written to a place of its own.
#include <cstdint>

#include "cuda/device/row_launch.h"
#include "cuda/rows/filtered_row.cuh"
#include "cuda/sharded/reported_value.cuh"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 8;  ///< number of columns per thread, for all of which the logarithms are
                             ///< computed once

__global__ void __launch_bounds__(kThreads)
    report_columns_kernel(const __grid_constant__ ShardedTask task, int blocks_of_row) {
  const std::int64_t number = blockIdx.x / static_cast<unsigned>(blocks_of_row);
  const RowRecord& record = task.records[number];
  if (record.status == RowStatus::inactive) return;
  const bool raw = is_raw(task.mode);
  const FilteredRows filtered{
      raw && task.raw.given ? task.raw.columns : task.columns, false, task.temperature,
      raw ? BitRows<const std::uint32_t>{} : task.allowed,     {},    task.records};
  const FilteredRow row = FilteredRow::of(filtered, number);
  const RowParameters parameters{task.temperature.at(number), task.top_k.at(number),
                                 task.top_p.at(number), task.min_p.at(number)};
  const auto part = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks_of_row));
  const int first = part * kThreads * kColumns + static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int i = 0; i < kColumns; ++i) {
    const int column = first + i * kThreads;
    if (column >= row.vocab) return;
    float value = -INFINITY;
    if (record.status == RowStatus::ok) {
      const float x = row.values[column];
      const bool counts = row.is_allowed(column, x) && (raw || row.survives(column, x));
      if (counts) value = reported_value(task.mode, parameters, task.states[number], x);
    }
    task.all.data[number * task.all.row_stride + column] = value;
  }
}

}  // namespace

cudaError_t report_columns(const ShardedTask& task, cudaStream_t stream) {
  constexpr std::int64_t kColumnsOfBlock = std::int64_t{kThreads} * kColumns;
  const std::int64_t blocks_of_row = (task.columns.vocab + kColumnsOfBlock - 1) / kColumnsOfBlock;
  return launch_clusters(report_columns_kernel, task.rows() * blocks_of_row, 1, kThreads, stream,
                         task, static_cast<int>(blocks_of_row));
}

}  // namespace fairdraw::cuda
