"""What one rank of test_sharded.py does with the exchanges of calls on GPUs, without a GPU: the calls are
plans of exchanges whose blocks lie in host memory, and a group with gloo moves them."""

import torch
import torch.distributed as distributed

from fairdraw._core import ShardedExchange as Kind
from fairdraw._gpu_exchanges import Exchanges


class PlannedCall:
    """A call whose rows are decided after so many exchanges of tokens. A block says who sent it, of
    which exchange, and as which one of the call."""

    undecided_at = 4

    def __init__(self, rank, ranks, needed, missing=()):
        self.rank, self.ranks, self.needed, self.missing = rank, ranks, needed, missing
        self.workspace = torch.full((8 + 4 * 64 * (1 + ranks),), 0xCD, dtype=torch.uint8)
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
            self._set_undecided(self.needed)
        if kind is Kind.tokens:
            self._set_undecided(max(int(self.workspace[4:8].view(torch.int32)) - 1, 0))

    def use_peers(self, memory, size, most_rows):
        self.made.append(("peers", memory, size, most_rows))

    def run(self, rounds):
        self._set_undecided(self.needed)
        self.made.append(("run", rounds))

    def narrow_on(self, rounds):
        self._set_undecided(int(self.workspace[4:8].view(torch.int32)) - 1)
        self.made.append(("narrow_on", rounds))


def check_group(rank, ranks):
    rounds = ["threshold", "tokens"]
    for needed, asked, expected in [
        (0, None, []),
        (1, None, ["tokens"]),
        (3, None, ["tokens", *rounds, *rounds]),
        (3, 0, ["tokens"]),
        (0, 2, ["threshold", "threshold", "tokens"]),
    ]:
        call = PlannedCall(rank, ranks, needed)
        exchanges = Exchanges(call, call.workspace, asked)
        exchanges.through_group(None, ranks)
        assert call.made == ["summary", *expected, "ranks"], (needed, asked, call.made)
        assert exchanges.count == len(call.made)
        assert exchanges.bytes == ranks * sum(call.block_bytes(Kind[name]) for name in call.made)
        assert int(exchanges.undecided) == max(needed - expected.count("tokens"), 0)
    call = PlannedCall(rank, ranks, 1, missing=(Kind.ranks,))
    Exchanges(call, call.workspace, 1).through_group(None, ranks)
    assert call.made == ["summary", *rounds]


def check_peers(rank, ranks):
    for needed, asked, expected in [
        (0, None, [("run", 0)]),
        (2, None, [("run", 0), ("narrow_on", 1), ("narrow_on", 1)]),
        (2, 4, [("run", 4)]),
    ]:
        call = PlannedCall(rank, ranks, needed)
        exchanges = Exchanges(call, call.workspace, asked)
        exchanges.through_peers([16, 32], 4096, 7)
        assert call.made == [("peers", [16, 32], 4096, 7), *expected]
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
