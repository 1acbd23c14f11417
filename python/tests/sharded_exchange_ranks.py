"""Runs one rank of test_sharded.py: the exchanges that calls on GPUs make, without a GPU. The
tested calls are plans of exchanges whose blocks are in host memory, and a gloo group moves the
blocks."""

import torch
import torch.distributed as distributed

from fairdraw._core import ShardedExchange as Kind
from fairdraw._gpu_exchanges import Exchanges


class PlannedCall:
    """A call that has a given number of undecided rows after its tokens are exchanged. Two of these
    rows are gathered at a time. A block contains the numbers of its sender and of its exchange, and
    its own number within the call."""

    undecided_at = 4

    def __init__(self, rank, ranks, needed, missing=()):
        self.rank, self.ranks, self.needed, self.missing = rank, ranks, needed, missing
        self.workspace = torch.full((8 + len(Kind) * 64 * (1 + ranks),), 0xCD, dtype=torch.uint8)
        self._set_undecided(77)
        self.made = []

    def _set_undecided(self, rows):
        self.workspace[4:8].view(torch.int32).fill_(rows)

    def sent_at(self, kind):
        return 8 + kind.value * 64 * (1 + self.ranks)

    def received_at(self, kind):
        return self.sent_at(kind) + 64

    def block_bytes(self, kind):
        return 0 if kind in self.missing else 8 + kind.value

    def _block(self, rank, kind):
        said = [rank, kind.value, len(self.made)]
        return torch.tensor(said + [9] * (self.block_bytes(kind) - 3), dtype=torch.uint8)

    def send(self, kind):
        at = self.sent_at(kind)
        self.workspace[at : at + self.block_bytes(kind)] = self._block(self.rank, kind)

    def receive(self, kind):
        at, size = self.received_at(kind), self.ranks * self.block_bytes(kind)
        expected = torch.cat([self._block(rank, kind) for rank in range(self.ranks)])
        assert torch.equal(self.workspace[at : at + size], expected), kind
        self.made.append(kind.name)
        if kind is Kind.summary:
            self._set_undecided(self.needed + 5)
        if kind in (Kind.tokens, Kind.sums):
            self._set_undecided(self.needed)
        if kind is Kind.gather:
            self._set_undecided(max(int(self.workspace[4:8].view(torch.int32)) - 2, 0))

    def use_peers(self, memory, size, max_rows):
        self.made.append(("peers", memory, size, max_rows))

    def gathers(self, rows):
        return (rows + 1) // 2

    def run(self):
        self._set_undecided(self.needed)
        self.made.append("run")

    def go_on(self, undecided):
        self._set_undecided(0)
        self.made.append(("go_on", undecided))


def check_group(rank, ranks):
    for needed, gathered in [(0, []), (1, ["gather", "ranks"]), (3, ["gather", "gather", "ranks"])]:
        call = PlannedCall(rank, ranks, needed)
        exchanges = Exchanges(call, call.workspace)
        exchanges.through_group(None, ranks)
        first = ["summary", "tokens", "sums", "ranks"]
        assert call.made == first, call.made
        assert int(exchanges.undecided) == needed
        assert exchanges.gather() == needed
        assert call.made == first + gathered, (needed, call.made)
        assert exchanges.count == len(call.made)
        assert exchanges.bytes == ranks * sum(call.block_bytes(Kind[name]) for name in call.made)
        assert int(exchanges.undecided) == 0
    call = PlannedCall(rank, ranks, 1, missing=(Kind.sums, Kind.ranks))
    exchanges = Exchanges(call, call.workspace)
    exchanges.through_group(None, ranks)
    exchanges.gather()
    assert call.made == ["summary", "tokens", "gather"]


def check_peers(rank, ranks):
    for needed, gathered in [(0, []), (2, [("go_on", 2)]), (-1, [])]:
        call = PlannedCall(rank, ranks, needed)
        exchanges = Exchanges(call, call.workspace)
        exchanges.through_peers([16, 32], 4096, 7)
        assert exchanges.gather() == needed
        assert call.made == [("peers", [16, 32], 4096, 7), "run", *gathered]
        assert exchanges.bytes == 0


def run(rank, ranks, folder):
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    try:
        check_group(rank, ranks)
        check_peers(rank, ranks)
    finally:
        distributed.destroy_process_group()
