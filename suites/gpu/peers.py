#!/usr/bin/env python3
"""Measures other samplers on this machine's GPU by the method of `fairdraw bench --backend cuda`.

Each call is captured in a CUDA graph and replayed 30 times with a cold L2 (a fill of 512 MiB before
each replay, outside the timed events), alternating with a kernel that reads the logits once; medians.
Ratios to that floor are what can be compared between programs.

Peers: `torch_sort`, filters by a full sort and a draw by exponentials, as vLLM's PyTorch path does
it; `torch_softmax`, the same draw without a filter; FlashInfer and vLLM's Triton kernels where they
can be imported. A peer that cannot run is named on stderr, once a cell.

Writes a JSON array with the fields of `fairdraw bench --json`. Needs torch and a GPU; exit code 2
without.
"""

import argparse
import json
import os
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("peers.py: needs torch")

REPETITIONS = 30
FLUSHED_BYTES = 512 << 20
SHAPES = [  # (batch, vocab)
    (1, 128256),
    (8, 128256),
    (64, 128256),
    (256, 128256),
    (64, 262144),
    (64, 32000),
]
# name: (top_k, top_p, min_p), 0, 1 and 0 where off
OPERATIONS = {
    "top_k_50+top_p_0.9": (50, 0.9, 0.0),
    "top_p_0.9": (0, 0.9, 0.0),
    "top_k_50": (50, 1.0, 0.0),
    "top_k_1000": (1000, 1.0, 0.0),
    "min_p_0.05": (0, 1.0, 0.05),
    "none": (0, 1.0, 0.0),
}


class Cell:
    """Logits and per-request parameters of one cell; `work` is a copy that a peer may change."""

    def __init__(self, batch, vocab, kind, operation):
        generator = torch.Generator(device="cuda").manual_seed(1)
        logits = torch.randn(batch, vocab, device="cuda", generator=generator)
        if kind == "peaked":  # N(0, 2^2), 64 ids raised by an exponential of mean 4
            logits *= 2
            raised = torch.rand(batch, vocab, device="cuda", generator=generator)
            ids = raised.topk(64, dim=-1).indices
            by = torch.empty(batch, 64, device="cuda").exponential_(0.25, generator=generator)
            logits.scatter_add_(1, ids, by)
        self.logits = logits
        self.work = logits.clone()
        self.top_k, self.top_p, self.min_p = OPERATIONS[operation]
        self.k = torch.full((batch,), self.top_k, device="cuda", dtype=torch.int32)
        self.p = torch.full((batch,), self.top_p, device="cuda")
        self.m = torch.full((batch,), self.min_p, device="cuda")

    def restore(self):
        self.work.copy_(self.logits)


# --- Peers: a function of a cell that gives the call, or None where it has no such operation ------


def exponential_draw(probs):
    """The index of the largest p/q with q exponential: a draw in proportion to p, without sums."""
    q = torch.empty_like(probs).exponential_()
    return probs.div_(q).argmax(dim=-1)


def torch_sort(cell):
    if not (cell.top_k or cell.top_p < 1):
        return None

    def call():
        ordered, ids = cell.work.sort(dim=-1, descending=False)
        if cell.top_k:
            at = (ordered.size(1) - cell.k.to(torch.long)).unsqueeze(1)
            ordered.masked_fill_(ordered < ordered.gather(1, at), -float("inf"))
        if cell.top_p < 1:
            sums = ordered.softmax(dim=-1).cumsum(dim=-1)
            dropped = sums <= 1 - cell.p.unsqueeze(1)
            dropped[:, -1] = False
            ordered.masked_fill_(dropped, -float("inf"))
        kept = torch.empty_like(ordered).scatter_(-1, ids, ordered)
        return exponential_draw(kept.softmax(dim=-1))

    return call


def torch_softmax(cell):
    if cell.top_k or cell.top_p < 1:
        return None

    def call():
        probs = cell.work.softmax(dim=-1)
        if cell.min_p:
            least = probs.amax(dim=-1, keepdim=True) * cell.m.unsqueeze(1)
            probs = cell.work.masked_fill(probs < least, -float("inf")).softmax(dim=-1)
        return exponential_draw(probs)

    return call


def flashinfer_peer(joint=False):
    import flashinfer.sampling as fi

    def peer(cell):
        if cell.top_k and cell.top_p < 1:
            order = "joint" if joint else "top_k_first"
            return lambda: fi.top_k_top_p_sampling_from_logits(
                cell.work, cell.k, cell.p, filter_apply_order=order
            )
        if joint:
            return None
        if cell.top_k:
            return lambda: fi.top_k_sampling_from_probs(cell.work.softmax(dim=-1), cell.k)
        if cell.top_p < 1:
            return lambda: fi.top_p_sampling_from_probs(fi.softmax(cell.work), cell.p)
        if cell.min_p:
            return lambda: fi.min_p_sampling_from_probs(fi.softmax(cell.work), cell.m)
        return lambda: fi.sampling_from_logits(cell.work)

    return peer


def flashinfer_scalar_peer():
    import flashinfer.sampling as fi

    def peer(cell):
        if not (cell.top_k and cell.top_p < 1):
            return None
        return lambda: fi.top_k_top_p_sampling_from_logits(cell.work, cell.top_k, cell.top_p)

    return peer


def vllm_triton_peer():
    from vllm.v1.sample.ops.topk_topp_triton import apply_top_k_top_p_triton

    def peer(cell):
        if not (cell.top_k or cell.top_p < 1):
            return None
        k = cell.k if cell.top_k else None
        p = cell.p if cell.top_p < 1 else None
        return lambda: exponential_draw(apply_top_k_top_p_triton(cell.work, k, p).softmax(dim=-1))

    return peer


