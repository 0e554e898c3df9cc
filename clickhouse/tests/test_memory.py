"""Readers' shares of the memory."""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack

import pytest
from weir_clickhouse.errors import ServerError
from weir_clickhouse.memory import Memory


@pytest.mark.parametrize("places", [1, 3, 24, 48])
def test_small_shares_never_need_more_than_their_part(places: int) -> None:
    memory = Memory(1 << 30)
    choose = random.Random(places)
    for _ in range(20):
        with ExitStack() as stack:
            shares = [stack.enter_context(memory.small()) for _ in range(choose.randint(1, places))]
            assert shares == sorted(shares, reverse=True)
            assert min(shares) > 0
            assert sum(shares) <= 0.15 * (1 << 30)
    with memory.small() as first:
        assert first == int(0.15 * (1 << 30)) // 8


def _wants(memory: Memory, name: str, share: int, got: list[str], alone: str = "") -> threading.Thread:
    """A thread that waits for a large share, and is in the queue."""

    def want() -> None:
        with memory.large(share, alone):
            got.append(name)

    before = memory.waiting
    thread = threading.Thread(target=want)
    thread.start()
    while memory.waiting == before:
        time.sleep(0.001)
    return thread


def test_large_shares_are_given_in_the_order_of_arrival() -> None:
    memory = Memory(1 << 30, patience=60)
    got: list[str] = []
    with memory.large(memory.most // 2 + 1):
        # There is room for the second, which came later.
        threads = [_wants(memory, "first", memory.most, got), _wants(memory, "second", memory.most // 4, got)]
        assert got == []
    for thread in threads:
        thread.join()
    assert got == ["first", "second"]


def test_a_user_who_may_have_one_share_keeps_no_other_waiting() -> None:
    memory = Memory(1 << 30, patience=60)
    got: list[str] = []
    with memory.large(memory.most // 4, "fjord"):
        again = _wants(memory, "fjord again", memory.most // 4, got, "fjord")
        with memory.large(memory.most // 4, "harbour"):
            assert got == []
    again.join()
    assert got == ["fjord again"]


def test_waiting_ends() -> None:
    memory = Memory(1 << 30, patience=0.05)
    with memory.large(memory.most), pytest.raises(ServerError, match="need much memory") as raised, memory.large(1):
        pass
    assert raised.value.code == 202
    # The one that gave up is not waited for.
    with memory.large(memory.most):
        pass
