/// The interface between a generated file and the runtime. Private: no application includes it.
#pragma once

#include <spider/spider.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// A part of the interior, in points along z, y, x.
struct Box {
  std::int64_t offset[3];
  std::int64_t extent[3];
};

/// How a launch cuts a box into strips along x (TilingKind::strips). A warp walks down inner_rows or
/// edge_rows output rows of a strip of Tiling::tile_extent[2] columns. Walks of strips whose inputs cross an
/// edge of the box in x are slower: they are shorter, and come first. Warps are numbered across blocks: the
/// first edge_walks take the edge strips in turn, segment by segment, the others the inner strips. Rows are
/// counted in groups of Tiling::row_anchor.
struct StripGrid {
  std::int32_t first_column;  ///< of strip 0; a multiple of Tiling::anchor, at or before the box's first
                              ///< column
  std::int32_t inner_strips;  ///< strips 1 .. inner_strips
  std::int32_t edge_strips;   ///< strip 0 and those after the inner ones
  std::int32_t edge_walks;    ///< a multiple of edge_strips
  std::int32_t edge_rows;
  std::int32_t inner_rows;
};

/// How a launch cuts a box into blocks of Tiling::tile_extent outputs (TilingKind::blocks, tiles and boxes).
/// Blocks walk along z if there is one, except those of boxes. They are numbered along x first, then y, then
/// z; blocks with a ring of planes in the order of spider/loads/plane_ring.h.
struct VolumeGrid {
  std::int32_t first_column;     ///< of the first block, as StripGrid::first_column
  std::int32_t across, down;     ///< blocks side by side along x, and along y from the box's first row
  std::int32_t planes;           ///< output planes of a walk; the last may have fewer
  std::int32_t first_wave;       ///< blocks that start together when the sweep begins
  std::int32_t multiprocessors;  ///< of the device; each gets one of these blocks before any gets a second
  // With Tiling::walks_tiles: all tiles, and all blocks. With Tiling::balances_tail: the number of tiles,
  // across and down, whose walks have `planes`, and of their blocks, which come first; walks of the other
  // tiles have `rest_planes`.
  std::int32_t whole_tiles, whole_blocks, rest_planes;
};

/// For a launch of TilingKind::blocks that signals when its rims are stored, in addition to its VolumeGrid.
/// The first `blocks` blocks take the box's last planes, then its first ones, each with one walk of all these
/// planes; the planes between them are cut as VolumeGrid says (spider/field/rims_first.h). Passed in the
/// members of BlockGrid::strips, in this order, which such launches do not use otherwise.
struct RimGrid {
  /// The halves of the address of the counter that each block of a rim increments; 0: no rims come first.
  std::uint32_t counter[2];
  std::int32_t blocks;
  std::int32_t low, high;  ///< planes at the low and the high end; 0: none
  /// For kernels that do not balance their tails: walks of VolumeGrid::planes between the rims; the walks
  /// after them have rest_planes.
  std::int32_t long_walks;
};

/// How a launch cuts an axis into overlapping pieces of Tiling::tile_extent cells. Each stores the cells
/// within its margins, or up to a face of the field at which it ends; spider/field/overlapping.h computes
/// their positions.
struct OverlappedAxis {
  std::int32_t count;        ///< of pieces
  std::int32_t first_start;  ///< the first cell of the first piece, which stores from the box's first cell on
  std::int32_t second_begin;  ///< the first cell that the second one stores
  std::int32_t last_start;    ///< the first cell of the last piece; first_start if there is one piece
};

/// How a launch cuts a box into overlapping strips, and their rows into walks (TilingKind::overlapping). A
/// block has one walk. Walks of the outer strips, the first and the last one, come first, in turn, then those
/// of the others.
struct OverlappingGrid {
  OverlappedAxis columns;
  std::int32_t inner_rows;   ///< output rows of a walk; the last may have fewer
  std::int32_t outer_rows;   ///< of the outer strips
  std::int32_t outer_walks;  ///< of all outer strips
  std::int32_t first_fewer;  ///< rows by which the first walk of each strip is shorter
};

