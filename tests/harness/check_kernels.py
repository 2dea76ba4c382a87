"""Runs generated kernels of a shared library through the public C API and checks them against double precision:
values, untouched memory, misuse, iteration. The same script serves the emulated and the CUDA back end.

    check_kernels.py --library libspider_cases_emulated.so --plans plans/

Needs NumPy and SciPy."""

import argparse
import dataclasses
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import random
import sys
import time
import traceback

# One thread per process: the processes are the parallelism.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "SPIDER_EMULATOR_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy  # noqa: E402

import box_checks  # noqa: E402
import interface_checks  # noqa: E402
import memory_checks  # noqa: E402
import reference  # noqa: E402
import sweep_case  # noqa: E402
from spider_library import UNSUPPORTED, CallFailed, Library  # noqa: E402
from sweep_case import Case  # noqa: E402

DEFAULT_SEED = 20250117
EDGE_EXTENTS = (1, 7, 127, 128, 129, 255, 256, 257, 300)
SECONDS_PER_KERNEL = 600


def make_rng(seed, *labels):
    """A generator that depends on the seed and the labels only."""
    return numpy.random.default_rng(list("/".join(map(str, (seed, *labels))).encode()))


def vary_emulation(seed, name, number):
    """Another order of lanes and another size of device for each case: the emulator reads both at each launch, and the
    size decides how many rows a warp walks. A device ignores them."""
    choose = random.Random(f"{seed}/{name}/{number}/emulation")
    os.environ["SPIDER_EMULATOR_SEED"] = str(choose.randrange(1, 2**31))
    os.environ["SPIDER_EMULATOR_MULTIPROCESSORS"] = str(choose.choice((1, 1, 2, 3, 8, 132)))


