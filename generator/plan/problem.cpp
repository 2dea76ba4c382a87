#include "plan/problem.h"

#include <algorithm>
#include <tuple>

namespace spidergen::plan {

std::vector<TapRow> tap_rows_of(const Operator& op) {
  std::vector<TapRow> rows;
  for (const spec::Tap& tap : op.composed) {
    const auto [dz, dy, dx] = tap.at;
    if (rows.empty() || rows.back().dz != dz || rows.back().dy != dy) rows.push_back({dz, dy, dx, dx});
    rows.back().high = dx;
  }
  return rows;
}

int further_bytes(const spec::StencilSpec& spec) {
  int bytes = spec.previous ? spec::element_bytes(spec.previous->storage) : 0;
  for (const spec::FurtherField& field : spec.fields) bytes += spec::element_bytes(field.storage);
  return bytes;
}

int update_registers(const spec::StencilSpec& spec) {
  if (!spec.update) return 0;
  constexpr int base_registers = 16;
  constexpr int registers_per_field = 4;  // its address and the values in flight
  return base_registers +
         registers_per_field * (static_cast<int>(spec.fields.size()) + (spec.previous ? 1 : 0));
}

int blocks_beside_update(const spec::StencilSpec& spec, int blocks, int threads) {
  const int own = registers_per_multiprocessor / (blocks * threads);
  const int taken = own + update_registers(spec);
  return std::max(1, spec.update ? registers_per_multiprocessor / (threads * taken) : blocks);
}

bool hides_behind_memory(int products, const InputTerms& inputs) {
  constexpr int most_products = 8;
  constexpr int most_scaled_products = 21;  // of f32 fields, which have twice the bytes
  return products <= (inputs.scaled ? most_scaled_products : most_products);
}

int fragments_of(const Contraction& contraction) {
  return static_cast<int>(contraction.sources.size());
}

int strip_vectors(const Contraction& contraction, int tiles) {
  const TileMapping& mapping = contraction.mapping;
  const int columns = tiles * tile_outputs + mapping.input_span() - mapping.outputs_per_column +
                      contraction.shifts.back() - contraction.shifts.front();
  return columns * contraction.element_bytes / vector_bytes;
}

int vectors_across(const Contraction& contraction, int tiles) {
  const TileMapping& mapping = contraction.mapping;
  const int last_input = contraction.shifts.back() + mapping.first_input() + mapping.input_span() - 1;
  const int last_column = tiles * tile_outputs - mapping.outputs_per_column + last_input;
  return divide_up((last_column + 1 - contraction.first_column()) * contraction.element_bytes, vector_bytes);
}

int number_words(const Contraction& contraction) {
  return divide_up(contraction.element_bytes, word_bytes);
}

double core_work(const Contraction& contraction) {
  return static_cast<double>(contraction.taps.size()) * number_words(contraction);
}

double core_tile_us(const Contraction& contraction) {
  constexpr double f32_us = 215;
  constexpr double us_per_tap_of_doubles = 12;
  const double memory_us = f32_us * contraction.element_bytes / word_bytes;
  if (contraction.element_bytes <= word_bytes) return memory_us;
  return std::max(memory_us, us_per_tap_of_doubles * static_cast<double>(contraction.taps.size()));
}

Contraction contract_taps(const Problem& problem) {
  const CoreAxes axes = core_axes(problem.spec.dimensions);
  Contraction contraction;
  contraction.grouping = Grouping::multiply_adds;
  contraction.element_bytes = spec::element_bytes(problem.spec.storage);
  contraction.column_reach = column_reach_of(problem.tap_rows);
  for (const RoundedTap& tap : problem.weights.taps) {
    contraction.taps.push_back(
        {tap.at[axes.step], tap.at[axes.row], tap.at[spec::axis_x], tap.packed, tap.sum});
  }
  std::sort(contraction.taps.begin(), contraction.taps.end(), [](const CoreTap& a, const CoreTap& b) {
    return std::tuple(a.row, a.step, a.column, a.sum) < std::tuple(b.row, b.step, b.column, b.sum);
  });
  return contraction;
}

}  // namespace spidergen::plan
