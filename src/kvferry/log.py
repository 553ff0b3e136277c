"""Where kvferry says what happens: loggers below "kvferry", by which nothing can be changed.

A handler that raises would otherwise end the thread that told it something, or keep a channel from
ending. What it raised goes to standard error instead.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Any

__all__ = ["get"]

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class _Teller(_Adapter):
    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        try:
            # Past this frame, so that records name who called.
            self.logger.log(level, msg, *args, stacklevel=2, **kwargs)
        except Exception:
            traceback.print_exc()


def get(name: str) -> _Adapter:
    """The logger of this name, for modules of kvferry to tell things to."""
    return _Teller(logging.getLogger(name), {})
