/// How a sweep is cut into blocks.
#pragma once

#include <spider/kernel.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend.h"

namespace spider {

[[nodiscard]] constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

struct Launch {
  BlockGrid grid;
  std::int64_t blocks;
};

/// The boxes of one launch.
struct BoxesLaunch {
  CutBox boxes[most_boxes];
  std::int64_t blocks;
};

struct FormLaunch {
  std::size_t form;  ///< index into the kernel's forms
  Launch launch;
  Box box;                    ///< to compute; without points if there are no blocks
  BoxesLaunch rims;           ///< computed by another form; without blocks if empty
  std::size_t rims_form = 0;  ///< index of that form
};

/// Cuts a box, by the kernel's TilingKind, so that the blocks fill whole waves of the device: every wave
/// costs as many steps as its longest walk, and `prologue_steps` of them produce nothing. Among the numbers
/// of waves whose walks come near to `preferred_steps`, takes the one with the fewest steps in all. `field`
/// is the whole interior, whose faces matter for TilingKind::overlapping.
[[nodiscard]] Launch choose_blocks(const Tiling& tiling, const Box& box, const backend::Residency& residency,
                                   const Box& field = {});

/// Input steps of a walk along z before its first outputs, plus the steps that it idles.
[[nodiscard]] std::int64_t lead_of_volume_walk(const Tiling& tiling);

/// The longest walk of TilingKind::blocks that runs well, in planes.
[[nodiscard]] std::int64_t longest_volume_walk(const Tiling& tiling, const Box& box);

/// Cuts a box into blocks of Tiling::tile_extent outputs for a sweep of a system, or TilingKind::boxes: along
/// x first, then y, then z (BlockGrid::volume).
[[nodiscard]] Launch cut_system(const Tiling& tiling, const Box& box, const backend::Residency& residency);

/// Cuts up to most_boxes boxes for one launch of TilingKind::rectangles. `form` leaves rims.
[[nodiscard]] BoxesLaunch cut_rims(const Tiling& tiling, const SweepForm& form, const std::vector<Box>& boxes,
                                   const Box& field);

/// True if a form leaves rims of the field, or small fields, to the last form of its number of steps.
[[nodiscard]] bool has_rims(const SweepForm& form);

/// The cells of a box that a form with rims computes; along x they begin and end at multiples of `vector`.
/// Without points if the box lies in rims, or the field is smaller than SweepForm::least.
[[nodiscard]] Box inside_rims(const SweepForm& form, const Box& box, const Box& field, std::int64_t vector);

/// The rest of a box around `inside`, a box within it that may have no points: boxes that share no cell.
[[nodiscard]] std::vector<Box> boxes_beside(const Box& box, const Box& inside);

/// True if form i is the last one of its number of time steps.
[[nodiscard]] bool is_last_form(const spider_kernel& kernel, std::int32_t i);

/// The forms of that many steps that choose_form() may choose, or whose residency it needs, for such rows and
/// a field like `whole`, whatever the residencies of forms that are not loaded.
[[nodiscard]] backend::FormSet forms_to_choose_from(const spider_kernel& kernel, bool rows_are_aligned,
                                                    const backend::Residencies& residencies,
                                                    std::int32_t steps, const Box& whole);

/// Cuts a box for the first of the kernel's forms of that many time steps that the device has shared memory
/// for, that takes such rows, and that has at least as many blocks as it requires; otherwise for the last
/// one. If the first has rims, all do but the last one, which computes them. `whole`, the field without the
/// cells that place_fields() adds, decides whether a field is large enough; if it is empty, none are added.
[[nodiscard]] FormLaunch choose_form(const spider_kernel& kernel, const Box& box, bool rows_are_aligned,
                                     const backend::Residencies& residencies, std::int32_t steps = 1,
                                     const Box& field = {}, const Box& whole = {});

}  // namespace spider
