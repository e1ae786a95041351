"""The session port over Spark Connect: a client of a server that others use at the same time."""

from __future__ import annotations

import atexit
import copy
import socket
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from hybridview.engine.later import import_connect
from hybridview.engine.session import OWN_SETTINGS, Session, SparkPort
from hybridview.errors import UsageError

LOOPBACK = "127.0.0.1"
"""This machine, and no name for it: `localhost` may be `::1` first, where anybody may listen."""
REMOTE = "spark.remote"
"""The setting that names a Spark Connect server, such as sc://localhost:15002."""
PATIENCE = 15
"""Seconds to wait for the server's first answer."""
RETRIES = 4
"""Of a call to a server on this machine: four seconds, where the client would take ten minutes."""


class ConnectPort(SparkPort):
    """A session on a Spark Connect server behind the port.

    Statements, settings and change feeds go the same way as in process. What differs is that a
    session has no `newSession`, that only its own statements can be cancelled, and that it lives
    on the server until it is released.
    """

    def __init__(
        self,
        spark: Any,
        owned: bool = False,
        near: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(spark, owned)
        self._near = near
        self._settings = dict(settings or {})
        """What the user set: a new session of the server knows nothing of it."""
        if near:
            _give_up_soon(spark.client)
        self._writers: list[ConnectPort] = []
        self._at_end: list[Callable[[], None]] = []
        if owned:
            # A channel that is still open when the interpreter goes away hangs in its destructor.
            atexit.register(spark.client.close)

    def set(self, settings: Mapping[str, str]) -> None:
        with warnings.catch_warnings():
            # The client repeats the server's log to the user, who did not choose these.
            warnings.simplefilter("ignore")
            super().set(settings)

    def writer(self) -> Session:
        """Return a session of its own on the same server: settings and views of neither leak."""
        client = self.spark.client
        connection = copy.deepcopy(client._builder)
        # A connection string may name its session; the writer must not get the same.
        connection.set("session_id", str(uuid.uuid4()))
        session = type(self.spark)(connection=connection, userId=client._user_id)
        port = ConnectPort(session, owned=True, near=self._near, settings=self._settings)
        port.set({**self._settings, **OWN_SETTINGS})
        self._writers.append(port)
        return port

    def cancel(self) -> None:
        """Cancel what this session and those made by it are running; nobody else's."""
        for port in (*self._writers, self):
            port.spark.interruptAll()

    def at_end(self, action: Callable[[], None]) -> None:
        """Have something done when the session is given back."""
        self._at_end.append(action)

    def job_count(self) -> int:
        """Return 0: a client is not told of the server's jobs."""
        return 0

    def stop(self) -> None:
        """Release the sessions that were made here; the server goes on."""
        for port in self._writers:
            port.stop()
        self._writers.clear()
        if self.owned:
            atexit.unregister(self.spark.client.close)
        super().stop()
        while self._at_end:
            self._at_end.pop()()


def port_of(spark: Any, owned: bool = False) -> SparkPort:
    """Return the port that suits a session: in process, or a client of a server.

    Told by the names of its classes, because importing Connect's needs packages that a session in
    process does without.
    """
    remote = any(c.__module__.startswith("pyspark.sql.connect") for c in type(spark).__mro__)
    return (ConnectPort if remote else SparkPort)(spark, owned)


def _give_up_soon(client: Any) -> None:
    """Have a client try a few times only: a server on this machine does not come back."""
    policies = client.get_retry_policies()
    client.set_retry_policies([type(policy)(max_retries=RETRIES) for policy in policies])


def _on_loopback(channel_builder: Any) -> Any:
    """Return a builder of channels to a server on this machine: to its address, not its name.

    A token goes with each call, and the name may lead to another process that listens there.
    """

    class OnLoopback(channel_builder):  # type: ignore[misc]
        @property
        def endpoint(self) -> str:
            return f"ipv4:{LOOPBACK}:{self._port}"

    return OnLoopback


def attach(url: str, settings: Mapping[str, str] | None = None, near: bool = False) -> ConnectPort:
    """Return a new session on a running Spark Connect server; `near` if it is on this machine."""
    try:
        channel_builder, session = import_connect()
    except ImportError as error:
        raise UsageError(
            "Spark Connect needs packages that are not installed",
            detail=f"{error}".splitlines()[0],
            hint="Run: pip install 'pyspark[connect]'",
        ) from None
    try:
        connection = (_on_loopback(channel_builder) if near else channel_builder)(url)
    except ValueError:  # its text would repeat the token
        raise UsageError(
            f"{REMOTE} is not the address of a Spark Connect server",
            hint="Write: sc://HOST:PORT, or sc://HOST:PORT/;token=TOKEN",
        ) from None
    try:
        # By itself the client would go on trying for ten minutes.
        host = LOOPBACK if near else connection.host
        socket.create_connection((host, connection._port), PATIENCE).close()
    except OSError:
        raise UsageError(
            f"no Spark Connect server answers at {connection.endpoint}",
            hint=f"Start it, or name another one in hybridview.toml: {REMOTE}",
        ) from None
    own = {n: v for n, v in (settings or {}).items() if n.startswith("spark.sql.")}
    port = ConnectPort(session(connection=connection), owned=True, near=near, settings=own)
    port.set(own)
    return port
