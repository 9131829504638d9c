"""Follows a pickle without running it: what it names, what it calls, and whether it can be loaded.

Accepted is what CPython's own pickler writes at protocols 4 and 5 without persistent IDs and
extension codes. Nothing is called here, no name is looked up, and no memory is taken that the
pickle's own size does not pay for; so this comes before the unpickler, which has bounds for
neither (a memo's index, the hash of nested tuples) and calls whatever is on its stack.

What is refused beyond broken streams, because no pickler writes it: calls of something that is
not named as it stands (a result, an argument), names that were computed, state and items for
something named or for a logger, which others have as well.

Nothing here keeps state.
"""

import pickle
import struct

from ._names import shown

_DEPTH = 5000  # of containers in containers: C code descends into them
_WORK = 10**9  # items, each time that something stands where it was written before
_NAME = 4096  # bytes


class Broken(Exception):
    """The pickle cannot be loaded, or is none that a pickler writes."""


# What is on the stack: (depth, items, what). `what` is a text, a name (module, name), RANGE for a
# range and for what has one in it, LOGGER for what others use as well, or None.
RANGE, LOGGER = object(), object()
_MADE = {("builtins", "range"): RANGE, ("logging", "getLogger"): LOGGER}
_ATOM = (0, 1, None)

# How the argument of an opcode is read: bytes of a number, or -(bytes of a length before it).
_ARGUMENTS = {
    **dict.fromkeys(
        [
            *(pickle.MARK, pickle.STOP, pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.POP),
            *(pickle.POP_MARK, pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2),
            *(pickle.TUPLE3, pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS, pickle.EMPTY_DICT),
            *(pickle.SETITEM, pickle.SETITEMS, pickle.EMPTY_SET, pickle.ADDITEMS),
            *(pickle.FROZENSET, pickle.MEMOIZE, pickle.STACK_GLOBAL, pickle.REDUCE, pickle.BUILD),
            *(pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER),
        ],
        0,
    ),
    **dict.fromkeys([pickle.PROTO, pickle.BININT1, pickle.BINGET], 1),
    **dict.fromkeys([pickle.BININT2], 2),
    **dict.fromkeys([pickle.BININT, pickle.LONG_BINGET], 4),
    **dict.fromkeys([pickle.BINFLOAT, pickle.FRAME], 8),
    **dict.fromkeys([pickle.SHORT_BINUNICODE, pickle.SHORT_BINBYTES, pickle.LONG1], -1),
    **dict.fromkeys([pickle.BINUNICODE, pickle.BINBYTES, pickle.LONG4], -4),
    **dict.fromkeys([pickle.BINUNICODE8, pickle.BINBYTES8, pickle.BYTEARRAY8], -8),
}
_ARGUMENTS = {opcode[0]: size for opcode, size in _ARGUMENTS.items()}
_LENGTHS = {1: struct.Struct("<B"), 4: struct.Struct("<L"), 8: struct.Struct("<Q")}

_PLAIN = {
    one[0]
    for one in (
        *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BININT, pickle.BININT1),
        *(pickle.BININT2, pickle.LONG1, pickle.LONG4, pickle.BINFLOAT, pickle.SHORT_BINBYTES),
        *(pickle.BINBYTES, pickle.BINBYTES8, pickle.BYTEARRAY8, pickle.EMPTY_TUPLE),
        *(pickle.EMPTY_LIST, pickle.EMPTY_DICT, pickle.EMPTY_SET),
    )
}
# By opcode: the bytes of its argument, if it pushes something plain and they are always as many.
_PLAIN_SIZES = [
    _ARGUMENTS[one] if one in _PLAIN and _ARGUMENTS[one] >= 0 else None for one in range(256)
]
_TEXTS = {one[0] for one in (pickle.SHORT_BINUNICODE, pickle.BINUNICODE, pickle.BINUNICODE8)}
_TUPLES = {pickle.TUPLE1[0]: 1, pickle.TUPLE2[0]: 2, pickle.TUPLE3[0]: 3}


