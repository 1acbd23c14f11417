"""Defines the table of operations. An operation's rows are whole on one device, or split over
ranks.

A row of the table declares a function: its name, its arguments with their kinds (the annotations
below) and defaults, its docstring, and the results of its operators. The public signature, the call
of the compiled module and the stub of the module (_core.pyi) are derived from each row.
torch_operators.py and torch_compile.py derive torch's operators, their fakes and the substitutes
for torch.compile.

An operation that also works on a split vocabulary is written once, as a function whose first
parameter finds the backend for the rows. The public function works on whole rows, and sharded.py
makes methods for split rows.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar

from . import _core
from ._arguments import _member
from ._arrays import Backend, NumpyBackend, backend_of

#: Annotations of arrays, which may be of any library. An operand is an array that is read in place
#: (such as rows of logits or probabilities), a parameter (which may also be a number), an array of
#: indices of rows, or an array of 64-bit words.
Array: TypeAlias = Any
Float: TypeAlias = Any
Int: TypeAlias = Any
Indices: TypeAlias = Any
Bits: TypeAlias = Any
#: Annotations of arguments that are not arrays.
Samples: TypeAlias = int
CheckNan: TypeAlias = bool

_Lend = Callable[[Backend, str, Any, "int | None"], Any]


class Kind(NamedTuple):
    """The kind of an argument that an annotation stands for."""

    schema: str  #: type of the argument in the schema of a torch operator
    # Function that converts the argument for the compiled module; None if the argument is not passed.
    lend: _Lend | None = None


def _named(enum: Any) -> _Lend:
    members = enum.__members__  # stored, because an enum is slow to find a member
    return lambda backend, name, value, rows: _member(name, value, members)


def _named_by_row(enum: Any, *, bad_rows_fail: bool = True) -> _Lend:
    """Returns the conversion of a rule that is one name, a list of names or numbers, or an array of
    numbers. A number in a list that no rule has makes its row fail, or raises ValueError."""
    members = enum.__members__

    def number(name: str, row: int, each: Any) -> int:
        if not isinstance(each, int):
            return int(_member(f"{name}[{row}]", each, members).value)
        if not (bad_rows_fail or 0 <= each < len(members)):
            raise ValueError(
                f"{name}[{row}] is {each}; allowed: 0 to {len(members) - 1}, or a name"
            )
        # No rule has a number outside this range, and each bound must fit into int32.
        return max(-1, min(each, len(members)))

    def lend(backend: Backend, name: str, value: Any, rows: int | None) -> Any:
        if isinstance(value, str):
            return _member(name, value, members)
        if isinstance(value, list | tuple):
            value = backend.from_ints([number(name, row, each) for row, each in enumerate(value)])
        return backend.parameter(value, "int32", rows)

    return lend


def _parameter(dtype: str) -> _Lend:
    return lambda backend, name, value, rows: backend.parameter(value, dtype, rows)


def _as_it_is(backend: Backend, name: str, value: Any, rows: int | None) -> Any:
    return value


#: Kinds by annotation. Arguments of other kinds stay in Python, except the filters of a draft.
KINDS = {
    "Array": Kind("Tensor", _as_it_is),
    "Float": Kind("Tensor", _parameter("float32")),
    "Int": Kind("Tensor", _parameter("int32")),
    "Indices": Kind("Tensor", lambda backend, name, value, rows: backend.indices(value)),
    "Bits": Kind("Tensor"),
    "Samples": Kind("SymInt", _as_it_is),
    "int": Kind("SymInt"),
    "int | None": Kind("SymInt"),
    "TieRule": Kind("str", _named(_core.TieRule)),
    "FilterOrder": Kind("str", _named(_core.FilterOrder)),
    "TieRules": Kind("str", _named_by_row(_core.TieRule)),
    "FilterOrders": Kind("str", _named_by_row(_core.FilterOrder)),
    "AcceptRules": Kind("str"),
    "Purpose": Kind("str", _named(_core.Purpose)),
    "RowsHold": Kind("str", _named(_core.TileInput)),
    "LogprobsMode": Kind("str"),
    "RankRule": Kind("str"),
    "CheckNan": Kind("bool"),
}


#: Results of `sample`, by their names in SampleDetails and in the compiled module.
DETAILS = {
    "tokens": ("ids", "outputs", "samples"),
    "statuses": ("int32", "outputs"),
    "support_size": ("int32", "outputs"),
    "logprob": ("float32", "outputs", "samples"),
    "logprob_filtered": ("float32", "outputs", "samples"),
    "mask": ("words", "rows", "words"),
    "probs": ("float32", "rows", "vocab"),
}
#: Results of Logprobs, in the same form as DETAILS. `all` has rows only if whole rows are
#: requested.
REPORTS = {
    "values": ("float32", "outputs", "samples"),
    "ranks": ("int32", "outputs", "samples"),
    "top_ids": ("int32", "outputs", "top_n"),
    "top_values": ("float32", "outputs", "top_n"),
    "all": ("float32", "reported", "vocab"),
}
#: Maps the name of a result to the result's dtype and axes. "like" stands for the dtype of the
#: rows, and "ids" for the dtype of token ids.
Results: TypeAlias = Mapping[str, tuple[str, ...]]
#: Maps the name of an axis to its lengths. A name may stand for no axis, for one axis or for
#: several.
Sizes: TypeAlias = Mapping[str, tuple[Any, ...]]


class Operator(NamedTuple):
    """A torch operator that calls a function of the table."""

    name: str
    #: Results of the operator, in order. The axes of the results are names in `sizes`.
    results: Results
    #: Arguments with fixed values, with which the operator calls the function.
    given: Mapping[str, Any] = {}
    #: Arguments that come before all others with a default value. If such an argument is None, the
    #: operation treats it as absent.
    first: tuple[str, ...] = ()
    #: Names of the function's arguments that the operator does not have.
    without: tuple[str, ...] = ()


class Operand(NamedTuple):
    """An argument of a torch operator."""

    name: str
    kind: str
    schema: str
    default: Any  #: default value, or inspect.Parameter.empty if there is none
    group: str = ""  #: name of the function's argument that has this operand as a field
    field: str = ""

    def __str__(self) -> str:
        if self.default is inspect.Parameter.empty:
            return f"{self.schema} {self.name}"
        default = f'"{self.default}"' if isinstance(self.default, str) else self.default
        return f"{self.schema}{'?' if default is None else ''} {self.name}={default}"


class Operation(NamedTuple):
    """A row of the table of operations."""

    public: Callable[..., Any]
    operators: tuple[Operator, ...] = ()
    #: Computes the lengths of the results' axes from the arguments by name.
    sizes: Callable[..., Sizes] = lambda **_: {}
    #: Arguments that are dataclasses, by name. The fields of a dataclass are arguments of the
    #: operators.
    groups: Mapping[str, Any] = {}
    #: Name of the compiled module's function, if it differs from the operation's name.
    core: str = ""

    @property
    def name(self) -> str:
        return self.public.__name__

    @property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.public)

    def operands(self, operator: Operator) -> list[Operand]:
        """Returns the arguments in this order: rows and seeds, arguments without default, and the
        rest in the function's order."""
        found = [
            operand
            for parameter in self.signature.parameters.values()
            for operand in self._operands_of(parameter)
            if operand.name not in operator.without
        ]

        def place(operand: Operand) -> tuple[int, int]:
            if operand.name in operator.first:
                return 3, operator.first.index(operand.name)
            if operand.kind == "CheckNan":
                return 5, 0
            if operand.default is not inspect.Parameter.empty:
                return 4, 0
            return (1 if operand.kind == "Bits" else 0 if operand.schema == "Tensor" else 2), 0

        return [
            each._replace(default=inspect.Parameter.empty)
            if each.name in operator.first and each.default is None
            else each
            for each in sorted(found, key=place)
        ]

    def _operands_of(self, parameter: inspect.Parameter) -> Iterator[Operand]:
        if parameter.name in self.groups:
            for each in inspect.signature(self.groups[parameter.name]).parameters.values():
                prefix = parameter.name.removesuffix("filters")
                operand = _operand(each, prefix + each.name)
                yield operand._replace(group=parameter.name, field=each.name)
        elif parameter.annotation in KINDS:
            yield _operand(parameter, parameter.name)

    def schema(self, operator: Operator) -> str:
        results = ["Tensor"] * len(operator.results)
        what = f"({', '.join(results)})" if len(results) > 1 else results[0]
        return f"({', '.join(map(str, self.operands(operator)))}) -> {what}"

    def substitute(self, call: str) -> str:
        """Returns the source of a function that has the same signature and makes a call; {} in the
        call becomes a dictionary of the arguments."""
        plain = self.signature.replace(
            parameters=[
                parameter.replace(annotation=inspect.Parameter.empty)
                for parameter in self.signature.parameters.values()
            ],
            return_annotation=inspect.Signature.empty,
        )
        given = ", ".join(f"{name!r}: {name}" for name in plain.parameters)
        return f"def {self.name}{plain}:\n    return {call.format(f'{{{given}}}')}\n"


