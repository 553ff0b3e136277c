"""What paged KV costs: the block manager's steps, beside those of vLLM in a process of its own, and
scattered pages between two processes, beside what the engine makes of the same bytes.
"""

from .asked import Vllm, parse_peer
from .run import PagedResult, measure_paged

__all__ = ["PagedResult", "Vllm", "measure_paged", "parse_peer"]
