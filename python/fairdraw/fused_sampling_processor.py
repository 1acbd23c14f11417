"""Makes the steps of a running batch, on the CPU or an NVIDIA GPU
(fairdraw/fused_sampling_processor.h and fairdraw/cuda_fused_sampling_processor.h).

>>> processor = fairdraw.FusedSamplingProcessor(state)
>>> processor.step(logits)  # [slots, vocab], of NumPy or torch on the CPU
>>> processor.new_tokens()
array([3124], dtype=int32)

On a GPU the processor keeps a copy of the batch in GPU memory. Only calls whose description says so
wait for the GPU:

>>> processor = fairdraw.FusedSamplingProcessor(state, "cuda")
>>> processor.step(logits)  # [slots, vocab], on that GPU
>>> embedding(processor.new_tokens())  # the next forward pass needs no host
>>> processor.start_async_token_copy()
>>> processor.step(next_logits)  # runs one step ahead of the host
>>> tokens = processor.wait_for_tokens()  # of the first step; now the state has them

The state knows only tokens that the caller has waited for. Until then `output`, `offset` and
`evict` end with the last token that the state knows. The C++ header describes further cases, such
as requests that move or leave while tokens are in flight.

A replayed CUDA graph reads the batch as it is at the time of the replay. The processor belongs to
the stream that is current when the processor is made, and every call must be made while that stream
is current:

>>> stream = torch.cuda.Stream()
>>> with torch.cuda.stream(stream):
...     processor = fairdraw.FusedSamplingProcessor(state, "cuda")
...     processor.bring_changes()
...     with torch.cuda.graph(graph, stream=stream):
...         processor.step(logits)
...     graph.replay()  # after a change of the batch: bring_changes() first
...     processor.start_async_token_copy()
...     processor.wait_for_tokens()
"""

from __future__ import annotations

import sys
from typing import Any, Literal, NamedTuple

import numpy as np

from . import _core
from ._arguments import _member
from ._arrays import Backend, NumpyBackend, TorchBackend, backend_of
from .serving import BatchState
from .stop_criteria import StopStep, check_stop

_ROWS = _core.StepRows.__members__


class CopiedStep(NamedTuple):
    """A step's results on the host: three arrays [n] int32, in slot order."""

    tokens: Any  #: [n]: the last token of the step, or -1 for none
    counts: Any  #: [n]: number of tokens that each request got in the step
    statuses: Any  #: [n]: 0, or the reason why the request has no token


