"""Whether to trust the host's clock for ages: data dropped for its age is gone, even if the clock was wrong.

A round notes its time in a file. If the next one finds the clock days ahead of that, the clock was set, or the store
was off; it cannot tell which. A wrong clock is usually corrected within the hour, so the service trusts ages again once
the clock has run for a day.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from weir.storage.times import DAY_S

#: A clock that is further ahead of the last round than this may be wrong: rounds come every ten minutes, or from a daily timer.
_LEAP_S = 2 * DAY_S


def leap_s(file: Path, now: float, before: float | None) -> float:
    """Seconds that the clock leapt ahead less than a day ago; 0 if it did not. Notes this round in `file`. before: the
    last known reading of the clock before this round, if the file has none. After two leaps, the seconds of both.
    """
    last, leapt, ahead = before, None, 0.0
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted = json.loads(file.read_text())
        last, leapt, ahead = noted["last"], noted["leapt"], noted["ahead"]
    if last is not None and now - last > _LEAP_S:
        # Not from one leap to another: the first may have been wrong.
        leapt, ahead = now, now - last + (ahead if leapt is not None else 0.0)
    elif leapt is not None and not leapt <= now < leapt + DAY_S:
        leapt = None  # it was set back, or has run for a day
    _note(file, {"last": now, "leapt": leapt, "ahead": ahead})
    return ahead if leapt is not None else 0.0


def trust(file: Path, now: float) -> None:
    """Note that the clock is right, whatever it was before."""
    _note(file, {"last": now, "leapt": None, "ahead": 0.0})


def _note(file: Path, state: dict[str, float | None]) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(state))
    new.rename(file)
