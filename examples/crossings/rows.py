"""The crossings, one function a row, and the child process that runs one of them.

`python rows.py MODULES WAY ROW` imports the module `crossings_WAY`, lets memory cross, and checks
what arrived. On standard output it says LOADED and CHECKED when it came that far. It imports
nothing before the row needs it, so that a row has exactly the process that it describes.
"""

import gc
import importlib
import os
import resource
import sys

LOADED = "loaded"  # the module was imported: what comes now is the crossing
CHECKED = "checked"  # all that crossed was checked: what comes now is the interpreter's exit
SKIPPED = 77  # exit status of a row that cannot run here; the reason is its last line

SIZES = (1, 24, 100, 1000, 5000, 70000, 3000000)


class Row:
    """A crossing: its name, what a reader sees of it, and what its process says as it ends."""

    def __init__(self, run, group, title, *, must_die=False, at_exit=()):
        self.run = run
        self.name = run.__name__.replace("_", "-")
        self.group = group
        self.title = title
        self.must_die = must_die  # the row shows nothing if it does not die without homefree
        self.at_exit = list(at_exit)


ROWS = []


def row(group, title, **more):
    def add(function):
        ROWS.append(Row(function, group, title, **more))
        return function

    return add


def say(line):
    os.write(1, (line + "\n").encode())


class Skip(Exception):
    """The row cannot run here."""


class Process:
    """What a row may load: the module built the one way or the other, and its partners."""

    def __init__(self, way):
        self.way = way
        self.module = importlib.import_module("crossings_" + way)

    def second(self):
        return importlib.import_module(f"crossings_{self.way}_second")

    def partner(self, name):
        try:
            return importlib.import_module("partner_" + name)
        except ModuleNotFoundError as error:
            raise Skip(f"no {name} here") from error


def pass_blocks(giver, taker, *, array=False):
    """Blocks of many sizes: giver allocates and fills, taker checks and frees."""
    allocate = giver.allocate_array if array else giver.allocate
    release = taker.release_array if array else taker.release
    for round_number in range(20):
        blocks = [(allocate(size, round_number), size) for size in SIZES]
        for address, size in blocks:
            assert taker.intact(address, size, round_number), f"{size} bytes arrived damaged"
            release(address)


def pass_to_threads(giver, taker):
    """Ten thousand blocks that taker frees in threads of its own, four at a time."""
    for _ in range(4):
        blocks = [giver.allocate(16 + i % 2000, i % 200) for i in range(10000)]
        for i in range(0, len(blocks), 97):
            assert taker.intact(blocks[i], 16 + i % 2000, i % 200), "a block arrived damaged"
        taker.release_in_threads(blocks)


def pass_both(giver, taker):
    """The blocks of both functions above."""
    pass_blocks(giver, taker)
    pass_to_threads(giver, taker)


def python_api(name, result, *arguments):
    import ctypes

    function = getattr(ctypes.pythonapi, name)
    function.restype = getattr(ctypes, result) if result else None
    function.argtypes = [getattr(ctypes, argument) for argument in arguments]
    return function


def libc_function(name, result, *arguments):
    import ctypes

    function = getattr(ctypes.CDLL(None), name)
    function.restype = getattr(ctypes, result) if result else None
    function.argtypes = [getattr(ctypes, argument) for argument in arguments]
    return function


