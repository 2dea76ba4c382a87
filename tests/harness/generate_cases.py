"""Generates everything the accuracy tests need into one folder, with spider-gen alone: specs/ (random ones, by seed),
kernels/ (<kernel>.cu, .h), plans/ (<kernel>.json from --explain, and what random specs mean) and drawn.txt, the options
that drew them. The folder can be carried to a machine that has a GPU and no spider-gen. Standard library only.

What is drawn is what this spider-gen can generate: it is asked with tiny specs. REQUIRED says what it must be able to
do, so that nothing disappears from the tests unnoticed."""

import argparse
import collections
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import random_specs

# (dimensions, storage) -> rules; add to it what the generator learns.
REQUIRED = {
    (2, "f16"): set(random_specs.RULES),
    (2, "f32"): set(random_specs.RULES),
    (2, "bf16"): set(random_specs.RULES),
    (1, "f16"): set(random_specs.RULES),
    (1, "bf16"): set(random_specs.RULES),
    (3, "f16"): set(random_specs.RULES),
    (1, "f32"): set(random_specs.RULES),
    (3, "f32"): set(random_specs.RULES),
    (3, "bf16"): set(random_specs.RULES),
    (1, "f64"): set(random_specs.RULES),
    (2, "f64"): set(random_specs.RULES),
    (3, "f64"): set(random_specs.RULES),
}
# The farthest reach to ask for on each axis, and what to be content with.
REACHES = {"z": (15, 8, 4, 2, 1, 0), "y": (31, 15, 7, 3, 1, 0), "x": (127, 31, 15, 7, 3, 1, 0)}
WEIGHT_MODES = ("f16", "f16x2", "bf16", "bf16x2")
ACCURACIES = ("tf32", "f16")  # beside full
PLAN_KEYS = ("stencil", "dimensions", "steps", "engine", "storage", "accuracy", "adds_identity", "error_bound")
PLAN_KEYS += ("template", "cores", "boundary", "reach", "weights", "chained_mmas", "tap_rows", "taps", "composition")
STREAMING_KEYS = ("rows_per_warp", "warps_per_block", "tile_forms", "deviation", "magnitude", "passed", "y_magnitude",
                  "list_reach")
# Other ways of computing the same, each with the share of specs that it gets.
OPTIONS = {
    ("--engine", "cuda"): 8,
    ("--engine", "sparse"): 24,  # where CUDA cores are the default
}
# Those that 2D f16 must have.
REQUIRED_OPTIONS = set(OPTIONS)
# A draw that the plan cannot hold is drawn again, so often at most; and of all draws at most this share may be such.
ATTEMPTS = 20
REFUSED_SHARE = 0.25
# Of so many specs of many steps some have to leave rims to these forms (generator/time_steps.md).
STEPS_COUNT_WITH_RIMS = 24
FORMS_OF_RIMS = ("spider::rims2d_form<",)


