"""The native core: Python decides, this moves bytes. Imports nothing, returns codes."""

from .core import *  # noqa: F403
