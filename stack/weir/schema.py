"""Makes `clickhouse/weir_schema` importable: the package that reads the store's files is in the same folder as they
are."""

from __future__ import annotations

import sys

from weir.config import CHECKOUT

sys.path.append(str(CHECKOUT / "clickhouse"))

from weir_schema import files, hourly, retention
from weir_schema.cluster import Cluster, on_cluster

__all__ = ["Cluster", "files", "hourly", "on_cluster", "retention"]