def run(command, check=True):
    """Runs a command that has to succeed, unless `check` is false; if not, what it says on standard error is passed on."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:6]))} ...: exit {done.returncode}\n{done.stderr}")
    return done


def known_as(space):
    return space.dimensions, space.storage


class Generator:
    """A spider-gen that is asked what it can do."""

    def __init__(self, path, folder):
        self.path = path
        self.probes = folder
        self.number = itertools.count()

    def explain(self, path, options):
        return run([self.path, "--explain", "--explain-format", "json", *options, path], check=False)

    def can(self, dimensions, storage, body, options=()):
        """Does it take this spec? It may say no (1, or 2 for an option that it does not know), but not break."""
        name = f"probe_{next(self.number)}"
        path = self.probes / f"{name}.yaml"
        path.write_text(f"stencil: {name}\ndimensions: {dimensions}\nstorage: {storage}\n{body}", encoding="utf-8")
        done = self.explain(path, options)
        if done.returncode not in (0, 1, 2):
            sys.exit(f"spider-gen exits {done.returncode} for\n{path.read_text()}\n{done.stderr}")
        return done.returncode == 0

    def space(self, dimensions, storage):
        """The Space of specs that it generates with so many dimensions and this storage; None: none at all."""

        def taps(at):
            return f"shape: taps\ncoefficients: [{{at: {at}, weight: 0.5}}]\n"

        origin = str([0] * dimensions)
        rules = tuple(
            rule
            for rule in random_specs.RULES
            if self.can(
                dimensions,
                storage,
                taps(origin) + f"boundary: {'{constant: 1}' if rule == 'constant' else rule}\n",
            )
        )
        if not rules:
            return None
        modes = tuple(
            mode for mode in WEIGHT_MODES if self.can(dimensions, storage, f"weights: {mode}\n" + taps(origin))
        )
        accuracies = ("full",) * 6 + tuple(
            accuracy
            for accuracy in ACCURACIES
            if self.can(dimensions, storage, f"accuracy: {accuracy}\n" + taps(origin))
        )
        # CUDA cores take any reach, so that what is drawn is what sparse tensor cores hold, where there are plans for them.
        sparse = ("--engine", "sparse")
        engine = sparse if self.can(dimensions, storage, taps(origin), sparse) else ()
        limits = [0, 0, 0]
        for axis in range(3 - dimensions, 3):
            letter = random_specs.AXES[axis]
            limits[axis] = next(
                reach
                for reach in REACHES[letter]
                if reach == 0
                or all(self.can(dimensions, storage, taps(f"{{{letter}: {at}}}"), engine) for at in (reach, -reach))
            )
        options = [()] * 100
        place = 0
        for option, share in OPTIONS.items():
            if self.can(dimensions, storage, taps(origin), option):
                options[place : place + share] = [option] * share
            place += share
        return random_specs.Space(dimensions, storage, rules, tuple(limits), modes, accuracies, tuple(options))

    def spaces(self):
        """All of them; what is missing of REQUIRED is an error."""
        kinds = list(itertools.product((2, 1, 3), ("f16", "f32", "bf16", "f64")))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            spaces = [space for space in pool.map(lambda kind: self.space(*kind), kinds) if space]
        known = {known_as(space): set(space.rules) for space in spaces}
        for (dimensions, storage), rules in REQUIRED.items():
            if missing := rules - known.get((dimensions, storage), set()):
                sys.exit(f"spider-gen no longer generates {dimensions}D {storage} with {', '.join(sorted(missing))}")
        options = {option for space in spaces if known_as(space) == (2, "f16") for option in space.options}
        if missing := REQUIRED_OPTIONS - options:
            sys.exit(f"spider-gen no longer takes {', '.join(sorted(map(' '.join, missing)))} in 2D f16")
        return spaces


def write_plan(path, explanation):
    """Keeps what reference.py reads of an explanation: all of it would weigh as much as the kernels."""
    told = json.loads(explanation)
    kept = {key: told[key] for key in PLAN_KEYS if key in told}
    kept["passes"] = [
        {"streaming": {key: one["streaming"][key] for key in STREAMING_KEYS if key in one["streaming"]}}
        for one in told["passes"]
    ]
    path.write_text(json.dumps(kept, separators=(",", ":")) + "\n", encoding="utf-8")


def draw(generator, index, rule, seed, spaces, specs, plans, steps_from):
    """Draws a spec that the plan can hold; (path, options, number of draws, what was said of those refused). From the index
    `steps_from` on they take many steps in a sweep."""
    refusals = []
    for attempt in range(ATTEMPTS):
        if index < steps_from:
            name, text, expected = random_specs.make_spec(index, seed, spaces, attempt, rule)
        else:
            name, text, expected = random_specs.make_steps_spec(index, seed, spaces, attempt, index - steps_from)
        path = specs / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        options = expected["options"]
        done = generator.explain(path, options)
        if done.returncode == 0:
            write_plan(plans / f"{name}.json", done.stdout)
            (plans / f"{name}.expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")
            return path, tuple(options), attempt + 1, refusals
        if done.returncode != 1:
            sys.exit(f"{path}: spider-gen exits {done.returncode}\n{done.stderr}")
        refusals.append(done.stderr.strip())
    sys.exit(f"{path}: {ATTEMPTS} draws in turn were refused, the last one with\n{refusals[-1]}")


def one_of_each(drawn, plans):
    """Of what was drawn one kernel of every template with every rule: the template's storages in turn, and of each as many
    specs as there are."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for one in drawn:
        told = json.loads((plans / f"{one[0].stem}.json").read_text(encoding="utf-8"))
        found[told["template"], one[0].stem.split("_")[-1]][told["storage"]].append(one)
    chosen = []
    for template in sorted({template for template, _ in found}):
        if missing := [rule for rule in random_specs.RULES if not found[template, rule]]:
            sys.exit(f"no kernel of template {template} with {', '.join(missing)}: a larger --count may draw some")
        for number, rule in enumerate(random_specs.RULES):
            storages = found[template, rule]
            having = storages[sorted(storages)[number % len(storages)]]
            chosen.append(having[number * len(having) // len(random_specs.RULES)])
    for path in {path for path, *_ in drawn} - {path for path, *_ in chosen}:
        path.unlink()
        for plan in (plans / f"{path.stem}.json", plans / f"{path.stem}.expected.json"):
            plan.unlink()
    return chosen


def is_system(path):
    """Of several equations, which tests/systems checks."""
    return any(line.startswith("stages:") for line in path.read_text(encoding="utf-8").splitlines())


def drawn_by(words):
    """The options that say what is drawn, without those that name files: for the record of what ran on a GPU."""
    files = ("--spider-gen", "--stencils", "--folder")
    return "generate_cases.py " + shlex.join(word for before, word in zip(("", *words), words) if word not in files and before not in files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--spider-gen", required=True)
    parser.add_argument("--stencils", required=True, type=pathlib.Path, help="folder of the shipped specs")
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--count", type=int, default=random_specs.DEFAULT_COUNT)
    parser.add_argument("--steps-count", type=int, default=0, help="random specs of many steps a sweep, behind the others")
    parser.add_argument("--seed", type=int, default=random_specs.DEFAULT_SEED)
    parser.add_argument("--only", nargs="*", default=[], metavar="KIND", help="only these, like 2D-f16 3D-f32")
    parser.add_argument("--accuracy", choices=("full", *ACCURACIES), help="every random spec with this one")
    parser.add_argument("--engine", help="every random kernel by this one")
    parser.add_argument("--arch", help="every random kernel for this one")
    parser.add_argument("--options", help="every random kernel with these, like --options='--engine cuda'")
    parser.add_argument(
        "--each-boundary",
        action="store_true",
        help="one kernel of every template with every rule at all faces, from as many specs, and no others",
    )
    parser.add_argument("--refusals", action="store_true", help="print what was said of the draws that were refused")
    arguments = parser.parse_args()

    specs = arguments.folder / "specs"
    kernels = arguments.folder / "kernels"
    plans = arguments.folder / "plans"
    for folder in (specs, plans):  # kernels that did not change keep their time stamp
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    (arguments.folder / "drawn.txt").write_text(drawn_by(sys.argv[1:]) + "\n", encoding="utf-8")
    with tempfile.TemporaryDirectory() as probes:
        generator = Generator(arguments.spider_gen, pathlib.Path(probes))
        spaces = generator.spaces()
        if arguments.only:
            spaces = [space for space in spaces if f"{space.dimensions}D-{space.storage}" in arguments.only]
        if arguments.accuracy:
            spaces = [dataclasses.replace(space, accuracies=(arguments.accuracy,)) for space in spaces]
        if arguments.engine:
            spaces = [dataclasses.replace(space, options=(("--engine", arguments.engine),)) for space in spaces]
        if arguments.arch:
            spaces = [dataclasses.replace(space, options=(("--arch", arguments.arch),)) for space in spaces]
        if arguments.options:
            options = tuple(arguments.options.split())
            spaces = [dataclasses.replace(space, options=(options,)) for space in spaces]
        rules = random_specs.RULES if arguments.each_boundary else (None,)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            drawn = list(
                pool.map(
                    lambda one: draw(generator, *one, arguments.seed, spaces, specs, plans, arguments.count),
                    itertools.product(range(arguments.count + arguments.steps_count), rules),
                )
            )
        draws = sum(count for _, _, count, _ in drawn)
        refused = draws - len(drawn)
        if arguments.each_boundary:
            drawn = one_of_each(drawn, plans)
        shipped = [] if arguments.each_boundary else sorted(arguments.stencils.glob("*.yaml"))
        shipped = [path for path in shipped if not is_system(path)]
        for path in shipped:
            explanation = run([arguments.spider_gen, "--explain", "--explain-format", "json", path]).stdout
            if "update" not in json.loads(explanation):  # check_updates.py checks those that have one
                write_plan(plans / f"{path.stem}.json", explanation)
    names = {path.stem for path, *_ in drawn} | {path.stem for path in shipped}
    for stale in kernels.glob("*"):
        if stale.stem not in names:
            stale.unlink()
    by_options = collections.defaultdict(list)
    for path, options, _, _ in drawn:
        by_options[options].append(path)
    if shipped:
        by_options[()] += shipped
    for options, paths in by_options.items():
        run([arguments.spider_gen, *options, *paths, "-o", kernels])
    restricted = arguments.only or arguments.engine or arguments.arch or arguments.options or arguments.each_boundary
    if arguments.steps_count >= STEPS_COUNT_WITH_RIMS and not restricted:
        sources = [(kernels / f"{path.stem}.cu").read_text(encoding="utf-8") for path, *_ in drawn]
        for form in FORMS_OF_RIMS:
            if not any(form in source for source in sources):
                sys.exit(f"no random kernel has a {form[len('spider::') : -1]}: another seed may draw one")

    if arguments.refusals:
        for refusal in sorted({refusal for *_, refusals in drawn for refusal in refusals}):
            print(refusal)
    for space in spaces:
        print(f"{space.dimensions}D {space.storage}: reach {space.limits}, {', '.join(space.rules)}")
    print(
        f"{len(names)} kernels in {kernels}: {len(drawn)} random ones, seed {arguments.seed}, "
        f"{refused} more draws were refused"
    )
    if refused > REFUSED_SHARE * draws + 3:
        sys.exit("the generator refuses too much of what it claims to generate (--refusals prints what it says)")


if __name__ == "__main__":
    main()
