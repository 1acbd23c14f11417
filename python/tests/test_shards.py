"""Tests shards of a Python callable's run. Each shard is a run of its own, and together the shards
form the whole run."""

import json
import subprocess
import sys

import pytest

import fairdraw

HOW = {
    "suite": "smoke",
    "case": "[mrs]*/gaussian_wide/v1000/*alone",
    "seed": 5,
    "abilities": ["per_request_seeds"],
}


def mine(batch):
    return fairdraw.sample(
        batch.logits, batch.temperature, batch.top_k, batch.top_p, batch.min_p,
        seed=batch.seed, offset=batch.offset,
    )  # fmt: skip


def merge(files, folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "fairdraw", "merge", *files, "--report", folder, *words],
        capture_output=True,
        text=True,
    )


def comparable(raw):
    """Returns the record without the fields that differ from run to run."""
    raw = {key: value for key, value in raw.items() if key not in ("environment", "seconds")}
    raw["cases"] = [{**case, "seconds": 0} for case in raw["cases"]]
    return raw


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Returns the report.json of each of three shards."""
    folder = tmp_path_factory.mktemp("shards")
    return [
        fairdraw.verify(mine, shard=f"{number}/3", **HOW).write(folder / str(number))
        / "report.json"
        for number in (1, 2, 3)
    ]


def test_shards_are_merged_to_the_record_of_one_run(shards, tmp_path):
    merged = merge(shards, tmp_path)
    assert merged.returncode == 0, merged.stderr
    whole = fairdraw.verify(mine, **HOW)
    assert whole.verdict == "passed"
    raw = json.loads((tmp_path / "report.json").read_text())
    assert comparable(raw) == comparable(whole.raw)
    assert raw["coverage"] == [whole.coverage]
    parts = [json.loads(shard.read_text()) for shard in shards]
    assert all(0 < len(part["cases"]) < len(raw["cases"]) for part in parts)


def test_what_is_required_is_asked_of_the_merged_run(shards, tmp_path):
    assert merge(shards, tmp_path, "--require", "seeds,top_p").returncode == 0
    missing = merge(shards, tmp_path, "--require", "masks")
    assert missing.returncode == 3
    assert "NOT JUDGED: mine: masks was not judged" in missing.stdout
    for asked in ({"require": ["seeds"]}, {"max_skipped": 50}):
        with pytest.raises(
            ValueError, match="shard is '1/3'.*give this argument to `python -m fairdraw merge`"
        ):
            fairdraw.verify(mine, shard="1/3", **HOW, **asked)


def test_a_missing_shard_is_refused(shards, tmp_path):
    merged = merge(shards[:2], tmp_path)
    assert merged.returncode == 2
    assert "1 of 3 shards are missing: 3/3" in merged.stderr


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b", ""])
def test_a_shard_that_is_none_is_refused(shard):
    with pytest.raises(ValueError, match="shard: .* is not I/N"):
        fairdraw.verify(mine, shard=shard, **HOW)
