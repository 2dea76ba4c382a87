#include "passes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "batch.h"
#include "field_memory.h"
#include "fields.h"
#include "ready_sweep.h"

namespace spider {
namespace {

using backend::Outcome;

/// Cells along an axis, from `first` to before `end`, counted from the whole's first interior one.
struct Range {
  std::int64_t first, end;
};

using Region = std::array<Range, 3>;

constexpr std::int64_t far_away = std::int64_t{1} << 60;
constexpr Range everything = {-far_away, far_away};

/// The farthest cell inside a face, counted inwards from it, that its rule maps `distance` ghost cells to; 0:
/// none inside, or the face's own cell.
std::int64_t image_of(FaceRule rule, std::int64_t distance) {
  if (rule == FaceRule::mirror) return distance;
  return rule == FaceRule::reflect || rule == FaceRule::antisymmetric ? distance - 1 : 0;
}

/// The cells that taps read for a range: their reach, and the cells that rules map it to. Ghost cells of a
/// periodic face stay outside, for passes to copy, unless they would be all of the axis.
Range read_from(const Range& range, const HaloWidth& reach, const PlacedAxis& axis) {
  Range read{range.first - reach.low, range.end + reach.high};
  const std::int64_t below = -read.first;
  const std::int64_t above = read.end - axis.whole;
  if (axis.low == FaceRule::periodic) return read.end - read.first < axis.whole ? read : Range{0, axis.whole};
  if (below > 0 && above > 0) return everything;
  if (below > 0) read.end = std::max(read.end, image_of(axis.low, below) + 1);
  if (above > 0) read.first = std::min(read.first, axis.whole - 1 - image_of(axis.high, above));
  // The image of one face lies outside the other.
  if ((below > 0 && read.end > axis.whole) || (above > 0 && read.first < 0)) return everything;
  return read;
}

/// A pass and the axis of its taps; they may also lie along x.
struct Pass {
  const spider_kernel* kernel;
  int axis;
  HaloWidth reach;  ///< along its axis
  bool in_planes;   ///< in a 3D field: each plane is an image
  int row_axis;     ///< if in planes: the axis that is the kernel's y
};

Pass find_pass(const spider_kernel& whole, std::size_t i) {
  const spider_kernel* kernel = whole.passes[i];
  const bool in_planes = kernel->info.dimensions < whole.info.dimensions;
  const int row_axis = in_planes ? whole.pass_row_axes[i] : axis_y;
  Pass pass{
      kernel, axis_x, {kernel->info.reach_low[axis_x], kernel->info.reach_high[axis_x]}, in_planes, row_axis};
  for (const int other : {axis_y, axis_z}) {
    const HaloWidth reach{kernel->info.reach_low[other], kernel->info.reach_high[other]};
    if (reach.low <= 0 && reach.high <= 0) continue;
    pass.axis = other == axis_y ? row_axis : other;
    pass.reach = reach;
  }
  return pass;
}

/// A sweep's fields as kernels see them, and the input cells that may be read.
struct Placed {
  PlacedFields fields;
  Region memory;
};

Placed place(const spider_kernel& kernel, const spider_field& in, const spider_field& out,
             const spider_part* part) {
  const spider_part place = part == nullptr ? whole_part(in) : *part;
  Placed placed{part == nullptr ? PlacedFields{in, out, {0, 0, 0}} : place_fields(kernel, in, out, place),
                {}};
  for (int axis = 0; axis < 3; ++axis) {
    const HaloWidth halo = halo_width(kernel, in, place, axis);
    const std::int64_t first = placed.fields.origin[axis];
    placed.memory[static_cast<std::size_t>(axis)] = {first - halo.low, first + in.extent[axis] + halo.high};
  }
  return placed;
}

/// The cells that each pass writes: the last one the box, each other one the cells that the next pass reads.
std::vector<Region> regions_of(const spider_kernel& kernel, const Box& box, const Placed& placed) {
  std::vector<Region> regions(static_cast<std::size_t>(kernel.pass_count));
  for (int axis = 0; axis < 3; ++axis)
    regions.back()[static_cast<std::size_t>(axis)] = {box.offset[axis], box.offset[axis] + box.extent[axis]};
  for (std::size_t i = regions.size() - 1; i > 0; --i) {
    const Pass pass = find_pass(kernel, i);
    const int axis = pass.axis;
    const auto a = static_cast<std::size_t>(axis);
    const std::int64_t whole = placed.fields.in.extent[axis];
    const PlacedAxis faces{kernel.faces[axis][0].rule, kernel.faces[axis][1].rule, whole, 0, whole};
    Range read = read_from(regions[i][a], pass.reach, faces);
    if (faces.low != FaceRule::periodic) {
      read.first = std::max(read.first, placed.memory[a].first);
      read.end = std::min(read.end, placed.memory[a].end);
    }
    regions[i - 1] = regions[i];
    regions[i - 1][a] = read;
  }
  return regions;
}

/// Moves a field's data that many cells further, in integers: the address may be in no memory.
void move_by(spider_field& field, const std::array<std::int64_t, 3>& cells, std::int64_t bytes) {
  const std::int64_t elements = cells[0] * field.stride[0] + cells[1] * field.stride[1] + cells[2];
  const std::int64_t origin[3] = {0, 0, -elements};
  move_to_first(field, {field.stride[0], field.stride[1]}, origin, bytes);
}

/// Rows begin at multiples of that many columns of the whole, and of elements.
constexpr std::int64_t row_columns = 32;

std::int64_t round_down(std::int64_t number) {
  return number - number % row_columns;
}

/// Memory that a pass writes for the next one.
struct Scratch {
  Region region{};
  std::int64_t cell_bytes;
  spider_field field{};  ///< data: its first cell

