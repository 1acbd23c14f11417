"""Runs the gate on a Ray cluster, with one task per shard: `python -m fairdraw ray verify`.

    python -m fairdraw ray verify --shards 16 --seed-from 2026-11-24 --suite nightly
    python -m fairdraw ray verify --gpus-per-shard 1 --seed 7 --sampler cuda
    python -m fairdraw ray verify --callable my_engine.gate:sampler --seed 7 \\
        --arguments '{"semantics": "vllm_torch", "device": "cuda"}'

Ray schedules the shards, and restarts a shard whose worker or machine died. A shard gives the same
result on any machine and in any try, so that the report equals that of one run. The package
fairdraw must be installed on every machine, and files that options name must exist there. With
--gpus-per-shard Ray gives each task GPUs of its own (CUDA_VISIBLE_DEVICES). --require and
--max-skipped apply to the whole run. All other options are those of `python -m fairdraw verify`.

Exit codes are those of `fairdraw verify`, and also 2 if a shard could not be run.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_EXIT_USAGE = 2


def _dies_with_its_parent() -> None:
    """Kills a run together with its worker, because Ray restarts the shard on another worker."""
    set_death_signal = 1  # the value of PR_SET_PDEATHSIG in <sys/prctl.h>
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def _command_line_shard(options: Sequence[str], shard: str, run_id: str) -> str:
    """Runs a shard of the command `fairdraw verify`, and returns the text of the shard's
    report.json."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fairdraw", "verify", *options, "--quiet"]
        command += ["--shard", shard, "--run-id", run_id, "--report", folder]
        run = subprocess.run(
            command, capture_output=True, text=True, preexec_fn=_dies_with_its_parent
        )
        if run.returncode not in (0, 1, 3):
            raise RuntimeError(f"shard {shard} ended with {run.returncode}: {run.stderr.strip()}")
        return (Path(folder) / "report.json").read_text()


def _callable_shard(name: str, arguments: dict[str, Any], shard: str, run_id: str) -> str:
    """Runs a shard of the function `fairdraw.verify`, and returns the text of the shard's
    report.json. `run_id` names the run, as the option --run-id does."""
    from fairdraw.verification import verify

    module, _, attribute = name.partition(":")
    sampler = getattr(importlib.import_module(module), attribute)
    record = json.loads(verify(sampler, **arguments, shard=shard).to_json())
    record["environment"]["run_id"] = run_id
    return json.dumps(record)


