"""Marks tokens with a key, and finds the mark in plain token ids (fairdraw/watermark.h).

>>> drawn = fairdraw.sample_marked(logits, top_p=0.9, key=secret, outputs=ids_so_far, seed=7)
>>> found = fairdraw.detect_watermark(ids, secret)
>>> found.p_value <= 1e-6
True

The scheme "race" is the keyed Gumbel race of Aaronson (2022), with the contexts of Kirchenbauer et
al. (2023) and the exact test of Fernandez et al. (2023), in integers. "tournament" is SynthID
(Dathathri et al. 2024), and "green_list" is that of Kirchenbauer et al. fairdraw/watermark.h defines
each word and each comparison, and bounds the distance to the unmarked distribution over keys.
`sample_marked` runs where the logits are, on the CPU or a GPU, with the same tokens
(fairdraw/cuda_watermark.h).

Definition: fairdraw/watermark.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from . import _core
from ._arguments import FilterOrders, Purpose, TieRules
from ._arrays import backend_of, length
from ._device_arrays import small_arrays
from ._host_arrays import array
from ._operations import DETAILS, empty
from .request_processing import RequestProcessing
from .sampling import drawing, sampled_sizes

_LARGEST = 2**64 - 1

WatermarkScheme = Literal["race", "tournament", "green_list"]


def _rule(window: int, scheme: WatermarkScheme, layers: int, green_share: float) -> _Rule:
    schemes = get_args(WatermarkScheme)
    if scheme not in schemes:
        raise ValueError(f"scheme is {scheme!r}; allowed: {', '.join(map(repr, schemes))}")
    return window, schemes.index(scheme), layers, float(green_share)


_Rule = tuple[int, int, int, float]


class MarkedSample(NamedTuple):
    """Drawn tokens."""

    tokens: Any  #: [rows] int32; -1 if the status is not 0
    logprobs: Any  #: [rows] float32, log-probability of the token among the survivors
    statuses: Any  #: [rows] int32, RowStatus of fairdraw/types.h
    seed: Any  #: the seed of rows and contexts that are not marked, given or fresh


class WatermarkEvidence(NamedTuple):
    """The evidence that a text is marked by one of the keys."""

    scored: int  #: number of different pairs of context and token
    score: float  #: score of fairdraw/watermark.h, for the key with the largest score
    key: int  #: index of the key with the largest score
    p_value: float  #: exact p-value times the number of keys (Bonferroni), at most 1
    log_e_value: float  #: natural logarithm of the e-value, valid after each token of a stream


def sample_marked(
    logits: Any, temperature: Any = 1.0, top_k: Any = 0, top_p: Any = 1.0, min_p: Any = 0.0, *,
    key: Any, outputs: Sequence[Any] | None = None, window: int = 4, mask_repeated: Any = True,
    second_key: Any = 0, second_share: float = 0.1, scheme: WatermarkScheme = "race",
    layers: int = 30, green_share: float = 0.25, green_bias: float = 2.0,
    allowed: Any = None, active: Any = None,
    tie_rule: TieRules = "keep_all", filter_apply_order: FilterOrders = "top_k_first",
    generator: Any = None, seed: Any = None, offset: Any = None, purpose: Purpose = "draw",
    top_n_sigma: Any = 0.0, processing: Sequence[RequestProcessing] | None = None,
) -> MarkedSample:  # fmt: skip
    """Draws one token per row as `fairdraw.sample` does; rows with a key draw marked tokens.

    logits [rows, vocab]. `key`: an integer from 1 to 2^64 - 1, or [rows]; 0 in an array: the row is
    not marked, and has `sample`'s token. `outputs`: a list per row of all ids that its request has
    generated, oldest first; or `processing`, one RequestProcessing per row, whose `output` has them.
    A marked row with an id that is no token (-1, too) gets token -1 and the status invalid_history.
    For logits on a GPU, ids are copied there from host memory, and tensors with one value per row
    are there, as those of `sample`; a tensor of keys is int64, with the keys' bits.

    `window`: ids of a context, 1 to 32. `mask_repeated`, a bool or [rows]: a context that the
    request had before is not marked, so that over keys whole outputs have the unmarked distribution.
    `second_key`, an integer or [rows], 0 for none: a draw takes it with the probability
    `second_share`, in [0, 1]. With one key, requests with equal logits begin with equal tokens of a
    race.

    `scheme`: "race"; "tournament", with `layers` from 1 to 64; or "green_list", in which the part
    `green_share` of the vocabulary, from 2^-20 to below 1, has biases greater by `green_bias`, from
    0 to 2^32. A green list changes the distribution of the tokens.

    Raises:
        ValueError: A number is out of its range, or a length or a device is wrong.
        TypeError: An array has a wrong dtype.
    """
    rows = length(logits)
    if processing is None:
        if outputs is None:
            raise ValueError("outputs: are not given; allowed: outputs or processing")
        if len(outputs) != rows:
            raise ValueError(f"outputs has {len(outputs)} lists; {rows} are needed, one per row")
        processing = [
            RequestProcessing(output=output, top_n_sigma=top_n_sigma) for output in outputs
        ]
        top_n_sigma = 0.0
    elif outputs is not None:
        raise ValueError("outputs: are given together with processing; allowed: one of the two")
    backend = backend_of(logits, "logits")
    given = dict(
        logits=logits, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
        indices=None, allowed=allowed, active=active, num_samples=1, tie_rule=tie_rule,
        filter_apply_order=filter_apply_order, generator=generator, seed=seed, offset=offset,
        purpose=purpose, top_n_sigma=top_n_sigma, processing=processing,
    )  # fmt: skip
    call, drawn_with = drawing(backend, given, rows)
    each = small_arrays(backend).each
    one = "one per row"
    call.update(
        key=each("key", key, "uint64", rows, (1, _LARGEST), one),
        second_key=each("second_key", second_key, "uint64", rows, (0, _LARGEST), one),
        second_share=float(second_share),
        rule=_rule(window, scheme, layers, green_share),
        green_bias=float(green_bias),
        mask_repeated=each("mask_repeated", mask_repeated, "uint8", rows, None, one),
    )
    names = ("tokens", "logprob_filtered", "statuses")
    found = empty(backend, {name: DETAILS[name] for name in names}, sampled_sizes(**given))
    call.update(found, workspace=backend.allocate)
    backend.call(_core.sample_marked, call)
    tokens, logprobs, statuses = found.values()
    return MarkedSample(tokens, logprobs, statuses, drawn_with)


def detect_watermark(
    tokens: Any, key: Any, window: int = 4, *, scheme: WatermarkScheme = "race", layers: int = 30,
    green_share: float = 0.25,
) -> WatermarkEvidence:  # fmt: skip
    """Tests whether ids are marked by a key, or by one of several.

    tokens [length] int32 or a sequence: the ids of one output, oldest first, from 0 to 2^20 - 1,
    without its prompt. `key`: an integer from 1 to 2^64 - 1, or [keys]. `window`, `scheme`, `layers`
    and `green_share` as in sample_marked. The p-value is exact for text that does not depend on the key: each pair of a
    context and a token is scored once, and the p-value of the key with the largest score is
    multiplied by the number of keys. The e-value averages over the keys; on such text a stream whose
    e-value is looked at after each token ever reaches 1 / a with probability at most a.

    Raises:
        ValueError: An id, a key or the window is out of its range.
        TypeError: A value is no integer.
    """
    keys = array("key", key, "uint64", axes=(0, 1)).reshape(-1)
    ids = array("tokens", tokens, "int32", axes=(1,))
    rule = _rule(window, scheme, layers, green_share)
    return WatermarkEvidence(*_core.detect_watermark(ids, keys, rule))


def watermark_threshold(
    scored: int, false_positive_rate: float, keys: int = 1, *, scheme: WatermarkScheme = "race",
    layers: int = 30, green_share: float = 0.25,
) -> float:  # fmt: skip
    """Returns the smallest score for which `scored` pairs and `keys` keys have a p-value of at most
    `false_positive_rate`, in (0, 1]. If no count of a tournament or a green list has such a p-value,
    it is one more than the number of trials.

    Raises:
        ValueError: An argument is out of its range.
    """
    rule = _rule(1, scheme, layers, green_share)
    return _core.watermark_threshold(rule, scored, keys, false_positive_rate)
