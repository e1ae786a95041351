"""A text that leaves the program -> the same text without credentials.

Two ways: values that are known to be secret, because a Spark setting with a secret name holds them,
are removed wherever they stand; everything else is recognised by its form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "***"

_WORD = (
    r"(?:passw(?:or)?d|passphrase|pwd|secrets?|token|credentials?"
    r"|(?:account|access|secret|private|shared|master|storage|encryption|api)[._-]?key)"
)
_SECRET_NAME = re.compile(rf"{_WORD}|[._]sas(?:[._]|$)", re.IGNORECASE)
_HARMLESS_NAME = re.compile(r"(?:provider|type|class|path|file|enabled|length)$", re.IGNORECASE)

_VALUE = r"(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s,;&|)}\]\"'`]+)"
_FAMILY = r"(?:spark|fs|hadoop|hive|dfs|aws|azure|google|gcs|s3|s3a|javax|com|io|org|databricks)"
# `o.token = 5` compares a column; only names that start like settings count in these forms.
_SETTING = re.compile(
    rf"(?<![\w.])(?P<name>{_FAMILY}\.[\w.-]+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"
    rf"(?P<sep>[\"'`]?\s*(?:=|->|:(?!//)|(?<!\s),(?!\s))\s*)(?P<value>{_VALUE})"
)

_LEAST_KNOWN = 6
"""A known secret shorter than this is not searched for: it would tear holes into ordinary words."""

_known: set[str] = set()


def _keep_name(found: re.Match[str]) -> str:
    """Mask the value of a setting if its name is one of a secret."""
    if not is_secret(found["name"]):
        return found[0]
    return f"{found['name']}{found['sep']}{MASK}"


_FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    # A key in a text that was cut off has no end.
    (re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL), MASK),
    # s3a://key:secret@bucket: the secret may hold slashes, and there is no port.
    (re.compile(r"(?i)\b(s3[an]?://)[^\s/:@\"']{0,200}:[^\s@\"'<>]{1,200}@"), rf"\1{MASK}@"),
    (re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*://)[^\s/:@\"']*:[^\s/@\"']+@"), rf"\1{MASK}@"),
    (re.compile(r"(?i)(jdbc:oracle:\w{1,20}:)[^\s/@\"']{1,200}/[^\s@\"']{1,200}@"), rf"\1{MASK}@"),
    (
        re.compile(
            r"(?i)([?&](?:sig|signature|sas|AWSAccessKeyId|GoogleAccessId|Key-Pair-Id"
            r"|X-Amz-[\w-]+|X-Goog-[\w-]+)=)[^&\s\"'`<>)\]}]+"
        ),
        rf"\1{MASK}",
    ),
    # A signature outside of an address counts by its length: `sig=5` is an assignment.
    (re.compile(r"(?i)\b(sig=)[\w%+/=-]{20,}"), rf"\1{MASK}"),
    # "password": "...", {secret -> ...}, token=...: the last word of the name says what it is.
    (re.compile(rf"(?i)([\"'][\w.-]*{_WORD}[\"']\s*:\s*){_VALUE}"), rf"\1{MASK}"),
    (re.compile(rf"(?i)(?<![\w.-])([\w.-]*{_WORD}(?:=|\s*->\s*)){_VALUE}"), rf"\1{MASK}"),
    (re.compile(rf"(?i)\b(passw(?:or)?d\s*:\s*){_VALUE}"), rf"\1{MASK}"),
    (re.compile(r"(?i)\b(Bearer|Basic)\s+[\w.~+/=-]{16,}"), rf"\1 {MASK}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MASK),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), MASK),
    (re.compile(r"\bdapi[0-9a-f]{32}(?:-\d+)?\b"), MASK),
)


def is_secret(name: str) -> bool:
    """Say whether a setting of that name holds a secret."""
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS_NAME.search(name)


def learn(settings: Mapping[str, str]) -> None:
    """Remember the values of settings with secret names; no text shows them from now on."""
    for name, value in settings.items():
        if is_secret(name) and len(str(value)) >= _LEAST_KNOWN:
            _known.add(str(value))


def redact(text: str) -> str:
    """Return a text with all credentials masked; a text without any comes back as it is."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, MASK)
    for pattern, replacement in _FORMS:
        text = pattern.sub(replacement, text)
    return _SETTING.sub(_keep_name, text)


def redact_all(value: Any, exact: Iterable[str] = ()) -> Any:
    """Redact every text in nested dictionaries and lists, but for what keys in `exact` hold."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {k: v if k in exact else redact_all(v, exact) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [redact_all(item, exact) for item in value]
    return value
