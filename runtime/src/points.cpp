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
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend.h"
#include "fields.h"
#include "report.h"

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

/// The points by their cells, as kernels see them.
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
  if (Outcome got = spider::backend::allocate(bytes, &allocated); got.status != SPIDER_OK) return got;
  memory.reset(allocated);
  return spider::backend::upload(allocated, bytes, items.data(), bytes, bytes, 1);
}

}  // namespace

struct spider_points {
  const spider_kernel* kernel = nullptr;
  std::int64_t extent[3] = {};
  std::int64_t count = 0;
  std::int64_t cell_count = 0;
  Memory cells;
  Memory order;
};

namespace {

Outcome create(const spider_kernel& kernel, const std::int64_t* extent, std::vector<Place> places,
               spider_points& points) {
  points.kernel = &kernel;
  std::copy_n(extent, 3, points.extent);
  points.count = static_cast<std::int64_t>(places.size());
  const spider_field field{nullptr, {extent[0], extent[1], extent[2]}, {0, 0}};
  if (Outcome fit = spider::check_extents(kernel, field, "the field"); fit.status != SPIDER_OK) return fit;
  if (Outcome inside = check_cells(places, extent); inside.status != SPIDER_OK) return inside;
  if (Outcome loaded = spider::backend::prepare_points(kernel); loaded.status != SPIDER_OK) return loaded;
  if (places.empty()) return {};
  const Lists lists = sort_by_cell(places);
  points.cell_count = static_cast<std::int64_t>(lists.cells.size());
  if (Outcome copied = upload(lists.cells, points.cells); copied.status != SPIDER_OK) return copied;
  return upload(lists.order, points.order);
}

Outcome access(const spider_points* points, const spider_field* field, void* values, bool adds,
               void* stream) {
  if (points == nullptr || field == nullptr)
    return {SPIDER_ERROR_NULL,
            std::string("the ") + (points == nullptr ? "points are" : "field is") + " null"};
  const spider_kernel& kernel = *points->kernel;
  if (Outcome fit = spider::check_field_of_points(kernel, *field, points->extent, values, points->count);
      fit.status != SPIDER_OK)
    return fit;
  if (points->count == 0) return {};
  for (const auto& [memory, name] : {std::pair<const void*, const char*>{field->data, "the field"},
                                     {values, "the list of values"},
                                     {points->cells.get(), "the list of points"}}) {
    if (Outcome reached = spider::backend::check_memory(memory, name); reached.status != SPIDER_OK)
      return reached;
  }
  return spider::backend::access_points(kernel,
                                        {field->data,
                                         {field->stride[0], field->stride[1]},
                                         kernel.info.storage,
                                         adds,
                                         values,
                                         static_cast<const PointCell*>(points->cells.get()),
                                         static_cast<const std::int64_t*>(points->order.get()),
                                         points->cell_count},
                                        stream);
}

}  // namespace

spider_status spider_points_create(const spider_kernel* kernel, const int64_t extent[3], const int64_t* cells,
                                   int64_t count, spider_points** points) {
  return spider::guarded("spider_points_create", [&]() -> Outcome {
    if (points == nullptr) return {SPIDER_ERROR_NULL, "the place for the points is null"};
    *points = nullptr;
    if (Outcome known = spider::check_kernel(kernel); known.status != SPIDER_OK) return known;
    if (extent == nullptr || (cells == nullptr && count > 0))
      return {SPIDER_ERROR_NULL, extent == nullptr ? "the extents are null" : "the cells are null"};
    if (count < 0 || count > std::numeric_limits<std::int32_t>::max()) {
      return {SPIDER_ERROR_EXTENT, std::to_string(count) + " points; there must be 0 to " +
                                       std::to_string(std::numeric_limits<std::int32_t>::max())};
    }
    std::vector<Place> places(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < places.size(); ++i) std::copy_n(cells + 3 * i, 3, places[i].begin());
    auto created = std::make_unique<spider_points>();
    Outcome outcome = create(*kernel, extent, std::move(places), *created);
    if (outcome.status == SPIDER_OK) *points = created.release();
    return outcome;
  });
}

spider_status spider_points_free(spider_points* points) {
  return spider::guarded("spider_points_free", [&]() -> Outcome {
    const std::unique_ptr<spider_points> owned(points);
    if (points == nullptr) return {};
    // Release itself cannot say what came of it.
    for (Memory* memory : {&points->cells, &points->order}) {
      if (*memory == nullptr) continue;
      if (Outcome freed = spider::backend::release(memory->release()); freed.status != SPIDER_OK)
        return freed;
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
