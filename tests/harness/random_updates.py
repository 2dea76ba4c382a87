"""Draws random specs with updates, update_000.yaml ..., and says what their updates mean: the tree that the text was written
from. Run as a program it writes them with their kernels and plans. Standard library only."""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import textwrap

import random_specs
from random_specs import AXES, Space

DEFAULT_COUNT = 36
STORAGES = ("f32", "f16", "bf16", "f64")
# Said of too many steps, and of sums with too many rows for tensor cores: drawn again.
NO_ROOM = ("find no room in registers and shared memory", "the stencil is too large for one sweep")
ATTEMPTS = 10
REFUSED_SHARE = 0.1
STEPPED = 3  # of so many specs one advances several steps in a sweep
STEPPED_DIMENSIONS = (2, 3, 1)
SEVERAL_SUMS = (1, 3)  # of five of them, those that have several sums
PREVIOUS = (0, 2, 3)  # and of seven those that read the input one step back
# For sparse tensor cores: dimensions and storage, in turn, and of three those that have one sum.
SPARSE_KINDS = ((2, "f16"), (2, "f32"), (3, "f16"), (2, "bf16"), (1, "f16"), (2, "f16"), (3, "f16"), (2, "f32"), (1, "bf16"))
SPARSE_OF_ONE_SUM = (0,)
SPARSE_OF_BANDS = (3, 5)  # and of the nine those that have sums of many rows on the two axes, which make bands
# For two passes: storage, and of each sum radii along y and x, and pairs of lists, in turn. One sum reaches as far as all do.
PASSES_KINDS = (
    ("f16", ((7, 7), 1)),
    ("f16", ((15, 15), 1), ((7, 7), 1)),
    ("f32", ((5, 5), 1), ((12, 5), 1)),
    ("bf16", ((15, 9), 1)),
    ("f16", ((3, 9), 1), ((8, 9), 1), ((1, 0), 1)),
    ("f16", ((5, 12), 2)),
    ("f64", ((6, 9), 1), ((6, 2), 1)),
    ("f16", ((16, 16), 1)),
    ("f16", ((20, 4), 1), ((3, 2), 2)),
    ("f32", ((4, 12), 1), ((1, 3), 1), ((3, 3), 1)),
    ("bf16", ((20, 3), 1)),
    ("bf16", ((5, 5), 1), ((13, 5), 1)),
    ("f16", ((8, 24), 1)),
    ("f16", ((6, 2), 1), ((6, 20), 1)),
)
WEIGHT_KINDS = ("exact", "inexact", "rational")  # for tensor cores, whose operands hold them in terms
LIMITS = {1: (0, 0, 9), 2: (0, 5, 9), 3: (4, 4, 5)}
PRECEDENCE = {"?": 0, "<": 1, "<=": 1, ">": 1, ">=": 1, "==": 1, "!=": 1, "+": 2, "-": 2, "*": 3, "/": 3, "negate": 4, "^": 5}
FUNCTIONS = ("abs", "sqrt", "cbrt", "exp", "log", "sin", "cos", "tanh", "erf", "floor", "ceil", "round", "atan", "min", "max")


def leaves(rng, names):
    """A leaf: a name, or a number that is short to write."""
    if rng.random() < 0.25:
        return ["number", rng.choice((0.25, 0.5, 2.0, 3.0, 0.1, 1.7, 0.3333, 1e-3))]
    return list(rng.choice(names))


def tree(rng, names, depth):
    """A random tree whose divisors, roots and logarithms stay away from where they end."""
    if depth == 0 or rng.random() < 0.15:
        return leaves(rng, names)
    form = rng.random()
    sub = lambda: tree(rng, names, depth - 1)  # noqa: E731
    if form < 0.5:
        return [rng.choice("++--**"), sub(), sub()]
    if form < 0.6:
        return ["/", sub(), ["+", ["abs", sub()], ["number", rng.choice((1.5, 2.0, 4.0))]]]
    if form < 0.66:
        return ["negate", sub()]
    if form < 0.74:
        return ["^", sub(), ["number", float(rng.choice((2, 3, 4)))]]
    if form < 0.84:
        return ["?", [rng.choice(("<", "<=", ">", ">=", "==", "!=")), sub(), sub()], sub(), sub()]
    function = rng.choice(FUNCTIONS)
    if function in ("min", "max"):
        return [function, sub(), sub()]
    if function in ("sqrt", "log"):
        return [function, ["+", ["abs", sub()], ["number", 0.5]]]
    if function == "exp":
        return ["exp", ["min", sub(), ["number", 2.0]]]
    return [function, sub()]