def _operand(parameter: inspect.Parameter, name: str) -> Operand:
    kind = KINDS[parameter.annotation]
    default = parameter.default
    if parameter.annotation == "Bits":
        default = inspect.Parameter.empty
    elif kind.schema == "Tensor" and default is not inspect.Parameter.empty:
        default = None
    return Operand(name, parameter.annotation, kind.schema, default)


@functools.cache
def _lends(declared: Any, numpy: bool) -> tuple[list[str], list[tuple[str, _Lend]]]:
    """Returns the names of the arguments that the backends of NumPy and torch pass unchanged. Also
    returns the names of the other arguments, with their conversions."""
    as_they_are, others = [], []
    for name, annotation in declared.__annotations__.items():
        kind = KINDS.get(annotation)
        if kind is None or kind.lend is None:
            continue
        if kind.lend is _as_it_is or (numpy and kind.schema == "Tensor"):
            as_they_are.append(name)
        else:
            others.append((name, kind.lend))
    return as_they_are, others


def lent(
    declared: Any, backend: Backend, given: Mapping[str, Any], rows: int | None = None
) -> dict[str, Any]:
    """Converts those of the given arguments that the compiled module takes, as the annotations of a
    function or dataclass say. Seed and offset are excluded, because `_seed_and_offset` makes them.
    `rows` is the number of values of a parameter, if that number differs from the number of
    rows."""
    as_they_are, others = _lends(declared, isinstance(backend, NumpyBackend))
    found = {name: given[name] for name in as_they_are}
    for name, lend in others:
        found[name] = lend(backend, name, given[name], rows)
    return found


