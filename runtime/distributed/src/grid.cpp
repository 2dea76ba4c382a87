/// The C interface of distributed fields.
#include "grid.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "fields.h"
#include "host_copy.h"
#include "images.h"
#include "parts.h"
#include "report.h"
#include "system_cut.h"
#include "turns.h"

namespace spider::distributed {
namespace {

constexpr std::array<const char*, 3> axis_names{"z", "y", "x"};

const char* name_of(FaceRule rule) {
  switch (rule) {
    case FaceRule::halo:
      return "halo";
    case FaceRule::constant:
      return "constant";
    case FaceRule::nearest:
      return "nearest";
    case FaceRule::periodic:
      return "periodic";
    case FaceRule::reflect:
      return "reflect";
    case FaceRule::mirror:
      return "mirror";
    case FaceRule::antisymmetric:
      return "antisymmetric";
    case FaceRule::antireflect:
      return "antireflect";
    case FaceRule::antimirror:
      return "antimirror";
    default:
      return "another";
  }
}

/// Do sweeps read around points of their input alone? Sweeps of several steps with `previous` also read
/// around points of that.
bool has_one_halo(const spider_kernel& kernel) {
  return kernel.info.previous == nullptr || kernel.info.steps == 1;
}

/// Are fields in the memory of GPUs?
bool on_devices() {
  return backend::kind() == SPIDER_BACKEND_CUDA;
}

/// What must be the same on all ranks.
struct Description {
  char name[64];
  char spec_hash[20];
  std::int64_t whole[3];
  std::int32_t cuda;
};

Description describe(const spider_kernel& kernel, const std::int64_t whole[3]) {
  Description description{};
  std::strncpy(description.name, kernel.info.name, sizeof description.name - 1);
  std::strncpy(description.spec_hash, kernel.info.spec_hash, sizeof description.spec_hash - 1);
  std::copy_n(whole, 3, description.whole);
  description.cuda = on_devices() ? 1 : 0;
  return description;
}

std::string in_words(const Description& description) {
  return std::string(description.name) + " (spec " + description.spec_hash + ", " +
         (description.cuda != 0 ? "on a GPU" : "on the host") + ") on " +
         std::to_string(description.whole[0]) + " x " + std::to_string(description.whole[1]) + " x " +
         std::to_string(description.whole[2]);
}

Outcome compare_with_first_rank(MPI_Comm communicator, const Description& own) {
  Description first = own;
  if (Outcome told =
          of_mpi(MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, communicator), "comparing with rank 0");
      told.status != SPIDER_OK)
    return told;
  const bool same = std::strcmp(own.name, first.name) == 0 &&
                    std::strcmp(own.spec_hash, first.spec_hash) == 0 &&
                    std::equal(own.whole, own.whole + 3, first.whole) && own.cuda == first.cuda;
  if (same) return {};
  return {SPIDER_ERROR_RANKS, "ranks differ: this one has " + in_words(own) + ", rank 0 " + in_words(first)};
}

/// Whether what the caller says of an axis is what the kernel's rule is.
Outcome check_periodic(const spider_kernel& kernel, int axis, bool said, const char* who) {
  const bool is_system = kernel.system != nullptr;
  if (is_system && uncut_by(kernel, axis) >= 0) return {};  // some are and some are not
  const CutField cut = is_system ? hull_of_system(kernel) : input_of(kernel, 1);
  const FaceRule low = cut.faces[axis][0].rule;
  const FaceRule high = cut.faces[axis][1].rule;
  const bool is = low == FaceRule::periodic;
  if (said == is) return {};
  return {SPIDER_ERROR_RANKS, std::string(who) + (said ? " is periodic along " : " is not periodic along ") +
                                  axis_names[static_cast<std::size_t>(axis)] + ", and the rule of " +
                                  kernel.info.name + " there is " + name_of(low) +
                                  (low == high ? "" : std::string(" and ") + name_of(high))};
}

/// Are all ranks on one host?
Outcome find_hosts(MPI_Comm communicator, RankFacts& ranks) {
  MPI_Comm_size(communicator, &ranks.count);
  MPI_Comm of_host = MPI_COMM_NULL;
  Outcome found = of_mpi(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &of_host),
                         "finding the ranks of this host");
  if (found.status != SPIDER_OK) return found;
  int count = 0;
  MPI_Comm_size(of_host, &count);
  MPI_Comm_free(&of_host);
  ranks.on_one_host = count == ranks.count;
  return {};
}

/// Ranks along each axis, so that a step takes the least time by estimate; one along those that cannot be
/// cut. Where no parts are as wide as the halo, as MPI divides the ranks.
Outcome divide_ranks(MPI_Comm communicator, const spider_kernel& kernel, const Extents& whole, Parts& parts) {
  RankFacts ranks;
  if (Outcome found = find_hosts(communicator, ranks); found.status != SPIDER_OK) return found;
  const int dimensions = kernel.info.dimensions;
  const bool is_system = kernel.system != nullptr;
  std::array<bool, 3> cut{};
  for (int axis = 3 - dimensions; axis < 3; ++axis)
    cut[static_cast<std::size_t>(axis)] = !is_system || uncut_by(kernel, axis) < 0;
  if (cut == std::array<bool, 3>{} && ranks.count > 1) {
    return {SPIDER_ERROR_UNSUPPORTED,
            std::string("along each axis some fields of ") + kernel.info.name +
                " are periodic and others are not: it has no axis that can be cut, and takes one rank"};
  }
  const CutField field = is_system ? hull_of_system(kernel)
                                   : input_of(kernel, kernel.info.steps, count_images(kernel, whole.data()));
  parts = choose_parts(field, whole, cut, ranks);
  if (parts[0] > 0) return {};
  std::array<int, 3> counts{};
  for (std::size_t axis = 0; axis < 3; ++axis) counts[axis] = cut[axis] ? 0 : 1;
  Outcome divided = of_mpi(MPI_Dims_create(ranks.count, 3, counts.data()), "MPI_Dims_create");
  std::copy(counts.begin(), counts.end(), parts.begin());
  return divided;
}

