/// What makes a pair of fields fit a kernel. No back end is asked here.
#pragma once

#include <spider/kernel.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend.h"
#include "field_memory.h"

namespace spider {

/// A field that is no part of another.
[[nodiscard]] spider_part whole_part(const spider_field& field);

/// Axes z, y, x: what a sweep over this part of a whole reads beyond the part. An index that crosses a
/// reflecting face of an axis with fewer cells than the reach may come out at the other face: the halo there
/// is then as wide as it goes.
[[nodiscard]] HaloWidth halo_width(const spider_kernel& kernel, const spider_field& field,
                                   const spider_part& part, int axis);

/// The same of further fields: as far as all steps of a sweep but the first reach.
[[nodiscard]] HaloWidth further_halo_width(const spider_kernel& kernel, const spider_field& field,
                                           const spider_part& part, int axis);

/// Of one element of the kernel's fields.
[[nodiscard]] std::int64_t element_bytes(const spider_kernel& kernel);

/// Of one element of its results.
[[nodiscard]] std::int64_t output_bytes(const spider_kernel& kernel);

/// Are results of another storage than the input?
[[nodiscard]] bool converts(const spider_kernel& kernel);

/// Whether a kernel can sweep a field of these extents; the reason, which begins with `name`, if it cannot.
[[nodiscard]] backend::Outcome check_extents(const spider_kernel& kernel, const spider_field& field,
                                             const std::string& name);

/// Has the field no cell? Sweeps of it do nothing, and it needs no memory.
[[nodiscard]] bool is_empty(const spider_field& field);

/// Whether fields of these extents can be this part of a whole; the reason if they cannot.
[[nodiscard]] backend::Outcome check_part(const spider_kernel& kernel, const spider_field& field,
                                          const spider_part& part);

/// Whether one sweep from `in` to `out`, which are this part of a whole, is well defined; the reason if it is
/// not.
[[nodiscard]] backend::Outcome check_fields(const spider_kernel& kernel, const spider_field& in,
                                            const spider_field& out, const spider_part& part);

/// Is it the size of a sweep, as callers have it or had it before members were appended?
[[nodiscard]] constexpr bool is_sweep_size(std::uint32_t size) {
  return size == sizeof(spider_sweep) || size == offsetof(spider_sweep, reductions) ||
         size == offsetof(spider_sweep, scratch) || size == offsetof(spider_sweep, batch) ||
         size == offsetof(spider_sweep, outputs) || size == offsetof(spider_sweep, out_previous);
}

/// A sweep of such a size with zeros for what its caller does not have.
[[nodiscard]] spider_sweep extended(const spider_sweep& sweep);

/// Of one element of a storage type, SPIDER_F16 and so on.
[[nodiscard]] std::int64_t bytes_of(std::int32_t storage);

/// A field beside input and output that a kernel takes.
struct OtherField {
  const spider_field* field;
  std::int32_t storage;
  std::string name;  ///< for messages
  /// Is it the previous field of a kernel of several steps, which has the input's halo as it takes turns with
  /// it? Else it stays as it is.
  bool takes_turns = false;
  std::int64_t image_stride = 0;  ///< elements from image to image of a batch
};

/// Whether a sweep from `in`, which fits the kernel, can read this field at its points and write `out`; the
/// reason if it cannot. A kernel of several steps reads it where all but the first step reach, too, and may
/// not write it; one that takes turns it may write in sweeps of one step, of which `steps` says the number.
[[nodiscard]] backend::Outcome check_other(const spider_kernel& kernel, const spider_field& in,
                                           const spider_field& out, const OtherField& other,
                                           const spider_part& part, std::int32_t steps);

/// The cells that a sweep over this part of a whole reads of its input, and of another field.
[[nodiscard]] CellBox cells_read_of(const spider_kernel& kernel, const spider_field& in,
                                    const spider_part& part);
[[nodiscard]] CellBox cells_read_of(const spider_kernel& kernel, const OtherField& other,
                                    const spider_part& part);

/// Have two fields of the kernel's storage a cell in common, without their halos?
[[nodiscard]] bool share_cells(const spider_kernel& kernel, const spider_field& a, const spider_field& b);

/// What points are of: cells of a storage, and values of one.
struct PointStorage {
  std::int32_t cells;
  std::int32_t values;
};

/// Whether a field of these extents alone, without its halo, is well defined, and shares no cell with `count`
/// values; the reason if not.
[[nodiscard]] backend::Outcome check_field_of_points(const PointStorage& storage, const spider_field& field,
                                                     const std::int64_t (&extent)[3], const void* values,
                                                     std::int64_t count);

/// Is the output the memory of this field?
[[nodiscard]] bool is_in_place(const spider_field& out, const spider_field& field);

/// A part as kernels see it: two fields of the extents of the whole, of which only the cells of the part and
/// of its halo are in memory, and where the part begins.
struct PlacedFields {
  spider_field in;
  spider_field out;
  std::int64_t origin[3];  ///< of the part, among the cells of the two
};

/// A field beside them as kernels see it; a stride that does not count is 0.
[[nodiscard]] spider_field place_other(const spider_kernel& kernel, const PlacedFields& placed,
                                       const OtherField& other, const spider_part& part);

/// Where a periodic axis is cut, what lies beyond a face is the halo's: cells are added to the whole there,
/// so that no index crosses a face, as many as keep blocks and rows where they are. Fields and part are
/// checked.
[[nodiscard]] PlacedFields place_fields(const spider_kernel& kernel, const spider_field& in,
                                        const spider_field& out, const spider_part& part);

/// How many cells a periodic axis that is cut gets beyond each of its ends (place_fields).
[[nodiscard]] std::int64_t added_cells(const spider_kernel& kernel, int axis);

/// Whether `box` is a part of the field's interior, and not empty; the reason if it is not.
[[nodiscard]] backend::Outcome check_box(const spider_field& field, const Box& box);

/// Do all rows that a sweep touches start on multiples of `bytes`? `with_halo` for its input.
[[nodiscard]] bool rows_aligned(const spider_kernel& kernel, const spider_field& field, std::int64_t bytes,
                                bool with_halo);
/// The same of a placed field, of any storage.
[[nodiscard]] bool rows_aligned(const spider_field& field, std::int32_t storage, std::int64_t bytes);

/// Do the cells of a plane that a sweep reads, with the halo and a tile of columns, lie fewer than 2^31
/// elements from its first?
[[nodiscard]] bool plane_cells_fit_32_bits(const spider_kernel& kernel, const spider_field& field);

}  // namespace spider
