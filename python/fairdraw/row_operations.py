"""Defines the row operations of flashinfer.sampling: softmax, top-k masks, renormalised
probabilities.

Arrays are accepted and returned as described in `fairdraw/sampling.py`. Nothing is drawn.

Definition: flashinfer.sampling for names, arguments and meanings; docs/semantics.md for the
filters.

Raises:
    TypeError: An argument is no array or number, or has a wrong dtype or number of axes.
    ValueError: A number is out of its range, or an array has a wrong length, stride or device.
    RuntimeError: No kernel of this build can run on the GPU, or the CUDA runtime reports an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from . import _core
from ._arguments import _joined, _leading, _one_each
from ._arrays import backend_of, length, width
from ._operations import DETAILS, TABLE, Array, BackendFor, Float, Int, Operator, Sizes, operation


def _like_rows(**given: Any) -> Sizes:
    return {"as_rows": next(iter(given.values())).shape}


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _rows_to_rows(
    name: str, dtype: str = "float32", core: str = ""
) -> Callable[[_Function], _Function]:
    results = {"result": (dtype, "as_rows")}
    return TABLE.declare(Operator(name, results), sizes=_like_rows, core=core)


@_rows_to_rows("softmax")
@operation
def softmax(
    backend_for: BackendFor, logits: Array, temperature: Float = None, enable_pdl: Any = None
) -> Any:
    """Returns softmax(logits / temperature) as float32. With temperature 0 the result is one-hot at
    the largest logit.

    Small probabilities keep their values, down to the smallest subnormal number of float32. Rows
    that cannot be normalised (rows with NaN or +inf, or only -inf) become zero. `enable_pdl` is a
    hint for flashinfer's kernels, and has no effect here.
    """
    leading = _leading("logits", logits)
    rows, temperature = _joined(logits, leading), _one_each(temperature, leading)
    backend = backend_for(rows, "logits")
    probs = backend.empty(tuple(logits.shape), "float32")
    backend.call(
        _core.softmax,
        dict(
            logits=rows,
            temperature=1.0 if temperature is None else backend.parameter(temperature, "float32"),
            probs=_joined(probs, leading),
            statuses=None,
            workspace=backend.workspace(length(rows)),
        ),
    )
    return probs


@_rows_to_rows("top_k_mask_logits", "like")
@operation
def top_k_mask_logits(backend_for: BackendFor, logits: Array, top_k: Int) -> Any:
    """Returns the logits, in their dtype, with -inf in place of logits below the k-th largest.
    Logits equal to the k-th largest stay."""
    leading = _leading("logits", logits)
    rows = _joined(logits, leading)
    backend = backend_for(rows, "logits")
    masked = backend.empty_like(logits)
    backend.call(
        _core.top_k_mask_logits,
        dict(
            logits=rows,
            top_k=backend.parameter(_one_each(top_k, leading), "int32"),
            masked=_joined(masked, leading),
            statuses=None,
            workspace=backend.workspace(length(rows)),
        ),
    )
    return masked


#: Arguments of `sample` for a call that only finds the tokens that survive the filters.
_SURVIVORS = {
    **dict.fromkeys((*DETAILS, "reports", "indices", "allowed", "active", "processing")),
    **{"temperature": 1.0, "top_k": 0, "min_p": 0.0, "top_n_sigma": 0.0, "num_samples": 1},
    **{"seed": 0, "offset": 0, "tie_rule": _core.TieRule.keep_all, "purpose": _core.Purpose.draw},
    "filter_apply_order": _core.FilterOrder.top_k_first,
}


@_rows_to_rows("top_p_mask_logits", "like", core="sample")
def top_p_mask_logits(logits: Array, top_p: Float) -> Any:
    """Returns the logits, in their dtype, with -inf outside the nucleus of mass top_p. Logits equal
    to that of the nucleus's last token stay. A top_p of 0 leaves only the largest logit, and among
    equal logits the one with the lowest id."""
    leading = _leading("logits", logits)
    rows, top_p = _joined(logits, leading), _one_each(top_p, leading)
    backend = backend_of(rows, "logits")
    count, vocab = length(rows), width(rows)
    words = backend.empty_words((count, (vocab + 31) // 32))
    backend.call(
        _core.sample,
        {
            **_SURVIVORS,
            "logits": rows,
            "top_p": backend.parameter(top_p, "float32"),
            "tokens": backend.empty((count,), "int32"),
            "mask": words,
            "workspace": backend.allocate,
        },
    )
    return backend.masked(rows, words).reshape(logits.shape)


def _renorm(backend_for: BackendFor, by_top_k: bool, probs: Any, parameter: Any) -> Any:
    leading = _leading("probs", probs)
    rows, parameter = _joined(probs, leading), _one_each(parameter, leading)
    backend = backend_for(rows, "probs")
    renormalised = backend.empty(tuple(probs.shape), "float32")
    backend.call(
        _core.renorm_probs,
        dict(
            by_top_k=by_top_k,
            probs=rows,
            parameter=backend.parameter(parameter, "int32" if by_top_k else "float32"),
            renormalised=_joined(renormalised, leading),
            statuses=None,
            workspace=backend.workspace(length(rows)),
        ),
    )
    return renormalised


@_rows_to_rows("top_k_renorm_probs", core="renorm_probs")
@operation
def top_k_renorm_probs(backend_for: BackendFor, probs: Array, top_k: Int) -> Any:
    """Returns the k largest probabilities, scaled so that their sum is 1, and 0 elsewhere; ties
    with the k-th largest stay."""
    return _renorm(backend_for, True, probs, top_k)


@_rows_to_rows("top_p_renorm_probs", core="renorm_probs")
@operation
def top_p_renorm_probs(
    backend_for: BackendFor, probs: Array, top_p: Float, is_deterministic: bool = False
) -> Any:
    """Returns the probabilities of the nucleus, scaled so that their sum is 1, and 0 elsewhere."""
    return _renorm(backend_for, False, probs, top_p)


top_k_renorm_prob = top_k_renorm_probs
top_p_renorm_prob = top_p_renorm_probs
