"""Tests that an audit words causes in the way of all of fairdraw."""

from faulty_server import FAULTS

from fairdraw_audit.causes import CAUSES, change, sentence
from fairdraw_audit.findings import ALIKE


def test_every_fault_has_a_cause_that_is_told():
    assert {*FAULTS.values(), *ALIKE} <= set(CAUSES)
    for fault, cause in CAUSES.items():
        assert sentence(fault).endswith("."), fault
        assert sentence(fault) != cause  # a fault's name must not stand in for its sentence
        assert change(fault).endswith("."), fault


def test_the_words_are_those_of_verify():
    assert sentence("top_p_off_by_one") == "The token that crosses top_p is dropped."
