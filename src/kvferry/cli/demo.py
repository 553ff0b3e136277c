"""``kvferry demo``."""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..config import from_environment
from ..errors import UsageError
from .writable import check_writable

if TYPE_CHECKING:
    from rich.console import Console

    from ..demo.show import Stage

__all__ = ["demo"]

DIFFERENT = 1
INTERRUPTED = 130
MOST_FURTHER = 4
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def demo(
    model: Annotated[
        Path | None,
        typer.Option(
            help="another llama, a GGUF file [default: SmolLM2-135M-Instruct, downloaded once]",
            show_default=False,
        ),
    ] = None,
    document: Annotated[
        Path | None,
        typer.Option(help="a text of yours to ask about [default: ours]", show_default=False),
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(help="a question of yours about it; more than once [default: ours]"),
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, max=4096, help="of an answer, at most")] = 24,
    questions: Annotated[
        int, typer.Option(min=0, max=MOST_FURTHER, help="more of them, at once, at the end")
    ] = 0,
    watch: Annotated[
        bool, typer.Option("--watch", help="open the store's live page, and stay until Enter")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="draw the handover and the times: a PNG, SVG or PDF file")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="write all figures to this file")] = None,
) -> None:
    """Serve a small language model with two workers and a store, and compare.

    One worker computes prompts, the other one answers; KV goes from one to the other layer by layer
    and to the store, where a second conversation about the same text finds it. Then both are
    computed again without any of this: every token has to be the same, else the status is 1.
    """
    with _interruptible():
        _demo(model, document, ask or [], tokens, questions, watch, plot, json)


def _demo(
    model: Path | None,
    document: Path | None,
    asked: list[str],
    most: int,
    further: int,
    watch: bool,
    plot: Path | None,
    json: Path | None,
) -> None:
    from ..picture import check_plot

    check_writable(plot, json)
    if plot is not None:
        check_plot(plot)
    _check_packages()
    from ..bench.result import write_json
    from ..demo.model import load_config, load_tokenizer
    from ..demo.show import Stage, perform, write_script
    from ..demo.show.timeline import draw

    text = _text(document)
    console = _open_console()
    file = _model(console) if model is None else model
    config, tokenizer = load_config(file), load_tokenizer(file)
    script = write_script(text, _questions(asked, further), most, tokenizer, config)
    stage = Stage(console, tokenizer.decode, script.by_name)
    stage.fact("model", f"{config.name}, {config.layers} layers, float32 in NumPy")
    with perform(file, script, stage, page=watch) as (played, summary):
        stage.summary(summary)
        if json is not None:
            write_json(summary, json)
        if plot is not None:
            draw(played, summary, plot)
        if watch:
            _stay(stage)
    if summary.differences:
        raise typer.Exit(DIFFERENT)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Whoever wants it to end, it ends what it began, and then itself; what is ignored, as under
    nohup, stays so."""
    heeded = [each for each in ENDS if signal.getsignal(each) is not signal.SIG_IGN]
    before = [signal.signal(each, signal.default_int_handler) for each in heeded]
    try:
        yield
    except KeyboardInterrupt:
        print("kvferry: interrupted", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        for each, handler in zip(heeded, before, strict=True):
            signal.signal(each, handler)


def _check_packages() -> None:
    """Before anything is downloaded."""
    from ..demo.model.refusal import PACKAGES, missing

    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise missing(package)


def _model(console: Console) -> Path:
    from ..demo.model import download_bar, model_path

    cache = from_environment().cache
    if cache is None:
        raise UsageError("no home to keep the model in: set XDG_CACHE_HOME", cause="cache")
    with download_bar(console, "downloading the model") as progress:
        return model_path(cache, progress)


def _text(document: Path | None) -> str:
    from ..demo.show.document import DOCUMENT

    if document is None:
        return DOCUMENT
    try:
        return document.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{document} cannot be read: {error}", cause="document") from None


def _questions(asked: list[str], further: int) -> list[str]:
    """Those asked, and ours as far as there are to be more."""
    from ..demo.show.document import QUESTIONS

    if len(asked) > 2 + MOST_FURTHER or not all(each.strip() for each in asked):
        raise UsageError(f"--ask is for {2 + MOST_FURTHER} questions at most", cause="ask")
    wanted = max(2 + further, len(asked))
    ours = [question for question in QUESTIONS if question not in asked]
    return [*asked, *ours][:wanted]


def _stay(stage: Stage) -> None:
    """Nobody at the keyboard is as good as Enter."""
    with suppress(EOFError, KeyboardInterrupt):
        stage.fact("", "The page stays until Enter, or Ctrl-C.")
        input()


def _open_console() -> Console:
    from rich.console import Console

    return Console(highlight=False)
