// Binds sharded calls on GPUs, and reads the argument that they share with calls in host memory.
#pragma once

#include <cstdint>
#include <vector>

#include "python/bindings/arguments.h"

namespace fairdraw::python {

/// Returns the first column of each shard, followed by the vocabulary size.
std::vector<std::int64_t> boundaries_of(const Named& given);

void bind_sharded_on_gpu(nb::module_& module);

}  // namespace fairdraw::python
