"""torch's figures: pairs of its caching allocators beside homefree's; what it reserves for traces.

    torch_measure.py LIBHOMEFREE

Prints "name value" a line: pinned.torch, pinned.homefree, device.torch, device.homefree
(nanoseconds a pair of 1 MiB), training.torch, serving.torch, loader.torch (bytes reserved). Exits
with 77 without torch or a device.
"""

import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "bench/traces"))
import traces  # noqa: E402

ROUNDS, COUNT, SIZE = 11, 2000, 1 << 20


def pairs(library):
    from torch.utils import cpp_extension

    module = cpp_extension.load(
        "homefree_torch_rivals", [str(HERE / "torch_rivals.cc")], extra_cflags=["-O2"],
        with_cuda=True,
    )  # fmt: skip
    names = [f"{who} {what}" for what in ("pinned", "device") for who in ("torch", "homefree")]
    for name in names:
        module.pair(name, SIZE, 100, library)
    samples = {name: [] for name in names}
    for number in range(ROUNDS):
        for name in names[:: 1 if number % 2 == 0 else -1]:
            samples[name].append(module.pair(name, SIZE, COUNT, library))
    for name, values in samples.items():
        who, what = name.split()
        print(f"{what}.{who} {statistics.median(values):.2f}", flush=True)


def reserved(torch, name):
    streams = [torch.cuda.default_stream(), *[torch.cuda.Stream() for _ in range(8)]]
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    live = {}
    for kind, block, *rest in traces.make(name):
        if kind == "a":
            with torch.cuda.stream(streams[rest[1]]):
                live[block] = torch.empty(rest[0], dtype=torch.uint8, device="cuda")
        else:
            del live[block]
    return torch.cuda.max_memory_reserved()


def reserved_pinned(torch):
    """0 if this torch does not tell."""
    tell = getattr(torch.cuda.memory, "host_memory_stats", None)
    live = {}
    for kind, block, *rest in traces.make("loader"):
        if kind == "a":
            live[block] = torch.empty(rest[0], dtype=torch.uint8, pin_memory=True)
        else:
            del live[block]
    return tell().get("allocated_bytes.peak", 0) if tell else 0


def main():
    try:
        import torch
    except ImportError:
        print("skipped: torch is not installed")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no CUDA device for torch")
        return 77
    for name in ("training", "serving"):
        print(f"{name}.torch {reserved(torch, name)}", flush=True)
    print(f"loader.torch {reserved_pinned(torch)}", flush=True)
    pairs(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
