"""Returns the log-probabilities that engines report: those of drawn tokens, of given tokens, and
the largest of a row.

Definition: vLLM (logprobs_mode) for the modes; fairdraw/log_probabilities.h for values, ranks and
their bound.

Raises:
    TypeError: An argument is no array or number, or has a wrong dtype or number of axes.
    ValueError: A number is out of its range, a name is unknown, or an array has a wrong length,
        stride or device.
    RuntimeError: No kernel of this build can run on the GPU, the CUDA runtime reports an error, or
        the call would wait while a CUDA graph is captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from . import _core
from ._arguments import FilterOrders, TieRules, _member
from ._arrays import Backend, backend_of, length
from ._operations import (
    DETAILS,
    REPORTS,
    TABLE,
    Array,
    Float,
    Indices,
    Int,
    Operator,
    Sizes,
    empty,
    lent,
)
from .request_processing import RequestProcessing, processing_of_rows

LogprobsMode = Literal["raw_logits", "raw_logprobs", "processed_logits", "processed_logprobs"]
RankRule = Literal["position", "at_least"]

#: Maximum number of log-probabilities besides the drawn token's, except where whole rows are
#: reported (fairdraw/log_probabilities.h).
MAX_LOGPROBS = 128


class Logprobs(NamedTuple):
    """The log-probabilities that engines report; fairdraw/log_probabilities.h defines each
    value."""

    #: [outputs, num_samples] float32, log-probabilities of the tokens; -inf where there is no
    #: value.
    values: Any
    ranks: Any  #: [outputs, num_samples] int32, ranks from 1 on; 0 if the value is -inf
    #: [outputs, n] int32, sorted by descending value, then by id; -1 where fewer tokens have a
    #: value.
    top_ids: Any
    top_values: Any  #: [outputs, n] float32
    all: Any  #: [rows, vocab] float32 of whole rows if n is -1, otherwise None


def reported(
    backend: Backend, sizes: Sizes, n: int, mode: str, rank_rule: str
) -> tuple[Logprobs, dict[str, Any]]:
    """Makes the arrays for reported log-probabilities, and the arguments of the compiled module."""
    if not -1 <= n <= MAX_LOGPROBS:
        raise ValueError(f"logprobs is {n}; allowed: 0 to {MAX_LOGPROBS}, or -1 (whole rows)")
    names = {
        "logprobs_mode": _member("logprobs_mode", mode, _core.LogprobsMode.__members__),
        "rank_rule": _member("rank_rule", rank_rule, _core.RankRule.__members__),
    }
    arrays = empty(backend, REPORTS, sizes)
    if n == -1:
        arrays["all"][...] = -float("inf")  # inactive rows also get values
    else:
        arrays["all"] = None
    return Logprobs(**arrays), {**names, "top_n": max(n, 0), **arrays}


def _given_sizes(
    logits: Any, token_ids: Any, logprobs: int = 0, indices: Any = None, **_: Any
) -> Sizes:
    rows, vocab = (*getattr(logits, "shape", ()), 0, 0)[:2]
    return {
        "outputs": (rows if indices is None else length(indices),),
        "samples": token_ids.shape[1:],
        "vocab": (vocab,),
        "top_n": (max(logprobs, 0),),
        "reported": (rows if logprobs == -1 else 0,),
    }


@TABLE.declare(Operator("log_probabilities", REPORTS), sizes=_given_sizes)
def log_probabilities(
    logits: Array, token_ids: Array, logprobs: int = 0,
    logprobs_mode: LogprobsMode = "raw_logprobs", rank_rule: RankRule = "position",
    indices: Indices = None, *, temperature: Float = 1.0, top_k: Int = 0, top_p: Float = 1.0,
    min_p: Float = 0.0, allowed: Array = None, active: Array = None,
    tie_rule: TieRules = "keep_all", filter_apply_order: FilterOrders = "top_k_first",
    top_n_sigma: Float = 0.0, processing: Sequence[RequestProcessing] | None = None,
) -> Logprobs:  # fmt: skip
    """Returns the Logprobs of given tokens, [outputs] or [outputs, m], without drawing any token.

    Output i belongs to row indices[i]. The parameters after `indices` matter only for the processed
    modes. `processing` has the same meaning as in `sample`. Outputs with an id outside the
    vocabulary, and outputs whose row cannot be sampled, get -inf, -1 and 0.
    """
    given = locals()
    backend = backend_of(logits, "logits")
    sizes = _given_sizes(**given)
    shape, outputs = tuple(token_ids.shape), sizes["outputs"][0]
    if len(shape) not in (1, 2) or shape[0] != outputs:
        raise ValueError(
            f"token_ids has shape {list(shape)}; [{outputs}] or [{outputs}, m] is needed"
        )
    call = lent(log_probabilities, backend, given)
    report, reports = reported(backend, sizes, logprobs, logprobs_mode, rank_rule)
    if str(token_ids.dtype).endswith("int64"):  # values outside int32 are not token ids either
        call["token_ids"] = backend.cast(token_ids.clip(-1, 2**31 - 1), "int32")
    backend.call(
        _core.log_probabilities,
        dict(
            **call,
            **dict.fromkeys(DETAILS),
            processing=processing_of_rows(backend, processing, length(logits), top_n_sigma),
            seed=0,
            offset=0,
            purpose=_core.Purpose.draw,
            num_samples=shape[1] if len(shape) == 2 else 1,
            reports=reports,
            workspace=backend.allocate,
        ),
    )
    return report