/// Ranks along each axis: of a Cartesian communicator its own, else as an estimate divides them.
Outcome place_ranks(MPI_Comm communicator, const spider_kernel& kernel, const Extents& whole, Parts& parts) {
  const int dimensions = kernel.info.dimensions;
  int topology = MPI_UNDEFINED;
  MPI_Topo_test(communicator, &topology);
  parts = {1, 1, 1};
  if (topology != MPI_CART) return divide_ranks(communicator, kernel, whole, parts);
  int count = 0;
  MPI_Cartdim_get(communicator, &count);
  if (count < 1 || count > dimensions) {
    return {SPIDER_ERROR_RANKS, "the Cartesian communicator has " + std::to_string(count) +
                                    " dimensions, and " + kernel.info.name + " has " +
                                    std::to_string(dimensions)};
  }
  std::array<int, 3> counts{};
  std::array<int, 3> periods{};
  std::array<int, 3> place{};
  MPI_Cart_get(communicator, count, counts.data(), periods.data(), place.data());
  for (int i = 0; i < count; ++i) {
    const int axis = 3 - dimensions + i;
    parts[static_cast<std::size_t>(axis)] = counts[static_cast<std::size_t>(i)];
    if (Outcome same = check_periodic(kernel, axis, periods[static_cast<std::size_t>(i)] != 0,
                                      "the Cartesian communicator");
        same.status != SPIDER_OK)
      return same;
  }
  return {};
}

/// Ranks that share a device would wait for each other for ever.
Outcome check_devices(MPI_Comm communicator) {
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &ranks);
  const DeviceOutcome device = name_device();
  if (Outcome known = agree(communicator, device.outcome); known.status != SPIDER_OK) return known;
  std::vector<DeviceId> all(static_cast<std::size_t>(ranks));
  constexpr int bytes = sizeof(DeviceId);
  if (Outcome told =
          of_mpi(MPI_Allgather(device.id.data(), bytes, MPI_CHAR, all.data(), bytes, MPI_CHAR, communicator),
                 "comparing devices");
      told.status != SPIDER_OK)
    return told;
  const auto first = std::find(all.begin(), all.end(), device.id);
  if (first == all.begin() + rank) return {};
  return {SPIDER_ERROR_RANKS, "ranks " + std::to_string(first - all.begin()) + " and " +
                                  std::to_string(rank) + " have one device, " + device.name +
                                  "; give each its own with spider_select_device or cudaSetDevice"};
}

Outcome make_transport(spider_grid& grid) {
  MPI_Comm communicator = grid.communicator->get();
  Exchanges largest;
  for (const auto& field : grid.fields) largest.push_back({{}, &field->messages, field->element_bytes});
  if (largest.empty()) largest.push_back({{}, &grid.messages, grid.element_bytes});
  if (!on_devices()) {
    TransportOutcome made = make_mpi_transport(communicator, largest);
    grid.transport = std::move(made.transport);
    return agree(communicator, made.outcome);
  }
  if (grid.layout.ranks > 1) {
    if (Outcome apart = agree(communicator, check_devices(communicator)); apart.status != SPIDER_OK)
      return apart;
  }
  TransportOutcome made = make_gpu_transport(communicator, largest);
  grid.transport = std::move(made.transport);
  if (made.outcome.status == SPIDER_OK && spider_prepare(grid.kernel) != SPIDER_OK)
    made.outcome = {SPIDER_ERROR_DEVICE, spider_last_error()};
  return agree(communicator, made.outcome);
}

/// Whether MPI and kernels can count the cells of each message.
Outcome check_messages(const Messages& messages) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  for (const Message& message : messages.all) {
    const std::int64_t cells = std::max(count_cells(message.send), count_cells(message.receive));
    if (cells <= most) continue;
    return {SPIDER_ERROR_EXTENT, "a halo has " + std::to_string(cells) +
                                     " cells, of all images together, and no more than " +
                                     std::to_string(most) + " are exchanged: give a grid fewer images"};
  }
  return {};
}

/// This rank's part of the fields, and what is exchanged.
Outcome cut(spider_grid& grid, const spider_kernel& kernel, const Extents& whole, const Parts& parts,
            std::int32_t rank) {
  grid.kernel = &kernel;
  grid.element_bytes = element_bytes(kernel);
  grid.images = count_images(kernel, whole.data());
  grid.cut =
      kernel.system != nullptr ? hull_of_system(kernel) : input_of(kernel, kernel.info.steps, grid.images);
  const LayoutOutcome made = make_layout(grid.cut, whole, parts, rank);
  if (made.outcome.status != SPIDER_OK && kernel.system == nullptr) return made.outcome;
  grid.layout = made.layout;
  if (kernel.system != nullptr) return cut_system(grid, whole, parts);
  grid.messages = make_messages(grid.cut, grid.layout);
  const CutField of_a_step = input_of(kernel, 1, grid.images);
  grid.messages_of_a_step = make_messages(of_a_step, make_layout(of_a_step, whole, parts, rank).layout);
  spider_grid_layout of_image = grid.layout;
  if (grid.images > 1) of_image.extent[0] = of_image.part.whole[0] = 1;
  grid.part = of_image.part;
  grid.boxes = divide_part(grid.cut, of_image);
  return check_messages(grid.messages);
}

/// Does a sweep wait for its halo, rather than leave rims to later launches? Rims of several steps compute
/// their halos again: two of them take longer than copies between GPUs of a host.
bool exchanges_first(const spider_grid& grid, std::int32_t steps, void* stream) {
  return steps > 1 && grid.boxes.rims.size() > 1 && has_one_halo(*grid.kernel) &&
         grid.transport->rim_counter(stream) != nullptr;
}

/// Whether sweeps say when rims are stored, in words; nothing where no halos move between GPUs.
std::string way_of_rims(const spider_grid& grid) {
  const spider_kernel& kernel = *grid.kernel;
  if (!on_devices() || grid.layout.ranks == 1) return {};
  const RimPlanes rims = rim_planes(grid.messages);
  const bool do_tell = kernel.system == nullptr && grid.transport->rim_counter(nullptr) != nullptr &&
                       rims.low + rims.high > 0 && has_one_halo(kernel) &&
                       std::any_of(kernel.forms, kernel.forms + kernel.form_count,
                                   [](const SweepForm& form) { return form.tiling.tells_rims; });
  if (do_tell) return "; rims first, in the launch of the sweep";
  return exchanges_first(grid, kernel.info.steps, nullptr) ? "; before the sweep"
                                                           : "; rims in launches of their own";
}

