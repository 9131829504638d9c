"""Operators appear when their library is loaded; their texts and arrays cross both ways."""

import ctypes
import inspect
import subprocess
import sys
from array import array

import homefree
import ops
import pytest
from homefree import check


@pytest.fixture(scope="module")
def registry():
    made = ops.Registry("build")
    made.load("text_ops")
    made.load("number_ops")
    return made


@pytest.mark.parametrize("order", [("text_ops", "number_ops"), ("number_ops", "text_ops")])
def test_each_library_brings_its_own_operators_in_either_order(order):
    program = f"import ops; r = ops.Registry('build'); print(*[r.load(n) for n in {order}])"
    output = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    brought = {"text_ops": "['join', 'repeat']", "number_ops": "['parse', 'scale']"}
    assert output == " ".join(brought[name] for name in order) + "\n"


def test_a_library_that_is_loaded_again_brings_nothing_new(registry):
    assert registry.load("text_ops") == []


def test_a_wrapper_has_name_docstring_and_signature_of_the_operator(registry):
    assert registry.scale.__name__ == "scale"
    assert registry.scale.__doc__ == "Multiplies each number."
    expected = "(values: array.array, factor: float) -> array.array"
    assert str(inspect.signature(registry.scale)) == expected


def test_texts_and_arrays_go_in_and_out(registry):
    numbers = registry.parse("1 2.5 4 " * 1000)
    assert numbers == array("d", [1, 2.5, 4] * 1000)
    assert registry.join(registry.scale(numbers, factor=2), ";") == ";".join(["2;5;8"] * 1000)


def test_an_exception_of_the_operator_arrives_as_one(registry):
    with pytest.raises(ValueError, match="repeat: std::invalid_argument: times is 0 to"):
        registry.repeat("x", -1)


def test_a_missing_argument_is_a_type_error(registry):
    with pytest.raises(TypeError, match="factor"):
        registry.scale([1])


def test_libc_frees_once_what_an_operator_returns(registry):
    value, alive = ops.Value.of(ops.TEXT, "1 2 3")
    result = ops.Value()
    operators = (ctypes.POINTER(ops.Op) * 4)()
    registry._list(operators, 4)
    parse = next(op.contents for op in operators if op.contents.name == b"parse")
    assert parse.call(ctypes.byref(value), result) == 0
    check.assert_owner(result.data, "heap")
    with check.assert_freed_once(result.data):
        assert result.take() == array("d", [1, 2, 3])
    assert homefree.owner_of(result.data).block is None


def test_memory_of_a_library_is_freed_by_others(registry):
    with check.watch() as seen:
        registry.repeat("x" * 100, 10)
    assert seen.crossed(allocated_by="libtext_ops", freed_by="libffi") == 1


def test_memory_that_libstdcxx_had_from_libc_is_freed_by_a_library(registry):
    with check.watch() as seen, pytest.raises(ValueError):
        registry.repeat("x", -1)
    assert seen.crossed(allocated_by="libc.so", freed_by="libtext_ops") == 1
