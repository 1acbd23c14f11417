"""Defines the claim of an audit about a server, and the requests that the audit sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from .distribution import STEPS, Claim
from .records import Choice, Record

PROMPTS = (
    "Once upon a time there was a",
    "The most important thing about the weather is",
    "List of ingredients:",
    "In the year 1850 the",
)
KINDS = ("auto", "raw", "processed")
#: Number of pairs of requests whose outputs should be equal, and number of pairs whose outputs should
#: differ.
PAIRS = 12
PAIR_TOKENS = 12
FOLLOWING_TOKENS = 8  #: tokens of a request without a seed that is sent after a request with a seed
GREEDY_TOKENS = 16
SEVERAL = 4  #: number of outputs of one request
#: Maps each phase that sends one request at a time to the phase of the unseeded requests that
#: follow the phase's requests.
FOLLOWERS = {"alone": "after_alone", "again": "after_again"}
PENALTY = 1.0  #: presence and frequency penalty of the requests that check penalties
#: Bias that a request adds to the logit of one token. Logits of a language model differ by far
#: less, so that the token with this bias is always drawn.
BIAS = 100
BIAS_TOKENS = 6


class BadSetting(ValueError):
    """Raised for a setting that is out of range. The message names the setting, its value and the
    allowed values."""


@dataclass(frozen=True)
class Settings:
    """The claim about the server, and the budget of tokens. The header of the record file holds
    all settings.
    """

    model: str
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    order: tuple[str, ...] = STEPS
    seed: int = 1
    endpoint: str = "completions"
    logprobs: str = "auto"
    top_logprobs: int = 20
    noise: float = 2e-3
    divergence: float = 0.01
    vocab: int = 1_000_000
    alpha: float = 1e-6
    budget_requests: int = 1000
    budget_tokens: int = 5000
    max_tokens: int = 32
    bias_tokens: tuple[int, int] = (100, 101)
    top_k_off: str = "0"
    prompts: tuple[str, ...] = PROMPTS
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ranges: list[tuple[str, float, float, str]] = [
            ("temperature", 0, 100, "0 to 100"),
            ("top_k", 0, 2**31 - 1, "0 (off) to 2^31 - 1"),
            ("min_p", 0, 1, "0 (off) to 1"),
            ("seed", 0, 2**31 - 1, "0 to 2^31 - 1"),
            ("top_logprobs", 2, 1000, "2 to 1000"),
            ("noise", 0, 1, "0 to 1"),
            ("vocab", 2, 2**31 - 1, "2 to 2^31 - 1"),
            ("max_tokens", 1, 100_000, "1 to 100000"),
        ]
        for name, least, most, text in ranges:
            value = getattr(self, name)
            if not least <= value <= most:
                raise BadSetting(f"{name} is {value}; allowed: {text}")
        for name in ("top_p", "divergence", "alpha"):
            value = getattr(self, name)
            most, text = (1, "above 0, to 1") if name == "top_p" else (0.5, "above 0, to 0.5")
            if not 0 < value <= most:
                raise BadSetting(f"{name} is {value}; allowed: {text}")
        for name, allowed in (
            ("endpoint", ("completions", "chat")),
            ("logprobs", KINDS),
            ("top_k_off", ("0", "-1", "omit")),
        ):
            if getattr(self, name) not in allowed:
                value = getattr(self, name)
                raise BadSetting(f"{name} is {value!r}; allowed: {', '.join(allowed)}")
        if sorted(self.order) != sorted(STEPS):
            raise BadSetting(f"order is {','.join(self.order)}; allowed: each of {','.join(STEPS)}")
        if not self.prompts or not all(self.prompts):
            raise BadSetting(f"prompts is {list(self.prompts)}; allowed: texts that are not empty")
        for name, least in (
            ("budget_requests", len(_exact(self)) + len(streams(self)) * len(self.prompts)),
            (
                "budget_tokens",
                tokens_of(_exact(self)) + len(streams(self)) * len(self.prompts) * self.max_tokens,
            ),
        ):
            if getattr(self, name) < least:
                raise BadSetting(f"{name} is {getattr(self, name)}; allowed: {least} or more")

    @property
    def claim(self) -> Claim:
        return Claim(self.temperature, self.top_k, self.top_p, self.min_p, order=self.order)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> Settings:
        names = {each.name for each in fields(Settings)}
        unknown = sorted(set(values) - names)
        if unknown:
            raise BadSetting(f"setting {unknown[0]!r} is unknown; allowed: {sorted(names)}")
        lists = ("order", "bias_tokens", "prompts")
        typed: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in values.items()}
        return Settings(**typed)


@dataclass(frozen=True)
class Stage:
    """Requests that may be in flight together. At most `at_once` are sent at a time; None means as
    many as the settings allow."""

    items: tuple[Record, ...]
    at_once: int | None = None


def body_of(settings: Settings, claim: Claim, prompt: int, tokens: int, **more: Any) -> Any:
    """Returns the body of one request. The body states every filter, because servers have defaults
    of their own."""
    body: dict[str, Any] = {"model": settings.model, "max_tokens": tokens}
    text = settings.prompts[prompt % len(settings.prompts)]
    if settings.endpoint == "chat":
        body["messages"] = [{"role": "user", "content": text}]
        body |= {"logprobs": True, "top_logprobs": settings.top_logprobs}
    else:
        body |= {"prompt": text, "logprobs": settings.top_logprobs}
    body |= {"temperature": claim.temperature, "top_p": claim.top_p}
    if claim.top_k > 0 or settings.top_k_off != "omit":
        body["top_k"] = claim.top_k if claim.top_k > 0 else int(settings.top_k_off)
    if claim.min_p > 0 or settings.top_k_off != "omit":
        body["min_p"] = claim.min_p
    if claim.penalises:
        body["presence_penalty"] = claim.presence_penalty
        body["frequency_penalty"] = claim.frequency_penalty
    return body | more | settings.extra


def streams(settings: Settings) -> dict[str, Claim]:
    """Returns, for each phase of the audit, the claim about the phase's positions.

    All filters are tested together, and each filter is also tested alone, so that no filter hides
    another. The phase `plain` has temperature 1 and no filter, so that it tests only whether tokens
    follow the reported log-probabilities.
    """
    claim, plain = settings.claim, Claim(order=settings.order)
    found = {"plain": plain}
    if claim.temperature > 0 and claim != plain:
        found["claimed"] = claim
        bare = Claim(temperature=claim.temperature, order=claim.order)
        alone = {
            "top_k_alone": replace(bare, top_k=claim.top_k),
            "top_p_alone": replace(bare, top_p=claim.top_p),
            "min_p_alone": replace(bare, min_p=claim.min_p),
        }
        active = {name: each for name, each in alone.items() if each != bare}
        found |= active if len(active) > 1 else {}
    found["penalties"] = replace(plain, presence_penalty=PENALTY, frequency_penalty=PENALTY)
    return found


def _exact(settings: Settings) -> list[Record]:
    """Returns the requests whose outputs are compared. The ids of these requests are assigned
    later."""
    plain = Claim(order=settings.order)
    drawing = settings.claim if settings.temperature > 0 else plain
    greedy = replace(plain, temperature=0.0)
    penalised = replace(greedy, presence_penalty=PENALTY, frequency_penalty=PENALTY)
    found = []

    def add(phase: str, key: int, claim: Claim, prompt: int, tokens: int, **more: Any) -> None:
        found.append(Record(0, phase, key, body_of(settings, claim, prompt, tokens, **more)))

    for prompt in range(len(settings.prompts)):
        add("greedy", prompt, greedy, prompt, GREEDY_TOKENS)
        add("greedy_penalised", prompt, penalised, prompt, GREEDY_TOKENS)
    for phase in ("alone", "again", "loaded"):
        for pair in range(PAIRS):
            add(phase, pair, drawing, pair, PAIR_TOKENS, seed=settings.seed + pair)
            if phase in FOLLOWERS:
                add(FOLLOWERS[phase], pair, plain, 0, FOLLOWING_TOKENS)
    for pair in range(PAIRS):
        add("unseeded", pair, plain, 0, PAIR_TOKENS)
    for pair in range(2):
        seed = settings.seed + pair
        add("several", pair, plain, pair, PAIR_TOKENS, n=SEVERAL, seed=seed)
    for key, token in enumerate(settings.bias_tokens):
        add("bias", key, plain, 0, BIAS_TOKENS, logit_bias={str(token): BIAS}, seed=settings.seed)
    for key in range(2):  # the stop string is known only after the greedy outputs
        add("stop", key, greedy, key, GREEDY_TOKENS)
    return found


def tokens_of(items: Sequence[Record]) -> int:
    """Returns the maximum number of tokens that the responses to these requests can have."""
    return sum(item.body["max_tokens"] * item.body.get("n", 1) for item in items)


def first_stages(settings: Settings) -> list[Stage]:
    """Returns all requests except those with a stop string."""
    exact = _exact(settings)
    wanted = streams(settings)
    tokens = (settings.budget_tokens - tokens_of(exact)) // len(wanted)
    requests = (settings.budget_requests - len(exact)) // len(wanted)
    each = min(tokens // settings.max_tokens, requests)
    flowing = []
    for number, (phase, claim) in enumerate(wanted.items()):
        for key in range(each):
            seed = settings.seed + 1000 + number * each + key
            body = body_of(settings, claim, key, settings.max_tokens, seed=seed)
            flowing.append(Record(0, phase, key, body))
    one_by_one = (*FOLLOWERS, *FOLLOWERS.values())
    alone = [item for item in exact if item.phase in one_by_one]
    loaded = [item for item in exact if item.phase == "loaded"]
    rest = [item for item in exact if item.phase not in (*one_by_one, "loaded", "stop")]
    # Requests under load are placed among the requests of the streams, so that each of them has
    # neighbours in the batch.
    for place, item in enumerate(loaded):
        flowing.insert(1 + place * len(flowing) // len(loaded), item)
    stages = [Stage(tuple(alone), 1), Stage(tuple(rest)), Stage(tuple(flowing))]
    return _numbered(stages, 0)


def last_stage(settings: Settings, greedy: Sequence[Choice | None], first_id: int) -> Stage:
    """Repeats greedy requests with a stop string taken from their earlier texts. Makes no request
    if the texts give no stop string."""
    items = [item for item in _exact(settings) if item.phase == "stop"]
    found = []
    for item in items:
        choice = greedy[item.key] if item.key < len(greedy) else None
        stop = stop_string(choice) if choice else ""
        if stop:
            found.append(replace(item, body=item.body | {"stop": [stop]}))
    return _numbered([Stage(tuple(found))], first_id)[0]


def stop_string(choice: Choice) -> str:
    """Returns a piece from the middle of an output, or "" if the output is too short."""
    return choice.text[len(choice.text) // 2 :][:3] if len(choice.text) >= 8 else ""


def _numbered(stages: Sequence[Stage], first_id: int) -> list[Stage]:
    found = []
    for stage in stages:
        items = [replace(item, id=first_id + place) for place, item in enumerate(stage.items)]
        first_id += len(items)
        found.append(Stage(tuple(items), stage.at_once))
    return found
