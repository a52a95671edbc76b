"""CPU time of the scheduler for one decode step: planning it, and settling its result.

Every request decodes in every step; a step is planned while the one before is in flight (depth 2). The
worker is a stand-in that answers with constant tokens, and its time is not counted. With --drafts K every
row has room for K drafts, and every other draft of a row is right.

    python benchmarks/scheduler.py [--sizes 1,64,256,1024] [--drafts 0] [--steps 150] [--json]
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time

import numpy as np

from optimist.actors.config import SchedulerConfig
from optimist.actors.scheduler.actor import Scheduler
from optimist.actors.scheduler.settle import News
from optimist.messages.base import column, ints, size
from optimist.messages.control import Resync
from optimist.messages.plans import Plan
from optimist.messages.requests import Admit, Placed, SchedulerStats
from optimist.messages.results import Capacity, StepResult
from optimist.messages.slots import Sampling

PROMPT = 64


class Plans:
    """Keeps the plans that wait to be answered."""

    def __init__(self) -> None:
        self.waiting: list[Plan] = []

    def send(self, plan: Plan, /) -> None:
        self.waiting.append(plan)


class Sink:
    """Takes everything and keeps nothing."""

    def send(self, message: News | Placed | Resync | SchedulerStats, /) -> None:
        pass


def answer(plan: Plan) -> StepResult:
    """A token for each row that samples, and more where it has drafts."""
    sampled = ints(plan.prefill.samples) == 1
    slots = plan.decode_slots + ints(plan.prefill.slots)[sampled].tobytes()
    generations = plan.decode_generations + ints(plan.prefill.generations)[sampled].tobytes()
    drafts = np.concatenate([ints(plan.draft_counts), np.zeros(int(sampled.sum()), np.int32)])
    counts = 1 + drafts // 2
    return StepResult(
        incarnation=2,
        epoch=plan.epoch,
        step=plan.step,
        slots=slots,
        generations=generations,
        token_counts=column(counts),
        token_ids=column(range(10, 10 + int(counts.sum()))),
        drafts_run=column(drafts),
    )


def running(requests: int, steps: int, drafts: int) -> tuple[Scheduler, Plans]:
    """A scheduler with so many requests, all of them decoding."""
    plans, sink = Plans(), Sink()
    config = SchedulerConfig(
        depth=2,
        max_batch_tokens=8192,
        max_waiting=4096,
        proposer="ngram" if drafts else "none",
        draft_tokens=drafts,
    )
    scheduler = Scheduler(config, 1, builder=plans, gateway=sink, worker=sink)
    scheduler.receive(
        Capacity(
            incarnation=2,
            num_blocks=requests * (PROMPT + (2 + drafts) * steps) // 16 + 4 * requests + 16,
            block_size=16,
            max_slots=requests,
            max_model_len=8192,
            max_batch_tokens=8192,
            vocab_size=50_000,
        )
    )
    for request in range(requests):
        scheduler.receive(
            Admit(
                incarnation=1,
                request=request,
                prompt_ids=column((request * 31 + i) % 50_000 for i in range(PROMPT)),
                max_tokens=4096,
                sampling=Sampling(temperature=0.0, seed=0),
                stop_ids=column([2]),
                credit=10_000,
            )
        )
    while True:
        scheduler.turn()
        plan = plans.waiting.pop(0)
        if size(plan.decode_slots) == requests:
            plans.waiting.insert(0, plan)
            return scheduler, plans
        scheduler.receive(answer(plan))


def measure(requests: int, steps: int, drafts: int) -> dict[str, float]:
    """Median thread CPU time of a step in microseconds, planning and settling apart."""
    scheduler, plans = running(requests, steps, drafts)
    planning, settling = [], []
    gc.collect()
    gc.freeze()
    for _ in range(steps):
        result = answer(plans.waiting.pop(0))
        start = time.thread_time_ns()
        scheduler.receive(result)
        middle = time.thread_time_ns()
        scheduler.turn()
        settling.append(middle - start)
        planning.append(time.thread_time_ns() - middle)
    plan, settle = statistics.median(planning) / 1e3, statistics.median(settling) / 1e3
    return {
        "running": requests,
        "drafts": drafts,
        "plan_us": round(plan, 1),
        "settle_us": round(settle, 1),
        "us_per_request": round((plan + settle) / requests, 2),
    }


def main() -> None:
    """Print one line for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sizes", default="1,64,256,1024", help="running requests, comma separated"
    )
    parser.add_argument("--drafts", type=int, default=0, help="room for drafts of each row")
    parser.add_argument("--steps", type=int, default=150, help="steps measured for each size")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    for requests in map(int, options.sizes.split(",")):
        row = measure(requests, options.steps, options.drafts)
        line = "  ".join(f"{name} {value:g}" for name, value in row.items())
        print(json.dumps(row) if options.json else line, flush=True)


if __name__ == "__main__":
    main()