/// How a launch cuts a box; the kernel's TilingKind selects the member. TilingKind::lines has none: warps are
/// numbered through the strips of Tiling::tile_extent[2] columns of the box's first row, then of the next;
/// strip 0 of each row begins at the last multiple of Tiling::anchor at or before the box's first column.
struct BlockGrid {
  StripGrid strips;
  VolumeGrid volume;
  OverlappingGrid overlapping;
};

/// The arguments of one launch. Strides count elements of the kernel's storage; arrays run along z, y, x.
struct SweepArguments {
  const void* input;  ///< the field's first interior element, also where the box begins elsewhere
  void* output;
  std::int64_t input_stride[2];  ///< from plane to plane, from row to row
  std::int64_t output_stride[2];
  std::int64_t extent[3];  ///< of the field's interior, each >= 1
  Box box;                 ///< the points to write: not empty, inside the interior
  BlockGrid grid;
  /// Every input row starts on Tiling::input_alignment bytes. If a form of the kernel steps 3D fields, the
  /// cells of a plane also lie within 32 bits of its first.
  bool aligned_input;
  bool aligned_output;  ///< every output row starts on Tiling::output_alignment bytes
};

/// A field that an update reads at the point itself.
struct FurtherField {
  const void* data;        ///< the first interior element
  std::int64_t stride[2];  ///< from plane to plane, from row to row
};

constexpr int most_further_fields = 9;  // `previous` and 8 of the spec's
constexpr int most_scalars = 16;
constexpr int most_sums = 8;

/// The same for a kernel with an update. Its aligned_output includes that rows of further fields start on 16
/// bytes.
struct UpdateArguments : SweepArguments {
  FurtherField further[most_further_fields];  ///< in kernels of one step `previous`, then the spec's fields
  float scalars[most_scalars];
  std::int64_t first[3];              ///< the first point, in the coordinates of indices
  std::int64_t whole[3];              ///< the extents that an update uses
  double wide_scalars[most_scalars];  ///< scalars, for kernels of f64 fields
  /// Kernels of several steps: `previous`, and the field for the step before the last one. aligned_output
  /// includes that all their rows start on 16 bytes.
  const void* before;
  std::int64_t before_stride[2];
  void* output_before;
  std::int64_t output_before_stride[2];
};

constexpr int most_system_fields = 32;

/// A field of a system, in a launch. Strides of axes along which it has no cells are 0.
struct SystemFieldPlace {
  const void* data;        ///< the first interior element, read
  std::int64_t stride[2];  ///< from plane to plane, from row to row
  void* target;            ///< written here: `data`, or its second buffer
  std::int64_t target_stride[2];
};

constexpr int most_reductions = 8;
/// An accumulator of a reduction, in words; 0 means nothing yet. Words of a sum are limbs of a number in
/// units of 2^-1074, of reduction_limb_bits each and with room for 2^35 additions, and the numbers of NaNs
/// and infinities added. Word 0 of a maximum or a minimum is its key (spider/values/exact_sum.h).
constexpr int reduction_limb_bits = 28;
constexpr int reduction_limbs = 76;
constexpr int reduction_nan = reduction_limbs;
constexpr int reduction_infinity = reduction_limbs + 1;
constexpr int reduction_low_infinity = reduction_limbs + 2;
constexpr int reduction_words = 80;
constexpr std::int64_t most_additions = std::int64_t{1} << 35;
/// Accumulators of each reduction, shared evenly by blocks: with fewer, blocks would wait for each other.
constexpr int reduction_copies = 16;

