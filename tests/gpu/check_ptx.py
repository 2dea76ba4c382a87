#!/usr/bin/env python3
"""Finds registers of PTX that are read and never written: nvcc 13.0 loses addresses of rows in some kernels, whose stores
then go anywhere.

  check_ptx.py [NAME] <PTX      prints what it finds of NAME and exits with 1, or nothing and 0
  check_ptx.py --self-test

Standard library only."""

import re
import sys

REGISTER = re.compile(r"%(?:r|rd|rs|rq|f|fd|h|hh|p)\d+\b")
INSTRUCTION = re.compile(r"(?:\{\s*)?(?:@!?[%\w]+\s+)?([a-z][\w.:]*)\s+(.*)", re.DOTALL)
# Their first operand is not a result, or an address.
WITHOUT_RESULT = re.compile(r"(?:st|red|cp|bar|barrier|bra|brx|prefetch\w*|membar|fence|ret|exit|trap|griddepcontrol"
                            r"|nanosleep|discard|applypriority|mbarrier(?!\.(?:arrive|test_wait|try_wait))"
                            r")(?:\.|$)")


def undefined_registers(body: str) -> list[str]:
    """Those of one entry or function of PTX, without comments."""
    written: set[str] = set()
    read: set[str] = set()
    for statement in re.split(r"[;\n]", body):
        found = INSTRUCTION.match(statement.strip())
        if not found or found.group(1).startswith("."):
            continue
        read.update(REGISTER.findall(statement))
        if not WITHOUT_RESULT.match(found.group(1)):
            result = re.match(r"\{[^}]*\}|[%\w|]+", found.group(2))
            written.update(REGISTER.findall(result.group()) if result else ())
    return sorted(read - written)


def check(ptx: str, name: str) -> bool:
    """Prints the entries of which registers are read that nothing writes; true if there are none."""
    ptx = re.sub(r"//[^\n]*", "", ptx)
    entries = re.split(r"\.(?:entry|func)\s+", ptx)[1:]
    if not entries:
        print(f"{name}: no PTX in it")
        return False
    right = True
    for entry in entries:
        lost = undefined_registers(entry)
        if lost:
            right = False
            print(f"{name}: {re.match(r'[^(]*', entry).group().strip()} reads registers that nothing writes: "
                  f"{', '.join(lost[:8])}")
    return right


SOUND = """.visible .entry sound(
.param .u64 sound_param_0)
{
ld.param.u64 %rd1, [sound_param_0];
{ .reg .pred wanted; setp.ne.b32 wanted, 1, 0; @wanted ld.global.v2.b32 {%r1, %r2}, [%rd1]; }
setp.ne.s32 %p1, %r1, 0;
shfl.sync.idx.b32 %r3|%p2, %r2, 1, 31, -1;
@%p1 bra $L;
{ .reg .pred wanted; setp.ne.b32 wanted, %r3, 0; @wanted st.global.v2.b32 [%rd1], {%r1, %r3}; }
}
"""


def self_test() -> None:
    assert check(SOUND, "sound")
    assert not check(SOUND.replace("st.global.v2.b32 [%rd1]", "st.global.v2.b32 [%rd2]"), "a lost address, as it should be")
    assert not check(SOUND.replace("st.global.v2.b32 [%rd1], {%r1, %r3}", "st.global.v2.b32 [%rd1], {%r1, %r4}"),
                     "a lost number, as it should be")
    assert not check("", "no PTX, as it should be")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        sys.exit(0 if check(sys.stdin.read(), " ".join(sys.argv[1:]) or "PTX") else 1)
