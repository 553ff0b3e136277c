"""What is going on in a store, for people and for Prometheus: `kvferry top` and the live page.

view      two snapshots of a survey as one picture, pure; rates makes the rates in it
watcher   takes snapshots while somebody looks
terminal  the picture in a terminal
metrics   a snapshot as OpenMetrics text
server    the page and all the rest by HTTP; access decides who may have it, page is what they get
"""

from .access import key_of, url_of
from .picture import View
from .server import Server
from .view import view_of
from .watcher import Watcher

__all__ = ["Server", "View", "Watcher", "key_of", "url_of", "view_of"]
