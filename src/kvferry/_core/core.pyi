"""The typed contract of the native core. Functions return codes (0 or an errno); callers raise.

Its parts are stubs alone: at run time all names stand in core.
"""

from .disk import *  # noqa: F403
from .far import *  # noqa: F403
from .leases import *  # noqa: F403
from .memory import *  # noqa: F403
from .peers import *  # noqa: F403
from .quant import *  # noqa: F403
from .spans import *  # noqa: F403
from .store import *  # noqa: F403
from .transfers import *  # noqa: F403
from .yardsticks import *  # noqa: F403
