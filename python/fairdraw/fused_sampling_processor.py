"""Steps over a running batch, on the CPU or an NVIDIA GPU (fairdraw/fused_sampling_processor.h and
fairdraw/cuda_fused_sampling_processor.h).

>>> processor = fairdraw.FusedSamplingProcessor(state)
>>> processor.step(logits)  # [slots, vocab], of NumPy or torch on the CPU
>>> processor.new_tokens()
array([3124], dtype=int32)

On a GPU the processor has a copy of the batch there, and nothing waits but what says so:

>>> processor = fairdraw.FusedSamplingProcessor(state, "cuda")
>>> processor.step(logits)  # [slots, vocab], on that GPU
>>> embedding(processor.new_tokens())  # the next forward pass needs no host
>>> processor.start_async_token_copy()
>>> processor.step(next_logits)  # one ahead of what the host has seen
>>> tokens = processor.wait_for_tokens()  # of the first step; now the state has them

The state knows the tokens that were waited for: until then `output`, `offset` and `evict` end with
the last one of those. The rest (requests that move or leave with tokens on their way) is in the C++
header.

In a CUDA graph the batch is whatever it is at a replay. The processor belongs to the stream that is
current when it is made, and every call is made with that stream current:

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
    """A step as the host has it: [n] int32 each, in slot order."""

    tokens: Any  #: the last token of the step; -1: none
    counts: Any  #: tokens that each request got
    statuses: Any  #: 0, or why there is no token


class FusedSamplingProcessor:
    """Steps over a BatchState, in the verbs of MAX: draws a token for each request and appends it.

    Results are in slot order. On the CPU they are arrays of the library whose logits the last step
    was given. On a GPU (`device`: "cuda", "cuda:1", a torch.device) they are tensors there, the
    processor's own memory: each step and each replay overwrites it, so copy what you keep;
    they are as many as the last step that was not a replay had slots. A state has one processor on
    a GPU at a time.

    Of a GPU alone: without `processing` no request may have penalties, biases or bans, without
    `bitmask` there is no update_bitmask, without `logit_offsets` a row belongs to a slot; steps that
    are captured pay for each of these. The device remembers `most_unread_calls` calls (steps, or rows
    of one request with rows="all") until they are copied, and `most_copies` copies may be on their way.
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
        #: Copies that were started and not waited for.
        self._on_their_way = 0
        #: Of results in host memory.
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
        """One step. logits [rows, vocab]: float32, float16 or bfloat16, where the processor is.

        `logit_offsets` [n + 1] (int64 or uint32): the request of slot i has the rows from
        logit_offsets[i] to logit_offsets[i + 1]; none: it sits the step out. Without it row i
        belongs to slot i. `rows`: the last row of each request is sampled, or all, in order, each
        with the token of the row before in its history.

        On a GPU the offsets are in host memory, or on the device: then they are read when the step
        runs, a request whose offsets are no rows has a status, and of rows="all" `most_rows` of each
        request are sampled. While a stream is captured they are on the device.

        A row that fails (`statuses`) leaves its request as it was.
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
        """The rows that a step draws from, [slots, vocab] float32, before temperature and filters: row i
        of `logits` with the processing and the bitmask of slot i; -inf where that is banned, and in rows
        of empty slots. Draws nothing. On the CPU."""
        backend = backend_of(logits, "logits")
        processed = backend.empty(tuple(logits.shape), "float32")
        processed[...] = -float("inf")
        self._on_host("logits_for_sampling").logits_for_sampling(
            backend.lend(logits), backend.lend(processed)
        )
        return processed

    def step_processed(self, logits: Any) -> None:
        """A step over rows of logits_for_sampling, changed or not, which are not processed again: the
        caller's hook between processing and draw. Row i belongs to slot i. On the CPU."""
        backend = backend_of(logits, "logits")
        self._on_host("step_processed").step_processed(backend.lend(logits))
        self._backend = backend

    def check_stop(self, **criteria: Any) -> StopStep:
        """`check_stop` of the last step's tokens, slot by slot, with the outputs before it. On the CPU."""
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
        """Brings changes of the batch to the GPU, as every step does that is not captured: before a
        capture, and after a change before the next replay. On the CPU there is nothing to do."""
        if isinstance(self._core, _core.CudaFusedSamplingProcessor):
            self._call(self._core.bring_changes)

    def new_tokens(self) -> Any:
        """[n] int32: the last token of the last step; -1: none."""
        return self._result(self._core.new_tokens())

    def new_token_counts(self) -> Any:
        """[n] int32: how many tokens each request got in the last step."""
        return self._result(self._core.new_token_counts())

    def statuses(self) -> Any:
        """[n] int32: 0, or why there is no token (RowStatus in fairdraw/types.h)."""
        return self._result(self._core.statuses())

    def generated_tokens(self) -> list[Any]:
        """All tokens that the request of each slot has drawn, as the host has them."""
        return [self._backend.from_ints(tokens) for tokens in self._core.generated_tokens()]

    def update_bitmask(self, packed: Any) -> None:
        """Row i: the tokens that the request of slot i may draw, until they are updated.

        uint32 or int32 [n, ceil(vocab / 32)], token t at bit t % 32 of word t // 32, 1: allowed.
        On a GPU: a tensor there or in page-locked memory (`pin_memory`), to be left as it is until
        the stream has passed; a replay reads it again.
        """
        lent = backend_of(packed, "packed").lend(packed)
        self._call(self._core.update_bitmask, lent)
        if self._gpu is not None:
            self._gpu.keep(packed)

    def clear_bitmask(self) -> None:
        """All tokens are allowed again."""
        self._call(self._core.clear_bitmask)

    def start_async_token_copy(self) -> None:
        """Copies new_tokens() to the host; later steps leave the copy alone. On a GPU: the tokens of
        all steps that were not copied yet, on a stream of its own."""
        self._call(self._core.start_async_token_copy)
        self._copied = CopiedStep(None, None, None)
        self._on_their_way += 1
        if self._gpu is None:
            self._copied = CopiedStep(None, self.new_token_counts(), self.statuses())
            self._on_their_way = 1  # the last one alone

    def wait_for_tokens(self, return_details: bool = False) -> Any:
        """Tokens of the copy that was started last, and on a GPU of the oldest one that was not waited
        for, in host memory; waits for that copy and nothing else. `return_details`: CopiedStep."""
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
        """As wait_for_tokens; where no copy is on its way, of one that is made now."""
        if self._on_their_way == 0:
            self.start_async_token_copy()
        return self.wait_for_tokens(return_details)

    def get_new_tokens_numpy(self) -> Any:
        """As get_new_tokens, as MAX has them: NumPy's int64, in host memory."""
        return np.asarray(self.get_new_tokens()).astype(np.int64)

    def catch_up(self) -> None:
        """Waits for all steps, and brings all tokens that the host does not have to the state."""
        if isinstance(self._core, _core.CudaFusedSamplingProcessor):
            self._call(self._core.catch_up)

    def _call(self, operation: Any, *arguments: Any) -> None:
        if self._gpu is None:
            operation(*arguments)
        else:
            self._gpu.call(operation, *arguments)

    def _result(self, values: Any) -> Any:
        """Lists of the CPU's processor as arrays; the GPU's has tensors."""
        return self._backend.from_ints(values) if self._gpu is None else values


class _Gpu:
    """Place of a processor: a device, and the stream that was current when it was made."""

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
        """The device reads what was lent when the stream gets there, and a graph at each replay."""
        if self._backend.is_captured():
            self._kept.append((None, memory))
            return
        self._kept = [(event, m) for event, m in self._kept if event is None or not event.query()]
        event = self._cuda.Event()
        event.record(self._cuda.current_stream(self._backend.index))
        self._kept.append((event, memory))