  Scratch(const Region& cells, std::int64_t bytes_of_cell) : region(cells), cell_bytes(bytes_of_cell) {
    region[axis_x].first = round_down(cells[axis_x].first);
    region[axis_x].end = round_down(cells[axis_x].end + row_columns - 1);
    for (std::size_t axis = 0; axis < 3; ++axis) field.extent[axis] = region[axis].end - region[axis].first;
    field.stride[1] = field.extent[axis_x];
    field.stride[0] = field.extent[axis_y] * field.stride[1];
  }

  [[nodiscard]] std::int64_t elements() const { return field.extent[axis_z] * field.stride[0]; }
  [[nodiscard]] std::int64_t bytes() const { return elements() * cell_bytes; }
};

/// A part of a region whose cells the first pass finds `shift` cells further on, across a periodic face.
struct Piece {
  Region region{};
  std::array<std::int64_t, 3> shift{};
};

/// Cuts a region into the piece in the whole and the pieces outside its periodic faces, except along x.
std::vector<Piece> cut_at_faces(const Region& region, const spider_field& whole,
                                const spider_kernel& kernel) {
  std::vector<Piece> pieces{{region, {}}};
  for (std::size_t axis = 0; axis < axis_x; ++axis) {
    const std::int64_t extent = whole.extent[axis];
    if (kernel.faces[axis][0].rule != FaceRule::periodic) continue;
    if (region[axis].first >= 0 && region[axis].end <= extent) continue;
    const std::int64_t face = region[axis].first < 0 ? 0 : extent;
    std::vector<Piece> cut;
    for (const Piece& piece : pieces) {
      Piece before = piece;
      Piece behind = piece;
      before.region[axis].end = behind.region[axis].first = face;
      before.shift[axis] = face == 0 ? extent : 0;
      behind.shift[axis] = face == 0 ? 0 : -extent;
      cut.insert(cut.end(), {before, behind});
    }
    pieces = std::move(cut);
  }
  return pieces;
}

/// Groups of outputs along a pass's axis begin at multiples of so many cells, so that sums add in the same
/// order.
constexpr std::int64_t group_cells = 16;

/// The field that a pass sees, in the whole. Along its own axis and x it has the whole's cells, so that faces
/// and vectors stay in place; along the others a region's. If cells outside the faces of its own axis are in
/// memory, it has as many more as the pass reaches, so that no index crosses a face.
struct Seen {
  std::array<std::int64_t, 3> first{};
  std::array<std::int64_t, 3> extent{};
};

Seen seen_by(const Pass& pass, FaceRule rule, const Region& region, const spider_field& whole,
             const Range& in_memory) {
  const int own = pass.axis;
  Seen seen;
  for (int axis = 0; axis < 3; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const bool is_whole = axis == own || axis == axis_x;
    seen.first[a] = is_whole ? 0 : region[a].first;
    seen.extent[a] = is_whole ? whole.extent[axis] : region[a].end - region[a].first;
  }
  const auto a = static_cast<std::size_t>(own);
  const bool is_ring = rule == FaceRule::periodic;
  if (!is_ring || own == axis_x || (in_memory.first >= 0 && in_memory.end <= whole.extent[own])) return seen;
  const std::int64_t reach = std::max(pass.reach.low, pass.reach.high);
  const std::int64_t added = (reach + group_cells - 1) / group_cells * group_cells;
  seen.first[a] = -added;
  seen.extent[a] += 2 * added;
  return seen;
}

/// Scratch memory, released in stream order.
class ScratchMemory {
 public:
  explicit ScratchMemory(void* stream) : stream_(stream) {}
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;
  ~ScratchMemory() {
    if (memory_ != nullptr) static_cast<void>(backend::release_scratch(memory_, stream_));
  }

