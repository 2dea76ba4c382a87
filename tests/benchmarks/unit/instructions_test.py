#!/usr/bin/env python3
"""Counts a made-up listing: instructions_test.py FOLDER"""

import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "instructions.py"
# An outer loop around two others, and a jump back from behind them into the shorter one.
LISTING = """
.L_x_0:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDS.128 R4, [R8] ;
        /*0020*/                   HMMA.SP.16832.F32 R4, R4, R8, R4, R2, 0x0 ;
        /*0030*/               @P0 BRA `(.L_x_1) ;
.L_x_2:
        /*0040*/                   LDS R4, [R8] ;
        /*0050*/              @!PT LDS RZ, [RZ] ;
        /*0060*/              @!P1 PRMT R4, R4, 0x5410, R5 ;
        /*0070*/                   HMMA.16816.F32 R4, R4, R8, R4 ;
        /*0080*/                   HMMA.16816.F32 R4, R4, R8, R4 ;
        /*0090*/              @!P0 BRA `(.L_x_2) ;
        /*00a0*/                   BRA `(.L_x_0) ;
        /*00b0*/                   EXIT ;
.L_x_3:
        /*00c0*/                   BRA `(.L_x_3) ;
        /*00d0*/                   NOP ;
"""


def main(folder):
    with tempfile.TemporaryDirectory(dir=folder) as name:
        disassembler = pathlib.Path(name) / "nvdisasm"
        disassembler.write_text(f"#!/bin/sh\ncat <<'END'\n{LISTING}END\n", encoding="utf-8")
        disassembler.chmod(0o755)
        done = subprocess.run([sys.executable, "-B", SCRIPT, disassembler, "some/box.cubin"], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[2] == "| box | 12 | 5 | 2 | 1 | 1 | 0 | 0 |", done.stdout
    assert subprocess.run([sys.executable, "-B", SCRIPT], capture_output=True, check=False).returncode == 2
    print("instructions are counted")


main(pathlib.Path(sys.argv[1]))