class FusedSamplingProcessor:
    """Makes the steps of a BatchState, with the method names of Modular MAX. A step draws a token
    per request and appends the token to the request.

    Results are in the order of the slots. On the CPU, results are arrays of the library of the last
    step's logits. On a GPU (`device`: "cuda", "cuda:1", a torch.device), results are tensors in the
    processor's own memory. The tensors have one entry for each slot of the last step that was not a
    replay. Each step and each replay overwrites the tensors, so that a caller must copy results to
    keep them. A state has at most one processor on a GPU at a time.

    Three switches are for the GPU only; captured steps take longer for each switch that is on.
    Without `processing` no request may have logits processing. Without `bitmask` there is
    no update_bitmask. Without `logit_offsets` row i belongs to slot i. The device remembers the
    tokens of `most_unread_calls` calls (steps, or rows of one request with rows="all") until the
    tokens are copied. At most `most_copies` copies may be in flight.

    Definition: MAX for the names of the methods; fairdraw/fused_sampling_processor.h for the steps.

    Raises:
        TypeError: An argument is no array, or has a wrong dtype or number of axes.
        ValueError: An argument is out of its range, is on another device, or needs an ability that
            was turned off; a copy is started before the first step or beyond `most_copies`; or the
            batch has changed while the stream is captured.
        RuntimeError: The processor is on a GPU and the method works on the CPU alone, another
            stream is current, no copy was started, tokens were overwritten before their copy
            (catch_up() brings them), no kernel of this build can run on the GPU, or the CUDA
            runtime reports an error.
    """

    def __init__(
        self,
        state: BatchState,
        device: Any = None,
        *,
        processing: bool = True,
        bitmask: bool = True,
        logit_offsets: bool = True,
        most_unread_calls: int = 32,
        most_copies: int = 4,
    ) -> None:
        self._core: _core.FusedSamplingProcessor | _core.CudaFusedSamplingProcessor
        self._gpu: _Gpu | None = None
        self._copied: CopiedStep | None = None
        #: Number of copies that were started and that nobody has waited for yet.
        self._on_their_way = 0
        #: Backend that makes results in host memory.
        self._backend: Backend = NumpyBackend()
        if device is None or str(device) == "cpu":
            self._core = _core.FusedSamplingProcessor(state._core)
            return
        self._gpu = _Gpu(device)
        self._core = self._gpu.processor(
            state._core,
            processing=processing,
            bitmask=bitmask,
            logit_offsets=logit_offsets,
            most_unread_calls=most_unread_calls,
            most_copies=most_copies,
        )
        self._backend = self._gpu.host

    def step(
        self,
        logits: Any,
        logit_offsets: Any = None,
        rows: Literal["last", "all"] = "last",
        most_rows: int = 1,
    ) -> None:
        """Makes one step. The logits [rows, vocab] are float32, float16 or bfloat16, on the
        processor's device.

        With `logit_offsets` [n + 1] (int64 or uint32), the request of slot i has the rows from
        logit_offsets[i] to logit_offsets[i + 1]. A request without rows does not take part in the
        step. Without offsets row i belongs to slot i. `rows` selects the rows that are sampled: the
        last row of each request, or all of its rows in order. With all rows, each row's history
        includes the token of the row before.

        On a GPU the offsets may be in host memory or on the device. Offsets on the device are read
        when the step runs, a request with invalid offsets gets a status, and rows="all" samples
        `most_rows` rows of each request. While a stream is captured, the offsets must be on the
        device.

        A row that fails (`statuses`) leaves its request unchanged.
        """
        sampled = _member("rows", rows, _ROWS)
        backend = backend_of(logits, "logits")
        offsets = (
            None
            if logit_offsets is None
            else backend_of(logit_offsets, "logit_offsets").lend(logit_offsets)
        )
        if isinstance(self._core, _core.CudaFusedSamplingProcessor):
            self._call(self._core.step, backend.lend(logits), offsets, sampled, most_rows)
        else:
            self._core.step(backend.lend(logits), offsets, sampled)
            self._backend = backend

    __call__ = step

    def logits_for_sampling(self, logits: Any) -> Any:
        """Returns the rows from which a step draws, [slots, vocab] float32, before temperature and
        filters. Row i is row i of `logits` with the processing and the bitmask of slot i. Banned
        tokens, and rows of empty slots, are -inf. Draws nothing. The method works on the CPU
        only."""
        backend = backend_of(logits, "logits")
        processed = backend.empty(tuple(logits.shape), "float32")
        processed[...] = -float("inf")
        self._on_host("logits_for_sampling").logits_for_sampling(
            backend.lend(logits), backend.lend(processed)
        )
        return processed

    def step_processed(self, logits: Any) -> None:
        """Makes a step over rows of logits_for_sampling, which the caller may have changed, without
        processing the rows again. The method lets a caller change logits between processing and
        draw. Row i belongs to slot i. The method works on the CPU only."""
        backend = backend_of(logits, "logits")
        self._on_host("step_processed").step_processed(backend.lend(logits))
        self._backend = backend

    def check_stop(self, **criteria: Any) -> StopStep:
        """Applies `check_stop` to the last step's tokens, slot by slot, together with each
        request's earlier output. On the CPU."""
        core = self._on_host("check_stop")
        counts, outputs = core.new_token_counts(), core.generated_tokens()
        step = np.full((len(counts), max([1, *counts])), -1, np.int32)
        before = []
        for row, count, output in zip(step, counts, outputs, strict=True):
            row[:count] = output[len(output) - count :]
            before.append(output[: len(output) - count])
        return check_stop(self._backend.from_numpy(step), output=before, **criteria)

    def _on_host(self, name: str) -> _core.FusedSamplingProcessor:
        if isinstance(self._core, _core.CudaFusedSamplingProcessor):
            raise RuntimeError(f"{name}: a processor on a GPU has none; allowed: one on the CPU")
        return self._core

    def bring_changes(self) -> None:
        """Copies changes of the batch to the GPU. Every step that is not captured copies the
        changes itself. Call the method before a capture, and between a change and the next replay.
        On the CPU the method does nothing."""
        if isinstance(self._core, _core.CudaFusedSamplingProcessor):
            self._call(self._core.bring_changes)

    def new_tokens(self) -> Any:
        """Returns [n] int32: the last token that each request got in the last step, or -1 for
        none."""
        return self._result(self._core.new_tokens())

    def new_token_counts(self) -> Any:
        """Returns [n] int32: the number of tokens that each request got in the last step."""
        return self._result(self._core.new_token_counts())

    def statuses(self) -> Any:
        """Returns [n] int32: 0, or the reason why a request has no token (RowStatus in
        fairdraw/types.h).
        """
        return self._result(self._core.statuses())

    def generated_tokens(self) -> list[Any]:
        """Returns all tokens that the request of each slot has drawn, as far as the host knows the
        tokens."""
        return [self._backend.from_ints(tokens) for tokens in self._core.generated_tokens()]

    def update_bitmask(self, packed: Any) -> None:
        """Sets the tokens that may be drawn until the next update: row i is for the request of slot
        i.

        The bitmask is uint32 or int32 [n, ceil(vocab / 32)]. Token t is bit t % 32 of word t // 32,
        and 1 means allowed. On a GPU the bitmask is a tensor on the GPU or in page-locked memory
        (`pin_memory`). The bitmask must stay unchanged until the stream has passed this call; a
        replay reads the bitmask again.
        """
        lent = backend_of(packed, "packed").lend(packed)
        self._call(self._core.update_bitmask, lent)
        if self._gpu is not None:
            self._gpu.keep(packed)

    def clear_bitmask(self) -> None:
        """Removes the bitmask, so that all tokens are allowed again."""
        self._call(self._core.clear_bitmask)

    def start_async_token_copy(self) -> None:
        """Copies new_tokens() to the host. Later steps do not change the copy. On a GPU the method
        copies the tokens of all steps that are not copied yet, on a stream of its own."""
        self._call(self._core.start_async_token_copy)
        self._copied = CopiedStep(None, None, None)
        self._on_their_way += 1
        if self._gpu is None:
            self._copied = CopiedStep(None, self.new_token_counts(), self.statuses())
            self._on_their_way = 1  # on the CPU, a caller can wait only for the last copy

    def wait_for_tokens(self, return_details: bool = False) -> Any:
        """Returns the tokens of a copy, in host memory, after waiting for that copy only. The copy
        is the one started last or, on a GPU, the oldest copy in flight. `return_details`:
        CopiedStep."""
        if self._copied is None:
            raise RuntimeError("no copy was started: call start_async_token_copy() after a step")
        if isinstance(self._core, _core.CudaFusedSamplingProcessor):
            found = self._core.wait_for_tokens()
            self._copied = CopiedStep(*(self._backend.from_ints(values) for values in found))
        else:
            tokens = self._backend.from_ints(self._core.wait_for_tokens())
            self._copied = self._copied._replace(tokens=tokens)
        self._on_their_way = max(self._on_their_way - 1, 0)
        return self._copied if return_details else self._copied.tokens

    def get_new_tokens(self, return_details: bool = False) -> Any:
        """Returns tokens as wait_for_tokens does, but first starts a copy if no copy is in
        flight."""
        if self._on_their_way == 0:
            self.start_async_token_copy()
        return self.wait_for_tokens(return_details)

    def get_new_tokens_numpy(self) -> Any:
        """Returns tokens as get_new_tokens does, in the form of MAX: NumPy int64, in host
        memory."""
        return np.asarray(self.get_new_tokens()).astype(np.int64)

    def catch_up(self) -> None:
        """Waits for all steps, and gives the state all tokens that the state does not have yet."""
        if isinstance(self._core, _core.CudaFusedSamplingProcessor):
            self._call(self._core.catch_up)

    def _call(self, operation: Any, *arguments: Any) -> None:
        if self._gpu is None:
            operation(*arguments)
        else:
            self._gpu.call(operation, *arguments)

    def _result(self, values: Any) -> Any:
        """Returns the results of a processor on the CPU as arrays. The results of a processor on a
        GPU are tensors already."""
        return self._backend.from_ints(values) if self._gpu is None else values


