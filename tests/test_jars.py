"""Where Delta Lake's JARs were found is remembered, and forgotten when one of them is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from hybridview.engine import jars
from hybridview.engine.local import _packages

PACKAGES = "io.delta:delta-spark_4.2_2.13:4.4.0"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """JARs on this machine; what is remembered goes to a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    paths = [tmp_path / "a b" / "io.delta_delta-spark_4.2_2.13-4.4.0.jar", tmp_path / "b.jar"]
    paths[0].parent.mkdir()
    for path in paths:
        path.touch()
    return [paths[0].as_uri(), str(paths[1])]


def test_files_are_remembered_for_the_packages_that_were_asked_for(files: list[str]) -> None:
    assert jars.found_before(PACKAGES) == ""
    jars.remember(PACKAGES, files)
    assert jars.found_before(PACKAGES) == ",".join(files)
    assert jars.found_before(PACKAGES.replace("4.4.0", "4.4.2")) == ""


def test_a_file_that_is_gone_makes_spark_look_again(files: list[str]) -> None:
    jars.remember(PACKAGES, files)
    Path(files[1]).unlink()
    assert jars.found_before(PACKAGES) == ""


@pytest.mark.parametrize(
    "found", [[], [""], ["hdfs://there/a.jar"], ["file://there/a.jar"]], ids=str
)
def test_what_is_not_on_this_machine_is_not_used(files: list[str], found: list[str]) -> None:
    jars.remember(PACKAGES, found)
    assert jars.found_before(PACKAGES) == ""


@pytest.mark.parametrize("named", [[1], [None], 2, "b.jar", {"a": 1}], ids=str)
@pytest.mark.parametrize("text", ["", "[]", "{}", "no JSON", None])
def test_a_broken_note_is_no_note(files: list[str], text: str | None, named: Any) -> None:
    jars.remember(PACKAGES, files)
    note = json.dumps({"packages": PACKAGES, "jars": named}) if text is None else text
    jars._place().write_text(note)
    assert jars.found_before(PACKAGES) == ""


def test_a_note_of_somebody_else_is_not_believed(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jars.remember(PACKAGES, files)
    own = jars._place()
    kept = own.rename(own.with_name("kept.json"))
    own.symlink_to(kept)
    assert jars.found_before(PACKAGES) == "", "a link may lead anywhere"
    own.unlink()
    kept.rename(own)
    assert jars.found_before(PACKAGES) != ""
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert jars.found_before(PACKAGES) == ""


@pytest.mark.parametrize("folder", [False, True])
def test_a_note_that_others_may_write_is_not_believed(files: list[str], folder: bool) -> None:
    jars.remember(PACKAGES, files)
    note = jars._place()
    (note.parent if folder else note).chmod(0o777)
    assert jars.found_before(PACKAGES) == ""


def test_writing_a_note_follows_no_link(files: list[str], tmp_path: Path) -> None:
    """Whoever guesses the name of a draft may make it a link to a file of the user's."""
    jars.remember(PACKAGES, files)
    place, own = jars._place(), tmp_path / "diary"
    own.write_text("dear diary")
    for name in (place.name, f"{place.name}.{os.getpid()}"):
        place.with_name(name).unlink(missing_ok=True)
        place.with_name(name).symlink_to(own)
    jars.remember(PACKAGES, files)
    assert own.read_text() == "dear diary"
    assert jars.found_before(PACKAGES) == ",".join(files)


def test_a_cache_below_the_working_folder_is_none(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert jars._place() == tmp_path / "home/.cache/hybridview/jars/found.json"


def test_a_user_without_a_home_has_no_note(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError("could not determine a home directory")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    # Whoever may write there would put a file in the place of the device.
    monkeypatch.setattr(os, "devnull", str(tmp_path / "null"))
    jars.remember(PACKAGES, files)
    assert jars.found_before(PACKAGES) == ""
    assert not (tmp_path / "null").exists()


def test_files_without_the_package_are_not_remembered(files: list[str]) -> None:
    """A session that was told of other files says so of them, not of Delta Lake's."""
    jars.remember(PACKAGES, files[1:])
    assert not jars._place().exists()
    jars.remember(PACKAGES, files)
    jars._place().write_text(json.dumps({"packages": PACKAGES, "jars": files[1:]}))
    assert jars.found_before(PACKAGES) == ""


def test_who_resolves_jars_otherwise_is_left_alone(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not jars.asked_for_elsewhere({"spark.driver.memory": "1g"})
    assert jars.asked_for_elsewhere({"spark.jars.ivy": "/somewhere"})
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("# spark.jars none\nspark.driver.memory 1g\n")
    assert not jars.asked_for_elsewhere({})
    defaults.write_text("spark.driver.memory 1g\n  spark.jars=/opt/pg.jar\n")
    assert jars.asked_for_elsewhere({})
    defaults.unlink()
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    assert not jars.asked_for_elsewhere({})
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars /opt/pg.jar pyspark-shell")
    assert jars.asked_for_elsewhere({})
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    monkeypatch.setattr(SparkContext, "_gateway", object())
    assert jars.asked_for_elsewhere({}), "a Spark that runs already has JARs of its own"


def test_a_place_that_cannot_be_written_is_no_fault(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b.jar"))
    jars.remember(PACKAGES, files)
    assert jars.found_before(PACKAGES) == ""


def test_packages_of_the_user_are_asked_for_too() -> None:
    assert _packages("a:b:1, c:d:2").startswith("io.delta:delta-spark")
    assert _packages("a:b:1, c:d:2").endswith(":4.4.0,a:b:1,c:d:2")
    assert "," not in _packages("")


START = """
from hybridview.engine.local import start_local
port = start_local({"spark.driver.memory": "512m"})
port.run("CREATE TABLE delta.`t` USING delta AS SELECT 1 AS one")
print(port.run("SELECT * FROM delta.`t`"), port.spark.conf.get("spark.jars.packages", "none"))
port.stop()
"""


@pytest.mark.spark
def test_spark_starts_without_looking_for_them(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    found = spark.sparkContext.getConf().get("spark.jars").split(",")
    assert any("delta-spark" in name for name in found)
    jars.remember(_packages(""), found)
    words = [sys.executable, "-c", START.replace("delta.`t`", f"delta.`{tmp_path}/t`")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.split("\n")[0] == "[(1,)] none", done.stderr
    assert "resolving dependencies" not in next(tmp_path.glob("hybridview-spark-*.log")).read_text()
