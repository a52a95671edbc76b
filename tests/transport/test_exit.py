"""Leaving with messages unsent: nothing hangs, whatever was closed or left to the collector."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest
from sockets import beat

from optimist.messages.control import Beat
from optimist.transport.channel import PushRef
from optimist.transport.endpoints import ipc
from optimist.transport.links import Links

QUEUED = """
import sys
from optimist.messages.control import Beat
from optimist.transport.channel import PushRef
from optimist.transport.dealer import Dealer
from optimist.transport.endpoints import ipc
from optimist.transport.links import Links
from optimist.transport.router import Router

links = Links()
ref = PushRef(links, ipc(sys.argv[1], "nobody"), (Beat,))
router = Router(links, ipc(sys.argv[1], "router"))
dealer = Dealer(links, ipc(sys.argv[1], "nobody"))
for number in range(100):
    ref.send(Beat(incarnation=number, cell="a" * 10_000))
"""
ENDINGS = {
    "closed one by one": "ref.close(); router.close(); dealer.close(); links.close()",
    "links closed": "links.close()",
    "links closed after the rest was collected": "del ref, router, dealer; links.close()",
    "twice": "links.close(); links.close(); ref.close()",
    "an error on the way": "import atexit; atexit.register(print, 'left'); 1 / 0",
    "nothing closed": "",
    "nothing closed, all collected": "import gc; del ref, router, dealer, links; gc.collect()",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_leaving_with_unsent_messages_is_prompt(sockets: Path, ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUEUED + ENDINGS[ending], str(sockets)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == ("1 / 0" in ENDINGS[ending]), done.stderr
    assert not (sockets / "nobody.sock").exists()


def test_closing_with_a_client_that_does_not_read_is_prompt(sockets: Path) -> None:
    code = """
import sys, zmq
from optimist.transport.endpoints import ipc
from optimist.transport.links import Links
from optimist.transport.router import Router

with Links() as links:
    router = Router(links, ipc(sys.argv[1], "router"))
    raw = links.socket(zmq.DEALER)
    raw.rcvhwm = 1
    raw.connect(router.endpoint)
    raw.send(b"hello")
    while (incoming := router.receive_nowait()) is None:
        pass
    while router.send(incoming.identity, bytes(100_000)):
        pass
"""
    subprocess.run([sys.executable, "-c", code, str(sockets)], timeout=60, check=True)


def test_links_that_were_never_closed_say_so_when_collected(sockets: Path) -> None:
    def leave() -> None:
        links = Links()
        PushRef(links, ipc(sockets, "nobody"), (Beat,)).send(beat(1))

    leave()
    with pytest.warns(ResourceWarning, match="links were never closed"):
        gc.collect()
