"""Credentials stay out of every text; texts without any stay as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from hybridview import Store, redact
from hybridview.catalog import RefreshRecord, ViewState
from hybridview.cli import output, render
from hybridview.engine.spark_errors import as_query_error, as_refresh_error, spark_errors
from hybridview.errors import UsageError
from hybridview.operations.context import Context
from hybridview.operations.status import StoreStatus, TableStatus

KEY = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
SIGNATURE = "Pz3%2FB4kQ6w1c0rYl0hXb5mXo3vGm8U9n2Zt7Qx1dJwE%3D"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASC\n-----END PRIVATE KEY-----"

SECRETS = {
    f"s3a://AKIAIOSFODNN7EXAMPLE:{KEY}@bucket/orders": "s3a://***@bucket/orders",
    "no https://ann:hunter2@host:8443/x, retry": "no https://***@host:8443/x, retry",
    "jdbc:postgresql://db/x?user=ann&password=hunter2": "jdbc:postgresql://db/x?user=ann&password=***",
    "jdbc:oracle:thin:scott/tiger@host:1521": "jdbc:oracle:thin:***@host:1521",
    "mongodb+srv://ann:hunter2@cluster.example/db": "mongodb+srv://***@cluster.example/db",
    f"https://acc.blob.core.windows.net/c/f?sv=2022-11-02&se=2026-01-01&sig={SIGNATURE}&sp=r": (
        "https://acc.blob.core.windows.net/c/f?sv=2022-11-02&se=2026-01-01&sig=***&sp=r"
    ),
    f"AccessSignature=sv=2022&sig={SIGNATURE}": "AccessSignature=sv=2022&sig=***",
    "https://b.s3.amazonaws.com/f?X-Amz-Credential=AKIA%2Fx&X-Amz-Signature=abc&partNumber=1": (
        "https://b.s3.amazonaws.com/f?X-Amz-Credential=***&X-Amz-Signature=***&partNumber=1"
    ),
    "https://b/f?AWSAccessKeyId=abcdef&Signature=x%3D&Expires=5": (
        "https://b/f?AWSAccessKeyId=***&Signature=***&Expires=5"
    ),
    "sc://host:15002/;token=abcdef;use_ssl=true": "sc://host:15002/;token=***;use_ssl=true",
    f"spark.hadoop.fs.s3a.secret.key={KEY}": "spark.hadoop.fs.s3a.secret.key=***",
    f"fs.azure.account.key.acc.dfs.core.windows.net = {ACCOUNT_KEY}": (
        "fs.azure.account.key.acc.dfs.core.windows.net = ***"
    ),
    f"Map(fs.s3a.access.key -> AKIA1, fs.s3a.secret.key -> {KEY}, fs.s3a.endpoint -> e)": (
        "Map(fs.s3a.access.key -> ***, fs.s3a.secret.key -> ***, fs.s3a.endpoint -> e)"
    ),
    "{password -> hunter2, user -> ann}": "{password -> ***, user -> ann}",
    f'{{"fs.s3a.secret.key": "{KEY}", "user": "ann"}}': '{"fs.s3a.secret.key": ***, "user": "ann"}',
    "{'client_secret': 'two words', 'id': 7}": "{'client_secret': ***, 'id': 7}",
    f"(spark.hadoop.fs.s3a.secret.key,{KEY})": "(spark.hadoop.fs.s3a.secret.key,***)",
    f"AWS_SECRET_ACCESS_KEY={KEY} AWS_REGION=eu": "AWS_SECRET_ACCESS_KEY=*** AWS_REGION=eu",
    f"DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={ACCOUNT_KEY};Suffix=x": (
        "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=***;Suffix=x"
    ),
    "javax.jdo.option.ConnectionPassword: hunter2": "javax.jdo.option.ConnectionPassword: ***",
    "The access key AKIAIOSFODNN7EXAMPLE does not exist": "The access key *** does not exist",
    f"Authorization: Bearer {JWT}": "Authorization: Bearer ***",
    f"token was {JWT}.": "token was ***.",
    "dapi0123456789abcdef0123456789abcdef is expired": "*** is expired",
    f"key: {PEM} end": "key: *** end",
    f"cut off: {PEM[:60]}": "cut off: ***",
    "api_key='a b'": "api_key=***",
}

ORDINARY = (
    'error HV103: there is no column "token"',
    "abfss://container@account.dfs.core.windows.net/warehouse/orders",
    "http://host:8080/a@b?page=2&key=7",
    "file:/tmp/it's a folder/tables/orders",
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `o`.`password` cannot be resolved. Did "
    "you mean one of the following? [`o`.`secret`, `o`.`id`].",
    "SELECT o.token, o.secret, count(*) AS n FROM orders o WHERE o.token = c.token AND sig = 5",
    "(token = 5) has no delta rule",
    "SET sig=5",
    "spark.sql.shuffle.partitions=4, spark.hadoop.fs.s3a.endpoint=http://minio:9000",
    "fs.s3a.aws.credentials.provider=com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
    "primary.key=id, partition_key=day, max_tokens=100",
    "orders@12 -> orders@30, version 7: 1,200 rows",
    "/data/secret/orders and views/passwords.sql:3:14",
    "38% of customers changed; merging costs more",
    "Run: hybridview refresh 'my view' --strategy snapshot",
    "ключ: значение, größe=5, 2026-11-16T05:30:00+00:00",
)


@pytest.mark.parametrize("text", SECRETS)
def test_credentials_are_masked(text: str) -> None:
    assert redact.redact(text) == SECRETS[text]
    assert redact.redact(SECRETS[text]) == SECRETS[text], "a masked text stays as it is"


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_texts_stay(text: str) -> None:
    assert redact.redact(text) == text


def test_a_long_text_takes_no_long_time() -> None:
    """Patterns that try every start against every end would take hours here."""
    for part in ("a", "a.", "A_", "token", "://", "'", "a:b@", "-----BEGIN ", "sig=", "s3://a:"):
        assert redact.redact(part * 30_000)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "_known", set())


def test_values_of_secret_settings_are_known(known: None) -> None:
    redact.learn({"spark.hadoop.fs.s3a.secret.key": "correct horse", "spark.app.name": "staple"})
    redact.learn({"my.password": "short"})
    text = "denied to 'correct horse' of staple, in short"
    assert redact.redact(text) == "denied to '***' of staple, in short"


def test_a_store_knows_the_secrets_of_its_settings(
    known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From hybridview.toml, from the environment, and from the session it is given."""

    class Port:
        def settings(self) -> dict[str, str]:
            return {"spark.hadoop.fs.azure.account.key.a": "from the session"}

    monkeypatch.setenv("AZURE_CLIENT_SECRET", "from the environment")
    monkeypatch.setenv("LANGUAGE_TOKEN", "not from a cloud")
    monkeypatch.setattr("hybridview.operations.context.port_of", lambda _: Port())
    context = Context(tmp_path, object(), {"spark.hadoop.fs.s3a.secret.key": "from the file"})
    context.port()
    text = "from the session, from the environment, from the file, not from a cloud"
    assert redact.redact(text) == "***, ***, ***, not from a cloud"


