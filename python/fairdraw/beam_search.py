"""Defines beam search for a batch of requests (fairdraw/beam_search.h has the rules).

>>> search = fairdraw.BeamSearch(requests=1, width=4, max_tokens=32, end_ids=[2])
>>> step = search.step(logits)  # [1, vocab]: of the prompt
>>> while not search.done:
...     # A row a live beam, which grew from beam step.parents and ends with step.tokens.
...     step = search.step(model(step))
>>> best = search.result()
>>> best.tokens[0, 0, : best.lengths[0, 0]]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arrays import Backend, NumpyBackend, TorchBackend, backend_of
from ._device_arrays import small_arrays
from ._host_arrays import each, expect_axes, token_lists

_FLOAT32_MAX = float(np.finfo(np.float32).max)


class BeamStep(NamedTuple):
    """The live beams of each request after a step, in slots. Slots after a request's last live beam
    hold -1 and -inf.
    """

    parents: Any  #: [requests, max_width] int32: index of the live beam that each new beam extends
    tokens: Any  #: [requests, max_width] int32: last token of each live beam
    scores: Any  #: [requests, max_width] float32: cumulative log-probability of each live beam
    live_beams: Any  #: [requests] int32: number of live beams
    #: [requests] int32: 0 for a live request, 1 if its pool ended it, 2 if its length ended it.
    states: Any
    statuses: Any  #: [requests] int32: 0; 1 if the request was already done; otherwise an error


class BeamResult(NamedTuple):
    """The best sequences of each request, with the best sequence first."""

    tokens: Any  #: [requests, best, max_tokens] int32; -1 after the sequence's last token
    lengths: Any  #: [requests, best] int32; 0 where there is no sequence
    scores: Any  #: [requests, best] float32, normalised by length; -inf where there is no sequence
    cumulative: Any  #: [requests, best] float32
    statuses: Any  #: [requests] int32


class _Memory(NamedTuple):
    """The arrays of a beam search by name, all in host memory or all on a GPU."""

    parameters: dict[str, Any]
    live: dict[str, Any]
    pool: dict[str, Any]
    history: dict[str, Any]  # steps of the search, as many as there is room for


class BeamSearch:
    """Beam search for a batch of requests. The object keeps each request's live beams, pool of
    finished sequences, and history.

    `width` (1 to 1024), `max_tokens` (generated tokens, including the end id), `length_penalty` and
    `early_stopping` (0, 1 or 2) are one value for all requests, or [requests]. `end_ids` is a list
    of ids per request, or one list for all requests. Scores are divided by length^length_penalty
    (TensorRT-LLM's default is 0, transformers' is 1). With `early_stopping` 1 a request ends when
    its pool is full. With 0 a request ends when no live beam seems to get better than the pool, and
    with 2 when no live beam can get better.

    Rows are logits or log-probabilities after all processing (penalties, bans), on the CPU or an
    NVIDIA GPU. The first step that is not refused fixes the device of the search. The beams, pools
    and histories then stay on that device, at constant addresses, and results are new arrays on
    that device. Parameters are given in host memory. On a GPU only `done` and `rows` wait for the
    GPU. Steps after the first can be captured in a CUDA graph, and each replay of the graph is a
    step. On a GPU scores may differ in the last place of a logarithm and a power. A request on a
    GPU may have at most 256 candidates, (1 + end ids) * width; a request with more candidates gets
    a status.

    Definition: TensorRT-LLM and transformers, with the differences that fairdraw/beam_search.h
    names.

    Raises:
        TypeError: An argument is no array or number, or has a wrong dtype or number of axes.
        ValueError: A number is out of its range, an array has a wrong shape, or rows are on another
            device than the search.
        RuntimeError: The first step is captured in a CUDA graph, no kernel of this build can run on
            the GPU, or the CUDA runtime reports an error.
    """

    def __init__(
        self,
        requests: int,
        width: Any,
        *,
        max_tokens: Any,
        end_ids: Any = None,
        length_penalty: Any = 0.0,
        early_stopping: Any = 1,
    ) -> None:
        if requests < 0:
            raise ValueError(f"requests is {requests}; allowed: >= 0")
        widest = _core.MAX_BEAM_WIDTH
        widths = each("width", width, "int32", requests, (1, widest))
        lengths = each("max_tokens", max_tokens, "int32", requests, (1, _core.NO_MAX_TOKENS))
        self._requests = requests
        # A width or length out of range makes its request fail, but must not change the array sizes
        # for the other requests.
        self._max_width = int(np.clip(widths, 1, widest).max(initial=1))
        self._max_steps = int(np.clip(lengths, 1, None).max(initial=1))
        parameters = {
            "width": widths,
            "length_penalty": each("length_penalty", length_penalty, "float32", requests,
                                   (-_FLOAT32_MAX, _FLOAT32_MAX)),
            "early_stopping": each("early_stopping", early_stopping, "int32", requests, (0, 2)),
            "max_tokens": lengths,
            "end_ids": token_lists("end_ids", end_ids, requests),
        }  # fmt: skip
        places = (requests, self._max_width)
        live = {
            "live_beams": np.ones(requests, np.int32),
            "scores": np.zeros(places, np.float32),
            "generated": np.zeros(requests, np.int32),
            "states": np.full(requests, _core.BEAMS_LIVE, np.int32),
        }
        pool = {
            "counts": np.zeros(requests, np.int32),
            **{name: np.zeros(places, np.float32) for name in ("scores", "cumulative")},
            **{name: np.zeros(places, np.int32) for name in ("lengths", "beams", "tokens")},
        }
        shape = (requests, self._max_steps, self._max_width)
        history = {
            **{name: np.empty(shape, np.int32) for name in ("tokens", "parents")},
            "max_steps": self._max_steps,
        }
        self._memory = _Memory(parameters, live, pool, history)
        self._backend: Backend = NumpyBackend()
        self._is_placed = False

    def _memory_of(self, name: str, backend: Backend) -> _Memory:
        """Returns the memory of a step over rows of this backend. The first step copies the memory
        to the rows' device. Rows of later steps on another device are refused."""
        where, here = (
            b.device if isinstance(b, TorchBackend) else "cpu" for b in (backend, self._backend)
        )
        if self._is_placed:
            if where != here:
                raise ValueError(f"{name} is on {where}; the search is on {here}")
            return self._memory
        if not isinstance(backend, TorchBackend) or not backend.on_gpu:
            return self._memory
        if backend.is_captured():
            raise RuntimeError("the first step brings the search to the GPU: capture later ones")
        bring = small_arrays(backend).uploaded
        shape = self._memory.history["tokens"].shape
        return _Memory(
            bring("parameters", self._memory.parameters),
            bring("beams", self._memory.live),
            bring("pool", self._memory.pool),
            {
                **{name: backend.empty(shape, "int32") for name in ("tokens", "parents")},
                "max_steps": self._max_steps,
            },
        )

    @property
    def done(self) -> bool:
        """Returns true if all requests are done."""
        return not bool((_rows_each(self._memory) > 0).any())

    @property
    def rows(self) -> int:
        """Returns the number of rows of the next step: one row per live beam of the unfinished
        requests."""
        return int(_rows_each(self._memory).sum())

    def step(self, rows: Any, *, logprobs: bool = False, row_begins: Any = None) -> BeamStep:
        """Makes one step for all unfinished requests.

        The rows [n, vocab] are float32, float16 or bfloat16: logits, or log-probabilities if
        `logprobs` is set. There is one row per live beam, in order, request after request, without
        the requests that are done. In the first step there is one row per request. With
        `row_begins` [requests], the rows of request r begin at index row_begins[r]. (On a GPU the
        rows are not counted, because counting would wait for the GPU: missing rows make their
        request fail.) A request that fails (`statuses`) loses its live beams and keeps its pool.
        """
        name = "logprobs" if logprobs else "logits"
        backend = backend_of(rows, name)
        expect_axes(name, len(rows.shape), (2,))
        memory = self._memory_of(name, backend)
        small = small_arrays(backend)
        if row_begins is None:
            begins = _begins(name, rows, memory)
        else:
            begins = small.shaped("row_begins", row_begins, "int64", (self._requests,))
        places = (self._requests, self._max_width)
        of_requests = ("live_beams", "generated", "states", "statuses")
        after = {
            **{name: backend.empty(places, "int32") for name in ("parents", "tokens")},
            "scores": backend.empty(places, "float32"),
            **{name: backend.empty((self._requests,), "int32") for name in of_requests},
        }
        backend.call(
            _core.beam_search_step,
            dict(
                rows=rows,
                logprobs=logprobs,
                requests=self._requests,
                max_width=self._max_width,
                row_begins=begins,
                **memory._asdict(),
                next=after,
                workspace=backend.allocate,
            ),
        )
        # The members are set only after the step, so that a refused step leaves the search
        # unchanged.
        self._memory, self._backend, self._is_placed = memory, backend, True
        # The arrays are written in place, so that each replay of a captured step reads the results
        # of the replay before.
        for name, mine in memory.live.items():
            mine[...] = after[name]
        return BeamStep(*(after[name] for name in BeamStep._fields))

    def result(self, best: int = 1) -> BeamResult:
        """Returns the `best` sequences of each request, where `best` is 1 to the largest width. The
        sequences come from the request's pool and, unless the pool alone decides, from its live
        beams. The arrays belong to the library of the last step's rows."""
        if not 1 <= best <= self._max_width:
            raise ValueError(f"best is {best}; allowed: 1 to {self._max_width} (the largest width)")
        shape = (self._requests, best)
        backend = self._backend
        if isinstance(backend, TorchBackend) and backend.on_gpu:
            # Results are made on the current stream, which may not be the stream of the last step.
            backend = TorchBackend(self._memory.live["live_beams"])
        result = BeamResult(
            backend.empty((*shape, self._max_steps), "int32"),
            backend.empty(shape, "int32"),
            backend.empty(shape, "float32"),
            backend.empty(shape, "float32"),
            backend.empty((self._requests,), "int32"),
        )
        backend.call(
            _core.beam_search_result,
            dict(
                requests=self._requests,
                max_width=self._max_width,
                best=best,
                pool=self._memory.pool,
                history=self._memory.history,
                live=self._memory.live,
                length_penalty=self._memory.parameters["length_penalty"],
                **result._asdict(),
            ),
        )
        return result


def _rows_each(memory: _Memory) -> Any:
    """Returns the number of rows that each request has in the next step."""
    return memory.live["live_beams"] * (memory.live["states"] == _core.BEAMS_LIVE)


def _begins(name: str, rows: Any, memory: _Memory) -> Any:
    """Returns the index of each request's first row. The rows of a request are those of its live
    beams, one per beam."""
    counts = _rows_each(memory)
    if isinstance(counts, np.ndarray):
        wanted = int(counts.sum())
        if rows.shape[0] != wanted:
            raise ValueError(
                f"{name} has {rows.shape[0]} rows; {wanted} are needed, one per live beam"
            )
        return np.cumsum(counts, dtype=np.int64) - counts
    return counts.cumsum(0) - counts  # int64, like the sums that torch returns
