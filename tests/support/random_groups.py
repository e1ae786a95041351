"""Random GROUP BY clauses with several sets of keys, and aggregates that are never added up."""

from __future__ import annotations

from random import Random


def set_clause(rng: Random, keys: list[str]) -> str:
    """Return a GROUP BY clause over different keys; no set of them occurs twice."""
    listed = ", ".join(keys)
    others = [*(f"({key})" for key in keys if len(keys) > 1), "()"]
    # All keys first: grouping_id() names them in the order in which they occur.
    chosen = [f"({listed})", *rng.sample(others, rng.randint(1, len(others)))]
    forms = [f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS ({', '.join(chosen)})"]
    if len(keys) > 1:
        # Twice, because two keys are rare.
        forms += [f"{keys[0]}, ROLLUP ({', '.join(keys[1:])})"] * 2
    return rng.choice(forms)


def set_marks(rng: Random, keys: list[str]) -> list[tuple[str, str]]:
    """Return what tells the sets apart, to be shown: none, one key's mark, or the set's number."""
    marks = [(f"grouping({rng.choice(keys)})", "int"), (f"grouping_id({', '.join(keys)})", "int")]
    return rng.sample(marks, rng.choice((0, 0, 1, 2)))


def rare_calls(value: str, kind: str, number: str, text: str) -> list[tuple[str, str]]:
    """Return aggregate calls without parts that could be added up, and their kinds."""
    calls = [
        (f"median({number})", "dbl"),
        (f"bit_or({number})", "int"),
        (f"bit_xor({number})", "int"),
        (f"count(DISTINCT {value}, {number})", "int"),
        (f"max_by({number}, struct(({value}), ({number})))", "int"),
        (f"array_join(sort_array(collect_list({text})), '-')", "str"),
        (f"round(var_pop({number}), 6)", "dbl"),
    ]
    return calls if kind != "bool" else [(f"mode({number}, true)", "int"), *calls[:3]]
