"""A seed -> a random script: tables, one or two views, and a stream of change batches.

Views use every operator that has a delta rule, over few values, so that groups, duplicates and
NULLs collide. Functions are only those that mean the same in Spark and in DuckDB after
translation; so there is no percentile but the median, no division, no substring from 0 and no avg
of decimals (DuckDB's is a floating point number, Spark's a rounded decimal). avg is used on
integers, where both engines divide an exact sum; the comparison rounds it (see `comparable`). A
cast is used to text only: sqlglot writes TRY_CAST, which differs only where a cast fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.support.cases import Script, Table, View
from tests.support.random_groups import rare_calls, set_clause, set_marks
from tests.support.streams import TABLES, random_stream

MOST_READS = 4

KINDS = {"int": "int", "decimal(10,2)": "dec", "decimal(12,3)": "dec", "string": "str"}

LITERALS = {"int": "2", "dec": "1.25", "str": "'a'", "bool": "true", "dbl": "CAST(1 AS DOUBLE)"}


@dataclass(frozen=True, slots=True)
class Col:
    """A column that can be read here: its spelling, and its kind (int, dec, str, bool, dbl)."""

    sql: str
    kind: str


@dataclass(frozen=True, slots=True)
class Query:
    """A query's text and its columns by name."""

    sql: str
    columns: tuple[Col, ...]


def random_script(seed: int, batches: int) -> Script:
    """Return the script of a seed: its first refresh loads, `batches` more bring changes."""
    rng = Random(seed)
    writer = _Writer(rng, {table.name: _columns(table) for table in TABLES})
    first = writer.view()
    views = [View("v", first.sql)]
    if rng.random() < 0.15:
        # The second view reads the first one, whose rows stand for a table's.
        writer = _Writer(rng, {"v": first.columns, "r": _columns(TABLES[0])})
        views.append(View("w", writer.view().sql))
    text = " ".join(view.sql for view in views)
    read = {table.name for table in TABLES if f" {table.name} AS " in text}
    return Script(f"seed {seed}", TABLES, tuple(views), random_stream(rng, batches, read))


def _columns(table: Table) -> tuple[Col, ...]:
    return tuple(Col(name, KINDS[type_name]) for name, type_name in table.columns)


