"""The messages that `weir` itself writes, generated from `schemas/`; a test prints the command that generates them again."""
