// Sharded calls on GPUs, and what they have in common with those in host memory.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

namespace fairdraw::python {

/// Where the columns of shards begin, and the vocabulary at the end.
std::vector<std::int64_t> boundaries_of(const nanobind::list& boundaries);

void bind_sharded_on_gpu(nanobind::module_& module);

}  // namespace fairdraw::python
