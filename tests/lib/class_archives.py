"""Archive the classes that Kafka and the jobs load, for the stacks under test: each then starts in half the time.

`make test` calls this after it has built the jobs again.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from harness import BUILT, RunningStack, run
from weir.demo_traffic import write_capture


def main() -> None:
    """Run a stack on a small capture, and let Java record the classes that it loads."""
    os.environ["WEIR_CLASS_ARCHIVES"] = "record"
    with RunningStack() as stack, tempfile.TemporaryDirectory(prefix="weir-") as folder:
        capture = Path(folder) / "any.pcap"
        packets = write_capture(capture, packets=4_000, seconds=40)
        stack.enrol("any")
        stack.read("any", capture)
        stack.settled("any", packets)
        (BUILT / "java").mkdir(exist_ok=True)
        for service in ("kafka", "flink"):
            archive = BUILT / "java" / f"{service}.jsa"
            archive.unlink(missing_ok=True)
            done = run(["jcmd", str(stack.pid(service)), "VM.cds", "dynamic_dump", str(archive)], timeout=300)
            assert archive.exists(), done.out + done.err


if __name__ == "__main__":
    main()
