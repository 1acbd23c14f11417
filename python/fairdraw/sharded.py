"""Sampling of vocabularies that are split over ranks: what a tensor-parallel engine calls on its
local logits (fairdraw/sharded.h has the exchange and why it is exact).

    sampler = fairdraw.torch.ShardedSampler(group)     # once; a torch.distributed process group
    tokens = sampler(local_logits, temperature, top_k, top_p, seed=seeds, offset=offsets)

Every rank makes the same call with its own columns of the logits, and gets the same tokens: those
of `fairdraw.sample` over the whole rows, bit for bit, whatever the number of ranks. No row is
gathered: a rank sends 1.3 KB a row without filters and 3.4 KB with, for 128256 tokens on two.

Logits on a GPU stay there (fairdraw/cuda_sharded.h), and so do the blocks, with NCCL. Such a call
waits for the GPU once, to see whether rows need more exchanges; with `rounds` it does not, and can be
captured in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.distributed

from . import _core
from ._arguments import (
    _FILTER_ORDERS,
    _PURPOSES,
    _TIE_RULES,
    FilterOrder,
    Purpose,
    TieRule,
    _member,
)
from ._arrays import TorchBackend, length
from .logprobs import Logprobs, LogprobsMode, RankRule, _reports
from .request_processing import RequestProcessing, rows_processing
from .sampling import SampleDetails, _detail_arrays


class ShardedSampler:
    """`sample` over the columns that the ranks of a group have.

    Rank r has the columns in front of those of rank r + 1, in the order of the group; they need not
    be as many on each, and a rank may have none. Columns that only pad a weight matrix are to be
    cut off first: logits[:, :columns].

    `group`: a process group of torch.distributed with any backend; None is the default one.
    `columns`: how many each rank has; without it the first call asks all ranks, and later ones
    expect the same. Blocks of logits in host memory travel as the group's backend wants them; logits
    on a GPU need a backend for GPUs. What is missing there: `indices`, `processing`, probs among the
    details, more than 8 ranks, and of `logprobs` ranks (None), whole rows, and raw modes with `allowed`.
    """

    def __init__(self, group: Any = None, *, columns: Sequence[int] | None = None) -> None:
        self._group = group
        self._rank = torch.distributed.get_rank(group)
        self._ranks = torch.distributed.get_world_size(group)
        backend = str(torch.distributed.get_backend(group))
        self._device = torch.device("cuda" if backend == "nccl" else "cpu")
        if columns is not None and len(columns) != self._ranks:
            raise ValueError(
                f"columns has {len(columns)} entries; {self._ranks} are needed, one a rank"
            )
        self._boundaries = None if columns is None else [0, *accumulate(map(int, columns))]
        #: Of the last call: how often ranks exchanged blocks, and the bytes of all blocks.
        self.exchanges = 0
        self.exchanged_bytes = 0
        #: Of the last call on a GPU, an int32 there: rows without a result, 0 but where `rounds` were
        #: too few; -1: ranks disagree on arguments, and no row has one.
        self.undecided: Any = None

    def _gathered(self, block: Any) -> Any:
        """The ranks' tensors, one after the other."""
        mine = block.to(self._device)
        blocks = [torch.empty_like(mine) for _ in range(self._ranks)]
        torch.distributed.all_gather(blocks, mine, group=self._group)
        return torch.cat(blocks).cpu()

    def _agreed_boundaries(self, logits: Any) -> list[int]:
        if self._boundaries is None:
            widths = self._gathered(torch.tensor([logits.shape[1]], dtype=torch.int64))
            self._boundaries = [0, *accumulate(widths.tolist())]
        return self._boundaries

    def _agreed_seed(self, backend: TorchBackend, generator: Any) -> int:
        """One that the first rank has drawn."""
        fresh = backend.fresh_seed(generator)
        signed = fresh - 2**64 if fresh >= 2**63 else fresh
        return int(self._gathered(torch.tensor([signed], dtype=torch.int64))[0]) & (2**64 - 1)

    def _run_on_host(self, call: _core.ShardedCall) -> None:
        while call.block_bytes > 0:
            block = torch.frombuffer(bytearray(call.block()), dtype=torch.uint8)
            blocks = self._gathered(block)
            self.exchanged_bytes += blocks.numel()
            call.receive(blocks)
        self.exchanges = call.exchanges

    def _run_on_gpu(
        self,
        backend: TorchBackend,
        arguments: tuple[Any, ...],
        results: tuple[Any, ...],
        rounds: int | None,
    ) -> None:
        """Exchanges lie in the call's workspace."""
        workspace: Any = None

        def allocate(size: int) -> Any:
            nonlocal workspace
            workspace = backend.empty((max(size, 1),), "uint8")
            return backend.lend(workspace)

        call = _core.ShardedCudaCall(*arguments, *results, backend.stream, allocate)

        def exchange(what: _core.ShardedExchange) -> None:
            call.send(what)
            size, sent, received = (
                call.block_bytes(what),
                call.sent_at(what),
                call.received_at(what),
            )
            torch.distributed.all_gather_into_tensor(
                workspace[received : received + self._ranks * size],
                workspace[sent : sent + size],
                group=self._group,
            )
            call.receive(what)
            self.exchanges += 1
            self.exchanged_bytes += self._ranks * size

        what = _core.ShardedExchange
        exchange(what.summary)
        self.undecided = workspace[call.undecided_at :][:4].view(torch.int32)
        for _ in range(rounds or 0):
            exchange(what.threshold)
        if rounds is not None:
            exchange(what.tokens)
            return
        left = int(self.undecided)
        if left > 0:  # rows without filters need no more than this
            exchange(what.tokens)
        while left > 0 and (left := int(self.undecided)) > 0:
            exchange(what.threshold)
            exchange(what.tokens)
        if left < 0:
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
        rounds: int | None = None,
    ) -> Any:
        """The arguments and results of `fairdraw.sample`, all but logits and `allowed` the same on
        every rank.

        logits [rows, this rank's columns]; `allowed`: packed words of these columns, the first one
        at bit 0. `processing`: one RequestProcessing a row, with ids of the whole vocabulary.
        Without `seed` the first rank draws one for the call. mask, probs and Logprobs.all are of
        this rank's columns; everything else is the same on every rank. ValueError where ranks
        disagree on arguments.

        `rounds`, of logits on a GPU: how often thresholds are narrowed, whether rows need it or not;
        0 where survivors are among the 256 largest of each rank, 4 is enough for all but adversarial
        rows. Nothing is waited for then, and `undecided` says whether it was enough: rows that are
        left have no token. Needed while a CUDA graph is captured, with `seed`.
        """
        if not isinstance(logits, torch.Tensor) or logits.ndim != 2:
            raise TypeError("logits: a tensor [rows, columns] is needed")
        if rounds is not None and (rounds < 0 or not logits.is_cuda):
            raise ValueError(f"rounds is {rounds}; allowed: >= 0, of logits on a GPU")
        if logits.is_cuda and processing is not None:
            raise ValueError("processing: is given; allowed: None, of logits on a GPU")
        backend = TorchBackend(logits)
        if rounds is None and backend.is_captured():
            raise RuntimeError("rounds: is needed while a CUDA graph is captured; allowed: >= 0")
        boundaries = self._agreed_boundaries(logits)
        outputs = length(logits) if indices is None else length(indices)
        if seed is None:
            if offset is not None:
                raise ValueError("offset: is given without a seed")
            seed, offset = self._agreed_seed(backend, generator), 0
        else:
            seed = backend.seed("seed", seed, outputs)
            offset = 0 if offset is None else backend.seed("offset", offset, outputs)
        rows, columns = logits.shape
        if columns == 0:  # an array without values is none
            logits = logits.new_empty((rows, 1))[:, :0]
            allowed = None if allowed is None else allowed.new_zeros((rows, 1))
        shape = (outputs,) if num_samples == 1 else (outputs, max(num_samples, 0))
        tokens = backend.empty(shape, "int32")
        report: Logprobs | None = None
        reports = None
        if logprobs is not None:
            report, reports = _reports(
                backend, logits, outputs, shape, logprobs, logprobs_mode, rank_rule
            )
            if logits.is_cuda:
                report = report._replace(ranks=None)
                reports = (*reports[:4], None, *reports[5:])
        details = (None,) * 6
        if return_details:
            details = _detail_arrays(backend, logits, outputs, shape)
            if logits.is_cuda:
                details = (*details[:-1], None)
        processed = None
        if processing is not None:
            if len(processing) != rows:
                raise ValueError(
                    f"processing has {len(processing)} entries; {rows} are needed, one a row"
                )
            processed = rows_processing(processing, [(row, ()) for row in range(rows)])
        arguments = (
            boundaries,
            self._rank,
            backend.lend(logits),
            backend.parameter(temperature, "float32"),
            backend.parameter(top_k, "int32"),
            backend.parameter(top_p, "float32"),
            backend.parameter(min_p, "float32"),
            seed,
            offset,
            backend.indices(indices),
            num_samples,
            _member("tie_rule", tie_rule, _TIE_RULES),
            _member("filter_apply_order", filter_apply_order, _FILTER_ORDERS),
            _member("purpose", purpose, _PURPOSES),
            backend.lend(allowed),
            backend.lend(active),
        )
        results = (backend.lend(tokens), *(backend.lend(array) for array in details), reports)
        self.exchanges = self.exchanged_bytes = 0
        if logits.is_cuda:
            backend.call(self._run_on_gpu, backend, arguments, results, rounds)
        else:
            self._run_on_host(_core.ShardedCall(*arguments, processed, *results))
        if return_details:
            return SampleDetails(tokens, *details, report, seed)
        return tokens if report is None else (tokens, report)
