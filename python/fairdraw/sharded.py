"""Samples from vocabularies that are split over ranks, for the local logits of a tensor-parallel
engine (fairdraw/sharded.h describes the exchange and why it is exact).

    sampler = fairdraw.torch.ShardedSampler(group)     # once; a torch.distributed process group
    tokens = sampler(local_logits, temperature, top_k, top_p, seed=seeds, offset=offsets)

Every rank makes the same call with its own columns of the logits, and gets the same tokens. The
tokens are those of `fairdraw.sample` over the whole rows, bit for bit, for any number of ranks. For
128256 tokens on two ranks, a rank sends 1.3 KB per row without filters and 3.4 KB with filters.
Rows with more surviving tokens than the ranks' lists can hold are mostly gathered on all ranks
(`gathered_rows` counts these rows).

Logits on a GPU stay on the GPU (fairdraw/cuda_sharded.h), and with NCCL the exchanged blocks stay
there too. Such a call waits for the GPU once, to learn whether rows must be gathered. With
gather=False the call does not wait, and can be captured in a CUDA graph. With `peers`, which is
memory that all ranks of a machine can address, the ranks' kernels exchange blocks without another
library.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
import torch.distributed

from . import _core
from ._arguments import FilterOrder, Purpose, RowsHold, TieRule, _joined, _leading, _member
from ._arrays import Backend, TorchBackend, width
from ._gpu_exchanges import Exchanges
from ._operations import DETAILS, empty, over
from ._peer_memory import PeerLimits as PeerLimits
from ._peer_memory import PeerMemory
from .logprobs import Logprobs, LogprobsMode, RankRule, reported
from .request_processing import RequestProcessing
from .row_operations import (
    softmax,
    top_k_mask_logits,
    top_k_renorm_probs,
    top_p_renorm_probs,
)
from .sampling import SampleDetails, drawing, sampled_sizes

#: Functions for split columns that replace functions for whole rows, with the same arguments.
_OVER_COLUMNS = {
    _core.sample: _core.sharded_sample,
    _core.sharded_log_softmax: _core.sharded_log_softmax,
    _core.softmax: _core.sharded_softmax,
    _core.top_k_mask_logits: _core.sharded_top_k_mask_logits,
    _core.renorm_probs: _core.sharded_renorm_probs,
}

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class _ColumnsBackend(TorchBackend):
    """The backend for tensors of a rank's columns. Calls are exchanges of all ranks, and so is the
    draw of a fresh seed."""

    def __init__(self, sampler: ShardedSampler, rows: Any, gather: bool = True) -> None:
        super().__init__(rows)
        self._sampler = sampler
        if not gather and not self.on_gpu:
            raise ValueError("gather is False; allowed: True, of logits in host memory")
        if gather and self.is_captured():
            raise RuntimeError("gather is True; allowed: False, while a CUDA graph is captured")

    def fresh_seed(self, generator: Any) -> int:
        """Returns a seed that the first rank has drawn for all ranks."""
        fresh = super().fresh_seed(generator)
        signed = fresh - 2**64 if fresh >= 2**63 else fresh
        return int(self._sampler._gathered(torch.tensor([signed]))[0]) & (2**64 - 1)

    def on_device(self, function: Any, *arguments: Any) -> Any:
        if function not in _OVER_COLUMNS:
            return super().on_device(function, *arguments)
        return self._sampler._exchange(_OVER_COLUMNS[function], *arguments)


def _on_device(parts: Any, backend: TorchBackend) -> Any:
    """Returns the arrays in nested tuples in the form in which the backend lends them on its
    GPU."""
    if parts is None:
        return None
    if isinstance(parts, tuple):
        return tuple(_on_device(part, backend) for part in parts)
    return backend.lend(torch.as_tensor(parts).to(backend.device))


def _given_words(allowed: Any) -> Any:
    """Widens the packed words of a rank without columns, because an empty array would mean that no
    words are given."""
    if isinstance(allowed, torch.Tensor) and allowed.ndim > 0 and allowed.shape[-1] == 0:
        return allowed.new_zeros((*allowed.shape[:-1], 1))
    return allowed


def _expect_columns(rows: Any, name: str) -> None:
    if not isinstance(rows, torch.Tensor) or rows.ndim < 2:
        raise TypeError(f"{name}: a tensor [..., columns] is needed")


def _over_columns(
    public: Callable[_Arguments, _Result],
) -> Callable[Concatenate[ShardedSampler, _Arguments], _Result]:
    """Makes a method from an operation, for a rank's columns in host memory."""

    def method(
        self: ShardedSampler, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> _Result:
        return over(self._backend_for, public)(*args, **kwargs)

    signature = inspect.signature(public)
    myself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    vars(method)["__signature__"] = signature.replace(
        parameters=[myself, *signature.parameters.values()]
    )
    method.__name__ = public.__name__
    method.__doc__ = (
        f"`fairdraw.{public.__name__}`, its arguments and results, bit for bit, of which those with a "
        f"value a token are of this rank's columns. In host memory.\n\n{public.__doc__}"
    )
    return method


class ShardedSampler:
    """Offers `sample` and the row operations for logits whose columns are split over the ranks of a
    group.

    Rank r has the columns before those of rank r + 1, in the order of the group. Ranks may have
    different numbers of columns; a rank may have no column. Columns that only pad a weight matrix
    must be cut off before the call: logits[:, :columns].

    `group` is a process group of torch.distributed with any backend; None is the default group.
    `columns` lists the number of columns of each rank. Without this argument the first call
    exchanges the numbers, and later calls expect the same numbers. Blocks of logits in host memory
    are moved as the group's backend requires. Logits on a GPU need a backend for GPUs, or `peers`.

    `peers` is for logits on a GPU, with `columns`. The ranks, all on one machine, each give a piece
    of memory of their current GPU (torch's symmetric memory, without multicast) for calls up to
    these limits. A larger call raises ValueError on every rank. The ranks' kernels then write
    blocks to that memory and wait for each other's blocks. All ranks must therefore make the same
    calls in the same order, each rank on one stream. If a rank makes no call, or a call with
    another number of rows, the other ranks wait forever.

    GPUs do not support probs among the details, the methods that are row operations, and more than
    8 ranks.

    Definition: docs/sharded.md for the exchanges; fairdraw/sharded.h for the results.

    Raises:
        TypeError: The logits are no tensor [rows, columns], or an argument has a wrong dtype or
            number of axes.
        ValueError: A number is out of its range, an array has a wrong length, stride or device,
            ranks disagree, or the call is larger than `peers` allow.
        RuntimeError: The call needs whole rows, or a feature that GPUs lack; `gather` is True while
            a CUDA graph is captured; torch has no symmetric memory for `peers`; or the CUDA runtime
            reports an error.
    """

    def __init__(
        self,
        group: Any = None,
        *,
        columns: Sequence[int] | None = None,
        peers: PeerLimits | None = None,
    ) -> None:
        self._group = group
        self._rank = torch.distributed.get_rank(group)
        self._ranks = torch.distributed.get_world_size(group)
        backend = str(torch.distributed.get_backend(group))
        self._device = torch.device("cuda" if backend == "nccl" else "cpu")
        if columns is not None and len(columns) != self._ranks:
            raise ValueError(
                f"columns has {len(columns)} entries; {self._ranks} are needed, one per rank"
            )
        self._boundaries = None if columns is None else [0, *accumulate(map(int, columns))]
        self._peers: PeerMemory | None = None
        if peers is not None:
            if self._boundaries is None:
                raise ValueError("columns: are not given; with peers they are needed")
            self._peers = PeerMemory(group, self._boundaries, peers, self._gathered)
        #: Counts of the last call: exchanges between ranks, bytes of all blocks that the group
        #: moved, and rows that the call gathered.
        self.exchanges = 0
        self.exchanged_bytes = 0
        self.gathered_rows = 0
        #: After a call on a GPU, an int32 on the GPU: the number of rows without a result, which is
        #: 0 unless gather=False. A value of -1 means that the ranks disagree on arguments, and that
        #: no row has a result.
        self.undecided: Any = None
        #: After a call on a GPU, a function that every rank must call. The function gathers the
        #: rows that are undecided at that time and returns the number of these rows. Call the
        #: function once after each replay of a graph.
        self.gather_undecided: Any = None

    def _gathered(self, block: Any) -> Any:
        """Returns the tensors of all ranks, in the order of the ranks."""
        mine = block.to(self._device)
        blocks = [torch.empty_like(mine) for _ in range(self._ranks)]
        torch.distributed.all_gather(blocks, mine, group=self._group)
        return torch.cat(blocks).cpu()

    def _agreed_boundaries(self, columns: int) -> list[int]:
        if self._boundaries is None:
            widths = self._gathered(torch.tensor([columns], dtype=torch.int64))
            self._boundaries = [0, *accumulate(widths.tolist())]
        return self._boundaries

    def _backend_for(self, rows: Any, name: str) -> Backend:
        """Returns the backend for an operation that works in host memory only."""
        _expect_columns(rows, name)
        backend = _ColumnsBackend(self, rows)
        if backend.on_gpu:
            raise ValueError(f"{name} is on {rows.device}; allowed: host memory, over columns")
        self._agreed_boundaries(width(rows))
        return backend

    def _exchange(
        self, operation: Callable[..., _core.ShardedCall], arguments: dict[str, Any]
    ) -> None:
        """Runs a call in host memory, from the first exchanged block to the results."""
        self.exchanges = self.exchanged_bytes = 0
        call = operation({**arguments, "boundaries": self._boundaries, "shard": self._rank})
        while call.block_bytes > 0:
            block = torch.frombuffer(bytearray(call.block()), dtype=torch.uint8)
            blocks = self._gathered(block)
            self.exchanged_bytes += blocks.numel()
            call.receive(blocks)
        self.exchanges, self.gathered_rows = call.exchanges, call.gathered_rows

    def _run_on_gpu(
        self,
        backend: TorchBackend,
        named: dict[str, Any],
        gather: bool,
    ) -> None:
        self.exchanges = self.exchanged_bytes = self.gathered_rows = 0
        workspace: Any = None

        def allocate(size: int) -> Any:
            nonlocal workspace
            workspace = backend.empty((max(size, 1),), "uint8")
            return backend.lend(workspace)

        named.update(boundaries=self._boundaries, shard=self._rank)
        named.update(stream=backend.stream, workspace=allocate)
        call = _core.ShardedCudaCall(backend.lend(named))
        exchanges = Exchanges(call, workspace)
        self.undecided, self.gather_undecided = exchanges.undecided, exchanges.gather
        if self._peers is None:
            exchanges.through_group(self._group, self._ranks)
        else:
            peers = self._peers
            exchanges.through_peers(peers.addresses, peers.bytes, peers.limits.rows)
        gathered = exchanges.gather() if gather else 0
        self.exchanges, self.exchanged_bytes = exchanges.count, exchanges.bytes
        self.gathered_rows = max(gathered, 0)
        if gathered < 0:
            raise ValueError(
                "ranks disagree: columns, parameters, seeds, offsets and results must be the same"
            )

    def __call__(
        self,
        logits: Any,
        temperature: Any = 1.0,
        top_k: Any = 0,
        top_p: Any = 1.0,
        min_p: Any = 0.0,
        indices: Any = None,
        *,
        allowed: Any = None,
        active: Any = None,
        processing: Sequence[RequestProcessing] | None = None,
        num_samples: int = 1,
        tie_rule: TieRule = "keep_all",
        filter_apply_order: FilterOrder = "top_k_first",
        generator: Any = None,
        seed: Any = None,
        offset: Any = None,
        return_details: bool = False,
        logprobs: int | None = None,
        logprobs_mode: LogprobsMode = "raw_logprobs",
        rank_rule: RankRule = "position",
        purpose: Purpose = "draw",
        input: RowsHold = "logits",
        gather: bool = True,
    ) -> Any:
        """Draws as `fairdraw.sample` does, with its arguments and results. All arguments but logits
        and `allowed` must be the same on every rank.

        The logits are [rows, this rank's columns]. `allowed` holds the packed words of these
        columns, with this rank's first column at bit 0. `processing` holds one RequestProcessing
        per row, with ids of the whole vocabulary. Without `seed` the first rank draws a seed for
        the call. The results mask, probs and Logprobs.all cover this rank's columns; all other
        results are the same on every rank. Raises ValueError if the ranks disagree on the
        arguments.

        With `input` "probs" the rows hold probabilities, in any scale, as in
        `fairdraw.sampling_from_probs`. Rows of probabilities support every filter, `allowed`, and
        all details but the log-probabilities (None). Rows of probabilities do not support
        temperature, `processing` and `logprobs`.

        `gather` is for logits on a GPU. With False the call gathers no row and does not wait for
        the GPU. Rows with survivors outside the ranks' lists (256 tokens per rank on two ranks)
        then have no token. Nearly all rows with top_p alone and without details are exceptions, and
        have one. In nearly all rows with top_p alone and without details, the survivors need not be
        listed, and such rows have a token. While a CUDA graph is captured, gather=False and `seed`
        are required.
        """
        if not isinstance(logits, torch.Tensor) or logits.ndim != 2:
            raise TypeError("logits: a tensor [rows, columns] is needed")
        given = {**locals(), "top_n_sigma": 0.0}  # no rank has whole rows
        hold = _member("input", input, _core.TileInput.__members__)
        backend = _ColumnsBackend(self, logits, gather)
        sizes = sampled_sizes(logits, indices, num_samples, logprobs)
        (outputs,) = sizes["outputs"]
        if backend.on_gpu:
            self._expect_on_gpu(logits, processing, outputs, num_samples, logprobs)
        self._agreed_boundaries(width(logits))
        given = {**given, "allowed": _given_words(allowed)}
        call, drawn_with = drawing(backend, given, outputs)
        wanted = [*DETAILS] if return_details else ["tokens"]
        results = empty(backend, {name: DETAILS[name] for name in wanted}, sizes)
        report: Logprobs | None = None
        if logprobs is not None:
            report, call["reports"] = reported(backend, sizes, logprobs, logprobs_mode, rank_rule)
        if return_details:
            if backend.on_gpu:
                results["probs"] = None
            if input == "probs":
                results["logprob"] = results["logprob_filtered"] = None
        if backend.on_gpu:
            call["processing"] = _on_device(call["processing"], backend)
        call.update(results, input=hold)
        if backend.on_gpu:
            backend.on_device(self._run_on_gpu, backend, call, gather)
        else:
            backend.call(_core.sample, call)
        if return_details:
            return SampleDetails(**results, logprobs=report, seed=drawn_with)
        return results["tokens"] if report is None else (results["tokens"], report)

    def _expect_on_gpu(
        self,
        logits: Any,
        processing: Any,
        outputs: int,
        num_samples: int,
        logprobs: int | None,
    ) -> None:
        if processing is not None and torch.cuda.is_current_stream_capturing():
            raise ValueError(
                "processing: is given; allowed: None, while a CUDA graph is captured: its lists are "
                "copied to the GPU"
            )
        if self._peers is not None:
            self._peers.expect_device("logits", logits.device)
            self._peers.limits.expect(len(logits), outputs, num_samples, logprobs)

    softmax = _over_columns(softmax)
    top_k_mask_logits = _over_columns(top_k_mask_logits)
    top_k_renorm_probs = _over_columns(top_k_renorm_probs)
    top_p_renorm_probs = _over_columns(top_p_renorm_probs)

    def log_softmax(self, logits: Any) -> Any:
        """Returns the natural logarithm of softmax(logits), float32, for this rank's columns. The
        values equal `all` of `fairdraw.sample(logits, logprobs=-1)` bit for bit. The method works
        in host memory only."""
        leading = _leading("logits", logits)
        rows = _joined(logits, leading)
        backend = self._backend_for(rows, "logits")
        log_probs = backend.empty(tuple(logits.shape), "float32")
        log_probs[...] = -float("inf")  # rows that fail also get values
        backend.call(
            _core.sharded_log_softmax,
            dict(
                logits=rows,
                log_probs=_joined(log_probs, leading),
                statuses=None,
            ),
        )
        return log_probs
