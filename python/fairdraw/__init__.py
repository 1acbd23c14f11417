"""LLM token samplers in exact integer arithmetic, and a statistical gate that judges samplers.

>>> tokens = fairdraw.sample(logits, temperature=0.7, top_p=0.9, seed=7)
>>> fairdraw.verify(my_sampler, semantics="vllm_torch").raise_for_failures()

The operations have the names and arguments of flashinfer.sampling (fairdraw/sampling.py). `verify`
judges a callable (fairdraw/verification.py) or a `RunningBatch` (fairdraw/running_batch.py).
`BatchState` keeps a running batch (fairdraw/serving.py), and `FusedSamplingProcessor` makes the
batch's steps (fairdraw/fused_sampling_processor.py). `accept_chain` and `accept_tree` verify
drafted tokens (fairdraw/speculative.py), and engines name them `verify_chain` and `verify_tree`.
`BeamSearch` does beam search (fairdraw/beam_search.py). `check_stop` finds the requests that have
ended, `best_of` picks the outputs to return, and `from_vllm` and similar functions translate an
engine's request. `sample_marked` draws tokens that a key chooses, and `detect_watermark` finds them
(fairdraw/watermark.py). `python -m fairdraw` runs the command line.

All submodules are imported when the first name is used, because pytest imports this package for its
plugin even in test folders that do not use the package.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._public import *  # noqa: F403
    from ._public_serving import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        # Python itself looks up private names and submodules of a package; this package defines
        # none of these names.
        if name.startswith("_") and name not in ("__all__", "__version__"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import _public

        for each in ("__all__", *_public.__all__):
            # setdefault() keeps a name that the user has assigned to something else.
            globals().setdefault(each, getattr(_public, each))
        # If `name` is in globals() now, the import of _public has loaded the submodule of this
        # name.
        if name not in globals():
            reason = f"module {__name__!r} has no attribute {name!r}"
            if not _public._core.HAS_SERVING:
                reason += "; this build is without serving (CMake's FAIRDRAW_SERVING=OFF)"
            raise AttributeError(reason)
        return globals()[name]

    def __dir__() -> list[str]:
        __getattr__("__all__")  # all names of the package are defined after this import
        return sorted(globals())
