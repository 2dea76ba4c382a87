"""The element types of fields: bits to numbers and back, what surrounds a field, how results are rounded. NumPy knows no
bf16, so that is done on its bits: the upper half of an f32."""

import dataclasses

import numpy


@dataclasses.dataclass(frozen=True)
class Storage:
    """One element type."""

    name: str
    code: int  # spider_kernel_info.storage
    cell: type  # unsigned integer of the same size
    digits: int  # of the significand, with the leading one
    least_exponent: int  # of the least normal number
    greatest_exponent: int
    poison: int  # a NaN that neither results nor guards hold
    guards: tuple  # cells that must never matter: NaNs, infinities, the largest numbers

    @property
    def bytes(self):
        return numpy.dtype(self.cell).itemsize

    @property
    def rounding(self):
        """Relative error of rounding to nearest."""
        return 2.0**-self.digits

    @property
    def subnormal_rounding(self):
        """Absolute error of rounding a number too small to be normal; below f32's range sums may flush to zero."""
        if self.name == "f64":
            return 2.0**-1074
        return 2.0 ** (self.least_exponent - self.digits) if self.name == "f16" else 2.0**-126

    @property
    def arithmetic(self):
        """(relative error of rounding, least number) of what CUDA cores compute in."""
        return (2.0**-53, 2.0**-1074) if self.name == "f64" else (2.0**-24, 2.0**-149)

    @property
    def overflow(self):
        """The least number that is rounded to infinity; of f64 it has more digits than a float."""
        exact = numpy.longdouble if self.name == "f64" else float
        return (exact(2) - exact(2.0**-self.digits)) * exact(2.0**self.greatest_exponent)

    @property
    def quiet_nan(self):
        return {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8000000000000}[self.name]

    @property
    def infinity(self):
        return {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}[self.name]

    @property
    def sign_bit(self):
        return 1 << (8 * self.bytes - 1)

    def decode(self, cells):
        """Bits to float64; of f64 to long doubles, in which sums of them are exact beside its own rounding."""
        cells = numpy.asarray(cells, self.cell)
        if self.name == "f64":
            with numpy.errstate(invalid="ignore"):
                return cells.view(numpy.float64).astype(numpy.longdouble)
        if self.name == "f16":
            return cells.view(numpy.float16).astype(numpy.float64)
        if self.name == "bf16":
            cells = cells.astype(numpy.uint32) << 16
        with numpy.errstate(invalid="ignore"):  # the poison and the guards hold signalling NaNs
            return cells.view(numpy.float32).astype(numpy.float64)

    def encode(self, values):
        """Numbers to bits, rounded to nearest, ties to even (for bf16 by way of f32)."""
        if self.name == "f16":
            return numpy.asarray(values).astype(numpy.float16).view(numpy.uint16)
        if self.name == "f64":
            return numpy.asarray(values).astype(numpy.float64).view(numpy.uint64)
        bits = numpy.asarray(values).astype(numpy.float32).view(numpy.uint32)
        if self.name == "f32":
            return bits
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return numpy.where((bits & 0x7FFFFFFF) > 0x7F800000, bits >> 16 | 0x40, rounded).astype(numpy.uint16)

    def holds(self, value):
        """Is the number exact in this type?"""
        return bool(self.decode(self.encode(numpy.array([value])))[0] == value)


F16 = Storage("f16", 0, numpy.uint16, 11, -14, 15, 0xFDFD, (0x7E00, 0xFE01, 0x7C00, 0xFC00, 0x7BFF, 0xFBFF))
F32 = Storage(
    "f32",
    1,
    numpy.uint32,
    24,
    -126,
    127,
    0xFFFDFDFD,
    (0x7FC00000, 0xFFC00001, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0xFF7FFFFF),
)
BF16 = Storage("bf16", 2, numpy.uint16, 8, -126, 127, 0xFFFD, (0x7FC0, 0xFFC1, 0x7F80, 0xFF80, 0x7F7F, 0xFF7F))
F64 = Storage(
    "f64",
    3,
    numpy.uint64,
    53,
    -1022,
    1023,
    0xFFFDFDFDFDFDFDFD,
    (
        0x7FF8000000000000,
        0xFFF8000000000001,
        0x7FF0000000000000,
        0xFFF0000000000000,
        0x7FEFFFFFFFFFFFFF,
        0xFFEFFFFFFFFFFFFF,
    ),
)
STORAGES = {storage.name: storage for storage in (F16, F32, BF16, F64)}