def contents(size, seed):
    """What blocks.h fills a block with; it repeats every 256 bytes."""
    period = bytes((seed + i * 7) % 256 for i in range(256))
    return (period * (size // 256 + 1))[:size]


def take_from(allocate, module):
    """Python allocates and fills, the module checks and frees."""
    import ctypes

    for seed, size in enumerate(SIZES):
        block = allocate(size)
        ctypes.memmove(block, contents(size, seed), size)
        assert module.intact(block, size, seed), f"{size} bytes arrived damaged"
        module.release(block)


def give_to(release, module):
    """The module allocates and fills, Python checks and frees."""
    import ctypes

    for seed, size in enumerate(SIZES):
        block = module.allocate(size, seed)
        assert ctypes.string_at(block, size) == contents(size, seed), f"{size} bytes are damaged"
        release(block)


# ---- libstdc++ ---------------------------------------------------------------------------------


@row("libstdc++", "it grows the module's string: append", must_die=True)
def string_append(process):
    process.module.append()


@row("libstdc++", "it grows the module's string: insert", must_die=True)
def string_insert(process):
    process.module.insert()


@row("libstdc++", "it reads into the module's string: >>")
def string_extract(process):
    process.module.extract()


@row("libstdc++", "the module frees its strings: message, str")
def string_taken(process):
    process.module.take_texts()


@row("libstdc++", "it frees the module's tables: ctype, pmr")
def table_given(process):
    process.module.give_tables()


# ---- libc --------------------------------------------------------------------------------------


@row("libc", "the module frees what strdup gave", must_die=True)
def strdup(process):
    process.module.take_strdup()


@row("libc", "the module frees what realpath gave")
def realpath(process):
    process.module.take_realpath()


@row("libc", "the module frees what getline gave")
def getline(process):
    process.module.take_getline()


@row("libc", "the module frees what asprintf gave")
def asprintf(process):
    process.module.take_asprintf()


@row("libc", "the module frees what scandir gave")
def scandir(process):
    process.module.take_scandir()


@row("libc", "… what scanf %ms, open_wmemstream, argz gave")
def unlisted(process):
    process.module.take_unlisted()


@row("libc", "it grows the module's buffer: getline, argz")
def libc_grows(process):
    process.module.give_to_grow()


@row("libc", "it frees the module's buffer: argz_delete")
def libc_frees(process):
    process.module.give_to_free()


# ---- Python ------------------------------------------------------------------------------------


@row("Python", "the module frees what PyMem_RawMalloc gave")
def raw_taken(process):
    take_from(python_api("PyMem_RawMalloc", "c_void_p", "c_size_t"), process.module)


@row("Python", "the module frees what ctypes' malloc gave")
def ctypes_taken(process):
    take_from(libc_function("malloc", "c_void_p", "c_size_t"), process.module)


@row("Python", "PyMem_RawFree frees the module's block")
def raw_given(process):
    give_to(python_api("PyMem_RawFree", None, "c_void_p"), process.module)


@row("Python", "PyMem_RawRealloc grows the module's block")
def raw_grows(process):
    resize = python_api("PyMem_RawRealloc", "c_void_p", "c_void_p", "c_size_t")
    for size in SIZES:
        block = resize(process.module.allocate(size, 1), 3 * size)
        assert process.module.intact(block, size, 1), "the block lost its contents"
        process.module.release(block)


@row("Python", "ctypes' free frees the module's block")
def ctypes_given(process):
    give_to(libc_function("free", None, "c_void_p"), process.module)


@row("Python", "NumPy frees an array over module memory")
def numpy_owns(process):
    try:
        import numpy
    except ImportError as error:
        raise Skip("no NumPy here") from error
    for count in (3, 1000, 500000):
        array = process.module.owned_array(count)
        assert array.flags.owndata, "NumPy does not own the data"
        assert array.sum() == numpy.arange(count).sum() / 2, "the array has wrong values"
        del array


@row("Python", "pybind11 defines and calls a function")
def pybind11_function(process):
    process.module.define_functions()
    words = [letter * 100 for letter in "abcdef"]
    assert process.module.reversed(words, " - ") == " - ".join(reversed(words)), "wrong text"


@row("Python", "the collector deletes a C++ object's cycle")
def object_collected(process):
    module = process.module
    module.define_owner()
    gc.disable()
    for _ in range(100):
        owner = module.new_owner(False)
        owner.itself = owner
    assert module.owner_whole(owner), "the object is damaged"
    del owner
    assert module.owners_live() == 100, "an object went too early"
    gc.collect()
    assert module.owners_live() == 0, "an object stayed"


@row("Python", "interpreter exit deletes a C++ object", at_exit=["object destroyed"])
def object_at_exit(process):
    process.module.define_owner()
    sys.modules["__main__"].kept = process.module.new_owner(True)


@row("Python", "exit destroys a static object after Python", at_exit=["static object destroyed"])
def static_at_exit(process):
    process.module.keep_until_exit()


# ---- other modules -----------------------------------------------------------------------------


@row("modules", "new[] in the module, delete[] in another")
def array_given(process):
    pass_blocks(process.module, process.partner("plain"), array=True)


@row("modules", "new[] in another, delete[] in the module")
def array_taken(process):
    pass_blocks(process.partner("plain"), process.module, array=True)


@row("modules", "module's blocks, freed in another's threads")
def threads_given(process):
    pass_to_threads(process.module, process.partner("plain"))


@row("modules", "another's blocks, freed in module's threads")
def threads_taken(process):
    pass_to_threads(process.partner("plain"), process.module)


@row("modules", "tc_free frees the module's blocks")
def tcmalloc_frees(process):
    pass_both(process.module, process.partner("tcmalloc"))


@row("modules", "the module frees tc_malloc's blocks")
def tcmalloc_freed(process):
    pass_both(process.partner("tcmalloc"), process.module)


@row("modules", "mi_free frees the module's blocks")
def mimalloc_frees(process):
    pass_both(process.module, process.partner("mimalloc"))


@row("modules", "the module frees mi_malloc's blocks")
def mimalloc_freed(process):
    pass_both(process.partner("mimalloc"), process.module)


@row("modules", "a second such module: blocks both ways")
def same_both_ways(process):
    partner = process.partner(process.way)
    for giver, taker in ((process.module, partner), (partner, process.module)):
        pass_both(giver, taker)
        pass_blocks(giver, taker, array=True)


@row("modules", "a second such module: pybind11's tables")
def same_pybind11(process):
    modules = (process.module, process.second())
    for module in modules:
        module.define_owner()
    for _ in range(100):
        owners = [module.new_owner(False) for module in modules]
        for module, owner in zip(modules, owners):
            assert module.owner_whole(owner), "an object is damaged"
        del owner, owners
    assert [module.owners_live() for module in modules] == [0, 0], "an object stayed"


# ---- the child ---------------------------------------------------------------------------------


def mapping_of(address):
    """The mapping that holds an address, as the kernel names it: "" for an anonymous one."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            span, *rest = line.split(maxsplit=5)
            first, last = (int(number, 16) for number in span.split("-"))
            if first <= address < last:
                return rest[4].strip() if len(rest) > 4 else ""
    return "nothing"


def prove(process):
    """That the module has the allocator that the table says: not libc's, and homefree's or not."""
    block = process.module.allocate(100, 1)
    assert mapping_of(process.partner("plain").allocate(100, 1)) == "[heap]", "libc's block is lost"
    assert mapping_of(block) != "[heap]", "the module allocates from libc"
    with open("/proc/self/maps", encoding="utf-8") as maps:
        path = next((line.split()[-1] for line in maps if "libhomefree.so" in line), None)
    assert (path is not None) == (process.way == "homefree"), "libhomefree is in the wrong process"
    if path is not None:
        import ctypes

        owns = ctypes.CDLL(path).hf_owns
        owns.argtypes, owns.restype = [ctypes.c_void_p], ctypes.c_bool
        assert owns(block), "the module's block is not the heap's"


def main(modules, way, name):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path.insert(0, modules)
    chosen = next(row for row in [*ROWS, PROOF] if row.name == name)
    process = Process(way)
    say(LOADED)
    try:
        chosen.run(process)
    except Skip as reason:
        print(reason, file=sys.stderr)
        return SKIPPED
    except (AssertionError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    say(CHECKED)
    # Without homefree more would cross on the way out; the row is not about that.
    if way == "private" and not chosen.at_exit:
        os._exit(0)
    return 0


PROOF = Row(prove, "", "the modules are what the table says")

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
