"""Files of packed weights, which every worker of one model and format maps instead of packing its own.

A file is named after the model's path and the format, and begins with a header that says whose weights it
holds: magic, key, size and checksum in ALIGNMENT bytes; then the matrices, each at a multiple of that, and as many
bytes more, because whole vectors may reach beyond the end. Where matrices lie follows from the network
alone, so nothing in a file is believed but its bytes, and those by their checksum, at every start.

It is written beside its place and moved there when it is whole. Whoever has mapped an earlier one keeps it.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import mmap
import os
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, NamedTuple

from optimist.kernels.native.device import NativeDevice
from optimist.kernels.native.library import layout
from optimist.kernels.native.shapes import Part

_log = logging.getLogger("optimist")

ALIGNMENT = 4096
MAGIC = b"optimist packed\n"
HEADER = struct.Struct("<16s32sQQ")
SAMPLES = 64
"""places of a model file, each of ALIGNMENT bytes, that go into its key"""

Place = tuple[int, Part]
"""Of a matrix: its layer and part."""


class PackedCache:
    """One file. folder: where it is, or will be. path: of the model. quant: see optimist.models.quantisation."""

    def __init__(self, folder: str | Path, path: Path, quant: str) -> None:
        where = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:8]
        self.path = Path(folder) / f"{path.stem}-{quant}-{where}.packed"
        self._key = _key(path, quant)

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
            with self.path.open("rb") as file:
                if (why := self._refusal(file, size)) or not size:
                    return why
                flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
                mapping = mmap.mmap(file.fileno(), size, flags=flags, prot=mmap.PROT_READ)
                wanted = HEADER.unpack(mapping[: HEADER.size])[3]
        except FileNotFoundError:
            return _ABSENT
        except OSError as error:
            return f"the one that is there cannot be read ({error})"
        with memoryview(mapping) as view:
            found = _checksum(device, (view[s.offset : s.offset + s.size] for s in spans))
        if found != wanted:
            mapping.close()
            return "the one that was there was damaged: another checksum"
        device.lend(mapping, [(*span.place, span.offset) for span in spans])
        return ""

    def _refusal(self, file: BinaryIO, size: int) -> str:
        head = file.read(HEADER.size)
        if len(head) < HEADER.size or not head.startswith(MAGIC):
            return "the one that was there was damaged: no header"
        _, key, stated, _ = HEADER.unpack(head)
        if key != self._key:
            return (
                "the one that was there belongs to another version of the model or of the library"
            )
        if {stated, os.fstat(file.fileno()).st_size} != {size}:
            return "the one that was there was damaged: another size"
        return ""

    def _write(self, device: NativeDevice, places: Sequence[Place]) -> None:
        """Raises OSError. Nothing is left of what could not be finished."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._sweep()
        handle, name = tempfile.mkstemp(".tmp", self.path.name + ".", self.path.parent)
        try:
            with open(handle, "wb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # says that its writer lives
                spans, size = _spans(device, places)
                parts = [device.held(*span.place) for span in spans]
                file.write(HEADER.pack(MAGIC, self._key, size, _checksum(device, iter(parts))))
                for span, part in zip(spans, parts, strict=True):
                    file.seek(span.offset)
                    file.write(part)
                file.truncate(size)
                file.flush()
                os.replace(name, self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _sweep(self) -> None:
        """Remove what writers left that were killed."""
        for left in self.path.parent.glob(f"{self.path.name}.*.tmp"):
            with left.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                left.unlink(missing_ok=True)


_ABSENT = "there was none"


class _Span(NamedTuple):
    place: Place
    offset: int
    size: int


def _spans(device: NativeDevice, places: Sequence[Place]) -> tuple[list[_Span], int]:
    """Where each matrix lies, and how long the file is."""
    spans, at = [], ALIGNMENT
    for place in places:
        size = len(device.held(*place))
        spans.append(_Span(place, at, size))
        at += -(-size // ALIGNMENT) * ALIGNMENT
    return spans, at + ALIGNMENT


def _checksum(device: NativeDevice, parts: Iterator[memoryview]) -> int:
    total = 0
    for part in parts:
        total = device.checksum(total, part)
    return total


def _key(path: Path, quant: str) -> bytes:
    """Of a model's files, a format and this library."""
    digest = hashlib.sha256(f"{version('optimist')} {layout()} {quant}".encode())
    for file in [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file()):
        found = file.stat()
        digest.update(f"\n{file.name} {found.st_size} {found.st_mtime_ns}\n".encode())
        with file.open("rb") as opened:
            for sample in range(SAMPLES + 1):
                opened.seek(max(0, found.st_size - ALIGNMENT) * sample // SAMPLES)
                digest.update(opened.read(ALIGNMENT))
    return digest.digest()
