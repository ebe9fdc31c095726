# SPDX-License-Identifier: BSD-3-Clause
"""torch.profiler on the device: rows, their simulated times and arguments, correlation, tables, traces, schedules."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import models
import torch
import torch.nn.functional as F
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla import telemetry

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
ROOT = Path(__file__).resolve().parents[2]
DEVICE_CATEGORIES = ("kernel", "gpu_memcpy")


def exported(prof) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        prof.export_chrome_trace(path)
        return json.loads(Path(path).read_text())


def rows(trace: dict, *categories: str) -> list[dict]:
    return [e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") in categories]


def device_events(prof) -> list:
    return [e for e in prof.events() if e.device_type == DeviceType.PrivateUse1 and not e.is_user_annotation]


def ns(cycles: int) -> float:
    return cycles / torch.atalla.get_device_properties().clock_hz * 1e9


class TestProfiler(TestCase):
    def profiled(self, body, **options):
        """The profile of body(), and the device's own records of the same work."""
        body()
        since = telemetry.work()[-1].sequence + 1
        with profile(activities=BOTH, **options) as prof:
            body()
        return prof, telemetry.work(since=since)

    def test_rows_are_the_devices_records(self, device):
        x = torch.randn(64, 64, device=device)
        prof, work = self.profiled(lambda: (x @ x).relu().sum().item())
        trace = exported(prof)
        found = rows(trace, *DEVICE_CATEGORIES)
        self.assertEqual(len(found), len(work))
        self.assertGreaterEqual(len(found), 4)
        for row, w in zip(sorted(found, key=lambda r: r["ts"]), work):
            args = row["args"]
            self.assertEqual(args["start_cycle"], w.start_cycle)
            self.assertEqual(args["end_cycle"], w.end_cycle)
            self.assertEqual(args["cycles"], w.cycles)
            self.assertEqual((args["bytes_read"], args["bytes_written"]), (w.dram_bytes_read, w.dram_bytes_written))
            self.assertLessEqual(abs(row["dur"] * 1e3 - ns(w.end_cycle - w.start_cycle)), 0.51)
            self.assertEqual(args["sdma_utilisation"], round(w.sdma_cycles / (w.end_cycle - w.start_cycle), 4))
            self.assertEqual((row["pid"], row["tid"], args["stream"]), (0, w.stream, w.stream))
            if w.kind == "launch":
                self.assertEqual((row["name"], args["kernel"]), (w.kernel, w.kernel))
                self.assertEqual((tuple(args["shape"]), args["macs"]), (w.shape, w.macs))
                self.assertEqual(args["dtype"], "float32")
                self.assertIn("array_utilisation", args)
        gemm = next(r for r in found if r["name"] == "gemm")
        self.assertEqual(gemm["args"]["macs"], 64**3)
        self.assertGreater(gemm["args"]["array_utilisation"], 0)

    def check_rows(self, body, least):
        """Rows of the profile are the device's own records, with their durations."""
        prof, work = self.profiled(body)
        found = device_events(prof)
        self.assertGreaterEqual(len(work), least)
        self.assertEqual([e.name for e in found], [w.name for w in work])
        for event, record in zip(found, work):
            self.assertAlmostEqual(event.time_range.elapsed_us() * 1e3, ns(record.cycles), delta=2)

    def test_replay_of_a_graph(self, device):
        x = torch.randn(32, 32, device=device)
        graph = torch.atalla.Graph()
        with torch.atalla.graph(graph):
            (x @ x).relu().sum()

        def body():
            graph.replay()
            torch.accelerator.synchronize()

        self.check_rows(body, 3)

    def test_loadable(self, device):
        with tempfile.TemporaryDirectory() as folder:
            model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.LayerNorm(32))
            torch_atalla.save_loadable(model, Path(folder) / "model.atl", args=(torch.randn(2, 32),))
            program = torch_atalla.load_loadable(Path(folder) / "model.atl", device=device)
        x = torch.randn(2, 32, device=device)

        def body():
            program(x)
            torch.accelerator.synchronize()

        self.check_rows(body, 2)

    def test_simulated_distances_are_kept(self, device):
        x = torch.randn(100, 100, device=device)
        prof, work = self.profiled(lambda: [x.exp() for _ in range(5)])
        found = sorted(rows(exported(prof), "kernel"), key=lambda r: r["ts"])
        for row, w in zip(found, work):
            apart = (row["ts"] - found[0]["ts"]) * 1e3
            rounding = 2e3 * math.ulp(row["ts"])  # of times in microseconds, as the file has them
            self.assertLessEqual(abs(apart - ns(w.start_cycle - work[0].start_cycle)), 1.1 + rounding)

    def test_rows_belong_to_ops(self, device):
        x = torch.randn(32, 32, device=device, requires_grad=True)

        def body():
            F.gelu(x @ x).sum().backward()

        prof, _ = self.profiled(body)
        trace = exported(prof)
        ops = {e["args"]["External id"]: e for e in rows(trace, "cpu_op")}
        calls = {e["args"]["correlation"]: e for e in rows(trace, "privateuse1_runtime")}
        owners = {}
        for row in rows(trace, *DEVICE_CATEGORIES):
            call = calls[row["args"]["correlation"]]
            op = ops[row["args"]["External id"]]
            self.assertEqual(call["args"]["External id"], row["args"]["External id"])
            self.assertEqual((call["pid"], call["tid"]), (op["pid"], op["tid"]))
            self.assertGreaterEqual(call["ts"], op["ts"])
            self.assertLessEqual(call["ts"] + call["dur"], op["ts"] + op["dur"] + 1)
            self.assertGreaterEqual(row["ts"], call["ts"])  # no arrow points backwards
            owners.setdefault(row["name"], set()).add(op["name"])
        self.assertIn("aten::mm", owners["gemm"])
        # Backward runs in another thread, and belongs to its own ops.
        self.assertGreaterEqual(len([r for r in rows(trace, "kernel") if r["name"] == "gemm"]), 3)
        arrows = [e for e in trace["traceEvents"] if e.get("cat") == "ac2g"]
        starts = {e["id"] for e in arrows if e["ph"] == "s"}
        ends = {e["id"] for e in arrows if e["ph"] == "f"}
        self.assertEqual(len(ends), len(rows(trace, *DEVICE_CATEGORIES)))
        self.assertTrue(ends <= starts)

    def test_table_sorts_by_device_time(self, device):
        x = torch.randn(128, 128, device=device)
        small = torch.randn(4, device=device)
        prof, work = self.profiled(lambda: (x @ x, small + small, small + small))
        averages = prof.key_averages()
        by_name = {a.key: a for a in averages}
        for kernel in ("gemm", "pointwise.add"):
            total = sum(ns(w.end_cycle - w.start_cycle) for w in work if w.kernel == kernel) / 1e3
            self.assertEqual(by_name[kernel].count, sum(w.kernel == kernel for w in work))
            self.assertLess(abs(by_name[kernel].self_device_time_total - total), 2e-3)
        self.assertAlmostEqual(by_name["aten::mm"].self_device_time_total, by_name["gemm"].self_device_time_total, 3)
        self.assertEqual(by_name["aten::add"].count, 2)
        self.assertAlmostEqual(
            by_name["aten::add"].device_time_total, by_name["pointwise.add"].self_device_time_total, 3
        )
        for key in ("self_privateuse1_time_total", "privateuse1_time_total", "self_device_time_total"):
            table = averages.table(sort_by=key, row_limit=-1)
            self.assertLess(table.index("gemm"), table.index("pointwise.add"))
        self.assertIn("Self ATALLA", table)
        self.assertIn("ATALLA time avg", table)
        spent = sum(ns(w.end_cycle - w.start_cycle) for w in work) / 1e3
        self.assertLess(abs(sum(e.self_device_time_total for e in device_events(prof)) - spent), 5e-3)

    def test_copies(self, device):
        host = torch.randn(1000)
        there = torch.empty(1000, device=device)
        far = torch.empty(1000, device="atalla:1")

        def body():
            there.copy_(host)
            there.cpu()
            far.copy_(there)
            torch.atalla.synchronize(1)

        body()
        with profile(activities=BOTH) as prof:
            body()
        found = rows(exported(prof), "gpu_memcpy")
        names = sorted(row["name"] for row in found)
        self.assertEqual([name.split(" (")[0] for name in names], ["Memcpy DtoD", "Memcpy DtoH", "Memcpy HtoD"])
        for row in found:
            self.assertEqual(row["args"]["bytes"], 4000)
        self.assertEqual({row["args"]["bytes_written"] for row in found if "HtoD" in row["name"]}, {4000})

    def test_streams_and_devices_have_named_rows(self, device):
        other = torch.Stream(device="atalla:0")
        x = torch.randn(64, 64, device=device)
        y = torch.randn(64, 64, device="atalla:1")

        def body():
            with other:
                x.exp()
            x.neg()
            y.exp()
            for ordinal in range(2):
                torch.atalla.synchronize(ordinal)

        prof, _ = self.profiled(body)
        trace = exported(prof)
        named = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
        processes = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
        used = {(row["pid"], row["tid"]) for row in rows(trace, "kernel")}
        self.assertEqual(len(used), 3)
        for pid, tid in used:
            self.assertTrue(named[pid, tid].startswith(f"stream {tid}"))
            self.assertEqual(processes[pid], f"atalla:{pid}")
        self.assertEqual(named[0, 0], "stream 0 (default)")
        properties = trace["deviceProperties"]
        self.assertEqual([p["id"] for p in properties[:2]], [0, 1])
        self.assertEqual(properties[0]["name"], torch.atalla.get_device_name(0))
        events = {e.device_index for e in device_events(prof)}
        self.assertEqual(events, {0, 1})

    def test_user_ranges(self, device):
        x = torch.randn(64, 64, device=device)

        def body():
            with record_function("outer"):
                x.exp()
                with record_function("inner"):
                    x.neg()
                x.exp()

        prof, work = self.profiled(body)
        ranges = {row["name"]: row for row in rows(exported(prof), "gpu_user_annotation")}
        self.assertEqual(set(ranges), {"outer", "inner"})
        inside = ns(work[1].end_cycle - work[1].start_cycle)
        self.assertLess(abs(ranges["inner"]["dur"] * 1e3 - inside), 5)
        around = ns(work[2].end_cycle - work[0].start_cycle)
        self.assertLess(abs(ranges["outer"]["dur"] * 1e3 - around), 5)

    def test_schedule(self, device):
        x = torch.randn(32, 32, device=device)
        seen = []

        def ready(prof):
            seen.append((prof.step_num, len(rows(exported(prof), "kernel"))))

        plan = schedule(wait=1, warmup=1, active=2, repeat=2)
        with profile(activities=BOTH, schedule=plan, on_trace_ready=ready) as prof:
            for _ in range(8):
                x.exp()
                x.neg()
                prof.step()
        self.assertEqual(seen, [(4, 4), (8, 4)])

    def test_steps_span_the_device(self, device):
        x = torch.randn(32, 32, device=device)
        names = set()

        def ready(prof):
            names.update(row["name"] for row in rows(exported(prof), "gpu_user_annotation"))

        plan = schedule(wait=0, warmup=1, active=2, repeat=1)
        with profile(activities=BOTH, schedule=plan, on_trace_ready=ready) as prof:
            for _ in range(3):
                x.exp()
                prof.step()
        self.assertEqual(names, {"ProfilerStep#1", "ProfilerStep#2"})

    def test_tensorboard_handler(self, device):
        x = torch.randn(32, 32, device=device)
        with tempfile.TemporaryDirectory() as folder:
            with profile(activities=BOTH, on_trace_ready=tensorboard_trace_handler(folder, "worker")):
                x.exp()
            (path,) = Path(folder).glob("worker*.pt.trace.json")
            self.assertEqual(len(rows(json.loads(path.read_text()), "kernel")), 1)

    def test_options(self, device):
        x = torch.randn(16, 16, device=device)
        options = dict(record_shapes=True, with_stack=True, with_flops=True, with_modules=True, profile_memory=True)
        model = torch.nn.Linear(16, 16, device=device)
        with profile(activities=BOTH, **options) as prof:
            model(x).relu()
        op = next(e for e in prof.events() if e.name == "aten::addmm")
        self.assertEqual(op.input_shapes[1], [16, 16])
        self.assertGreater(op.device_time_total, 0)
        self.assertGreater(op.flops, 0)
        grouped = prof.key_averages(group_by_input_shape=True).table(sort_by="self_privateuse1_time_total")
        self.assertIn("[16, 16]", grouped)
        self.assertIn("aten::addmm", prof.key_averages(group_by_stack_n=3).table())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "stacks.txt"
            prof.export_stacks(str(path), "self_privateuse1_time_total")

    def test_device_activity_alone(self, device):
        x = torch.randn(16, 16, device=device)
        with profile(activities=[ProfilerActivity.PrivateUse1]) as prof:
            x.exp()
        self.assertEqual([e.name for e in device_events(prof)], ["pointwise.exp"])

    def test_host_activity_alone(self, device):
        x = torch.randn(16, 16, device=device)
        with profile(activities=[ProfilerActivity.CPU]) as prof:
            x.exp()
        self.assertEqual(device_events(prof), [])
        self.assertIn("aten::exp", {e.name for e in prof.events()})

    def test_nothing_is_tagged_without_a_profiler(self, device):
        x = torch.randn(16, 16, device=device)
        with profile(activities=BOTH):
            x.exp()
        before = telemetry.counters()
        x.exp()
        with profile(activities=BOTH) as prof:
            pass
        self.assertEqual(device_events(prof), [])
        self.assertEqual(telemetry.counters().launches - before.launches, 1)

    def test_more_work_than_the_ring_holds(self, device):
        """A device keeps 16,384 records: a profile reads them while it runs."""
        x = torch.ones(1, device=device)
        launches = 20_000
        with telemetry.Recording() as recording:
            for _ in range(launches):
                x.neg_()
        mine = recording.devices[0]
        self.assertEqual((len(mine.work), mine.lost), (launches, 0))
        sequences = [w.sequence for w in mine.work]
        self.assertEqual(sequences, list(range(sequences[0], sequences[0] + launches)))

    def test_threads(self, device):
        """Work of threads that a profile does not watch has no op, but it is there."""
        x = torch.ones(8, device=device)
        done = threading.Thread(target=lambda: x.exp())
        with profile(activities=BOTH) as prof:
            done.start()
            done.join()
            x.neg()
        trace = exported(prof)
        linked = {row["name"]: "External id" in row["args"] for row in rows(trace, "kernel")}
        self.assertEqual(linked, {"pointwise.exp": False, "pointwise.neg": True})

    def test_nested_recordings(self, device):
        x = torch.ones(8, device=device)
        with telemetry.Recording() as outer:
            x.exp()
            with profile(activities=BOTH) as prof:
                x.neg()
            x.exp()
        self.assertEqual([w.kernel for w in outer.devices[0].work], ["pointwise.exp", "pointwise.neg", "pointwise.exp"])
        self.assertEqual([e.name for e in device_events(prof)], ["pointwise.neg"])

    def test_fallbacks_appear(self, device):
        x = torch.rand(4, 4, device=device)
        with torch_atalla.fallback.mode("silent"), profile(activities=BOTH) as prof:
            models.add_relu(x, 0.1)  # an op for which the chip has no kernel
        names = {e.name for e in prof.events()}
        self.assertIn("atalla::cpu_fallback(atalla_test::add_relu.Scalar)", names)

    def test_autograd_profiler(self, device):
        """Its two ways: kineto's device rows, and events around each op."""
        x = torch.randn(64, 64, device=device)
        x @ x
        for kineto in (True, False):
            since = telemetry.work()[-1].sequence + 1
            with torch.autograd.profiler.profile(use_device="atalla", use_kineto=kineto) as prof:
                x @ x
            (work,) = telemetry.work(since=since)
            (op,) = [e for e in prof.function_events if e.name == "aten::mm"]
            self.assertGreater(work.cycles, 5000)
            # Without kineto torch cuts the time to whole microseconds.
            self.assertLess(abs(op.device_time_total - ns(work.cycles) / 1e3), 2e-3 if kineto else 1)

    def test_events_of_the_trace_are_balanced_json(self, device):
        x = torch.randn(8, 8, device=device)
        prof, _ = self.profiled(lambda: x.exp())
        trace = exported(prof)
        for event in trace["traceEvents"]:
            self.assertIn("ph", event)
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)
                self.assertGreaterEqual(event["ts"], 0)


