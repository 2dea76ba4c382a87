"""Stencils from a line of Python: spec in, arrays through.

    import spider_gen
    heat = spider_gen.stencil("heat2d.yaml", alpha=0.2)
    v = heat(u)
    u = heat.iterate(u, steps=1000)

Kernels are generated and compiled at first use and kept in a cache. They run where the arrays are: on the GPU for CuPy's
and PyTorch's, and for NumPy's where there is one; else on the processor."""

from ._adjoint import adjoint_of, iterate_vjp, sweep_vjp
from ._cache import CacheError, cache_folder
from ._compilers import CompileError, NoBackend
from ._generator import SpecError, SpecWarning
from ._picture import write as write_picture
from ._points import Points
from ._stencil import Stencil, stencil
from ._system import System

__all__ = ["CacheError", "CompileError", "NoBackend", "Points", "SpecError", "SpecWarning", "Stencil", "System",
           "adjoint_of", "cache_folder", "iterate_vjp", "stencil", "sweep_vjp", "write_picture"]
__version__ = "0.3.0"
