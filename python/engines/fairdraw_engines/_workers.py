"""Cases one after another in this process, or in several, each of which takes the next when it is free.

Processes are started anew and not forked, because CUDA does not survive a fork. One that dies takes its
case with it and no other, and another is started in its place.
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
#: A process that has nothing more to do is given these to leave, before it is killed.
_SECONDS_TO_LEAVE = 10


@dataclass(frozen=True)
class Died:
    """In the place of a result: the process of the case died, of what `how` says."""

    how: str


@dataclass(frozen=True)
class Step(Generic[Found]):
    """What came of cases since the step before, and the cases that run now, in the order they began."""

    found: dict[str, Found | Died]
    running: list[str]


def in_this_process(
    judge: Callable[[str], Found], cases: Sequence[str], end: float
) -> Generator[Step[Found], None, None]:
    """A step before each case, and a last one. No case begins after `end`, of time.monotonic()."""
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
    """The same by this many processes, to which `judge` is sent; cases begin in their order.

    ValueError where `judge` raises one, or an OSError; the process of any other exception dies of it.
    Where every process dies before it has taken a case, all cases that are left count as Died.
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
    """The message of an error in what was asked, which is none of the process."""

    message: str


class _Worker:
    """A process, and the case that it has: none while it starts."""

    def __init__(self, context: SpawnContext, judge: Callable[[str], Any]) -> None:
        self.case = ""
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(judge, theirs))
        self.process.start()
        theirs.close()  # or its death would not end the pipe

    def begin(self, case: str) -> None:
        self.case = case
        with contextlib.suppress(OSError):  # it is dead, which the next wait finds
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
    """In a process of its own: says that it is there, then answers every case until the pipe ends."""
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
    """A parent that is killed ends nothing by itself, and a case may take minutes."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
