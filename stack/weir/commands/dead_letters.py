"""`weir dead-letters`: messages that a reader refused."""

from __future__ import annotations

from typing import Annotated

import typer

from weir import dead_letters
from weir.commands import configured, console


def list_(limit: Annotated[int, typer.Option(help="Number of messages, newest last.")] = 20) -> None:
    """List refused messages with their causes, newest last.

    Example: weir dead-letters list
    """
    letters = list(dead_letters.read(configured().brokers))
    if letters:
        console.print(dead_letters.table(letters[-limit:]))
    console.print(f"{len(letters)} refused messages" if letters else "No refused messages.")


def replay(
    number: Annotated[int | None, typer.Option(help="Replay only this message, by its number in the list.")] = None,
    cause: Annotated[str | None, typer.Option(help="Replay only messages of this cause (its first word).")] = None,
) -> None:
    """Put refused messages back on their original topics, for a newer reader.

    The jobs refuse messages that they still cannot read, and recognise and drop those already stored.

    Example: weir dead-letters replay --cause major
    """
    stack = configured()
    letters = [
        letter
        for letter in dead_letters.read(stack.brokers)
        if number in (None, letter.offset) and cause in (None, letter.cause.split(":")[0])
    ]
    arrived = dead_letters.send_back(stack.brokers, letters)
    print(f"{arrived} of {len(letters)} messages put back")
    raise typer.Exit(0 if arrived == len(letters) else 1)
