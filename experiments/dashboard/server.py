"""The socket that the dashboard listens on, and what answers there."""

from __future__ import annotations

import errno
import importlib.util
import ipaddress
import logging
import socket
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

THREADS = 8


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address or name."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. ValueError, a sentence, when it cannot."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise ValueError(f"--host {host}: there is no such address; expected one of this machine's.") from None
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind(address)
        opened.listen(64)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            raise ValueError(
                f"Port {port} of {host} is in use already: choose another with --port (0: any free one)."
            ) from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise ValueError(f"--host {host}: this machine has no such address.") from None
        raise ValueError(f"Port {port} of {host} cannot be used: {error.strerror}.") from None
    return opened


class Server(Protocol):
    """Answers requests until it is interrupted."""

    def run(self) -> None:
        """KeyboardInterrupt ends it, and may come out of it."""


def has_waitress() -> bool:
    """The extra `dashboard`."""
    return importlib.util.find_spec("waitress") is not None


def make_server(application: WSGIApplication, listening: socket.socket) -> Server:
    """waitress, or where that is not installed Werkzeug's development server, which writes no line a request here."""
    if has_waitress():
        from waitress.server import create_server

        logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it tells of every request that waits a moment

        server: Server = create_server(
            application, sockets=[listening], threads=THREADS, ident="kilotune", clear_untrusted_proxy_headers=True
        )
        return server
    from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

    class Silent(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: Any) -> None:
            pass

    class Plain(ThreadedWSGIServer):
        def run(self) -> None:
            self.serve_forever()

    host, port = listening.getsockname()[:2]
    return Plain(str(host), int(port), application, Silent, fd=listening.fileno())