/// The same for a sweep of a system of equations, without input and output. aligned_input says that the rows
/// of all fields that are read start on vectors of SystemSweep::columns cells, aligned_output the same for
/// all that are written.
struct SystemArguments : SweepArguments {
  SystemFieldPlace fields[most_system_fields];  ///< in the spec's order
  float scalars[most_scalars];
  double wide_scalars[most_scalars];
  std::int64_t first[3];  ///< the first point, in the coordinates of indices
  std::int64_t whole[3];  ///< the extents that expressions use
  /// reduction_copies accumulators for each of the system's reductions; null: none is requested.
  std::int64_t* reductions;
};

constexpr int most_boxes = 4;  // in a launch

/// One of several boxes of a launch: its rectangles, one a block, along x first, and the first block after
/// its own.
struct CutBox {
  Box box;
  std::int32_t tile_rows, tile_columns;
  std::int32_t end_block;
};

/// The same for a launch of several boxes that share no cell (TilingKind::rectangles). SweepArguments::box
/// contains them all. Entries after the last box have no blocks.
struct BoxesArguments : SweepArguments {
  CutBox boxes[most_boxes];
};

using Sweep = void (*)(SweepArguments);
using UpdateSweep = void (*)(UpdateArguments);
using BoxesSweep = void (*)(BoxesArguments);
using SystemFunction = void (*)(SystemArguments);

/// The address of a function for a constant; null if NVRTC compiles one function of a file (SPIDER_ENTRY):
/// ptxas compiles a function differently if its address is data.
template <class Function>
constexpr Function function_address(Function function) {
#if defined(SPIDER_ONLY_ENTRY) && SPIDER_ONLY_ENTRY != 0
  return nullptr;
#else
  return function;
#endif
}

/// A kernel's function: the second if it has an update, the third in a form for rims, the fourth in a system.
struct SweepFunction {
  Sweep plain = nullptr;
  UpdateSweep update = nullptr;
  BoxesSweep boxes = nullptr;
  SystemFunction system = nullptr;

  constexpr SweepFunction() = default;
  constexpr SweepFunction(Sweep function) : plain(function_address(function)) {}
  constexpr SweepFunction(UpdateSweep function) : update(function_address(function)) {}
  constexpr SweepFunction(BoxesSweep function) : boxes(function_address(function)) {}
  constexpr SweepFunction(SystemFunction function) : system(function_address(function)) {}

  /// Bytes of the arguments that it takes.
  [[nodiscard]] constexpr std::uint32_t argument_bytes() const {
    return system != nullptr   ? sizeof(SystemArguments)
           : boxes != nullptr  ? sizeof(BoxesArguments)
           : update != nullptr ? sizeof(UpdateArguments)
                               : sizeof(SweepArguments);
  }

  /// On the host: `arguments` has as many bytes as argument_bytes() says.
  void operator()(const SweepArguments& arguments) const {
    if (system != nullptr) {
      system(static_cast<const SystemArguments&>(arguments));  // NOLINT(*-static-cast-downcast): as said
    } else if (boxes != nullptr) {
      boxes(static_cast<const BoxesArguments&>(arguments));  // NOLINT(*-static-cast-downcast): as said
    } else if (update != nullptr) {
      update(static_cast<const UpdateArguments&>(arguments));  // NOLINT(*-static-cast-downcast): as said
    } else {
      plain(arguments);
    }
  }
};

/// A cell of a field, and the caller's points that lie there: PointArguments::order from `first` to before
/// `end`, ascending.
struct PointCell {
  std::int64_t place[3];  ///< z, y, x
  std::int64_t first, end;
};

/// The arguments of one call of a kernel of points (spider/points.h). Pointers are the back end's.
struct PointArguments {
  void* field;             ///< the first interior element
  std::int64_t stride[2];  ///< from plane to plane, from row to row
  std::int32_t storage;    ///< SPIDER_F16, ...
  bool adds;               ///< adds values to cells; otherwise reads cells
  void* values;            ///< one for each point, of spider_kernel_info::accumulate
  const PointCell* cells;  ///< each once
  const std::int64_t* order;
  std::int64_t cell_count;
};

using PointFunction = void (*)(PointArguments);

