# spack repo create DIR && mkdir DIR/packages/spider_gen && cp package.py there; spack repo add DIR
# spack dev-build spider-gen@0.3.0, in a checkout: a release has a url and a sha256 here.
from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class SpiderGen(PythonPackage):
    """Stencils on sparse tensor cores: a generator of CUDA kernels, and its Python package."""

    license("MIT", checked_by="spider-gen developers")

    version("0.3.0")

    depends_on("cxx", type=("build", "run"))  # kernels of the host back end are compiled where they run
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("py-numpy@1.22:", type=("build", "run"))
    depends_on("py-scikit-build-core@0.10:", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("boost+program_options")
    depends_on("fmt@9:")
    depends_on("muparser@2.3:")
    depends_on("yaml-cpp@0.7:")

    conflicts("%gcc@:10", msg="kernels and the generator are C++20: gcc 11 or newer")
    conflicts("platform=darwin")
    conflicts("platform=windows")

    import_modules = ["spider_gen"]