  [[nodiscard]] Outcome allocate(std::uint64_t bytes) {
    return backend::allocate_scratch(bytes, &memory_, stream_);
  }
  [[nodiscard]] Outcome release() {
    return backend::release_scratch(std::exchange(memory_, nullptr), stream_);
  }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  void* stream_;
  void* memory_ = nullptr;
};

/// The field that a pass sees in memory; `data` has the cells from `first` on.
spider_field view_of(const spider_field& data, const std::array<std::int64_t, 3>& first, const Seen& seen,
                     std::int64_t bytes) {
  spider_field view = data;
  move_by(view, {seen.first[0] - first[0], seen.first[1] - first[1], seen.first[2] - first[2]}, bytes);
  std::copy(seen.extent.begin(), seen.extent.end(), std::begin(view.extent));
  return view;
}

std::array<std::int64_t, 3> first_of(const Region& region) {
  return {region[0].first, region[1].first, region[2].first};
}

/// A launch of one of a kernel's passes.
struct ReadyPass {
  const spider_kernel* pass;
  ReadySweep sweep;
};

/// The plane along x and `row_axis` of a field with the lowest index along the other axis.
spider_field first_plane(spider_field field, int row_axis) {
  if (row_axis == axis_z) {
    field.extent[axis_y] = field.extent[axis_z];
    std::swap(field.stride[0], field.stride[1]);
  }
  field.extent[axis_z] = 1;
  return field;
}

/// Images of a batch that go through the passes together, starting with the first one's fields.
struct Together {
  std::int64_t count = 1;
  std::int64_t in_stride = 0, out_stride = 0;  ///< elements between images
};

/// A pass over a box of images; a pass in planes takes each plane of a field as an image.
ReadySweep make_ready_pass(const Pass& pass, spider_field in, spider_field out, Box box, Together images,
                           const backend::Residencies& residencies) {
  if (pass.in_planes) {
    images = {in.extent[pass.row_axis == axis_z ? axis_y : axis_z], 0, 0};
    in = first_plane(in, pass.row_axis);
    out = first_plane(out, pass.row_axis);
    images.in_stride = in.stride[0];
    images.out_stride = out.stride[0];
    box = {{0, box.offset[pass.row_axis], box.offset[axis_x]},
           {1, box.extent[pass.row_axis], box.extent[axis_x]}};
  }
  SweepFields fields{&in, &out};
  fields.batch.count = images.count;
  fields.batch.stride = images.in_stride;
  fields.batch.out_stride = images.out_stride;
  fields.batch.out = &out;
  return make_ready(*pass.kernel, fields, box, nullptr, residencies, 1);
}

/// The passes of one sweep of some images; `placed` are the first.
std::vector<ReadyPass> make_ready_passes(const spider_kernel& kernel, const Placed& placed,
                                         const std::vector<Region>& regions,
                                         const std::vector<Scratch>& scratch, const Together& images,
                                         const std::vector<backend::Residencies>& residencies) {
  const spider_field& whole = placed.fields.in;
  std::vector<ReadyPass> ready;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const Pass pass = find_pass(kernel, i);
    const FaceRule rule = kernel.faces[pass.axis][0].rule;
    const std::int64_t in_bytes = element_bytes(*pass.kernel);
    const std::int64_t out_bytes = output_bytes(*pass.kernel);
    const bool is_last = i + 1 == regions.size();
    const Together apart{images.count, i == 0 ? images.in_stride : scratch[i - 1].elements(),
                         is_last ? images.out_stride : scratch[i].elements()};
    const Range in_memory = i == 0 ? Range{0, 0} : scratch[i - 1].region[static_cast<std::size_t>(pass.axis)];
    const auto pieces =
        i == 0 ? cut_at_faces(regions[0], whole, kernel) : std::vector<Piece>{{regions[i], {}}};
    for (const auto& [region, shift] : pieces) {
      const Seen seen = seen_by(pass, rule, region, whole, in_memory);
      const spider_field in =
          i == 0 ? view_of(whole, {-shift[0], -shift[1], -shift[2]}, seen, in_bytes)
                 : view_of(scratch[i - 1].field, first_of(scratch[i - 1].region), seen, in_bytes);
      const spider_field out = is_last
                                   ? view_of(placed.fields.out, {0, 0, 0}, seen, out_bytes)
                                   : view_of(scratch[i].field, first_of(scratch[i].region), seen, out_bytes);
      Box box{};
      for (std::size_t axis = 0; axis < 3; ++axis) {
        box.offset[axis] = region[axis].first - seen.first[axis];
        box.extent[axis] = region[axis].end - region[axis].first;
      }
      ready.push_back({pass.kernel, make_ready_pass(pass, in, out, box, apart, residencies[i])});
    }
  }
  return ready;
}

/// The cells that a sweep over a box writes between passes.
std::vector<Scratch> scratch_of(const spider_kernel& kernel, const Box& box, const Placed& placed) {
  const std::vector<Region> regions = regions_of(kernel, box_in_whole(box, placed.fields), placed);
  std::vector<Scratch> scratch;
  for (std::size_t i = 0; i + 1 < regions.size(); ++i)
    scratch.emplace_back(regions[i], output_bytes(*kernel.passes[i]));
  return scratch;
}

/// Finds each pass loaded, or loads it.
Outcome prepare_passes(const spider_kernel& kernel, std::vector<backend::Residencies>& residencies) {
  residencies.resize(static_cast<std::size_t>(kernel.pass_count));
  bool are_all = true;
  for (std::size_t i = 0; i < residencies.size(); ++i) {
    const spider_kernel& pass = *kernel.passes[i];
    if (Outcome failed = backend::prepare(pass, residencies[i])) return failed;
    are_all = are_all && are_loaded(pass, residencies[i]);
  }
  return are_all ? Outcome{} : load_passes(kernel, residencies);
}

std::int64_t bytes_of_all(const std::vector<Scratch>& scratch) {
  return std::accumulate(scratch.begin(), scratch.end(), std::int64_t{0},
                         [](std::int64_t sum, const Scratch& of_pass) { return sum + of_pass.bytes(); });
}

/// How many images go through the passes together; each leaves that many bytes between them. As many as fit
/// the caller's scratch, or else the L2 cache of an A100 or newer. In 3D one, since its launch has many
/// planes.
std::int64_t count_together(const spider_kernel& kernel, const SweepFields& given, std::int64_t bytes) {
  constexpr std::int64_t cached_bytes = std::int64_t{32} << 20;
  if (kernel.info.dimensions == 3) return 1;
  const std::int64_t room =
      given.scratch == nullptr ? cached_bytes : static_cast<std::int64_t>(given.scratch_bytes);
  return std::clamp<std::int64_t>(room / std::max<std::int64_t>(bytes, 1), 1, given.batch.count);
}

/// Sweeps of some images at a time, whose scratch and passes are ready.
struct PassSweeps {
  const spider_kernel& kernel;
  const Box& box;
  const spider_part* part;
  const std::vector<Scratch>& scratch;
  const std::vector<backend::Residencies>& residencies;

