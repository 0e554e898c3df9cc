"""Three fixes for Superset: quoting of names and zone of times in ClickHouse's dialect, and the parser of time
ranges."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any


def mend() -> None:
    """Quote names with double quotes, read times as UTC, and parse one time range at a time."""
    from clickhouse_connect.cc_sqlalchemy.dialect import ClickHouseDialect
    from clickhouse_connect.cc_sqlalchemy.sql.preparer import ChIdentifierPreparer
    from superset.db_engine_specs.clickhouse import ClickHouseBaseEngineSpec

    def double_quoted(name: str) -> str:
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    # Drill to detail compares a calculated column quoted by the dialect with one quoted by Superset: with the dialect's
    # backticks they never match, and Superset does not find the column.
    class DoubleQuotes(ChIdentifierPreparer):  # type: ignore[misc]
        quote_identifier = staticmethod(double_quoted)

        def _quote_raw_identifier(self, value: str) -> str:
            return str(self._escape_percents(double_quoted(value)))

    ClickHouseDialect.preparer = DoubleQuotes

    # The server reads a time without a zone in its own zone.
    plain = ClickHouseBaseEngineSpec.convert_dttm.__func__

    def in_utc(cls: Any, target_type: str, dttm: datetime, db_extra: dict[str, Any] | None = None) -> str | None:
        text: str | None = plain(cls, target_type, dttm, db_extra)
        return text[:-1] + ", 'UTC')" if text and text.startswith("toDateTime(") else text

    ClickHouseBaseEngineSpec.convert_dttm = classmethod(in_utc)

    # The parser of time ranges keeps state in its grammar: if two threads parse at once, one may fail.
    from superset.utils import date_parser

    parse, alone = date_parser.datetime_eval, threading.Lock()

    def one_at_a_time(text: str | None = None) -> datetime | None:
        with alone:
            moment: datetime | None = parse(text)
        return moment

    date_parser.datetime_eval = one_at_a_time
