"""The vendor's engine moves the bytes: an adapter to the `hixl` Python module.

here       |#### region ####|                 registered with HIXL here
               | HIXL's own connection, over its fabric or RDMA
owner      |#### region ####|                 registered with HIXL there, reached by its addresses

kvferry finds the peer, proves it and says what lies where; HIXL, one engine of it beside each of
ours, does the rest. Three rules of HIXL show through. It moves registered memory only, at both
ends. A connection shows what was registered before it was made. And it cannot stop one transfer.

    driver   the half of one engine         link         the half of one channel
    module   what is used of `hixl`         connections  one to each engine of the vendor's
    memory   what is registered, and since  requests     what is under way, and who asks
"""

from .driver import HixlDriver

__all__ = ["HixlDriver"]
