"""The command `weir`: runs every part of Weir on one machine, as real processes on loopback."""

__version__ = "0.1.0"
