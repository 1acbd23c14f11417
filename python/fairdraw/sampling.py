"""Defines the operations of flashinfer.sampling, by their names and with their arguments, and
`sample`.

Arrays are NumPy's, torch's on the CPU or an NVIDIA GPU, or those of any library that supports
DLPack. Results belong to the same library and are on the same device. Rows are float32, float16 or
bfloat16, and are never copied.

Unseeded calls draw fresh seeds: from `generator` if given; otherwise from torch's default generator
for tensors (so torch.manual_seed governs them) and from the operating system for other arrays.
`seed` without `offset` means offset 0.

On a GPU no call waits, and calls can be captured in a CUDA graph, with seeds in a tensor on the
GPU. There is one exception: a call waits for a GPU tensor with one seed or offset for several
outputs, so that such a call cannot be captured.

One `seed` for a call gives every output bits of its own. An array holds one seed per output; then a
token depends only on its row, parameters, seed and offset. An array of one value is one seed for
the call.

With `indices`, output i samples row indices[i]. The parameters top_k, top_p, min_p and temperature
are numbers, or arrays with one value per row. The tokens have the dtype of `indices` (int32 or
int64).

Rows may have several axes before the vocabulary, [..., vocab], and results then have these axes,
too; `sample` and speculation are exceptions. Parameters and seeds then have these axes, or are
[rows]. Axes that can be joined only by a copy are refused.

`deterministic` changes nothing, because results are always deterministic.

A row that cannot be sampled (NaN, +inf, no token left, a parameter out of range) gets token -1 and
valid False; no other row is affected. A number out of range, or a wrong dtype, rank, device, stride
or length, raises ValueError or TypeError. `check_nan=True` raises for NaN, too, and waits for the
GPU to find NaN.

Rows of probabilities need not sum to 1. Renormalised probabilities are float32.

Definition: flashinfer.sampling for names, arguments and meanings; docs/semantics.md for the steps
of `sample`; fairdraw/speculative.h for chain_speculative_sampling.

Raises:
    TypeError: An argument is no array or number, or has a wrong dtype or number of axes.
    ValueError: A number is out of its range, a name is unknown, an array has a wrong length, stride
        or device, `offset` comes without `seed`, or with check_nan a row contains NaN.
    RuntimeError: No kernel of this build can run on the GPU, the CUDA runtime reports an error, or
        the call would wait or draw a fresh seed while a CUDA graph is captured.
    MemoryError: The memory of the host does not suffice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _core
from ._arguments import FilterOrder as FilterOrder
from ._arguments import (
    FilterOrders,
    RowsHold,
    TieRules,
    _joined,
    _leading,
    _one_each,
    _parted,
    _raise_on_nan,
    _seed_and_offset,
)
from ._arguments import Purpose as Purpose
from ._arguments import TieRule as TieRule
from ._arrays import Backend, backend_of, length
from ._device_arrays import small_arrays
from ._operations import (
    DETAILS,
    REPORTS,
    TABLE,
    Array,
    BackendFor,
    Bits,
    CheckNan,
    Float,
    Indices,
    Int,
    Operator,
    Samples,
    Sizes,
    empty,
    lent,
    operation,
)
from .logprobs import MAX_LOGPROBS as MAX_LOGPROBS
from .logprobs import Logprobs as Logprobs
from .logprobs import LogprobsMode as LogprobsMode
from .logprobs import RankRule as RankRule
from .logprobs import log_probabilities as log_probabilities
from .logprobs import reported
from .request_processing import RequestProcessing, processing_of_rows
from .row_operations import softmax as softmax
from .row_operations import top_k_mask_logits as top_k_mask_logits
from .row_operations import top_k_renorm_prob as top_k_renorm_prob
from .row_operations import top_k_renorm_probs as top_k_renorm_probs
from .row_operations import top_p_mask_logits as top_p_mask_logits
from .row_operations import top_p_renorm_prob as top_p_renorm_prob
from .row_operations import top_p_renorm_probs as top_p_renorm_probs


class SampleDetails(NamedTuple):
    """All results that `sample` can return. Results of shape [outputs, num_samples] lose their
    second axis if num_samples is 1.
    """

    tokens: Any  #: [outputs, num_samples]; -1 if the status is not 0
    statuses: Any  #: [outputs] int32, RowStatus of fairdraw/types.h; 0 means ok
    support_size: Any  #: [outputs] int32: number of tokens that survive the filters
    #: [outputs, num_samples] float32, natural logarithm of the probability before filtering.
    logprob: Any
    #: [outputs, num_samples] float32, natural logarithm of the probability among the survivors.
    logprob_filtered: Any
    mask: Any  #: [rows, ceil(vocab / 32)] uint32 (torch: int32), with bit 1 for tokens that survive
    probs: Any  #: [rows, vocab] float32, renormalised probabilities, 0 outside the mask
    logprobs: Any = None  #: Logprobs, if requested
    seed: Any = None  #: the seed with which the tokens were drawn, given or fresh


#: Results of the operators that draw tokens.
_DRAWN = {"tokens": ("ids", "outputs", "samples"), "valid": ("bool", "outputs")}
_OF_REPORTS = ("logprobs", "logprobs_mode", "rank_rule")


def _drawn_sizes(rows: Any, indices: Any = None, **_: Any) -> Sizes:
    outputs = rows.shape[:-1] if indices is None else (length(indices),)
    return {"outputs": outputs, "samples": ()}


@TABLE.declare(Operator("draw", _DRAWN, {"return_valid": True}), sizes=_drawn_sizes, core="draw")
def _draw(
    rows: Array, input: RowsHold, *, top_k: Int = None, top_p: Float = None, min_p: Float = None,
    filter_apply_order: FilterOrders = "top_k_first", indices: Indices = None,
    generator: Any = None, check_nan: CheckNan = False, seed: Bits = None, offset: Bits = None,
    return_valid: bool = False,
) -> Any:  # fmt: skip
    """Draws tokens for all functions of flashinfer.sampling that draw tokens."""
    given = locals()
    leading = _leading(input, rows, indices)
    if leading:
        rows = _joined(rows, leading)
        names = ("top_k", "top_p", "min_p", "filter_apply_order", "seed", "offset")
        given = {**given, "rows": rows, **{n: _one_each(given[n], leading) for n in names}}
    backend = backend_of(rows, input)
    call = lent(_draw, backend, given)
    outputs = length(rows) if indices is None else length(indices)
    bits = _seed_and_offset(backend, generator, given["seed"], given["offset"], outputs)
    tokens = backend.empty((outputs,), "int32")
    statuses = backend.empty((outputs,), "int32") if check_nan or return_valid else None
    backend.call(
        _core.draw,
        dict(
            **call,
            seed=bits[0],
            offset=bits[1],
            tokens=tokens,
            statuses=statuses,
            workspace=backend.workspace(length(rows)),
        ),
    )
    if check_nan:
        _raise_on_nan(input, statuses)
    if indices is not None and str(indices.dtype).endswith("int64"):
        tokens = backend.cast(tokens, "int64")
    return _parted((tokens, statuses == 0) if return_valid else tokens, leading)


def sampling_from_logits(
    logits: Any, indices: Any = None, deterministic: bool = True, generator: Any = None,
    check_nan: bool = False, seed: Any = None, offset: Any = None,
) -> Any:  # fmt: skip
    """Draws one token per output, with probability proportional to exp(logits)."""
    return _draw(
        logits, "logits", indices=indices, generator=generator, check_nan=check_nan, seed=seed,
        offset=offset,
    )  # fmt: skip


def sampling_from_probs(
    probs: Any, indices: Any = None, deterministic: bool = True, generator: Any = None,
    check_nan: bool = False, seed: Any = None, offset: Any = None, return_valid: bool = False,
) -> Any:  # fmt: skip
    """Draws one token per output, with probability proportional to probs."""
    return _draw(
        probs, "probs", indices=indices, generator=generator, check_nan=check_nan,
        seed=seed, offset=offset, return_valid=return_valid,
    )  # fmt: skip


def top_p_sampling_from_probs(
    probs: Any, top_p: Any, indices: Any = None, deterministic: bool = True, generator: Any = None,
    check_nan: bool = False, seed: Any = None, offset: Any = None, return_valid: bool = False,
) -> Any:  # fmt: skip
    """Draws from the nucleus: the tokens for which the mass of strictly larger probabilities is
    less than top_p."""
    return _draw(
        probs, "probs", top_p=top_p, indices=indices, generator=generator, check_nan=check_nan,
        seed=seed, offset=offset, return_valid=return_valid,
    )  # fmt: skip


def top_k_sampling_from_probs(
    probs: Any, top_k: Any, indices: Any = None, deterministic: bool = True, generator: Any = None,
    check_nan: bool = False, seed: Any = None, offset: Any = None, return_valid: bool = False,
) -> Any:  # fmt: skip
    """Draws from the k largest probabilities; tokens that tie with the k-th stay. A top_k of 0, -1
    or at least vocab is off.
    """
    return _draw(
        probs, "probs", top_k=top_k, indices=indices, generator=generator, check_nan=check_nan,
        seed=seed, offset=offset, return_valid=return_valid,
    )  # fmt: skip


def min_p_sampling_from_probs(
    probs: Any, min_p: Any, indices: Any = None, deterministic: bool = True, generator: Any = None,
    check_nan: bool = False, seed: Any = None, offset: Any = None, return_valid: bool = False,
) -> Any:  # fmt: skip
    """Draws from the tokens whose probability is at least min_p times the largest."""
    return _draw(
        probs, "probs", min_p=min_p, indices=indices, generator=generator, check_nan=check_nan,
        seed=seed, offset=offset, return_valid=return_valid,
    )  # fmt: skip


def top_k_top_p_sampling_from_logits(
    logits: Any, top_k: Any, top_p: Any, indices: Any = None,
    filter_apply_order: FilterOrders = "top_k_first", deterministic: bool = True,
    generator: Any = None, check_nan: bool = False, seed: Any = None, offset: Any = None, *,
    temperature: Any = None,
) -> Any:  # fmt: skip
    """Draws after top_k, and then top_p of the renormalised rest. With "joint" both filters apply
    to the whole row.

    `temperature` divides the logits before the filters, without a copy of the logits; 0 is greedy.
    """
    if temperature is not None:
        leading = _leading("logits", logits, indices)
        asked = (temperature, top_k, top_p, filter_apply_order, seed, offset)
        each = (_one_each(value, leading) for value in asked)
        temperature, top_k, top_p, filter_apply_order, seed, offset = each
        tokens = sample(
            _joined(logits, leading), temperature, top_k, top_p, indices=indices,
            filter_apply_order=filter_apply_order, generator=generator, check_nan=check_nan,
            seed=seed, offset=offset,
        )  # fmt: skip
        return _parted(tokens, leading)
    return _draw(
        logits, "logits", top_k=top_k, top_p=top_p, filter_apply_order=filter_apply_order,
        indices=indices, generator=generator, check_nan=check_nan, seed=seed, offset=offset,
    )  # fmt: skip


def top_k_top_p_sampling_from_probs(
    probs: Any, top_k: Any, top_p: Any, indices: Any = None,
    filter_apply_order: FilterOrders = "top_k_first", deterministic: bool = True,
    generator: Any = None, check_nan: bool = False, seed: Any = None, offset: Any = None,
    return_valid: bool = False,
) -> Any:  # fmt: skip
    """Draws as top_k_top_p_sampling_from_logits does, from rows of probabilities."""
    return _draw(
        probs, "probs", top_k=top_k, top_p=top_p, filter_apply_order=filter_apply_order,
        indices=indices, generator=generator, check_nan=check_nan, seed=seed, offset=offset,
        return_valid=return_valid,
    )  # fmt: skip


def sampled_sizes(
    logits: Any, indices: Any = None, num_samples: int = 1, logprobs: int | None = None, **_: Any
) -> Sizes:
    """Returns the lengths of the axes of the results of `sample` and similar functions."""
    # The kernels report an array with a wrong shape.
    rows, vocab = (*getattr(logits, "shape", ()), 0, 0)[:2]
    return {
        "outputs": (rows if indices is None else length(indices),),
        "samples": () if num_samples == 1 else (max(num_samples, 0),),
        "rows": (rows,),
        "vocab": (vocab,),
        "words": ((vocab + 31) // 32,),
        "top_n": (max(logprobs or 0, 0),),
        "reported": (rows if logprobs == -1 else 0,),
    }


_NO_RESULTS = dict.fromkeys((*DETAILS, "reports"))


def drawing(backend: Backend, given: Mapping[str, Any], outputs: int) -> tuple[dict[str, Any], Any]:
    """Returns `sample`'s arguments for the compiled module without the arrays for results. Also
    returns the seed for the result's `seed`: the given seed or a fresh seed."""
    call = {**_NO_RESULTS, **lent(sample, backend, given)}
    call["processing"] = processing_of_rows(
        backend, given["processing"], length(given["logits"]), given["top_n_sigma"]
    )
    seed, offset = _seed_and_offset(
        backend, given["generator"], given["seed"], given["offset"], outputs
    )
    call.update(seed=seed, offset=offset)
    return call, seed if given["seed"] is None else given["seed"]


