"""What a generated file says of its kernel, from the PTX that NVRTC makes of it: NVRTC writes constants of the file, the kernel
among them, as data. Layouts are those of the host."""

from __future__ import annotations

import dataclasses
import re

_GLOBAL = re.compile(r"^(?:\.visible |\.weak )?\.(?:global|const) \.align (\d+) \.([a-z]+)(\d+) ([\w$]+)(?:\[(\d+)\])?(?: = (.*))?;$",
                     re.MULTILINE)
_ENTRY = re.compile(r"^\.(?:weak|visible) \.entry ([\w$]+)\([^{]*\{([^}]*)", re.MULTILINE)
_NUMBER = re.compile(r"// entry (-?\d+)")
_ADDRESS = re.compile(r"(?:generic\()?([A-Za-z_$][\w$]*)\)?(?:\+(\d+))?")
_FORMATS = {("f", 8): "0d", ("f", 4): "0f"}


@dataclasses.dataclass(frozen=True)
class Description:
    """A kernel as the runtime has it in memory, with all that it points to: bytes, and in which places they need addresses."""

    memory: bytes
    kernel: int  #: where in `memory` it is
    addresses: tuple[tuple[int, int], ...]  #: the place of an address, and where in `memory` that is
    functions: tuple[tuple[int, str], ...]  #: the place of an address, and the entry that it is of
    numbers: dict[str, int]  #: of each entry, as SPIDER_ONLY_ENTRY takes it
    sizes: dict[int, int]  #: in bytes, of each constant in `memory` by its place


@dataclasses.dataclass(frozen=True)
class _Constant:
    alignment: int
    data: bytes
    pointers: tuple[tuple[int, str, int], ...]  #: place, name, offset


def describe(ptx: str, name: str) -> Description:
    """The kernel of the stencil `name`. ValueError where the PTX holds none."""
    constants = {found.group(4): found for found in _GLOBAL.finditer(ptx)}
    numbers = {entry: int(number.group(1)) & 0xffffffff for entry, body in _ENTRY.findall(ptx)
               if (number := _NUMBER.search(body)) is not None}
    scope = f"spider_{name}"
    root = next((one for one in constants if one.endswith(f"{len(scope)}{scope}6kernelE")), None)
    if root is None:
        raise ValueError(f"the PTX has no kernel of the stencil {name}")
    memory, places, sizes, waiting = bytearray(), {}, {}, [root]
    addresses: list[tuple[int, str, int]] = []
    while waiting:
        symbol = waiting.pop()
        if symbol in places or symbol in numbers:
            continue
        if symbol not in constants:
            raise ValueError(f"{symbol} is neither a constant nor a function that begins with SPIDER_ENTRY")
        constant = _constant(constants[symbol])
        memory += bytes(-len(memory) % constant.alignment)
        places[symbol] = len(memory)
        sizes[len(memory)] = len(constant.data)
        addresses += [(len(memory) + at, to, offset) for at, to, offset in constant.pointers]
        memory += constant.data
        waiting += [to for _, to, _ in constant.pointers]
    return Description(bytes(memory), places[root],
                       tuple((at, places[to] + offset) for at, to, offset in addresses if to in places),
                       tuple((at, to) for at, to, _ in addresses if to in numbers), numbers, sizes)


def _constant(found: re.Match) -> _Constant:
    """PTX leaves out zeros at the end."""
    alignment, letter, bits, _, count, values = found.groups()
    size = int(bits) // 8
    data, pointers = bytearray(size * int(count or 1)), []
    for i, value in enumerate((values or "0").strip("{}").split(",")):
        value = value.strip()
        address = _ADDRESS.fullmatch(value)
        if address is not None:
            pointers.append((i * size, address.group(1), int(address.group(2) or 0)))
        else:
            number = int(value[2:], 16) if value.startswith(_FORMATS.get((letter, size), "0x")) else int(value)
            data[i * size:(i + 1) * size] = (number % (1 << 8 * size)).to_bytes(size, "little")
    return _Constant(int(alignment), bytes(data), tuple(pointers))
