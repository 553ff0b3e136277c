"""What keeps commands from running is one line."""

from __future__ import annotations

import socket

import pytest

from .started import free_ports


def test_what_is_wrong_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    from mooncake.commands import client
    from mooncake.commands import master as command

    here, free = "--rpc_address=127.0.0.1", free_ports(1)[0]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = taken.getsockname()[1]
        for main, words, why in (
            (command.main, ["--rpc_prt=1"], "unknown command line flag 'rpc_prt'"),
            (command.main, ["--config_path=/nowhere.json"], "--config_path: /nowhere.json"),
            (command.main, [f"--rpc_port={busy}", here, "--metrics_port=0"], str(busy)),
            (command.main, [f"--rpc_port={free}", here, f"--metrics_port={busy}"], f":{busy}: "),
            (client.main, ["--global_segment_size=much"], "'much' is no size"),
            (client.main, ["--global_segment_size=0"], "a client gives memory"),
        ):
            with pytest.raises(SystemExit) as ended:
                main(words)
            assert ended.value.code == 1
            out, log = capsys.readouterr()
            assert out == ""
            assert log.splitlines()[-1].startswith("mooncake_")
            assert why in log.splitlines()[-1]
            assert "Traceback" not in log


def test_a_client_without_a_master(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mooncake.commands import client

    monkeypatch.setattr(client, "PATIENCE", 0.0)
    (port,) = free_ports(1)
    with pytest.raises(SystemExit):
        client.main([f"--master_server_address=127.0.0.1:{port}", "--port=0"])
    assert capsys.readouterr().err.startswith("mooncake_client: ")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    from mooncake.commands import master

    master.main(["--help"])
    told = capsys.readouterr().out
    assert "--rpc_port (int32) default: 0" in told
    assert "--enable_cxl (bool) default: False\n    no effect: " in told
