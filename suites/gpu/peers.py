#!/usr/bin/env python3
"""Measures other samplers on this machine's GPU by the method of `fairdraw bench --backend cuda`.

Each call is captured in a CUDA graph and replayed 30 times with a cold L2 cache (512 MiB are filled before
each replay, outside the measured time), in alternation with a kernel that reads the rows once. Times are
medians. Only the ratios to that floor can be compared between programs.

The peers are `fairdraw`, the operations of the Python package, which this program measures for comparison;
`torch_sort`, filters by a full sort and a draw by exponentials, as in vLLM's PyTorch path; `torch_softmax`,
the same draw without a filter; FlashInfer, with arrays of parameters and with scalars (`@scalar`), and its
`cake_sampling` (scalars, or arrays as `@array`); `vllm_triton`, the filters and the draw by Gumbel noise of
vLLM's model runner V2. FlashInfer and vLLM must be importable, or fetched by `fetch_peers`; a peer that
cannot run is named on stderr, once per cell. The tokens of each cell's last replay must survive the filters;
otherwise no row is written for the cell.

The output is a JSON array with the fields of `fairdraw bench --json`, and with `call`, the code that a user
types for the call. The script needs torch and a GPU, and ends with exit code 2 without them.
"""

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import time
import types
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit("peers.py: needs torch")

REPETITIONS = 30
FLUSHED_BYTES = 512 << 20
WARM_UP_SECONDS = 0.5
# Cells for each peer, as (operations, batches, vocabularies, names of peers)
ALL = None
FILTERS = (
    "top_k_50+top_p_0.9", "top_p_0.9", "top_k_50", "top_k_1000", "min_p_0.05", "none",
)  # fmt: skip
TOP_K = ("top_k_10", "top_k_50", "top_k_200", "top_k_1000")
CAKE_BATCHES, CAKE_VOCABS = (1, 8, 64, 128, 256), (32000, 128256, 151936, 262144)
TABLES = {
    "filters": [(FILTERS, (1, 8, 64, 256), (128256,), ALL)],
    "cake": [
        (
            tuple(f"from_probs/{name}" for name in TOP_K),
            CAKE_BATCHES,
            CAKE_VOCABS,
            ["fairdraw", "cake"],
        ),
        (TOP_K, CAKE_BATCHES, CAKE_VOCABS, ["fairdraw", "cake"]),
        (("from_probs/top_k_50+top_p_0.9",), (1, 8, 64, 256), (128256,), ["fairdraw", "cake"]),
        (
            (*(f"from_probs/{name}" for name in TOP_K), "from_probs/top_k_50+top_p_0.9"),
            (1, 8, 64, 256),
            (128256,),
            ["cake@array", "flashinfer"],
        ),
    ],
}
# Tolerance in probability for tokens outside a nucleus or below a threshold, because float32 probabilities
# are summed.
MASS_SLACK = 1e-3


class Operation:
    """The filters of an operation, parsed from its name in `fairdraw bench`."""

    def __init__(self, name):
        self.from_probs = name.startswith("from_probs/")
        self.filters = name.removeprefix("from_probs/").removeprefix("sample/")
        self.name = ("from_probs/" if self.from_probs else "sample/") + self.filters
        self.top_k, self.top_p, self.min_p = 0, 1.0, 0.0
        for part in self.filters.split("+"):
            field, _, value = part.rpartition("_")
            if part == "none":
                continue
            if field not in ("top_k", "top_p", "min_p"):
                raise ValueError(f"unknown operation '{name}'; e.g. top_k_50+top_p_0.9, none")
            setattr(self, field, int(value) if field == "top_k" else float(value))


class Rows:
    """Logits and their softmax; `work` is a copy of the logits that a peer may change."""

    def __init__(self, batch, vocab, kind):
        generator = torch.Generator(device="cuda").manual_seed(1)
        logits = torch.randn(batch, vocab, device="cuda", generator=generator)
        if kind == "peaked":  # N(0, 2^2), and 64 logits are raised by exponential amounts of mean 4
            logits *= 2
            raised = torch.rand(batch, vocab, device="cuda", generator=generator)
            ids = raised.topk(64, dim=-1).indices
            by = torch.empty(batch, 64, device="cuda").exponential_(0.25, generator=generator)
            logits.scatter_add_(1, ids, by)
        self.batch, self.vocab, self.kind = batch, vocab, kind
        self.logits = logits
        self.work = logits.clone()
        self.probs = logits.softmax(dim=-1)


