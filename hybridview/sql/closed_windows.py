"""first_value, last_value, nth_value and collect_list over RANGE frames -> without open ties.

Such a frame ends with all rows that are equal to its last one in the order, so a further sort key
would change the frame. Instead the value itself breaks ties: with the sort keys o and the value x

    last_value(x) OVER (ORDER BY o RANGE ...) = (max((o, x)) OVER (ORDER BY o RANGE ...)).x

which is the last row's value in one of the orders that Spark may choose. Where the frame ends with
the rows that are equal to the current one, it is max(x) OVER (PARTITION BY o). For IGNORE NULLS
rows without a value are left out. A list is sorted by (o, x) after it was collected. The n-th row
from the start of the partition is the same for all rows, once as many rows are in the frame:

    nth_value(x, n) OVER (ORDER BY o) =
      CASE WHEN count(*) OVER (ORDER BY o) >= n THEN nth_value(x, n) OVER (ORDER BY o, all rows) END

The text is edited between its tokens and never rebuilt from a parsed tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from hybridview.sql.brackets import closing, commas_of
from hybridview.sql.parse import DIALECT

FIRST = frozenset({"first", "first_value"})
LAST = frozenset({"last", "last_value"})
LISTS = frozenset({"collect_list", "array_agg"})
ALL_ROWS = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def with_closed_frames(query: str) -> str:
    """Return a query's text in which no value of a RANGE frame depends on the order of ties."""
    query = _with_first_for_any(query)
    tokens = list(Dialect.get_or_raise(DIALECT).tokenize(query))
    edits: list[tuple[int, int, str]] = []
    for index in range(len(tokens) - 1):
        found = _read(query, tokens, index)
        text = _closed(found) if found is not None else None
        if found is not None and text is not None:
            edits.append((found.start, found.end, text))
    for start, end, text in sorted(edits, reverse=True):
        # An edit inside another one is lost with the text around it.
        if not any(s < start and end < e for s, e, _ in edits):
            query = query[:start] + text + query[end:]
    return query


def _with_first_for_any(query: str) -> str:
    """Let any_value(x) OVER (...) be the first value: in a window it is the same function."""
    tokens = list(Dialect.get_or_raise(DIALECT).tokenize(query))
    for index in reversed(range(len(tokens) - 1)):
        token = tokens[index]
        close = closing(tokens, index + 1) if token.text.lower() == "any_value" else None
        qualified = index > 0 and tokens[index - 1].token_type is TokenType.DOT
        if close is None or qualified or tokens[index + 1].token_type is not TokenType.L_PAREN:
            continue
        if _over(tokens, close)[0] is not None:
            query = query[: token.start] + "first_value" + query[token.end + 1 :]
    return query


def _over(tokens: list[Token], close: int) -> tuple[int | None, bool]:
    """Return the place of the OVER of a call, if it has one, and whether NULLs are ignored."""
    words, over = [], close + 1
    while over < len(tokens) and tokens[over].text.lower() in ("ignore", "respect", "nulls"):
        words.append(tokens[over].text.lower())
        over += 1
    found = over + 1 < len(tokens) and tokens[over].token_type is TokenType.OVER
    return (over if found else None), "ignore" in words


@dataclass(frozen=True, slots=True)
class _Key:
    """A sort key of a window."""

    text: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class _Call:
    """A call with its window, as far as it is of the kind that is closed here."""

    start: int
    end: int
    name: str
    value: str
    place: str
    """The second argument of nth_value."""
    skips: bool
    """Whether it ignores NULLs."""
    partition: str
    order: str
    keys: tuple[_Key, ...]
    frame: tuple[str, ...]
    """The words of the frame, in upper case; () if there are none."""
    frame_text: str


