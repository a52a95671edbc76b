"""Files of packed weights, which every worker of one model and format maps instead of packing its own.

A file is named after the model's path and the format, and begins with a page that says whose weights it
holds; then the matrices, each at a multiple of ALIGNMENT, and as many bytes more, because whole vectors may
reach beyond the end. Where matrices lie follows from the network alone, so nothing in a file is believed but
its bytes, and those by their checksum, at every start.

It is written beside its place and moved there when it is whole. Whoever has mapped an earlier one keeps it.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import logging
import mmap
import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, NamedTuple

from optimist.kernels.native.device import NativeDevice
from optimist.kernels.native.library import layout
from optimist.kernels.native.shapes import Part
from optimist.models import packed_header
from optimist.models.base import WeightSource
from optimist.models.packed_header import ALIGNMENT, UNSEEN, Header

_log = logging.getLogger("optimist")

Place = tuple[int, Part]
"""Of a matrix: its layer and part."""


class PackedCache:
    """One file. folder: where it is, or will be. source: of the weights. quant: see
    optimist.models.quantisation.
    """

    def __init__(self, folder: str | Path, source: WeightSource, quant: str) -> None:
        path = source.path
        where = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:8]
        self.path = Path(folder) / f"{path.stem}-{quant}-{where}.packed"
        self._files = source.files()
        self._seen = packed_header.seen(self._files)  # before any byte is read
        # Beside the bytes of its files, what is packed depends on what the config says of them.
        whose = f"{version('optimist')} {layout()} {quant} {source.config}"
        self._key = hashlib.sha256(whose.encode()).digest()

    @cached_property
    def _content(self) -> bytes:
        return packed_header.content(self._files)

    def fill(self, device: NativeDevice, places: Sequence[Place], pack: Callable[[], None]) -> None:
        """Give a device the weights of these places: those of the file, or what `pack` makes, which is kept.

        Every matrix has its room already. A file that is damaged, or another model's, is written anew, and
        one that cannot be read or written costs no more than the time to pack: both are logged.
        """
        if not (why := self._lend(device, places)):
            return
        pack()
        try:
            self._write(device, places)
        except OSError as error:
            _log.warning(
                "%s: packed weights cannot be kept (%s); this worker holds its own",
                self.path,
                error,
            )
            return
        _log.log(
            logging.INFO if why == _ABSENT else logging.WARNING,
            *("%s: packed weights were written: %s", self.path, why),
        )
        if why := self._lend(device, places):
            _log.warning("%s: written just now, and %s; this worker holds its own", self.path, why)

    def _lend(self, device: NativeDevice, places: Sequence[Place]) -> str:
        """Map the file for a device. Returns why not, "" where it is done."""
        spans, size = _spans(device, places)
        try:
            with _opened(self.path) as file:
                header = Header.of(file.read(ALIGNMENT))
                if header is None:
                    return "the one that was there was damaged: no header"
                if why := self._refusal(header, os.fstat(file.fileno()).st_size, size):
                    return why
                flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
                mapping = mmap.mmap(file.fileno(), size, flags=flags, prot=mmap.PROT_READ)
                if _checksum(device, mapping) != header.checksum:
                    mapping.close()
                    return "the one that was there was damaged: another checksum"
                self._remember(file, header)
        except FileNotFoundError:
            return _ABSENT
        except OSError as error:
            return f"the one that is there cannot be read ({error})"
        device.lend(mapping, [(*span.place, span.offset) for span in spans])
        return ""

    def _refusal(self, header: Header, found: int, size: int) -> str:
        if header.key != self._key or not self._holds(header):
            return (
                "the one that was there belongs to another version of the model or of the library"
            )
        if {header.size, found} != {size}:
            return "the one that was there was damaged: another size"
        return ""

    def _holds(self, header: Header) -> bool:
        """Whether it was made of these files' bytes: read again only where they may have changed since."""
        return header.seen == self._seen != UNSEEN or header.content == self._content

    def _remember(self, file: BinaryIO, header: Header) -> None:
        """Spare the next start the reading of a model's files that are the same, but newer or elsewhere."""
        if self._seen in (UNSEEN, header.seen):
            return
        try:  # the same file, also where another has taken its path since
            handle = os.open(f"/proc/self/fd/{file.fileno()}", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # one that may only be read serves as well
            return
        try:
            os.pwrite(handle, header._replace(seen=self._seen).encoded(), 0)
        finally:
            os.close(handle)

    def _write(self, device: NativeDevice, places: Sequence[Place]) -> None:
        """Raises OSError. Nothing is left of what could not be finished."""
        content = self._content
        if changed := [file.path for file in self._files if not file.unchanged]:
            raise OSError(f"{changed[0]} was changed while it was read")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._sweep()
        file, name = self._begun()
        try:
            with file:
                spans, size = _spans(device, places)
                file.truncate(size)
                for span in spans:
                    file.seek(span.offset)
                    file.write(device.held(*span.place))
                file.flush()
                with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as mapping:
                    total = _checksum(device, mapping)
                file.seek(0)
                file.write(Header(self._key, content, self._seen, size, total).encoded())
                file.flush()
                os.replace(name, self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _begun(self) -> tuple[BinaryIO, str]:
        """A file of its own beside the place, locked, which says that its writer lives, and its name."""
        while True:
            handle, name = tempfile.mkstemp(".tmp", self.path.name + ".", self.path.parent)
            file = os.fdopen(handle, "w+b")
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(handle).st_nlink:
                    return file, name
            except BaseException:
                file.close()
                Path(name).unlink(missing_ok=True)
                raise
            file.close()  # another start swept it away before it was locked

    def _sweep(self) -> None:
        """Remove what writers left that were killed."""
        for left in self.path.parent.glob(f"{glob.escape(self.path.name)}.*.tmp"):
            try:
                with _opened(left) as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    left.unlink(missing_ok=True)
            except OSError:  # it is being written, or somebody else has removed it, or nobody can
                continue


_ABSENT = "there was none"


def _opened(path: Path) -> BinaryIO:
    """A regular file, for reading; of anything else, OSError at once: a pipe would wait for its writer."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError("expected a regular file")
    return os.fdopen(handle, "rb")


class _Span(NamedTuple):
    place: Place
    offset: int


def _spans(device: NativeDevice, places: Sequence[Place]) -> tuple[list[_Span], int]:
    """Where each matrix lies, and how long the file is."""
    spans, at = [], ALIGNMENT
    for place in places:
        spans.append(_Span(place, at))
        at += -(-len(device.held(*place)) // ALIGNMENT) * ALIGNMENT
    return spans, at + ALIGNMENT


def _checksum(device: NativeDevice, mapping: mmap.mmap) -> int:
    """Of all behind the header's page, which has its own."""
    with memoryview(mapping) as whole:
        return device.checksum(0, whole[ALIGNMENT:])