def text_of(node, rng, outer=0):
    """The tree as it may be written: with no more parentheses than it needs, or with some."""
    kind = node[0]
    if kind == "number":
        return f"{node[1]:g}" if node[1] != 0.3333 else "0.3333"
    if kind in ("name", "index", "extent"):
        return node[1]
    if kind in FUNCTIONS:
        return f"{kind}({', '.join(text_of(one, rng) for one in node[1:])})"
    own = PRECEDENCE[kind]
    if kind == "negate":
        text = "-" + text_of(node[1], rng, own + 1)
    elif kind == "?":
        text = f"{text_of(node[1], rng, 1)} ? {text_of(node[2], rng, 1)} : {text_of(node[3], rng, 0)}"
    elif kind == "^":
        text = f"{text_of(node[1], rng, own + 1)}^{text_of(node[2], rng, own)}"
    elif own == 1:
        text = f"{text_of(node[1], rng, 2)} {kind} {text_of(node[2], rng, 2)}"
    else:
        text = f"{text_of(node[1], rng, own)} {kind} {text_of(node[2], rng, own + 1)}"
    # A sign may not follow a sign or an operator of its own kind without parentheses.
    return f"({text})" if own < outer or (kind == "negate" and outer > 0) or rng.random() < 0.1 else text


def uses(node, name):
    return node[:2] == ["name", name] or any(isinstance(one, list) and uses(one, name) for one in node[1:])


def bands_sum(rng, is_first):
    """(taps, the keys that say them) along y, along x or both, as the first has them."""
    high, wide = rng.choice((4, 5)), rng.randint(1, 8)
    along_y = [(0, dy, 0) for dy in range(-high, high + 1)]
    along_x = [(0, 0, dx) for dx in range(-wide, wide + 1)]
    both = sorted({*along_y, *along_x})
    offsets = both if is_first else rng.choice((along_y, along_x, both))
    return random_specs.taps_spec(rng, "exact", Space(2, "f16", (), LIMITS[2]), offsets)


def sums_of(drawn):
    """(the taps of each by name, the keys that say them) of several sums, each (its taps, the keys that say them)."""
    bodies = (f"  {name}:\n" + textwrap.indent(body, "    ") for name, (_, body) in drawn.items())
    return {name: taps for name, (taps, _) in drawn.items()}, "sums:\n" + "".join(bodies)


def make_operator(rng, space, kinds=None, several=None, of_bands=False):
    """(the taps of each sum by name, the keys that say them): one sum of a shape, or 1 to 3 by name; or as it is said
    whether there are several. Weights are of one of the kinds."""
    shapes = (random_specs.star_spec, random_specs.taps_spec, random_specs.box_spec, random_specs.product_spec)
    draw = lambda: rng.choices(shapes, (45, 25, 15, 15))[0](rng, rng.choice(kinds) if kinds else "exact", space)  # noqa: E731
    if not several if several is not None else rng.random() < 0.5:
        taps, body = draw()
        return {"sum": taps}, body
    count = rng.choice((2, 2, 3) if several else (1, 2, 2, 3))
    return sums_of({f"g{i}": bands_sum(rng, i == 0) if of_bands else draw() for i in range(count)})


def make_update(rng, names, may_lack=("u",)):
    """A tree in which every name occurs, but for some, and its text."""
    whole = tree(rng, names, rng.choice((1, 2, 3, 4)))
    for name in names:
        if name[0] == "name" and name[1] not in may_lack and not uses(whole, name[1]):
            term = list(name) if rng.random() < 0.5 else ["*", list(name), leaves(rng, names)]
            whole = [rng.choice("+-"), whole, term]
    if whole[0] == "name":  # a sum alone is no update
        whole = ["negate", whole]
    return whole, text_of(whole, rng)


def stepped_sum(rng, dimensions, place):
    """(taps, the keys that say them), with weights that keep fields small over many steps."""
    taps = random_specs.stepping_taps(rng, dimensions, random_specs.STEPPING_FORMS[place % len(random_specs.STEPPING_FORMS)])
    told = [f"  - {{at: {random_specs.axis_list(at[3 - dimensions :])}, weight: {weight!r}}}\n" for at, weight in taps.items()]
    return taps, "shape: taps\ncoefficients:\n" + "".join(told)


