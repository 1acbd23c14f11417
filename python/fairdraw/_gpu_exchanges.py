"""Plans the exchanges of sharded calls on GPUs (fairdraw/cuda_sharded.h): which exchanges a call
makes, and how their blocks are moved between ranks.

A call decides its rows in up to three exchanges: of a summary, of tokens and sums, and of ranks if
they are requested. The columns of undecided rows are then gathered from all ranks. The host waits
for the GPU once, to learn the number of undecided rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed

from ._core import ShardedCudaCall, ShardedExchange


class Exchanges:
    """The exchanges of one sharded call. Byte positions in this class count from the beginning of
    the call's workspace.
    """

    def __init__(self, call: ShardedCudaCall, workspace: Any) -> None:
        self._call = call
        self._workspace = workspace
        self._stream = torch.cuda.current_stream() if workspace.is_cuda else None
        self._go_on: Callable[[int], None] = call.go_on
        #: An int32 on the GPU that holds the number of undecided rows, or -1 if the ranks disagree.
        self.undecided = workspace[call.undecided_at :][:4].view(torch.int32)
        self.count = 0
        self.bytes = 0

    def through_group(self, group: Any, ranks: int) -> None:
        """Exchanges blocks of the workspace through a process group."""
        call, what = self._call, ShardedExchange

        def exchange(kind: ShardedExchange) -> None:
            size, sent, received = (
                call.block_bytes(kind),
                call.sent_at(kind),
                call.received_at(kind),
            )
            if size == 0:
                return  # the call does not make this exchange
            call.send(kind)
            torch.distributed.all_gather_into_tensor(
                self._workspace[received : received + ranks * size],
                self._workspace[sent : sent + size],
                group=group,
            )
            call.receive(kind)
            self.count += 1
            self.bytes += ranks * size

        def go_on(undecided: int) -> None:
            for _ in range(call.gathers(undecided)):
                exchange(what.gather)
            exchange(what.ranks)

        self._go_on = go_on
        exchange(what.summary)
        exchange(what.tokens)
        exchange(what.sums)
        exchange(what.ranks)

    def through_peers(self, addresses: list[int], size: int, max_rows: int) -> None:
        """Exchanges blocks through memory that all ranks can address. Tokens and sums are exchanged
        while a row is merged, without an exchange of their own."""
        call = self._call

        def go_on(undecided: int) -> None:
            call.go_on(undecided)
            sums = int(call.block_bytes(ShardedExchange.sums) > 0)
            self.count += 1 + sums + call.gathers(undecided)  # tokens come first

        self._go_on = go_on
        call.use_peers(addresses, size, max_rows)
        call.run()
        self.count = 1

    def gather(self) -> int:
        """Gathers the undecided rows and returns the number of these rows, or -1 if the ranks
        disagree."""
        undecided = int(self.undecided)
        if undecided <= 0:
            return undecided
        if self._stream is None:
            self._go_on(undecided)
            return undecided
        # A CUDA graph is captured on self._stream, which is not the stream that waits here.
        with torch.cuda.stream(self._stream):
            self._go_on(undecided)
        torch.cuda.current_stream().wait_stream(self._stream)
        return undecided
