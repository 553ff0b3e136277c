"""``kvferry npu``."""

from __future__ import annotations

import os
import shutil
import signal
from typing import Annotated

import typer

from ..errors import UsageError

__all__ = ["npu"]

# Python ignores these, and a program inherits what is ignored.
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)

npu = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The software NPU: runs programs that use Ascend's ACL on a machine without a card.",
)


@npu.command()
def path() -> None:
    """Prints its folder, for the compiler (-I, -L) and for LD_LIBRARY_PATH."""
    from ..runtime.cann import software

    print(software.find())


@npu.command(context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[list[str], typer.Argument(help="program and arguments")],
    profile: Annotated[str | None, typer.Option(help="A2, A3 or 950")] = None,
    devices: Annotated[str | None, typer.Option(help="1 to 16")] = None,
    capacity: Annotated[str | None, typer.Option(help="of each device: 64G, 512M")] = None,
    fragment: Annotated[str | None, typer.Option(help="the largest allocation: 7G")] = None,
    page: Annotated[str | None, typer.Option(help="the largest page: 1G or 2M")] = None,
    server_id: Annotated[str | None, typer.Option(help="0 to 1023: pretend to be there")] = None,
    hdk: Annotated[str | None, typer.Option(help="release of the driver: 25.5")] = None,
    delay: Annotated[str | None, typer.Option(help="least ms of each task")] = None,
    fail: Annotated[
        list[str] | None, typer.Option(help="NAME:N=CODE or NAME=CODE; again for more")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="announce nothing")] = False,
) -> None:
    """Runs a program on it: what it looks for as libascendcl.so, or by a newer name, is this one.

    The program takes the place of this process. Settings that are not given are those of the
    environment (NPU_PROFILE and so on).
    """
    from ..runtime.cann import software

    folder = software.find()
    settings = {
        "profile": profile,
        "devices": devices,
        "capacity": capacity,
        "fragment": fragment,
        "page": page,
        "server_id": server_id,
        "hdk": hdk,
        "delay": delay,
        "fail": ",".join(fail) if fail else None,
        "quiet": "1" if quiet else None,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    os.environ.update(software.environment(folder, given, os.environ))
    software.check(folder, os.environ)
    _become(command)


def _become(command: list[str]) -> None:
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(f"there is no command {command[0]!r}", cause="no_command")
    for each in IGNORED:
        signal.signal(each, signal.SIG_DFL)
    try:
        os.execv(program, command)
    except OSError as error:
        raise UsageError(f"{program}: {error.strerror}", cause="no_command") from error