/// Everything behind the duplicate of the communicator.
Outcome build(spider_grid& grid, MPI_Comm original, const spider_kernel* kernel, const std::int64_t* whole,
              const std::int32_t* periodic, bool has_place) {
  MPI_Comm communicator = grid.communicator->get();
  Outcome fit;
  if (kernel == nullptr || whole == nullptr || !has_place) {
    fit = {SPIDER_ERROR_NULL, "the kernel, the extents or the place for the grid is null"};
  } else if (spider_info(kernel) == nullptr) {
    fit = {SPIDER_ERROR_KERNEL, spider_last_error()};
  } else if (converts(*kernel) || kernel->info.storage >= SPIDER_U8) {
    fit = {SPIDER_ERROR_UNSUPPORTED,
           std::string("the kernel ") + kernel->info.name +
               " stores whole numbers, or results of another storage, of which a grid "
               "exchanges none yet: sweep parts with spider_run"};
  }
  if (fit = agree(communicator, fit); fit.status != SPIDER_OK || kernel == nullptr || whole == nullptr)
    return fit;
  fit = compare_with_first_rank(communicator, describe(*kernel, whole));
  for (int axis = 3 - kernel->info.dimensions; axis < 3 && periodic != nullptr && fit.status == SPIDER_OK;
       ++axis)
    fit = check_periodic(*kernel, axis, periodic[axis] != 0, "the grid asked for");
  Parts parts{};
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  keep_first(fit, check_images(*kernel, whole));
  const spider_field of_image{
      nullptr, {kernel->info.dimensions == 3 ? whole[0] : 1, whole[1], whole[2]}, {0, 0}};
  keep_first(fit, check_extents(*kernel, of_image, "the whole"));
  if (fit = agree(communicator, fit); fit.status != SPIDER_OK) return fit;  // what follows is collective
  fit = place_ranks(original, *kernel, {whole[0], whole[1], whole[2]}, parts);
  if (fit.status == SPIDER_OK) fit = cut(grid, *kernel, {whole[0], whole[1], whole[2]}, parts, rank);
  if (fit = agree(communicator, fit); fit.status != SPIDER_OK) return fit;
  if (fit = make_transport(grid); fit.status != SPIDER_OK) return fit;
  for (const bool into_fields : {false, true})
    grid.routes[into_fields ? 1 : 0] = grid.transport->routes(into_fields) + way_of_rims(grid);
  for (const auto& field : grid.fields) {
    field->transport = grid.transport;
    field->routes = grid.routes;
  }
  return {};
}

Outcome create(MPI_Comm original, const spider_kernel* kernel, const std::int64_t* whole,
               const std::int32_t* periodic, spider_grid** result) {
  int begun = 0;
  int ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  if (begun == 0 || ended != 0) return {SPIDER_ERROR_RANKS, "MPI is not running: call MPI_Init first"};
  if (original == MPI_COMM_NULL) return {SPIDER_ERROR_NULL, "the communicator is null"};
  int between = 0;
  MPI_Comm_test_inter(original, &between);
  if (between != 0) return {SPIDER_ERROR_RANKS, "the communicator joins two groups; a grid has one"};
  MPI_Comm duplicate = MPI_COMM_NULL;
  if (Outcome made = of_mpi(MPI_Comm_dup(original, &duplicate), "duplicating the communicator");
      made.status != SPIDER_OK)
    return made;
  MPI_Comm_set_errhandler(duplicate, MPI_ERRORS_RETURN);
  auto grid = std::make_unique<spider_grid>();
  grid->communicator = std::make_shared<const Communicator>(duplicate);
  Outcome built = build(*grid, original, kernel, whole, periodic, result != nullptr);
  if (built.status == SPIDER_OK && result != nullptr) *result = grid.release();
  return built;
}

/// The sweeps that take turns, of this rank's part. The sweep has first images.
std::vector<spider_sweep> turns_of(const spider_grid& grid, const spider_sweep& sweep) {
  spider_sweep first = sweep;
  first.part = &grid.part;
  return rotate(first);
}

/// The fields that take turns, each once.
struct TurnField {
  const spider_field* field;
  const char* name;
};
std::vector<TurnField> fields_of(const spider_sweep& sweep) {
  std::vector<TurnField> fields{{sweep.in, "the input"}, {sweep.out, "the output"}};
  if (sweep.previous != nullptr && !is_in_place(*sweep.out, *sweep.previous))
    fields.push_back({sweep.previous, "the previous field"});
  if (sweep.out_previous != nullptr) fields.push_back({sweep.out_previous, "out_previous"});
  return fields;
}

/// Whether they are parts with their halos, in memory of their own.
Outcome check_turns(const spider_grid& grid, const std::vector<TurnField>& fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (Outcome fit = check_part_field(grid, fields[i].field, fields[i].name); fit.status != SPIDER_OK)
      return fit;
    const Span own = span_of(grid, *fields[i].field);
    for (std::size_t other = 0; other < i; ++other) {
      if (own.meets(span_of(grid, *fields[other].field)))
        return {SPIDER_ERROR_OVERLAP,
                "the memory of two fields that take turns, with their halos, interleaves"};
    }
  }
  return {};
}

/// Are there further fields whose halos sweeps of several steps read?
bool exchanges_fields(const spider_grid& grid) {
  return grid.kernel->info.steps > 1 && grid.kernel->info.field_count > 0;
}

/// Whether they are parts with their halos, of the storage that is exchanged, in memory of their own.
Outcome check_further(const spider_grid& grid, const spider_sweep& sweep,
                      const std::vector<TurnField>& turns) {
  const spider_kernel_info& info = grid.kernel->info;
  for (std::int32_t i = 0; i < info.field_count; ++i) {
    const std::string name = "the field " + std::string(info.field_names[i]);
    if (info.field_storages[i] != info.storage && grid.layout.ranks > 1) {
      return {
          SPIDER_ERROR_UNSUPPORTED,
          name +
              " is of another storage than the kernel; sweeps of several steps need its halo, and only "
              "fields of the kernel's storage are exchanged: give it that in the spec, or write 'steps: 1'"};
    }
    if (info.field_storages[i] != info.storage) continue;
    if (Outcome fit = check_part_field(grid, sweep.fields[i], name.c_str()); fit.status != SPIDER_OK)
      return fit;
    const Span own = span_of(grid, *sweep.fields[i]);
    const auto meets = [&](const spider_field& field) { return own.meets(span_of(grid, field)); };
    const auto is_met = [&](const TurnField& turn) { return meets(*turn.field); };
    bool is_met_by_field = false;  // of those before it that are exchanged; the same one may be given twice
    for (std::int32_t j = 0; j < i; ++j) {
      const spider_field& other = *sweep.fields[j];
      const bool is_same =
          other.data == sweep.fields[i]->data &&
          std::equal(std::begin(other.stride), std::end(other.stride), sweep.fields[i]->stride);
      is_met_by_field =
          is_met_by_field || (info.field_storages[j] == info.storage && !is_same && meets(other));
    }
    if (is_met_by_field || std::any_of(turns.begin(), turns.end(), is_met))
      return {SPIDER_ERROR_OVERLAP,
              "the memory of " + name + ", with its halo, and of another field interleaves"};
  }
  return {};
}

