"""KV of Hugging Face transformers in a store: prompts that begin alike are computed once.

prefixes   Prefixes: restore, save, generate
pages      a DynamicCache as pages of blocks
weights    what stored KV is of: config and weights
adapters   which of them is active, and with which weights
refused    models and arguments that KV cannot be kept of

Needs torch and transformers: who imports it without them gets UsageError (no_torch,
no_transformers).
"""

from importlib import import_module

from ...errors import UsageError

__all__ = ["Prefixes", "Report"]

for _name in ("torch", "transformers"):
    try:
        import_module(_name)
    except (ImportError, OSError) as error:
        raise UsageError(
            f"no {_name} ({error}): pip install torch transformers", cause=f"no_{_name}"
        ) from error

from .prefixes import Prefixes, Report  # noqa: E402, what they import is there
