"""HTTP server of the live runs page.

It is for the user of this machine: pages of other sites in the same browser are kept from reading
it, and so are pages that lie in the folders of runs.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import io
import ipaddress
import json
import os
import re
import socket
import socketserver
import threading
import time
import urllib.parse
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any

from plangym_ext.core.files.whole_file import opened
from plangym_ext.errors import InvalidOption, PlangymExtError
from plangym_ext.run.run_page.content import EPISODES, content, page, signature

_EPISODE = "episode/"
_KINDS = {".mp4": "video/mp4", ".html": "text/html; charset=utf-8"}
#: Requests at the same time; of more, the one that has been here longest is dropped.
_MOST = 32
#: Seconds that a client has to ask, and for each piece of the answer that it reads.
_TO_ASK, _TO_READ = 10.0, 30.0
_PIECE = 1 << 16
#: A page out of a run's folder has an origin of its own, and loads nothing.
_SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; media-src data:"
)
_PAGE = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
    "media-src 'self'; frame-src 'self'; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'"
)


class PageServer(http.server.ThreadingHTTPServer):
    """Serves the page, its data, and the files of recorded episodes, and nothing else.

    Args:
        folders: with runs.
        host: address to listen on.
        port: 0 for one that is free.

    Attributes:
        url: of the page.
        is_open: whether other machines can reach it.

    Raises:
        UnknownName: a folder has no run.
        InvalidOption: the port is taken, or the address is not this machine's.
    """

    # An answer under way, to a browser that reads slowly, must not keep the process from ending.
    daemon_threads = True

    def __init__(self, folders: Sequence[Path], host: str, port: int) -> None:
        # As `episode` compares them with paths that are resolved.
        self.folders = [folder.resolve() for folder in folders]
        self.content()  # a folder without runs is refused now
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._clients: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        self._host = host
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError, UnicodeError) as error:
            raise InvalidOption(
                f"watch: cannot listen on {host}:{port}: {str(error).rstrip('.')}. Name another "
                f"--port; 0 takes one that is free."
            ) from error
        bound = self.server_address[0]
        self.is_open = not ipaddress.ip_address(str(bound).partition("%")[0]).is_loopback
        named = f"[{host}]" if ":" in host else host
        self.url = f"http://{named}:{self.server_address[1]}/"

    def server_bind(self) -> None:
        """Listen without looking up the name of this machine, which can take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self._host, self.server_address[1]

    def content(self) -> dict[str, Any]:
        """Return the page's present data."""
        return content(self.folders, self._address, live=True, status="live")

    def _address(self, path: Path) -> str:
        root = next(i for i, folder in enumerate(self.folders) if path.is_relative_to(folder))
        inside = path.relative_to(self.folders[root])
        # Of its bytes: a name need not be a text.
        return f"{_EPISODE}{root}/{urllib.parse.quote(os.fsencode(inside))}"

    def episode(self, address: str) -> Path | None:
        """Return the file of an address from `_address`; None for an unknown one."""
        root, _, inside = address.partition("/")
        # ValueError: a NUL in the name, or no number. OSError: a name that is too long, a circle
        # of links.
        with contextlib.suppress(ValueError, OSError, IndexError):
            folder = self.folders[int(root)] if root.isascii() and root.isdigit() else Path()
            # Resolved first: `..` and links may lead out of the folder.
            path = (folder / os.fsdecode(urllib.parse.unquote_to_bytes(inside))).resolve()
            # Nothing but episodes, however the address was written.
            is_one = path.parent.name == EPISODES and path.suffix in _KINDS
            if is_one and folder in self.folders and path.is_relative_to(folder) and path.is_file():
                return path
        return None

    def is_own_name(self, host: str) -> bool:
        """Return whether a request's host is this server, not another site at its address.

        A site may have its own name answered with 127.0.0.1, and its page read all of this one.
        """
        with contextlib.suppress(ValueError):
            name = (urllib.parse.urlsplit(f"//{host}").hostname or "").rstrip(".")
            # Of one label: no site has such a name.
            own = {"localhost", self._host.lower(), *[socket.gethostname().lower()] * self.is_open}
            if name in own:
                return True
            # An address is no name that a site could have answered with another.
            return ipaddress.ip_address(name).is_loopback or self.is_open
        return False

    # Clients --------------------------------------------------------------------

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a separate thread; the number of threads is limited."""
        with self._lock:
            # First those that have not asked yet.
            longest = min(self._clients, key=self._clients.__getitem__, default=None)
            full = len(self._clients) >= _MOST
            self._clients[request] = time.monotonic()
        if full:
            self._drop(longest)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Drop connections without a request; called twice a second."""
        latest = time.monotonic() - _TO_ASK
        with self._lock:
            late = [one for one, began in self._clients.items() if began < latest]
        for one in late:
            self._drop(one)

    def asked(self, request: Any) -> None:
        """Note that a request has come: the client has no time limit while it reads."""
        with self._lock:
            if request in self._clients:
                self._clients[request] = float("inf")

    def shutdown_request(self, request: Any) -> None:
        """End a request; called by its thread."""
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def _drop(self, request: Any) -> None:
        with self._lock:
            # Its thread has it until it is taken out, and closes it then.
            if self._clients.pop(request, None) is not None:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error of a connection that a client has left."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: PageServer
    timeout = _TO_READ

    def do_GET(self) -> None:
        """Answer a request."""
        self.server.asked(self.connection)
        hosts = self.headers.get_all("Host", [])
        try:
            address = urllib.parse.urlsplit(self.path)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        # The one in the request itself, if there is one, counts more than the header.
        if len(hosts) != 1 or not self.server.is_own_name(address.netloc or hosts[0]):
            self.send_error(HTTPStatus.FORBIDDEN, explain="This name is not that of the page.")
            return
        try:
            self._give(address.path.removeprefix("/"), address.query)
        except PlangymExtError as error:  # the runs were removed
            # In the page and not in the status line, which is Latin-1.
            self.send_error(HTTPStatus.GONE, explain=str(error))
        except (ConnectionError, TimeoutError):
            raise  # the reader has gone on
        except Exception as error:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=f"{type(error)}: {error}")

    def _give(self, name: str, query: str) -> None:
        if name == "":
            text = page(self.server.content())
            self._answer(text.encode(), "text/html; charset=utf-8", _policy(text))
        elif name == "data.json":
            self._data(urllib.parse.parse_qs(query).get("rows", [""])[0])
        elif name.startswith(_EPISODE):
            self._episode(name.removeprefix(_EPISODE))
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _data(self, known: str) -> None:
        if signature(self.server.folders) == known:
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()
            return
        text = json.dumps(self.server.content(), allow_nan=False)
        self._answer(text.encode(), "application/json")

    def _episode(self, address: str) -> None:
        path = self.server.episode(address)
        if path is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with opened(path) as file:
            self._begin(os.fstat(file.fileno()).st_size, _KINDS[path.suffix], _SANDBOX)
            self._send(file)

    def _answer(self, body: bytes, kind: str, policy: str = "default-src 'none'") -> None:
        self._begin(len(body), kind, policy)
        self._send(io.BytesIO(body))

    def _begin(self, length: int, kind: str, policy: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        # The same address has another content in a moment.
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", policy)
        # Pages of other sites may not show what is here within themselves.
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()

    def _send(self, file: IO[bytes]) -> None:
        # In pieces, each of which has its time: a film through a thin line is no slow client.
        while piece := file.read(_PIECE):
            self.wfile.write(piece)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log no requests."""


def _policy(text: str) -> str:
    """Return the page's content security policy: only its own scripts run."""
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()) for one in scripts]
    return _PAGE.format(scripts=" ".join(f"'sha256-{one.decode()}'" for one in digests))
