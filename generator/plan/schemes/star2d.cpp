#include "plan/schemes/star2d.h"

#include "plan/bands.h"

namespace spidergen::plan {
namespace {

constexpr int unit_rows = 16;
constexpr int vector_elements = 8;

// Registers of a lane besides the operands along y, with one band along x and one sum; measured with nvcc 13
// for sm_90. Further bands take the words of their matrices and the waiting sums of a unit.
constexpr int base_registers = 104;
constexpr int band_registers = 2 * band_combs * band_chunks;
constexpr int sum_registers = 4;

// Shift between rows of shared memory, so that rows that lanes load together are in different banks.
constexpr int bank_shift = 32;

TileForm form(int rows, int columns, int blocks, int min_blocks_per_sm) {
  TileForm tile;
  tile.rows = rows;
  tile.columns = columns;
  tile.across = TileForm::warps_per_block;
  tile.blocks_per_multiprocessor = blocks;
  tile.min_blocks_per_sm = min_blocks_per_sm;
  return tile;
}

int shared_bytes_of(const Contraction& contraction, const TileForm& form) {
  const int vectors = form.across * form.columns / vector_elements + 2;
  const int row_bytes = round_up((vectors + 1) * vector_bytes, line_bytes) + bank_shift;
  constexpr int stage_bytes = unit_rows / 2 * band_unit_columns * 2;
  return 2 * line_bytes + (form.rows + contraction.rows_spanned() - 1) * row_bytes +
         (form.rows / unit_rows + 1) * bank_shift + form.across * stage_bytes;
}

}  // namespace

bool Star2d::takes(const Problem& problem, const Contraction& contraction) {
  return contraction.is_bands() && problem.spec.dimensions == 2;
}

Offer<Star2d> Star2d::plan(const Problem& problem, const Contraction& contraction) {
  Star2d bands;
  // Measured on an H200 (tests/benchmarks/performance_log.md).
  bands.forms = {form(4 * unit_rows, 64, 4, 24), form(3 * unit_rows, 64, 5, 5), form(unit_rows, 128, 4, 3),
                 form(2 * unit_rows, 32, 5, 2), form(unit_rows, 32, 4, 0)};
  const int further_registers =
      band_registers * (row_bands_of(contraction) - 1) + sum_registers * (contraction.sums() - 1);
  bands.estimated_registers =
      base_registers + registers_per_operand * column_operands_of(contraction) + further_registers;
  if (bands.estimated_registers + update_registers(problem.spec) > largest_register_count)
    return Offer<Star2d>::none("registers have no room for so many sums");
  if (further_registers == 0) make_room_for_update(problem.spec, bands.forms);
  for (TileForm& form : bands.forms) {
    if (further_registers == 0) break;
    const int registers = bands.estimated_registers + update_registers(problem.spec);
    form.blocks_per_multiprocessor =
        std::min(form.blocks_per_multiprocessor,
                 registers_per_multiprocessor / (form.across * threads_per_warp * registers));
  }
  bands.shared_bytes = shared_bytes_of(contraction, bands.forms.front());
  // Stars of 9 tap rows took 108.6 us, of 15 110.0. Gradients with two bands along x took 124.7 and 120.7.
  constexpr double us_per_row_band = 9;
  const auto rows = std::count_if(problem.weights.taps.begin(), problem.weights.taps.end(),
                                  [](const RoundedTap& tap) { return tap.at[spec::axis_x] == 0; });
  return {std::move(bands),
          104.5 + 0.37 * static_cast<double>(rows) + us_per_row_band * (row_bands_of(contraction) - 1), ""};
}

}  // namespace spidergen::plan
