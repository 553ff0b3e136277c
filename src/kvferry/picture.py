"""Pictures: which kinds of files there are, and the package that draws them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .errors import UsageError

__all__ = ["check_plot", "figure_module"]

SUFFIXES = (".png", ".svg", ".pdf")


def check_plot(file: Path) -> None:
    """Raises UsageError (plot), before anything is done, for a picture that cannot be drawn."""
    if file.suffix not in SUFFIXES:
        raise UsageError(f"cannot draw {file}: know {', '.join(SUFFIXES)}", cause="plot")
    figure_module()


def figure_module() -> Any:
    """matplotlib.figure, which draws without a screen. Raises UsageError (plot) without it."""
    try:
        from matplotlib import figure
    except ImportError:
        raise UsageError("--plot needs matplotlib: pip install matplotlib", cause="plot") from None
    return figure
