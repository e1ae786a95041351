"""Import Spark Connect's client without pandas: it names pandas at import and needs it to convert.

Half of the time to attach would go into pandas, which no statement of ours uses. While the client
is being imported, modules that load the true ones at their first use stand in for pandas. They are
taken away afterwards: whoever imports pandas later gets pandas.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

_FUNCTIONS = "pandas.api.types"
"""The one module of pandas from which the client imports functions by name."""
_ANNOTATED = ("DataFrame", "Series")
"""What it names in annotations, which are evaluated at import and read by nobody."""
_NAMES = ("pandas", "pandas.api", _FUNCTIONS)


class StandIn(types.ModuleType):
    """Looks like a module; becomes it when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        own = self.__name__
        if own == _FUNCTIONS:
            return _later(name)
        if name in _ANNOTATED and sys.modules.get(own) is self:
            return Any
        _take_away()
        return getattr(importlib.import_module(own), name)


def _later(name: str) -> Callable[..., Any]:
    def function(*values: Any, **named: Any) -> Any:
        _take_away()
        return getattr(importlib.import_module(_FUNCTIONS), name)(*values, **named)

    return function


def _take_away() -> None:
    for name in _NAMES:
        if isinstance(sys.modules.get(name), StandIn):
            del sys.modules[name]


@contextlib.contextmanager
def without_pandas() -> Iterator[None]:
    """Let stand-ins take the place of pandas, unless it is there, while the block imports."""
    if "pandas" in sys.modules:
        yield
        return
    version = metadata.version("pandas")  # raises an ImportError if there is no pandas
    for name in _NAMES:
        sys.modules[name] = StandIn(name)
    # The client compares it with the oldest one it takes.
    vars(sys.modules["pandas"])["__version__"] = version
    try:
        yield
    finally:
        _take_away()


def import_connect() -> tuple[Any, Any]:
    """Return DefaultChannelBuilder and SparkSession of Spark Connect's client."""
    with contextlib.suppress(ImportError, AttributeError), without_pandas():
        importlib.import_module("pyspark.sql.connect.session")
    # If another version of the client needs more of pandas, it gets it here.
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession

    return DefaultChannelBuilder, SparkSession
