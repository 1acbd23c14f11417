"""Groups the responses of an audit by the check that requested them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .plan import Settings
from .records import Choice, Position, Record, choices_of


class Gathered:
    """The responses to an audit's requests; `settings` describe the requests."""

    def __init__(self, settings: Settings, records: Sequence[Record]) -> None:
        self.settings = settings
        self.records = sorted(records, key=lambda record: record.id)
        #: Maps (phase, key) to the outputs of a response, and to the body of its request.
        self.choices: dict[tuple[str, int], list[Choice]] = {}
        self.bodies: dict[tuple[str, int], Any] = {}
        for record in self.records:
            found = choices_of(record, settings.top_logprobs)
            if found:
                self.choices[record.phase, record.key] = found
                self.bodies[record.phase, record.key] = record.body

    def of(self, phase: str) -> list[tuple[int, Choice]]:
        """Returns (key, first output) for each response of a phase."""
        found = [(key, each[0]) for (name, key), each in self.choices.items() if name == phase]
        return sorted(found, key=lambda pair: pair[0])

    def prompt(self, key: int) -> int:
        return key % len(self.settings.prompts)

    def starts(self) -> dict[int, Position]:
        """Returns, for each prompt, the first position's log-probabilities at temperature 1 without
        filters."""
        found: dict[int, Position] = {}
        for key, choice in self.of("plain"):
            if choice.positions:
                found.setdefault(self.prompt(key), choice.positions[0])
        return found

    @property
    def has_numbers(self) -> bool:
        """Returns true if any response has log-probabilities; otherwise there are only texts."""
        return any(choice.positions for each in self.choices.values() for choice in each)
