"""The rows of interpreter_modules.py: what is installed, whose modules are counted, and a piece of
real work in it.

They are what PyPI serves most often of the distributions with compiled modules, the first thirty
and more: those that boto3, requests, FastAPI, Jupyter and pandas bring along, then those that are
asked for by name. The last ones before our own are asked for in issues about interpreters.
"""

from collections import namedtuple

# name: of the row, and of the distribution whose version is shown. needs: what pip installs, the
# name alone if empty. counted: packages whose modules are counted, the name if empty.
Library = namedtuple("Library", "name code needs counted remark", defaults=("", "", ""))

NUMPY = """
import numpy as np
array = np.arange(100000.0) + 1
assert array.sum() == 5000050000.0 and where(array.ctypes.data) == "heap"
assert np.linalg.inv(np.eye(3) * 2)[0, 0] == 0.5
assert 0 <= np.random.default_rng(1).random() < 1 and np.fft.fft([1, 0])[1] == 1
"""
LIBRARIES = [
    Library(
        "charset-normalizer",
        """
from charset_normalizer import from_bytes
assert str(from_bytes("Bсеки човек има право на образование".encode("cp1251")).best()).strip()
""",
        counted="charset_normalizer",
    ),
    Library("numpy", NUMPY),
    Library("numpy 1.26", NUMPY, needs="numpy<2", counted="numpy"),
    Library(
        "PyYAML",
        """
import yaml
assert yaml.load("a: [1, 2]", Loader=yaml.CSafeLoader) == {"a": [1, 2]}
assert yaml.dump({"a": 1}, Dumper=yaml.CSafeDumper) == "a: 1\\n"
""",
        counted="yaml",
    ),
    Library(
        "cffi",
        """
import cffi
ffi = cffi.FFI()
ffi.cdef("int abs(int); void qsort(void *, size_t, size_t, int (*)(const int *, const int *));")
libc = ffi.dlopen(None)
assert libc.abs(-3) == 3
numbers = ffi.new("int[]", [3, 1, 2])
compare = ffi.callback("int(const int *, const int *)", lambda a, b: a[0] - b[0])
libc.qsort(numbers, 3, ffi.sizeof("int"), compare)
assert list(numbers) == [1, 2, 3]
""",
        counted="_cffi_backend",
    ),
    Library(
        "cryptography",
        """
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
token = Fernet(Fernet.generate_key())
assert token.decrypt(token.encrypt(b"text")) == b"text"
key = ec.generate_private_key(ec.SECP256R1())
signature = key.sign(b"text", ec.ECDSA(hashes.SHA256()))
key.public_key().verify(signature, b"text", ec.ECDSA(hashes.SHA256()))
""",
    ),
    Library(
        "pydantic_core",
        """
from pydantic_core import SchemaValidator, ValidationError
validator = SchemaValidator({"type": "int"})
assert validator.validate_python("3") == 3
try:
    validator.validate_python("x")
except ValidationError as error:
    assert error.error_count() == 1
""",
    ),
    Library(
        "pandas",
        """
import pandas as pd
frame = pd.DataFrame({"a": [1, 1, 2], "b": [1.0, 2.0, 3.0]})
assert frame.groupby("a").b.sum().tolist() == [3.0, 3.0]
assert frame.merge(frame, on="a").shape == (5, 3)
assert pd.date_range("2020-01-30", periods=3)[2].day == 1
""",
    ),
    Library(
        "markupsafe",
        'import markupsafe, markupsafe._speedups\nassert markupsafe.escape("<") == "&lt;"\n',
    ),
    Library(
        "grpcio",
        """
import grpc
with grpc.insecure_channel("127.0.0.1:1") as channel:
    try:
        channel.unary_unary("/s/m")(b"abc", timeout=30)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
""",
        counted="grpc",
        remark="blocking calls of clients alone; an import says so",
    ),
    Library(
        "protobuf",
        """
from google.protobuf import struct_pb2
from google.protobuf.internal import api_implementation
assert api_implementation.Type() == "upb", api_implementation.Type()
made = struct_pb2.Struct()
made.update({"a": [1, "x"]})
assert struct_pb2.Struct.FromString(made.SerializeToString()) == made
""",
        counted="google",
    ),
    Library(
        "wrapt",
        """
import wrapt
assert wrapt.ObjectProxy.__module__ != "wrapt.wrappers", "not compiled"
@wrapt.decorator
def twice(wrapped, instance, args, kwargs):
    return 2 * wrapped(*args, **kwargs)
assert twice(lambda x: x + 1)(1) == 4
""",
    ),
    Library(
        "aiohttp",
        """
import asyncio, aiohttp, aiohttp.web as web
async def main():
    app = web.Application()
    async def answer(request):
        return web.json_response({"query": dict(request.query)})
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/?a=1") as response:
            assert await response.json() == {"query": {"a": "1"}}
    await runner.cleanup()
asyncio.run(main())
""",
        counted="aiohttp multidict yarl frozenlist propcache",
    ),
    Library(
        "rpds-py",
        """
from rpds import HashTrieMap, List
assert HashTrieMap({"a": 1}).insert("b", 2)["b"] == 2 and List([1, 2]).push_front(0).first == 0
""",
        counted="rpds",
    ),
    Library(
        "psutil",
        """
import os, psutil
process = psutil.Process()
assert process.pid == os.getpid() and process.memory_info().rss > 0 and psutil.cpu_count()
assert psutil.virtual_memory().total and process.num_threads() and process.memory_maps()
""",
    ),
    Library(
        "greenlet",
        """
import greenlet
said = []
def other():
    said.append(main.switch(1))
main = greenlet.getcurrent()
one = greenlet.greenlet(other)
assert one.switch() == 1 and one.switch(2) is None and said == [2] and one.dead
""",
    ),
    Library(
        "SQLAlchemy",
        """
import sqlalchemy as sa
from sqlalchemy.util._has_cython import HAS_CYEXTENSION as compiled
assert compiled
engine = sa.create_engine("sqlite://")
table = sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer))
with engine.begin() as connection:
    table.create(connection)
    connection.execute(table.insert(), [{"a": 1}, {"a": 2}])
    assert connection.execute(sa.select(sa.func.sum(table.c.a))).scalar() == 3
engine.dispose()
""",
        counted="sqlalchemy greenlet",
    ),
    Library(
        "pillow",
        """
import io
from PIL import Image, ImageFilter
image = Image.new("RGB", (64, 64), "red").rotate(45).filter(ImageFilter.BLUR)
for kind in "PNG", "JPEG", "WEBP":
    file = io.BytesIO()
    image.save(file, kind)
    assert Image.open(io.BytesIO(file.getvalue())).resize((9, 9)).size == (9, 9)
""",
        counted="PIL",
    ),
    Library(
        "lxml",
        """
from lxml import etree, html
assert etree.fromstring("<a><b>1</b></a>").xpath("string(b)") == "1"
assert html.fromstring("<p>a<p>b").findall(".//p")[1].text == "b"
""",
    ),
    Library(
        "pyarrow",
        """
import numpy as np, pyarrow as pa, pyarrow.compute as pc
assert pc.sum(pa.array(range(1000))).as_py() == 499500
assert pa.array(np.arange(9)).to_numpy().sum() == 36
assert pa.table({"a": [1, 2]}).num_rows == 2
""",
        needs="pyarrow numpy",
    ),
    Library(
        "scipy",
        """
import numpy as np, scipy.linalg, scipy.optimize, scipy.sparse
assert abs(scipy.optimize.brentq(lambda x: x * x - 2, 0, 2) ** 2 - 2) < 1e-9
assert scipy.linalg.svd(np.eye(4))[1].sum() == 4
assert (scipy.sparse.eye(3).tocsr() @ np.ones(3)).sum() == 3
""",
    ),
    Library(
        "regex",
        """
import regex
assert regex.findall(r"(?:cats?){e<=1}", "cat cut", flags=regex.BESTMATCH)
assert regex.sub(r"\\p{Lu}", "-", "aBc") == "a-c"
""",
    ),
    Library(
        "websockets",
        """
import websockets.speedups
masked = websockets.speedups.apply_mask(b"text" * 9, b"abcd")
assert websockets.speedups.apply_mask(masked, b"abcd") == b"text" * 9
""",
    ),
    Library(
        "coverage",
        """
import sys, coverage, coverage.tracer
measured = coverage.Coverage(data_file=None, config_file=False, include=["*/textwrap.py"])
measured.start()
import textwrap
textwrap.fill("a b", 1)
measured.stop()
assert measured.get_data().measured_files()
""",
    ),
    Library(
        "scikit-learn",
        """
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.ensemble import RandomForestClassifier
x = np.arange(20.0).reshape(-1, 1)
for model in LogisticRegression(), RandomForestClassifier(5, n_jobs=1):
    assert model.fit(x, x[:, 0] > 9).score(x, x[:, 0] > 9) > 0.8
""",
        counted="sklearn",
    ),
    Library(
        "msgpack",
        """
import msgpack, msgpack._cmsgpack
assert msgpack.unpackb(msgpack.packb({"a": [1, b"x"]})) == {"a": [1, b"x"]}
""",
    ),
    Library(
        "tornado",
        """
import tornado.speedups, tornado.util
assert tornado.util._websocket_mask is tornado.speedups.websocket_mask
assert len(tornado.util._websocket_mask(b"abcd", b"text" * 9)) == 36
""",
    ),
    Library(
        "psycopg2-binary",
        """
import psycopg2, psycopg2.extensions as e
assert e.adapt("a'b").getquoted() == b"'a''b'" and e.parse_dsn("host=x") == {"host": "x"}
try:
    psycopg2.connect("host=127.0.0.1 port=1 connect_timeout=5")
except psycopg2.OperationalError:
    pass
""",
        counted="psycopg2",
    ),
    Library(
        "bcrypt",
        """
import bcrypt
assert bcrypt.checkpw(b"secret", bcrypt.hashpw(b"secret", bcrypt.gensalt(4)))
""",
    ),
    Library(
        "matplotlib",
        """
import io, matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
figure, axes = plt.subplots()
axes.plot([1, 3, 2])
axes.set_title("title")
file = io.BytesIO()
figure.savefig(file, format="png")
assert file.getvalue()[:4] == b"\\x89PNG"
plt.close(figure)
""",
        counted="matplotlib contourpy kiwisolver PIL",
    ),
    Library(
        "orjson",
        'import orjson\nassert orjson.loads(orjson.dumps({"a": [1]})) == {"a": [1]}\n',
    ),
    Library(
        "httptools",
        """
import httptools
class Protocol:
    def on_url(self, url):
        self.url = url
protocol = Protocol()
httptools.HttpRequestParser(protocol).feed_data(b"GET /a HTTP/1.1\\r\\n\\r\\n")
assert protocol.url == b"/a" and httptools.parse_url(b"http://x/a").path == b"/a"
""",
    ),
    Library(
        "uvloop",
        """
import asyncio, uvloop
async def main():
    async def answer(reader, writer):
        writer.write((await reader.readline()).upper())
        writer.close()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"text\\n")
    assert await reader.read() == b"TEXT\\n"
    writer.close()
    server.close()
loop = uvloop.new_event_loop()
try:
    loop.run_until_complete(main())
finally:
    loop.close()
""",
    ),
    Library(
        "tokenizers",
        """
from tokenizers import Tokenizer, models, pre_tokenizers
tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
assert tokenizer.encode("a b c").ids == [0, 1, 2]
assert [one.ids for one in tokenizer.encode_batch(["a", "b"])] == [[0], [1]]
""",
    ),
    Library(
        "safetensors",
        """
import numpy as np, safetensors.numpy
saved = safetensors.numpy.save({"a": np.arange(9)})
assert safetensors.numpy.load(saved)["a"].sum() == 36
""",
        needs="safetensors numpy",
    ),
    Library(
        "zstandard",
        """
import zstandard, zstandard.backend_c
text = b"text" * 1000
assert zstandard.decompress(zstandard.compress(text)) == text
""",
    ),
    Library(
        "pyzmq",
        """
import zmq
with zmq.Context() as context:
    with context.socket(zmq.PAIR) as one, context.socket(zmq.PAIR) as other:
        one.bind("inproc://pair")
        other.connect("inproc://pair")
        one.send(b"text")
        assert other.recv() == b"text"
""",
        counted="zmq",
    ),
    Library(
        "ujson",
        'import ujson\nassert ujson.loads(ujson.dumps({"a": [1.5]})) == {"a": [1.5]}\n',
    ),
    Library(
        "xxhash",
        'import xxhash\nassert xxhash.xxh64(b"a").hexdigest() == "d24ec4f1a98c6e5b"\n',
    ),
    Library(
        "lz4",
        """
import lz4.frame
assert lz4.frame.decompress(lz4.frame.compress(b"x" * 99)) == b"x" * 99
""",
    ),
    Library(
        "brotli",
        'import brotli\nassert brotli.decompress(brotli.compress(b"x" * 99)) == b"x" * 99\n',
        counted="_brotli brotli",
    ),
    Library(
        "duckdb",
        """
import duckdb
with duckdb.connect() as connection:
    assert connection.execute("select sum(i) from range(10) t(i)").fetchone() == (45,)
""",
        counted="duckdb _duckdb",
    ),
    Library(
        "polars",
        """
import polars as pl
frame = pl.DataFrame({"a": [1, 1, 2], "b": [1.0, 2.0, 3.0]})
assert frame.group_by("a").sum().height == 2
""",
        counted="_polars_runtime_32",
    ),
    Library(
        "opencv-python-headless",
        """
import cv2, numpy as np
image = np.zeros((32, 32), np.uint8)
cv2.circle(image, (16, 16), 8, 255, -1)
assert cv2.GaussianBlur(image, (5, 5), 0)[16, 16] == 255
assert len(cv2.findContours(image, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]) == 1
""",
        counted="cv2",
    ),
    Library(
        "numba",
        """
import numpy as np, numba
@numba.njit
def total(values):
    result = 0.0
    for value in values:
        result += value
    return result
assert total(np.arange(10.0)) == 45
""",
        counted="numba llvmlite",
    ),
    Library(
        "gevent",
        """
import gevent, gevent.queue
queue = gevent.queue.Queue()
one = gevent.spawn(lambda: queue.get(timeout=30))
gevent.spawn(lambda: (gevent.sleep(0), queue.put(7)))
assert one.get(timeout=30) == 7
""",
    ),
    Library(
        "shapely",
        """
import shapely
assert abs(shapely.Point(0, 0).buffer(1).area - 3.14) < 0.01
assert shapely.from_wkt("POINT (1 2)").within(shapely.box(0, 0, 3, 3))
""",
        needs="shapely numpy",
    ),
    Library(
        "setproctitle",
        """
import setproctitle
assert setproctitle.getproctitle()
setproctitle.setthreadtitle("thread")
""",
    ),
    Library(
        "examples/minimal",
        'import greet\nassert greet.greet("you") == "Hello, you!"\n',
        needs="examples",
        counted="greet",
    ),
    Library(
        "examples/jit_cached",
        'import words\nassert words.sort("b a").split() == ["a", "b"]\n',
        needs="examples",
        counted="words",
    ),
    Library(
        "standard library",
        """
import datetime, decimal, hashlib, json, sqlite3, ssl, zoneinfo, asyncio, ctypes, csv, lzma
assert hashlib.blake2b(b"", digest_size=8).hexdigest()
assert str(decimal.Decimal(1) / 8) == "0.125"
assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)
""",
        needs="nothing",
        counted="everything",
    ),
]
