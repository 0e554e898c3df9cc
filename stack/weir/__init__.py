"""The command `weir`: runs every part of Weir on one machine, as ordinary processes on the loopback interface."""

__version__ = "0.1.0"