def levels_sum(rng):
    """The same of seven points in 3D, of one weight beside the middle or of seven."""
    taps = random_specs.stepping_taps(rng, 3, "cross")
    if rng.random() < 0.4:
        taps = {at: weight * rng.uniform(0.5, 1) for at, weight in taps.items()}
    told = [f"  - {{at: {random_specs.axis_list(at)}, weight: {weight!r}}}\n" for at, weight in taps.items()]
    return {"sum": taps}, "shape: taps\ncoefficients:\n" + "".join(told)


def stepped_operator(rng, dimensions, place):
    """The same of each sum by name."""
    if place % 5 not in SEVERAL_SUMS:
        taps, body = stepped_sum(rng, dimensions, place)
        return {"sum": taps}, body
    return sums_of({f"g{i}": stepped_sum(rng, dimensions, rng.randrange(6)) for i in range(rng.choice((2, 2, 3)))})


def stepped_update(rng, names, a_sum):
    """The same as make_update, of results that stay small: part of u and a tree that is drawn in."""
    inner, _ = make_update(rng, names)
    drawn_in = [rng.choice(("tanh", "sin", "atan")), ["*", ["number", 0.5], inner]]
    simple = ["*", list(rng.choice(names)), ["name", a_sum]]
    for name in names:
        if name[0] == "name" and name[1] not in ("u", a_sum) and not uses(simple, name[1]):
            simple = ["*", simple, list(name)]
    tree = rng.choice((
        ["+", ["*", ["number", 0.5], ["name", "u"]], ["*", ["number", 0.25], drawn_in]],
        drawn_in,
        ["+", ["name", "u"], ["*", ["number", 0.1], ["-", simple, ["name", "u"]]]],
    ))
    return tree, text_of(tree, rng)


def make_stepped_spec(index, seed, attempt):
    """make_spec() of several steps in a sweep."""
    rng = random.Random(f"{seed}/updates/steps/{index}" + (f"/{attempt}" if attempt else ""))
    place = index // STEPPED
    name = f"update_{index:03d}"
    dimensions = STEPPED_DIMENSIONS[place % len(STEPPED_DIMENSIONS)]
    storage = STORAGES[place % len(STORAGES)]
    # Of two in 3D one is what registers of all steps hold: seven points, one sum, the input, and fields.
    of_levels = dimensions == 3 and place // len(STEPPED_DIMENSIONS) % 2 == 1
    reach = 3
    while reach == 3:  # which leaves no room for fields in 3D
        sums, body = levels_sum(rng) if of_levels else stepped_operator(rng, dimensions, place)
        offsets = [at for taps in sums.values() for at in taps]
        reach = max(max(map(abs, at)) for at in offsets) if dimensions == 3 else 0
    steps = min(random_specs.choose_steps(rng, dimensions, offsets), rng.choice((2, 3, 5, 9)))
    if dimensions == 3:  # where fields, kept planes and sums take room
        steps = min(steps, 3 if reach < 2 and storage != "f64" else 2)
    rules = tuple(rule for rule in random_specs.RULES if rule != "antisymmetric")
    space = Space(dimensions, storage, rules, LIMITS[dimensions])
    faces, boundary = random_specs.make_boundary(rng, space)
    narrow = STORAGES[:3] if storage != "f64" else STORAGES
    fields = {f"c{i}": rng.choice((storage, storage, *narrow)) for i in range(rng.randint(0, 2))}
    scalars = [f"s{i}" for i in range(rng.choice((0, 1)))]
    previous = "u_old" if not of_levels and place % 7 in PREVIOUS else None
    names = [["name", one] for one in ("u", *sums, *fields, *scalars)]
    names += [["name", previous]] if previous else []
    if not of_levels and rng.random() < 0.3:
        axis = rng.choice(space.axes)
        names += [["/", ["index", "i" + AXES[axis]], ["extent", "n" + AXES[axis]]]]
    meaning, update = stepped_update(rng, names, next(iter(sums)))
    text = f"stencil: {name}\ndimensions: {dimensions}\nstorage: {storage}\nsteps: {steps}\n" + body + boundary
    text += f"previous: {previous}\n" if previous else ""
    if fields:
        text += "fields: {" + ", ".join(f"{one}: {{storage: {kind}}}" for one, kind in fields.items()) + "}\n"
    text += f"scalars: [{', '.join(scalars)}]\n" if scalars else ""
    text += f'update: "{update}"\n'
    told = {one: [[*at, weight] for at, weight in taps.items()] for one, taps in sums.items()}
    expected = {"sums": told, "fields": fields, "scalars": scalars, "previous": previous, "tree": meaning, "boundary": faces}
    return name, text, expected | {"steps": steps}


