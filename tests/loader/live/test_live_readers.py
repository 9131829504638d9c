"""Readers that are not ours take what `homefree memory` writes for machines: PyPI's protobuf, with
pprof's public schema, the profile; Debian's Prometheus the metrics, of which it keeps each sample.

Usage: see looking.py. PROMETHEUS names the directory of the programs prometheus and promtool, if
they are not on PATH; without them, or without protobuf, that test is skipped.
"""

import contextlib
import gzip
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse
import urllib.request

from looking import DASHBOARDS, Looking, arguments, main

# proto/profile.proto of github.com/google/pprof: (message, field, number, type, repeated).
SCHEMA = {
    "ValueType": [("type", 1, "int64", 0), ("unit", 2, "int64", 0)],
    "Sample": [("location_id", 1, "uint64", 1), ("value", 2, "int64", 1)],
    "Mapping": [
        ("id", 1, "uint64", 0),
        ("filename", 5, "int64", 0),
        ("has_functions", 7, "bool", 0),
    ],
    "Line": [("function_id", 1, "uint64", 0), ("line", 2, "int64", 0)],
    "Location": [
        ("id", 1, "uint64", 0),
        ("mapping_id", 2, "uint64", 0),
        ("address", 3, "uint64", 0),
        ("line", 4, "Line", 1),
    ],
    "Function": [
        ("id", 1, "uint64", 0),
        ("name", 2, "int64", 0),
        ("system_name", 3, "int64", 0),
        ("filename", 4, "int64", 0),
    ],
    "Profile": [
        ("sample_type", 1, "ValueType", 1),
        ("sample", 2, "Sample", 1),
        ("mapping", 3, "Mapping", 1),
        ("location", 4, "Location", 1),
        ("function", 5, "Function", 1),
        ("string_table", 6, "string", 1),
        ("time_nanos", 9, "int64", 0),
        ("period_type", 11, "ValueType", 0),
        ("period", 12, "int64", 0),
        ("default_sample_type", 14, "int64", 0),
    ],
}


def profile_class():
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise unittest.SkipTest("no protobuf in this Python") from None
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            row = message.field.add(name=field, number=number, label=3 if repeated else 1)
            if kind in SCHEMA:
                row.type, row.type_name = kinds.TYPE_MESSAGE, f".p.{kind}"
            else:
                row.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))


