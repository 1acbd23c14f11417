"""LLM token samplers in exact integer arithmetic, and a gate that proves a sampler right.

>>> tokens = fairdraw.sample(logits, temperature=0.7, top_p=0.9, seed=7)
>>> fairdraw.verify(my_sampler, semantics="vllm_torch").raise_for_failures()

The operations have the names and arguments of flashinfer.sampling (fairdraw/sampling.py); `verify`
judges a callable (fairdraw/verification.py), or a `RunningBatch` (fairdraw/running_batch.py); `BatchState` keeps a running batch
(fairdraw/serving.py), and `FusedSamplingProcessor` steps over it (fairdraw/fused_sampling_processor.py);
`verify_chain` and `verify_tree` are speculation (fairdraw/speculative.py),
`BeamSearch` is beams (fairdraw/beam_search.py); `check_stop` says when requests end, `best_of` which
outputs are returned, `from_vllm` and its like what an engine's request means; `python -m fairdraw`
is the command line.

All of it is imported when the first name is used: pytest imports this package for its plugin, in
folders of tests that have nothing to do with it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._public import *  # noqa: F403
    from ._public_serving import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        # What Python itself asks modules for, and the parts of the package: nothing of that is here.
        if name.startswith("_") and name not in ("__all__", "__version__"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import _public

        for each in ("__all__", *_public.__all__):
            globals().setdefault(each, getattr(_public, each))  # what a user has replaced stays
        if name not in globals():  # a part of the package is there by now
            reason = f"module {__name__!r} has no attribute {name!r}"
            if not _public._core.HAS_SERVING:
                reason += "; this build is without serving (CMake's FAIRDRAW_SERVING=OFF)"
            raise AttributeError(reason)
        return globals()[name]

    def __dir__() -> list[str]:
        __getattr__("__all__")  # now all names are here
        return sorted(globals())