class Cell:
    """One operation on rows, with its parameters as scalars and as arrays of one value per row."""

    def __init__(self, rows, operation):
        self.rows, self.operation = rows, operation
        self.work, self.probs, self.batch = rows.work, rows.probs, rows.batch
        self.top_k, self.top_p, self.min_p = operation.top_k, operation.top_p, operation.min_p
        self.from_probs = operation.from_probs

        def array(value, dtype=torch.float32):
            return torch.full((rows.batch,), value, device="cuda", dtype=dtype)

        self.k = array(self.top_k, torch.int32)
        self.p = array(self.top_p)
        self.m = array(self.min_p)
        self.temperature = array(1.0)
        self.requests = torch.arange(rows.batch, device="cuda", dtype=torch.int32)
        self.seeds = torch.arange(rows.batch, device="cuda", dtype=torch.int64)
        self.positions = array(1000, torch.int64)
        # FlashInfer's functions read one seed per call.
        self.seed = torch.tensor([1], device="cuda", dtype=torch.int64)
        self.offset = torch.tensor([1000], device="cuda", dtype=torch.int64)

    def restore(self):
        """Restores the logits before each replay, and advances the stream of random numbers of every peer.
        """
        if not self.from_probs:
            self.work.copy_(self.rows.logits)
        self.positions += 1
        self.offset += 4

    def wrong(self, tokens, joint):
        """Returns a description of wrong tokens in a replay, or "". If `joint` is true, top_p applies to the
        whole row."""
        ids = tokens.view(-1).to(torch.int64)
        if ids.numel() != self.batch or ids.min() < 0 or ids.max() >= self.rows.vocab:
            return f"no ids: {ids[:8].tolist()}"
        logits, probs = self.rows.logits, self.probs
        drawn = logits.gather(1, ids[:, None])
        above = logits > drawn
        if self.top_k and (above.sum(1) >= self.top_k).any():
            return "tokens outside of top_k"
        if self.top_p < 1:
            scale = torch.ones_like(drawn)
            if self.top_k and not joint:
                scale = probs.topk(self.top_k, dim=-1).values.sum(1, keepdim=True)
            mass = (probs * above).sum(1, keepdim=True) / scale
            if (mass > self.top_p + MASS_SLACK).any():
                return "tokens outside of the nucleus"
        if self.min_p:
            least = logits.amax(1, keepdim=True) + math.log(self.min_p) - MASS_SLACK
            if (drawn < least).any():
                return "tokens below min_p"
        return ""


# --- Peers: functions of a cell that return (the user's code, the call), or None without such an
# --- operation


def fairdraw_peer():
    """Makes the peer fairdraw, with arrays for every parameter, seed and offset, as in `fairdraw bench`.
    """
    import fairdraw

    def peer(cell):
        stream = {"seed": cell.seeds, "offset": cell.positions}
        if not cell.from_probs:
            return (
                "fairdraw.sample(logits, temperature, k, p, m, seed=seeds, offset=offsets)",
                lambda: fairdraw.sample(
                    cell.work, cell.temperature, cell.k, cell.p, cell.m, **stream
                ),
            )
        names = [
            *(["top_k"] if cell.top_k else []),
            *(["top_p"] if cell.top_p < 1 else []),
            *(["min_p"] if cell.min_p else []),
        ]
        function = getattr(fairdraw, "_".join([*names, "sampling_from_probs"]))
        by_name = {"top_k": ("k", cell.k), "top_p": ("p", cell.p), "min_p": ("m", cell.m)}
        typed = ", ".join(["probs", *(by_name[name][0] for name in names)])
        return (
            f"fairdraw.{function.__name__}({typed}, seed=seeds, offset=offsets)",
            lambda: function(cell.probs, *(by_name[name][1] for name in names), **stream),
        )

    return peer


