// Sharded calls on GPUs, and what they have in common with those in host memory.
#pragma once

#include <cstdint>
#include <vector>

#include "python/bindings/arguments.h"

namespace fairdraw::python {

/// Where the columns of shards begin, and the vocabulary at the end.
std::vector<std::int64_t> boundaries_of(const Named& given);

void bind_sharded_on_gpu(nb::module_& module);

}  // namespace fairdraw::python
