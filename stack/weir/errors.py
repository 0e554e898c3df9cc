"""Errors that the command reports in one line."""

import typer


class WeirError(Exception):
    """Ends the command with one clear line on standard error and an exit status.

    `hint` tells the user what to do about the error; it is printed on a line of its own.
    """

    def __init__(self, text: str, *, hint: str = "", status: int = 2) -> None:
        super().__init__(text)
        self.hint = hint
        self.status = status

    def show(self) -> None:
        """Print the error and its hint for the user."""
        typer.echo(f"weir: {self}", err=True)
        if self.hint:
            typer.echo(f"      {self.hint}", err=True)
