"""Tests that the values of enums in the compiled module are those that the C++ headers declare."""

import enum
import re
import typing
from pathlib import Path

import pytest

import fairdraw
from fairdraw import _core

HEADERS = Path(__file__).parents[2] / "kernels" / "include" / "fairdraw"
ENUMS = {name: value for name, value in vars(_core).items() if isinstance(value, enum.EnumMeta)}


def declared(name):
    """Returns the members of an enum class of the public headers, with their values."""
    text = "\n".join(header.read_text() for header in sorted(HEADERS.glob("*.h")))
    body = re.search(rf"enum class {name} : [\w:]+ {{(.*?)}};", text, re.DOTALL)[1]
    return {m: int(v) for m, v in re.findall(r"(\w+) = (\d+)", re.sub("//.*", "", body))}


def test_enums_are_found():
    assert set(ENUMS) == {
        "AcceptRule", "DraftLaw", "FilterOrder", "HistoryForm", "LogprobsMode", "Purpose",
        "RankRule", "ShardedExchange", "SiblingSampling", "StepRows", "TieRule", "TileInput",
    }  # fmt: skip


@pytest.mark.parametrize("name", ENUMS)
def test_members_are_those_of_cpp(name):
    expected = declared(name)
    if name == "Purpose":  # all other purposes belong to accept_chain and accept_tree
        expected = {"draw": expected["draw"], "draft": expected["draft"]}
    assert {member.name: member.value for member in ENUMS[name]} == expected


def test_statuses_are_those_of_cpp():
    assert declared("RowStatus")["nan_input"] == _core.NAN_INPUT
    assert declared("BeamState")["live"] == _core.BEAMS_LIVE


@pytest.mark.parametrize(
    "name",
    [
        "AcceptRule",
        "TieRule",
        "FilterOrder",
        "LogprobsMode",
        "RankRule",
        "Purpose",
        "SiblingSampling",
    ],
)
def test_types_of_arguments_name_every_member(name):
    of_drafts = name in ("AcceptRule", "SiblingSampling")
    home = fairdraw.speculative if of_drafts else fairdraw.sampling
    assert typing.get_args(getattr(home, name)) == tuple(ENUMS[name].__members__)


def test_a_name_that_is_none_is_refused_with_those_that_are():
    for bad in ("keep", "value", None, ["keep_all"]):
        with pytest.raises(
            ValueError, match=r"tie_rule is .*[;?] allowed: 'keep_all', 'lowest_id'"
        ):
            fairdraw.BatchState(10, 1, 5, tie_rule=bad)
