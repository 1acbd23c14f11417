"""Operations whose rows lie whole on one device, or split by columns over ranks.

Each is written once, as a function that is told first how to find the backend of its rows. The public
function is that of whole rows; sharded.py makes methods of them, over columns.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from ._arrays import Backend, backend_of

#: From an array of rows and its name.
BackendFor = Callable[[Any, str], Backend]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def operation(
    function: Callable[Concatenate[BackendFor, _Arguments], _Result],
) -> Callable[_Arguments, _Result]:
    """The public function, over whole rows."""

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
    """The same operation over rows of other backends."""
    return functools.partial(vars(public)["__wrapped__"], backend_for)