@TABLE.declare(
    Operator("sample", _DRAWN, {"return_valid": True}, without=_OF_REPORTS),
    Operator("sample_logprobs", {**_DRAWN, **REPORTS}, {"return_valid": True}, first=_OF_REPORTS),
    Operator("sample_details", DETAILS, {"return_details": True}, without=_OF_REPORTS),
    sizes=sampled_sizes,
)
def sample(
    logits: Array, temperature: Float = 1.0, top_k: Int = 0, top_p: Float = 1.0,
    min_p: Float = 0.0, indices: Indices = None, *, allowed: Array = None, active: Array = None,
    num_samples: Samples = 1, tie_rule: TieRules = "keep_all",
    filter_apply_order: FilterOrders = "top_k_first", generator: Any = None, seed: Bits = None,
    offset: Bits = None, check_nan: CheckNan = False, return_valid: bool = False,
    return_details: bool = False, out: Any = None, logprobs: int | None = None,
    logprobs_mode: LogprobsMode = "raw_logprobs", rank_rule: RankRule = "position",
    purpose: Purpose = "draw", top_n_sigma: Float = 0.0,
    processing: Sequence[RequestProcessing] | None = None,
) -> Any:  # fmt: skip
    """Draws tokens from raw logits in one call. The steps are temperature, min_p, top_k, top_p and
    the draw, in this order.

    A temperature of 0 is greedy; top_k 0, top_p 1 and min_p 0 are off. `top_n_sigma` n bans, before
    all other steps, the tokens whose logits are more than n standard deviations (of the population,
    allowed tokens only) below the largest logit. The values -1, 0 and inf are off. `allowed` is
    [rows, ceil(vocab / 32)] packed words of uint32 or int32, with bit 1 for each token that may be
    drawn. `active` is [rows] bool, with False for padding rows, which get token -1. `tie_rule` and
    `filter_apply_order` are a name, or one value per row (a list of names, or an array of the
    numbers in fairdraw/types.h). `num_samples` is the number of tokens per output, drawn with
    replacement. `out` is a contiguous int32 array for the tokens. `purpose` "draft" is for tokens
    that `accept_chain` verifies by their distribution, with the same seed and offset. Draws of
    drafts use other random bits. `processing` holds one RequestProcessing per row of logits,
    applied before everything else. A call with `processing` cannot be captured in a graph, and a
    compiled function has no operator for such a call.

    Returns tokens [outputs] int32 (int64 if `indices` are), or [outputs, num_samples] if
    num_samples is more than 1. With `return_valid` a bool array follows, and with `return_details`
    SampleDetails follow. With `logprobs`, Logprobs are the last result: log-probabilities of the
    drawn tokens and of the n largest (0 to 128), or with -1 of every token. The modes have vLLM's
    names.
    """
    given = locals()
    backend = backend_of(logits, "logits")
    outputs = length(logits) if indices is None else length(indices)
    call, drawn_with = drawing(backend, given, outputs)
    report, results = None, {}
    if return_details or logprobs is not None:
        sizes = sampled_sizes(logits, indices, num_samples, logprobs)
    if return_details:
        results = empty(backend, DETAILS, sizes)
    elif check_nan or return_valid:
        results["statuses"] = backend.empty((outputs,), "int32")
    if out is not None:
        results["tokens"] = out
    elif not return_details:
        shape = (outputs,) if num_samples == 1 else (outputs, max(num_samples, 0))
        results["tokens"] = backend.empty(shape, "int32")
    if logprobs is not None:
        report, call["reports"] = reported(backend, sizes, logprobs, logprobs_mode, rank_rule)
    call.update(results, workspace=backend.allocate)
    backend.call(_core.sample, call)
    if check_nan:
        _raise_on_nan("logits", results["statuses"])
    if out is None and indices is not None and str(indices.dtype).endswith("int64"):
        results["tokens"] = backend.cast(results["tokens"], "int64")
    if return_details:
        return SampleDetails(**results, logprobs=report, seed=drawn_with)
    found = (results["tokens"], *((results["statuses"] == 0,) if return_valid else ()))
    if report is not None:
        found += (report,)
    return found if len(found) > 1 else results["tokens"]