def available_peers():
    peers = {"peer:torch_sort": torch_sort, "peer:torch_softmax": torch_softmax}
    for name, make in (
        ("peer:flashinfer", flashinfer_peer),
        ("peer:flashinfer_joint", lambda: flashinfer_peer(joint=True)),
        ("peer:flashinfer_scalar", flashinfer_scalar_peer),
        ("peer:vllm_triton", vllm_triton_peer),
    ):
        try:
            peers[name] = make()
        except Exception as error:  # an import can end in anything
            print(f"peers.py: {name} is not here: {error!r}", file=sys.stderr)
    return peers


# --- Floor ----------------------------------------------------------------------------------------


def floor_calls(logits):
    """Ways of reading `logits` once, for the fastest of them to be the floor."""
    flat = logits.view(-1)
    calls = [lambda: flat.amax(), lambda: logits.amax(dim=-1)]
    try:
        from read_once_triton import read_once, triton
    except ImportError as error:
        print(f"peers.py: floor without triton: {error!r}", file=sys.stderr)
        return calls
    for block in (1024, 2048, 4096, 8192, 16384):
        blocks = triton.cdiv(flat.numel(), block)
        out = torch.empty(blocks, device="cuda")
        for warps in (4, 8, 16):

            def call(block=block, blocks=blocks, warps=warps, out=out):
                read_once[(blocks,)](flat, out, flat.numel(), BLOCK=block, num_warps=warps)

            calls.append(call)
    return calls


# --- Timing ---------------------------------------------------------------------------------------


def captured(call, before):
    """A graph of `call`, after a few calls that compile and load what it needs."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            before()
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    before()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def medians(graphs, befores, flushed, repetitions=REPETITIONS):
    """Median microseconds of each graph, in alternation; the first turn is not counted."""
    times = [[] for _ in graphs]
    pending = []
    for turn in range(repetitions + 1):
        for i, graph in enumerate(graphs):
            begin = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            befores[i]()
            flushed.fill_(turn)
            begin.record()
            graph.replay()
            end.record()
            if turn:
                pending.append((i, begin, end))
    torch.cuda.synchronize()
    for i, begin, end in pending:
        times[i].append(begin.elapsed_time(end) * 1e3)
    return [sorted(of_one)[len(of_one) // 2] for of_one in times]


def nothing():
    pass


def best_floor(logits, flushed):
    """The fastest floor's graph, and its call: the graph writes to tensors that the call holds, and
    memory that was given back would be another cell's by then."""
    calls = floor_calls(logits)
    graphs = [captured(call, nothing) for call in calls]
    times = medians(graphs, [nothing] * len(graphs), flushed, repetitions=10)
    best = times.index(min(times))
    return graphs[best], calls[best]


def machine_text():
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout
        driver = driver.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        driver = "unknown"
    commit = os.environ.get("FAIRDRAW_COMMIT") or "unknown"
    return (
        f"{torch.cuda.get_device_name()}, driver {driver}, torch {torch.__version__}, "
        f"commit {commit}, {time.strftime('%Y-%m-%d', time.gmtime())}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="where the rows go (default: stdout)")
    parser.add_argument("--logits", default="peaked,flat", help="peaked, flat")
    parser.add_argument("--operation", default=",".join(OPERATIONS), help="of those that there are")
    parser.add_argument("--batch", help="only these batches, of the shapes that there are")
    parser.add_argument("--vocab", help="only these vocabularies")
    arguments = parser.parse_args()
    kinds = arguments.logits.split(",")
    operations = arguments.operation.split(",")
    for name in kinds:
        if name not in ("peaked", "flat"):
            parser.error(f"unknown logits '{name}'; known: peaked flat")
    for name in operations:
        if name not in OPERATIONS:
            parser.error(f"unknown operation '{name}'; known: {' '.join(OPERATIONS)}")
    if not torch.cuda.is_available():
        parser.error("torch finds no GPU")

    def wanted(value, chosen):
        return chosen is None or str(value) in chosen.split(",")

    shapes = [s for s in SHAPES if wanted(s[0], arguments.batch) and wanted(s[1], arguments.vocab)]
    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    peers = available_peers()
    machine = machine_text()
    rows = []
    for kind in kinds:
        for batch, vocab in shapes:
            floor, _held = best_floor(Cell(batch, vocab, kind, "none").logits, flushed)
            for operation in operations:
                cell = Cell(batch, vocab, kind, operation)
                for name, peer in peers.items():
                    call = peer(cell)
                    if call is None:
                        continue
                    try:
                        graph = captured(call, cell.restore)
                        times = medians([floor, graph], [nothing, cell.restore], flushed)
                    except Exception as error:  # a peer's trouble is its own
                        print(f"peers.py: {name} {operation} {batch}x{vocab} {kind}: {error!r}",
                              file=sys.stderr)
                        continue
                    rows.append({
                        "backend": name,
                        "operation": f"sample/{operation}",
                        "batch": batch,
                        "vocab": vocab,
                        "dtype": "float32",
                        "logits": kind,
                        "microseconds": round(times[1], 3),
                        "floor": "read_once",
                        "floor_microseconds": round(times[0], 3),
                        "ratio": times[1] / times[0],
                        "machine": machine,
                    })
                    print(f"{name:24}{operation:22}{batch:5}{vocab:8} {kind:8}{times[1]:10.1f}"
                          f"{times[0]:8.1f}{times[1] / times[0]:8.2f}", file=sys.stderr)
                # Rows so far, in case the time runs out.
                if arguments.json:
                    with open(arguments.json, "w", encoding="utf-8") as file:
                        json.dump(rows, file, indent=2)
                        file.write("\n")
    if not arguments.json:
        json.dump(rows, sys.stdout, indent=2)
        print()
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
