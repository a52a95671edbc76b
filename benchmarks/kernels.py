"""What Triton kernels take and reach. `python benchmarks/kernels.py --record` compiles every shipped
configuration for every target, here, and writes docs/kernels.json: docs/kernels.md shows it. `--time` runs
the dense ones on a GPU; `optimist bench attention` times attention.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimist.kernels.triton_common import Launch

RECORD = Path(__file__).parent.parent / "docs/kernels.json"


def record() -> None:
    """Compile everything and write down what it takes, a line for each kernel."""
    from optimist.kernels.triton_aot import TARGETS, compiled
    from optimist.kernels.triton_builds import builds
    from optimist.kernels.triton_interpreter import quiet

    quiet()
    lines = []
    for target in TARGETS:
        for name, call in builds(target).items():
            for found in compiled(name, call, target):
                for fault in found.faults():
                    print(f"{target} {name} {found.kernel}: {fault}")
                lines.append(json.dumps(found._asdict()))
    RECORD.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    print(f"wrote {len(lines)} kernels to {RECORD.name}")


def measure() -> None:
    """Run every kernel whose work does not depend on values, on the GPU that is there, and print its time."""
    from optimist.kernels.gpus import chosen_device
    from optimist.kernels.triton_builds import builds
    from optimist.kernels.triton_common import recorded
    from optimist.kernels.triton_interpreter import quiet

    device = chosen_device("auto")
    if device == "cpu":
        raise SystemExit("no GPU is visible here: there is nothing to time")
    quiet()
    for name, call in builds("cuda:90").items():
        with recorded() as launches:
            call()
        for launch in launches:
            if launch.kernel.fn.__name__ in DENSE:
                micros, moved = timed(launch, device)
                print(
                    f"{name:24} {launch.kernel.fn.__name__:16} {micros:9.1f} us {moved:8.1f} GB/s"
                )


DENSE = {
    "_rms_norm",
    "_add_rms_norm",
    "_silu_and_mul",
    "_rope",
    "int8_matmul",
    "int4_matmul",
    "choose",
}


def timed(launch: Launch, device: str, repeats: int = 50) -> tuple[float, float]:
    """Microseconds of a launch, and gigabytes a second of its arguments."""
    import torch

    def there(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return torch.zeros(
            value.untyped_storage().nbytes() // value.itemsize, dtype=value.dtype, device=device
        ).as_strided(value.shape, value.stride(), value.storage_offset())

    arguments = [there(value) for value in launch.arguments]
    size = sum(one.numel() * one.itemsize for one in arguments if isinstance(one, torch.Tensor))
    launch.kernel[launch.grid](*arguments, **launch.options)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        launch.kernel[launch.grid](*arguments, **launch.options)
    end.record()
    end.synchronize()
    micros = 1e3 * begin.elapsed_time(end) / repeats
    return micros, size / micros / 1e3


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="compile, and write down resources")
    parser.add_argument("--time", action="store_true", help="run on the GPU that is there")
    given = parser.parse_args()
    if not (given.record or given.time):
        parser.error("expected --record or --time")
    if given.record:
        record()
    if given.time:
        measure()


if __name__ == "__main__":
    main()