def make_spec(index, seed, attempt=0):
    """(name, spec text, expected meaning); a higher attempt draws another one in its place"""
    if index % STEPPED == STEPPED - 1:
        return make_stepped_spec(index, seed, attempt)
    dimensions = (3, 2, 3, 1, 2)[index % 5]
    storage = STORAGES[index // 5 % len(STORAGES)]
    return draw_spec(index, random.Random(f"{seed}/updates/{index}/{attempt}"), dimensions, storage)


def make_sparse_spec(index, seed, attempt=0):
    """The same of one step, which sparse tensor cores take."""
    dimensions, storage = SPARSE_KINDS[index % len(SPARSE_KINDS)]
    rng = random.Random(f"{seed}/updates/sparse/{index}" + (f"/{attempt}" if attempt else ""))
    of_bands = index % len(SPARSE_KINDS) in SPARSE_OF_BANDS
    several = of_bands or index // 2 % 3 not in SPARSE_OF_ONE_SUM
    return draw_spec(index, rng, dimensions, storage, on_tensor_cores=True, several=several, of_bands=of_bands)


def engine_of_passes(index):
    return "dense" if PASSES_KINDS[index % len(PASSES_KINDS)][0] in ("f16", "bf16") else "cuda"


def make_passes_spec(index, seed, attempt=0):
    """The same of one step, whose weights are sums of products of a list along y and one along x."""
    storage, *passes = PASSES_KINDS[index % len(PASSES_KINDS)]
    rng = random.Random(f"{seed}/updates/passes/{index}" + (f"/{attempt}" if attempt else ""))
    return draw_spec(index, rng, 2, storage, on_tensor_cores=True, several=len(passes) > 1, passes=passes)


def draw_spec(index, rng, dimensions, storage, on_tensor_cores=False, several=None, passes=None, of_bands=False):
    name = f"update_{index:03d}"
    space = Space(dimensions, storage, random_specs.RULES, LIMITS[dimensions])
    if passes and several:
        drawn = {f"g{i}": random_specs.passes_spec(rng, "inexact", space, *one) for i, one in enumerate(passes)}
        sums, body = sums_of(drawn)
    elif passes:
        taps, body = random_specs.passes_spec(rng, "inexact", space, *passes[0])
        sums = {"sum": taps}
    else:
        sums, body = make_operator(rng, space, WEIGHT_KINDS if on_tensor_cores else None, several, of_bands)
    of_sums_alone = several and rng.random() < 0.3
    faces, boundary = random_specs.make_boundary(rng, space)
    narrow = STORAGES[:3] if storage != "f64" else STORAGES  # fields of f64 go with sums of f64
    fields = {f"c{i}": rng.choice((storage, storage, *narrow)) for i in range(0 if of_sums_alone else rng.randint(0, 4))}
    scalars = [f"s{i}" for i in range(rng.choice((0, 0, 1, 2)))]
    previous = "u_old" if not of_sums_alone and rng.random() < 0.5 else None
    names = [["name", one] for one in (*([] if of_sums_alone else ["u"]), *sums, *fields, *scalars)]
    names += [["name", previous]] if previous else []
    if not of_sums_alone and rng.random() < 0.4:
        axis = rng.choice(space.axes)
        names += [["index", "i" + AXES[axis]], ["extent", "n" + AXES[axis]]]
    meaning, update = make_update(rng, names, () if passes else ("u",))
    text = f"stencil: {name}\ndimensions: {dimensions}\nstorage: {storage}\n" + body + boundary
    text += f"previous: {previous}\n" if previous else ""
    if fields:
        plain = all(one == storage for one in fields.values()) and rng.random() < 0.7
        told = [one if plain else f"{one}: {{storage: {kind}}}" for one, kind in fields.items()]
        text += "fields: " + ("[" if plain else "{") + ", ".join(told) + ("]\n" if plain else "}\n")
    text += f"scalars: [{', '.join(scalars)}]\n" if scalars else ""
    text += f'update: "{update}"\n'
    if rng.random() < 0.1 and dimensions == 2 and "sum" in sums and not on_tensor_cores:
        far = {(0, rng.randint(-40, 40), rng.randint(-200, 200)): rng.randint(1, 9) for _ in range(3)}
        taps = [f"{{at: [{y}, {x}], weight: {weight}}}" for (_, y, x), weight in far.items()]
        text = text.replace(body, "shape: taps\ncoefficients: [" + ", ".join(taps) + "]\n")
        sums = {"sum": far}
    told = {one: [[*at, weight] for at, weight in taps.items()] for one, taps in sums.items()}
    expected = {"sums": told, "fields": fields, "scalars": scalars, "previous": previous, "tree": meaning, "boundary": faces}
    return name, text, expected


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--spider-gen", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--shipped", nargs="*", default=[], type=pathlib.Path, help="specs with updates, beside random ones")
    parser.add_argument("--count", type=int, default=DEFAULT_COUNT)
    parser.add_argument("--sparse-count", type=int, default=0, help="so many more by sparse tensor cores")
    parser.add_argument("--passes-count", type=int, default=0, help="so many more in two passes, on tensor cores or CUDA cores")
    parser.add_argument("--seed", type=int, default=random_specs.DEFAULT_SEED)
    parser.add_argument("--engine", help="every other kernel by this one")
    arguments = parser.parse_args()
    for folder in ("specs", "plans"):
        shutil.rmtree(arguments.folder / folder, ignore_errors=True)
        (arguments.folder / folder).mkdir(parents=True)
    command = [arguments.spider_gen] + (["--engine", arguments.engine] if arguments.engine else [])
    sparse_command = [arguments.spider_gen, "--engine", "sparse"]
    passes_commands = {engine: [arguments.spider_gen, "--engine", engine] for engine in ("dense", "cuda")}

    def explain(path, command=command):
        """Writes a spec's plan; what was said where there is no room for it."""
        done = subprocess.run(
            [*command, "--explain", "--explain-format", "json", path], capture_output=True, text=True, check=False
        )
        if done.returncode == 1 and any(one in done.stderr for one in NO_ROOM):
            return done.stderr
        if done.returncode != 0:
            sys.exit(f"{path}: spider-gen exits {done.returncode}\n{done.stderr}{path.read_text(encoding='utf-8')}")
        (arguments.folder / "plans" / f"{path.stem}.json").write_text(done.stdout, encoding="utf-8")
        return None

    paths = list(arguments.shipped)
    for path in paths:
        if said := explain(path):
            sys.exit(f"{path}: spider-gen exits 1\n{said}")

    def write(name, text, expected):
        path = arguments.folder / "specs" / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        (arguments.folder / "plans" / f"{name}.expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")
        return path

    refused = 0

    def draw(make, index, command):
        """The first draw that finds room."""
        nonlocal refused
        for attempt in range(ATTEMPTS):
            path = write(*make(index, arguments.seed, attempt))
            said = explain(path, command)
            if said is None:
                return path
            refused += 1
        sys.exit(f"{path}: {ATTEMPTS} draws in turn were refused, the last one with\n{said}")

    paths += [draw(make_spec, index, command) for index in range(arguments.count)]
    last = arguments.count + arguments.sparse_count
    on_tensor_cores = [draw(make_sparse_spec, index, sparse_command) for index in range(arguments.count, last)]
    in_passes = {engine: [] for engine in passes_commands}
    for index in range(last, last + arguments.passes_count):
        engine = engine_of_passes(index)
        path = draw(make_passes_spec, index, passes_commands[engine])
        in_passes[engine].append(path)
        plan = json.loads((arguments.folder / "plans" / f"{path.stem}.json").read_text(encoding="utf-8"))
        if plan["template"] not in ("lowrank2d", "passes2d"):
            sys.exit(f"{path}: {plan['template']} takes it, not two passes")
    count = len(paths) + len(on_tensor_cores) + arguments.passes_count
    if refused > REFUSED_SHARE * count:
        sys.exit(f"{refused} draws of {count} found no room")
    by_engine = [(command, paths), (sparse_command, on_tensor_cores)]
    by_engine += [(passes_commands[engine], specs) for engine, specs in in_passes.items()]
    for of_engine, specs in by_engine:
        if specs:
            subprocess.run([*of_engine, *specs, "-o", arguments.folder / "kernels"], check=True)
    print(f"{count} kernels with updates in {arguments.folder}, seed {arguments.seed}, {refused} more draws were refused")


if __name__ == "__main__":
    main()
