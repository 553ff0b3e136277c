"""Mooncake's transfer engine as programs call it, carried by kvferry.

There is `mooncake.engine`; names that are not here do not import. Whom it talks to are processes
that import this package too.
"""
