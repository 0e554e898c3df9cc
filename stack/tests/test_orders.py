"""Orders to agents, without Kafka."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from weir import audit, kafka, orders
from weir.config import Config, Stack
from weir.messages.control_pb2 import Order, SignedOrder


def test_orders_at_once_have_numbers_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Order] = []
    together = threading.Barrier(2)

    def newest(*_: Any) -> Order | None:
        last = published[-1] if published else None
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(0.3)  # whoever gets here beside another one has read the same order
        return last

    def publish(_brokers: Any, _topic: str, messages: list[tuple[str, bytes]]) -> int:
        published.append(Order.FromString(SignedOrder.FromString(messages[0][1]).order))
        return 1

    monkeypatch.setattr(orders, "newest", newest)
    monkeypatch.setattr(kafka, "publish", publish)
    monkeypatch.setattr(audit, "note", lambda *_: None)
    monkeypatch.setattr(orders.time, "time_ns", lambda: 5_000_000)
    stack = Stack(Config(), tmp_path)
    orders.public_key(stack)
    with ThreadPoolExecutor() as pool:
        issued = list(pool.map(lambda text: orders.issue(stack, "border", text, "somebody").number, ("", "[filters]")))
    assert sorted(issued) == [5, 6]
