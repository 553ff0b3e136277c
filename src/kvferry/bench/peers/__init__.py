"""Other packages that move blocks, measured in the same run as kvferry.

Each runs in two processes of its own, its pair: nothing of it is imported here.

    bench process --+-- pipe --> initiator  [ side ] --.
                    |                                  |  the package moves blocks
                    '-- pipe --> target     [ side ] <-'
"""

from .asked import Asked, check_beside, parse_peers
from .beside import Beside, open_beside

__all__ = ["Asked", "Beside", "check_beside", "open_beside", "parse_peers"]
