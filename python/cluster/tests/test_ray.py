"""Tests the gate on a Ray cluster of several processes, one of which is killed during the run. The
report must equal that of one run. The tests are skipped without Ray (its wheels have 79 MB)."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import fairdraw

SAMPLER_IN_A_MODULE = """
import fairdraw

def mine(batch):
    return fairdraw.sample(
        batch.logits, batch.temperature, batch.top_k, batch.top_p, batch.min_p,
        seed=batch.seed, offset=batch.offset,
    )
"""
OPTIONS = ["--suite", "smoke", "--sampler", "cpu:scalar", "--case", "*/v31/*", "--seed", "11"]


def report_of(folder):
    report = json.loads((Path(folder) / "report.json").read_text())
    report.pop("environment")
    report.pop("seconds")
    for case in report["cases"]:
        case.pop("seconds")
    return report


def processes():
    """Returns the parent's id and the command of every process on this machine."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            found[int(folder.name)] = (parent, (folder / "cmdline").read_bytes())
        except (OSError, IndexError):
            continue  # it has ended
    return found


def kill_a_worker(ancestor, killed, ended):
    """Kills one worker below the process `ancestor` while the worker runs a shard."""
    while not ended.is_set() and not killed:
        table = processes()
        for pid, (parent, command) in table.items():
            runs_a_shard = any(
                above == pid and b"--shard" in words for above, words in table.values()
            )
            if not command.startswith(b"ray::") or not runs_a_shard:
                continue
            above = parent
            while above in table and above != ancestor:
                above = table[above][0]
            if above == ancestor:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                return
        time.sleep(0.02)


def on_a_cluster(words, path=()):
    """Starts `python -m fairdraw ray` with these words, on a cluster of this machine. `path` lists
    folders of modules."""
    program = "import sys, ray; sys.argv[0] = 'fairdraw ray'\n"
    program += "init = ray.init\n"
    program += "ray.init = lambda **_: init(num_cpus=3, include_dashboard=False)\n"
    program += "from fairdraw_ray.__main__ import main; sys.exit(main(sys.argv[1:]))"
    folders = [*map(str, path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))},
    )  # fmt: skip


def test_a_callable_is_judged_in_shards(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    (tmp_path / "gate_of_mine.py").write_text(SAMPLER_IN_A_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    from gate_of_mine import mine

    how = {
        "suite": "smoke",
        "case": "[mrs]*/gaussian_wide/v1000/*alone",
        "seed": 11,
        "abilities": ["per_request_seeds"],
    }
    words = ["verify", "--shards", "4", "--report", str(tmp_path / "cluster")]
    words += ["--callable", "gate_of_mine:mine", "--require", "seeds"]
    run = on_a_cluster([*words, "--arguments", json.dumps(how)], [tmp_path])
    out, errors = run.communicate(timeout=600)
    assert run.returncode == 0, out + errors
    report = fairdraw.verify(mine, **how, require=["seeds"])
    assert report.verdict == "passed"
    report.write(tmp_path / "one")
    assert report_of(tmp_path / "cluster") == report_of(tmp_path / "one")


def test_a_callable_that_cannot_be_imported_ends_the_run(tmp_path):
    pytest.importorskip("ray")
    words = ["verify", "--shards", "2", "--report", str(tmp_path / "cluster")]
    run = on_a_cluster([*words, "--callable", "no_such_module:mine", "--arguments", '{"seed": 1}'])
    out, errors = run.communicate(timeout=600)
    assert run.returncode == 2
    assert "no_such_module" in errors
    assert not (tmp_path / "cluster" / "report.json").exists()


def test_a_worker_that_dies_changes_nothing(tmp_path):
    pytest.importorskip("ray")
    run = on_a_cluster(["verify", "--shards", "6", "--report", str(tmp_path / "cluster"), *OPTIONS])
    killed, ended = [], threading.Event()
    killer = threading.Thread(target=kill_a_worker, args=(run.pid, killed, ended))
    killer.start()
    out, errors = run.communicate(timeout=600)
    ended.set()
    killer.join()
    assert run.returncode == 0, out + errors
    assert killed, "no worker was caught in mid-run"
    one = subprocess.run(
        [sys.executable, "-m", "fairdraw", "verify", *OPTIONS, "--report", str(tmp_path / "one")],
        capture_output=True,
    )
    assert one.returncode == 0, one.stderr
    assert report_of(tmp_path / "cluster") == report_of(tmp_path / "one")


@pytest.mark.parametrize(
    "words, says",
    [
        (["verify", "--sampler", "cpu"], "--seed or --seed-from is missing"),
        (["verify", "--seed", "1", "--shard", "1/2"], "--shard is this program's own"),
        (["verify", "--seed", "1", "--cpus-per-shard", "0"], "--cpus-per-shard is 0"),
        (["verify", "--seed", "1", "--shards", "0"], "--shards is 0"),
        (["verify", "--callable", "x", "--arguments", '{"seed": 1}'], "allowed: MODULE:NAME"),
        (["verify", "--callable", "x:y", "--seed", "1"], "--seed 1"),
        (["verify", "--seed", "1", "--arguments", "7"], "a JSON object"),
        (["prove"], "verify"),
    ],
)
def test_bad_usage(words, says):
    run = subprocess.run(
        [sys.executable, "-m", "fairdraw", "ray", *words], capture_output=True, text=True
    )
    assert run.returncode == 2
    assert says in run.stderr