def _add(name: str, total: Any, counted: Any) -> Any:
    if total is None:
        return counted
    if getattr(getattr(total, "flags", None), "writeable", True) is False:
        raise ValueError(f"{name} is read-only; a writable array is needed")
    total += counted
    return total


def _chain_sizes(draft_probs: Any, **_: Any) -> Sizes:
    batch, n = draft_probs.shape[:2]
    return {"batch": (batch,), "positions": (n + 1,)}


_CHAINS = {
    "tokens": ("int32", "batch", "positions"),
    "accepted": ("int32", "batch"),
    "emitted": ("int32", "batch"),
}


@TABLE.declare(Operator("chain_speculative_sampling", _CHAINS), sizes=_chain_sizes)
@operation
def chain_speculative_sampling(
    backend_for: BackendFor, draft_probs: Array, draft_token_ids: Array, target_probs: Array,
    maybe_output_accepted_token_num: Any = None,
    maybe_output_emitted_draft_token_num: Any = None, deterministic: bool = True,
    generator: Any = None, seed: Bits = None, offset: Bits = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Verifies chains of drafted tokens, so that the emitted tokens have the target's distribution.

    The arrays are draft_probs [batch, n, vocab], draft_token_ids [batch, n] and target_probs
    [batch, n + 1, vocab]. Returns tokens [batch, n + 1] (-1 after the last token), the number of
    positions that pass their own test, and the number of drafted tokens that were emitted. The two
    counts are added to the `maybe_output_*` arrays if these are given. Position i of a chain uses
    the offset of its request plus i.
    """
    backend = backend_for(target_probs, "target_probs")
    if len(draft_probs.shape) != 3:
        raise TypeError(
            f"draft_probs has {len(draft_probs.shape)} axes; 3 are needed: [batch, n, vocab]"
        )
    batch, n = draft_probs.shape[:2]
    seed, offset = _seed_and_offset(backend, generator, seed, offset, batch)
    results = empty(backend, _CHAINS, _chain_sizes(draft_probs))
    # Clamps integers outside int32. No clamped value is a token, because the limits of int32 are
    # not token ids either.
    ids = small_arrays(backend).array("draft_token_ids", draft_token_ids, "int32")
    backend.call(
        _core.chain_speculative_sampling,
        dict(
            draft_probs=draft_probs,
            draft_token_ids=ids,
            target_probs=target_probs,
            seed=seed,
            offset=offset,
            **results,
            statuses=None,
            workspace=backend.workspace(batch * (2 * n + 1)),
        ),
    )
    tokens, accepted, emitted = results.values()
    accepted = _add("maybe_output_accepted_token_num", maybe_output_accepted_token_num, accepted)
    emitted = _add(
        "maybe_output_emitted_draft_token_num", maybe_output_emitted_draft_token_num, emitted
    )
    return tokens, accepted, emitted
