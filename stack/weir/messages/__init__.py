"""The messages that `weir` itself writes, generated from `schemas/`; a test says how to make them anew."""