  /// Sweeps `count` images from `image` on, by `steps` sweeps from `in` to `out` and back.
  [[nodiscard]] Outcome run(const SweepFields& given, std::int64_t image, std::int64_t count,
                            std::int64_t steps, void* stream) const {
    const spider_field in = image_of(given, given.in, element_bytes(kernel), image);
    const spider_field out = image_of(given, given.out, output_bytes(kernel), image);
    const std::int64_t in_stride = given.batch.stride_of(given.in);
    const std::int64_t out_stride = given.batch.stride_of(given.out);
    const std::array<Placed, 2> turns{place(kernel, in, out, part), place(kernel, out, in, part)};
    const std::array<Together, 2> strides{{{count, in_stride, out_stride}, {count, out_stride, in_stride}}};
    const std::vector<Region> regions =
        regions_of(kernel, box_in_whole(box, turns.front().fields), turns.front());
    std::array<std::vector<ReadyPass>, 2> ready;
    for (std::size_t i = 0; i < 2 && static_cast<std::int64_t>(i) < steps; ++i)
      ready.at(i) = make_ready_passes(kernel, turns.at(i), regions, scratch, strides.at(i), residencies);
    for (std::int64_t step = 0; step < steps; ++step) {
      for (const auto& [pass, sweep] : ready.at(static_cast<std::size_t>(step % 2))) {
        if (Outcome failed = sweep.launch(*pass, stream)) return failed;
      }
    }
    return {};
  }
};

}  // namespace

