"""chDB, ClickHouse's engine in a library, behind ClickHouse's HTTP interface.

Start reading at `http.py` (a request's way) and `engine.py` (a query's way); `lexer.py`, `statement.py` and
`refusals.py` decide which statements it refuses.
"""
