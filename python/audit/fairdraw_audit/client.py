"""Sends the requests of an audit: several at a time, again after what may pass, kept as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .plan import BadSetting, Settings, Stage, first_stages, last_stage
from .records import BadRecord, Choice, Record, choices_of

#: Answers that a server may give when it is busy or starts; others mean the request.
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
LONGEST_PAUSE = 30.0  #: seconds between tries

Keep = Callable[[Record], None]


@dataclass(frozen=True)
class Transport:
    """How the server is reached; no part of what is judged."""

    base_url: str
    api_key: str = ""
    concurrency: int = 8
    retries: int = 4
    timeout: float = 120.0
    first_pause: float = 0.5  #: seconds before the second try; doubled for each one after it

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise BadSetting(f"base_url is {self.base_url!r}; allowed: http://... or https://...")
        for name, least, most in (
            ("concurrency", 2, 1024),
            ("retries", 0, 100),
            ("timeout", 0.001, 86400),
            ("first_pause", 0, LONGEST_PAUSE),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise BadSetting(f"{name} is {value}; allowed: {least} to {most}")


def _pause(answer: Any, attempt: int, transport: Transport) -> float:
    """Seconds to wait: what the server asks for, else twice as long each time."""
    asked = "" if answer is None else answer.headers.get("retry-after", "")
    seconds = float(asked) if asked.isdigit() else transport.first_pause * 2.0**attempt
    return min(seconds, LONGEST_PAUSE)


async def _post(client: Any, path: str, body: Any, transport: Transport) -> tuple[Any, str]:
    """(response, ""), or (None, why there is none)."""
    import httpx

    why = ""
    for attempt in range(transport.retries + 1):
        answer = None
        try:
            answer = await client.post(path, json=body)
            if answer.status_code == 200:
                return answer.json(), ""
            why = f"HTTP {answer.status_code}: {answer.text[:300]}"
            if answer.status_code not in TRANSIENT:
                return None, why
        except (httpx.TransportError, ValueError) as error:  # ValueError: the body is no JSON
            why = f"{type(error).__name__}: {error}"
        if attempt < transport.retries:
            await asyncio.sleep(_pause(answer, attempt, transport))
    return None, f"{why} ({transport.retries + 1} tries)"


async def _send(client: Any, path: str, stage: Stage, transport: Transport, keep: Keep) -> None:
    places = asyncio.Semaphore(stage.at_once or transport.concurrency)

    async def one(item: Record) -> None:
        async with places:
            response, error = await _post(client, path, item.body, transport)
        kept = replace(item, response=response, error=error)
        try:
            choices_of(kept, 2)
        except BadRecord as reason:
            kept = replace(item, error=str(reason))
        keep(kept)

    await asyncio.gather(*(one(item) for item in stage.items))


async def gather(settings: Settings, transport: Transport, keep: Keep) -> None:
    """Sends all requests of an audit; `keep` gets each record when its response is there."""
    import httpx

    headers = {"Authorization": f"Bearer {transport.api_key}"} if transport.api_key else {}
    path = "chat/completions" if settings.endpoint == "chat" else "completions"
    greedy: dict[int, Record] = {}

    def keep_greedy(record: Record) -> None:
        if record.phase == "greedy":
            greedy[record.key] = record
        keep(record)

    async with httpx.AsyncClient(
        base_url=transport.base_url.rstrip("/") + "/",
        headers=headers,
        timeout=transport.timeout,
        limits=httpx.Limits(max_connections=transport.concurrency),
    ) as client:
        count = 0
        for stage in first_stages(settings):
            await _send(client, path, stage, transport, keep_greedy)
            count += len(stage.items)
        outputs: list[Choice | None] = [None] * len(settings.prompts)
        for key, record in greedy.items():
            for choice in choices_of(record, settings.top_logprobs)[:1]:
                outputs[key] = choice
        await _send(client, path, last_stage(settings, outputs, count), transport, keep_greedy)


def planned(settings: Settings) -> Sequence[Record]:
    """The requests that are known before the first response."""
    return [item for stage in first_stages(settings) for item in stage.items]
