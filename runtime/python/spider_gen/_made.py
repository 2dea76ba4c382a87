"""What is generated from a spec and compiled when arrays come: the part that stencils and systems of equations share."""

from __future__ import annotations

import threading
import weakref
from typing import Any, MutableMapping, Sequence

from . import _arrays, _compilers, _generator, spider
from ._calls import MOST_LAUNCHES
from ._points import Points

#: By their keys: operators of PyTorch take text, and no objects.
MADE: MutableMapping[str, Made] = weakref.WeakValueDictionary()


class Made:
    """A spec's generated file and its kernels. It can be pickled: where it is loaded it is made again from the spec's text,
    through the cache. A copy is the object itself, which nothing changes."""

    _kind = "stencil"

    def __init__(self, spec: _generator.Spec, backend: str):
        if backend == "host":
            _compilers.host()  # says now which compiler is missing
        self._spec = spec
        self._backend = backend
        self._generated = _generator.generate(spec)
        self._kernels: dict[_compilers.Toolchain, tuple[Any, Any]] = {}  # library and kernel
        self._launches: dict[Any, Any] = {}  # by the names and layouts of what a sweep is given
        self._adjoint: Any = None  #: what _adjoint.adjoint_of found
        self._gradient: Any = None  #: what _adjoint._gradient_of found
        self._loading = threading.Lock()
        self._key = f"{spec.key}-{backend}"
        MADE[self._key] = self

    def __repr__(self) -> str:
        return f"<spider_gen {self._kind} {self.name}>"

    def __reduce__(self) -> Any:
        return type(self), (self._spec, self._backend)

    def __copy__(self) -> Made:
        return self

    def __deepcopy__(self, memo: Any) -> Made:
        return self

    @property
    def name(self) -> str:
        return self._generated.name

    @property
    def source(self) -> str:
        """The generated CUDA source file."""
        return self._generated.source.read_text(encoding="utf-8")

    def explain(self) -> str:
        """The plan: what computes, what bounds it, a drawing of its matrices."""
        return _generator.explain(self._spec)

    @property
    def info(self) -> spider.Info:
        """Storage, dimensions, reach, steps of a sweep; compiles the kernel for what arrays of the host run on."""
        return self._kernel(_compilers.choose(self._backend))[1].info

    def compile(self) -> Any:
        """Compiles all now for what arrays of the host run on, instead of at the first array. Returns itself."""
        _compilers.compile_all(self._kernel(_compilers.choose(self._backend))[0])
        return self

    def points(self, shape: Sequence[int], cells: Sequence[Sequence[int]]) -> Points:
        """Cells of arrays of this shape, an index for each axis: sources and receivers.

            source, line = wave.points(u.shape, [(60, 60, 20)]), wave.points(u.shape, [(60, y, 2) for y in range(120)])
            for step in range(steps):
                wave(u, out=u_old, u_old=u_old, c2dt2=c2dt2)
                u, u_old = u_old, u
                source.add(u, signal[step])
                line.read(u, out=trace[step])
        """
        return Points(self, shape, cells)

    def _kernel_for(self, array: _arrays.Array) -> tuple[Any, Any]:
        return self._kernel_to_run(self._toolchain_for(array))

    def _toolchain_for(self, array: _arrays.Array) -> _compilers.Toolchain:
        if not array.on_device:
            return _compilers.choose(self._backend)
        if self._backend == "host":
            raise TypeError(f"{self.name} was made with backend=\"host\", and the array is on a device")
        return _compilers.cuda(array.device)

    def _kernel_to_run(self, toolchain: _compilers.Toolchain) -> tuple[Any, Any]:
        if toolchain.backend == "cuda":
            _compilers.use_cuda()
        return self._kernel(toolchain)

    def _kernel(self, toolchain: _compilers.Toolchain) -> tuple[Any, Any]:
        found = self._kernels.get(toolchain)
        if found is None:
            with self._loading:
                library = _compilers.load_kernel(self._generated, toolchain)
                found = self._kernels.setdefault(toolchain, (library, library.kernel(self.name)))
        return found

    def _keep_launch(self, key: Any, launch: Any) -> None:
        if len(self._launches) >= MOST_LAUNCHES:
            self._launches.clear()
        self._launches[key] = launch
