"""What the user is told in one line."""

import typer


class WeirError(Exception):
    """Ends the command with one clear line on standard error and an exit status.

    `hint` says what to do about it; it stands on a line of its own.
    """

    def __init__(self, text: str, *, hint: str = "", status: int = 2) -> None:
        super().__init__(text)
        self.hint = hint
        self.status = status

    def show(self) -> None:
        """Print the error as a person wants to read it."""
        typer.echo(f"weir: {self}", err=True)
        if self.hint:
            typer.echo(f"      {self.hint}", err=True)
