# SPDX-License-Identifier: BSD-3-Clause
"""Coverage-guided fuzzing of the loader: libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer.

    python tools/fuzz.py [--runs N] [--seconds S] [--jobs J]

Builds the driver with clang (Debian: clang-14, libclang-rt-14-dev) into build/fuzz and runs test/cpp/loadable/fuzz.cpp
from the sample files and test/data/loadables; what is found new stays in build/fuzz/corpus. Each execution tries one
input twice: as it is, and with its checksums made true. What the validator accepts is described, loaded on the
simulator, and run. Exit code 1, and the input in build/fuzz, when a sanitizer reports.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/fuzz"
FLAGS = "-std=c++20 -g -O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -pthread"
FLAGS += " -fno-sanitize-recover=undefined -fno-sanitize=vptr -DATALLA_LIBFUZZER -Icsrc -Itest/cpp"
FLAGS += " -Ibuild/release/generated"  # by `make build`


def compiler() -> str:
    for name in ("clang++", "clang++-14", "clang++-15", "clang++-16", "clang++-17", "clang++-18", "clang++-19"):
        if shutil.which(name):
            return name
    sys.exit("tools/fuzz.py: clang++ is missing; on Debian: apt-get install clang-14 libclang-rt-14-dev")


def build() -> Path:
    sources = [path for path in sorted((ROOT / "csrc/runtime").rglob("*.cpp")) if path.parent.name != "tools"]
    sources.append(ROOT / "test/cpp/loadable/fuzz.cpp")
    out = BUILD / "loadable_fuzz"
    newest = max(
        path.stat().st_mtime
        for path in [*(ROOT / "csrc/runtime").rglob("*.*"), *(ROOT / "test").rglob("*.h"), *sources]
    )
    if out.exists() and out.stat().st_mtime > newest:
        return out
    (BUILD / "obj").mkdir(parents=True, exist_ok=True)
    clang = compiler()

    def compile_one(source: Path) -> Path:
        target = BUILD / "obj" / (str(source.relative_to(ROOT)).replace("/", "_") + ".o")
        subprocess.run([clang, *FLAGS.split(), "-c", source, "-o", target], check=True, cwd=ROOT)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sources))
    flags = FLAGS.replace("fuzzer-no-link", "fuzzer")
    subprocess.run([clang, *flags.split(), *objects, "-o", out, "-ldl"], check=True, cwd=ROOT)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000_000, help="executions, of all jobs together")
    parser.add_argument("--seconds", type=int, default=0, help="stop after so long; 0: when the runs are done")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    program = build()
    seeds, corpus = BUILD / "seeds", BUILD / "corpus"
    for folder in (seeds, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    for path in (ROOT / "test/data/loadables").glob("*.atl"):
        shutil.copy(path, seeds)
    env = os.environ | {
        "ATALLA_DEVICE_LIBRARY": str(ROOT / "torch_atalla/lib/libatalla_sim.so"),
        "ATALLA_FUZZ_RUN": "1",
        "ATALLA_FUZZ_SEEDS": str(seeds),
        "ATALLA_NUM_THREADS": "1",
        "ATALLA_DRAM_BYTES": str(64 << 20),  # what a file may ask for, and then fill
        # The device view has no access rights; the simulator handles faults there.
        "ASAN_OPTIONS": "detect_leaks=0:handle_segv=1:allocator_may_return_null=1",
    }
    subprocess.run([program, "-runs=0", corpus], env=env, check=True, capture_output=True)  # writes the seeds
    command: list[str] = [
        str(program),
        f"-runs={args.runs // args.jobs}",
        "-max_len=32768",
        "-timeout=60",
        "-rss_limit_mb=4096",
    ]
    command += [f"-artifact_prefix={BUILD}/", "-print_final_stats=1"]
    command += [f"-max_total_time={args.seconds}"] if args.seconds else []
    running = [
        subprocess.Popen(
            [*command, f"-seed={job + 1}", str(corpus), str(seeds)], env=env, stderr=subprocess.PIPE, text=True
        )
        for job in range(args.jobs)
    ]
    with ThreadPoolExecutor(args.jobs) as pool:
        texts = [text for _, text in pool.map(lambda process: process.communicate(), running)]
    executed = sum(int(number) for text in texts for number in re.findall(r"number_of_executed_units: (\d+)", text))
    reports = [text for process, text in zip(running, texts) if process.returncode]
    for text in reports:
        print(text[-6000:])
    covered = max((int(number) for text in texts for number in re.findall(r"cov: (\d+)", text)), default=0)
    print(f"{executed:,} executions, {covered:,} edges covered, {len(reports)} reports")
    return 1 if reports else 0


if __name__ == "__main__":
    sys.exit(main())