def test_errors_hold_no_credentials() -> None:
    uri = f"s3a://AKIAIOSFODNN7EXAMPLE:{KEY}@bucket/orders"
    error = UsageError(f"cannot read {uri}", detail=uri, hint=f"Use {uri}", where=uri)
    for text in (str(error), repr(error), json.dumps(error.as_dict()), *map(str, error.args)):
        assert KEY not in text and "s3a://***@bucket/orders" in text
    spark = Exception(f"[FAILED_READ] Cannot open {uri}. SQLSTATE: 42000")
    for found in (as_query_error(spark, "<sql>"), as_refresh_error("v", spark)):
        assert found.detail == "[FAILED_READ] Cannot open s3a://***@bucket/orders."


def test_history_holds_no_credentials(tmp_path: Path) -> None:
    """Not even where a text did not come from an error of ours; names stay what they are."""
    store = Store.open(tmp_path / "store")
    ledger = store._context.ledger
    name = "token=odd"
    state = ViewState(
        name, "id", None, "", {}, "failed", f"password={KEY}", error=f"sig={SIGNATURE}"
    )
    ledger.publish(RefreshRecord(1, "a", "hybrid", "", 0.0, (state,)), ledger.read().store_id)
    (record,) = store.history()
    (found,) = record.views
    assert (found.name, found.reason, found.error) == (name, "password=***", "sig=***")
    for path in (tmp_path / "store").rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()


def run_body(body: Any, as_json: bool = False) -> Any:
    app = typer.Typer()
    app.command()(lambda: output.guarded(body, as_json))
    return CliRunner().invoke(app, [])


def test_a_bug_report_holds_no_credentials() -> None:
    def body() -> int:
        secret = f"s3a://x:{KEY}@bucket"
        raise ZeroDivisionError(secret)

    result = run_body(body)
    assert result.exit_code == 3
    path = Path(result.output.split("with the file ")[1].strip())
    story = path.read_text(encoding="utf-8")
    try:
        assert "ZeroDivisionError: s3a://***@bucket" in story and KEY not in story + result.output
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        path.unlink()


def test_what_commands_print_holds_no_credentials() -> None:
    location = f"abfss://c@acc.dfs.core.windows.net/x?sig={SIGNATURE}"
    now = StoreStatus(location, 1, (TableStatus("t", location, 1),), ())

    def body() -> int:
        output.say(render.status(now, 200))
        output.note(location)
        typer.echo(render.as_json("status", {"status": now}))
        return 0

    result = run_body(body)
    assert result.exit_code == 0, result.output
    assert SIGNATURE not in result.output and result.output.count("?sig=***") == 5


def test_rows_and_definitions_are_printed_as_they_are() -> None:
    """A user's data and SQL are not ours to change; a log of ours about them is."""
    query = "SELECT * FROM t WHERE note = 'password=x'"
    data = {"columns": ["token=x"], "rows": [["password=x", None, 1.5]], "more": False}
    found = json.loads(render.as_json("rows", data))
    assert {key: found[key] for key in data} == data
    found = json.loads(render.as_json("view", {"query": query, "reason": query}))
    assert (found["query"], found["reason"]) == (
        query,
        "SELECT * FROM t WHERE note = 'password=***'",
    )

    def body() -> int:
        output.say_rows(["password=x"])
        return 0

    assert run_body(body).output == "password=x\n"


def test_a_spark_that_ended_is_told_as_such() -> None:
    found = as_refresh_error("v", ConnectionRefusedError(111, "Connection refused"))
    assert "Spark has ended" in str(found)
    assert ConnectionError in spark_errors()
