"""Ctrl-C while Spark works: its jobs are cancelled, and the work ends as if interrupted.

PySpark's own handler calls into the JVM from the middle of another call on the same connection,
which now and then turns the interrupt into an error of the connection. Here the first Ctrl-C is
only noted; a thread with a connection of its own cancels the jobs, so that the running statement
fails cleanly. A second one does not wait for that.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

AGAIN = 0.2
"""Seconds between two cancellations: a statement that was being planned starts its jobs later."""


@contextmanager
def interruptible(cancel: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Run a block that ends with KeyboardInterrupt if Ctrl-C was pressed during it.

    Yields a function that says whether it was. Outside the main thread, where Python delivers no
    signals, the block runs as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    pressed, over = threading.Event(), threading.Event()

    def keep_cancelling() -> None:
        while True:
            with suppress(Exception):  # the session may be gone already
                cancel()
            if over.wait(AGAIN):
                return

    def note_it(*_: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        threading.Thread(target=keep_cancelling, daemon=True).start()

    before = signal.signal(signal.SIGINT, note_it)
    try:
        yield pressed.is_set
    except Exception:
        if not pressed.is_set():
            raise
    finally:
        over.set()
        signal.signal(signal.SIGINT, before or signal.default_int_handler)
    if pressed.is_set():
        raise KeyboardInterrupt
