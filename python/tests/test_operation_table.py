"""Tests the table of operations, and the functions and stubs that are derived from the table."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fairdraw
from fairdraw import _core
from fairdraw._operations import DETAILS, REPORTS, TABLE, empty, lent

PACKAGE = Path(fairdraw.__file__).parent

#: An operation with two arguments, which is added to a copy of the table.
ADDED = """
from fairdraw._operations import TABLE, Array, Float, Operator, Table

table = Table(TABLE)

@table.declare(
    Operator("scaled", {"product": ("like", "as_rows"), "largest": ("float32", "rows")}),
    sizes=lambda logits, **_: {"as_rows": logits.shape, "rows": logits.shape[:1]},
)
def scaled(logits: "Array", factor: "Float" = 1.0):
    product = logits * factor.reshape(-1, 1)
    return product, product.amax(-1).float()
"""


def added():
    names = {}
    exec(ADDED, names)
    return names["table"]


def is_of_core(node):
    """Returns true if an expression is an attribute of the compiled module, or of an object of that
    module."""
    return isinstance(node, ast.Attribute) and (
        (isinstance(node.value, ast.Name) and node.value.id == "_core")
        or (isinstance(node.value, ast.Attribute) and node.value.attr == "_core")
    )


def positional(call):
    """Returns the number of positional arguments of a call of the compiled module, or None for any
    other call."""
    arguments = call.args
    if not is_of_core(call.func):
        if not arguments or not is_of_core(arguments[0]):
            return None
        arguments = arguments[1:]  # skips a function that is passed as the first argument
    unpacked = any(isinstance(argument, ast.Starred) for argument in arguments)
    return 1000 if unpacked else len(arguments)


def test_the_compiled_module_gets_few_arguments_by_position():
    counts = {
        f"{path.relative_to(PACKAGE)}:{node.lineno}": positional(node)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and positional(node) is not None
    }
    assert len(counts) > 60
    assert {place: count for place, count in counts.items() if count > 6} == {}


def test_many_arguments_by_position_are_seen():
    calls = (
        "_core.f(1, 2, 3, 4, 5, 6, 7)",
        "b.call(_core.f, *a)",
        "self._core.f(1)",
        "g(_core, 1)",
    )
    found = [positional(ast.parse(call).body[0].value) for call in calls]
    assert found == [7, 1000, 1, None]


def test_arguments_have_the_names_that_the_module_reads():
    given = {
        "logits": np.zeros((1, 4), np.float32),
        "temperature": 1.0,
        "probs": np.empty((1, 4), np.float32),
        "statuses": None,
        "stream": 0,
        "workspace": None,
    }
    _core.softmax(given)
    assert (given["probs"] == 0.25).all()
    for name in given:
        others = {each: value for each, value in given.items() if each != name}
        with pytest.raises(TypeError, match=f"softmax: {name} is missing"):
            _core.softmax(others)
    with pytest.raises(TypeError, match="softmax: top_k is no argument of it"):
        _core.softmax({**given, "top_k": 1})
    with pytest.raises(
        TypeError, match=r"softmax: stream is 'x', a str, which cannot be converted"
    ):
        _core.softmax({**given, "stream": "x"})
    with pytest.raises(TypeError, match="BatchState: vocab is missing"):
        _core.BatchState({})


def test_the_table_has_the_public_functions():
    for name, row in TABLE.items():
        assert row.public is getattr(fairdraw, name, fairdraw.sampling._draw)
        assert row.public.__doc__
        assert hasattr(_core, row.core or name)


def test_results_have_the_names_of_what_users_get():
    assert fairdraw.SampleDetails._fields[: len(DETAILS)] == tuple(DETAILS)
    assert fairdraw.Logprobs._fields == tuple(REPORTS)


def test_the_stub_follows():
    assert TABLE.stub() in (PACKAGE / "_core.pyi").read_text()
    assert "def scaled(arguments: dict[str, Any], /) -> None: ...\n" in added().stub()
    assert "scaled" not in TABLE


def test_an_added_operation_has_signature_schema_and_substitute():
    row = added()["scaled"]
    assert str(row.signature) == "(logits: 'Array', factor: 'Float' = 1.0)"
    assert row.schema(*row.operators) == "(Tensor logits, Tensor? factor=None) -> (Tensor, Tensor)"
    source = row.substitute("list({}.items())")
    names = {}
    exec(source, names)
    assert names["scaled"](5) == [("logits", 5), ("factor", 1.0)]
    assert names["scaled"](5, factor=2) == [("logits", 5), ("factor", 2)]
    plain = inspect.signature(names["scaled"])
    assert [(p.name, p.kind, p.default) for p in plain.parameters.values()] == [
        (p.name, p.kind, p.default) for p in row.signature.parameters.values()
    ]


def test_arguments_are_lent_by_kind():
    backend = fairdraw._arrays.NumpyBackend()
    given = {"logits": 1, "factor": 2}
    assert lent(added()["scaled"].public, backend, given) == given
    with pytest.raises(ValueError, match="tie_rule is 'none'; allowed"):
        fairdraw.sample(np.zeros((1, 3), np.float32), tie_rule="none")
    made = empty(backend, {"it": ("int32", "rows", "columns")}, {"rows": (2, 3), "columns": ()})
    assert made["it"].shape == (2, 3) and made["it"].dtype == np.int32


#: The program runs in a process of its own, because torch cannot unregister operators.
COMPILED = """
import warnings; warnings.simplefilter("ignore")
import torch
from fairdraw import torch_compile, torch_operators
row = table["scaled"]
torch_operators.register(row, *row.operators)
torch.compiler.substitute_in_graph(scaled)(torch_compile.substitute(row))
logits, factor = torch.randn(3, 5), torch.tensor([2.0])
operator = torch.ops.fairdraw.scaled
assert str(operator.default._schema) == (
    "fairdraw::scaled(Tensor logits, Tensor? factor=None) -> (Tensor, Tensor)")
for got, want in zip(operator(logits, factor), scaled(logits, factor)):
    assert torch.equal(got, want)
checks = torch.library.opcheck(operator.default, (logits, factor))
assert set(checks.values()) == {"SUCCESS"}
compiled = torch.compile(lambda x: scaled(x, 3.0), fullgraph=True, backend="aot_eager")
for got, want in zip(compiled(logits), scaled(logits, torch.tensor([3.0]))):
    assert torch.equal(got, want)
"""


def test_an_added_operation_has_an_operator_and_is_compiled():
    pytest.importorskip("torch", reason="torch is not installed")
    subprocess.run([sys.executable, "-c", ADDED + COMPILED], check=True)
