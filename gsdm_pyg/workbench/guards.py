"""Who may ask the server: pages of its own, under a name that is its own.

A page of another site can make a browser send requests here. The browser then names
that site as the origin, or says at least that the request comes from another site. A
site may also let its own name point to this machine (DNS rebinding): then the origin is
right and the host is not a name of this machine.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOCAL_NAMES = {"localhost", "127.0.0.1", "::1"}

_SECURITY = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class OwnPagesOnly:
    """Refuses requests by another host name or from another origin.

    Args:
        app: What answers the others.
        host: The address that the server listens at.
        names: More host names that are its own.
    """

    def __init__(self, app: ASGIApp, host: str, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = {*_LOCAL_NAMES, host.lower(), *names}
        # Whoever listens to the network is asked for by address, or by this name. An
        # address cannot be rebound: that takes a name.
        self._by_address = host not in _LOCAL_NAMES
        if self._by_address:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        reason = self._reason_to_refuse(headers, scope["path"])
        if reason is not None:
            response = JSONResponse({"error": reason}, status_code=403)
            await response(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_SECURITY)
            await send(message)

        await self._app(scope, receive, send_guarded)

    def _reason_to_refuse(self, headers: Headers, path: str) -> str | None:
        host = headers.get("host", "")
        if not self._is_own(host):
            return (
                "The workbench answers under the names of its own machine: open the "
                f"address that `gsdm show` printed (got the host {host!r:.100})."
            )
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return (
                "The workbench answers to its own page only "
                f"(got the origin {origin!r:.100})."
            )
        site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
        is_link = mode == "navigate" and path == "/"  # to the page itself
        if site in ("cross-site", "same-site") and not is_link:
            return (
                "The workbench answers to its own page only "
                f"(got a request of another one, {site})."
            )
        return None

    def _is_own(self, host: str) -> bool:
        try:
            name = urlsplit(f"http://{host}").hostname or ""
        except ValueError:
            return False
        return name in self._names or (self._by_address and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
