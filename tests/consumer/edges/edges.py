"""Edges of an image: the magnitude of its gradient by Sobel's operators, two sums and a root in one sweep of f16 numbers.

With spider_gen installed: edges.py image.npy --picture edges.png, on the GPU if there is one; without an image it draws
some discs. --check compares with SciPy."""

import argparse
import pathlib
import sys

import numpy as np
import spider_gen

SPEC = pathlib.Path(__file__).parents[3] / "stencils/sobel2d.yaml"


def draw(rows, columns):
    """Discs over each other, of gray values from 0 to 255."""
    random = np.random.default_rng(11)
    y, x = np.ogrid[:rows, :columns]
    image = np.zeros((rows, columns), np.float16)
    for _ in range(40):
        radius = random.integers(4, max(5, rows // 4))
        image[(y - random.integers(rows)) ** 2 + (x - random.integers(columns)) ** 2 < radius**2] = random.integers(256)
    return image


def check():
    import scipy.ndimage

    edges = spider_gen.stencil(SPEC, backend="host")
    # Sums of whole gray values are exact; squares, their sum and the root are rounded to f32, the result to f16.
    allowed = 2.0**-11 + 2.0**-20
    worst = 0.0
    for shape in ((1, 1), (1, 40), (37, 1), (200, 311)):
        image = np.random.default_rng(shape).integers(0, 256, shape).astype(np.float16)
        wanted = scipy.ndimage.generic_gradient_magnitude(image.astype(float), scipy.ndimage.sobel)
        worst = max(worst, np.abs(edges(image) / np.where(wanted == 0, 1, wanted) - (wanted != 0)).max())
    print(f"within {worst / allowed:.2f} of what rounding may make")
    assert worst <= allowed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("image", nargs="?", type=pathlib.Path, help="gray values in an .npy file of two axes")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--picture", metavar="FILE", help="of the edges, as PNG")
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    image = np.load(arguments.image).astype(np.float16) if arguments.image else draw(240, 320)
    magnitude = spider_gen.stencil(SPEC)(image)
    print(f"{image.shape[0]} x {image.shape[1]} cells, the steepest {magnitude.max():.0f}")
    if arguments.picture:
        spider_gen.write_picture(arguments.picture, magnitude)


if __name__ == "__main__":
    sys.exit(main())