def exponential_draw(probs):
    """Returns the index of the largest p/q, where q is exponential: this draws in proportion to p without
    sums."""
    q = torch.empty_like(probs).exponential_()
    return probs.div_(q).argmax(dim=-1)


def torch_sort(cell):
    if cell.from_probs or not (cell.top_k or cell.top_p < 1):
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

    return "logits.sort(), masks, softmax, (probs / q.exponential_()).argmax()", call


def torch_softmax(cell):
    if cell.from_probs or cell.top_k or cell.top_p < 1:
        return None

    def call():
        probs = cell.work.softmax(dim=-1)
        if cell.min_p:
            least = probs.amax(dim=-1, keepdim=True) * cell.m.unsqueeze(1)
            probs = cell.work.masked_fill(probs < least, -float("inf")).softmax(dim=-1)
        return exponential_draw(probs)

    return "logits.softmax(-1), mask, (probs / q.exponential_()).argmax()", call


def flashinfer_peer(scalar=False, joint=False):
    """Makes the peer FlashInfer; parameters are arrays or scalars, and the call has one seed."""
    import flashinfer.sampling as fi

    def peer(cell):
        if joint and not (cell.top_k and cell.top_p < 1):
            return None
        k, p, m = (cell.top_k, cell.top_p, cell.min_p) if scalar else (cell.k, cell.p, cell.m)
        stream = {"seed": 1, "offset": 1000} if scalar else {}
        if not scalar:
            stream = {"seed": cell.seed, "offset": cell.offset}

        def probs():
            return cell.probs if cell.from_probs else fi.softmax(cell.work)

        given = "probs" if cell.from_probs else "flashinfer.softmax(logits)"
        if cell.top_k and cell.top_p < 1:
            order = "joint" if joint else "top_k_first"
            said = ', filter_apply_order="joint"' if joint else ""
            if cell.from_probs:
                function, rows = fi.top_k_top_p_sampling_from_probs, cell.probs
            else:
                function, rows, given = fi.top_k_top_p_sampling_from_logits, cell.work, "logits"
            return (
                f"flashinfer.sampling.{function.__name__}({given}, k, p{said})",
                lambda: function(rows, k, p, filter_apply_order=order, **stream),
            )
        if cell.top_k:
            name, parameter, said = "top_k_sampling_from_probs", k, ", k"
        elif cell.top_p < 1:
            name, parameter, said = "top_p_sampling_from_probs", p, ", p"
        elif cell.min_p:
            name, parameter, said = "min_p_sampling_from_probs", m, ", m"
        elif scalar:
            return None  # the operation has no parameter that could be a scalar
        elif cell.from_probs:
            return (
                "flashinfer.sampling.sampling_from_probs(probs)",
                lambda: fi.sampling_from_probs(cell.probs, **stream),
            )
        else:
            return (
                "flashinfer.sampling.sampling_from_logits(logits)",
                lambda: fi.sampling_from_logits(cell.work, **stream),
            )
        function = getattr(fi, name)
        return (
            f"flashinfer.sampling.{name}({given}{said})",
            lambda: function(probs(), parameter, **stream),
        )

    return peer


def cake_peer(scalar=True):
    """Makes the peer cake_sampling, with scalars, or with arrays and their largest k; the call has one
    seed."""
    import flashinfer.sampling as fi
    from flashinfer import cake_sampling

    def peer(cell):
        if not cell.top_k or cell.min_p:
            return None
        k, p = (cell.top_k, cell.top_p) if scalar else (cell.k, cell.p)
        most = {} if scalar else {"top_k_max": cell.top_k}
        route = cake_sampling.cake_sampling_route(cell.probs, k, None if scalar else cell.top_k)
        if route != "pipeline":
            raise RuntimeError(f"cake_sampling hands this to another sampler: {route}")
        given = "probs" if cell.from_probs else "flashinfer.softmax(logits)"

        def call():
            probs = cell.probs if cell.from_probs else fi.softmax(cell.work)
            return cake_sampling.top_k_top_p_sampling_from_probs(
                probs, k, p, philox_seed=1, philox_offset=1000, **most
            )

        said = "" if scalar else f", top_k_max={cell.top_k}"
        typed = f"flashinfer.cake_sampling.top_k_top_p_sampling_from_probs({given}, k, p{said})"
        return typed, call

    return peer


