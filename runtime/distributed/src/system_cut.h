/// How the fields of a system of equations are cut and exchanged: arithmetic, without MPI.
#pragma once

#include <spider/kernel.h>

#include <cstdint>
#include <vector>

#include "layout.h"

namespace spider::distributed {

/// A field as all launches together read it.
[[nodiscard]] CutField field_of_system(const spider_kernel& kernel, std::int32_t field);

/// The fields as far as all of them together are read; periodic along axes that are.
[[nodiscard]] CutField hull_of_system(const spider_kernel& kernel);

/// A field whose halo a launch needs, as far as it is read.
struct NeededHalo {
  std::int32_t field;
  CutField as_read;
};
/// Those that a launch reads around its points. What they hold stays until a launch writes it: each is read
/// as far as this launch and those behind it do up to then, so that it is exchanged once.
[[nodiscard]] std::vector<NeededHalo> halos_needed(const spider_kernel& kernel, std::int32_t launch);

/// How far a launch looks around its points into any of its fields.
[[nodiscard]] CutField reach_of_launch(const spider_kernel& kernel, std::int32_t launch);

/// A field that keeps an axis from being cut, since it is not periodic and others are; -1: none.
[[nodiscard]] std::int32_t uncut_by(const spider_kernel& kernel, int axis);

}  // namespace spider::distributed
