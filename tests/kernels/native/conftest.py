"""What tests of the native library share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from native_toy import device

from optimist.kernels.native.device import NativeDevice


@pytest.fixture
def toy() -> Iterator[NativeDevice]:
    """The toy network on one thread."""
    found = device()
    yield found
    found.close()
