"""``python -m kvferry``: the command, where only the interpreter is at hand."""

from .cli import main

main()
