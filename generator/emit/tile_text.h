#pragma once

#include <string>
#include <vector>

#include "plan/tile_form.h"

namespace spidergen::emit {

/// Adds the forms of tiles of 128 columns a warp to the report, from the highest.
void describe_forms(const std::vector<plan::TileForm>& forms, std::vector<std::string>& lines);

/// The same for --explain's JSON, with the registers of a lane and the shared memory of a block.
[[nodiscard]] std::string forms_json(const std::vector<plan::TileForm>& forms, int registers,
                                     int shared_bytes);

}  // namespace spidergen::emit