/// Whether all turns are fit before the first sweep overwrites anything.
Outcome check_sweeps(const spider_grid& grid, const spider_sweep* sweep, std::int64_t steps) {
  if (sweep == nullptr) return {SPIDER_ERROR_NULL, "the sweep is null"};
  if (sweep->size != sizeof(spider_sweep)) return check_run(grid.kernel, sweep);
  if (grid.is_of_field) {
    return {SPIDER_ERROR_UNSUPPORTED,
            "the grid is that of " + grid.cut.name + " alone: steps are the whole grid's"};
  }
  if (sweep->batch > 1)
    return {SPIDER_ERROR_UNSUPPORTED,
            "a sweep of a grid has no batch of its own: leave batch 0. Images are the planes of a grid of a "
            "kernel of one or two dimensions; for others call it for each image"};
  const bool is_system = grid.kernel->system != nullptr;
  if (!is_system && (sweep->in == nullptr || sweep->out == nullptr))
    return {SPIDER_ERROR_NULL, "a field is null"};
  if (steps < 0) return {SPIDER_ERROR_STEPS, std::to_string(steps) + " steps; there must be 0 or more"};
  if (sweep->part != nullptr ||
      std::any_of(sweep->offset, sweep->offset + 3, [](std::int64_t n) { return n != 0; }) ||
      std::any_of(sweep->extent, sweep->extent + 3, [](std::int64_t n) { return n != 0; }))
    return {SPIDER_ERROR_UNSUPPORTED,
            "a sweep of a grid has no part and no box of its own: leave them NULL and 0"};
  if (is_system) return check_system_steps(grid, *sweep);
  const std::vector<TurnField> fields = fields_of(*sweep);
  if (Outcome fit = check_turns(grid, fields); fit.status != SPIDER_OK) return fit;
  if (Outcome fit = check_images_of(*grid.kernel, *sweep, grid.images); fit.status != SPIDER_OK) return fit;
  const FirstImages first(*grid.kernel, *sweep, grid.images);
  std::vector<spider_sweep> turns = turns_of(grid, first.sweep());
  if (sweep->out_previous != nullptr) {
    for (const spider_sweep& single : rotate_in_place(turns.front())) turns.push_back(single);
  }
  for (const spider_sweep& turn : turns) {
    if (Outcome fit = check_run(grid.kernel, &turn); fit.status != SPIDER_OK) return fit;
    for (std::int32_t i = 0; steps > 1 && i < grid.kernel->info.field_count; ++i) {
      if (!is_in_place(*turn.out, *turn.fields[i])) continue;
      return {SPIDER_ERROR_OVERLAP, "the field " + std::string(grid.kernel->info.field_names[i]) +
                                        " is the memory of an output, and would change from step to step"};
    }
  }
  return exchanges_fields(grid) ? check_further(grid, *sweep, fields) : Outcome{};
}

/// The exchange of all images of a field, of which sweeps have the first.
Exchange exchange_of(const spider_grid& grid, spider_field field, const Messages& messages) {
  field.extent[0] = grid.layout.extent[0];
  return {field, &messages, grid.element_bytes};
}

/// One sweep. A rank that failed goes on exchanging, for the others wait for it.
void sweep_part(spider_grid& grid, const spider_sweep& sweep, std::int32_t steps, bool after_rims,
                Outcome& outcome) {
  Transport& transport = *grid.transport;
  const Messages& messages = steps == 1 ? grid.messages_of_a_step : grid.messages;
  // A single step reads the one before at its points alone.
  if (sweep.previous != nullptr && steps > 1) {
    keep_first(outcome,
               transport.begin({exchange_of(grid, *sweep.previous, messages)}, sweep.stream, after_rims));
    keep_first(outcome, transport.complete());
  }
  keep_first(outcome, transport.begin({exchange_of(grid, *sweep.in, messages)}, sweep.stream, after_rims));
  sweep_boxes(grid, sweep, grid.boxes.interior, steps, sweep.stream, outcome);
  keep_first(outcome, transport.complete());
  sweep_boxes(grid, sweep, grid.boxes.rims, steps, transport.rim_stream(sweep.stream), outcome);
  keep_first(outcome, transport.join(sweep.stream));
}

/// A sweep between two exchanges, and the planes that the next one takes of its output.
struct Turn {
  const spider_sweep* sweep;
  std::int32_t steps;
  const Messages* next;  ///< of the sweep that follows; null: there is none
};

const Messages& messages_of(const spider_grid& grid, std::int32_t steps) {
  return steps == 1 ? grid.messages_of_a_step : grid.messages;
}

/// Takes sweeps of a part one after the other.
class PartSweeps {
 public:
  explicit PartSweeps(spider_grid& grid) : grid_(grid) {}

  /// A sweep. Where its kernel says when rims are stored, they go to neighbours while it computes the rest.
  void take(const Turn& turn, Outcome& outcome) {
    const spider_sweep& sweep = *turn.sweep;
    const SweepWithRims* found = nullptr;
    keep_first(outcome, caught([&] {
                 Outcome finding = outcome;
                 found = &find(turn, finding);
                 return finding;
               }));
    // The neighbours exchange, whatever fails here.
    const SweepWithRims& with_rims = found == nullptr ? no_rims() : *found;
    if (!is_filled_ && with_rims.rim_blocks == 0 && !exchanges_first(grid_, turn.steps, sweep.stream)) {
      sweep_part(grid_, sweep, turn.steps, is_behind_rims_, outcome);
      is_behind_rims_ = true;
      return;
    }
    Transport& transport = *grid_.transport;
    if (!is_filled_)
      keep_first(outcome, transport.begin({exchange_of(grid_, *sweep.in, messages_of(grid_, turn.steps))},
                                          sweep.stream, is_behind_rims_));
    keep_first(outcome, transport.complete());
    keep_first(outcome, transport.join(sweep.stream));
    is_filled_ = with_rims.rim_blocks > 0;
    is_behind_rims_ = false;
    if (!is_filled_)
      return sweep_boxes(grid_, sweep, {whole_interior(*sweep.in)}, turn.steps, sweep.stream, outcome);
    if (outcome.status == SPIDER_OK) outcome = with_rims.sweep.launch(*grid_.kernel, sweep.stream);
    const bool is_launched = outcome.status == SPIDER_OK;
    keep_first(outcome, transport.begin_behind_rims(
                            {exchange_of(grid_, *sweep.out, *turn.next)},
                            is_launched ? static_cast<std::uint32_t>(with_rims.rim_blocks) : 0));
  }