/// Ways of cutting a box into blocks.
enum class TilingKind : std::int32_t {
  strips,  ///< a warp, or several together, walks down y, a few columns wide (2D)
  blocks,  ///< a block walks along z, a few rows and columns wide (3D)
  lines,   ///< a warp has some columns of one row and does not walk (1D, and 2D without taps in y)
  tiles,   ///< a warp has some rows and columns and does not walk (2D)
  /// a block walks down y in a strip of tile_extent[2] columns, and stores all but the margins (2D, time
  /// steps)
  overlapping,
  /// a block steps a rectangle of a box, in shared memory with all cells that the steps reach from it (2D,
  /// time steps, several boxes); tile_extent[1] rows and tile_extent[2] columns there have other uses
  rectangles,
  boxes,  ///< a block has tile_extent outputs and does not walk (2D, 3D)
};

/// The facts by which the runtime cuts a box for a kernel. A walk covers `tile_extent` outputs and steps
/// along one axis, where `tile_extent` is 1.
struct Tiling {
  TilingKind kind = TilingKind::strips;
  std::int32_t warps_per_block = 0;
  std::int32_t shared_bytes = 0;      ///< dynamic shared memory of a block
  std::int32_t input_alignment = 0;   ///< bytes on which input rows start where they can be read in vectors
  std::int32_t output_alignment = 0;  ///< the same for stores
  std::int32_t tile_extent[3] = {};   ///< z, y, x
  /// Columns of the box that a walk away from its edges needs before its first output, and from its last
  /// output on.
  std::int32_t left_margin = 0;
  std::int32_t right_margin = 0;  ///< in TilingKind::rectangles both are the reach of all steps
  std::int32_t anchor = 0;  ///< walks begin at multiples of it along x, counted from the field's first column
  /// Input steps of a walk before its first outputs are complete; for TilingKind::rectangles the rows that
  /// all steps reach.
  std::int32_t prologue_steps = 0;
  std::int32_t preferred_steps = 0;  ///< of a walk that runs best on a large field; 0: one wave of blocks
  /// Blocks of TilingKind::blocks and tiles, and walks of strips, begin at multiples of this along y.
  std::int32_t row_anchor = 1;
  std::int32_t warps_per_walk = 1;  ///< for TilingKind::strips: warps that walk down a strip together
  /// For TilingKind::strips and overlapping: rows of a walk at an edge, or of an outer strip, in percent of
  /// another walk's that takes as long.
  std::int32_t edge_walk_percent = 60;
  /// For TilingKind::strips: inner strips are cut into whole walks; the remaining rows are shared among
  /// further walks, across strips, so that all walks of a wave end together. For TilingKind::blocks: some
  /// tiles have walks that fill waves, the others shorter ones.
  bool balances_tail = false;
  /// For TilingKind::overlapping: strips that would cross these faces of the field in x end there, without a
  /// margin.
  bool ends_at_low_face = false;
  bool ends_at_high_face = false;
  std::int32_t whole_columns = 0;    ///< fields of at most this many that end at both are in one strip
  std::int32_t low_face_steps = 0;   ///< more steps for walks from the field's first row
  std::int32_t high_face_steps = 0;  ///< and for walks to its last one
  std::int32_t tile_cells = 0;       ///< for TilingKind::rectangles: capacity of a block
  bool walks_tiles = false;  ///< for systems: a block takes tile after tile, VolumeGrid::whole_blocks apart
  bool tells_rims = false;   ///< for TilingKind::blocks: the function does as RimGrid says
};