class TestTelemetryTrace(TestCase):
    def check(self, trace: dict, expect: set[str], since: int = 0):
        events = trace["traceEvents"]
        names = {e["name"] for e in events}
        self.assertTrue(expect <= names, names)
        threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertTrue({"stream 0 (default)", "unit sdma", "unit vector", "unit array"} <= set(threads.values()))
        for e in events:
            if e["ph"] == "X":
                self.assertIn((e["pid"], e["tid"]), threads)
                self.assertGreaterEqual(e["ts"], 0)
        self.assertTrue(
            {"in flight", "scratchpads", "DRAM bytes", "MACs"} <= {e["name"] for e in events if e["ph"] == "C"}
        )
        # Rows of units nest or are disjoint, where no streams share them: from the sequence number `since` on.
        for key, name in threads.items():
            if not name.startswith("unit"):
                continue
            open_until: list[float] = []
            row = (e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == key)
            spans = [(e["ts"], -e["dur"]) for e in row if e["args"]["sequence"] >= since]
            for ts, negative in sorted(spans):
                while open_until and open_until[-1] <= ts + 1e-9:
                    open_until.pop()
                if open_until:
                    self.assertLessEqual(ts - negative, open_until[-1] + 1e-6)
                open_until.append(ts - negative)

    def test_trace(self, device):
        earlier = telemetry.work(device)
        x = torch.randn(64, 64, device=device)
        (x @ x).exp().cpu()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.json"
            telemetry.trace(path)
            trace = json.loads(path.read_text())
            self.check(trace, {"gemm", "pointwise.exp", "Memcpy DtoH"}, earlier[-1].sequence + 1 if earlier else 0)
            gemms = [e["args"] for e in trace["traceEvents"] if e["name"] == "gemm" and e.get("cat") == "launch"]
            self.assertIn((64**3, "float32"), [(args["macs"], args["dtype"]) for args in gemms])
            with telemetry.Recording() as recording:
                x.neg()
            recording.save(path)
            trace = json.loads(path.read_text())
            self.assertEqual([e["name"] for e in trace["traceEvents"] if e.get("cat") == "launch"], ["pointwise.neg"])
            self.assertEqual(trace["otherData"]["lost"], {})

    def test_recording_counts_what_the_counters_count(self, device):
        x = torch.randn(64, 64, device=device)
        before = telemetry.counters()
        with telemetry.Recording() as recording:
            (x @ x).sum().item()
        after = telemetry.counters()
        work = recording.devices[0].work
        self.assertEqual(sum(w.cycles for w in work), after.cycles - before.cycles)
        self.assertEqual(sum(w.macs for w in work), after.macs - before.macs)
        self.assertEqual(sum(w.kind == "launch" for w in work), after.launches - before.launches)
        self.assertEqual(min(w.start_cycle for w in work), recording.origin)
        self.assertEqual(telemetry.clock(), max(w.end_cycle for w in work))

    def test_command(self, device):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "script.py"
            script.write_text(
                "import sys, torch\n"
                "x = torch.ones(4, 4, device='atalla')\n"
                "print(sys.argv[1:], (x @ x).sum().item())\n"
                "sys.exit(3)\n"
            )
            path = Path(folder) / "t.json"
            done = subprocess.run(
                [sys.executable, "-m", "torch_atalla", "trace", str(script), "-o", str(path), "--", "-o", "mine"],
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            self.assertEqual((done.returncode, done.stdout.strip()), (3, "['-o', 'mine'] 64.0"), done.stderr)
            self.check(json.loads(path.read_text()), {"gemm", "Memcpy DtoH"})

    def test_command_without_a_script(self, device):
        done = subprocess.run(
            [sys.executable, "-m", "torch_atalla", "trace", "no_such_file.py"], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("no_such_file.py", done.stderr)


instantiate_device_type_tests(TestProfiler, globals(), only_for=("atalla",))
instantiate_device_type_tests(TestTelemetryTrace, globals(), only_for=("atalla",))


class TestInstantiated(TestCase):
    def test_count(self):
        found = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]).countTestCases()
        self.assertGreaterEqual(found, 25)
