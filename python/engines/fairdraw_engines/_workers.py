"""Runs cases one after another in this process, or in several processes with a shared queue.

Processes are spawned and not forked, because CUDA does not work in a forked process. If a process
dies, only its current case is lost, and a new process starts in its place.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from typing import Any, Generic, TypeVar

Found = TypeVar("Found")
#: Number of seconds that an idle process has to exit before it is killed.
_SECONDS_TO_LEAVE = 10


@dataclass(frozen=True)
class Died:
    """Result of a case whose process died. `how` says how the process ended."""

    how: str


@dataclass(frozen=True)
class Step(Generic[Found]):
    """Results since the previous step, and the running cases in the order in which they began."""

    found: dict[str, Found | Died]
    running: list[str]


def in_this_process(
    judge: Callable[[str], Found], cases: Sequence[str], end: float
) -> Generator[Step[Found], None, None]:
    """Yields a Step before each case, and a last Step after all cases. No case begins after `end`,
    which is a value of time.monotonic()."""
    found: dict[str, Found | Died] = {}
    for case in cases:
        if time.monotonic() >= end:
            break
        yield Step(found, [case])
        found = {case: judge(case)}
    yield Step(found, [])


def in_processes(
    judge: Callable[[str], Found], cases: Sequence[str], end: float, processes: int
) -> Generator[Step[Found], None, None]:
    """Yields Steps from this many processes, to which `judge` is sent. The processes take the cases
    in order.

    Raises ValueError if `judge` raises ValueError or OSError. Any other exception ends the process
    in which it occurs. If every process dies before it has taken a case, all remaining cases count
    as Died.
    """
    context = multiprocessing.get_context("spawn")
    todo = deque(cases)
    workers: dict[Connection, _Worker] = {}
    left: list[_Worker] = []
    running: dict[str, None] = {}

    def start() -> None:
        worker = _Worker(context, judge)
        workers[worker.connection] = worker

    def may_begin() -> bool:
        return bool(todo) and time.monotonic() < end

    try:
        for _ in range(min(processes, len(cases))):
            start()
        while workers:
            found: dict[str, Found | Died] = {}
            ready = wait(list(workers))
            for connection, worker in [each for each in workers.items() if each[0] in ready]:
                case, worker.case = worker.case, ""
                running.pop(case, None)
                try:
                    answer = connection.recv()
                except (EOFError, OSError):
                    del workers[connection]
                    how = worker.cause_of_death()
                    if case:
                        found[case] = Died(how)
                        if may_begin():
                            start()
                    elif not workers and may_begin():
                        found.update(dict.fromkeys(todo, Died(f"{how}, before any case")))
                    continue
                if isinstance(answer, _Refusal):
                    raise ValueError(f"{case}: {answer.message}")
                if case:
                    found[case] = answer
                if may_begin():
                    worker.begin(todo.popleft())
                    running[worker.case] = None
                else:
                    left.append(workers.pop(connection))
                    connection.close()
            yield Step(found, list(running))
    finally:
        for worker in workers.values():
            worker.process.kill()
        for worker in [*left, *workers.values()]:
            worker.leave()


@dataclass(frozen=True)
class _Refusal:
    """Message of an error in the user's request, which is no fault of the process."""

    message: str


class _Worker:
    """A worker process and its current case, which is None while the process starts."""

    def __init__(self, context: SpawnContext, judge: Callable[[str], Any]) -> None:
        self.case = ""
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(judge, theirs))
        self.process.start()
        theirs.close()  # otherwise the death of the process would not close the pipe

    def begin(self, case: str) -> None:
        self.case = case
        # If the process is dead, the next wait notices its death.
        with contextlib.suppress(OSError):
            self.connection.send(case)

    def leave(self) -> None:
        self.connection.close()
        self.process.join(_SECONDS_TO_LEAVE)
        self.process.kill()
        self.process.join()

    def cause_of_death(self) -> str:
        self.leave()
        code = self.process.exitcode or 0
        return f"exit code {code}" if code >= 0 else f"signal {-code}, {signal.strsignal(-code)}"


def _serve(judge: Callable[[str], Any], connection: Connection) -> None:
    """Runs in a worker process. Reports in a worker process that the process is ready, and judges
    the cases that the process receives until the pipe is closed.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError):
        connection.send(None)
        while True:
            case = connection.recv()
            try:
                answer = judge(case)
            except (OSError, ValueError) as error:
                answer = _Refusal(str(error))
            connection.send(answer)


def _end_with_parent() -> None:
    """Ends the worker process when the parent process has ended. A killed parent does not end its
    children, and a case may take minutes."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
