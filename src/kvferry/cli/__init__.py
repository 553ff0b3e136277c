"""The command ``kvferry``: doors only. Each command imports what it needs when it is called."""

from .app import main

__all__ = ["main"]
