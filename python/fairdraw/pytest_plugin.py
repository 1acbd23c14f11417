"""pytest: one test item a case of the gate.

    @pytest.mark.fairdraw(semantics="vllm_torch", suite="smoke")
    def test_sampler(fairdraw_case):
        fairdraw_case(my_sampler)

The mark takes the arguments of fairdraw.verify but `sampler`; without `case` the test has an item
for each case of the suite, with it one for each that matches. A failed case fails its item with the
message and the call that repeats it; a case that the sampler has no ability for is skipped with the
reason. The test of all p-values of a run together (the report's case "global") needs the whole run:
fairdraw.verify makes it, items do not. Without --fairdraw-seed all items have the seed of verify.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest

from . import verification


class FairdrawCase:
    """Judges samplers in one case: call it with a sampler, as fairdraw.verify's first argument, or
    with running_batch=, or both."""

    def __init__(self, case: str, arguments: dict[str, Any]) -> None:
        self.case = case
        self._arguments = arguments

    def __call__(self, sampler: Any = None, **more: Any) -> verification.Report:
        """Fails or skips the test item; returns the report of a case that passed."""
        __tracebackhide__ = True
        arguments = {**self._arguments, **more, "case": self.case}
        report = verification.verify(sampler, **arguments)
        (result,) = report.cases
        if result.verdict == "skipped":
            pytest.skip(result.message)
        if result.red:
            pytest.fail(
                f"{result.verdict}: {result.message}\nreplay: {result.replay}", pytrace=False
            )
        return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("fairdraw").addoption(
        "--fairdraw-seed", type=int, default=None, metavar="N", help="seed of fairdraw's cases"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "fairdraw(semantics=..., suite=..., ...): an item for each case of the gate; arguments of "
        "fairdraw.verify",
    )


def _arguments_of(marker: pytest.Mark, seed: int | None) -> dict[str, Any]:
    if marker.args:
        raise pytest.UsageError("pytest.mark.fairdraw takes arguments by name only")
    arguments = {"suite": "smoke", **marker.kwargs}
    if seed is not None:
        arguments["seed"] = seed
    return arguments


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fairdraw_case" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("fairdraw")
    if marker is None:
        raise pytest.UsageError(
            f"{metafunc.definition.name}: the fixture fairdraw_case needs pytest.mark.fairdraw"
        )
    arguments = _arguments_of(marker, metafunc.config.getoption("--fairdraw-seed"))
    pattern = arguments.pop("case", "*")
    ids = verification.case_ids(arguments["suite"], logits=arguments.get("logits"))
    chosen = [case for case in ids if fnmatchcase(case, pattern)]
    if not chosen:
        raise pytest.UsageError(
            f"{metafunc.definition.name}: no case of suite {arguments['suite']} matches {pattern!r}"
        )
    metafunc.parametrize(
        "fairdraw_case", [FairdrawCase(case, arguments) for case in chosen], ids=chosen
    )
