"""Memory of one library in the hands of another, for guest.py: through buffers, DLPack, Arrow's
capsules, and plain pointers. What is made here is dropped out of order and by another thread.
"""

import array
import ctypes
import threading

import work

ROWS = work.ROWS
_kept = []


def keep(thing):
    """Keeps it alive until the interpreter ends."""
    _kept.append(thing)


def dropped_elsewhere(things):
    """Drops the last reference in a thread that did not make the object."""
    box = list(things)
    things.clear()
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()


def numpy_torch(modules):
    np, torch = modules["numpy"], modules["torch"]
    made = [np.arange(n, dtype=np.float32) for n in (1, 50, 5_000, 500_000)]
    tensors = [torch.from_numpy(values) for values in made]
    made.clear()
    assert [int(t.sum()) for t in tensors[:2]] == [0, 49 * 25]
    back = [t.numpy() for t in tensors]
    dropped_elsewhere(tensors)
    assert back[1].sum() == 49 * 25
    weights = torch.from_numpy(back[2]).requires_grad_()
    (weights * weights).sum().backward()
    assert np.array_equal(weights.grad.numpy(), 2 * back[2])
    through = np.from_dlpack(torch.ones(1000))
    tensor = torch.from_dlpack(np.ones(1000))
    assert through.sum() == tensor.sum() == 1000
    dropped_elsewhere([through, tensor])


def numpy_pyarrow(modules):
    np, pa = modules["numpy"], modules["pyarrow"]
    arrays = [pa.array(np.arange(n, dtype=np.int64)) for n in (1, 50, 5_000, 500_000)]
    views = [a.to_numpy() for a in arrays]
    dropped_elsewhere(arrays)
    assert views[1].sum() == 49 * 25
    for pool in work.pools(pa):
        buffer = pa.allocate_buffer(8000, pool, resizable=True)
        view = np.frombuffer(buffer, dtype=np.int64)
        view.flags.writeable and view.fill(3)
        del buffer
        dropped_elsewhere([view])
    buffer = pa.py_buffer(np.arange(1000, dtype=np.int32))
    wrapped = pa.Array.from_buffers(pa.int32(), 1000, [None, buffer])
    del buffer
    assert wrapped[999].as_py() == 999
    texts = pa.array([f"t{i}" for i in range(2000)]).to_numpy(zero_copy_only=False)
    assert pa.array(texts)[1999].as_py() == "t1999"
    if hasattr(pa.Array, "__dlpack__") and hasattr(np, "from_dlpack"):
        lent = np.from_dlpack(pa.array([1, 2, 3], pa.int64()))
        assert lent.sum() == 6
        dropped_elsewhere([lent])
    tensor = pa.Tensor.from_numpy(np.ones((30, 30)))
    dropped_elsewhere([tensor.to_numpy(), tensor])


def pyarrow_torch(modules):
    pa, torch = modules["pyarrow"], modules["torch"]
    values = pa.array(range(5_000), pa.int64())
    tensor = torch.from_dlpack(values) if hasattr(values, "__dlpack__") else None
    if tensor is None:
        tensor = torch.frombuffer(bytearray(values.buffers()[1]), dtype=torch.int64)
    total = int(tensor.sum())
    del values
    assert total == 4999 * 2500
    lent = pa.py_buffer(torch.arange(5_000).numpy())
    dropped_elsewhere([tensor])
    assert pa.Array.from_buffers(pa.int64(), 5_000, [None, lent])[4_999].as_py() == 4_999


def pyarrow_polars(modules):
    pa, pl = modules["pyarrow"], modules["polars"]
    table = pa.table({"a": range(ROWS), "s": [f"text {i}" for i in range(ROWS)]})
    frame = pl.from_arrow(table)
    del table
    back = frame.filter(pl.col("a") % 2 == 0).to_arrow()
    lent = frame.to_arrow()
    dropped_elsewhere([frame])
    assert back.num_rows == ROWS // 2 and lent["a"][ROWS - 1].as_py() == ROWS - 1
    # Through Arrow's capsules, in both directions.
    assert pa.table(pl.DataFrame({"b": [1.5] * 100}))["b"][99].as_py() == 1.5
    series = pl.Series(pa.array(["x"] * 1000))
    assert (series == "x").all()
    dropped_elsewhere([back, lent, series])