def engines_module(name):
    """Imports a module of python/engines that imports nothing else of fairdraw."""
    if "fairdraw_engines" not in sys.modules:
        folder = types.ModuleType("fairdraw_engines")
        engines = Path(__file__).parents[2] / "python" / "engines"
        folder.__path__ = [str(engines / "fairdraw_engines")]
        sys.modules["fairdraw_engines"] = folder
    return importlib.import_module(f"fairdraw_engines.{name}")


def vllm_triton_peer():
    wheel = engines_module("_vllm_wheel")
    filters = wheel.triton_module("vllm.v1.sample.ops.topk_topp_triton")
    gumbel = wheel.triton_module("vllm.v1.worker.gpu.sample.gumbel")
    min_p = wheel.triton_module("vllm.v1.worker.gpu.sample.min_p")

    def peer(cell):
        if cell.from_probs:
            return None
        k = cell.k if cell.top_k else None
        p = cell.p if cell.top_p < 1 else None

        def call():
            logits = cell.work
            if cell.min_p:
                min_p.apply_min_p(logits, cell.requests, cell.m)
            if k is not None or p is not None:
                # The third argument means that no row has top-p without top-k, which V2 determines on the
                # host.
                logits = filters.apply_top_k_top_p_triton(
                    logits, k, p, has_topp_only_rows=k is None
                )
            return gumbel.gumbel_sample(
                logits, cell.requests, cell.temperature, cell.seeds, cell.positions,
                apply_temperature=False, is_drafting=False,
            )  # fmt: skip

        filter_calls = [
            *(["apply_min_p(logits, ...)"] if cell.min_p else []),
            *(["apply_top_k_top_p_triton(logits, k, p)"] if cell.top_k or cell.top_p < 1 else []),
        ]
        return "vllm: " + "; ".join([*filter_calls, "gumbel_sample(logits, ...)"]), call

    return peer


def available_peers(wanted):
    makers = {
        "fairdraw": fairdraw_peer,
        "torch_sort": lambda: torch_sort,
        "torch_softmax": lambda: torch_softmax,
        "flashinfer": flashinfer_peer,
        "flashinfer@scalar": lambda: flashinfer_peer(scalar=True),
        "flashinfer_joint": lambda: flashinfer_peer(joint=True),
        "cake": cake_peer,
        "cake@array": lambda: cake_peer(scalar=False),
        "vllm_triton": vllm_triton_peer,
    }
    peers = {}
    for name in makers if wanted is None else wanted:
        if name not in makers:
            raise ValueError(f"unknown peer '{name}'; known: {' '.join(makers)}")
        try:
            peers[name] = makers[name]()
        except Exception as error:  # an import may raise any exception
            print(f"peers.py: {name} is not here: {error!r}", file=sys.stderr)
    return peers


# --- Floor ----------------------------------------------------------------------------------------


def floor_calls(logits):
    """Returns several calls that read `logits` once; the fastest of them is the floor."""
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
    """Returns (a CUDA graph of `call`, its result). Before the capture, calls compile and load everything
    that the graph needs. The result keeps the memory that the graph writes, so that no other cell uses this
    memory."""
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
        result = call()
    return graph, result


def medians(graphs, befores, flushed, repetitions):
    """Returns the median microseconds of each graph, replayed in alternation; the first round does not count.
    """
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


def best_floor(rows, flushed):
    """Returns the graph of the fastest floor, and the memory that this graph needs."""
    calls = floor_calls(rows)
    graphs = [captured(call, nothing) for call in calls]
    times = medians([g for g, _ in graphs], [nothing] * len(graphs), flushed, repetitions=10)
    best = times.index(min(times))
    return graphs[best][0], (graphs[best][1], calls[best])


def warm_up(flushed):
    """Keeps the GPU busy until its clocks have left their idle state."""
    end = time.monotonic() + WARM_UP_SECONDS
    while time.monotonic() < end:
        for turn in range(16):
            flushed.fill_(turn)
        torch.cuda.synchronize()


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