/// One way of computing a sweep: a function, how to cut boxes for it, and the boxes it takes. All forms of a
/// kernel that advance the same number of time steps give the same bits, except those of rims and of small
/// fields.
struct SweepForm {
  SweepFunction sweep;
  Tiling tiling;
  /// Blocks per multiprocessor of the device: a box with fewer goes to the next form.
  std::int32_t min_blocks_per_sm = 0;
  /// The function calls device::wait_on_dependency before it touches a field, so that a device may start it
  /// while earlier work on the stream still runs.
  bool starts_early = false;
  /// In a form that has rims, block 0 calls device::wait_on_dependency at its end instead. It may start early
  /// only after the launch of its rims, which allows it once earlier work is done.
  bool overlaps_rims = false;
  /// Only for fields whose rows start on Tiling::input_alignment and output_alignment bytes.
  bool needs_aligned_rows = false;
  /// The function, in a kernel of one or two dimensions, adds device::image_index() times the stride from
  /// plane to plane to its pointers, so that one launch can take all images of a batch.
  bool takes_images = false;
  std::int32_t steps = 1;  ///< time steps that it advances: spider_kernel_info::steps; fewer in the forms
                           ///< after those
  /// Cells along y and x, at the low and the high face of the field, that the last form of the same number of
  /// steps computes; its function takes several boxes.
  std::int32_t rim[2][2] = {};
  std::int32_t least[2] = {};   ///< cells along y and x that a field must have; a smaller one is all rim
  std::int32_t min_extent = 0;  ///< cells along each axis of the field; a smaller one goes to the next form
};

/// A form with rims, along y at the low and the high face, then along x, for fields of at least this many
/// rows and columns.
constexpr SweepForm with_rims(SweepForm form, const std::int32_t (&rims)[4], const std::int32_t (&least)[2]) {
  for (int i = 0; i < 4; ++i) {
    form.rim[i / 2][i % 2] = rims[i];
    if (rims[i] > 0) form.overlaps_rims = true;
  }
  form.starts_early = form.starts_early && !form.overlaps_rims;
  for (int i = 0; i < 2; ++i) form.least[i] = least[i];
  return form;
}

/// A form for fields of at least this many cells along each axis of the kernel's.
constexpr SweepForm of_large_fields(SweepForm form, std::int32_t min_extent) {
  form.min_extent = min_extent;
  // The form that steps smaller fields stores vectors, and all forms of a kernel require the same alignment.
  if (form.tiling.kind == TilingKind::lines) form.tiling.output_alignment = form.tiling.input_alignment;
  return form;
}

/// A form whose function takes images.
constexpr SweepForm of_images(SweepForm form) {
  form.takes_images = true;
  return form;
}

constexpr int most_forms = 9;

/// The taps of one (dz, dy): dx from `low` to `high`. The halo is the hull of these rows around the interior.
struct TapRow {
  std::int32_t dz, dy, low, high;
};

/// One tap with the weight that the kernel multiplies with: the sum of its packed terms.
struct Tap {  // NOLINT(*-optin.performance.Padding): generated files leave out `sum` where there is one
  std::int32_t dz, dy, dx;
  double weight;
  std::int32_t sum = 0;  ///< the sum that the tap belongs to, if an update has several
};

/// Bytes of the largest arguments that one of a kernel's forms takes.
constexpr std::uint32_t largest_arguments(const SweepForm* forms, std::int32_t form_count) {
  std::uint32_t bytes = sizeof(SweepArguments);
  for (std::int32_t i = 0; i < form_count; ++i) {
    const std::uint32_t of_form = forms[i].sweep.argument_bytes();
    if (of_form > bytes) bytes = of_form;
  }
  return bytes;
}

/// The cells outside a face; stencils/README.md defines the rules. antireflect and antimirror are only for
/// fields of systems.
enum class FaceRule : std::int32_t {
  halo,
  constant,
  nearest,
  periodic,
  reflect,
  mirror,
  antisymmetric,
  antireflect,
  antimirror
};

struct Face {
  FaceRule rule;
  double value;  ///< of FaceRule::constant, rounded to the storage
};

/// A field of a system.
struct SystemField {
  std::int32_t storage;  ///< SPIDER_F16, ...
  bool axes[3];          ///< has it cells along z, y, x? Without, it is constant along the axis
  Face faces[3][2];      ///< as spider_kernel::faces
};