def duckdb_pyarrow(modules):
    duckdb, pa = modules["duckdb"], modules["pyarrow"]
    made = pa.table({"a": range(ROWS), "s": [f"text {i % 9}" for i in range(ROWS)]})
    with duckdb.connect() as connection:
        connection.execute("PRAGMA threads=2")
        connection.register("made", made)
        result = connection.sql(
            "SELECT s, sum(a)::BIGINT AS total FROM made GROUP BY s ORDER BY s"
        ).to_arrow_table()
        connection.unregister("made")
        # to_arrow_reader is the newer name.
        relation = connection.sql("SELECT i, i::VARCHAR AS s FROM range(50000) r(i)")
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
        batches = list(read(5_000))
    del made
    assert sum(t.as_py() for t in result["total"]) == ROWS * (ROWS - 1) // 2
    assert sum(batch.num_rows for batch in batches) == 50_000
    dropped_elsewhere(batches)
    dropped_elsewhere([result])


def duckdb_numpy(modules):
    duckdb, np = modules["duckdb"], modules["numpy"]
    with duckdb.connect() as connection:
        connection.register("given", {"a": np.arange(5_000), "b": np.ones(5_000)})
        total = connection.execute("SELECT sum(a * b) FROM given").fetchone()[0]
        columns = connection.execute(
            "SELECT i, i * 0.5::DOUBLE AS h, 'n' || i AS s FROM range(20000) r(i)"
        ).fetchnumpy()
    assert total == 4999 * 2500
    assert columns["h"].sum() == 19_999 * 5_000 and columns["s"][-1] == "n19999"
    dropped_elsewhere(list(columns.values()))


def duckdb_polars_pyarrow(modules):
    duckdb, pl = modules["duckdb"], modules["polars"]
    frame = pl.DataFrame({"a": range(ROWS), "k": [i % 7 for i in range(ROWS)]})
    with duckdb.connect() as connection:
        connection.register("frame", frame)
        result = connection.sql(
            "SELECT k, sum(a)::BIGINT AS total FROM frame GROUP BY k ORDER BY k"
        ).pl()
    assert result["total"].sum() == ROWS * (ROWS - 1) // 2
    dropped_elsewhere([frame, result])


def numpy_polars(modules):
    np, pl = modules["numpy"], modules["polars"]
    series = [pl.Series("a", np.arange(n)) for n in (1, 100, 100_000)]
    views = [s.to_numpy() for s in series]
    dropped_elsewhere(series)
    assert views[1].sum() == 99 * 50
    frame = pl.DataFrame(np.ones((300, 4)))
    assert frame.to_numpy().sum() == 1200
    dropped_elsewhere([frame, *views])


def polars_torch(modules):
    pl, torch = modules["polars"], modules["torch"]
    tensor = pl.DataFrame({"a": [1.0] * 1000, "b": [2.0] * 1000}).to_torch()
    assert float(tensor.sum()) == 3000
    dropped_elsewhere([tensor, torch.ones(3)])


JOBS = {
    "numpy-torch": numpy_torch,
    "numpy-pyarrow": numpy_pyarrow,
    "numpy-pyarrow-torch": pyarrow_torch,
    "pyarrow-polars": pyarrow_polars,
    "duckdb-pyarrow": duckdb_pyarrow,
    "duckdb-numpy": duckdb_numpy,
    "duckdb-polars-pyarrow": duckdb_polars_pyarrow,
    "numpy-polars": numpy_polars,
    "numpy-polars-torch": polars_torch,
}


# ---- plain pointers ------------------------------------------------------------------------------


class Heap:
    """homefree's C functions, and those of others that they are mixed with."""

    def __init__(self, library):
        self.heap = self._declare(library, "hf_", str)
        self.libc = self._declare(ctypes.CDLL(None), "", str)
        self.raw = self._declare(ctypes.pythonapi, "PyMem_Raw", str.capitalize)
        self.owns = library.hf_owns
        self.owns.restype, self.owns.argtypes = ctypes.c_bool, [ctypes.c_void_p]

    @staticmethod
    def _declare(library, prefix, spell):
        for name, result, parameters in (
            ("malloc", ctypes.c_void_p, [ctypes.c_size_t]),
            ("realloc", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t]),
            ("free", None, [ctypes.c_void_p]),
        ):
            function = library[prefix + spell(name)]
            function.restype, function.argtypes = result, parameters
            setattr(library, name, function)
        return library

    @property
    def families(self):
        return (self.heap, self.libc, self.raw)


def installed(heap, how, modules):
    """install() has had its effect: new objects have the right owner."""
    import homefree

    def kind(thing):
        return homefree.owner_of(thing).kind

    block = heap.raw.malloc(5_000)
    assert (kind(block) == "heap") == (how != "off"), kind(block)
    heap.raw.free(block)
    if how != "off":
        # Enough objects for a new arena.
        objects = [(i, float(i)) for i in range(100_000)]
        assert kind(objects[-1]) == ("heap" if how == "full" else "pymalloc"), kind(objects[-1])
    if "numpy" in modules:
        assert kind(modules["numpy"].empty(100_000).ctypes.data) == "heap"


