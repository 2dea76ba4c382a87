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

import box_checks  # noqa: E402
import interface_checks  # noqa: E402
import memory_checks  # noqa: E402
import part_checks  # noqa: E402
import reference  # noqa: E402
import self_test  # noqa: E402
import sweep_case  # noqa: E402
from case_lists import DEFAULT_SEED, make_cases, make_rng  # noqa: E402
from spider_library import CallFailed, Library  # noqa: E402

SECONDS_PER_KERNEL = 600


def vary_emulation(seed, name, number, multiprocessors):
    """Another order of lanes, another size of device and other tensor cores for each case: the emulator reads all three
    at each launch, and the size decides how many rows a warp walks. A device ignores them."""
    choose = random.Random(f"{seed}/{name}/{number}/emulation")
    os.environ["SPIDER_EMULATOR_SEED"] = str(choose.randrange(1, 2**31))
    os.environ["SPIDER_EMULATOR_MULTIPROCESSORS"] = str(multiprocessors or choose.choice((1, 1, 2, 3, 8, 132)))
    os.environ["SPIDER_EMULATOR_PRODUCTS_AT_ONCE"] = str(choose.choice((4, 8, 16)))


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
        forms = self.library.forms(kernel)
        report.failures += interface_checks.check_info(self.library, kernel, plan)
        for number, case in enumerate(make_cases(plan, self.arguments.seed, form, index, self.arguments.large)):
            if self.arguments.case is not None and number != self.arguments.case:
                continue
            rng = make_rng(self.arguments.seed, plan.name, number)
            vary_emulation(self.arguments.seed, plan.name, number, case.multiprocessors)
            where = f"case {number} ({case})"
            try:
                one = forms[(case.form or index + number) % len(forms)]
                sweep = sweep_case.run_case(self.library, one, plan, case, rng, self.arguments.valid_only)
            except CallFailed as error:
                report.failures.append(f"{where}: {error}")
                continue
            verdict = sweep_case.check_sweep(sweep, not self.arguments.without_oracle)
            report.failures += [f"{where}: {failure}" for failure in verdict.failures]
            report.sweeps += 1
            report.l2_sweeps += verdict.l2_counted
            report.worst_ratio = max(report.worst_ratio, verdict.worst_ratio)
            report.worst_l2 = max(report.worst_l2, verdict.relative_l2)
        if self.arguments.case is None and not self.arguments.valid_only:
            self.check_interface(kernel, plan, index, report)

    def check_interface(self, kernel, plan, index, report):
        """What goes beyond single sweeps, spread over the kernels: each check meets every kind of kernel."""
        form = self.arguments.cases
        shipped = not plan.name.startswith("random_")
        checks = INTERFACE_CHECKS if form != "sanitizer" else SANITIZER_CHECKS
        for check, (every, first) in checks.items():
            if form == "full" or (index + first) % every == 0 or (shipped and check in SHIPPED_CHECKS):
                rng = make_rng(self.arguments.seed, plan.name, check.__name__)
                try:
                    failures = check(self.library, kernel, plan, rng)
                except CallFailed as error:
                    failures = [str(error)]
                except memory_checks.NotPossible as reason:
                    report.remarks.append(f"SKIPPED {check.__name__} of {plan.name}: {reason}")
                    continue
                report.failures += [f"{check.__name__}: {failure}" for failure in failures]
                report.interface_checks += 1
        if plan.steps > 1 and plan.storage.name == "f32" and interface_checks.conserves(plan):
            rng = make_rng(self.arguments.seed, plan.name, "check_conservation")
            failures = interface_checks.check_conservation(self.library, kernel, plan, rng)
            report.failures += [f"check_conservation: {failure}" for failure in failures]
            report.interface_checks += 1
        told = []
        if plan.name == "laplacian2d_r4" and plan.storage.name == "f16":
            told.append(interface_checks.check_smooth_laplacian)
        if plan.name.startswith("heat2d_f32") and self.arguments.large:
            told.append(interface_checks.check_diffusion)
        for check in told:
            failures, remark = check(self.library, kernel, plan, make_rng(self.arguments.seed, plan.name, check.__name__))
            report.failures += failures
            report.remarks.append(remark)


