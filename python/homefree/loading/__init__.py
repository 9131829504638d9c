# SPDX-License-Identifier: BSD-2-Clause
"""Extension modules that exist already: homefree.load(), and what the import statement loads.

_load                 load(), and the loader that it shares with the import hook and with packages
_import_hook          import_hook()
_hook_names           which modules a name given to the hook stands for
_interpreter_modules  modules in interpreters with a GIL of their own
_unsupported          which of them such an interpreter cannot have
"""
