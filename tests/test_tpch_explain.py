"""What `hybridview explain` says about the 22 queries of TPC-H, kept as golden files.

HV_UPDATE_GOLDEN=1 writes them anew. Nothing here starts a JVM: Spark's answers about types are
kept beside them, and a test on Spark compares those.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from sqlglot.parser import Parser

from hybridview import Store
from hybridview.bench.compiling import compile_all
from hybridview.compiler.batch import Batch
from hybridview.compiler.links import Link
from hybridview.operations.folded import folded
from hybridview.plan import compiled as compiled_module
from hybridview.plan import programs as programs_module
from hybridview.plan.compiled import compile_record
from hybridview.plan.programs import program
from tests.cli.terminal import check_golden, invoke, transcript, without_spark
from tests.support.tpch_store import NUMBERS, define, open_store, view_of


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    found, _ = open_store(tmp_path_factory.mktemp("tpch"))
    define(found)
    return found


@pytest.mark.parametrize("number", NUMBERS)
def test_explain(store: Store, number: int) -> None:
    with without_spark():
        command = f"explain {view_of(number)}"
        result = invoke(f"{command} --store {store.root}")
    assert result.exit_code == 0
    check_golden(f"explain/{view_of(number)}.txt", transcript(command, result))


def test_compiling_is_fast(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are parsed, plans are not made of text; the benchmark measures seconds."""
    parsed: list[Any] = []
    parse = Parser.parse

    def counting(self: Parser, *args: Any, **kwargs: Any) -> Any:
        parsed.append(args)
        return parse(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Parser, "parse", counting)
        compile_all(store.root)
    assert len(parsed) < 800
    # Two seconds of a core that adds up ten million numbers in a third of one.
    ratios = [compile_all(store.root) / plain_additions() for _ in range(5)]
    assert min(ratios) < 6, ratios


def plain_additions() -> float:
    """Return the seconds of one core that ten million additions take: what this machine can do."""
    started, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - started


def test_programs_are_kept_and_stay_as_they_are(store: Store) -> None:
    """What is kept is what would be made anew, but for the epoch, however often it was used."""
    for view in store._context.catalog().views.values():
        batch = Batch(frozenset((*view.sources, *view.parts)))
        compiled = compile_record(view).view
        assert compiled is not None
        first, second = (program(view, compiled, batch, epoch) for epoch in (7, 7123))
        assert repr(second) == repr(first).replace("CAST(7 AS BIGINT)", "CAST(7123 AS BIGINT)")
        programs_module._programs.values.clear()
        compiled_module._compiled.values.clear()
        fresh = compile_record(view).view
        assert fresh is not None
        assert program(view, fresh, batch, 7) == first
        grown = Batch(batch.changed, batch.changed)
        assert program(view, compiled, grown, 7) == program(view, fresh, grown, 7)


def test_programs_depend_on_the_key_that_is_referred_to(store: Store) -> None:
    view = store._context.catalog().views[view_of(12)]
    compiled = compile_record(view).view
    assert compiled is not None
    changed = frozenset(view.sources)
    by_key, by_other = (
        program(view, compiled, Batch(changed, links=frozenset({link})), 7)
        for link in (
            Link("lineitem", ("l_orderkey",), "orders", (key,)) for key in ("o_orderkey", "o_clerk")
        )
    )
    assert "orders@kept" in by_key.change and "orders@kept" not in by_other.change


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("  a, b", ["  a, b"]),
        ("  aaaaaaaa, bbbbbbbb, cc", ["  aaaaaaaa,", "      bbbbbbbb,", "      cc"]),
        ("x = 'a, b, c, d, e, f' AND y", ["x = 'a, b, c, d, e, f'", "    AND y"]),
        ("`a, ``b, c, d, e` AS z, y", ["`a, ``b, c, d, e` AS z,", "    y"]),
        ("it's a quote, never closed", ["it's a quote, never closed"]),
        ("", [""]),
    ],
)
def test_long_lines_are_folded_outside_quotes(line: str, parts: list[str]) -> None:
    assert folded(line, width=16) == parts
    assert " ".join(part.strip() for part in parts) == line.strip()