# Each check is for one kernel in so many, counted from its own first one; shipped kernels have some of them all.
INTERFACE_CHECKS = {
    interface_checks.check_iteration: (4, 0),
    interface_checks.check_ignored_stride: (4, 1),
    interface_checks.check_misuse: (10, 3),
    interface_checks.check_forms: (2, 0),
    box_checks.check_boxes: (3, 1),
    part_checks.check_parts: (3, 0),
    memory_checks.check_far_strides: (5, 2),
    memory_checks.check_long_line: (3, 0),
    memory_checks.check_long_axis: (5, 1),
    memory_checks.check_side_by_side: (5, 4),
    memory_checks.check_not_finite: (3, 2),
}
SHIPPED_CHECKS = (interface_checks.check_iteration, interface_checks.check_misuse)
SANITIZER_CHECKS = {interface_checks.check_iteration: (4, 0), box_checks.check_boxes: (1, 0)}


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
        found = {f"{plan.kind} {rule}" for rule in faces} | {f"{plan.template} {plan.kind} {plan.engine}"}
        found |= {f"{plan.template} axis {place // 2} {rule}" for place, rule in enumerate(faces)}
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

    left = {plan.name: (properties(plan), (plan.chained_mmas, len(plan.taps), plan.name)) for plan in plans}
    chosen, covered = [], set()
    while left and len(chosen) < most:
        name = min(left, key=lambda name: (-len(left[name][0] - covered), left[name][1]))
        found, _ = left.pop(name)
        if not found - covered:
            break
        chosen.append(name)
        covered |= found
    return chosen


def third_of(day, folder, names):
    """All that are no random kernels, those that together have each property of any kernel, and every third one of the rest, by
    the day."""
    always = set(representative([reference.load_plan(folder / f"{name}.json") for name in names], len(names)))
    rest = [name for name in names if name.startswith("random_") and name not in always]
    left_out = set(rest) - set(rest[day % 3 :: 3])
    print(f"day {day}: without {len(left_out)} of the random kernels, which other days check")
    return [name for name in names if name not in left_out]


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
    for report in failed[:12]:
        print(f"FAILED {report.name}:")
        for failure in report.failures[:8]:
            print(f"  {failure}")
        if len(report.failures) > 8:
            print(f"  and {len(report.failures) - 8} more")
    if len(failed) > 12:
        print(f"and {len(failed) - 12} more kernels: {' '.join(report.name for report in failed[12:])}")
    if failed:
        again = f"--kernels {failed[0].name} --cases {arguments.cases} --large {arguments.large} --seed {arguments.seed}"
        again += " [--case NUMBER]"
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
    parser.add_argument("--third-of", type=int, metavar="DAY", help="of random kernels without a property of their own every third "
                        "one, others each day; 0: today, by days since 1970")
    parser.add_argument("--share", metavar="I/N", help="of these kernels every N-th from the I-th, counted from 1")
    parser.add_argument("--cases", choices=("quick", "full", "sanitizer"), default="quick")
    parser.add_argument("--large", type=int, default=0, metavar="N", help="one in N kernels on a field that fills a device")
    parser.add_argument("--case", type=int, metavar="NUMBER", help="only this case of each kernel")
    parser.add_argument("--valid-only", action="store_true", help="leave what a kernel must not read uninitialised")
    parser.add_argument("--without-oracle", action="store_true", help="do not compare the reference with SciPy")
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
        names_chosen = representative(plans, arguments.representative or 7)
    if arguments.self_test:
        failures = self_test.run(Library(arguments.library), arguments.plans, names_chosen, arguments.seed)
        print("\n".join(failures))
        return 1 if failures else 0
    if arguments.third_of is not None:
        names_chosen = third_of(arguments.third_of or int(time.time()) // 86400, arguments.plans, names_chosen)
    if arguments.share:
        number, shares = map(int, arguments.share.split("/"))
        names_chosen = names_chosen[number - 1 :: shares]
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