Outcome load_passes(const spider_kernel& kernel, std::vector<backend::Residencies>& residencies) {
  const std::vector<const spider_kernel*> passes(kernel.passes, kernel.passes + kernel.pass_count);
  if (Outcome failed = backend::compile(passes)) return failed;
  residencies.resize(passes.size());
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (Outcome failed = backend::load(*passes[i], backend::all_forms, residencies[i])) return failed;
  }
  return {};
}

std::uint64_t bytes_between_passes(const spider_kernel& kernel, const spider_field& in, const Box& box,
                                   const spider_part* part) {
  return static_cast<std::uint64_t>(bytes_of_all(scratch_of(kernel, box, place(kernel, in, in, part))));
}

Outcome run_passes(const spider_kernel& kernel, const SweepFields& given, const Box& box,
                   const spider_part* part, std::int64_t steps, void* stream) {
  std::vector<backend::Residencies> residencies;
  if (Outcome failed = prepare_passes(kernel, residencies)) return failed;
  const Placed placed = place(kernel, *given.in, *given.out, part);
  std::vector<Scratch> scratch = scratch_of(kernel, box, placed);
  const std::int64_t bytes = bytes_of_all(scratch);
  const std::int64_t together = count_together(kernel, given, bytes);
  ScratchMemory memory(stream);
  if (given.scratch == nullptr) {
    if (Outcome failed = memory.allocate(static_cast<std::uint64_t>(bytes * together))) return failed;
  }
  auto* next = given.scratch == nullptr ? memory.data() : static_cast<std::byte*>(given.scratch);
  for (Scratch& of_pass : scratch) {
    of_pass.field.data = next;
    next += of_pass.bytes() * together;
  }
  for (std::int64_t image = 0; image < given.batch.count; image += together) {
    const std::int64_t count = std::min(together, given.batch.count - image);
    const PassSweeps sweeps{kernel, box, part, scratch, residencies};
    if (Outcome failed = sweeps.run(given, image, count, steps, stream)) return failed;
  }
  return given.scratch == nullptr ? memory.release() : Outcome{};
}

}  // namespace spider
