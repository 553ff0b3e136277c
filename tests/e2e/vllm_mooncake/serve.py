"""One vLLM engine with its own MooncakeStoreConnector, in a process of its own.

python serve.py MODEL FD

reads prompts from stdin, a line of JSON each: {"prompt": [token], "tokens": n}, and answers each
at FD with {"tokens": [token], "text": text, "cached": n}.

MOONCAKE_CONFIG_PATH names the store; without it the engine has no connector. The first line that it
writes is {"ready": true}. A prompt of null forgets what this engine has cached by itself.
"""

from __future__ import annotations

import json
import os
import sys

BLOCK = 32


def main(model: str, answers: str) -> None:
    from vllm import LLM, SamplingParams
    from vllm.config import KVTransferConfig

    store = "MOONCAKE_CONFIG_PATH" in os.environ
    connector = KVTransferConfig(kv_connector="MooncakeStoreConnector", kv_role="kv_both")
    llm = LLM(
        model=model,
        dtype="float32",  # in bf16 a text depends on how the prompt was cut into steps
        block_size=BLOCK,
        enforce_eager=True,
        max_model_len=1024,
        max_num_seqs=4,
        max_num_batched_tokens=1024,
        disable_hybrid_kv_cache_manager=True,
        **({"kv_transfer_config": connector} if store else {}),
    )
    out = os.fdopen(int(answers), "w")
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["prompt"] is None:
            answer = {"forgotten": llm.reset_prefix_cache()}
        else:
            greedy = SamplingParams(temperature=0, max_tokens=request["tokens"])
            (done,) = llm.generate({"prompt_token_ids": request["prompt"]}, greedy, use_tqdm=False)
            (first,) = done.outputs
            answer = {
                "tokens": list(first.token_ids),
                "text": first.text,
                "cached": done.num_cached_tokens,
            }
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
