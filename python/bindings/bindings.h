// Declares the functions that fill the module fairdraw._core.
#pragma once

#include <nanobind/nanobind.h>

namespace fairdraw::python {

void bind_enums(nanobind::module_& module);       ///< binds enums, which are values of arguments
void bind_operations(nanobind::module_& module);  ///< binds the kernels, for fairdraw/sampling.py
void bind_batch(nanobind::module_& module);       ///< binds the batch for a callable under test
void bind_draft_batch(
    nanobind::module_& module);  ///< binds the batch for a callable that verifies drafts
/// Sets HAS_SERVING, and calls the functions of serving below if the build contains them
/// (serving.cpp or no_serving.cpp).
void bind_serving(nanobind::module_& module);
void bind_batch_state(nanobind::module_& module);  ///< binds BatchState for fairdraw/serving.py
void bind_cuda_fused_sampling_processor(nanobind::module_& module);  ///< binds the steps of a batch
                                                                     ///< state on a GPU
void bind_beam_search(nanobind::module_& module);                    ///< binds the operations of
                                                                     ///< fairdraw/beam_search.py
/// Binds the operations of fairdraw/stop_criteria.py and fairdraw/parallel_sampling.py.
void bind_outputs_of_requests(nanobind::module_& module);
void bind_kept_sets(nanobind::module_& module);    ///< binds the operations of
                                                   ///< fairdraw/kept_sets.py
void bind_sharded(nanobind::module_& module);      ///< fairdraw/sharded.py
void bind_speculative(nanobind::module_& module);  ///< fairdraw/speculative.py
void bind_watermark(nanobind::module_& module);    ///< fairdraw/watermark.py

void bind_fuzz(nanobind::module_& module);          ///< fairdraw/fuzzing.py
void bind_identify(nanobind::module_& module);      ///< fairdraw/identification.py
void bind_expected_row(nanobind::module_& module);  ///< binds the model's rows for
                                                    ///< fairdraw/verification.py
void bind_verify(nanobind::module_& module);        ///< binds the gate, the command line and the
                                                    ///< integer model

}  // namespace fairdraw::python
