"""Tests the judging of an engine's cases by several processes. The record must equal that of one
process, even if processes die."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_engines import (
    SEED,
    engine_of,
    engine_or_skip,
    judged_and_skipped,
    tilted,
)

from fairdraw_engines import __main__, matrix

#: Cases that fail for the engine `tilted`.
RED = [
    "chi_squared/gaussian_wide/v1000/none/t*/n100000",
    "bets/gaussian_wide/v1000/none/t1/n100000",
    "binomial/gaussian/v1000/none/t1/n100000",
]
#: The only case of these tests with rows of so many tokens, which comes first in the table of
#: cases.
DEADLY, DEADLY_VOCAB = "streams/all_equal/v131072/none/t1", 131072


def without_date_and_seconds(record):
    return {key: value for key, value in record.items() if key not in ("date", "seconds")}


def test_a_record_is_the_same_whatever_number_of_processes_made_it(capfd):
    engine = engine_of(tilted, cases=("*/none/*", "replay/*"))
    globs = [*RED, "replay/*", "chi_squared/gaussian/v1000/*"]
    seen = []
    alone = matrix.run_engine(engine, "smoke", globs, SEED)
    together = matrix.run_engine(
        engine, "smoke", globs, SEED, processes=3,
        keep=lambda record: seen.append((list(record["running"]), judged_and_skipped(record))),
    )  # fmt: skip
    # Records are compared as text, because the order of the failed cases and of the reasons
    # matters.
    texts = [json.dumps(without_date_and_seconds(record)) for record in (alone, together)]
    assert texts[0] == texts[1]
    table = matrix.matching_cases("smoke", globs)
    red = [red["case"] for red in together["red"]]
    assert len(red) == 4 and red == [case for case in table if case in red]
    assert judged_and_skipped(together) == len(table)
    assert together["skip_reasons"]["the case needs filters that the engine does not have"] > 0
    assert together["seconds"] > 0
    # The record was saved while results arrived.
    assert seen[-1] == ([], len(table))
    counts = [count for _, count in seen]
    assert counts == sorted(counts) and len(set(counts)) > 2
    # Each case must have run exactly once.
    said = [line.split()[-1] for line in capfd.readouterr().err.splitlines()]
    asked = [case for case in table if matrix.is_about(engine, case)]
    assert sorted(said) == sorted([*asked, *asked])


def test_processes_find_an_engine_by_its_name():
    engine, cases = engine_or_skip("numpy_choice"), ["chi_squared/*/none/t1/n100000"]
    records = [matrix.run_engine(engine, "smoke", cases, SEED, processes=count) for count in (1, 2)]
    assert without_date_and_seconds(records[0]) == without_date_and_seconds(records[1])
    assert records[0]["checks"]["chi_squared"]["passed"] > 1


def unless_deadly(seed, end):
    sample = tilted(seed)
    return lambda batch: end() if batch.vocab == DEADLY_VOCAB else sample(batch)


def exits(seed):
    return unless_deadly(seed, lambda: os._exit(7))


def is_killed(seed):
    return unless_deadly(seed, lambda: os.kill(os.getpid(), signal.SIGKILL))


def cannot_be_made(seed):
    raise RuntimeError("a fault of the device")


@pytest.mark.parametrize("make, how", [(exits, "exit code 7"), (is_killed, "signal 9, Killed")])
def test_a_process_that_dies_takes_its_own_case_alone(make, how):
    globs = [DEADLY, *RED]
    table = matrix.matching_cases("smoke", globs)
    assert table[0] == DEADLY
    record = matrix.run_engine(engine_of(make), "smoke", globs, SEED, processes=2)
    assert record["skip_reasons"] == {f"{matrix.PROCESS_DIED} ({how}): {DEADLY}": 1}
    assert [red["case"] for red in record["red"]] == table[1:]
    assert judged_and_skipped(record) == len(table) and record["running"] == []


def test_an_exception_that_is_none_of_a_case_ends_its_process():
    record = matrix.run_engine(engine_of(cannot_be_made), "smoke", RED, SEED, processes=2)
    table = matrix.matching_cases("smoke", RED)
    assert set(record["skip_reasons"]) == {
        f"{matrix.PROCESS_DIED} (exit code 1): {case}" for case in table
    }


def refuses(seed):
    raise ValueError("no such seed")


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_in_what_was_asked_ends_them_all(processes):
    with pytest.raises(ValueError, match="no such seed"):
        matrix.run_engine(engine_of(refuses), "smoke", RED, SEED, processes=processes)
    assert not multiprocessing.active_children()


class DiesOnArrival:
    """An object that kills the process that unpickles the object."""

    def __call__(self, seed):
        return tilted(seed)

    def __reduce__(self):
        return os._exit, (3,)


def test_processes_that_cannot_start_are_not_started_for_ever():
    record = matrix.run_engine(engine_of(DiesOnArrival()), "smoke", RED, SEED, processes=2)
    reasons = {
        f"{matrix.PROCESS_DIED} (exit code 3, before any case): {case}"
        for case in matrix.matching_cases("smoke", RED)
    }
    assert set(record["skip_reasons"]) == reasons and len(reasons) > 1


def sleeps(seed):
    sample = tilted(seed)

    def slowly(batch):
        time.sleep(0.5)
        return sample(batch)

    return slowly


def test_no_case_begins_in_any_process_when_the_time_is_over():
    globs = ["chi_squared/*"]
    cases = len(matrix.matching_cases("smoke", globs))
    begun = set()
    never = matrix.run_engine(
        engine_of(sleeps), "smoke", globs, SEED, seconds=0, processes=2,
        keep=lambda record: begun.update(record["running"]),
    )  # fmt: skip
    assert never["skip_reasons"] == {matrix.OUT_OF_TIME: cases} and not begun
    # The time limit passes after at least two cases have begun. Cases that have begun run to their
    # end, and no further case begins.
    clock, in_time = SimpleNamespace(now=0.0), set()

    def keep(record):
        begun.update(record["running"])
        if not in_time and len(begun) >= 2:
            in_time.update(begun)
            clock.now = 2.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: clock.now)
        some = matrix.run_engine(
            engine_of(sleeps), "smoke", globs, SEED, seconds=1, processes=2, keep=keep
        )
    assert begun == in_time and len(begun) >= 2
    assert some["skip_reasons"][matrix.OUT_OF_TIME] == cases - len(begun)
    assert judged_and_skipped(some) == cases


def names_its_process_and_stays(seed):
    def sample(batch):
        folder = Path(os.environ["FAIRDRAW_TEST_FOLDER"])
        (folder / f"pid{os.getpid()}").touch()
        time.sleep(600)

    return sample


def is_alive(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_processes_end_with_a_parent_that_is_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRDRAW_TEST_FOLDER", str(tmp_path))
    file = tmp_path / "part.json"
    cases = matrix.matching_cases("smoke", RED)[:2]
    child = os.fork()
    if child == 0:
        matrix.run_engine(
            engine_of(names_its_process_and_stays), "smoke", cases, SEED, processes=2,
            keep=lambda record: matrix.write(matrix.updated(None, [record]), file),
        )  # fmt: skip
        os._exit(0)
    until(lambda: len(list(tmp_path.glob("pid*"))) == 2)
    workers = [int(path.name[3:]) for path in tmp_path.glob("pid*")]
    until(lambda: file.exists() and len(running_of(file)) == 2)
    assert all(map(is_alive, workers))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    until(lambda: not any(map(is_alive, workers)))
    assert running_of(file) == cases
    (left,) = json.loads(file.read_text())["engines"]
    record = matrix.ended(left)
    assert record["skip_reasons"] == {matrix.NOT_ENDED + case: 1 for case in cases}
    assert judged_and_skipped(record) == 2 and record["running"] == []


def running_of(file):
    return json.loads(file.read_text())["engines"][0]["running"]


def test_every_running_case_counts_and_older_records_are_read():
    counted = {"checks": {"mask": {"passed": 3, "skipped": 1}}, "skip_reasons": {"no filters": 1}}
    cases = ["replay/b", "mask/a", "mask/c"]
    assert matrix.ended({**counted, "running": cases}) == {
        "checks": {"mask": {"passed": 3, "skipped": 3}, "replay": {"skipped": 1}},
        "skip_reasons": {"no filters": 1, **{matrix.NOT_ENDED + case: 1 for case in cases}},
        "running": [],
    }
    assert counted["checks"] == {"mask": {"passed": 3, "skipped": 1}}
    one = matrix.ended({**counted, "running": "mask/a"})
    assert one == matrix.ended({**counted, "running": ["mask/a"]})
    for older in (counted, {**counted, "running": ""}):
        assert matrix.ended(older) == older


@pytest.mark.parametrize("word", ["0", "-1", "1.5", "two", ""])
def test_a_number_of_processes_that_is_none_is_named(word, capsys):
    with pytest.raises(SystemExit) as bad:
        __main__.main(["matrix", "numpy_choice", f"--processes={word}"])
    message = f"argument --processes: is {word!r}; allowed: whole numbers from 1 on"
    assert bad.value.code == 2 and message in capsys.readouterr().err
    with pytest.raises(ValueError, match="^processes is 0; allowed: whole numbers from 1 on$"):
        matrix.run_engine(engine_of(tilted), "smoke", ["*"], SEED, processes=0)