class Bench:
    """Measures cells, and writes the rows of the output after each cell, in case the time runs out."""

    def __init__(self, arguments):
        self.file, self.repetitions = arguments.json, arguments.repetitions
        self.flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
        self.machine = machine_text()
        self.rows = []
        warm_up(self.flushed)

    def measure(self, name, peer, cell, floor):
        operation = cell.operation.name
        where = f"{name} {operation} {cell.batch}x{cell.rows.vocab} {cell.rows.kind}"
        try:
            found = peer(cell)
            if found is None:
                return
            typed, call = found
            graph, tokens = captured(call, cell.restore)
            times = medians([floor, graph], [nothing, cell.restore], self.flushed, self.repetitions)
            if wrong := cell.wrong(tokens, joint=name.endswith("_joint")):
                raise RuntimeError(wrong)
        except Exception as error:  # the failure of a peer affects only its cell
            print(f"peers.py: {where}: {error!r}", file=sys.stderr, flush=True)
            return
        self.rows.append({
            "backend": f"peer:{name}",
            "operation": operation,
            "batch": cell.batch,
            "vocab": cell.rows.vocab,
            "dtype": "float32",
            "logits": cell.rows.kind,
            "microseconds": round(times[1], 3),
            "floor": "read_once",
            "floor_microseconds": round(times[0], 3),
            "ratio": times[1] / times[0],
            "machine": self.machine,
            "call": typed,
        })  # fmt: skip
        print(f"{where:60}{times[1]:10.1f}{times[0]:8.1f}{times[1] / times[0]:8.2f}", flush=True)

    def write(self):
        if self.file:
            with open(self.file, "w", encoding="utf-8") as file:
                json.dump(self.rows, file, indent=2)
                file.write("\n")


def cells_of(tables, arguments):
    """Returns (kind, batch, vocab) -> [(operation, names of peers or ALL)], from the tables and the
    options."""

    def wanted(value, chosen):
        return chosen is None or str(value) in chosen.split(",")

    cells = {}
    for kind in arguments.logits.split(","):
        if kind not in ("peaked", "flat"):
            raise ValueError(f"unknown logits '{kind}'; known: peaked flat")
        for table in tables:
            if table not in TABLES:
                raise ValueError(f"unknown table '{table}'; known: {' '.join(TABLES)}")
            for operations, batches, vocabs, names in TABLES[table]:
                for vocab in vocabs:
                    for batch in batches:
                        if not (wanted(batch, arguments.batch) and wanted(vocab, arguments.vocab)):
                            continue
                        for operation in operations:
                            if wanted(operation, arguments.operation):
                                of_shape = cells.setdefault((kind, batch, vocab), [])
                                of_shape.append((Operation(operation), names))
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="where the rows go")
    parser.add_argument("--table", default=",".join(TABLES), help="of: " + " ".join(TABLES))
    parser.add_argument("--peer", help="only these peers")
    parser.add_argument("--logits", default="peaked,flat", help="peaked, flat")
    parser.add_argument("--operation", help="only these operations of the tables")
    parser.add_argument("--batch", help="only these batches")
    parser.add_argument("--vocab", help="only these vocabularies")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="replays of a cell")
    arguments = parser.parse_args()
    if arguments.repetitions < 1:
        parser.error(f"--repetitions is {arguments.repetitions}; allowed: >= 1")
    if not torch.cuda.is_available():
        parser.error("torch finds no GPU")
    try:
        cells = cells_of(arguments.table.split(","), arguments)
        peers = available_peers(arguments.peer.split(",") if arguments.peer else None)
    except ValueError as error:
        parser.error(str(error))
    bench = Bench(arguments)
    floors = {}  # floors are kept by shape, because they do not depend on the values
    for (kind, batch, vocab), operations in cells.items():
        rows = Rows(batch, vocab, kind)
        if (batch, vocab) not in floors:
            floors[batch, vocab] = best_floor(rows.logits, bench.flushed)
        floor, _ = floors[batch, vocab]
        for operation, names in operations:
            cell = Cell(rows, operation)
            for name, peer in peers.items():
                if names is ALL or name in names:
                    bench.measure(name, peer, cell, floor)
        bench.write()
    return 0 if bench.rows else 1


if __name__ == "__main__":
    sys.exit(main())