class Late:
    """The end of the interpreter frees these, each through another allocator."""

    def __init__(self, heap):
        self.blocks = [
            (heap.libc.free, heap.heap.malloc(1000)),
            (heap.raw.free, heap.heap.malloc(100_000)),
            (heap.heap.free, heap.libc.malloc(1000)),
            (heap.heap.free, heap.raw.malloc(1000)),
        ]

    def __del__(self):
        for free, block in self.blocks:
            free(block)


def blocks(heap):
    """Each family allocates, resizes and frees the blocks of the others."""
    for size in (1, 100, 3_000, 200_000):
        for allocate in heap.families:
            for resize in heap.families:
                for free in heap.families:
                    block = allocate.malloc(size)
                    ctypes.memset(block, 7, size)
                    block = resize.realloc(block, 2 * size)
                    assert ctypes.string_at(block, size) == b"\7" * size
                    free.free(block)


def filled(heap, count):
    """A block of homefree's heap that contains the numbers below `count`."""
    block = heap.heap.malloc(8 * count)
    numbers = array.array("q", range(count)).tobytes()
    ctypes.memmove(block, numbers, len(numbers))
    return block


def numpy_owns(heap, modules):
    """NumPy believes that it owns the block, as after PyArray_ENABLEFLAGS(OWNDATA), so it
    resizes and frees it."""
    np = modules["numpy"]
    for count in (10, 1_000, 100_000):
        values = np.empty(count, np.int64)
        # PyArrayObject: the object's head, then the pointer to the data.
        data = ctypes.c_void_p.from_address(id(values) + object.__basicsize__)
        assert data.value == values.ctypes.data
        theirs, data.value = data.value, filled(heap, count)
        values.resize(2 * count, refcheck=False)
        assert values.sum() == count * (count - 1) // 2
        heap.libc.free(theirs)
        dropped_elsewhere([values])


def pyarrow_borrows(heap, modules):
    pa = modules["pyarrow"]
    block = filled(heap, 5_000)

    class Owner:
        def __del__(self):
            heap.libc.free(block)

    buffer = pa.foreign_buffer(block, 8 * 5_000, base=Owner())
    values = pa.Array.from_buffers(pa.int64(), 5_000, [None, buffer])
    del buffer
    assert values.sum().as_py() == 4999 * 2500 if hasattr(values, "sum") else True
    dropped_elsewhere([values])


def torch_borrows(heap, modules):
    torch = modules["torch"]
    block = filled(heap, 5_000)
    tensor = torch.frombuffer((ctypes.c_int64 * 5_000).from_address(block), dtype=torch.int64)
    assert int(tensor.sum()) == 4999 * 2500
    del tensor
    heap.raw.free(block)


SIZES = (100, 8_000, 300_000, 8_000_000)


def sent_home(heap, allocate, name, object_name):
    """Blocks of the allocator inside a wheel, freed and resized by everybody else."""
    import homefree

    for size in SIZES:
        for family in heap.families:
            address = allocate(size)
            owner = homefree.owner_of(address)
            assert owner.kind == "allocator" and owner.allocator == name, (size, owner)
            assert object_name in owner.object, owner
            ctypes.memset(address, 1, size)
            resized = family.realloc(address, 2 * size)
            assert ctypes.string_at(resized, size) == b"\1" * size
            family.free(resized)


def pyarrow_is_freed(heap, modules):
    pa = modules["pyarrow"]
    for pool in work.pools(pa):
        if pool.backend_name == "system":
            continue

        def allocate(size, pool=pool):
            buffer = pa.allocate_buffer(size, pool)
            # pyarrow must not free the memory, too.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(buffer))
            return buffer.address

        sent_home(heap, allocate, pool.backend_name, "libarrow.so")


def duckdb_is_freed(heap, modules):
    import _duckdb

    allocate = ctypes.CDLL(_duckdb.__file__).duckdb_je_malloc
    allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    sent_home(heap, allocate, "jemalloc", "_duckdb")


def polars_is_freed(heap, modules):
    pl = modules["polars"]

    def allocate(size):
        series = pl.int_range(size // 8 + 1, eager=True)
        # polars must not free the memory, too.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(series))
        return series.to_numpy(allow_copy=False).ctypes.data

    sent_home(heap, allocate, "jemalloc", "_polars_runtime")


HEAP_JOBS = {"numpy": numpy_owns, "pyarrow": pyarrow_borrows, "torch": torch_borrows}
HOME_JOBS = {"pyarrow": pyarrow_is_freed, "duckdb": duckdb_is_freed, "polars": polars_is_freed}


def heap_jobs(how, modules):
    jobs = list(HEAP_JOBS.items())
    if how != "route":
        jobs += HOME_JOBS.items()
    return [job for name, job in jobs if name in modules]
