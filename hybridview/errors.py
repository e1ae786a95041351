"""Everything a user can do wrong, or meet: a fact, a detail, a hint, and a stable code."""

from __future__ import annotations

import shlex
from typing import ClassVar

from hybridview.redact import redact


def command(*words: str) -> str:
    """Return a command of ours that can be pasted into a shell, whatever the names in it."""
    return shlex.join(["hybridview", *words])


def run(*words: str) -> str:
    """Return a hint that can be pasted into a shell."""
    return f"Run: {command(*words)}"


class HybridviewError(Exception):
    """The root of every error a user sees; `code` is stable and documented."""

    code: ClassVar[str] = "HV000"
    exit_code: ClassVar[int] = 2

    def __init__(self, fact: str, *, detail: str = "", hint: str = "", where: str = "") -> None:
        # Texts of Spark may quote settings and addresses with credentials in them.
        self.fact = redact(fact)
        self.detail = redact(detail)
        self.hint = redact(hint)
        self.where = redact(where)
        super().__init__(self.fact)

    def __str__(self) -> str:
        lines = [f"error {self.code}: {self.fact}"]
        if self.where:
            lines.append(f"at: {self.where}")
        if self.detail:
            lines.append(f"detail: {self.detail}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, str]:
        return {
            "code": self.code,
            "fact": self.fact,
            "detail": self.detail,
            "hint": self.hint,
            "where": self.where,
        }


# HV1xx: the definition of a view is wrong.


class SyntaxFault(HybridviewError):
    """The SQL text does not parse."""

    code = "HV101"


class UnknownTableError(HybridviewError):
    """A view names a table that the store does not know."""

    code = "HV102"


class UnknownColumnError(HybridviewError):
    """A view names a column that its tables do not have."""

    code = "HV103"


class NameTakenError(HybridviewError):
    """A table or view of that name exists already."""

    code = "HV104"


class ReservedNameError(HybridviewError):
    """A name that hybridview or the change feed needs for itself."""

    code = "HV105"


class CycleError(HybridviewError):
    """Views that would read each other in a circle."""

    code = "HV106"


class NonDeterministicError(HybridviewError):
    """A function whose answer changes although no table did."""

    code = "HV107"


class RejectedQueryError(HybridviewError):
    """Spark's own analysis refuses the query."""

    code = "HV108"


class NotASelectError(HybridviewError):
    """The text is not one SELECT or CREATE MATERIALIZED VIEW statement."""

    code = "HV109"


class ColumnNamesError(HybridviewError):
    """The view's columns have missing or repeated names."""

    code = "HV110"


class UnstorableTypeError(HybridviewError):
    """A column's type cannot be stored in a Delta table."""

    code = "HV111"


class UnsupportedSourceError(HybridviewError):
    """A source that is neither a Delta table nor a view of the store."""

    code = "HV112"


class BadPropertyError(HybridviewError):
    """An unknown property, or a value it does not take."""

    code = "HV113"


class UnsafeQueryError(HybridviewError):
    """A query that runs programs: Java by reflection, a script, or a name put together at will."""

    code = "HV114"


# HV2xx: a table or the store itself is not as it should be.


class StoreMissingError(HybridviewError):
    """There is no store in that folder."""

    code = "HV201"


class StoreFormatError(HybridviewError):
    """The store was written by a newer hybridview."""

    code = "HV202"


class ReadOnlyStoreError(HybridviewError):
    """The store's folder cannot be written."""

    code = "HV203"


class NotDeltaError(HybridviewError):
    """A source that is not a Delta table."""

    code = "HV204"


class NoChangeFeedError(HybridviewError):
    """A base table whose change data feed is off."""

    code = "HV205"


class TableMissingError(HybridviewError):
    """A registered base table is gone."""

    code = "HV206"


class TableReplacedError(HybridviewError):
    """A registered base table was replaced by another one."""

    code = "HV207"


class KeyViolationError(HybridviewError):
    """A declared key that the table's rows do not keep."""

    code = "HV208"


class InUseError(HybridviewError):
    """Something that others still depend on."""

    code = "HV209"


class UnknownViewError(HybridviewError):
    """The store has no view of that name."""

    code = "HV210"


class NotRefreshedError(HybridviewError):
    """A view that was never refreshed has no rows to read."""

    code = "HV211"


class EpochGoneError(HybridviewError):
    """An older state whose files, or whose log, are gone."""

    code = "HV212"


class OutsideStoreError(HybridviewError):
    """A folder of the store that leads out of it."""

    code = "HV213"


# HV3xx: a refresh cannot do what was asked.


class NotIncrementalError(HybridviewError):
    """`--strategy incremental` on a view, or a change, that has no incremental plan."""

    code = "HV301"
    exit_code = 1


class RaceLostError(HybridviewError):
    """Another process refreshed the same store first."""

    code = "HV302"
    exit_code = 1


class RefreshFailedError(HybridviewError):
    """Spark failed while a view was being refreshed; the old rows stay."""

    code = "HV303"
    exit_code = 1


class CorruptionError(HybridviewError):
    """A stored table does not hold the rows a change takes away."""

    code = "HV304"
    exit_code = 1


class BusyError(HybridviewError):
    """Another process is refreshing the store, and it takes longer than one would wait."""

    code = "HV305"
    exit_code = 1


class BlockedError(HybridviewError):
    """A column that a view uses was renamed, dropped or retyped."""

    code = "HV306"
    exit_code = 1


# HV4xx: the machine or the command line.


class NoJavaError(HybridviewError):
    """Spark needs Java and there is none."""

    code = "HV401"


class UsageError(HybridviewError):
    """The command cannot be understood."""

    code = "HV402"


class ReadOnlyQueryError(HybridviewError):
    """`hybridview sql` runs queries only."""

    code = "HV403"


class EngineError(HybridviewError):
    """The warm engine does not start, or is not what it should be."""

    code = "HV404"
