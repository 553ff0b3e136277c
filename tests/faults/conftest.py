"""Faults are tried under the audit of locks."""

from __future__ import annotations

import pytest

from kvferry.testing.lock_audit import LockAudit


@pytest.fixture(autouse=True)
def _audited(lock_audit: LockAudit) -> None:
    """What this process does in a test takes no lock out of order."""
