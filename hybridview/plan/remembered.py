"""Values that take long to make, kept in memory by a key; those not used for long are dropped."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """At most `most` values; safe for several threads, which may make the same value twice."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.values: OrderedDict[str, T] = OrderedDict()
        self.lock = threading.Lock()

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return the value of a key; it is made if it is not there."""
        with self.lock:
            if key in self.values:
                self.values.move_to_end(key)
                return self.values[key]
        made = make()
        with self.lock:
            self.values[key] = made
            if len(self.values) > self.most:
                self.values.popitem(last=False)
        return made
