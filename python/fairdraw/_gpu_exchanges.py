"""Exchanges of sharded calls on GPUs (fairdraw/cuda_sharded.h): which of them a call makes, and how
their blocks travel.

A call decides its rows in a summary, as many thresholds as are wanted or needed, and tokens; their
ranks follow, where they are wanted.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed

from ._core import ShardedCudaCall, ShardedExchange


class Exchanges:
    """Those of one call. `rounds`: None is as many as rows need, which waits for the GPU. Bytes of a
    call are from the beginning of its workspace on."""

    def __init__(self, call: ShardedCudaCall, workspace: Any, rounds: int | None) -> None:
        self._call = call
        self._workspace = workspace
        self._rounds = rounds
        #: An int32 on the GPU: rows that are not decided; -1: ranks disagree.
        self.undecided = workspace[call.undecided_at :][:4].view(torch.int32)
        self.count = 0
        self.bytes = 0

    def through_group(self, group: Any, ranks: int) -> None:
        """Blocks lie in the workspace, and a process group moves them there."""
        call, what = self._call, ShardedExchange

        def exchange(kind: ShardedExchange) -> None:
            size, sent, received = (
                call.block_bytes(kind),
                call.sent_at(kind),
                call.received_at(kind),
            )
            if size == 0:
                return  # there is no such exchange
            call.send(kind)
            torch.distributed.all_gather_into_tensor(
                self._workspace[received : received + ranks * size],
                self._workspace[sent : sent + size],
                group=group,
            )
            call.receive(kind)
            self.count += 1
            self.bytes += ranks * size

        exchange(what.summary)
        for _ in range(self._rounds or 0):
            exchange(what.threshold)
        if self._rounds is not None:
            exchange(what.tokens)
        else:
            left = self._left()
            if left > 0:  # rows without filters need no more than this
                exchange(what.tokens)
            while left > 0 and (left := self._left()) > 0:
                exchange(what.threshold)
                exchange(what.tokens)
        exchange(what.ranks)

    def through_peers(self, addresses: list[int], size: int, most_rows: int) -> None:
        """Through memory of all ranks. Tokens that a row asks one rank for are exchanged as it is
        merged, in no exchange of their own but after later rounds."""
        call = self._call
        call.use_peers(addresses, size, most_rows)
        call.run(self._rounds or 0)
        self.count = 1 + (self._rounds or 0)
        while self._rounds is None and self._left() > 0:
            call.narrow_on(1)
            self.count += 2

    def _left(self) -> int:
        return int(self.undecided)