 private:
  struct Known {
    Turn turn;
    SweepWithRims sweep;
  };

  [[nodiscard]] static const SweepWithRims& no_rims() {
    static const SweepWithRims none{};
    return none;
  }

  /// Without rim blocks where nothing follows, or the kernel says nothing of rims.
  [[nodiscard]] const SweepWithRims& find(const Turn& turn, Outcome& outcome) {
    const spider_kernel& kernel = *grid_.kernel;
    if (turn.next == nullptr || !has_one_halo(kernel) || outcome.status != SPIDER_OK) return no_rims();
    std::uint32_t* const counter = grid_.transport->rim_counter(turn.sweep->stream);
    const RimPlanes rims = rim_planes(*turn.next);
    if (counter == nullptr || rims.low + rims.high == 0) return no_rims();
    const auto is_it = [&](const Known& known) {
      return known.turn.sweep == turn.sweep && known.turn.steps == turn.steps && known.turn.next == turn.next;
    };
    const auto found = std::find_if(known_.begin(), known_.end(), is_it);
    if (found != known_.end()) return found->sweep;
    backend::Residencies residencies;
    keep_first(outcome, backend::prepare(kernel, residencies));
    if (outcome.status != SPIDER_OK) return no_rims();
    return known_
        .emplace_back(Known{turn, make_with_rims(kernel, *turn.sweep, residencies, turn.steps, rims,
                                                 reinterpret_cast<std::uintptr_t>(counter), grid_.rim_cuts)})
        .sweep;
  }

  spider_grid& grid_;
  std::vector<Known> known_;     ///< of the turns
  bool is_filled_ = false;       ///< has, or gets, the next input its halo?
  bool is_behind_rims_ = false;  ///< was the last sweep's output's rim written on the rim stream?
};

/// Fills the halo of a field. A rank that failed goes on exchanging, for the others wait for it.
Outcome fill_halo(spider_grid& grid, const spider_field& field, void* stream) {
  Outcome filled = grid.transport->begin({exchange_of(grid, field, grid.messages)}, stream, false);
  keep_first(filled, grid.transport->complete());
  keep_first(filled, grid.transport->join(stream));
  return filled;
}

/// How many steps the longest sweep has that does not go beyond `left`: one where a step reads the one
/// before, for which there is no second output.
std::int32_t longest_sweep(const spider_kernel& kernel, bool in_pairs, std::int64_t left) {
  if (kernel.info.previous != nullptr && !in_pairs) left = std::min<std::int64_t>(left, 1);
  for (std::int32_t i = 0; i < kernel.form_count; ++i) {
    if (kernel.forms[i].steps <= left) return kernel.forms[i].steps;
  }
  return 0;
}

/// Do the rims that a sweep stores first read all of its halo? Later exchanges write there as soon as those
/// are stored. Rims are as thick as what the next sweep takes of them: less than the halo where taps reach
/// one way alone, or a shorter sweep follows.
bool do_rims_read_halos(const spider_kernel& kernel, std::int64_t steps) {
  const spider_kernel_info& info = kernel.info;
  for (int axis = 0; axis < 3; ++axis) {
    if ((info.reach_low[axis] > 0) != (info.reach_high[axis] > 0)) return false;
  }
  return steps % info.steps == 0;
}

Outcome run(spider_grid& grid, const spider_sweep* sweep, std::int64_t steps, const spider_field** result) {
  spider_sweep appended{};
  if (sweep != nullptr && is_sweep_size(sweep->size)) {
    appended = extended(*sweep);
    sweep = &appended;
  }
  MPI_Comm communicator = grid.communicator->get();
  Outcome fit = caught([&] { return check_sweeps(grid, sweep, steps); });
  keep_first(fit, grid.transport->state());
  if (fit = agree(communicator, fit, static_cast<std::uint64_t>(steps), "the number of steps");
      fit.status != SPIDER_OK || sweep == nullptr)
    return fit;
  if (grid.kernel->system != nullptr) {
    if (result != nullptr) *result = nullptr;
    return agree(communicator, caught([&] { return take_system_steps(grid, *sweep, 0, steps); }));
  }
  Exchanges filled;  // in the neighbours' fields; none: all take slots
  if (do_rims_read_halos(*grid.kernel, steps)) {
    for (const TurnField& field : fields_of(*sweep)) {
      for (const Messages* messages : {&grid.messages, &grid.messages_of_a_step})
        filled.push_back(exchange_of(grid, *field.field, *messages));
    }
  }
  const Outcome opened = agree(communicator, grid.transport->open_fields(filled, sweep->stream));
  grid.went_into_fields = grid.transport->are_fields_open();
  if (opened.status != SPIDER_OK) return opened;
  Outcome swept;
  for (std::int32_t i = 0; exchanges_fields(grid) && i < grid.kernel->info.field_count; ++i) {
    if (grid.kernel->info.field_storages[i] == grid.kernel->info.storage)
      keep_first(swept, fill_halo(grid, *sweep->fields[i], sweep->stream));
  }
  std::size_t turn = 0;
  const FirstImages first(*grid.kernel, *sweep, grid.images);
  std::vector<spider_sweep> turns = turns_of(grid, first.sweep());
  bool in_pairs = sweep->out_previous != nullptr;
  PartSweeps sweeps(grid);
  for (std::int64_t left = steps; left > 0;) {
    const std::int32_t of_sweep = longest_sweep(*grid.kernel, in_pairs, left);
    if (of_sweep == 0) {
      swept = {SPIDER_ERROR_STEPS,
               std::to_string(steps) + " steps; the kernel has no sweep of the last " + std::to_string(left)};
      break;
    }
    if (in_pairs && of_sweep == 1) {
      turns = rotate_in_place(turns[turn]);
      turn = 0;
      in_pairs = false;
    }
    left -= of_sweep;
    const std::int32_t of_next = left == 0 ? 0 : longest_sweep(*grid.kernel, in_pairs, left);
    const Turn now{&turns[turn], of_sweep, of_next == 0 ? nullptr : &messages_of(grid, of_next)};
    keep_first(swept, caught([&] {
                 Outcome outcome = swept;
                 sweeps.take(now, outcome);
                 return outcome;
               }));
    turn = (turn + 1) % turns.size();
  }
  grid.transport->close_fields();
  if (result != nullptr) *result = first.whole_of(turns[turn].in);
  return agree(communicator, swept);
}

