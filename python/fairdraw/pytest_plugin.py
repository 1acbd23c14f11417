"""Adds the gate to pytest, with one test item per case.

    @pytest.mark.fairdraw(semantics="vllm_torch", suite="smoke")
    def test_sampler(fairdraw_case):
        fairdraw_case(my_sampler)

The mark takes all arguments of fairdraw.verify except `sampler`. A test with the mark has one item
per case of the suite, or per case that matches `case`. A case that fails makes its item fail. At
the end of the session the failures of all items of a test are grouped by cause. Each cause is shown
with the change to make, and with the call that repeats a case. A case is skipped if the sampler
lacks an ability that the case needs; the reason is shown. The mark's `require` and `max_skipped`
apply to all items of a test together. If the requirements are not met, the session fails at its end
and says why. The test of all p-values of a run together (the report's case "global") needs the
whole run: fairdraw.verify makes this test, and test items do not. Without --fairdraw-seed all items
have the seed of verify. --fairdraw-report DIR writes one report per marked test into a folder of
DIR.

pytest imports this file wherever the package is installed. Large imports (NumPy, the compiled
module) therefore wait until a test requests cases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .verification import Report


#: Features that all items of a test together must judge, and the percentage of cases that may be
#: skipped.
Required = tuple[list[str], "float | None"]


class FairdrawCase:
    """Judges samplers by the one case of a test item. Call the object like fairdraw.verify: with a
    sampler, with running_batch=, or with both."""

    def __init__(self, case: str, arguments: dict[str, Any], required: Required) -> None:
        self.case = case
        self.required = required
        self.records: list[str] = []  #: the text of report.json of each call
        self._arguments = arguments

    def __call__(self, sampler: Any = None, **more: Any) -> Report:
        """Fails or skips the test item, or returns the report of a case that passed."""
        __tracebackhide__ = True
        from .verification import verify

        arguments = {**self._arguments, **more, "case": self.case}
        report = verify(sampler, **arguments)
        self.records.append(report.to_json())
        (result,) = report.cases
        if result.verdict == "skipped":
            pytest.skip(result.message)
        if result.red:
            pytest.fail(
                f"{result.verdict}: {result.message}\nreplay: {result.replay}", pytrace=False
            )
        return report


class ReportWriter:
    """Gathers the records of test items. When all items have run, the writer groups their failures
    by cause and writes reports if there is a folder for reports. The session fails if a test has
    not judged the features that its mark requires."""

    def __init__(self, folder: Path | None, config: pytest.Config) -> None:
        self._folder = folder
        self._config = config
        self._records: dict[str, list[str]] = {}  # by test
        self._failed: dict[str, list[pytest.TestReport]] = {}
        self._required: dict[str, Required] = {}
        self._lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for test, record, required in getattr(report, "fairdraw_records", ()):
            self._required[test] = required
            self._records.setdefault(test, []).append(record)
            if report.failed and report not in self._failed.setdefault(test, []):
                self._failed[test].append(report)

    @pytest.hookimpl(tryfirst=True)  # runs before the terminal reports the end of the session
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._records:
            return
        from .verification import merged

        for test, records in self._records.items():
            features, most = self._required[test]
            asked = self._folder is not None or features or most is not None
            if not asked and test not in self._failed:
                continue
            runs = _runs(records)
            for number, run in enumerate(runs, 1):
                report = merged(run, *self._required[test])
                if len(runs) == 1:
                    self._tell_by_cause(self._failed.get(test, []), report)
                if report.unmet:
                    self._lines.append(f"fairdraw: {test}: not judged: {'; '.join(report.unmet)}")
                    session.exitstatus = pytest.ExitCode.TESTS_FAILED
                if self._folder is not None:
                    name = test if len(runs) == 1 else f"{test}-{number}"
                    page = report.write(self._folder / name) / "index.html"
                    self._lines.append(f"fairdraw: {page}")

    def _tell_by_cause(self, failed: list[Any], report: Report) -> None:
        """Reduces the terminal's failures to one failure for each group of the report, which says
        how many others there are."""
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        shown = [] if terminal is None else terminal.stats.get("failed", [])
        by_case = {item.fairdraw_case: item for item in failed if item in shown}
        for text, cases in report.groups:
            items = [by_case[case] for case in cases if case in by_case]
            for item in items[:1]:
                item.longrepr = text
            for item in items[1:]:
                shown.remove(item)
                terminal.stats.setdefault("failed for a reason told once", []).append(item)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in self._lines:
            terminalreporter.write_line(line)


def _runs(records: list[str]) -> list[list[str]]:
    """Returns the groups of records that form one report each. All records of a group have the same
    sampler, seed and suite. If a case was judged twice, only the last record counts."""
    runs: dict[str, dict[str, str]] = {}
    for text in records:
        record = json.loads(text)
        common = [record[name] for name in ("samplers", "seed", "suite", "options", "commit")]
        runs.setdefault(json.dumps(common), {})[record["cases"][0]["id"]] = text
    return [list(cases.values()) for cases in runs.values()]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fairdraw")
    group.addoption(
        "--fairdraw-seed", type=int, default=None, metavar="N", help="seed of fairdraw's cases"
    )
    group.addoption(
        "--fairdraw-report",
        default=None,
        metavar="DIR",
        help="write the report (HTML, JSON, JUnit) of each test of fairdraw's cases into a folder there",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "fairdraw(semantics=..., suite=..., ...): an item for each case of the gate; arguments of "
        "fairdraw.verify",
    )
    chosen = config.getoption("--fairdraw-report")
    # A worker of xdist passes its records on to the main process.
    if hasattr(config, "workerinput"):
        return
    folder = None
    if chosen is not None:
        folder = config.invocation_params.dir / chosen
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise pytest.UsageError(f"--fairdraw-report is {chosen!r}: {error}") from error
    config.pluginmanager.register(ReportWriter(folder, config), "fairdraw-report-writer")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    report = (yield).get_result()
    case = getattr(item, "funcargs", {}).get("fairdraw_case")
    if call.when == "call" and isinstance(case, FairdrawCase):
        # Makes the name of a folder from the test's name "folder/test_file.py::test_name[other
        # parameters]".
        test = re.sub(r"[^\w.]+", "-", item.nodeid.replace(case.case, "")).strip("-")
        report.fairdraw_records = [(test, record, case.required) for record in case.records]
        report.fairdraw_case = case.case


def _arguments_of(marker: pytest.Mark, seed: int | None) -> dict[str, Any]:
    if marker.args:
        raise pytest.UsageError("pytest.mark.fairdraw takes arguments by name only")
    arguments = {"suite": "smoke", **marker.kwargs}
    if seed is not None:
        arguments["seed"] = seed
    return arguments


def _required_by(arguments: dict[str, Any]) -> Required:
    """Removes `require` and `max_skipped` from the arguments, because they apply to all items
    together."""
    from .verification import expect_coverage

    return expect_coverage(arguments.pop("require", ()), arguments.pop("max_skipped", None))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fairdraw_case" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("fairdraw")
    if marker is None:
        raise pytest.UsageError(
            f"{metafunc.definition.name}: the fixture fairdraw_case needs pytest.mark.fairdraw"
        )
    from .verification import case_ids

    arguments = _arguments_of(marker, metafunc.config.getoption("--fairdraw-seed"))
    try:
        required = _required_by(arguments)
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"{metafunc.definition.name}: {error}") from error
    pattern = arguments.pop("case", "*")
    ids = case_ids(arguments["suite"], logits=arguments.get("logits"))
    chosen = [case for case in ids if fnmatchcase(case, pattern)]
    if not chosen:
        raise pytest.UsageError(
            f"{metafunc.definition.name}: no case of suite {arguments['suite']} matches {pattern!r}"
        )
    metafunc.parametrize(
        "fairdraw_case", [FairdrawCase(case, arguments, required) for case in chosen], ids=chosen
    )
