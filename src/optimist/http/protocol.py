"""HTTP as uvicorn reads it with httptools, and a bound on what it keeps of a request that never gets on."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024
"""bytes of one head, or of trailers: httptools itself takes and keeps any number"""


class BoundedProtocol(HttpToolsProtocol):
    """Answers 400 when more than MAX_HEAD bytes, and what was read with the first of them, complete nothing."""

    _unfinished = 0

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self._unfinished += len(data)
        super().data_received(data)
        if self._unfinished > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response(f"Request head: expected at most {MAX_HEAD} bytes.")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._unfinished = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._unfinished = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """So is a part of its body, which has a limit of its own."""
        self._unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of it is there."""
        self._unfinished = 0
        super().on_message_complete()
