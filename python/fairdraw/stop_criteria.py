"""Decides when requests end: by stop ids, stop sequences and lengths (fairdraw/stop_criteria.h).

>>> step = fairdraw.check_stop([[5, 2, 9]], output=[[7, 8]], eos_id=2, max_tokens=100)
>>> step.reasons, step.kept
(array([1], dtype=int32), array([2], dtype=int32))
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from . import _core
from ._device_arrays import small_arrays
from ._host_arrays import like


class FinishReason(enum.IntEnum):
    """Reasons for which a request may end."""

    NONE = 0  #: the request continues
    EOS = 1
    STOP_ID = 2  #: `matched` is the index in the request's stop ids
    STOP_SEQUENCE = 3  #: `matched` is the index of the sequence in the request's list
    LENGTH = 4

    @property
    def api_name(self) -> str | None:
        """Returns the reason in the form of an API that knows only "stop" and "length" (OpenAI,
        vLLM, SGLang)."""
        if self is FinishReason.NONE:
            return None
        return "length" if self is FinishReason.LENGTH else "stop"


class StopStep(NamedTuple):
    """The effect of a step's tokens on each request. All [requests] int32."""

    reasons: Any  #: FinishReason
    kept: Any  #: number of tokens of this step that belong to the output, including the stop
    matched: Any  #: index of the stop id or stop sequence that matched, otherwise -1
    #: Number of ids of the match: 1, or the length of the stop sequence; otherwise 0.
    matched_lengths: Any
    output_lengths: Any  #: length of the output with the tokens that are kept
    statuses: Any  #: 0, or an error of the request, which then keeps no token and continues


def check_stop(
    step_tokens: Any,
    *,
    output: Any = None,
    output_lengths: Any = None,
    eos_id: Any = None,
    ignore_eos: Any = False,
    stop_ids: Any = None,
    stop_sequences: Any = None,
    min_tokens: Any = 0,
    max_tokens: Any = None,
    vocab: int | None = None,
    active: Any = None,
) -> StopStep:
    """Applies the stop criteria to one step of a batch of requests.

    `step_tokens` [requests] or [requests, n] int32 are -1 after a request's last token. `output`
    holds the ids generated before this step, which are needed if a stop sequence may begin in an
    earlier step. `output` is a list of ids per request, or an array [requests, m] of which the
    first `output_lengths` ids are used. An id of -1 is not known yet. If `output` is lists,
    `output_lengths` [requests] may say that the outputs are longer than the lists.

    The arguments eos_id, ignore_eos, min_tokens and max_tokens are one value, or [requests]. An
    eos_id of None or -1 means no end id, and a max_tokens of None means no limit. `stop_ids` is a
    list of ids per request, or one list for all requests. `stop_sequences` is a list of sequences
    of ids per request. `active` [requests] is False for requests that have ended before, and for
    padding requests. `vocab` is the size of the vocabulary; all ids must be below it.

    A stop takes precedence over the length. Among stops, the end id takes precedence over stop ids,
    and stop ids over stop sequences. Stops apply only from output number min_tokens on.

    If the step's tokens are on an NVIDIA GPU, all arrays must be on that GPU. The call then does
    not wait, and can be captured in a CUDA graph. Numbers and sequences are copied to the GPU. The
    lists of `output` and `stop_ids` may be tensors on the GPU; the sequences of `stop_sequences`
    are in host memory. While a graph is captured, only numbers and tensors are allowed.

    Definition: vLLM and TensorRT-LLM, as fairdraw/stop_criteria.h says.

    Raises:
        TypeError: An argument is no array or number, or has a wrong dtype or number of axes.
        ValueError: A number is out of its range, or an array has a wrong shape or device.
        RuntimeError: No kernel of this build can run on the GPU, the CUDA runtime reports an error,
            or values of the host are given while a CUDA graph is captured.
    """
    backend = like(step_tokens, "step_tokens")
    small = small_arrays(backend)
    each = small.each
    tokens = small.array("step_tokens", step_tokens, "int32", axes=(1, 2))
    requests = tokens.shape[0]
    lengths = None
    if output_lengths is not None:
        lengths = each("output_lengths", output_lengths, "int32", requests)
    sequences, sequence_lengths = small.sequence_lists("stop_sequences", stop_sequences, requests)
    most = _core.NO_MAX_TOKENS
    results = StopStep(*(backend.empty((requests,), "int32") for _ in StopStep._fields))
    criteria = {
        "eos_id": each("eos_id", -1 if eos_id is None else eos_id, "int32", requests),
        "ignore_eos": each("ignore_eos", ignore_eos, "uint8", requests),
        "stop_ids": small.token_lists("stop_ids", stop_ids, requests),
        "stop_sequences": sequences,
        "stop_sequence_lengths": sequence_lengths,
        "min_tokens": each("min_tokens", min_tokens, "int32", requests, (0, most)),
        "max_tokens": each("max_tokens", most if max_tokens is None else max_tokens, "int32",
                           requests, (0, most)),
    }  # fmt: skip
    backend.call(
        _core.check_stop,
        dict(
            requests=requests,
            tokens_per_step=tokens.shape[1] if tokens.ndim == 2 else 1,
            vocab=_core.MAX_VOCAB if vocab is None else vocab,
            step_tokens=tokens,
            output=small.token_lists("output", output, requests, lengths),
            output_lengths=lengths,
            criteria=criteria,
            active=None if active is None else each("active", active, "uint8", requests),
            results=results._asdict(),
        ),
    )
    return results
