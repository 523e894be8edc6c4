"""Reaching a Ray cluster: its token, and what compiled code would print meanwhile.

A head that is started where a token exists demands it of everybody; Ray itself looks for one only when it connects to a cluster of
this machine that it finds by itself. Here it is looked for in the same places whatever the address.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

LOCAL = "local"
"""The address that starts a cluster on this machine, for this process."""

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
"""Ray's environment variables, in force since Ray 2.52."""

PROBE_S = 20.0
"""For a first actor to start."""

SETTLING_S = 2.0
"""For a head that ends the actors of whoever sends a token to have done so: it mostly does within 0.5 s of a busy machine, but an actor
may have started by then."""

ATTEMPTS = 5
"""To register with a head that listens; Ray's own 20 keep the user waiting for as many seconds."""


def connect(address: str, workers: int | None) -> Any:
    """The `ray` module, connected; again for an address that it is connected to already. `workers`: processors of a cluster
    that is started. ValueError, a sentence, for a cluster that cannot be used."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    quiet: dict[str, Any] = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    try:
        if address != LOCAL:
            _probe(address)
            os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", str(ATTEMPTS))
            _take_up_token()
        import ray
    except ImportError:
        raise ValueError("Ray is not installed: `pip install ray`.") from None
    except OSError as error:
        raise ValueError(f"The Ray cluster {address} cannot be reached ({first_line(error)}).") from None
    if not _is_connected(ray, address):
        try:
            if address == LOCAL:
                ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
                admitted = True
            else:
                admitted = _join(ray, address, quiet)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise ValueError(f"The Ray cluster {address} cannot be reached ({first_line(error)}).") from None
        if not admitted:
            raise ValueError(_token_sentence(address))
        if address != LOCAL and os.environ.get(MODE, "").lower() == "token" and not _actors_start(ray):
            with contextlib.suppress(Exception), _compiled_code_silenced():
                ray.shutdown()
            raise ValueError(_needless_token_sentence(address))
    # Ray prints what happens to its workers on stdout, where our result goes; we report it as measurements instead.
    with contextlib.suppress(AttributeError):
        ray._private.worker.print_to_stdstream = lambda *_arguments, **_options: None
    return ray


def first_line(error: Exception) -> str:
    """The first sentence of Ray's own words."""
    return next((line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()), type(error).__name__)


def token_place() -> str | None:
    """Where the token of this user is, as Ray looks for it; None: there is none."""
    if os.environ.get(TOKEN):
        return f"${TOKEN}"
    path = Path(os.environ.get(TOKEN_PATH) or _token_file())
    with contextlib.suppress(OSError):
        if path.read_text().strip():
            return str(path)
    return None


def _token_file() -> Path:
    return Path.home() / ".ray" / "auth_token"


def _take_up_token() -> None:
    """Before `ray` is imported, since it reads the mode then."""
    if MODE in os.environ or token_place() is None:
        return
    os.environ[MODE] = "token"
    if "ray" in sys.modules:
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module("ray._raylet").Config.initialize("")  # what Ray does when it takes a token up late


def _is_connected(ray: Any, address: str) -> bool:
    if not ray.is_initialized():
        return False
    host, _, port = address.rpartition(":")
    return not host or ray.get_runtime_context().gcs_address.endswith(f":{port}")


def _join(ray: Any, address: str, quiet: dict[str, Any]) -> bool:
    """Connect; False where the cluster demands another token."""
    with _compiled_code_silenced() as said:
        try:
            ray.init(address=address, **quiet)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            said.seek(0)
            words = f"{type(error).__name__} {error} {said.read().decode(errors='replace')}"
            if any(sign in words for sign in ("Unauthenticated", "AuthToken", "AuthenticationError")):
                return False
            raise
    return True


def _actors_start(ray: Any) -> bool:
    """Whether actors can be had. A head without a token lets one with a token join and run tasks, and then no actor of his lives, of
    which Ray tells in dozens of lines of its own."""

    class FirstActor:  # nested, so that it travels as code: the package may not be there
        def ready(self) -> None:
            return None

    with _compiled_code_silenced():
        try:
            actor = ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)(FirstActor).remote()
            ray.get(actor.ready.remote(), timeout=PROBE_S)
            time.sleep(SETTLING_S)
            ray.get(actor.ready.remote(), timeout=PROBE_S)
        except ray.exceptions.GetTimeoutError:
            return True  # a cluster that is busy, for all that is known
        except ray.exceptions.RayError:
            return False
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(actor, no_restart=True)
    return True


def _needless_token_sentence(address: str) -> str:
    """For a head that was started where there was no token."""
    return (
        f"The Ray cluster {address} demands no token, and starts nothing for whoever sends one ({token_place()}): set {MODE} to "
        f"disabled, or start the cluster where that token is."
    )


def _token_sentence(address: str) -> str:
    place, mode = token_place(), os.environ.get(MODE, "unset")
    found = "no token was found" if place is None else f"the one in {place} is not the cluster's"
    if place is not None and mode.lower() != "token":
        found = f"the one in {place} is not used while {MODE} is {mode}"
    return (
        f"The Ray cluster {address} demands a token, and {found}: copy ~/.ray/auth_token of the head's user to {_token_file()} "
        f"(or name it in {TOKEN_PATH}, or give it in {TOKEN}), and leave {MODE} unset or set it to token."
    )


@contextlib.contextmanager
def _compiled_code_silenced() -> Iterator[IO[bytes]]:
    """A file that takes what compiled code writes to stderr: Ray's does so once a second while it is refused."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    with tempfile.TemporaryFile() as kept:
        stderr = os.dup(2)
        try:
            os.dup2(kept.fileno(), 2)
            yield kept
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _probe(address: str) -> None:
    """OSError when nobody listens at HOST:PORT: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=5.0).close()