def small_extents(choose, dimensions, most_cells=14000):
    """Extents 1 .. 300, along z at most 40, with at most so many cells: emulated lanes are slow."""
    columns = choose.choice(EDGE_EXTENTS) if choose.random() < 0.6 else choose.randint(1, 300)
    if dimensions == 1:
        return 1, 1, columns * choose.choice((1, 1, 3, 16))
    most_rows = max(1, min(300, most_cells // columns))
    rows = choose.choice(EDGE_EXTENTS) if choose.random() < 0.3 else choose.randint(1, choose.choice((40, 300)))
    if dimensions == 2:
        return 1, min(rows, most_rows), columns
    rows = min(rows, most_rows, choose.choice((1, 4, 17, 40)))
    planes = choose.choice((1, 2, 3, choose.randint(1, 40)))
    return max(1, min(planes, most_cells // (rows * columns))), rows, columns


def tiny_extents(choose, dimensions):
    """Extents at which every point is at several faces, mostly smaller than the reach."""
    far = choose.randint(2, 300)
    if dimensions == 1:
        return [(1, 1, 1), (1, 1, 2), (1, 1, 7), (1, 1, far), (1, 1, 3), (1, 1, 16)]
    if dimensions == 2:
        return [(1, 1, 1), (1, 1, 7), (1, 7, 1), (1, 1, far), (1, far, 1), (1, 2, 3)]
    return [(1, 1, 1), (1, 1, far), (2, 3, 5), (1, far, 1), (choose.randint(2, 30), 1, 1), (3, 2, 17)]


def random_case(choose, dimensions, values):
    return Case(
        small_extents(choose, dimensions),
        values,
        choose.choice(("tight", "odd", "aligned", "large")),
        choose.choice(("tight", "odd", "aligned", "large")),
        choose.choice((0, 0, 1, 3, 4, 5, 7, -1)),
        choose.choice((0, 0, 1, 2, 3, 4, 7, -1)),
    )


# Extents of chosen cases by dimensions. Wide: strips that touch no edge, walks that meet neither the first row nor the
# last.
def wide_extents(choose, dimensions):
    columns = choose.choice((530, 640, 701, 776))
    if dimensions == 1:
        return 1, 1, 9 * columns
    return (1, choose.randint(36, 60), columns) if dimensions == 2 else (choose.randint(6, 14), 9, columns)


def medium_extents(choose, dimensions, columns):
    if dimensions == 1:
        return 1, 1, columns
    return (1, choose.randint(17, 48), columns) if dimensions == 2 else (choose.randint(5, 12), 13, columns)


LONG_EXTENTS = {
    1: ((1, 1, 37000), (1, 1, 16 * 1000), (1, 1, 30011)),
    2: ((1, 1000, 37), (1, 37, 1000), (1, 300, 300)),
    3: ((100, 9, 37), (9, 100, 37), (30, 30, 100)),
}
SANITIZER_EXTENTS = {
    1: ((1, 1, 5000), (1, 1, 129), (1, 1, 530), (1, 1, 776)),
    2: ((1, 40, 776), (1, 9, 129), (1, 5, 130), (1, 18, 136)),
    3: ((6, 9, 300), (3, 9, 129), (2, 5, 130), (5, 7, 136)),
}


def special_values(plan):
    """What else a storage must carry: f32 small differences and, like bf16, a wide range."""
    return {"f16": ("smooth",), "bf16": ("small", "large"), "f32": ("offset", "small", "large")}[plan.storage.name]


def make_cases(plan, seed, form, index):
    """The cases of one kernel: some chosen, the rest drawn. `index` spreads the larger ones over the kernels."""
    choose = random.Random(f"{seed}/{plan.name}/cases")
    dimensions = plan.dimensions
    tiny = tiny_extents(choose, dimensions)
    aligned = {"input_stride": "aligned", "output_stride": "aligned"}
    if form == "sanitizer":
        wide, odd, smooth, filling = SANITIZER_EXTENTS[dimensions]
        return [
            Case(wide, **aligned),
            Case(odd, "random", "odd", "odd", 1, 3),
            Case(smooth, "smooth", "aligned", "odd", 0, 5),
            Case(choose.choice(tiny), "random", "tight", "tight", -1, -1),
            Case(filling, "random", "aligned", "aligned", -1, -1),
        ]
    columns = choose.choice((127, 128, 129, 255, 256, 257))
    cases = [
        Case(wide_extents(choose, dimensions), "random", **aligned),
        Case(medium_extents(choose, dimensions, columns), "random", **aligned),
        Case(
            medium_extents(choose, dimensions, choose.randint(100, 300)),
            "random",
            "odd",
            "odd",
            choose.choice((1, 3, 5, 7)),
            1,
        ),
        Case(tiny[index % len(tiny)], "random", "tight", "tight", -1, -1),
        Case(tiny[(index // 2 + 3) % len(tiny)], "random", "large", "aligned", 0, 0),
        Case(small_extents(choose, dimensions), "smooth", "aligned", "odd", 0, choose.choice((0, 4, 5))),
        Case(
            small_extents(choose, dimensions), "constant", "odd", "aligned", choose.choice((0, 6)), choose.choice((0, 4))
        ),
        random_case(choose, dimensions, "random"),
        random_case(choose, dimensions, choose.choice(("random", *special_values(plan)))),
    ]
    if plan.storage.name == "f32":
        cases += [random_case(choose, dimensions, values) for values in special_values(plan)]
    if index % 12 == 0:
        cases.append(Case(LONG_EXTENTS[dimensions][0], "random", "odd", "aligned"))
    if index % 12 == 4:
        cases.append(Case(LONG_EXTENTS[dimensions][1], "smooth", **aligned))
    if index % 24 == 8:
        cases.append(Case(LONG_EXTENTS[dimensions][2], "random", **aligned))
    if form == "full":
        cases += [Case(extent, "random", "tight", "tight", 3, 1) for extent in tiny]
        cases += [Case(LONG_EXTENTS[dimensions][0], "random", "odd", "odd", 1, 1)]
        cases += [Case(LONG_EXTENTS[dimensions][2], "smooth", **aligned)]
        cases += [
            random_case(choose, dimensions, values) for values in ("random", "smooth", "constant") for _ in range(4)
        ]
    return cases


@dataclasses.dataclass
class Report:
    """What became of one kernel."""

    name: str
    kind: str = ""
    rules: str = ""
    failures: list = dataclasses.field(default_factory=list)
    sweeps: int = 0
    l2_sweeps: int = 0
    interface_checks: int = 0
    worst_ratio: float = 0.0
    worst_l2: float = 0.0
    remarks: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0


class Checker:
    """Checks kernels of one library one at a time; lives in a worker."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.library = Library(arguments.library)

    def check(self, name, index):
        started = time.monotonic()
        report = Report(name)
        try:
            plan = reference.load_plan(self.arguments.plans / f"{name}.json")
            report.kind, report.rules = plan.kind, plan.rules
            expected = reference.load_expected(self.arguments.plans, name)
            if expected:
                report.failures += reference.compare_with_expected(plan, expected)
            self.check_plan(plan, index, report)
        except (CallFailed, ValueError, OSError, AttributeError) as error:
            report.failures.append(str(error))
        report.seconds = time.monotonic() - started
        return report

    def check_plan(self, plan, index, report):
        kernel = self.library.kernel(plan.name)
        form = self.arguments.cases
        report.failures += interface_checks.check_info(self.library, kernel, plan)
        for number, case in enumerate(make_cases(plan, self.arguments.seed, form, index)):
            if self.arguments.case is not None and number != self.arguments.case:
                continue
            rng = make_rng(self.arguments.seed, plan.name, number)
            vary_emulation(self.arguments.seed, plan.name, number)
            where = f"case {number} ({case})"
            try:
                sweep = sweep_case.run_case(self.library, kernel, plan, case, rng, self.arguments.valid_only)
            except CallFailed as error:
                report.failures.append(f"{where}: {error}")
                continue
            verdict = sweep_case.check_sweep(sweep)
            report.failures += [f"{where}: {failure}" for failure in verdict.failures]
            report.sweeps += 1
            report.l2_sweeps += verdict.l2_counted
            report.worst_ratio = max(report.worst_ratio, verdict.worst_ratio)
            report.worst_l2 = max(report.worst_l2, verdict.relative_l2)
        if self.arguments.case is None and not self.arguments.valid_only:
            self.check_interface(kernel, plan, index, report)

    def check_interface(self, kernel, plan, index, report):
        """What goes beyond single sweeps, spread over the kernels: each check meets every kind of kernel."""
        quick = self.arguments.cases == "quick"
        thorough = self.arguments.cases == "full"
        named = not plan.name.startswith("random_")
        for check, (every, first) in INTERFACE_CHECKS.items():
            if thorough or (quick and (index + first) % every == 0) or (named and check in NAMED_CHECKS):
                rng = make_rng(self.arguments.seed, plan.name, check.__name__)
                try:
                    failures = check(self.library, kernel, plan, rng)
                except CallFailed as error:
                    failures = [] if error.status == UNSUPPORTED else [str(error)]
                report.failures += [f"{check.__name__}: {failure}" for failure in failures]
                report.interface_checks += 1
        if plan.name == "laplacian2d_r4" and plan.storage.name == "f16":
            rng = make_rng(self.arguments.seed, plan.name, "smooth")
            failures, remark = interface_checks.check_smooth_laplacian(self.library, kernel, plan, rng)
            report.failures += failures
            report.remarks.append(remark)


# Each check is for every so manieth kernel, counted from its own first one.
INTERFACE_CHECKS = {
    interface_checks.check_iteration: (4, 0),
    interface_checks.check_ignored_stride: (4, 1),
    interface_checks.check_misuse: (10, 3),
    box_checks.check_boxes: (2, 1),
    memory_checks.check_far_strides: (5, 2),
    memory_checks.check_side_by_side: (5, 4),
    memory_checks.check_not_finite: (3, 2),
}
NAMED_CHECKS = (interface_checks.check_iteration, interface_checks.check_misuse)


def work(pipe, arguments):
    """A worker: answers each (name, index) with a report, until None."""
    checker = Checker(arguments)
    while (task := pipe.recv()) is not None:
        try:
            report = checker.check(*task)
        except Exception:  # an error of the harness belongs into the report of its kernel
            report = Report(task[0], failures=["the harness failed:\n" + traceback.format_exc()])
        pipe.send(report)


class Worker:
    """A process with its pipe and its present task."""

    def __init__(self, arguments):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=work, args=(theirs, arguments), daemon=True)
        self.process.start()
        theirs.close()
        self.task = None
        self.since = 0.0

    def give(self, task):
        self.task, self.since = task, time.monotonic()
        self.pipe.send(task)

    def take(self):
        """The finished report; a worker that died or hangs gives one that says so. (report, still usable)"""
        try:
            if self.pipe.poll():
                return self.pipe.recv(), True
        except (EOFError, OSError):
            self.process.join()
            return Report(self.task[0], failures=[f"the process died, exit code {self.process.exitcode}"]), False
        if time.monotonic() - self.since > SECONDS_PER_KERNEL:
            self.process.kill()
            return Report(self.task[0], failures=[f"no answer in {SECONDS_PER_KERNEL} s"]), False
        return None, True


def check_in_processes(arguments, tasks):
    """Yields the reports of all tasks. A crash costs its kernel only."""
    tasks = list(reversed(tasks))
    workers = []
    while tasks or workers:
        while tasks and len(workers) < arguments.jobs:
            workers.append(Worker(arguments))
            workers[-1].give(tasks.pop())
        multiprocessing.connection.wait([worker.pipe for worker in workers], timeout=5)
        for worker in list(workers):
            report, usable = worker.take()
            if report is None:
                continue
            yield report
            if not usable:
                workers.remove(worker)
            elif tasks:
                worker.give(tasks.pop())
            else:
                worker.pipe.send(None)
                worker.process.join()
                workers.remove(worker)


def check_here(arguments, tasks):
    """The same in this process, for tools that watch one."""
    checker = Checker(arguments)
    for task in tasks:
        yield checker.check(*task)


def representative(plans, most):
    """At most `most` kernels, small ones first, that together have each property of any kernel."""

    def properties(plan):
        faces = [face.rule for face in plan.own_faces]
        found = {f"{plan.kind} {rule}" for rule in faces}
        found |= {f"{plan.dimensions}D face {place} {rule}" for place, rule in enumerate(faces)}
        found |= {f"{plan.dimensions}D all {faces[0]}"} if len(set(faces)) == 1 else {"mixed"}
        found |= {f"{plan.kind} {option}" for option in plan.options}
        low, high = plan.reach[2]
        found |= {f"{plan.kind} reach x > 15"} if max(low, high) > 15 else set()
        found |= {"reach y 7"} if max(plan.reach[1]) == 7 else set()
        found |= {"one tap"} if len(plan.taps) == 1 else set()
        found |= {"lopsided"} if low != high else set()
        found |= {f"{plan.kind} {plan.terms} terms"}
        found |= {f"{plan.kind} at least {least} MMAs" for least in (4, 16, 64) if plan.chained_mmas >= least}
        return found

    chosen, covered = [], set()
    for plan in sorted(plans, key=lambda plan: (plan.chained_mmas, len(plan.taps), plan.name)):
        if len(chosen) < most and properties(plan) - covered:
            chosen.append(plan.name)
            covered |= properties(plan)
    return chosen


def self_test(arguments, names):
    """Breaks correct results and true plans on purpose; every break must be reported. Returns failures."""
    library = Library(arguments.library)
    failures = []
    tried = 0

    def must_fail(what, found):
        nonlocal tried
        tried += 1
        if not found:
            failures.append(f"self-test: {what} went unnoticed")

    for name in names:
        plan = reference.load_plan(arguments.plans / f"{name}.json")
        case = Case({1: (1, 1, 377), 2: (1, 13, 77), 3: (4, 6, 77)}[plan.dimensions], "random", "odd", "odd", 1, 3)
        rng = make_rng(arguments.seed, name, "self-test")
        sweep = sweep_case.run_case(library, library.kernel(name), plan, case, rng)
        if found := sweep_case.check_sweep(sweep).failures:
            failures += [f"self-test: {name} is wrong before it is broken: {failure}" for failure in found]
            continue

        def changed(which, position, value, sweep=sweep):
            cells = getattr(sweep, which).copy()
            cells[position] = value
            return sweep_case.check_sweep(dataclasses.replace(sweep, **{which: cells})).failures

        layout, inner = sweep.output_layout, sweep.output_layout.interior()
        storage, last = plan.storage, tuple(count - 1 for count in case.extent)
        middle = inner[last[0] // 2, last[1] // 2, last[2] // 2]
        value = sweep.output_after[middle]
        largest = inner.ravel()[numpy.argmax(numpy.abs(storage.decode(sweep.output_after[inner])))]
        bits = sweep.output_after[largest]
        coarse = bits ^ (1 << 12 if storage.name == "f32" else 4)
        must_fail(f"{name}: a cell never written", changed("output_after", inner[last], storage.poison))
        must_fail(f"{name}: a NaN result", changed("output_after", inner[0, 0, 0], storage.quiet_nan))
        must_fail(f"{name}: a wrong sign", changed("output_after", largest, bits ^ storage.sign_bit))
        must_fail(f"{name}: a result some steps off", changed("output_after", largest, coarse))
        must_fail(f"{name}: a write behind the field", changed("output_after", inner[last] + 1, value))
        must_fail(f"{name}: a write before the field", changed("output_after", inner[0, 0, 0] - 1, value))
        must_fail(f"{name}: one byte far away", changed("output_after", layout.cells - 1, storage.poison ^ 0x100))
        must_fail(f"{name}: a written input", changed("input_after", 0, sweep.input_before[0] ^ 1))
        for what, wrong in wrong_plans(plan):
            must_fail(f"{name}: {what}", sweep_case.check_sweep(dataclasses.replace(sweep, plan=wrong), False).failures)
    print(f"self-test: {tried} breaks of {len(names)} kernels, {tried - len(failures)} of them noticed")
    return failures


def wrong_plans(plan):
    """(what is wrong, plan): stencils that a broken generator could have built instead."""
    taps = list(plan.taps)
    heaviest = max(range(len(taps)), key=lambda index: abs(taps[index].packed))
    heavy = taps[heaviest]

    def with_taps(changed):
        return dataclasses.replace(plan, taps=tuple(changed))

    rest = taps[:heaviest] + taps[heaviest + 1 :]
    yield "a weight 2 % off", with_taps([*rest, dataclasses.replace(heavy, packed=heavy.packed * 1.02)])
    # Of a single tap its opposite stays, so that there is a reach.
    yield "a lost tap", with_taps(rest or [dataclasses.replace(heavy, packed=-heavy.packed)])
    offsets = {tap.at for tap in taps}
    mirrored = [dataclasses.replace(tap, at=(*tap.at[:2], -tap.at[2])) for tap in taps]
    if set(mirrored) != set(taps) and {tap.at for tap in mirrored} == offsets:
        yield "taps mirrored in x", with_taps(mirrored)
    # Another rule needs other cells; those of all faces but halo ones are in the interior.
    for axis in range(3 - plan.dimensions, 3):
        for side in range(2):
            face = plan.faces[axis][side]
            if reference.HALO in (face.rule, plan.faces[axis][1 - side].rule) or not plan.reach[axis][side]:
                continue
            if face.rule == reference.CONSTANT:
                other = dataclasses.replace(face, value=face.value + 1)
            else:
                other = reference.Face(reference.CONSTANT, 3.0)
            faces = [list(pair) for pair in plan.faces]
            faces[axis][side] = other
            # A face is not seen where its cells lie beyond a constant face of a faster axis, too; and among many taps a
            # boundary weighs too little to be sure to show.
            reached = any(
                tap.at[axis] * (1, -1)[side] < 0 and abs(tap.packed) > 0.05 * abs(heavy.packed) for tap in taps
            )
            if reached and len(taps) < 30:
                yield f"{reference.AXES[axis]} {reference.SIDES[side]} as {other}", dataclasses.replace(
                    plan, faces=tuple(tuple(pair) for pair in faces)
                )


def print_summary(reports, arguments, seconds):
    """The closing lines; returns whether all is well."""
    failed = sorted((report for report in reports if report.failures), key=lambda report: report.name)
    for report in sorted(reports, key=lambda report: report.name):
        for remark in report.remarks:
            print(remark)
    print(f"{'kernels':<34} {'number':>7} {'sweeps':>7} {'worst error/bound':>18} {'worst relative L2':>18}")
    groups = [(lambda report: report.kind, "")]
    groups += [(lambda report, rule=rule: rule in report.rules.split("+"), f"with {rule}") for rule in reference.RULES]
    for key, title in groups:
        for group in sorted({key(report) for report in reports} - {False}, key=str):
            same = [report for report in reports if key(report) == group]
            print(
                f"{title or group or '?':<34} {len(same):>7} {sum(report.sweeps for report in same):>7} "
                f"{max(report.worst_ratio for report in same):>18.3f} {max(report.worst_l2 for report in same):>18.2e}"
            )
    sweeps = sum(report.sweeps for report in reports)
    print(
        f"{len(reports)} kernels, {sweeps} sweeps ({sum(r.l2_sweeps for r in reports)} also by relative L2), "
        f"{sum(r.interface_checks for r in reports)} checks of boxes, memory, iteration and misuse, "
        f"seed {arguments.seed}, {seconds:.0f} s: "
        + (f"{len(failed)} kernels FAILED" if failed else "all within bounds, nothing else written")
    )
    for report in failed:
        print(f"FAILED {report.name}:")
        for failure in report.failures[:8]:
            print(f"  {failure}")
        if len(report.failures) > 8:
            print(f"  and {len(report.failures) - 8} more")
    if failed:
        again = f"--kernels {failed[0].name} --cases {arguments.cases} --seed {arguments.seed} [--case NUMBER]"
        print(f"One of them again: check_kernels.py --library {arguments.library} --plans {arguments.plans} {again}")
    return not failed


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--library", required=True, type=pathlib.Path, help="shared library of kernels and runtime")
    parser.add_argument("--plans", required=True, type=pathlib.Path, help="folder of <kernel>.json explanations")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--kernels", nargs="+", metavar="NAME", help="default: all that have a plan")
    parser.add_argument("--representative", type=int, metavar="N", help="only N kernels that have all properties")
    parser.add_argument("--cases", choices=("quick", "full", "sanitizer"), default="quick")
    parser.add_argument("--case", type=int, metavar="NUMBER", help="only this case of each kernel")
    parser.add_argument("--valid-only", action="store_true", help="leave what a kernel must not read uninitialised")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; 0: in this process")
    parser.add_argument("--self-test", action="store_true", help="prove that the checks can fail, and nothing else")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    names = sorted(path.stem for path in arguments.plans.glob("*.json") if not path.stem.endswith(".expected"))
    if not names:
        sys.exit(f"{arguments.plans}: no explanations (<kernel>.json) here")
    if arguments.kernels:
        if unknown := set(arguments.kernels) - set(names):
            sys.exit(f"{arguments.plans}: no explanation of {', '.join(sorted(unknown))}")
        names_chosen = arguments.kernels
    else:
        names_chosen = names
    if arguments.representative or arguments.self_test:
        plans = [reference.load_plan(arguments.plans / f"{name}.json") for name in names_chosen]
        names_chosen = representative(plans, arguments.representative or 12)
    if arguments.self_test:
        failures = self_test(arguments, names_chosen)
        print("\n".join(failures))
        return 1 if failures else 0
    tasks = [(name, names.index(name)) for name in names_chosen]
    print(f"{len(tasks)} kernels of {arguments.library}, cases: {arguments.cases}, seed {arguments.seed}", flush=True)
    started = last_said = time.monotonic()
    reports = []
    # Each worker opens the library itself: a CUDA context does not survive a fork.
    for report in check_in_processes(arguments, tasks) if arguments.jobs else check_here(arguments, tasks):
        reports.append(report)
        now = time.monotonic()
        if report.failures or now - last_said > 10 or len(reports) == len(tasks):
            last_said = now
            state = "FAILED" if report.failures else "ok"
            print(f"[{len(reports)}/{len(tasks)}] {report.name} {state}, {now - started:.0f} s", flush=True)
    return 0 if print_summary(reports, arguments, time.monotonic() - started) else 1


if __name__ == "__main__":
    sys.exit(main())