class _Writer:
    """Writes one random view; `relations` are the tables it may read."""

    def __init__(self, rng: Random, relations: dict[str, tuple[Col, ...]]) -> None:
        self.rng = rng
        self.relations = relations
        self.ctes: dict[str, tuple[Col, ...]] = {}
        self.aliases = self.names = 0
        self.budget = rng.choice((1, 1, 2, 2, 2, 3, 3, 4))
        """How many more sources the query may name."""
        self.reads = 0
        """How often the view reads a table, CTEs written out: its program grows with it."""
        self.cte_reads: dict[str, int] = {}

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def view(self) -> Query:
        """Return a query, perhaps with CTEs."""
        written: list[str] = []
        if self.chance(0.2):
            for number in range(self.rng.choice((1, 1, 2))):
                before = self.reads
                inner = self.query(2)
                columns = inner.columns
                header = f"cte{number}"
                if self.chance(0.3):
                    columns = tuple(Col(f"h{i}", c.kind) for i, c in enumerate(columns))
                    header += f"({', '.join(c.sql for c in columns)})"
                self.ctes[f"cte{number}"] = columns
                self.cte_reads[f"cte{number}"] = self.reads - before
                written.append(f"{header} AS ({inner.sql})")
            self.budget, self.reads = max(self.budget, 2), 0
        body = self.query(3)
        return Query(f"WITH {', '.join(written)} {body.sql}" if written else body.sql, body.columns)

    def query(self, depth: int) -> Query:
        """Return a query whose derived tables nest at most `depth` deep."""
        choice = self.rng.random()
        if choice < 0.12:
            return self.union(depth)
        if choice < 0.18:
            return self.window(depth)
        if choice < 0.24:
            return self.set_operation(depth)
        if choice < 0.31:
            plain = self.select(depth)
            return Query(plain.sql.replace("SELECT", "SELECT DISTINCT", 1), plain.columns)
        if choice < 0.36:
            return self.grouping_sets(depth)
        if choice < 0.62:
            return self.aggregate(depth)
        if choice < 0.68 and depth == 3:
            return self.global_aggregate(depth)
        if choice < 0.73:
            return self.limited(depth)
        return self.select(depth)

    # FROM and WHERE

    def source(self, depth: int) -> tuple[str, tuple[Col, ...]]:
        """Return one item of FROM and its columns, qualified by its alias."""
        self.aliases += 1
        alias = f"{self.rng.choice(('p', 'q', 'm'))}{self.aliases}"
        usable = [n for n in self.ctes if self.reads + self.cte_reads[n] <= MOST_READS]
        if usable and self.chance(0.7):
            name = self.rng.choice(usable)
            columns = self.ctes[name]
            self.reads += self.cte_reads[name]
        elif depth > 0 and self.budget > 0 and self.chance(0.4):
            inner = self.query(depth - 1)
            return f"({inner.sql}) AS {alias}", _qualified(inner.columns, alias)
        else:
            name = self.rng.choice(list(self.relations))
            columns = self.relations[name]
            self.reads += 1
        self.budget -= 1
        return f"{name} AS {alias}", _qualified(columns, alias)

    def from_where(self, depth: int) -> tuple[str, tuple[Col, ...]]:
        """Return FROM ... [WHERE ...] and the columns it offers."""
        text, columns = self.source(depth)
        where: list[str] = []
        count = self.rng.choices((1, 2, 3, 4), (10, 7, 3, 1))[0]
        merged = False
        for number in range(1, min(count, self.budget + 1)):
            more, right = self.values() if self.chance(0.12) else self.source(depth)
            style = self.rng.random()
            if style < 0.15 and number == 1 and _has_k(columns) and _has_k(right):
                text += f" JOIN {more} USING (k)"
                merged = True
            elif style < 0.45:
                where.append(self.match(columns, right))
                text += f", {more}"
            elif style < 0.5:
                text += f" CROSS JOIN {more}"
            elif style < 0.78:
                kind = self.rng.choice(("LEFT", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"))
                condition = self.match(columns, right)
                if self.chance(0.3):
                    condition += f" AND {self.predicate((*columns, *right))}"
                text += f" {kind} JOIN {more} ON {condition}"
                if kind.startswith("LEFT "):
                    continue
            else:
                condition = self.match(columns, right)
                if self.chance(0.2):
                    condition += f" AND {self.predicate((*columns, *right))}"
                text += f" {self.rng.choice(('JOIN', 'INNER JOIN'))} {more} ON {condition}"
            merged = merged and (number == 1 or not _has_k(right))
            columns = (*columns, *right)
        if self.chance(0.12) and ", " not in text:
            # After a comma DuckDB would make rows of the last source alone.
            view, made = self.lateral_view(columns)
            text, columns = text + view, (*columns, *made)
        if merged:
            columns = (*columns, Col("k", "int"))
        if self.chance(0.4):
            where.append(self.predicate(columns))
        if depth > 0 and self.budget > 0 and self.reads < MOST_READS and self.chance(0.25):
            where.append(self.subquery(columns))
        return f"FROM {text}{' WHERE ' + ' AND '.join(where) if where else ''}", columns

    def values(self) -> tuple[str, tuple[Col, ...]]:
        """Return rows that the query lists itself."""
        self.aliases += 1
        columns = (Col("i", "int"), Col("w", "str"))
        rows = "(1, 'a'), (2, NULL), (NULL, 'xy'), (2, 'b')"
        return f"VALUES {rows} AS l{self.aliases}(i, w)", _qualified(columns, f"l{self.aliases}")

    def lateral_view(self, columns: tuple[Col, ...]) -> tuple[str, tuple[Col, ...]]:
        """Return a LATERAL VIEW that makes several rows of one, or none."""
        self.aliases += 1
        kind = self.rng.choice(("int", "str"))
        one, two = (self.expression(kind, columns, 0) for _ in range(2))
        made = f"array({one}, {two})" if kind == "int" else f"split({one}, 'b')"
        if self.chance(0.3):
            made = f"filter(array({one}, {two}), e -> e > {LITERALS[kind]})"
        word = self.rng.choice(("VIEW", "VIEW OUTER"))
        alias = f"g{self.aliases}"
        return f" LATERAL {word} explode({made}) {alias} AS e", (Col(f"{alias}.e", kind),)

    def match(self, left: tuple[Col, ...], right: tuple[Col, ...]) -> str:
        """Return an equality between two sides; a weaker condition if no kinds fit."""
        kind = self.rng.choice(("int", "int", "int", "str", "dec"))
        lefts, rights = _of(left, kind), _of(right, kind)
        if not lefts or not rights:
            return self.predicate((*left, *right))
        sign = "<=>" if self.chance(0.1) else "="
        return f"{self.rng.choice(lefts).sql} {sign} {self.rng.choice(rights).sql}"

    def subquery(self, columns: tuple[Col, ...]) -> str:
        """Return a condition with a subquery, tied to the row outside or not."""
        origin, inner = self.source(0)
        link = self.match(columns, inner)
        extra = f" AND {self.predicate((*columns, *inner), 0)}" if self.chance(0.3) else ""
        tied = f" WHERE {link}{extra}"
        kind = self.rng.choice(
            [c.kind for c in inner if c.kind in ("int", "str", "dec")] or ["int"]
        )
        mine, theirs = self.expression(kind, columns, 0), self.expression(kind, inner, 0)
        number = self.expression("int", columns, 0)
        loose = tied if self.chance(0.3) else ""
        other = self.predicate(columns, 0)
        total = self.rng.choice(("sum", "max", "count", "min"))
        value = self.expression("int", inner, 0)
        own = self.rng.choice(inner).sql
        counts = f"SELECT count(*) AS n FROM {origin}{tied} GROUP BY {own}"
        condition = self.rng.choice(
            (
                f"EXISTS (SELECT {own} FROM {origin}{tied} GROUP BY {own} HAVING count(*) > 1)",
                f"NOT EXISTS (SELECT 1 FROM {origin}{tied} HAVING count(*) = 1)",
                f"{number} IN (SELECT max({value}) FROM {origin}{tied} GROUP BY {own})",
                f"{number} <= (SELECT max(n) FROM ({counts}) AS g)",
                f"{number} < (SELECT {value} AS v FROM {origin}{tied} ORDER BY v LIMIT 1)",
                f"EXISTS (SELECT 1 FROM {origin}{tied})",
                f"NOT EXISTS (SELECT * FROM {origin}{tied})",
                f"{mine} IN (SELECT {theirs} FROM {origin}{loose})",
                f"{mine} NOT IN (SELECT {theirs} FROM {origin}{loose})",
                f"{number} < (SELECT {total}({value}) FROM {origin}{tied})",
                f"{number} < (SELECT {total}({value}) FROM {origin})",
            )
        )
        return f"({condition} OR {other})" if self.chance(0.15) else condition

    # Expressions

    def expression(self, kind: str, columns: tuple[Col, ...], depth: int = 2) -> str:
        """Return an expression of a kind over some columns."""
        found = _of(columns, kind)
        plain = self.rng.choice(found).sql if found else LITERALS[kind]
        if depth == 0 or kind == "dbl" or self.chance(0.5):
            return plain
        if kind == "bool":
            return self.predicate(columns, depth - 1)
        other = self.expression(kind, columns, depth - 1)
        forms = {
            "int": (
                f"{plain} + 1",
                f"{plain} - {other}",
                f"-{plain}",
                f"2 * {plain}",
                f"abs({other})",
                f"{plain} % 3",
                f"greatest({plain}, {other})",
                f"length({self.expression('str', columns, 0)})",
                f"element_at(array({other}, {plain}), 2)",
            ),
            "dec": (f"{plain} + 1", f"{plain} - {other}", f"-{plain}", f"least({plain}, {other})"),
            "str": (
                f"upper({plain})",
                f"{plain} || 'x'",
                f"lower({other})",
                f"substring({plain}, 1, 1)",
                f"CAST({self.expression('int', columns, 0)} AS STRING)",
                f"CAST({self.expression('dec', columns, 0)} AS STRING)",
            ),
        }[kind]
        general = (
            f"coalesce({plain}, {LITERALS[kind]})",
            f"nullif({plain}, {LITERALS[kind]})",
            f"CASE WHEN {self.predicate(columns, 0)} THEN {plain} ELSE {other} END",
        )
        return self.rng.choice((*forms, *general))

    def predicate(self, columns: tuple[Col, ...], depth: int = 1) -> str:
        """Return a condition over some columns."""
        flags = _of(columns, "bool")
        if flags and self.chance(0.3):
            flag = self.rng.choice(flags).sql
            return self.rng.choice((flag, f"NOT {flag}", f"{flag} = true"))
        if depth > 0 and self.chance(0.3):
            one, two = self.predicate(columns, depth - 1), self.predicate(columns, depth - 1)
            return self.rng.choice((f"({one} OR {two})", f"({one} AND {two})", f"NOT ({one})"))
        kinds = [c.kind for c in columns if c.kind in ("int", "dec", "str")]
        kind = self.rng.choice(kinds or ["int"])
        value = self.expression(kind, columns, 0)
        if kind == "str":
            return self.rng.choice(
                (f"{value} LIKE '%b%'", f"{value} IN ('a', 'xy')", f"{value} > 'a'")
            )
        if kind == "dec" and self.chance(0.2):
            # The text of a number depends on its type, and so on the other arms of a union.
            return f"CAST(coalesce({value}, 1) AS STRING) LIKE '%.00'"
        return self.rng.choice(
            (
                f"{value} > 0",
                f"{value} < 2",
                f"{value} <> 1",
                f"{value} IS NULL",
                f"{value} IS NOT NULL",
                f"{value} IN (1, 2)",
                f"{value} BETWEEN 0 AND 2",
                f"{value} IS DISTINCT FROM 1",
            )
        )

    # SELECT

    def select(self, depth: int, kinds: tuple[str, ...] | None = None) -> Query:
        """Return SELECT expressions FROM ...; `kinds` says which, if it is an arm of a UNION."""
        origin, columns = self.from_where(depth)
        if kinds is None:
            available = sorted(
                {c.kind for c in columns} | ({"bool"} if self.chance(0.3) else set())
            )
            kinds = tuple(self.rng.choice(available) for _ in range(self.rng.randint(1, 4)))
        chosen = [self.flag(columns) if k == "bool" else self.expression(k, columns) for k in kinds]
        listed, outputs = self.listed(list(zip(chosen, kinds, strict=True)))
        return Query(f"SELECT {listed} {origin}", outputs)

    def listed(self, items: list[tuple[str, str]]) -> tuple[str, tuple[Col, ...]]:
        """Return a select list and its columns; no name occurs twice in a view."""
        outputs: list[Col] = []
        for _, kind in items:
            self.names += 1
            outputs.append(Col(f"c{self.names}", kind))
        pairs = zip(items, outputs, strict=True)
        return ", ".join(f"{sql} AS {c.sql}" for (sql, _), c in pairs), tuple(outputs)

    def flag(self, columns: tuple[Col, ...]) -> str:
        """Return a truth value without parentheses around it, as people write them."""
        one, two = self.predicate(columns, 0), self.predicate(columns, 0)
        return self.rng.choice((one, f"{one} OR {two}", f"{one} AND {two}", f"NOT {one}"))

    def union(self, depth: int) -> Query:
        first = self.select(depth)
        kinds = tuple(c.kind for c in first.columns)
        text = first.sql
        for _ in range(self.rng.choice((1, 1, 2))):
            # An integer arm takes the decimal type of the others.
            wanted = tuple("int" if k == "dec" and self.chance(0.3) else k for k in kinds)
            arm = self.select(max(depth - 1, 0), wanted)
            text += f" {self.rng.choice(('UNION ALL', 'UNION ALL', 'UNION'))} {arm.sql}"
        return Query(text, first.columns)

    def set_operation(self, depth: int) -> Query:
        first = self.select(depth)
        kinds = tuple(c.kind for c in first.columns)
        second = self.select(max(depth - 1, 0), kinds)
        word = self.rng.choice(("INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        return Query(f"{first.sql} {word} {second.sql}", first.columns)

    def limited(self, depth: int) -> Query:
        """Return the first rows of a query, in an order that may leave ties open."""
        inner = self.aggregate(depth) if self.chance(0.4) else self.select(depth)
        by = self.rng.choice(inner.columns).sql
        order = self.rng.choice((f" ORDER BY {by}", f" ORDER BY {by} DESC", ""))
        skipped = " OFFSET 1" if self.chance(0.3) else ""
        return Query(f"{inner.sql}{order} LIMIT {self.rng.randint(1, 4)}{skipped}", inner.columns)

    def window(self, depth: int) -> Query:
        """Return a query with window functions; rows with equal sort keys may differ in them."""
        origin, columns = self.from_where(depth)
        plain = [c for c in columns if c.kind in ("int", "str", "dec")] or [Col("1", "int")]
        part, order = self.rng.choice(plain), self.rng.choice(plain)
        if self.chance(0.15):
            part = Col(self.flag(columns), "bool")
        number = self.expression("int", columns, 0)
        over = f"OVER (PARTITION BY {part.sql} ORDER BY {order.sql})"
        whole = f"OVER (PARTITION BY {part.sql})"
        functions = (
            f"rank() {over}",
            f"dense_rank() {over}",
            f"sum({number}) {over}",
            f"count(*) {whole}",
            f"max({number}) {whole}",
            f"row_number() {over}",
            f"lag({number}) {over}",
            f"sum({number}) {over[:-1]} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            f"rank() OVER (ORDER BY {order.sql})",
            f"count({number}) OVER ()",
        )
        shown = self.rng.choice(plain)
        items = [(shown.sql, shown.kind), (self.rng.choice(functions), "int")]
        listed, outputs = self.listed(items)
        tail = f" QUALIFY rank() {over} = 1" if self.chance(0.35) else ""
        return Query(f"SELECT {listed} {origin}{tail}", outputs)

    def measure(self, columns: tuple[Col, ...]) -> tuple[str, str]:
        """Return one aggregate call, or an expression over some, and its kind."""
        kind = self.rng.choice(sorted({c.kind for c in columns} - {"bool"}) or ["int"])
        value = self.expression(kind, columns, 1)
        number = self.expression("int", columns, 1)
        calls = [
            ("count(*)", "int"),
            (f"count({value})", "int"),
            (f"sum({number})", "int"),
            (f"avg({number})", "dbl"),
            (f"min({value})", kind),
            (f"max({value})", kind),
            (f"count(DISTINCT {value})", "int"),
            (f"sum(DISTINCT {number})", "int"),
            (f"sum({number}) + count(*)", "int"),
            (f"max({number}) - min({number})", "int"),
            (f"sum({number}) FILTER (WHERE {self.predicate(columns, 0)})", "int"),
            (f"CASE WHEN count(*) > 1 THEN sum({number}) ELSE 0 END", "int"),
            (f"count({self.flag(columns)})", "int"),
        ]
        if kind in ("dec", "dbl"):
            calls += [(f"sum({value})", kind)] * 3
        if self.chance(0.15):
            calls = rare_calls(value, kind, number, self.expression("str", columns, 0))
        return self.rng.choice(calls)

    def aggregate(self, depth: int) -> Query:
        origin, columns = self.from_where(depth)
        count = self.rng.choice((1, 1, 2))
        offered = sorted({c.kind for c in columns} - {"dbl"}) or ["dbl"]
        kinds = ["bool" if self.chance(0.1) else self.rng.choice(offered) for _ in range(count)]
        keys = [
            self.flag(columns)
            if kind == "bool"
            else self.expression(kind, columns, self.rng.choice((0, 0, 1)))
            for kind in kinds
        ]
        shown = [(key, kind) for key, kind in zip(keys, kinds, strict=True) if self.chance(0.85)]
        measures = [self.measure(columns) for _ in range(self.rng.choice((0, 1, 1, 2, 3)))]
        items = shown + measures or [self.measure(columns)]
        listed, outputs = self.listed(items)
        taken = {column.sql.rpartition(".")[2] for column in columns}
        by = self.group_by(keys, len(shown), outputs, taken)
        text = f"SELECT {listed} {origin} GROUP BY {by}"
        if self.chance(0.2):
            text += f" HAVING {self.having(columns)}"
        return Query(text, outputs)

    def grouping_sets(self, depth: int) -> Query:
        """Return a query grouped by several sets of columns at once."""
        origin, columns = self.from_where(depth)
        # A column without its source is another name of one of them.
        able = [c for c in columns if c.kind != "dbl" and "." in c.sql]
        if not able:
            listed, outputs = self.listed([self.measure(columns)])
            return Query(f"SELECT {listed} {origin} GROUP BY {columns[0].sql}", outputs)
        keys = self.rng.sample(able, min(len(able), self.rng.choice((1, 2, 2))))
        names = [key.sql for key in keys]
        shown = [(key.sql, key.kind) for key in keys if self.chance(0.85)]
        items = [*shown, *set_marks(self.rng, names), self.measure(columns)]
        listed, outputs = self.listed(items)
        text = f"SELECT {listed} {origin} GROUP BY {set_clause(self.rng, names)}"
        if self.chance(0.2):
            text += f" HAVING {self.having(columns)}"
        return Query(text, outputs)

    def group_by(
        self, keys: list[str], shown: int, columns: tuple[Col, ...], taken: set[str]
    ) -> str:
        """Return the keys as expressions, or by position, alias or ALL if all are shown.

        A name that the sources have, too, means theirs: it is `taken`.
        """
        if shown == len(keys):
            style = self.rng.random()
            if style < 0.15:
                return "ALL"
            if style < 0.3:
                return ", ".join(str(i + 1) for i in range(len(keys)))
            aliases = [column.sql for column in columns[: len(keys)]]
            if style < 0.4 and not taken.intersection(aliases):
                return ", ".join(aliases)
        return ", ".join(keys)

    def having(self, columns: tuple[Col, ...]) -> str:
        number = self.expression("int", columns, 0)
        return self.rng.choice(
            ("count(*) > 1", f"sum({number}) > 1", f"min({number}) < 2", f"count({number}) = 1")
        )

    def global_aggregate(self, depth: int) -> Query:
        origin, columns = self.from_where(depth)
        items = [self.measure(columns) for _ in range(self.rng.choice((1, 2, 3)))]
        listed, outputs = self.listed(items)
        text = f"SELECT {listed} {origin}"
        if self.chance(0.05):
            text += f" HAVING {self.having(columns)}"
        return Query(text, outputs)


def _qualified(columns: tuple[Col, ...], alias: str) -> tuple[Col, ...]:
    return tuple(Col(f"{alias}.{c.sql}", c.kind) for c in columns)


def _has_k(columns: tuple[Col, ...]) -> bool:
    return any(column.sql.endswith(".k") for column in columns)


def _of(columns: tuple[Col, ...], kind: str) -> list[Col]:
    return [column for column in columns if column.kind == kind]
