/// What makes a pair of fields fit a kernel. Independent of back ends.
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

/// Axes z, y, x: the cells outside this part of a whole that a sweep over it reads. If a reflecting face's
/// axis has fewer cells than the reach, a mirrored index may come out at the other face: the halo there
/// covers it.
[[nodiscard]] HaloWidth halo_width(const spider_kernel& kernel, const spider_field& field,
                                   const spider_part& part, int axis);

/// The same for further fields: as far as all steps of a sweep but the first reach.
[[nodiscard]] HaloWidth further_halo_width(const spider_kernel& kernel, const spider_field& field,
                                           const spider_part& part, int axis);

/// Bytes of one element of the kernel's fields.
[[nodiscard]] std::int64_t element_bytes(const spider_kernel& kernel);

/// Bytes of one element of its results.
[[nodiscard]] std::int64_t output_bytes(const spider_kernel& kernel);

/// True if results have another storage than the input.
[[nodiscard]] bool converts(const spider_kernel& kernel);

/// Whether a kernel can sweep a field of these extents; the reason, which begins with `name`, if it cannot.
[[nodiscard]] backend::Outcome check_extents(const spider_kernel& kernel, const spider_field& field,
                                             const std::string& name);

/// True if the field has no cell. Sweeps of it do nothing, and it needs no memory.
[[nodiscard]] bool is_empty(const spider_field& field);

/// Whether fields of these extents can be this part of a whole; the reason if they cannot.
[[nodiscard]] backend::Outcome check_part(const spider_kernel& kernel, const spider_field& field,
                                          const spider_part& part);

/// Whether one sweep from `in` to `out`, which are this part of a whole, is well defined; the reason if it is
/// not.
[[nodiscard]] backend::Outcome check_fields(const spider_kernel& kernel, const spider_field& in,
                                            const spider_field& out, const spider_part& part);

/// True if it is the size of a sweep, with or without the members appended later.
[[nodiscard]] constexpr bool is_sweep_size(std::uint32_t size) {
  return size == sizeof(spider_sweep) || size == offsetof(spider_sweep, reductions) ||
         size == offsetof(spider_sweep, scratch) || size == offsetof(spider_sweep, batch) ||
         size == offsetof(spider_sweep, outputs) || size == offsetof(spider_sweep, out_previous);
}

/// A sweep of such a size, with zeros for members that its caller does not have.
[[nodiscard]] spider_sweep extended(const spider_sweep& sweep);

/// Bytes of one element of a storage type, SPIDER_F16 and so on.
[[nodiscard]] std::int64_t bytes_of(std::int32_t storage);

/// A field besides input and output that a kernel takes.
struct OtherField {
  const spider_field* field;
  std::int32_t storage;
  std::string name;  ///< for messages
  /// True for the previous field of a kernel of several steps: it has the input's halo, and they take turns.
  /// Other fields stay in place.
  bool takes_turns = false;
  std::int64_t image_stride = 0;  ///< elements from image to image of a batch
};

/// Whether a sweep from `in`, which fits the kernel, can read this field at its points and write `out`; the
/// reason if not. A kernel of several steps also reads it where all but the first step reach, and may not
/// write it. A field that takes turns may be written by sweeps of one step; `steps` is the number.
[[nodiscard]] backend::Outcome check_other(const spider_kernel& kernel, const spider_field& in,
                                           const spider_field& out, const OtherField& other,
                                           const spider_part& part, std::int32_t steps);

/// The cells that a sweep over this part of a whole reads of its input, and of another field.
[[nodiscard]] CellBox cells_read_of(const spider_kernel& kernel, const spider_field& in,
                                    const spider_part& part);
[[nodiscard]] CellBox cells_read_of(const spider_kernel& kernel, const OtherField& other,
                                    const spider_part& part);

/// True if two fields of the kernel's storage have a cell in common, without their halos.
[[nodiscard]] bool share_cells(const spider_kernel& kernel, const spider_field& a, const spider_field& b);

/// Storage of points: of cells, and of their values.
struct PointStorage {
  std::int32_t cells;
  std::int32_t values;
};

/// Whether a field of these extents without its halo is well defined, and shares no cell with `count` values;
/// the reason if not.
[[nodiscard]] backend::Outcome check_field_of_points(const PointStorage& storage, const spider_field& field,
                                                     const std::int64_t (&extent)[3], const void* values,
                                                     std::int64_t count);

/// True if the output is the memory of this field.
[[nodiscard]] bool is_in_place(const spider_field& out, const spider_field& field);

/// A part as kernels see it: two fields of the extents of the whole, with only the cells of the part and its
/// halo in memory, and the begin of the part.
struct PlacedFields {
  spider_field in;
  spider_field out;
  std::int64_t origin[3];  ///< of the part, among the cells of both
};

/// Another field as kernels see it; a stride that does not matter is 0.
[[nodiscard]] spider_field place_other(const spider_kernel& kernel, const PlacedFields& placed,
                                       const OtherField& other, const spider_part& part);

/// Places a part. Where a periodic axis is cut, its halo lies outside the face: cells are added to the whole
/// there, so that no index crosses a face, in multiples that keep blocks and rows aligned. Fields and part
/// are checked.
[[nodiscard]] PlacedFields place_fields(const spider_kernel& kernel, const spider_field& in,
                                        const spider_field& out, const spider_part& part);

/// How many cells place_fields() adds at each end of a periodic axis that is cut.
[[nodiscard]] std::int64_t added_cells(const spider_kernel& kernel, int axis);

/// Whether `box` is a non-empty part of the field's interior; the reason if not.
[[nodiscard]] backend::Outcome check_box(const spider_field& field, const Box& box);

/// True if all rows that a sweep touches start on multiples of `bytes`; `with_halo` for its input.
[[nodiscard]] bool rows_aligned(const spider_kernel& kernel, const spider_field& field, std::int64_t bytes,
                                bool with_halo);
/// The same for a placed field, of any storage.
[[nodiscard]] bool rows_aligned(const spider_field& field, std::int32_t storage, std::int64_t bytes);

/// True if the cells of a plane that a sweep reads, with the halo and a tile of columns, lie fewer than 2^31
/// elements from its first.
[[nodiscard]] bool plane_cells_fit_32_bits(const spider_kernel& kernel, const spider_field& field);

}  // namespace spider
