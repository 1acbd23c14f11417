"""Tests that docs/api/python.md lists every public name, and that every public name has a
docstring."""

import inspect
import re
from pathlib import Path

import pytest

import fairdraw

PAGE = Path(__file__).parent.parent.parent / "docs" / "api" / "python.md"
#: A module of the page, and the names that the page lists for it. If the page lists no name of a
#: module, all names of the module count as listed.
DIRECTIVE = re.compile(
    r"^::: (fairdraw[\w.]*)(?:\n    options: \{members: \[(.*)\]\})?$", re.MULTILINE
)


def listed() -> dict[str, set[str]]:
    text = PAGE.read_text(encoding="utf-8")
    return {
        module: set(filter(None, names.split(", "))) for module, names in DIRECTIVE.findall(text)
    }


def public() -> list[str]:
    return [name for name in fairdraw.__all__ if not name.startswith("__")]


def test_the_page_has_every_public_name() -> None:
    pages = listed()
    missing = []
    for name in public():
        module = getattr(fairdraw, name).__module__
        names = pages.get(module)
        if names is None or (names and name not in names):
            missing.append(f"{module}.{name}")
    assert missing == []


@pytest.mark.skipif(not fairdraw._core.HAS_SERVING, reason="the page has the names of serving, too")
def test_the_page_lists_nothing_else() -> None:
    for module, names in listed().items():
        assert not names - set(public()), module


def test_every_public_name_has_a_docstring() -> None:
    assert [name for name in public() if not inspect.getdoc(getattr(fairdraw, name))] == []
