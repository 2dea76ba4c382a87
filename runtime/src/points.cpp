/// spider/points.h.
#include <spider/kernel.h>
#include <spider/points.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend.h"
#include "fields.h"
#include "report.h"
#include "system_fields.h"

namespace {

using spider::PointCell;
using spider::backend::Memory;
using spider::backend::Outcome;

using Place = std::array<std::int64_t, 3>;

Outcome check_cells(const std::vector<Place>& places, const std::int64_t* extent) {
  constexpr std::array<std::string_view, 3> axes{"z", "y", "x"};
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const std::int64_t index = places[i][axis];
      if (index >= 0 && index < extent[axis]) continue;
      return {SPIDER_ERROR_EXTENT, "point " + std::to_string(i) + " has index " + std::to_string(index) +
                                       " on axis " + std::string(axes[axis]) + "; it must be 0 to " +
                                       std::to_string(extent[axis] - 1)};
    }
  }
  return {};
}

/// The points by cell, as kernels see them.
struct Lists {
  std::vector<PointCell> cells;
  std::vector<std::int64_t> order;
};

Lists sort_by_cell(const std::vector<Place>& places) {
  Lists lists;
  lists.order.resize(places.size());
  std::iota(lists.order.begin(), lists.order.end(), 0);
  const auto place = [&](std::int64_t point) { return places[static_cast<std::size_t>(point)]; };
  std::sort(lists.order.begin(), lists.order.end(), [&](std::int64_t a, std::int64_t b) {
    return std::pair{place(a), a} < std::pair{place(b), b};
  });
  for (std::size_t i = 0; i < lists.order.size(); ++i) {
    const auto& [z, y, x] = place(lists.order[i]);
    const auto index = static_cast<std::int64_t>(i);
    if (i == 0 || place(lists.order[i]) != place(lists.order[i - 1]))
      lists.cells.push_back({{z, y, x}, index, index});
    lists.cells.back().end = index + 1;
  }
  return lists;
}

template <class Item>
Outcome upload(const std::vector<Item>& items, Memory& memory) {
  const std::uint64_t bytes = items.size() * sizeof(Item);
  void* allocated = nullptr;
  if (Outcome failed = spider::backend::allocate(bytes, &allocated)) return failed;
  memory.reset(allocated);
  return spider::backend::upload(allocated, bytes, items.data(), bytes, bytes, 1);
}

}  // namespace

struct spider_points {
  const spider_kernel* kernel = nullptr;
  spider::PointStorage storage{};
  std::int64_t extent[3] = {};
  std::int64_t count = 0;
  std::int64_t cell_count = 0;
  Memory cells;
  Memory order;
};

namespace {

Outcome create(const spider_kernel& kernel, const spider::PointStorage& storage, const std::int64_t* extent,
               std::vector<Place> places, spider_points& points) {
  points.kernel = &kernel;
  points.storage = storage;
  std::copy_n(extent, 3, points.extent);
  points.count = static_cast<std::int64_t>(places.size());
  const spider_field field{nullptr, {extent[0], extent[1], extent[2]}, {0, 0}};
  if (Outcome failed = spider::check_extents(kernel, field, "the field")) return failed;
  if (Outcome failed = check_cells(places, extent)) return failed;
  if (Outcome failed = spider::backend::prepare_points(kernel)) return failed;
  if (places.empty()) return {};
  const Lists lists = sort_by_cell(places);
  points.cell_count = static_cast<std::int64_t>(lists.cells.size());
  if (Outcome failed = upload(lists.cells, points.cells)) return failed;
  return upload(lists.order, points.order);
}

Outcome access(const spider_points* points, const spider_field* field, void* values, bool adds,
               void* stream) {
  if (points == nullptr || field == nullptr)
    return {SPIDER_ERROR_NULL,
            std::string("the ") + (points == nullptr ? "points are" : "field is") + " null"};
  const spider_kernel& kernel = *points->kernel;
  if (Outcome failed =
          spider::check_field_of_points(points->storage, *field, points->extent, values, points->count))
    return failed;
  if (points->count == 0) return {};
  for (const auto& [memory, name] : {std::pair<const void*, const char*>{field->data, "the field"},
                                     {values, "the list of values"},
                                     {points->cells.get(), "the list of points"}}) {
    if (Outcome failed = spider::backend::check_memory(memory, name)) return failed;
  }
  return spider::backend::access_points(kernel,
                                        {field->data,
                                         {field->stride[0], field->stride[1]},
                                         points->storage.cells,
                                         adds,
                                         values,
                                         static_cast<const PointCell*>(points->cells.get()),
                                         static_cast<const std::int64_t*>(points->order.get()),
                                         points->cell_count},
                                        stream);
}

}  // namespace

