from typing import Literal

from . import cuda as cuda
from . import extension as extension
from . import interpreters as interpreters
from . import package as package
from ._diagnose import diagnose as diagnose
from ._doctor import doctor as doctor
from ._folders import get_cmake_dir as get_cmake_dir
from ._folders import get_include as get_include
from ._folders import get_library_dir as get_library_dir
from ._folders import get_missing_dir as get_missing_dir
from ._folders import get_pkgconfig_dir as get_pkgconfig_dir
from ._homefree import Installed as Installed
from ._homefree import Owner as Owner
from ._homefree import RouteEntry as RouteEntry
from ._homefree import RouteReport as RouteReport
from ._homefree import owner_of as owner_of
from ._homefree import route_report as route_report
from ._homefree import stats as stats
from ._import_hook import import_hook as import_hook
from ._ipython import load_ipython_extension as load_ipython_extension
from ._load import ImportHook as ImportHook
from ._load import load as load
from ._torch import torch_extension_args as torch_extension_args

__version__: str

def install(python: Literal["arena", "full", "off"] = "arena", numpy: bool = True) -> Installed: ...
def uninstall() -> None: ...
