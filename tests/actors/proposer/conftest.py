"""A proposer actor around a class that only keeps what it is told."""

from __future__ import annotations

import pytest
from proposer_scene import Recorder, Scene, scene

from optimist.actors.config import ProposerConfig


@pytest.fixture
def recorded() -> Scene:
    return scene(Recorder(ProposerConfig()))
