"""Makes importable what is beside the store's files: `clickhouse/weir_schema`, which reads them, and the form of the
embedded store's audit."""

from __future__ import annotations

import sys

from weir.config import CHECKOUT

sys.path.append(str(CHECKOUT / "clickhouse"))
sys.path.append(str(CHECKOUT / "clickhouse/embedded"))

from weir_clickhouse import chain, notations
from weir_schema import files, hourly, retention
from weir_schema.cluster import Cluster, on_cluster

__all__ = ["Cluster", "chain", "files", "hourly", "notations", "on_cluster", "retention"]
