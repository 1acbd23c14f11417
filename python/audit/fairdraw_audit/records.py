"""Stores requests and responses, and reads the tokens and log-probabilities that a response reports
for each position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .distribution import Positions

Array = Any
#: Log-probabilities of at most this value mean that the token was filtered out. Engines write -9999
#: because JSON has no infinity.
MIN_LOGPROB = -1000.0
#: Above this e^x overflows. Positive log-probabilities below this limit are read, because some
#: servers report logits instead.
LARGEST_LOGPROB = 700.0


class BadRecord(ValueError):
    """Raised for a file of records, or a response, that is unreadable. The exception's message
    names the place in the file or response."""


@dataclass(frozen=True)
class Record:
    """A request of an audit, with the response's JSON or the reason why there is no response."""

    id: int
    phase: str  #: the check's phase
    key: int  #: the index of the prompt or of the pair within the check
    body: dict[str, Any]
    response: dict[str, Any] | None = None
    error: str = ""


@dataclass(frozen=True)
class Position:
    tokens: tuple[str, ...]  #: the tokens with the largest log-probabilities, in descending order
    logprobs: tuple[float, ...]
    drawn: str
    drawn_logprob: float


@dataclass(frozen=True)
class Choice:
    """A single output of a response."""

    text: str
    finish_reason: str
    positions: tuple[Position, ...]

    @property
    def tokens(self) -> list[str]:
        return [position.drawn for position in self.positions]


def _logprob(token: str, value: Any) -> float:
    number = float(value)
    if not number <= LARGEST_LOGPROB:  # also refuses NaN
        raise ValueError(
            f"the log-probability of {token!r} is {number}; allowed: up to {LARGEST_LOGPROB:g}"
        )
    return number


def _position(tokens: Iterable[str], values: Iterable[Any], drawn: str, own: Any, most: int) -> Any:
    """Returns the reported tokens. The drawn token is left out if the server reported it only
    because it was drawn.
    """
    pairs = sorted(
        ((str(token), _logprob(token, value)) for token, value in zip(tokens, values, strict=True)),
        key=lambda pair: -pair[1],
    )
    if pairs[0][1] <= MIN_LOGPROB:
        raise ValueError(f"the largest log-probability of a position is {pairs[0][1]}")
    if len(pairs) == most + 1:  # servers report the drawn token in addition to the `most` largest
        place = [token for token, _ in pairs].index(drawn) if drawn in dict(pairs) else most
        del pairs[place if pairs[place][1] <= pairs[most][1] else most]
    floor = -np.inf
    logprobs = tuple(value if value > MIN_LOGPROB else floor for _, value in pairs[:most])
    return Position(
        tuple(token for token, _ in pairs[:most]), logprobs, drawn, _logprob(drawn, own)
    )


def _completion(logprobs: dict[str, Any], most: int) -> list[Position]:
    tops = logprobs.get("top_logprobs") or []
    return [
        _position(top, top.values(), token, own, most)
        for token, own, top in zip(
            logprobs.get("tokens") or [], logprobs.get("token_logprobs") or [], tops, strict=False
        )
        if top
    ]


def _name(entry: dict[str, Any]) -> str:
    """Returns a token's text together with its bytes, if they are reported, because tokens that are
    parts of characters may have the same text.
    """
    return str(entry["token"]) + ("" if not entry.get("bytes") else f" {entry['bytes']}")


def _chat(logprobs: dict[str, Any], most: int) -> list[Position]:
    found = []
    for entry in logprobs.get("content") or []:
        top = entry.get("top_logprobs") or []
        if top:
            names, values = [_name(e) for e in top], [e["logprob"] for e in top]
            found.append(_position(names, values, _name(entry), entry["logprob"], most))
    return found


def choices_of(record: Record, most: int) -> list[Choice]:
    """Returns the outputs of a response, by index. A position has at most `most` reported
    log-probabilities."""
    if record.response is None:
        return []
    try:
        entries = sorted(record.response["choices"], key=lambda entry: int(entry.get("index", 0)))
        found = []
        for entry in entries:
            logprobs = entry.get("logprobs") or {}
            chat = "message" in entry
            text = (entry["message"].get("content") if chat else entry.get("text")) or ""
            # llama.cpp's server answers completions in the form of chats.
            positions = (_chat if "content" in logprobs else _completion)(logprobs, most)
            found.append(Choice(text, str(entry.get("finish_reason")), tuple(positions)))
        return found
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadRecord(f"response {record.id}: {type(error).__name__}: {error}") from None


def positions_of(choices: Sequence[Choice], width: int, only: int | None = None) -> Positions:
    """Returns all positions of these outputs, or only position `only` of each output, as arrays."""
    logprobs, counts, drawn = [], [], []
    for choice in choices:
        seen: dict[str, int] = {}
        for place, position in enumerate(choice.positions):
            if only is None or place == only:
                pad = width - len(position.tokens)
                logprobs.append([*position.logprobs, *[-np.inf] * pad])
                counts.append([*(seen.get(t, 0) for t in position.tokens), *[0] * pad])
                there = position.drawn in position.tokens
                drawn.append(position.tokens.index(position.drawn) if there else -1)
            seen[position.drawn] = seen.get(position.drawn, 0) + 1
    shape = (len(drawn), width)
    return Positions(
        np.array(logprobs, float).reshape(shape),
        np.array(counts, int).reshape(shape),
        np.array(drawn, int),
    )


class RecordFile:
    """Appends records to a file as they arrive, one record per line, so that an interrupt does not
    lose them."""

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._write(header)

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def add(self, record: Record) -> None:
        self._write(asdict(record))

    def close(self) -> None:
        self._file.close()


def read_records(path: Path) -> tuple[dict[str, Any], list[Record]]:
    """Returns the header of a file, and the file's records by id. A wrong line raises BadRecord,
    which names the line.

    An interrupt may leave a last line without its end; such a line is ignored.
    """
    if path.exists() and not path.is_file():  # the file may be a pipe that never ends
        raise BadRecord(f"{path}: is no regular file")
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")[:-1]
    header: dict[str, Any] = {}
    records = []
    for number, line in enumerate(lines, 1):
        try:
            parsed = json.loads(line)
            if number == 1:
                header = parsed
            else:
                records.append(Record(**parsed))
        except (ValueError, TypeError) as error:
            raise BadRecord(f"{path}:{number}: {error}") from None
    if not isinstance(header, dict) or "fairdraw_audit" not in header:
        raise BadRecord(f"{path}:1: the first line is no header of an audit")
    return header, sorted(records, key=lambda record: record.id)
