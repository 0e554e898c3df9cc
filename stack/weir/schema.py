"""What the store consists of is told beside it, in `clickhouse/weir_schema`: this finds it."""

from __future__ import annotations

import sys

from weir.config import CHECKOUT

sys.path.append(str(CHECKOUT / "clickhouse"))

from weir_schema import files, retention
from weir_schema.cluster import Cluster, on_cluster

__all__ = ["Cluster", "files", "on_cluster", "retention"]
