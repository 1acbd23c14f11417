"""Sends the requests of an audit in parallel, retries temporary failures, and keeps each
response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from .plan import BadSetting, Settings, Stage, first_stages, last_stage
from .records import BadRecord, Choice, Record, choices_of

#: HTTP statuses of a server that is busy or starting. Other error statuses mean that the request is
#: wrong.
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
LONGEST_PAUSE = 30.0  #: seconds between tries
LONGEST_CONNECT = 10.0  #: seconds to wait for a connection
#: Maximum number of consecutive requests that fail after all their tries. After that many, no
#: further request is sent.
MAX_FAILURES = 16

Keep = Callable[[Record], None]


class Unreachable(Exception):
    """Raised when no server answers, so that the remaining requests are not sent. The exception's
    message names the URL.
    """


@dataclass(frozen=True)
class Transport:
    """Settings of the connection to the server. The verdict does not depend on these settings."""

    base_url: str
    api_key: str = ""
    concurrency: int = 8
    retries: int = 4
    timeout: float = 120.0
    #: Seconds before the second try; the pause doubles before each further try.
    first_pause: float = 0.5

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


def _asked_pause(answer: Any) -> float | None:
    """Returns the number of seconds for which the server asks the client to wait, given as a number
    or a date. Returns None if the server gives no valid number or date."""
    asked = "" if answer is None else answer.headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdigit():
        return float(asked)
    try:
        date = parsedate_to_datetime(asked)
    except (ValueError, OverflowError):
        return None
    zoned = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
    return max((zoned - datetime.now(timezone.utc)).total_seconds(), 0.0)


class _Client:
    """Sends requests through httpx until the server stops answering."""

    def __init__(self, http: Any, path: str, transport: Transport) -> None:
        self.http, self.path, self.transport = http, path, transport
        self.answered = False  # whether any HTTP response has arrived
        self.failures = 0  # consecutive

    async def post(self, body: Any) -> tuple[Any, str]:
        """Returns (response, ""), or (None, the reason why there is no response)."""
        import httpx

        transport, why = self.transport, ""
        for attempt in range(transport.retries + 1):
            answer = None
            try:
                sent = self.http.post(self.path, json=body)
                # httpx limits only single reads, so that a response that arrives in small pieces
                # would never end
                answer = await asyncio.wait_for(sent, transport.timeout)
                self.answered = True
                if answer.status_code == 200:
                    return answer.json(), ""
                why = f"HTTP {answer.status_code}: {answer.text[:300]}"
                if answer.status_code not in TRANSIENT:
                    return None, why
            except asyncio.TimeoutError:
                why = f"no whole answer within {transport.timeout:g} s"
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                why = f"no server at {transport.base_url}: {error or type(error).__name__}"
                if not self.answered or attempt == transport.retries:
                    raise Unreachable(why) from None
            except (httpx.RequestError, ValueError, RecursionError) as error:  # or no JSON
                why = f"{type(error).__name__}: {error}"
            if attempt < transport.retries:
                asked = _asked_pause(answer)
                if asked is not None and asked > LONGEST_PAUSE:
                    return None, f"{why}; the server asks to wait {asked:.0f} s"
                own = min(transport.first_pause * 2.0**attempt, LONGEST_PAUSE)
                await asyncio.sleep(own if asked is None else asked)
        return None, f"{why} ({transport.retries + 1} tries)"

    async def send(self, stage: Stage, keep: Keep) -> None:
        places = asyncio.Semaphore(stage.at_once or self.transport.concurrency)

        async def one(item: Record) -> None:
            async with places:
                response, error = await self.post(item.body)
            kept = replace(item, response=response, error=error)
            try:
                choices_of(kept, 2)
            except BadRecord as reason:
                kept = replace(item, response=None, error=str(reason))
            self.failures = self.failures + 1 if kept.error else 0
            keep(kept)
            if self.failures >= MAX_FAILURES:
                url = self.transport.base_url
                raise Unreachable(f"{MAX_FAILURES} requests in a row to {url} failed: {kept.error}")

        tasks = [asyncio.ensure_future(one(item)) for item in stage.items]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def gather(settings: Settings, transport: Transport, keep: Keep) -> None:
    """Sends all requests of an audit, and passes each record to `keep` when its response has
    arrived.

    Raises Unreachable if no server answers, or if too many consecutive requests fail.
    """
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
        timeout=httpx.Timeout(transport.timeout, connect=min(transport.timeout, LONGEST_CONNECT)),
        limits=httpx.Limits(max_connections=transport.concurrency),
    ) as http:
        client, count = _Client(http, path, transport), 0
        for stage in first_stages(settings):
            await client.send(stage, keep_greedy)
            count += len(stage.items)
        outputs: list[Choice | None] = [None] * len(settings.prompts)
        for key, record in greedy.items():
            for choice in choices_of(record, settings.top_logprobs)[:1]:
                outputs[key] = choice
        await client.send(last_stage(settings, outputs, count), keep_greedy)


def planned(settings: Settings) -> Sequence[Record]:
    """Returns the requests of an audit that are known before the first response."""
    return [item for stage in first_stages(settings) for item in stage.items]
