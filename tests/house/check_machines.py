"""The same spec gives the same bytes on every machine: spider-gen with the mathematical library that glibc picks for this
processor, and with that for one without fused multiply-add and AVX.

    check_machines.py SPIDER_GEN SPEC..."""

import os
import pathlib
import subprocess
import sys
import tempfile

OTHER_MACHINE = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2,-AVX"}
SKIPPED = 77
# What this Python's library, the same, makes of some arguments: a last digit in some hundred differs.
PROBE = "import math; print([math.exp(-i / 700) for i in range(900)])"
# By what is said of the i-th of 900 arguments; generated files name all values.
EXPRESSIONS = {
    "exponentials": "exp(-{}/700)",
    "sines": "sin({}/300)",
    "tangents": "tan({}/300)",
    "powers": "(1.3 + {}/90)^2.3",
    "logarithms": "log(0.1 + {}/300)",
    "mixed": "cbrt({0}) + log2(1 + {0}) + log10(1 + {0}) + cos({0}/80) + asin({0}/900) + acos({0}/900) + atan({0}/70)"
    " + sinh({0}/200) + cosh({0}/300) + tanh({0}/400) + erf({0}/300)",
}


def write_specs(folder):
    """One of each of EXPRESSIONS; the paths."""
    for name, expression in EXPRESSIONS.items():
        parameters = "".join(f"  p{i}: {expression.format(i)}\n" for i in range(900))
        path = folder / f"{name}.yaml"
        path.write_text(
            f"stencil: {name}\ndimensions: 2\nstorage: f32\nparameters:\n{parameters}"
            "shape: taps\ncoefficients: [{at: [0, 0], weight: p60}, {at: [0, 1], weight: p61}]\n",
            encoding="utf-8",
        )
        yield path


def main():
    generator, *specs = sys.argv[1:]
    other = {**os.environ, **OTHER_MACHINE}
    probes = [subprocess.run([sys.executable, "-c", PROBE], env=env, capture_output=True, check=True).stdout
              for env in (None, other)]
    if probes[0] == probes[1]:
        print("skipped: this machine's mathematical library does not depend on GLIBC_TUNABLES")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        command = [generator, *write_specs(pathlib.Path(folder)), *specs, "-o", f"{folder}/out"]
        subprocess.run(command, check=True)
        return subprocess.run([*command[:1], "--check", *command[1:]], env=other, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