/// A row of cells that each point of a sweep reads: field `field` at (dz, dy), dx from `low` to `high`.
/// Offsets are 0 along axes on which the field has no cells.
struct ReadRow {
  std::int32_t field, dz, dy, low, high;
};

/// A field that a sweep writes, and whether to the buffer that it does not read.
struct WrittenField {
  std::int32_t field;
  bool into_other;
};

enum class ReductionKind : std::int32_t { sum, max, min };

/// A reduction over all points: its index among the system's, and its kind.
struct ReducedNumber {
  std::int32_t which;
  ReductionKind kind;
};

/// The kernel of an update that computes a sweep, and the fields of the system that it takes.
struct SweepUpdate {
  const spider_kernel* kernel;
  std::int32_t input;          ///< its place among the system's fields
  std::int32_t previous;       ///< the same; -1: none
  const std::int32_t* fields;  ///< of each further field, the same; null where there is none
};

/// One sweep of a system: it runs spider_kernel::forms at the same place.
struct SystemSweep {
  std::int32_t stages;  ///< of the spec, fused into this sweep
  const ReadRow* rows;  ///< ascending in (field, dz, dy)
  std::int32_t row_count;
  const WrittenField* written;  ///< ascending
  std::int32_t written_count;
  std::int32_t reach_low[3], reach_high[3];  ///< z, y, x: of all rows, >= 0
  std::int32_t columns;                      ///< neighbouring cells per lane of a device
  const ReducedNumber* reduced;              ///< ascending
  std::int32_t reduced_count;
  /// z, y, x: the distance to ghost cells outside faces that it computes for, if `adjoint` folds them. It
  /// then reads cells near faces that its rows do not reach.
  std::int32_t folded_reach[3];
  const SweepUpdate* update = nullptr;  ///< in the place of its form, if any
};

/// The facts of a system that the runtime uses. The tables outlive the kernel.
struct SystemFacts {
  const SystemField* fields;  ///< spider_kernel_info::field_count of them
  const SystemSweep* sweeps;  ///< spider_kernel::form_count of them, in order
};

}  // namespace device_4
}  // namespace spider

/// The layout is ABI: abi and size always come first, so that any runtime can refuse any kernel.
struct spider_kernel {
  std::uint32_t abi = 0;
  std::uint32_t size = 0;
  std::uint32_t launch_size = 0;  ///< largest_arguments() of its forms, as it reads them
  spider_kernel_info info{};
  /// From forms for large boxes to those for small ones; the last one of a number of steps takes any field.
  /// Forms of fewer steps, down to 1, take the remainder of a number of steps.
  spider::SweepForm forms[spider::most_forms] = {};
  std::int32_t form_count = 0;
  const spider::TapRow* tap_rows = nullptr;
  std::int32_t tap_row_count = 0;
  const spider::Tap* taps = nullptr;  ///< ascending in (dz, dy, dx, sum)
  std::int32_t tap_count = 0;
  std::int32_t products = 0;               ///< MMAs chained into one output, for error bounds
  spider::Face faces[3][2] = {};           ///< axes z, y, x; low, high
  spider::PointFunction points = nullptr;  ///< for a device; back ends on the host have their own
  /// For two passes, for error bounds: the error of a result besides its own rounding, relative to one step's
  /// sum |w| times the largest |x| that the result uses. Otherwise 0: `products` gives the bound.
  double neighbourhood = 0;
  const spider::SystemFacts* system = nullptr;  ///< for a system of equations
  /// For a sweep in passes: kernels of one step that run in order; their taps lie along one axis each, or
  /// along y and x. `forms` has one, the first pass's. A pass's faces along its axis have the constant that
  /// the passes before it produce. A pass of two dimensions sweeps planes of a 3D field: its y is the axis
  /// named by `pass_row_axes`, y or z.
  const spider_kernel* const* passes = nullptr;
  const std::int32_t* pass_row_axes = nullptr;
  std::int32_t pass_count = 0;
};
