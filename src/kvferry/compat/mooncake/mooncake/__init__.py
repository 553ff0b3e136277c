"""Mooncake's transfer engine and store as programs call them, carried by kvferry.

There are `mooncake.engine`, `mooncake.store` and what goes with them; names that are not here do
not import. Whom they talk to are processes that import this package too.
"""
