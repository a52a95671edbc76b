"""Where sockets may listen: ipc in a private directory, tcp on the loopback unless it is encrypted."""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from pathlib import Path

import msgspec
import zmq

from optimist.messages.errors import ConfigError

MAX_PATH = 107
"""bytes in the path of a Unix socket"""


class CurveKeys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """CurveZMQ keys in Z85, 40 characters each, as `zmq.curve_keypair()` makes them.

    public, secret: one's own. server: the server's public key, for the side that connects.
    Who knows the server's public key may connect: hand it out like a password.
    """

    public: str
    secret: str
    server: str = ""

    def __post_init__(self) -> None:
        for name in ("public", "secret"):
            _check_key(name, getattr(self, name))
        if self.server:
            _check_key("server", self.server)


def _check_key(name: str, key: str) -> None:
    if len(key) != 40 or not key.isascii():
        raise ConfigError(f"curve {name} key: expected 40 characters of Z85, got {len(key)}")


def ipc(directory: str | Path, name: str) -> str:
    """The endpoint of an actor's inbox. Raises ConfigError when its path is too long for a socket."""
    endpoint = f"ipc://{Path(directory) / name}.sock"
    _check_path(endpoint)
    return endpoint


def check_connect(endpoint: str, *, curve: CurveKeys | None = None) -> None:
    """Raise ConfigError unless the endpoint can be connected to, and the keys name the server's.

    What leaves the machine is encrypted: tcp needs a loopback address, or CURVE keys.
    """
    if curve is not None and not curve.server:
        raise ConfigError("curve server key: expected the server's public key, got none")
    if endpoint.startswith("ipc://"):
        _check_path(endpoint)
    elif endpoint.startswith("tcp://"):
        host, port = _host_and_port(endpoint)
        if not host or host == "*" or not port.isdecimal():
            raise ConfigError(f"{endpoint}: expected tcp://HOST:PORT")
        if curve is None and not _loopback(host):
            raise ConfigError(
                f"{endpoint}: expected CURVE keys, or a loopback address such as 127.0.0.1: "
                "prompts are not sent in clear to another machine"
            )
    else:
        raise ConfigError(f"{endpoint}: expected ipc://PATH or tcp://HOST:PORT")


def check_bind(endpoint: str, *, curve: CurveKeys | None) -> None:
    """Raise ConfigError unless it is safe to listen there, and free.

    ipc needs a directory that nobody else can enter; tcp needs a loopback address, or CURVE keys.
    """
    if endpoint.startswith("ipc://"):
        _check_private(endpoint)
        _check_free(endpoint)
    elif endpoint.startswith("tcp://"):
        host, port = _host_and_port(endpoint)
        if not host or not (port == "*" or port.isdecimal()):
            raise ConfigError(f"{endpoint}: expected tcp://HOST:PORT, the port a number or *")
        if curve is None and not _loopback(host):
            raise ConfigError(
                f"{endpoint}: expected a loopback address such as 127.0.0.1, or CURVE keys, "
                "for an address that others can reach"
            )
    else:
        raise ConfigError(f"{endpoint}: expected ipc://PATH or tcp://HOST:PORT")


def remove_file(endpoint: str) -> None:
    """Remove the file of an ipc endpoint that one is about to unbind: ZeroMQ leaves it behind."""
    if endpoint.startswith("ipc://"):
        Path(endpoint.removeprefix("ipc://")).unlink(missing_ok=True)


def serve_curve(socket_: zmq.Socket[bytes], keys: CurveKeys) -> None:
    """Make a socket that will bind encrypt, and refuse peers that do not."""
    socket_.curve_server = True
    socket_.curve_secretkey = keys.secret.encode()
    socket_.curve_publickey = keys.public.encode()


def use_curve(socket_: zmq.Socket[bytes], keys: CurveKeys) -> None:
    """Make a socket that will connect encrypt."""
    socket_.curve_serverkey = keys.server.encode()
    socket_.curve_secretkey = keys.secret.encode()
    socket_.curve_publickey = keys.public.encode()


def _host_and_port(endpoint: str) -> tuple[str, str]:
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_path(endpoint: str) -> Path:
    path = endpoint.removeprefix("ipc://")
    if not path.startswith("/"):
        raise ConfigError(f"{endpoint}: expected an absolute path")
    if len(os.fsencode(path)) > MAX_PATH:
        raise ConfigError(f"{endpoint}: expected a path of at most {MAX_PATH} bytes")
    return Path(path)


def _check_private(endpoint: str) -> None:
    directory = _check_path(endpoint).parent
    try:
        state = directory.stat()
    except OSError as error:
        raise ConfigError(f"{endpoint}: {directory}: {error.strerror}") from error
    mode = stat.S_IMODE(state.st_mode)
    if state.st_uid != os.geteuid() or mode & 0o077:
        raise ConfigError(
            f"{endpoint}: expected a directory of yours with mode 0700, got {directory} "
            f"with mode {mode:04o}"
        )


def _check_free(endpoint: str) -> None:
    """A file left by a dead process is free: only a listener takes a connection."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    with probe:
        try:
            probe.connect(endpoint.removeprefix("ipc://"))
        except BlockingIOError:
            pass
        except OSError:
            return
    raise ConfigError(f"{endpoint}: expected a free path, but another process listens there")
