"""Settings for tests with torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def torch_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One thread, here and in processes, and a folder for what torch keeps."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("torch")))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
