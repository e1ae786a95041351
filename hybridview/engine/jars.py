"""Delta Lake's JARs on this machine: where Spark found them, so that it need not look again.

Spark resolves them at each start, with all they depend on, which takes about a second. The files
that it found are remembered, for the packages that were asked for, and used while all are there.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

PACKAGES = "spark.jars.packages"
JARS = "spark.jars"
OF_OTHERS = ("spark.jars", "spark.submit")
"""A user whose settings begin so resolves JARs in a way of his own."""
NO_OPTIONS = "pyspark-shell"
"""What PySpark's options of the command line are when there are none."""


def asked_for_elsewhere(settings: Mapping[str, str]) -> bool:
    """Say whether somebody has his own way to resolve JARs: then nothing is remembered, or used.

    Spark takes options of its command line and its file of defaults, too; and settings say nothing
    if this process has a Spark already.
    """
    from pyspark import SparkContext

    given: Any = SparkContext
    return (
        any(name.startswith(OF_OTHERS) for name in settings)
        or os.environ.get("PYSPARK_SUBMIT_ARGS", NO_OPTIONS).strip() not in ("", NO_OPTIONS)
        or given._active_spark_context is not None
        or given._gateway is not None
        or any(line.startswith(OF_OTHERS) for line in _defaults())
    )


def _defaults() -> list[str]:
    """Return the lines of Spark's own file of defaults, if there is one."""
    import pyspark

    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    folder = os.environ.get("SPARK_CONF_DIR") or str(Path(home) / "conf")
    with suppress(OSError, UnicodeDecodeError):
        text = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8")
        return [line.strip() for line in text.splitlines()]
    return []


def found_before(packages: str) -> str:
    """Return the files that packages were resolved to, as a setting; empty if that is not known."""
    try:
        place = _place()
        if not _is_ours(place.parent.lstat()):
            return ""
        with os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW)) as file:
            if not _is_ours(os.fstat(file.fileno())):
                return ""
            known = json.load(file)
        jars = known["jars"] if known["packages"] == packages else []
        if _hold(packages, jars) and all(_path(jar).is_file() for jar in jars):
            return ",".join(jars)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return ""


def remember(packages: str, jars: Sequence[str]) -> None:
    """Note where packages were found; if that does not work, they are looked for again."""
    with suppress(OSError, ValueError):
        if not _hold(packages, jars):
            return
        place = _place()
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Nobody can guess its name, and lead it elsewhere.
        number, draft = tempfile.mkstemp(dir=place.parent, prefix=f"{place.name}.")
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                json.dump({"packages": packages, "jars": list(jars)}, file)
            Path(draft).replace(place)
        finally:
            Path(draft).unlink(missing_ok=True)


def _hold(packages: str, jars: Sequence[str]) -> bool:
    """Say whether each package is among the files: a session may have been told of others."""
    names = [_path(jar).name for jar in jars]
    wanted = [package.split(":")[1:3] for package in packages.split(",")]
    return all(any(name.endswith(f"{'-'.join(own)}.jar") for name in names) for own in wanted)


def _is_ours(about: os.stat_result) -> bool:
    """Say whether nobody else can have written something: these files are run."""
    return about.st_uid == os.getuid() and not about.st_mode & 0o022


def _place() -> Path:
    """Return where the note is: in a folder of its own, that others cannot write to.

    Raises ValueError for a user without a home, as in some containers: there is no note then.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME") or "")
    try:
        # As its specification says, a relative one is none.
        cache = named if named.is_absolute() else Path.home() / ".cache"
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    return cache / "hybridview" / "jars" / "found.json"


def _path(jar: str) -> Path:
    """Return the file that Spark names by an address of this machine."""
    found = urlsplit(jar)
    if found.scheme not in ("", "file") or found.netloc:
        raise ValueError(f"{jar} is not on this machine")
    return Path(unquote(found.path))