class Scan:
    """What a pickle does. named: names (module, name). called: those that it calls. ranged: those
    that it calls with a range among the arguments. buffers: how many it takes."""

    def __init__(self, data):
        self.named, self.called, self.ranged = {}, {}, {}
        self.buffers = 0
        self._stack, self._memo, self._marks = [], [], []
        self._work = 0
        try:
            # Bytes are faster than a view of them, item by item.
            self._follow(data if isinstance(data, (bytes, bytearray)) else bytes(data))
        except IndexError:
            raise Broken("it takes more from its stack than there is") from None

    def _pop(self):
        if self._marks and len(self._stack) == self._marks[-1]:
            raise IndexError
        return self._stack.pop()

    def _pop_mark(self):
        at = self._marks.pop()
        items = self._stack[at:]
        del self._stack[at:]
        return items

    def _top(self):
        if self._marks and len(self._stack) == self._marks[-1]:
            raise IndexError
        return self._stack[-1]

    def _hold(self, items, before=_ATOM):
        """A container of these items, and of those of the one before."""
        depth, count, what = before
        for item in items:
            if item[0] >= depth:
                depth = item[0] + 1
            count += item[1]
            if item[2] is RANGE:
                what = RANGE
        if depth > _DEPTH:
            raise Broken(f"it nests more than {_DEPTH} objects")
        if count > _WORK:
            raise Broken("it has the same objects in itself too often")
        return (depth, count, what)

    def _changed(self):
        """The top of the stack, which the pickle changes: an object that it has made."""
        top = self._top()
        if isinstance(top[2], tuple) or top[2] is LOGGER:
            what = "a logger" if top[2] is LOGGER else shown(".".join(top[2]))
            raise Broken(f"it changes {what}, which it has not made")
        return top

    def _put_into(self, items):
        self._stack[-1] = self._hold(items, self._changed())

    def _name(self, texts):
        if not all(type(one[2]) is str for one in texts):
            raise Broken("it computes a name")
        name = (texts[0][2], texts[1][2])
        self.named[name] = True
        return (0, 1, name)

    def _call(self, arguments):
        function = self._pop()
        if type(function[2]) is not tuple:
            raise Broken("it calls what it does not name")
        self.called[function[2]] = True
        if arguments[2] is RANGE:
            self.ranged[function[2]] = True
        made = self._hold([arguments])
        return (made[0], made[1], _MADE.get(function[2]))

    def _follow(self, data):
        at, end = 0, len(data)
        stack, memo, arguments = self._stack, self._memo, _ARGUMENTS
        if end < 2 or data[0] != pickle.PROTO[0] or data[1] not in (4, 5):
            raise Broken("it does not begin as a pickle of protocol 4 or 5 does")
        marks, plain = self._marks, _PLAIN_SIZES
        while True:
            if at >= end:
                raise Broken("it is cut short")
            opcode = data[at]
            at += 1
            # The frequent ones first. What reaches over the end is found when the next one is read.
            size = plain[opcode]
            if size is not None:
                stack.append(_ATOM)
                at += size
                continue
            if opcode == 0x94:  # MEMOIZE
                memo.append(self._top())
                continue
            if opcode == 0x28:  # MARK
                marks.append(len(stack))
                continue
            size = arguments.get(opcode)
            if size is None:
                raise Broken(f"it has the opcode {opcode:#x}, which its protocol does not use")
            start = at
            if size < 0:
                if end - at < -size:
                    raise Broken("it is cut short")
                (length,) = _LENGTHS[-size].unpack_from(data, at)
                start = at - size
                at = start + length
            else:
                at += size
            if at > end:
                raise Broken("it is cut short")
            if opcode == 0x68 or opcode == 0x6A:  # BINGET, LONG_BINGET
                index = data[start] if size == 1 else int.from_bytes(data[start:at], "little")
                if index >= len(memo):
                    raise Broken("it takes what it did not memoize")
                found = memo[index]
                self._work += found[1]
                if self._work > _WORK:
                    raise Broken("it has the same objects in itself too often")
                stack.append(found)
            elif opcode in _TEXTS:
                text = _text(data, start, at)
                stack.append(_ATOM if text is None else (0, 1, text))
            elif opcode in _PLAIN:
                stack.append(_ATOM)
            elif opcode == 0x2E:  # STOP
                break
            else:
                self._container(opcode)
        if len(stack) != 1 or self._marks:
            raise Broken("it ends with something left on its stack, or with nothing")
        if at != end:
            raise Broken("bytes follow its end")

    def _container(self, opcode):
        """The opcodes that take something from the stack, and those that are rare."""
        stack = self._stack
        opcode = bytes((opcode,))
        if opcode in (pickle.PROTO, pickle.FRAME):
            pass
        elif opcode[0] in _TUPLES:
            items = [self._pop() for _ in range(_TUPLES[opcode[0]])]
            stack.append(self._hold(items))
        elif opcode in (pickle.TUPLE, pickle.FROZENSET):
            stack.append(self._hold(self._pop_mark()))
        elif opcode == pickle.APPEND:
            self._put_into([self._pop()])
        elif opcode == pickle.SETITEM:
            self._put_into([self._pop(), self._pop()])
        elif opcode in (pickle.APPENDS, pickle.SETITEMS, pickle.ADDITEMS):
            items = self._pop_mark()
            if opcode == pickle.SETITEMS and len(items) % 2:
                raise Broken("it has a key without a value")
            self._put_into(items)
        elif opcode == pickle.STACK_GLOBAL:
            second, first = self._pop(), self._pop()
            stack.append(self._name((first, second)))
        elif opcode in (pickle.REDUCE, pickle.NEWOBJ):
            stack.append(self._call(self._pop()))
        elif opcode == pickle.NEWOBJ_EX:
            keywords, positional = self._pop(), self._pop()
            stack.append(self._call(self._hold([keywords, positional])))
        elif opcode == pickle.BUILD:
            state = self._pop()
            stack[-1] = self._hold([state], self._changed())
        elif opcode == pickle.POP:
            if self._marks and len(stack) == self._marks[-1]:
                self._marks.pop()
            else:
                stack.pop()
        elif opcode == pickle.POP_MARK:
            self._pop_mark()
        elif opcode == pickle.NEXT_BUFFER:
            self.buffers += 1
            stack.append(_ATOM)
        else:  # READONLY_BUFFER
            self._top()


def _text(data, start, end):
    """A text that could be a name, or None."""
    if end - start > _NAME:
        return None
    try:
        return str(data[start:end], "utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise Broken("it has a text that is not UTF-8") from None
