"""`tune dashboard`: running studies in the browser."""

from __future__ import annotations

import contextlib
import webbrowser

import click

from kilotune.experiments.commands.command_line import storage_option


@click.command("dashboard")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any free one.")
@storage_option
@click.option("--open/--no-open", "opens", default=False, help="Open it in the browser  [default: no].")
def dashboard_command(host: str, port: int, storage: str | None, opens: bool) -> None:
    """Show studies in the browser while they run, on this machine only unless --host says otherwise."""
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        _serve(host, port, storage, opens)


def _serve(host: str, port: int, storage: str | None, opens: bool) -> None:
    from kilotune.experiments.dashboard.server import is_loopback, listen

    listening = listen(host, port)  # before heavy imports: a port that is taken is said at once
    from kilotune.experiments.dashboard import optuna_pages
    from kilotune.experiments.dashboard.application import Dashboard
    from kilotune.experiments.dashboard.server import has_waitress, make_server
    from kilotune.experiments.studies.storage import open_store

    address, bound_port = listening.getsockname()[:2]
    local = is_loopback(address)
    store = open_store(storage)
    server = make_server(Dashboard(store, local), listening)
    # Looked up before the address is said: from then on Ctrl-C is success, which inside of an import it is not.
    missing = [
        *(() if has_waitress() else ("waitress (Werkzeug's development server answers instead)",)),
        *(() if optuna_pages.is_installed() else ("optuna-dashboard (its pages are left out)",)),
    ]
    shown = "127.0.0.1" if address == "0.0.0.0" else "::1" if address == "::" else address
    url = f"http://{f'[{shown}]' if ':' in shown else shown}:{bound_port}/"
    click.echo(f"{url} shows the studies of {store.place}; Ctrl-C ends it", err=True)
    if not local:
        click.echo(
            f"Everybody who reaches {address}:{bound_port} can read all studies of this store, without a password; "
            "without --host only this machine can.",
            err=True,
        )
    if missing:
        click.echo(f"Not installed: {', '.join(missing)}; pip install 'kilotune[dashboard]'", err=True)
    if opens:
        webbrowser.open(url)
    try:
        server.run()
    finally:
        listening.close()
        store.close()
