"""The live page of runs, over HTTP."""

from __future__ import annotations

import http.server
import json
import urllib.parse
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from plangym_ext.errors import InvalidOption, PlangymExtError
from plangym_ext.run.run_page.content import EPISODES, content, page, signature

_EPISODE = "episode/"
_KINDS = {".mp4": "video/mp4", ".html": "text/html; charset=utf-8"}


class PageServer(http.server.ThreadingHTTPServer):
    """Answers with the page, its data, and the files of recorded episodes, and nothing else.

    Args:
        folders: with runs.
        host: address to listen on.
        port: 0 for one that is free.

    Attributes:
        url: of the page.

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
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InvalidOption(
                f"watch: cannot listen on {host}:{port}: {error}. Name another --port; 0 takes one "
                f"that is free."
            ) from error
        self.url = f"http://{host}:{self.server_address[1]}/"

    def content(self) -> dict[str, Any]:
        """Return what the page shows now."""
        return content(self.folders, self._address, live=True, status="live")

    def _address(self, path: Path) -> str:
        root = self._root_of(path)
        inside = path.relative_to(self.folders[root])
        return f"{_EPISODE}{root}/{urllib.parse.quote(str(inside))}"

    def _root_of(self, path: Path) -> int:
        return next(i for i, folder in enumerate(self.folders) if path.is_relative_to(folder))

    def episode(self, address: str) -> Path | None:
        """Return the file that `_address` gave this address; None if there is no such."""
        root, _, inside = urllib.parse.unquote(address).partition("/")
        if not root.isdigit() or int(root) >= len(self.folders):
            return None
        folder = self.folders[int(root)]
        # Resolved first: `..` and links may lead out of the folder.
        path = (folder / inside).resolve()
        # Nothing but episodes, however the address was written.
        is_one = path.parent.name == EPISODES and path.suffix in _KINDS
        return path if is_one and path.is_relative_to(folder) and path.is_file() else None


class _Handler(http.server.BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
        """Answer a request."""
        address = urllib.parse.urlsplit(self.path)
        name = address.path.removeprefix("/")
        try:
            if name == "":
                self._answer(page(self.server.content()).encode(), "text/html; charset=utf-8")
            elif name == "data.json":
                self._data(urllib.parse.parse_qs(address.query).get("rows", [""])[0])
            elif name.startswith(_EPISODE):
                self._episode(name.removeprefix(_EPISODE))
            else:
                self.send_error(HTTPStatus.NOT_FOUND)
        except PlangymExtError as error:  # the runs were removed
            # In the page and not in the status line, which is Latin-1.
            self.send_error(HTTPStatus.GONE, explain=str(error))
        except (BrokenPipeError, ConnectionResetError):
            pass  # the reader has gone on

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
        else:
            self._answer(path.read_bytes(), _KINDS[path.suffix])

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        # The same address has another content in a moment.
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing of each request."""
