# SPDX-License-Identifier: BSD-2-Clause
"""Reads archives and images (inspect_archive.py, inspect_image.py) in a process of its own, which
may die of it.

State: that process. One thread.
"""

import json
import os
import select
import time

from .inspect_archive import CHUNK, MIB, Archive

_MEMORY_MAX = 4096 * MIB  # of the process
_SECONDS_MAX = 1200  # of processor time for an archive
_PAUSE = 100  # milliseconds


class Reader:
    """Reads archives, all in one process, or in another one where it died.

    memory: the descriptor that gets the ELF files of an archive, in place of those of the last.
    """

    def __init__(self, memory):
        self._memory = memory
        self._child = None

    def read(self, path, is_tar, wait, directory=None):
        """Reads an archive, and calls wait() ten times a second. Result: members (name, place once
        it is installed, offset, size), others (name, what is known of an object for macOS or
        Windows; None if it is no object after all), and problems (name, why), whose name is empty
        where they are the whole archive's. With a directory it is an image, which is unpacked
        there."""
        if self._child is None:
            self._start()
        try:
            os.write(self._questions, json.dumps([path, is_tar, directory]).encode() + b"\n")
        except BrokenPipeError:
            return self._died()
        answer = bytearray()
        while not answer.endswith(b"\n"):
            while not self._ready.poll(_PAUSE):
                wait()
            part = os.read(self._answers, CHUNK)
            if not part:
                return self._died()
            answer += part
        return json.loads(answer)

    def _died(self):
        signal = self.end() & 0x7F
        how = f"by signal {signal}" if signal else "too early"
        return [], [], [("", f"the process that read it ended {how}")]

    def end(self):
        """Result: the status that the process ended with, as waitpid(2) tells it."""
        if self._child is None:
            return 0
        os.close(self._questions)
        os.close(self._answers)
        child, self._child = self._child, None
        return os.waitpid(child, 0)[1]

    def _start(self):
        questions, self._questions = os.pipe()
        self._answers, answers = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                os.close(self._questions)
                os.close(self._answers)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                _answer(questions, answers, self._memory)
            finally:
                os._exit(1)
        os.close(questions)
        os.close(answers)
        self._ready = select.poll()
        self._ready.register(self._answers, select.POLLIN)


class Here:
    """The same in this process, where homefree is pure Python."""

    def __init__(self, memory):
        self._memory = memory

    def read(self, path, is_tar, wait):
        wait()
        archive = Archive(self._memory)
        archive.read(path, is_tar)
        return archive.members, archive.others, archive.problems

    def end(self):
        return 0


def _answer(questions, answers, memory):
    # Hostile archives may make a decoder use more than it should. Windows has no such module.
    import resource

    _limit(resource.RLIMIT_AS, resource.getrlimit(resource.RLIMIT_AS), _MEMORY_MAX)
    time_limits = resource.getrlimit(resource.RLIMIT_CPU)
    with open(questions, "rb") as lines, open(answers, "wb") as out:
        for line in lines:
            _limit(resource.RLIMIT_CPU, time_limits, int(time.process_time()) + _SECONDS_MAX)
            path, is_tar, directory = json.loads(line)
            archive = _image(directory) if directory else Archive(memory)
            archive.read(path, is_tar)
            answer = [archive.members, archive.others, archive.problems]
            out.write(json.dumps(answer).encode() + b"\n")
            out.flush()


def _image(directory):
    from .inspect_image import Image

    return Image(directory)


def _limit(what, limits, most):
    from resource import RLIM_INFINITY, setrlimit

    soft, hard = limits
    setrlimit(what, (most if soft == RLIM_INFINITY else min(soft, most), hard))
