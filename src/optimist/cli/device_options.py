"""Options of the device that computes."""

from __future__ import annotations

from optimist.cli.option import MEASURES, ON_DEVICE, engine_option

DEVICE = (
    engine_option(
        "--kernels",
        "worker.executor",
        "text",
        "what computes: the native library, torch, triton, or the fastest that can; triton on a "
        "CPU is interpreted, for tests",
        ("auto", "native", "torch", "triton"),
    ),
    engine_option(
        "--quant",
        "worker.quant",
        "text",
        "bits of the weights: none is --dtype, auto what the file has; needs the native library or triton",
        ("none", "int8", "int4", "auto"),
        also=MEASURES,
    ),
    engine_option(
        "--packed-cache",
        "worker.packed_cache",
        "text",
        "folder where the native library keeps weights as it computes with them: starts map them, "
        "sooner and once for all processes",
    ),
    engine_option(
        "--device",
        "worker.device",
        "text",
        "cpu, cuda, cuda:N, or auto: a GPU where torch sees one, else the CPU",
        also=ON_DEVICE,
    ),
    engine_option(
        "--kv-dtype",
        "worker.kv_dtype",
        "text",
        "number type of the KV cache: auto is --dtype, and int8 where the native library has weights of 8 or "
        "4 bits; int8 needs that library, fp8 --kernels triton",
        ("auto", "bfloat16", "int8", "fp8"),
        also=MEASURES,
    ),
    engine_option(
        "--torch-compile",
        "worker.torch_compile",
        "text",
        "with what torch compiles its norms, gate and rotation at the start, which takes a minute; aot_eager "
        "is for tests",
        ("off", "inductor", "aot_eager"),
    ),
    engine_option(
        "--reserve-mb",
        "worker.reserve_mb",
        "int",
        "of a GPU's memory, in MiB, left free beside weights, KV cache and what a step takes; not given: 1024",
    ),
    engine_option(
        "--no-graphs",
        "worker.graphs",
        "off",
        "a GPU's steps of decoding requests are launched anew, not captured at the start",
    ),
)
