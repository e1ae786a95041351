"""hybridview: SQL views on Delta Lake, kept up to date incrementally, by recompute, or both."""

from hybridview.errors import HybridviewError
from hybridview.schema import Executed, Strategy
from hybridview.store import Store

__all__ = ["Executed", "HybridviewError", "Store", "Strategy"]
__version__ = "0.1.0"