class _Gpu:
    """The device of a processor, and the stream that was current when the processor was made."""

    def __init__(self, device: Any) -> None:
        torch = sys.modules.get("torch")
        if torch is None:
            raise ValueError(
                f"device is {device!r}; allowed: 'cpu', or a GPU where torch is imported"
            )
        device = torch.device(device)
        if device.type != "cuda":
            raise ValueError(f"device is '{device}'; allowed: 'cpu', 'cuda', 'cuda:0' and so on")
        self._cuda = torch.cuda
        self._backend = TorchBackend(torch.empty(0, device=device))
        self.host = TorchBackend(torch.empty(0))
        self._kept: list[tuple[Any, Any]] = []

    def processor(self, state: Any, **options: Any) -> _core.CudaFusedSamplingProcessor:
        backend = self._backend
        make = _core.CudaFusedSamplingProcessor
        found: _core.CudaFusedSamplingProcessor = backend.on_device(
            make, state, {**options, "device_id": backend.index, "stream": backend.stream}
        )
        return found

    def call(self, operation: Any, *arguments: Any) -> None:
        current = self._cuda.current_stream(self._backend.index).cuda_stream
        if current != self._backend.stream:
            raise RuntimeError(
                f"the current stream is {current:#x}; allowed: {self._backend.stream:#x}, the one "
                "that was current when the processor was made"
            )
        self._backend.on_device(operation, *arguments)

    def keep(self, memory: Any) -> None:
        """Keeps memory alive until the stream has read it. Memory of a graph capture is kept
        forever, because each replay reads it."""
        if self._backend.is_captured():
            self._kept.append((None, memory))
            return
        self._kept = [(event, m) for event, m in self._kept if event is None or not event.query()]
        event = self._cuda.Event()
        event.record(self._cuda.current_stream(self._backend.index))
        self._kept.append((event, memory))