def run_shards(
    shards: int, options: Sequence[str], callable_name: str | None, arguments: dict[str, Any],
    cpus: float, gpus: float, run_id: str,
) -> list[str]:  # fmt: skip
    """Returns the report.json of each shard, run on the cluster that ray.init() has joined.

    A shard whose worker or machine dies is restarted, any number of times. An error of the shard
    itself ends the run with RuntimeError.
    """
    import ray

    def verify_shard(shard: str) -> str:
        if callable_name is not None:
            return _callable_shard(callable_name, arguments, shard, run_id)
        return _command_line_shard(options, shard, run_id)

    task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=-1)(verify_shard)
    waiting = {task.remote(f"{number}/{shards}"): number for number in range(1, shards + 1)}
    reports: dict[int, str] = {}
    try:
        while waiting:
            (done,), _ = ray.wait(list(waiting), num_returns=1)
            number = waiting.pop(done)
            try:
                reports[number] = ray.get(done)
            except ray.exceptions.RayTaskError as error:
                raise RuntimeError(str(error.cause or error)) from error
            print(f"shard {number}/{shards}: done, {len(waiting)} left", file=sys.stderr)
    finally:
        for begun in waiting:
            ray.cancel(begun, force=True)
    return [reports[number] for number in sorted(reports)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fairdraw ray",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("verb", choices=["verify"])
    parser.add_argument(
        "--address",
        help="address of the cluster (default: the running cluster, or a new one on this machine)",
    )
    parser.add_argument(
        "--shards",
        type=int,
        help="number of tasks (default: 4 times the number that the cluster runs in parallel)",
    )
    parser.add_argument("--cpus-per-shard", type=int, default=1, metavar="N")
    parser.add_argument("--gpus-per-shard", type=float, default=0, metavar="N")
    parser.add_argument("--report", default="fairdraw-report", metavar="DIR")
    parser.add_argument("--require", metavar="FEATURES", help="features that must be judged")
    parser.add_argument(
        "--max-skipped", metavar="PERCENT", help="percentage of its cases that a sampler may skip"
    )
    parser.add_argument("--callable", metavar="MODULE:NAME", help="a Python callable to judge")
    parser.add_argument(
        "--arguments",
        default="{}",
        metavar="JSON",
        help="arguments of fairdraw.verify, with --callable",
    )
    return parser


def _required(known: argparse.Namespace, arguments: dict[str, Any]) -> list[str]:
    """Moves requirements on the whole run from the shards' arguments to the arguments of `merge`,
    because no shard can check them."""
    features, most = arguments.pop("require", None), arguments.pop("max_skipped", None)
    require = known.require or (",".join(features) if features else None)
    max_skipped = known.max_skipped if most is None else str(most)
    words = [] if require is None else ["--require", require]
    return words + ([] if max_skipped is None else ["--max-skipped", max_skipped])


def _merge(reports: Sequence[str], folder: str, run_id: str, required: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        files = []
        for number, report in enumerate(reports, 1):
            files.append(Path(scratch) / f"{number}.json")
            files[-1].write_text(report)
        command = [sys.executable, "-m", "fairdraw", "merge", *map(str, files)]
        command += ["--report", folder, "--require-run-id", run_id, *required]
        return subprocess.run(command).returncode


def main(words: Sequence[str] | None = None) -> int:
    parser = _parser()
    known, options = parser.parse_known_args(words)
    for taken in ("--shard", "--run-id"):
        if any(option == taken or option.startswith(taken + "=") for option in options):
            parser.error(f"{taken} is this program's own; leave it out")
    arguments = json.loads(known.arguments)
    if not isinstance(arguments, dict):
        parser.error(f"--arguments is {known.arguments}; allowed: a JSON object")
    if known.callable is not None and (options or ":" not in known.callable):
        parser.error(
            f"--callable is {known.callable!r}; allowed: MODULE:NAME, and --arguments instead of "
            f"options of the command line{': ' + ' '.join(options) if options else ''}"
        )
    required = _required(known, arguments)
    seeds = arguments if known.callable is not None else [one.split("=")[0] for one in options]
    if not any(
        name.removeprefix("--").replace("-", "_") in ("seed", "seed_from") for name in seeds
    ):
        parser.error(
            "--seed or --seed-from is missing: machines of a cluster need not be in one repository, "
            "whose commit would give the seed"
        )
    if known.shards is not None and not 1 <= known.shards <= 10_000:
        parser.error(f"--shards is {known.shards}; allowed: 1 to 10000")
    if known.cpus_per_shard < 1:
        parser.error(f"--cpus-per-shard is {known.cpus_per_shard}; allowed: 1 and more")
    if known.callable is None and "--jobs" not in options:
        options += ["--jobs", str(known.cpus_per_shard)]
    try:
        import ray
    except ImportError:
        parser.error("Ray is not installed: pip install ray")
    ray.init(address=known.address, log_to_driver=False)
    try:
        at_a_time = int(ray.cluster_resources().get("CPU", 1)) // known.cpus_per_shard
        shards = known.shards or 4 * max(1, at_a_time)
        run_id = f"ray {uuid.uuid4()}"
        reports = run_shards(
            shards, options, known.callable, arguments, known.cpus_per_shard, known.gpus_per_shard,
            run_id,
        )  # fmt: skip
    except RuntimeError as error:
        print(f"fairdraw ray: {error}", file=sys.stderr)
        return _EXIT_USAGE
    finally:
        ray.shutdown()
    return _merge(reports, known.report, run_id, required)


if __name__ == "__main__":
    sys.exit(main())
