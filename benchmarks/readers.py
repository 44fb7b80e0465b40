"""How long a trace of a million rows takes to read, and how much memory.

    python benchmarks/readers.py                    # every format, each in a process of its own
    python benchmarks/readers.py swf --rows 200000

The rows are made up, in a temporary folder. Told are the seconds of reading what is recorded (``read_recorded``), of
looking at it (``inspect_trace``), and of making the jobs (``Assumptions.workload``), with the most memory after each.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

FORMATS = ("pai", "gavel", "swf")
SPEEDS = {"v100": {f"('Net (batch size {b})', {g})": {"null": 2.0 + g} for b in (16, 32, 64) for g in (1, 2, 4, 8)}}


def rows(format: str, count: int) -> Iterator[str]:
    """Yield made-up rows, 3 a job where a job has several."""
    rng = np.random.default_rng(0)
    for first in range(0, count, 100_000):
        size = min(100_000, count - first)
        start, length, number = rng.random(size) * 2e7, rng.exponential(3000, size), rng.integers(0, 4, size)
        for i in range(size):
            n, at, seconds, kind = first + i, start[i], length[i] + 1, number[i]
            if format == "pai":
                job, role = f"{n // 3 * 2654435761 % 2**96:024x}", "ps" if n % 3 == 2 else "worker"
                status = "Failed" if kind == 3 else "Terminated"
                name = f"{n * 2654435761 % 2**256:064x}"
                yield f"{job},{role},{name},{name[:24]},{name[24:48]},{status},{at:.1f},{at + seconds:.1f},{name[:24]}"
            elif format == "gavel":
                model, command = f"Net (batch size {16 << n % 3})", "cd %s/workloads/net && python3 train.py -data %s/d"
                yield f"{model}\t{command}\t-step\t1\t{int(seconds) + 1}\t{at:.6f}\t{1 << kind}"
            else:
                width, late = 1 << kind, int(at % 5000)
                yield (
                    f"{n + 1:7d} {int(at):9d} {late:6d} {int(seconds):7d} {width:4d} -1 {1000 * (n % 300)} "
                    f"{width} 43200 -1 {1 if n % 9 else 5} {n % 50} 1 1 1 -1 -1 -1"
                )


def peak() -> float:
    """Return the most memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(format: str, path: Path, speeds: Path, jobs: bool) -> None:
    """Read one file and print the figures."""
    from slotwise.inspection import inspect_trace
    from slotwise.workloads.models import Assumptions
    from slotwise.workloads.traces import read_recorded

    def now() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    def told(what: str, begin: tuple[float, float]) -> str:
        wall, cpu = (end - start for end, start in zip(now(), begin, strict=True))
        return f"{what} {wall:.1f} s ({cpu:.1f} s of CPU, {peak():.0f} MiB)"

    before = peak()
    begin = now()
    recorded = read_recorded(path, throughputs=speeds if format == "gavel" else None)
    parts = [told("read", begin)]
    begin = now()
    inspect_trace(recorded)
    parts.append(told("inspect", begin))
    if jobs:
        begin = now()
        Assumptions().workload(recorded)
        parts.append(told("jobs", begin))
    size = path.stat().st_size / 2**20
    head = f"{format}: {len(recorded)} jobs, {sum(recorded.skipped.values())} skipped, {size:.0f} MiB"
    print(f"{head}; {before:.0f} MiB before; {', '.join(parts)}", flush=True)


def main() -> None:
    """Make the files, and read each in a new process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"{', '.join(FORMATS)} (all)")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--no-jobs", action="store_true", help="only read and inspect")
    parser.add_argument("--read", nargs=2, type=Path, metavar=("FILE", "SPEEDS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not set(given.formats) <= set(FORMATS):
        parser.error(f"a format must be one of {', '.join(FORMATS)}, got {' '.join(given.formats)}")
    if given.read is not None:
        measure(given.formats[0], *given.read, not given.no_jobs)
        return
    with tempfile.TemporaryDirectory() as folder:
        speeds = Path(folder) / "speeds.json"
        speeds.write_text(json.dumps(SPEEDS))
        for format in given.formats or FORMATS:
            path = Path(folder) / format
            with path.open("w", encoding="utf-8") as stream:
                stream.writelines(f"{line}\n" for line in rows(format, given.rows))
            options = ["--no-jobs"] if given.no_jobs else []
            subprocess.run([sys.executable, __file__, format, "--read", path, speeds, *options], check=True)
            path.unlink()


if __name__ == "__main__":
    main()
