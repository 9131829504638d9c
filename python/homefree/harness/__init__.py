# SPDX-License-Identifier: BSD-2-Clause
"""`homefree test`: a harness for memory that crosses the boundary of an extension module.

The command `homefree test` becomes _main.py. Two kinds of processes share these modules:

- the *controller*, which learns what crosses, plans cells, and shows results;
- the *hosts*, one warm process for each way of starting a Python (without homefree, with it from
  the start, with another allocator preloaded, ...), which have the tested module loaded and fork a
  process for each cell. A host must be able to run without homefree, so it executes _host.py by
  path, and the modules it uses import nothing of the package but each other.

Words: a *crossing* is a recipe for an object whose memory crosses, with its kind. A *condition* is
where and when its memory is freed. A *cell* is a crossing under a condition in a host.
"""