/// What all ranks must give alike, as one number.
std::uint64_t mark_of(std::int64_t steps, const ReductionBound& until) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &until.bound, sizeof bits);
  std::uint64_t mark = 0;
  for (const std::uint64_t one :
       {static_cast<std::uint64_t>(steps), bits, static_cast<std::uint64_t>(until.reduction),
        static_cast<std::uint64_t>(until.check_every)})
    mark = (mark ^ one) * 0x100000001b3U;
  return mark;
}

Outcome run_until(spider_grid& grid, const spider_sweep* sweep, std::int64_t steps, ReductionBound& until) {
  const bool is_known = sweep != nullptr && is_sweep_size(sweep->size);
  const spider_sweep appended = is_known ? extended(*sweep) : spider_sweep{};
  Outcome fit = caught([&]() -> Outcome {
    if (grid.kernel->system == nullptr) {
      return {SPIDER_ERROR_UNSUPPORTED, "the kernel " + std::string(grid.kernel->info.name) +
                                            " is no system of equations, and has no reductions"};
    }
    if (Outcome checked = check_sweeps(grid, is_known ? &appended : sweep, steps);
        checked.status != SPIDER_OK)
      return checked;
    return check_bound(*grid.kernel, appended, until);
  });
  keep_first(fit, grid.transport->state());
  fit = agree(grid.communicator->get(), fit, mark_of(steps, until),
              "the steps, the reduction, its bound and how often it is checked");
  return fit.status == SPIDER_OK ? take_system_steps_until(grid, appended, steps, until) : fit;
}

Outcome iterate(spider_grid& grid, const spider_field* a, const spider_field* b, std::int64_t steps,
                void* stream, const spider_field** result) {
  spider_sweep sweep{};
  sweep.size = sizeof sweep;
  sweep.in = a;
  sweep.out = b;
  sweep.stream = stream;
  return run(grid, &sweep, steps, result);
}

Outcome exchange(spider_grid& grid, const spider_field* field, void* stream) {
  MPI_Comm communicator = grid.communicator->get();
  Outcome fit = check_has_field(grid);
  keep_first(fit, check_part_field(grid, field, "the field"));
  keep_first(fit, grid.transport->state());
  if (fit = agree(communicator, fit); fit.status != SPIDER_OK) return fit;
  keep_first(fit, fill_halo(grid, *field, stream));
  return agree(communicator, fit);
}

/// Bytes to or from another rank, in pieces that MPI can count.
template <class Transfer>
Outcome in_pieces(std::vector<std::byte>& bytes, const Transfer& transfer) {
  constexpr std::size_t piece = std::size_t{1} << 30U;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const auto count = static_cast<int>(std::min(piece, bytes.size() - at));
    if (Outcome moved = of_mpi(transfer(bytes.data() + at, count), "moving a part");
        moved.status != SPIDER_OK)
      return moved;
  }
  return {};
}

Outcome check_root(const spider_grid& grid, std::int32_t root, const void* whole) {
  if (root < 0 || root >= grid.layout.ranks) {
    return {SPIDER_ERROR_RANKS,
            "root is rank " + std::to_string(root) + " of " + std::to_string(grid.layout.ranks)};
  }
  if (root == grid.layout.rank && whole == nullptr)
    return {SPIDER_ERROR_NULL, "the array of the whole is null"};
  return {};
}

spider_grid_layout layout_of(const spider_grid& grid, std::int32_t rank) {
  const spider_grid_layout& own = grid.layout;
  return make_layout(grid.cut, {own.part.whole[0], own.part.whole[1], own.part.whole[2]},
                     {own.parts[0], own.parts[1], own.parts[2]}, rank)
      .layout;
}

/// `own` is this rank's part.
Outcome send_parts(const spider_grid& grid, const std::byte* whole, std::vector<std::byte>& own) {
  for (std::int32_t rank = 0; rank < grid.layout.ranks; ++rank) {
    const spider_grid_layout layout = layout_of(grid, rank);
    if (rank == grid.layout.rank) {
      take_part(whole, layout, grid.element_bytes, own);
      continue;
    }
    std::vector<std::byte> part(part_bytes(layout, grid.element_bytes));
    take_part(whole, layout, grid.element_bytes, part);
    Outcome sent = in_pieces(part, [&](const std::byte* bytes, int count) {
      return MPI_Send(bytes, count, MPI_BYTE, rank, 0, grid.communicator->get());
    });
    if (sent.status != SPIDER_OK) return sent;
  }
  return {};
}

Outcome receive_parts(const spider_grid& grid, const std::vector<std::byte>& own, std::byte* whole) {
  for (std::int32_t rank = 0; rank < grid.layout.ranks; ++rank) {
    const spider_grid_layout layout = layout_of(grid, rank);
    if (rank == grid.layout.rank) {
      put_part(own, layout, grid.element_bytes, whole);
      continue;
    }
    std::vector<std::byte> part(part_bytes(layout, grid.element_bytes));
    Outcome received = in_pieces(part, [&](std::byte* bytes, int count) {
      return MPI_Recv(bytes, count, MPI_BYTE, rank, 0, grid.communicator->get(), MPI_STATUS_IGNORE);
    });
    if (received.status != SPIDER_OK) return received;
    put_part(part, layout, grid.element_bytes, whole);
  }
  return {};
}

Outcome scatter(const spider_grid& grid, const void* whole, std::int32_t root, const spider_field* field) {
  MPI_Comm communicator = grid.communicator->get();
  Outcome fit = check_has_field(grid);
  keep_first(fit, check_part_field(grid, field, "the field"));
  keep_first(fit, check_root(grid, root, whole));
  if (fit = agree(communicator, fit, static_cast<std::uint64_t>(root), "the root"); fit.status != SPIDER_OK)
    return fit;
  return agree(communicator, caught([&]() -> Outcome {
                 std::vector<std::byte> own(part_bytes(grid.layout, grid.element_bytes));
                 Outcome moved = root == grid.layout.rank
                                     ? send_parts(grid, static_cast<const std::byte*>(whole), own)
                                     : in_pieces(own, [&](std::byte* bytes, int count) {
                                         return MPI_Recv(bytes, count, MPI_BYTE, root, 0, communicator,
                                                         MPI_STATUS_IGNORE);
                                       });
                 return moved.status == SPIDER_OK ? upload_part(own, grid.element_bytes, *field) : moved;
               }));
}

