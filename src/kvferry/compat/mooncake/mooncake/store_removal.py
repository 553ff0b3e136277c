"""Removing, by key, by pattern, and all there is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvferry.store import Answer

from .store_base import Base
from .store_codes import FAILURES, Code, code_of, removed
from .store_reads import MISSES, Key

__all__ = ["Removal"]

NOBODY = {"no_node": Code.OK}


class Removal(Base):
    """-704: it was not there; -706: it is leased, which `force` does not mind; -900: a node that
    may have it did not answer."""

    def remove(self, key: Key, force: bool = False) -> int:
        """Remove it wherever it is."""
        return self.batch_remove([key], force)[0]

    def batch_remove(self, keys: Sequence[Key], force: bool = False) -> list[int]:
        """The same for each."""
        client = self._client
        try:
            codes = removed(client.store.remove_batch(keys, force=force))
            if 0 in codes:
                client.settle()
            return codes
        except FAILURES as error:
            return [code_of("batch_remove", error, MISSES)] * len(keys)

    def remove_all(self, force: bool = False) -> int:
        """Remove all that this tenant has: how many keys that were."""
        return self._each("remove_all", re.compile(""), force)

    def remove_by_regex(self, regex_pattern: str, force: bool = False) -> int:
        """The same of keys in which the pattern, Python's, is found."""
        try:
            pattern = re.compile(regex_pattern)
        except re.error as error:
            return code_of("remove_by_regex", ValueError(f"{regex_pattern!r}: {error}"))
        return self._each("remove_by_regex", pattern, force)

    def _each(self, what: str, pattern: re.Pattern[str], force: bool) -> int:
        count = 0
        try:
            store = self._client.store
            for names in store.names():
                page = [name for name in names if pattern.search(_text(name))]
                codes = store.remove_batch(page, force=force).codes
                count += int((codes == Answer.REMOVED).sum())
            if count:
                self._client.settle()
        except FAILURES as error:
            return code_of(what, error, NOBODY)
        return count


def _text(name: Key) -> str:
    return name if isinstance(name, str) else name.decode(errors="replace")
