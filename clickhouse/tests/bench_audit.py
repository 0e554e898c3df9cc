"""What the audit adds to a statement and to an INSERT: `make bench-audit`. Prints the best of seven runs of 2,000 each."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedded"))

from weir_clickhouse.access import Role, User
from weir_clickhouse.audit import Audit
from weir_clickhouse.quotas import Spent
from weir_clickhouse.statement import parse

READER = User("analyst", Role("analyst", "", ("select",), ("weir.*",), readonly=True), ())
WRITER = User("writer", Role("writer", "", ("insert", "select"), ("weir.*",), readonly=False), ())
QUESTION = (
    "SELECT src, sum(octets) FROM v_flows WHERE src_addr = '192.0.2.7' AND ts > now() - INTERVAL 1 HOUR"
    f" GROUP BY src ORDER BY 2 DESC LIMIT 50 -- {'x' * 300}"
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        audit = Audit(Path(folder))
        audit.start()
        for user, text in ((READER, QUESTION), (WRITER, "INSERT INTO flows (a, b, c) FORMAT Native")):
            statement = parse(text.encode(), complete=True)
            runs = []
            for _ in range(7):
                begun = time.perf_counter()
                for _ in range(2000):
                    with audit.question(user, "192.0.2.1", lambda _: None, {}) as asked:
                        asked.read(statement, {})
                        asked.begin(Spent(), None)
                runs.append((time.perf_counter() - begun) / 2000)
            print(f"{statement.kind}: {min(runs) * 1e6:.1f} µs")
        audit.stop()
        octets = sum(file.stat().st_size for file in Path(folder).iterdir())
        print(f"a SELECT takes {octets / 14_000:.0f} octets, of which its text {len(QUESTION)}")


if __name__ == "__main__":
    main()