def prometheus(name):
    path = shutil.which(name, path=os.environ.get("PROMETHEUS", os.environ["PATH"]))
    if path is None:
        raise unittest.SkipTest(f"no {name}")
    return path


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def read(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read()


@contextlib.contextmanager
def serving(text):
    """A server of metrics: its port."""

    class Serve(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header(
                "Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8"
            )
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def shown():
    """The queries of Grafana's dashboard, for all jobs, over a minute."""
    dashboard = json.loads((DASHBOARDS / "grafana.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "1m")
            yield re.sub(r"\$(job|instance)", ".*", expression)


class Readers(Looking):
    def check_profile(self, data, document):
        profile = profile_class()()
        profile.ParseFromString(gzip.decompress(data))
        strings = profile.string_table
        self.assertEqual(strings[0], "")
        types = [(strings[each.type], strings[each.unit]) for each in profile.sample_type]
        self.assertEqual([name for name, _ in types], ["inuse_objects", "inuse_space", "resident"])
        functions = {each.id: strings[each.name] for each in profile.function}
        locations = {each.id: functions[each.line[0].function_id] for each in profile.location}
        mappings = {each.id for each in profile.mapping} | {0}
        self.assertTrue(all(each.mapping_id in mappings for each in profile.location))
        self.assertEqual(sum(each.value[2] for each in profile.sample), document["resident"])
        asked = document["asked"] or []
        self.assertEqual(
            sum(each.value[1] for each in profile.sample), sum(r["bytes"] for r in asked)
        )
        return {tuple(locations[at] for at in each.location_id) for each in profile.sample}

    def test_profile(self):
        target = self.run_target()
        path = self.directory / "memory.pb.gz"
        done = self.command("memory", "--json", "--pprof", path, "--pid", target.pid)
        stacks = self.check_profile(path.read_bytes(), json.loads(done.stdout))
        self.assertTrue(any(stack[0] == "libc" for stack in stacks), stacks)

    def test_profile_with_stacks(self):
        profile_class()
        source = """
import homefree, json, sys
from homefree.command.memory_pprof import profile
homefree.install(python="full")
homefree.profile_begin(4096)
def asks_for_it(): return [bytes(1000) for _ in range(10000)]
kept = asks_for_it()
document = homefree.memory()
json.dump(document, open(sys.argv[1], "w"))
open(sys.argv[2], "wb").write(profile(document))
"""
        paths = [str(self.directory / name) for name in ("document", "profile")]
        environment = {**os.environ, "PYTHONPATH": arguments.package}
        done = subprocess.run([sys.executable, "-c", source, *paths], env=environment)
        self.assertEqual(done.returncode, 0)
        with open(paths[0], "rb") as document, open(paths[1], "rb") as profile:
            stacks = self.check_profile(profile.read(), json.load(document))
        self.assertTrue(any("asks_for_it" in stack for stack in stacks), stacks)

    def test_promtool(self):
        tool = prometheus("promtool")
        done = self.command("memory", "--openmetrics", "--pid", self.run_target().pid)
        text = done.stdout.replace("# EOF\n", "").encode()
        checked = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True)
        self.assertEqual((checked.returncode, checked.stderr), (0, b""), checked)

    def test_scrape(self):
        """Each sample arrives; the dashboard's queries and the console find what they show."""
        program = prometheus("prometheus")
        target = self.run_target(env={"LD_PRELOAD": arguments.preload})
        done = self.command("memory", "--openmetrics", "--pid", target.pid)
        with serving(done.stdout.encode()) as port, self.scraping(program, port) as address:
            found = self.query(address, "homefree_memory_resident_bytes")
            self.check_samples(found, done.stdout)
            console = read(f"{address}/consoles/homefree.html").decode()
            queries = {expression: self.query(address, expression) for expression in shown()}
        self.assertEqual([each for each in queries if not queries[each]], [])
        self.assertGreater(len(queries), 5)
        for row in found:
            wanted = row["metric"].get("allocator") or row["metric"]["kind"]
            self.assertRegex(console, f"<td>{wanted}( in [^<]+)?</td>")
        (row,) = (row for row in found if row["metric"].get("allocator") == "homefree")
        self.assertRegex(
            console,
            r"<td>homefree</td>\s*<td><meter [^>]*></meter></td>(\s*<td>[\d.]+.?i?B</td>){3}",
        )
        self.assertIn("% of it has a known owner", console)

    def check_samples(self, found, text):
        wanted = {line for line in text.splitlines() if line.startswith("homefree_memory_res")}
        self.assertEqual(len(found), len(wanted), found)
        for row in found:
            labels = ("kind", "allocator", "object")
            name = ",".join(f'{label}="{row["metric"].get(label, "")}"' for label in labels)
            self.assertIn(f"homefree_memory_resident_bytes{{{name}}} {row['value'][1]}", wanted)

    def query(self, address, expression):
        answer = read(f"{address}/api/v1/query?query={urllib.parse.quote(expression)}")
        return json.loads(answer)["data"]["result"]

    @contextlib.contextmanager
    def scraping(self, program, port):
        """A Prometheus that has scraped twice: its address."""
        own = free_port()
        configuration = self.directory / "prometheus.yml"
        configuration.write_text(
            "scrape_configs:\n- job_name: homefree\n  scrape_interval: 1s\n"
            f"  static_configs:\n  - targets: ['127.0.0.1:{port}']\n"
        )
        server = subprocess.Popen(
            [
                program,
                f"--config.file={configuration}",
                f"--storage.tsdb.path={self.directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{own}",
                f"--web.console.templates={DASHBOARDS}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        address = f"http://127.0.0.1:{own}"
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    if self.query(address, "count_over_time(up[1m]) >= 2"):
                        break
                time.sleep(0.1)
            yield address
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
