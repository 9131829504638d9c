# SPDX-License-Identifier: BSD-2-Clause
"""What the command shows to people, made from the documents that its part in C writes.

loader/command/program/python.c starts a process of its own here, isolated and without site
packages, as the package `command`: nothing imports the rest of homefree, or anything that is not in
Python's standard library. A subcommand is the module of its name.
"""