Outcome gather(const spider_grid& grid, const spider_field* field, std::int32_t root, void* whole) {
  MPI_Comm communicator = grid.communicator->get();
  Outcome fit = check_has_field(grid);
  keep_first(fit, check_part_field(grid, field, "the field"));
  keep_first(fit, check_root(grid, root, whole));
  std::vector<std::byte> own;
  keep_first(fit, caught([&]() -> Outcome {
               if (field == nullptr) return {};
               own.resize(part_bytes(grid.layout, grid.element_bytes));
               return fit.status == SPIDER_OK ? download_part(*field, grid.element_bytes, own) : Outcome{};
             }));
  if (fit = agree(communicator, fit, static_cast<std::uint64_t>(root), "the root"); fit.status != SPIDER_OK)
    return fit;
  return agree(communicator, caught([&]() -> Outcome {
                 if (root == grid.layout.rank)
                   return receive_parts(grid, own, static_cast<std::byte*>(whole));
                 return in_pieces(own, [&](const std::byte* bytes, int count) {
                   return MPI_Send(bytes, count, MPI_BYTE, root, 0, communicator);
                 });
               }));
}

/// The devices that each rank sees, by its numbers.
struct SeenDevices {
  Outcome outcome;
  std::vector<std::vector<DeviceId>> of_rank;
};
SeenDevices gather_devices(MPI_Comm communicator) {
  int ranks = 1;
  MPI_Comm_size(communicator, &ranks);
  const DevicesOutcome own = visible_devices();
  SeenDevices seen{agree(communicator, own.outcome), {}};
  if (seen.outcome.status != SPIDER_OK) return seen;
  const int bytes = static_cast<int>(own.devices.size() * sizeof(DeviceId));
  std::vector<int> counts(static_cast<std::size_t>(ranks));
  seen.outcome = of_mpi(MPI_Allgather(&bytes, 1, MPI_INT, counts.data(), 1, MPI_INT, communicator),
                        "counting the devices of all ranks");
  if (seen.outcome.status != SPIDER_OK) return seen;
  std::vector<int> starts;
  int end = 0;
  for (const int count : counts) {
    starts.push_back(end);
    end += count;
  }
  std::vector<DeviceId> all(static_cast<std::size_t>(end) / sizeof(DeviceId));
  seen.outcome = of_mpi(MPI_Allgatherv(own.devices.data(), bytes, MPI_CHAR, all.data(), counts.data(),
                                       starts.data(), MPI_CHAR, communicator),
                        "comparing the devices of all ranks");
  auto at = all.begin();
  for (const int count : counts) {
    const auto next = at + count / static_cast<int>(sizeof(DeviceId));
    seen.of_rank.emplace_back(at, next);
    at = next;
  }
  return seen;
}

Outcome select(MPI_Comm communicator) {
  const SeenDevices seen = gather_devices(communicator);
  if (seen.outcome.status != SPIDER_OK) return seen.outcome;
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  const auto own = static_cast<std::size_t>(rank);
  const int device = assign_devices(seen.of_rank)[own];
  if (device >= 0) return agree(communicator, make_current(device));
  const std::size_t count = seen.of_rank[own].size();
  return agree(communicator,
               {SPIDER_ERROR_RANKS, "each rank needs a device of its own, and other ranks need " +
                                        std::string(count == 1 ? "the one" : "all " + std::to_string(count)) +
                                        " that this rank sees: start no more ranks on a host than it has "
                                        "devices, or show each rank its own by CUDA_VISIBLE_DEVICES"});
}

}  // namespace

Span span_of(const spider_grid& grid, const spider_field& field) {
  const spider_grid_layout& layout = grid.layout;
  std::int64_t before = layout.low[2];
  std::int64_t behind = layout.extent[2] + layout.high[2];
  for (int axis = 0; axis < 2; ++axis) {
    if (layout.low[axis] + layout.extent[axis] + layout.high[axis] == 1) continue;
    before += layout.low[axis] * field.stride[axis];
    behind += (layout.extent[axis] - 1 + layout.high[axis]) * field.stride[axis];
  }
  const auto data = reinterpret_cast<std::uintptr_t>(field.data);
  return {data - static_cast<std::uintptr_t>(before * grid.element_bytes),
          data + static_cast<std::uintptr_t>(behind * grid.element_bytes)};
}

void keep_first(Outcome& kept, Outcome next) {
  if (kept.status == SPIDER_OK) kept = std::move(next);
}

void sweep_boxes(const spider_grid& grid, spider_sweep sweep, const std::vector<Box>& boxes,
                 std::int32_t steps, void* stream, Outcome& outcome) {
  sweep.stream = stream;
  for (const Box& box : boxes) {
    if (outcome.status != SPIDER_OK) return;
    std::copy_n(box.offset, 3, sweep.offset);
    std::copy_n(box.extent, 3, sweep.extent);
    const spider_status status = spider_run_steps(grid.kernel, &sweep, steps, nullptr);
    if (status != SPIDER_OK) outcome = {status, spider_last_error()};
  }
}

Outcome check_has_field(const spider_grid& grid) {
  if (grid.fields.empty()) return {};
  return {SPIDER_ERROR_UNSUPPORTED, std::string("the kernel ") + grid.kernel->info.name +
                                        " is a system of equations: give one of its fields to the grid of "
                                        "that field, spider_grid_of_field"};
}

