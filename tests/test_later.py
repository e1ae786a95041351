"""Spark Connect's client is imported without pandas, and has it when it needs it."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def told(code: str) -> list[str]:
    """Run code in a new interpreter; return the lines it prints."""
    words = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_client_comes_without_pandas() -> None:
    lines = told(
        """
        import sys
        sys.modules["__main__"].__file__ = "script"  # else pyspark takes it for a doctest
        from hybridview.engine.later import import_connect
        import_connect()
        print(any(name.split(".")[0] == "pandas" for name in sys.modules))
        print("pyspark.sql.connect.session" in sys.modules)
        """
    )
    assert lines == ["False", "True"]


def test_whoever_needs_pandas_gets_it() -> None:
    lines = told(
        """
        from hybridview.engine.later import import_connect
        import_connect()
        import pyspark.sql.connect.session as client
        frame = client.pd.DataFrame({"a": [1]})
        print(client.is_datetime64_dtype(frame.a.dtype))
        import pandas
        print(type(frame) is pandas.DataFrame, isinstance(frame, client.pd.DataFrame))
        print(pandas.api.types.is_integer_dtype(frame.a.dtype))
        """
    )
    assert lines == ["False", "True True", "True"]


def test_pandas_that_is_there_stays() -> None:
    lines = told(
        """
        import pandas
        from hybridview.engine.later import import_connect
        import_connect()
        import pyspark.sql.connect.session as client
        print(client.pd is pandas)
        """
    )
    assert lines == ["True"]


def test_a_client_that_needs_more_gets_all_of_pandas() -> None:
    """Another version of it may import a part that has no stand-in."""
    lines = told(
        """
        import importlib, sys
        from hybridview.engine import later
        with later.without_pandas():
            try:
                from pandas.core.frame import DataFrame
            except ImportError:
                print("no")
        from pandas.core.frame import DataFrame
        print(DataFrame.__name__)
        """
    )
    assert lines == ["no", "DataFrame"]
