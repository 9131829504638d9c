"""What each library does by itself in guest.py: the things that its users do with it, with the
results checked. Small enough for a second together, large enough that every kind of block occurs:
a library's arenas, its threads' caches, and what it takes from libc.
"""

import io
import pickle
import tempfile

ROWS = 8_000


def numpy_works(np):
    values = np.arange(ROWS, dtype=np.float64)
    assert values.sum() == ROWS * (ROWS - 1) / 2
    matrix = np.random.default_rng(1).random((60, 60)) + 60 * np.eye(60)
    assert np.allclose(matrix @ np.linalg.inv(matrix), np.eye(60))
    for size in (1, 7, 100, 1_000, 5_000):
        grown = np.ones(size)
        grown.resize(3 * size, refcheck=False)
        assert grown.sum() == size
    text = np.array([f"name {i}" for i in range(500)])
    assert np.unique(np.char.upper(text)).size == 500
    objects = np.array([{"i": i} for i in range(500)], dtype=object)
    assert sum(o["i"] for o in objects[::-1]) == 499 * 250
    assert np.abs(np.fft.ifft(np.fft.fft(values[:1024])) - values[:1024]).max() < 1e-6
    with tempfile.TemporaryFile() as file:
        values.tofile(file)
        file.seek(0)
        assert (np.fromfile(file) == values).all()
    stored = io.BytesIO()
    np.savez(stored, values=values, text=text)
    stored.seek(0)
    assert (np.load(stored)["values"] == values).all()
    for protocol in (2, 5):
        assert (pickle.loads(pickle.dumps(values, protocol)) == values).all()
    record = np.zeros(100, dtype=[("a", "i4"), ("b", "f8"), ("c", "U10")])
    record["c"] = "text"
    assert np.sort(record, order="c")["c"][0] == "text"


def torch_works(torch):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    inputs = torch.randn(256, 16)
    wanted = inputs.sum(dim=1, keepdim=True)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2, losses
    image = torch.randn(2, 3, 16, 16, requires_grad=True)
    torch.nn.functional.conv2d(image, torch.randn(4, 3, 3, 3)).sum().backward()
    assert image.grad.shape == image.shape
    stored = io.BytesIO()
    torch.save(model.state_dict(), stored)
    stored.seek(0)
    model.load_state_dict(torch.load(stored))
    scripted = torch.jit.script(model)
    assert torch.allclose(scripted(inputs), model(inputs))
    assert torch.sort(torch.randn(50_000))[0].diff().min() >= 0


def pyarrow_works(pa):
    import pyarrow.compute as pc
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "key": pa.array([f"key {i % 50}" for i in range(ROWS)]),
            "value": pa.array(range(ROWS), pa.int64()),
            "list": pa.array([[i, i + 1] for i in range(ROWS)]),
        }
    )
    sums = table.group_by("key").aggregate([("value", "sum")])
    assert pc.sum(sums["value_sum"]).as_py() == ROWS * (ROWS - 1) // 2
    for compression in ("snappy", "zstd"):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression=compression, row_group_size=ROWS // 4)
        assert pq.read_table(pa.BufferReader(sink.getvalue())).equals(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert pa.ipc.open_stream(sink.getvalue()).read_all().equals(table)
    sink = pa.BufferOutputStream()
    csv.write_csv(table.select(["key", "value"]), sink)
    assert csv.read_csv(pa.BufferReader(sink.getvalue())).num_rows == ROWS
    # Every allocator that is compiled in, and blocks that grow.
    for pool in pools(pa):
        grown = pa.BufferOutputStream(pool)
        for i in range(100):
            grown.write(bytes(i * 31))
        assert grown.getvalue().size == sum(i * 31 for i in range(100))
        texts = pa.array([f"text {i}" for i in range(2_000)], memory_pool=pool)
        assert len(pc.unique(pc.utf8_upper(texts, memory_pool=pool))) == 2_000
        pool.release_unused()


def pools(pa):
    makers = {
        "mimalloc": "mimalloc_memory_pool",
        "jemalloc": "jemalloc_memory_pool",
        "system": "system_memory_pool",
    }
    return [getattr(pa, makers[name])() for name in pa.supported_memory_backends()]


def polars_works(pl):
    frame = pl.DataFrame(
        {
            "key": [f"key {i % 50}" for i in range(ROWS)],
            "value": range(ROWS),
        }
    )
    sums = frame.lazy().group_by("key").agg(pl.col("value").sum()).collect()
    assert sums["value"].sum() == ROWS * (ROWS - 1) // 2
    joined = frame.join(sums, on="key", how="left", suffix="_sum")
    assert joined.height == ROWS and joined["value_sum"].null_count() == 0
    lengths = frame.select(pl.col("key").str.replace("key ", "").str.len_chars().max())
    assert lengths.item() == 2
    stored = io.BytesIO()
    frame.write_csv(stored)
    stored.seek(0)
    assert pl.read_csv(stored).equals(frame)
    stored = io.BytesIO()
    frame.write_parquet(stored)
    stored.seek(0)
    assert pl.read_parquet(stored).equals(frame)
    assert pickle.loads(pickle.dumps(frame)).equals(frame)
    lengths = frame.head(100).select(
        pl.col("value").map_elements(lambda v: len(str(v)), return_dtype=pl.Int64)
    )
    assert lengths["value"].sum() == 190


def duckdb_works(duckdb):
    with duckdb.connect() as connection:
        connection.execute("PRAGMA threads=2")
        connection.execute(
            "CREATE TABLE t AS SELECT i AS value, 'key ' || (i % 50) AS key, [i, i + 1] AS list"
            f" FROM range({ROWS}) r(i)"
        )
        total, keys = connection.execute(
            "SELECT sum(s), count(*) FROM (SELECT key, sum(value) s FROM t GROUP BY key)"
        ).fetchone()
        assert (total, keys) == (ROWS * (ROWS - 1) // 2, 50)
        rows = connection.execute(
            "SELECT a.key, count(*) FROM t a JOIN t b ON a.value = b.value + 1 GROUP BY 1"
        ).fetchall()
        assert sum(count for _, count in rows) == ROWS - 1
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, NULL)", [(i, f"n{i}") for i in range(50)]
        )
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (ROWS + 50,)
        longest = connection.execute(
            "SELECT max(length(string_agg)) FROM"
            " (SELECT string_agg(key, ',') FROM t GROUP BY value % 7)"
            ' s("string_agg")'
        ).fetchone()[0]
        assert longest > 1000


def numpy_sample(np):
    return [np.arange(n) for n in (1, 10, 1_000, 100_000)], np.array(["a", "b"], object)


def torch_sample(torch):
    return [torch.ones(n, requires_grad=True) * 2 for n in (1, 10, 1_000, 100_000)]


def pyarrow_sample(pa):
    return [pa.array(range(n), memory_pool=pool) for n in (1, 1_000, 50_000) for pool in pools(pa)]


def polars_sample(pl):
    return [pl.DataFrame({"a": range(n), "b": ["text"] * n}) for n in (1, 1_000, 50_000)]


def duckdb_sample(duckdb):
    connection = duckdb.connect()
    return connection, connection.execute("SELECT * FROM range(100000)")


JOBS = {
    "numpy": numpy_works,
    "torch": torch_works,
    "pyarrow": pyarrow_works,
    "polars": polars_works,
    "duckdb": duckdb_works,
}
SAMPLES = {
    "numpy": numpy_sample,
    "torch": torch_sample,
    "pyarrow": pyarrow_sample,
    "polars": polars_sample,
    "duckdb": duckdb_sample,
}