def _read(query: str, tokens: list[Token], index: int) -> _Call | None:
    """Read `name(value) [IGNORE NULLS] OVER ([PARTITION BY ...] ORDER BY ... [RANGE ...])`."""
    name = tokens[index].text.lower()
    qualified = index > 0 and tokens[index - 1].token_type is TokenType.DOT
    if name not in FIRST | LAST | LISTS | {"nth_value"} or qualified:
        return None
    if tokens[index + 1].token_type is not TokenType.L_PAREN:
        return None
    close = closing(tokens, index + 1)
    if close is None or close < index + 3:
        return None
    over, ignoring = _over(tokens, close)
    if over is None:
        return None
    last = closing(tokens, over + 1)
    if tokens[over + 1].token_type is not TokenType.L_PAREN or last is None:
        return None
    given = _arguments(query, tokens, index + 1, close)
    clauses = _clauses(query, tokens, over + 1, last)
    if given is None or clauses is None:
        return None
    value, second, skips = given
    if name != "nth_value":
        skips, second = skips or second == "true", ""
    start, end = tokens[index].start, tokens[last].end + 1
    return _Call(start, end, name, value, second, skips or ignoring, *clauses)


def _arguments(
    query: str, tokens: list[Token], opening: int, close: int
) -> tuple[str, str, bool] | None:
    """Return the value, the second argument in lower case, and whether NULLs are ignored."""
    commas = commas_of(tokens, opening, close)
    if len(commas) > 1:
        return None
    last = (commas[0] if commas else close) - 1
    words = [t.text.lower() for t in tokens[last - 1 : last + 1]]
    treated = words in (["ignore", "nulls"], ["respect", "nulls"])
    last -= 2 * treated
    inner = (TokenType.OVER, TokenType.SELECT, TokenType.DISTINCT)
    if last <= opening or any(t.token_type in inner for t in tokens[opening:close]):
        return None
    second = query[tokens[commas[0]].end + 1 : tokens[close].start].strip() if commas else ""
    value = query[tokens[opening + 1].start : tokens[last].end + 1]
    return value, second.lower(), treated and words[0] == "ignore"


def _clauses(
    query: str, tokens: list[Token], opening: int, close: int
) -> tuple[str, str, tuple[_Key, ...], tuple[str, ...], str] | None:
    """Return PARTITION BY, ORDER BY, its keys, the words of the frame, and its text."""
    starts = {TokenType.PARTITION_BY, TokenType.ORDER_BY, TokenType.ROWS, TokenType.RANGE}
    depth, places = 0, list[int]()
    for at in range(opening + 1, close):
        depth += tokens[at].token_type is TokenType.L_PAREN
        depth -= tokens[at].token_type is TokenType.R_PAREN
        if depth == 0 and tokens[at].token_type in starts:
            places.append(at)
    kinds = [tokens[at].token_type for at in places]
    if (
        TokenType.ORDER_BY not in kinds
        or (places[0] != opening + 1)
        or len(set(kinds)) < len(kinds)
    ):
        return None
    texts: dict[TokenType, str] = {}
    frame: tuple[str, ...] = ()
    keys: tuple[_Key, ...] | None = ()
    for at, after in zip(places, [*places[1:], close], strict=True):
        kind = tokens[at].token_type
        texts[kind] = query[tokens[at].start : tokens[after - 1].end + 1]
        if kind is TokenType.ORDER_BY:
            keys = _keys(query, tokens, at, after)
        elif kind in (TokenType.ROWS, TokenType.RANGE):
            frame = tuple(t.text.upper() for t in tokens[at:after])
    if keys is None:
        return None
    framed = texts.get(TokenType.RANGE, texts.get(TokenType.ROWS, ""))
    partition = texts.get(TokenType.PARTITION_BY, "")
    return partition, texts[TokenType.ORDER_BY], keys, frame, framed