def shape_of(axes: Iterable[str], sizes: Sizes) -> tuple[Any, ...]:
    shape: tuple[Any, ...] = ()
    for axis in axes:
        shape += tuple(sizes[axis])
    return shape


def empty(backend: Backend, results: Results, sizes: Sizes) -> dict[str, Any]:
    """Makes new arrays for the results of an operation."""
    found = {}
    for name, (dtype, *axes) in results.items():
        shape = shape_of(axes, sizes)
        if dtype == "words":
            found[name] = backend.empty_words(shape)
        else:
            found[name] = backend.empty(shape, "int32" if dtype == "ids" else dtype)
    return found


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Table(dict[str, Operation]):
    """The table of operations, by their names."""

    def declare(self, *operators: Operator, **others: Any) -> Callable[[_Function], _Function]:
        def declared(public: _Function) -> _Function:
            self[public.__name__] = Operation(public, operators, **others)
            return public

        return declared

    def stub(self) -> str:
        """Returns the stubs of these operations for _core.pyi. The operations take their arguments
        by name."""
        names = sorted({row.core or name for name, row in self.items()})
        return "".join(f"def {name}(arguments: dict[str, Any], /) -> None: ...\n" for name in names)


TABLE = Table()

#: Function that takes an array of rows and the array's name, and finds the backend.
BackendFor = Callable[[Any, str], Backend]


def operation(
    function: Callable[Concatenate[BackendFor, _Arguments], _Result],
) -> Callable[_Arguments, _Result]:
    """Makes the public function of an operation, which works on whole rows."""

    @functools.wraps(function)
    def of_whole_rows(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        return function(backend_of, *args, **kwargs)

    signature = inspect.signature(function)
    _, *parameters = signature.parameters.values()
    vars(of_whole_rows)["__signature__"] = signature.replace(parameters=parameters)
    return of_whole_rows


def over(
    backend_for: BackendFor, public: Callable[_Arguments, _Result]
) -> Callable[_Arguments, _Result]:
    """Returns the same operation as a function for rows of other backends."""
    return functools.partial(vars(public)["__wrapped__"], backend_for)
