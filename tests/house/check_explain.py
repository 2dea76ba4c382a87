#!/usr/bin/env python3
"""What `--explain --explain-format json` tells of kernels agrees with itself: check_explain.py SPIDER-GEN SPEC...

The matrices are recovered from the registers and the taps from the matrices, by the layouts of the PTX ISA (9.7.14.6); the
floors follow from the rates. Standard library only.
"""

import collections
import json
import math
import struct
import subprocess
import sys

ARCHITECTURES = "sm_80,sm_86,sm_87,sm_89,sm_90,sm_90a,sm_100,sm_120"


def number(bits: int, kind: str) -> float:
    """The value of f16 or bf16 bits; the latter are the upper half of an f32."""
    if kind == "bf16":
        return struct.unpack("<f", struct.pack("<I", (bits & 0xFFFF) << 16))[0]
    return struct.unpack("<e", struct.pack("<H", bits & 0xFFFF))[0]


def unpack(registers: list[list[int]], metadata: list[int], selector: int, kind: str) -> list[list[float]]:
    """The 16 x 32 matrix of an operand, from the registers of the lanes alone."""
    matrix = [[0.0] * 32 for _ in range(16)]
    for row in range(16):
        for kept in range(16):
            word = registers[4 * (row % 8) + kept % 8 // 2][row // 8 + 2 * (kept // 8)]
            group = kept // 2
            lane = 4 * (row % 8) + 2 * selector + group // 4
            nibble = metadata[lane] >> (16 * (row // 8) + 4 * (group % 4)) & 0xF
            position = nibble & 3 if kept % 2 == 0 else nibble >> 2
            matrix[row][4 * group + position] = number(word >> 16 * (kept % 2), kind)
    return matrix


def unpack_comb(registers: list[list[int]], kind: str) -> list[list[float]]:
    """The 8 x 16 matrix that is B of mma.sync.m16n8k16 (9.7.14.5.8), from registers 0 and 2."""
    return [
        [number(registers[4 * n + k % 8 // 2][2 * (k // 8)] >> 16 * (k % 2), kind) for k in range(16)] for n in range(8)
    ]


def unpack_whole(registers: list[list[int]], kind: str) -> list[list[float]]:
    """The 16 x 16 matrix that is A of mma.sync.m16n8k16 (9.7.14.5.8)."""
    return [
        [
            number(registers[4 * (m % 8) + k % 8 // 2][m // 8 + 2 * (k // 8)] >> 16 * (k % 2), kind)
            for k in range(16)
        ]
        for m in range(16)
    ]


def check_lists(plan: dict) -> None:
    """Two passes: the registers are the matrices, and there are as many products as operands."""
    (one_pass,) = plan["passes"]
    kind = plan["storage"]
    for number_of, operand in enumerate(one_pass["operands"]):
        unpack_registers = unpack_comb if len(operand["matrix"]) == 8 else unpack_whole
        if unpack_registers(operand["registers"], kind) != operand["matrix"]:
            raise ValueError(f"registers of operand {number_of} are of another")
    if not plan["mmas_per_128_outputs"] == plan["chained_mmas"] == len(one_pass["operands"]):
        raise ValueError(f"there are {len(one_pass['operands'])} products")


def row_of_output(source: dict, output: int) -> int | None:
    """The row of a source's matrices that is the output; of bands, output n of a row of 32, which is row n mod 16 of 16."""
    if len(source["row_output"]) == 16:
        return output % 16
    columns = [x for _, _, x in source["row_output"]]
    return columns.index(output) if output in columns else None


def taps_of_output(one_pass: dict, output: int, weights: dict) -> dict:
    """What the products with the inputs' leading terms add up for an output, which is a row of the matrices: weight by
    (sum, dz, dy, dx)."""
    taps: dict = collections.defaultdict(float)
    for product in one_pass["products"]:
        if product["input_term"] != 0:
            continue
        unit = 2.0 ** (-product["term"] * weights["remainder_exponent"])
        matrix = one_pass["operands"][product["operand"]]["matrix"]
        source = one_pass["sources"][product["source"]]
        row = row_of_output(source, output)
        if row is None:
            continue
        for column, weight in enumerate(matrix[row]):
            if weight:
                dz, dy, dx = (a - b for a, b in zip(source["column_input"][column], source["row_output"][row]))
                dx += source["shift"]
                taps[product.get("sum", 0), product["dz"] + dz, product["dy"] + dy, dx] += weight * unit
                if not product["low"] <= dx <= product["high"]:
                    raise ValueError(f"dx {dx} is outside of product {product}")
    return dict(taps)


def check_prediction(plan: dict) -> None:
    points = math.prod(plan["prediction"]["extent"])
    for told in plan["prediction"]["architectures"]:
        if told["rates"] is None:
            continue
        memory = points * plan["bytes_per_point"] / told["copy_bytes_per_second"] * 1e6
        quarters = 4 * told["multiprocessors"]
        mma_ns = told["dense_mma_ns" if plan["engine"] == "dense" else "sparse_mma_ns"]
        tensor = points / 128 * plan["mmas_per_128_outputs"] * mma_ns / quarters / 1e3
        products = plan["cores"]["multiply_adds"] if plan["engine"] == "cuda" else 0
        cores = points * products * plan["steps"] / told["core_products_per_second"] * 1e6
        floor = max(memory, tensor, cores)
        wanted = {"memory_us": memory, "tensor_us": tensor, "cores_us": cores, "floor_us": floor}
        for key, value in wanted.items():
            if abs(told[key] - value) > 1e-3:
                raise ValueError(f"{told['architecture']}: {key} is {told[key]}, not {value:.3f}")
        if told["bound"] != ("memory" if memory == floor else "tensor" if tensor == floor else "cores"):
            raise ValueError(f"{told['architecture']}: {told['bound']} does not bind")
    names = [told["architecture"] for told in plan["prediction"]["architectures"]]
    if names != ARCHITECTURES.split(","):
        raise ValueError(f"predicted for {names}")


def check_composed(plan: dict, found: dict) -> None:
    """What an output has of all steps is, but for the deviation that is told, what the steps make one after the other."""
    exact = {(0, 0, 0): 1.0}
    for _ in range(plan["steps"]):
        before, exact = exact, {}
        for at, weight in before.items():
            for tap in plan["taps"]:
                place = tuple(map(sum, zip(at, tap["at"])))
                exact[place] = exact.get(place, 0.0) + weight * tap["weight"]
    magnitude = sum(map(abs, exact.values()))
    deviation = sum(abs(found.get(at, 0.0) - weight) for at, weight in exact.items()) / magnitude
    if not found.keys() <= exact.keys() or not math.isclose(deviation, plan["composition"]["deviation"], abs_tol=2.0**-45):
        raise ValueError(f"composed weights lie {deviation} from the exact ones, not {plan['composition']['deviation']}")
    if abs(sum(found.values()) - sum(exact.values())) > 2.0**-24 * magnitude:
        raise ValueError(f"composed weights sum to {sum(found.values())}, not {sum(exact.values())}")


def check_system(plan: dict) -> None:
    """Of a system of equations: the sweeps take all stages in turn, and read rows of fields that there are."""
    stage = 0
    for sweep in plan["sweeps"]:
        if sweep["first_stage"] != stage or sweep["stages"] < 1:
            raise ValueError(f"a sweep begins with stage {sweep['first_stage']}, not {stage}")
        stage += sweep["stages"]
        places = [row[:3] for row in sweep["rows"]]
        if places != sorted(places) or any(places.count(place) > 1 for place in places):
            raise ValueError(f"rows are not ascending: {sweep['rows']}")
        for field, dz, dy, low, high in sweep["rows"]:
            across = dict(zip("zyx", ((dz, dz), (dy, dy), (low, high))))
            axes = plan["fields"][field]["axes"]
            if low > high or any(reach != (0, 0) for axis, reach in across.items() if axis not in axes):
                raise ValueError(f"a row of field {field}, which has the axes {axes}, is at {across}")
    if sum(sweep["bytes"] for sweep in plan["sweeps"]) > plan["bytes_apart"]:
        raise ValueError(f"sweeps move more than the {plan['bytes_apart']} bytes of a sweep a stage")


def check(plan: dict) -> None:
    if "system" in plan:
        check_system(plan)
        return
    check_prediction(plan)
    if plan["template"] == "lowrank2d":
        check_lists(plan)
        return
    weights = plan["composition"] or plan["weights"]
    unit = weights["factor"] * 2.0 ** -weights["exponent"]
    bands = plan["template"] == "star2d"
    nonzeros = slots = products = 0.0
    of_sums: collections.Counter = collections.Counter()
    for one_pass in plan["passes"]:
        for operand in one_pass["operands"]:
            metadata = one_pass["metadata"][operand["metadata"]]
            kind = weights["type"]
            is_comb = len(operand["matrix"]) == 8
            found = (
                unpack_comb(operand["registers"], kind)
                if is_comb
                else unpack(operand["registers"], metadata, operand["selector"], kind)
            )
            if found != operand["matrix"]:
                raise ValueError(f"registers of the operand dy {operand['dy']}, shift {operand['shift']} are of another")
        expected = {(tap.get("sum", 0), *tap["at"]): tap["packed"] for tap in plan["taps"]}
        if plan["adds_identity"]:
            expected[0, 0, 0, 0] -= 1
        for row in range(32 if bands else len(one_pass["mapping"]["row_output"])):
            shares = taps_of_output(one_pass, row, weights)
            found = {at: unit * 2.0 ** -plan["sums"][at[0]].get("shift", 0) * share for at, share in shares.items()}
            if plan["composition"]:
                check_composed(plan, {at[1:]: weight for at, weight in found.items()})
                continue
            same = found.keys() == expected.keys() and all(math.isclose(found[at], expected[at]) for at in found)
            if not (same if plan["adds_identity"] else found == expected):
                raise ValueError(f"row {row} of the matrices computes {found}, not {expected}")
        for product in one_pass["products"]:
            matrix = one_pass["operands"][product["operand"]]["matrix"]
            share = 0.25 if len(matrix) == 8 else 1  # a comb has a quarter of the outputs
            products += share
            of_sums[product.get("sum", 0)] += share
            slots += share * (8 * 16 if len(matrix) == 8 else 16 * 16)
            nonzeros += share * sum(weight != 0 for row in matrix for weight in row)
    chained = max(of_sums.values(), default=0)
    if [plan["mmas_per_128_outputs"], plan["chained_mmas"]] != [products, chained]:
        raise ValueError(f"there are {products} products")
    if plan["sparsity"] != {"nonzeros": nonzeros, "slots": slots}:
        raise ValueError(f"sparsity: {nonzeros} of {slots}")


def main() -> int:
    program, specs = sys.argv[1], sys.argv[2:]
    failures = 0
    for spec in specs:
        command = [program, "--explain", "--explain-format", "json", "--arch", ARCHITECTURES, spec]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        try:
            check(json.loads(done.stdout))
        except (ValueError, KeyError) as error:
            print(f"{spec}: {error!r}")
            failures += 1
    return 1 if failures or not specs else 0


if __name__ == "__main__":
    sys.exit(main())
