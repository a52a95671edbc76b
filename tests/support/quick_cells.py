"""Child processes of an engine that say ten times as often that they live.

So a short hang timeout is still many beats long, and no machine is so busy that it takes one for dead.
"""

from __future__ import annotations

from optimist.actors.runtime import child
from optimist.cells import main

if __name__ == "__main__":
    child.BEAT_SECONDS = 0.1
    main()
