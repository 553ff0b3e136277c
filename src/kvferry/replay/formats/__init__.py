"""Formats of traces: each reads a line, and tells whether a first line looks like its own."""

from .agentic import AGENTIC
from .azure import AZURE
from .bailian import BAILIAN
from .form import Format
from .mooncake import MOONCAKE

__all__ = ["FORMATS", "Format", "format_of"]

FORMATS = {form.name: form for form in (MOONCAKE, AGENTIC, AZURE, BAILIAN)}


def format_of(line: bytes) -> Format | None:
    """The format that a file is of which begins so."""
    return next((form for form in FORMATS.values() if form.fits(line)), None)
