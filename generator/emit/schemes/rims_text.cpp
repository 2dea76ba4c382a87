#include "emit/schemes/rims_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "emit/describe.h"
#include "emit/kernel_text.h"
#include "emit/schemes/stepping_text.h"
#include "emit/storage_text.h"

namespace spidergen::emit {
namespace {

/// A row of the table for each dy, with all dx.
std::string weights_text(const plan::RimTiles& tiles) {
  const int columns = tiles.column_high - tiles.column_low + 1;
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(tiles.row_high - tiles.row_low + 1),
                                        std::vector<double>(static_cast<std::size_t>(columns)));
  for (const plan::RoundedTap& tap : tiles.taps) {
    rows[static_cast<std::size_t>(tap.at[spec::axis_y] - tiles.row_low)]
        [static_cast<std::size_t>(tap.at[spec::axis_x] - tiles.column_low)] = tap.packed;
  }
  std::vector<std::string> texts;
  texts.reserve(rows.size());
  for (const std::vector<double>& row : rows)
    texts.push_back(fmt::format("{{{}}},", weight_row_text(spec::Storage::f32, row.data(), columns)));
  return fmt::format("{}", fmt::join(texts, "\n"));
}

/// "y low (32 cells), x high (32 cells)": the faces with rims.
std::string rim_faces_text(const plan::Rims& rims) {
  std::vector<std::string> faces;
  for (const int axis : {spec::axis_y, spec::axis_x}) {
    const auto& [low, high] = rims[static_cast<std::size_t>(axis - spec::axis_y)];
    if (low > 0) faces.push_back(fmt::format("{} low ({} cells)", spec::axis_letters[axis], low));
    if (high > 0) faces.push_back(fmt::format("{} high ({} cells)", spec::axis_letters[axis], high));
  }
  return fmt::format("{}", fmt::join(faces, ", "));
}

}  // namespace

std::string rims_namespace(const plan::RimTiles& tiles, const spec::StencilSpec& spec) {
  render::Bindings bindings;
  const auto set = [&](const std::string& name, int value) { bindings[name] = fmt::to_string(value); };
  bindings["cells_type"] = cells_struct(spec.storage);
  set("steps", tiles.steps);
  set("cells", tiles.cells);
  set("warps", tiles.warps);
  set("blocks_per_multiprocessor", tiles.blocks_per_multiprocessor);
  set("run", tiles.run);
  set("row_low", tiles.row_low);
  set("row_high", tiles.row_high);
  set("column_low", tiles.column_low);
  set("column_high", tiles.column_high);
  set("columns", tiles.column_high - tiles.column_low + 1);
  bindings["last"] = stepped_number_text(spec::Storage::f32, tiles.last);
  bindings["weights"] = weights_text(tiles);
  bindings["row_rules"] = stepped_rules_text(spec, spec::axis_y);
  bindings["column_rules"] = stepped_rules_text(spec, spec::axis_x);
  return "\n\n" + render_part("rims2d.cu.in", bindings);
}

std::string with_rims(std::string form, const plan::Rims& rims, const std::array<int, 2>& least) {
  for (const std::string_view stencil : {"<Stencil", "<WithBoundaryContribution"}) {
    if (rims == plan::Rims{}) break;  // rims of small fields are swept alone
    if (const std::size_t at = form.find(stencil); at != std::string::npos)
      form.replace(at, stencil.size(), fmt::format("<spider::ConcurrentWithRims<{}>", stencil.substr(1)));
  }
  const auto& [y, x] = rims;
  return fmt::format("spider::with_rims({}, {{{}, {}, {}, {}}}, {{{}, {}}})", form, y[0], y[1], x[0], x[1],
                     least[0], least[1]);
}

void describe_rims(const plan::RimTiles& tiles, const plan::Rims& rims, const std::array<int, 2>& least,
                   double microseconds, std::vector<std::string>& lines) {
  if (rims != plan::Rims{}) {
    add(lines, "Rims      cells near faces that act at every step are stepped: {}", rim_faces_text(rims));
    if (tiles.left_out > 0)
      add(lines, "          what comes from farther away, {:.1e} of the largest cell, is left out",
          tiles.left_out);
    add(lines, "          about {:.0f} us of a sweep", microseconds);
  }
  add(lines,
      "Small     fields of fewer than {} rows or {} columns are stepped, too: {} cells "
      "a block, in shared memory",
      least[0], least[1], tiles.cells);
}

}  // namespace spidergen::emit
