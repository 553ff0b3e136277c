"""A process with SmolLM2 and its prefixes in a store, which answers prompts."""

from __future__ import annotations

from typing import Any

import kvferry as kf
from kvferry.testing import Parent


def load(folder: str, dtype: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()


def worker(parent: Parent, folder: str, dtype: str, address: str) -> None:
    """Hears prompts, and tells what was generated and how much of it was hit."""
    from kvferry.connectors.transformers import Prefixes

    with kf.Store(address) as store:
        prefixes = Prefixes(load(folder, dtype), store)
        parent.tell("ready")
        for prompt in parent:
            output, report = prefixes.generate(prompt, do_sample=False, max_new_tokens=6)
            parent.tell({"tokens": output[0].tolist(), "hit": report.hit, "kept": report.kept})