namespace {

/// Whether points may serve any field of a system.
Outcome check_one_storage(const spider_kernel& kernel) {
  const std::int32_t* const storages = kernel.info.field_storages;
  const std::int32_t* const end = storages + kernel.info.field_count;
  if (std::adjacent_find(storages, end, std::not_equal_to<>()) == end) return {};
  return {SPIDER_ERROR_UNSUPPORTED, "the fields of " + std::string(kernel.info.name) +
                                        " have several storages: call spider_points_create_of_field"};
}

/// Whether there are cells along all axes of the extents.
Outcome check_axes(const spider::SystemField& field, const std::int64_t* extent) {
  for (int axis = 0; axis < 3; ++axis) {
    if (field.axes[axis] || extent[axis] == 1) continue;
    return {SPIDER_ERROR_EXTENT, "the field has no cells along axis " + std::string(1, "zyx"[axis]) +
                                     ": its extent there must be 1, not " + std::to_string(extent[axis])};
  }
  return {};
}

/// The storage of a kernel's fields, or of one of a system's.
spider::PointStorage storage_of(const spider_kernel& kernel, std::int32_t field) {
  if (kernel.system == nullptr) return {kernel.info.storage, kernel.info.accumulate};
  const std::int32_t storage = kernel.info.field_storages[field];
  return {storage, storage == SPIDER_F64 ? SPIDER_F64 : SPIDER_F32};
}

/// `field` is one of a system; none stands for other kernels, and for any field of a system.
Outcome create_points(const spider_kernel* kernel, std::optional<std::int32_t> field,
                      const std::int64_t* extent, const std::int64_t* cells, std::int64_t count,
                      spider_points** points) {
  if (points == nullptr) return {SPIDER_ERROR_NULL, "the place for the points is null"};
  *points = nullptr;
  if (Outcome failed = spider::check_kernel(kernel)) return failed;
  if (kernel->info.storage >= SPIDER_U8) {
    return {SPIDER_ERROR_UNSUPPORTED, "the kernel " + std::string(kernel->info.name) +
                                          " stores whole numbers; points are of fields of f16, bf16, f32 or "
                                          "f64"};
  }
  if (field) {
    if (Outcome failed = spider::check_field_index(*kernel, *field)) return failed;
  } else if (kernel->system != nullptr) {
    if (Outcome failed = check_one_storage(*kernel)) return failed;
  }
  if (extent == nullptr || (cells == nullptr && count > 0))
    return {SPIDER_ERROR_NULL, extent == nullptr ? "the extents are null" : "the cells are null"};
  if (count < 0 || count > std::numeric_limits<std::int32_t>::max()) {
    return {SPIDER_ERROR_EXTENT, std::to_string(count) + " points; there must be 0 to " +
                                     std::to_string(std::numeric_limits<std::int32_t>::max())};
  }
  std::vector<Place> places(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < places.size(); ++i) std::copy_n(cells + 3 * i, 3, places[i].begin());
  if (field) {
    if (Outcome failed = check_axes(kernel->system->fields[*field], extent)) return failed;
  }
  auto created = std::make_unique<spider_points>();
  Outcome outcome =
      create(*kernel, storage_of(*kernel, field.value_or(0)), extent, std::move(places), *created);
  if (outcome.status == SPIDER_OK) *points = created.release();
  return outcome;
}

}  // namespace

spider_status spider_points_create(const spider_kernel* kernel, const int64_t extent[3], const int64_t* cells,
                                   int64_t count, spider_points** points) {
  return spider::guarded("spider_points_create",
                         [&] { return create_points(kernel, std::nullopt, extent, cells, count, points); });
}

spider_status spider_points_create_of_field(const spider_kernel* kernel, int32_t field,
                                            const int64_t extent[3], const int64_t* cells, int64_t count,
                                            spider_points** points) {
  return spider::guarded("spider_points_create_of_field",
                         [&] { return create_points(kernel, field, extent, cells, count, points); });
}

spider_status spider_points_free(spider_points* points) {
  return spider::guarded("spider_points_free", [&]() -> Outcome {
    const std::unique_ptr<spider_points> owned(points);
    if (points == nullptr) return {};
    // Releasing cannot report an error itself.
    for (Memory* memory : {&points->cells, &points->order}) {
      if (*memory == nullptr) continue;
      if (Outcome failed = spider::backend::release(memory->release())) return failed;
    }
    return {};
  });
}

spider_status spider_points_add(const spider_points* points, const spider_field* field, const void* values,
                                void* stream) {
  return spider::guarded("spider_points_add",
                         [&] { return access(points, field, const_cast<void*>(values), true, stream); });
}

spider_status spider_points_read(const spider_points* points, const spider_field* field, void* values,
                                 void* stream) {
  return spider::guarded("spider_points_read", [&] { return access(points, field, values, false, stream); });
}