Outcome check_part_field(const spider_grid& grid, const spider_field* field, const char* name) {
  if (field == nullptr || field->data == nullptr)
    return {SPIDER_ERROR_NULL, std::string(name) + " is null, or has no data"};
  const spider_grid_layout& layout = grid.layout;
  std::array<std::int64_t, 3> cells{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (field->extent[axis] != layout.extent[axis]) {
      return {SPIDER_ERROR_EXTENT, std::string(name) + " has extent " + std::to_string(field->extent[axis]) +
                                       " along " + axis_names[axis] + ", and this rank's part has " +
                                       std::to_string(layout.extent[axis])};
    }
    cells[axis] = layout.low[axis] + layout.extent[axis] + layout.high[axis];
  }
  if (reinterpret_cast<std::uintptr_t>(field->data) % static_cast<std::uintptr_t>(grid.element_bytes) != 0)
    return {SPIDER_ERROR_ALIGNMENT, std::string(name) + " does not start on a multiple of its element size"};
  constexpr std::int64_t largest_stride = std::int64_t{1} << 40U;
  const std::int64_t row = cells[1] > 1 ? field->stride[1] : cells[2];
  const std::int64_t plane = cells[0] > 1 ? field->stride[0] : row * cells[1];
  if (row < cells[2] || row > largest_stride || plane < (cells[1] - 1) * row + cells[2] ||
      plane > largest_stride) {
    return {SPIDER_ERROR_STRIDE, std::string(name) + " has strides " + std::to_string(field->stride[0]) +
                                     " and " + std::to_string(field->stride[1]) +
                                     ", which do not keep its planes and rows of " +
                                     std::to_string(cells[2]) + " cells with their halo apart"};
  }
  return {};
}

}  // namespace spider::distributed

namespace distributed = spider::distributed;
using spider::guarded;
using spider::backend::Outcome;

namespace {

/// Calls `body` with the grid, if there is one.
template <class Grid, class Body>
spider_status with_grid(const char* function, Grid* grid, const Body& body) {
  return guarded(function, [&]() -> Outcome {
    if (grid == nullptr) return {SPIDER_ERROR_NULL, "the grid is null"};
    return body(*grid);
  });
}

}  // namespace

spider_status spider_grid_create(MPI_Comm communicator, const spider_kernel* kernel, const int64_t whole[3],
                                 const int32_t periodic[3], spider_grid** grid) {
  return guarded("spider_grid_create",
                 [&] { return distributed::create(communicator, kernel, whole, periodic, grid); });
}

spider_status spider_grid_create_f(MPI_Fint communicator, const spider_kernel* kernel, const int64_t whole[3],
                                   const int32_t periodic[3], spider_grid** grid) {
  return spider_grid_create(MPI_Comm_f2c(communicator), kernel, whole, periodic, grid);
}

spider_status spider_grid_free(spider_grid* grid) {
  if (grid != nullptr && grid->is_of_field) {
    return guarded("spider_grid_free", [&]() -> Outcome {
      return {SPIDER_ERROR_UNSUPPORTED,
              "the grid of " + grid->cut.name + " belongs to the whole grid: free that"};
    });
  }
  const std::unique_ptr<spider_grid> owner(grid);
  return SPIDER_OK;
}

spider_grid* spider_grid_of_field(const spider_grid* grid, int32_t field) {
  if (grid == nullptr || field < 0 || static_cast<std::size_t>(field) >= grid->fields.size()) return nullptr;
  return grid->fields[static_cast<std::size_t>(field)].get();
}

const spider_grid_layout* spider_grid_info(const spider_grid* grid) {
  return grid == nullptr ? nullptr : &grid->layout;
}

const char* spider_grid_transport(const spider_grid* grid) {
  return grid == nullptr ? nullptr : grid->routes[grid->went_into_fields ? 1 : 0].c_str();
}

spider_status spider_grid_exchange(spider_grid* grid, const spider_field* field, void* stream) {
  return with_grid("spider_grid_exchange", grid,
                   [&](spider_grid& known) { return distributed::exchange(known, field, stream); });
}

spider_status spider_grid_iterate(spider_grid* grid, const spider_field* a, const spider_field* b,
                                  int64_t steps, void* stream, const spider_field** result) {
  return with_grid("spider_grid_iterate", grid, [&](spider_grid& known) {
    return distributed::iterate(known, a, b, steps, stream, result);
  });
}

spider_status spider_grid_run(spider_grid* grid, const spider_sweep* sweep, int64_t steps,
                              const spider_field** result) {
  return with_grid("spider_grid_run", grid,
                   [&](spider_grid& known) { return distributed::run(known, sweep, steps, result); });
}

spider_status spider_grid_read_reductions(spider_grid* grid, spider_reductions* reductions, double* values,
                                          void* stream) {
  return with_grid("spider_grid_read_reductions", grid, [&](const spider_grid& known) {
    return distributed::read_all_reductions(known, reductions, values, stream);
  });
}

spider_status spider_grid_run_until(spider_grid* grid, const spider_sweep* sweep, int64_t steps,
                                    int32_t reduction, double bound, int64_t check_every, int64_t* done,
                                    double* values) {
  return with_grid("spider_grid_run_until", grid, [&](spider_grid& known) {
    std::array<double, spider::most_reductions> numbers{};
    spider::ReductionBound until{reduction, bound, check_every, numbers.data()};
    Outcome outcome = distributed::run_until(known, sweep, steps, until);
    if (done != nullptr) *done = until.done;
    if (values != nullptr) std::copy_n(numbers.begin(), known.kernel->info.reduction_count, values);
    return outcome;
  });
}

spider_status spider_grid_wait(spider_grid* grid, void* stream, double seconds) {
  return with_grid("spider_grid_wait", grid,
                   [&](spider_grid& known) { return known.transport->wait(stream, seconds); });
}

spider_status spider_grid_scatter(spider_grid* grid, const void* whole_on_host, int32_t root,
                                  const spider_field* field) {
  return with_grid("spider_grid_scatter", grid, [&](const spider_grid& known) {
    return distributed::scatter(known, whole_on_host, root, field);
  });
}

spider_status spider_grid_gather(spider_grid* grid, const spider_field* field, int32_t root,
                                 void* whole_on_host) {
  return with_grid("spider_grid_gather", grid, [&](const spider_grid& known) {
    return distributed::gather(known, field, root, whole_on_host);
  });
}

spider_status spider_grid_read_npy(spider_grid* grid, const char* path, const spider_field* field) {
  return with_grid("spider_grid_read_npy", grid,
                   [&](const spider_grid& known) { return distributed::read_npy(known, path, field); });
}

spider_status spider_grid_write_npy(spider_grid* grid, const spider_field* field, const char* path) {
  return with_grid("spider_grid_write_npy", grid,
                   [&](const spider_grid& known) { return distributed::write_npy(known, field, path); });
}

spider_status spider_select_device(MPI_Comm communicator) {
  return guarded("spider_select_device", [&]() -> Outcome {
    return spider::backend::kind() == SPIDER_BACKEND_CUDA ? distributed::select(communicator) : Outcome{};
  });
}

spider_status spider_select_device_f(MPI_Fint communicator) {
  return spider_select_device(MPI_Comm_f2c(communicator));
}