def _keys(query: str, tokens: list[Token], at: int, after: int) -> tuple[_Key, ...] | None:
    """Read the keys of ORDER BY; None if one has something else in it than an expression."""
    stops = [at, *commas_of(tokens, at, after), after]
    found: list[_Key] = []
    for start, stop in pairwise(stops):
        first, last = start + 1, stop - 1
        words = [t.text.lower() for t in tokens[first:stop]]
        nulls = words[-1] if words[-2:-1] == ["nulls"] else ""
        last -= 2 * bool(nulls)
        direction = tokens[last].token_type
        descending = direction is TokenType.DESC
        last -= direction in (TokenType.ASC, TokenType.DESC)
        if last < first or any(
            t.token_type in (TokenType.SELECT, TokenType.OVER) for t in tokens[first : last + 1]
        ):
            return None
        text = query[tokens[first].start : tokens[last].end + 1]
        found.append(_Key(text, descending, nulls == "first" if nulls else not descending))
    return tuple(found)


def _closed(call: _Call) -> str | None:
    """Return the call without open ties; None if it has none, or they cannot be closed here."""
    bounds = _bounds(call)
    if bounds is None:
        return None
    starts, ends = bounds
    from_start = starts == ("UNBOUNDED", "PRECEDING")
    if from_start and ends == ("UNBOUNDED", "FOLLOWING"):
        return None
    if call.name == "nth_value":
        return _nth(call) if from_start and call.place.isdigit() else None
    if call.name in FIRST and from_start and ends == ("CURRENT", "ROW") and not call.skips:
        return None  # further sort keys do no harm
    listed = call.name in LISTS
    extreme = "max" if call.name in LAST else "min"
    if (
        not listed
        and not call.skips
        and (ends if call.name in LAST else starts) == ("CURRENT", "ROW")
    ):
        alike = ", ".join(key.text for key in call.keys)
        parts = f"{call.partition}, {alike}" if call.partition else f"PARTITION BY {alike}"
        return f"{extreme}({call.value}) OVER ({parts})"
    if len({key.descending for key in call.keys}) > 1:
        return None
    # The last of rows in descending order is the smallest of them.
    function = "max" if (call.name in LAST) is not call.keys[0].descending else "min"
    fields: list[str] = []
    for place, key in enumerate(call.keys):
        usual = key.nulls_first is not key.descending
        null = "IS NOT NULL" if usual else "IS NULL"
        fields += [f"'n{place}', ({key.text}) {null}", f"'k{place}', {key.text}"]
    fields += [f"'n', ({call.value}) IS NOT NULL", f"'v', {call.value}"]
    both = f"named_struct({', '.join(fields)})"
    if call.skips or listed:
        both = f"CASE WHEN ({call.value}) IS NOT NULL THEN {both} END"
    if listed:
        forward = "false" if call.keys[0].descending else "true"
        sorted_list = f"sort_array({call.name}({both}) OVER ({_window(call)}), {forward})"
        return f"transform({sorted_list}, __hv_e -> __hv_e.v)"
    return f"({function}({both}) OVER ({_window(call)})).v"


def _bounds(call: _Call) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return both ends of a RANGE frame; None if it is of another kind."""
    if not call.frame:
        return ("UNBOUNDED", "PRECEDING"), ("CURRENT", "ROW")
    kind, *words = call.frame
    if kind != "RANGE":
        return None
    if words[:1] != ["BETWEEN"]:
        return tuple(words), ("CURRENT", "ROW")
    # A bound of its own kind may have an AND in it.
    if words.count("AND") != 1:
        return None
    middle = words.index("AND")
    return tuple(words[1:middle]), tuple(words[middle + 1 :])


def _nth(call: _Call) -> str:
    counted = f"({call.value})" if call.skips else "(*)"
    window = " ".join(part for part in (call.partition, call.order, ALL_ROWS) if part)
    treated = " IGNORE NULLS" if call.skips else ""
    value = f"nth_value({call.value}, {call.place}){treated} OVER ({window})"
    many = f"count{counted} OVER ({_window(call)}) >= {call.place}"
    return f"CASE WHEN {many} THEN {value} END"


def _window(call: _Call) -> str:
    return " ".join(part for part in (call.partition, call.order, call.frame_text) if part)
