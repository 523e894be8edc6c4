"""What a browser asks and what it gets, as plain data; and the sockets underneath."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import ipaddress
import json
import socket
import socketserver
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

THREADS = 8


@dataclass(frozen=True)
class Request:
    """`path` and the query are decoded; header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]

    @classmethod
    def of(cls, environ: Environ) -> Request:
        headers = {n[5:].replace("_", "-").lower(): str(v) for n, v in environ.items() if n.startswith("HTTP_")}
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True, errors="replace")
        return cls(
            environ.get("REQUEST_METHOD", "GET"),
            str(environ.get("PATH_INFO", "")).encode("latin-1", "replace").decode("utf-8", "replace") or "/",
            {name: values[-1] for name, values in query.items()},
            headers,
        )


@dataclass(frozen=True)
class Response:
    """`text` goes out as UTF-8."""

    text: str | bytes = ""
    content_type: str = "text/html; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)

    def send(self, start: StartResponse, method: str = "GET") -> list[bytes]:
        """Status line, headers, and the body unless only its head was asked for."""
        body = self.text if isinstance(self.text, bytes) else self.text.encode("utf-8", "replace")
        length = {} if self.status is HTTPStatus.NOT_MODIFIED else {"Content-Length": str(len(body))}
        headers = {"Content-Type": self.content_type, **length, **self.headers}
        start(f"{self.status.value} {self.status.phrase}", list(headers.items()))
        return [] if method == "HEAD" else [body]


def as_json(data: Any, request: Request) -> Response:
    """With an ETag; 304 when the browser has it already."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    tag = f'"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response("", "application/json", HTTPStatus.NOT_MODIFIED, headers)
    return Response(text, "application/json", headers=headers)


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


def make_server(application: Application, listening: socket.socket) -> Server:
    """waitress, or the standard library's where that is not installed."""
    if not has_waitress():
        return _StandardServer(application, listening)
    from waitress.server import create_server

    server: Server = create_server(
        application, sockets=[listening], threads=THREADS, ident="kilotune", clear_untrusted_proxy_headers=True
    )
    return server


class _Threaded(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class _StandardServer:
    def __init__(self, application: Application, listening: socket.socket) -> None:
        address = listening.getsockname()
        self._server = _Threaded(address[:2], _Silent, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listening
        self._server.server_name, self._server.server_port = str(address[0]), int(address[1])
        self._server.setup_environ()
        self._server.set_app(application)

    def run(self) -> None:
        self._server.serve_forever()
