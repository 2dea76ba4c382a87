#include "plan/schemes/stream3d.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace spidergen::plan {
namespace {

constexpr int vector_elements = 8;

// Fragments, addresses of copies and stores, counters, metadata. With four fewer, a star of radius 1 with two
// distinct operands got 128 registers, spilled, and took 707 us instead of 532 at 768 x 768 x 768.
constexpr int base_registers = 76;
// Registers of a thread where 16, 12 or 8 warps share a multiprocessor.
constexpr std::array<int, 3> register_budgets{128, 168, 255};
constexpr std::array<int, 3> resident_warps{16, 12, 8};

// With more, an underestimate would spill: a star of radius 4 with equal weights along y and z, estimated at
// 200, took 243. Pairs of rows of two steps of seven points, estimated at 224, do not spill.
constexpr int most_registers_of_added_row = 200;
constexpr int most_registers_of_added_pair = 224;

// Planes in flight while one is multiplied: fewer where these would leave room for fewer blocks.
constexpr int most_planes_ahead = 4;
constexpr int least_planes_ahead = 2;

// Blocks with long walks drift apart, until shared neighbours have left the L2 cache; blocks with short walks
// read and multiply many planes twice. The best length, in multiples of the planes before a walk's first
// output, where memory is the limit and where the tensor cores are (measured on an H200; the runtime takes up
// to twice the preferred planes).
constexpr int preferred_leads_of_memory = 3;
constexpr int preferred_leads_of_products = 8;
constexpr std::size_t most_products_of_memory = 8;
constexpr int least_preferred_planes = 8;
constexpr int largest_preferred_planes = 64;

// Without the system's share of up to four blocks.
constexpr int most_multiprocessor_bytes = shared_per_multiprocessor - 4 * reserved_per_block;

// More products, unrolled once per plane in flight, overflow the instruction cache: 560 products of three
// steps of seven points took 1620 us, and 962 in a loop.
constexpr int most_unrolled_products = 500;

// More compile for over half a minute, or leave no room in shared memory for a ring buffer.
constexpr std::size_t most_products = 400;
constexpr std::size_t most_operands = 200;

// Shared memory of a block on the smallest of the devices with 164 KiB a multiprocessor.
constexpr int most_shared_bytes = 160 * 1024;

/// A warp computes both rows of a pair.
std::vector<int> rows_to_try(const Contraction& contraction) {
  return contraction.mapping.pairs_rows() ? std::vector<int>{4, 2} : std::vector<int>{4, 2, 1};
}

int registers_of(const Problem& problem, const Contraction& contraction, int rows,
                 bool operands_in_registers) {
  const int accumulators =
      rows * contraction.planes_in_flight() * contraction.sums() * registers_per_accumulator;
  // In shared memory, operands are loaded one by one while the fragments stay.
  const int others = operands_in_registers
                         ? static_cast<int>(contraction.operands.size()) * registers_per_operand
                         : (rows + contraction.rows_spanned() - 1) * registers_per_operand;
  // For each row, the update's inputs of the next plane in flight.
  constexpr int registers_per_updated_row = 2;
  const int update = update_registers(problem.spec);
  return base_registers + accumulators + others + update +
         (update > 0 ? rows * registers_per_updated_row : 0);
}

/// Field columns in a block's fragments, relative to its first column.
struct Columns {
  int low = 0;
  int high = 0;
};

Columns columns_of(const Contraction& contraction) {
  Columns columns{0, tile_outputs};
  for (const Source& source : contraction.sources) {
    const auto [first, last] =
        std::minmax_element(source.mapping.column_input.begin(), source.mapping.column_input.end(),
                            [](const Position& a, const Position& b) { return a.x < b.x; });
    const int last_tile_column = tile_outputs - source.mapping.outputs_per_column;
    // Starts at a vector.
    columns.low = std::min(columns.low, (source.shift + first->x) / vector_elements * vector_elements);
    while (columns.low > source.shift + first->x) columns.low -= vector_elements;
    columns.high = std::max(columns.high, source.shift + last->x + last_tile_column + 1);
  }
  return columns;
}

/// Are the two rows of a pair fragment in different halves of the 32 banks when they are `words` apart? Eight
/// lanes at a time load 64 bytes of each.
bool apart(int words) {
  return ((words % 32) + 32) % 32 == 16;
}

/// The smallest row and plane pitch without bank conflicts in fragment loads, if there is one; rows stay
/// aligned modulo 32 bytes.
void pad_ring(const Contraction& contraction, Stream3d& planes) {
  constexpr int step_words = sector_bytes / word_bytes;
  const int row_bytes =
      planes.lead_bytes + (tile_outputs / vector_elements + planes.right_vectors) * vector_bytes;
  const int least_words = (row_bytes + sector_bytes - 1) / sector_bytes * step_words;
  int row_words = least_words;
  const auto rows_apart = [&] {
    return std::all_of(contraction.sources.begin(), contraction.sources.end(), [&](const Source& source) {
      const int distance = source.distance().y;
      return distance == 0 || apart(distance * row_words);
    });
  };
  while (!rows_apart() && row_words < least_words + 3 * step_words) row_words += step_words;
  if (!rows_apart()) row_words = least_words;
  const int rows = planes.rows_per_warp * planes.warps_per_block + contraction.rows_spanned() - 1;
  const int least_plane_words = rows * row_words;
  int plane_words = least_plane_words;
  const auto planes_apart = [&] {
    return std::all_of(contraction.sources.begin(), contraction.sources.end(), [&](const Source& source) {
      const int distance = source.distance().z;
      return distance == 0 ||
             (apart(distance * plane_words) && apart((distance - planes.ring_planes) * plane_words));
    });
  };
  while (!planes_apart() && plane_words < least_plane_words + 3 * step_words) plane_words += step_words;
  if (!planes_apart()) plane_words = least_plane_words;
  planes.row_bytes = row_words * word_bytes;
  planes.plane_bytes = plane_words * word_bytes;
}

int largest_plane_distance(const Contraction& contraction) {
  int distance = 0;
  for (const Source& source : contraction.sources) distance = std::max(distance, source.distance().z);
  return distance;
}

int shared_bytes_of(const Contraction& contraction, const Stream3d& planes) {
  const int operands =
      planes.operands_in_registers ? 0 : static_cast<int>(contraction.operands.size()) * operand_bytes;
  return planes.lead_bytes + planes.ring_planes * planes.plane_bytes + operands;
}

/// The most rows and warps that fit the registers, with operands at this place.
bool fit_registers(const Problem& problem, const Contraction& contraction, bool operands_in_registers,
                   Stream3d& planes) {
  for (const int rows : rows_to_try(contraction)) {
    for (std::size_t i = 0; i < register_budgets.size(); ++i) {
      const int registers = registers_of(problem, contraction, rows, operands_in_registers);
      if (registers > register_budgets[i]) continue;
      planes.operands_in_registers = operands_in_registers;
      planes.rows_per_warp = rows;
      planes.estimated_registers = registers;
      planes.warps_per_block = resident_warps[i] == 16 ? 8 : 4;
      planes.blocks_per_multiprocessor = resident_warps[i] / planes.warps_per_block;
      return true;
    }
    // Few rows a warp load many fragments each: operands in shared memory are better.
    if (operands_in_registers && rows == 2) return false;
  }
  return false;
}

bool memory_binds(const Contraction& contraction) {
  return contraction.products.size() <= most_products_of_memory;
}

/// Where few warps share a multiprocessor anyway, one more row, or pair, costs no warps, and blocks share
/// fewer rows: two steps of seven points take 601 us instead of 633, a box of radius 1 in two terms 634
/// instead of 680.
void add_row(const Problem& problem, const Contraction& contraction, Stream3d& planes) {
  const bool few_warps = planes.warps_per_block * planes.blocks_per_multiprocessor == resident_warps.back();
  const bool pairs_rows = contraction.mapping.pairs_rows();
  const int rows = planes.rows_per_warp + (pairs_rows ? 2 : 1);
  const int registers = registers_of(problem, contraction, rows, true);
  if (memory_binds(contraction) || !few_warps || !planes.operands_in_registers ||
      planes.rows_per_warp != rows_to_try(contraction).front() ||
      registers > (pairs_rows ? most_registers_of_added_pair : most_registers_of_added_row)) {
    return;
  }
  planes.rows_per_warp = rows;
  planes.estimated_registers = registers;
}

/// Planes of a round: where a round goes once round the ring buffer, a plane's place in it is a constant.
int choose_unrolled_planes(const Contraction& contraction, const Stream3d& planes) {
  const int in_flight = contraction.planes_in_flight();
  const int products = static_cast<int>(contraction.products.size()) * planes.rows_per_warp;
  if (products * in_flight > most_unrolled_products) return 1;
  const bool rounds_meet = planes.ring_planes % in_flight == 0 && memory_binds(contraction);
  return rounds_meet && products * planes.ring_planes <= most_unrolled_products ? planes.ring_planes
                                                                                : in_flight;
}

/// The ring buffer: its rows are those of the fragments; the block's own columns have their alignment in
/// memory, modulo 32 bytes.
void set_columns(const Contraction& contraction, Stream3d& planes) {
  const Columns columns = columns_of(contraction);
  planes.first_column = columns.low;
  planes.left_vectors = -columns.low / vector_elements;
  planes.right_vectors = divide_up(columns.high - tile_outputs, vector_elements);
  planes.lead_bytes = round_up(planes.left_vectors * vector_bytes, sector_bytes);
}

/// Why there are too many operands for shared memory, or products for half a minute of compilation.
std::string objection_to(const Contraction& contraction) {
  if (contraction.products.size() > most_products) {
    return fmt::format("it takes {} products a plane; kernels of more than {} compile for too long",
                       contraction.products.size(), most_products);
  }
  if (contraction.operands.size() > most_operands) {
    return fmt::format("it takes {} different operands; a block's shared memory has room for {}",
                       contraction.operands.size(), most_operands);
  }
  return {};
}

/// Memory and products overlap partly. On an H200 at 768 x 768 x 768, boxes took 510 us with 6 products, 739
/// to 772 with 15 and 1303 with 28, stars 492 to 537 with 5 and 685 with 9 (radius 4); two steps of seven
/// points 601 with 11.
double sweep_us(const SweepBound& bound) {
  constexpr double slower_than_memory = 1.2;
  constexpr double slower_than_products = 1.49;
  constexpr double exponent = 3;  // models the overlap
  const double both =
      std::pow(bound.memory_us, exponent) + std::pow(slower_than_products * bound.tensor_us, exponent);
  return std::max(slower_than_memory * bound.memory_us, std::pow(both, 1 / exponent));
}

/// The time of an update besides the bytes that it reads. With one field, stars of radius 1 and 2 took 1348
/// and 1284 us; boxes, whose lanes load and store two cells at a time, 1834 and 1922. With sums alone,
/// gradient magnitudes of 5 and of 16 products took 730 and 994.
double update_us(const spec::StencilSpec& spec, const Contraction& contraction) {
  if (!spec.update) return 0;
  if (spec.update->is_of_sums_alone()) return 200;
  return contraction.mapping.pairs_rows() ? 1100 : 560;
}

}  // namespace

bool Stream3d::takes(const Problem& problem, const Contraction& contraction) {
  return contraction.on_tensor_cores() && problem.spec.dimensions == 3;
}

Offer<Stream3d> Stream3d::plan(const Problem& problem, const Contraction& contraction) {
  Stream3d planes;
  set_columns(contraction, planes);
  if (!fit_registers(problem, contraction, true, planes) &&
      !fit_registers(problem, contraction, false, planes)) {
    // The most possible planes in flight, and many shifts: the compiler may have to spill.
    planes.operands_in_registers = false;
    planes.rows_per_warp = rows_to_try(contraction).back();
    planes.warps_per_block = 4;
    planes.estimated_registers = register_budgets.back();
  }
  add_row(problem, contraction, planes);
  const int distance = largest_plane_distance(contraction);
  planes.ring_planes = distance + 1 + most_planes_ahead;
  if (distance == 0 && (planes.ring_planes + 1) % contraction.planes_in_flight() == 0) ++planes.ring_planes;
  pad_ring(contraction, planes);
  const auto takes_too_much = [&] {
    const int bytes = shared_bytes_of(contraction, planes);
    return bytes > most_shared_bytes || bytes * planes.blocks_per_multiprocessor > most_multiprocessor_bytes;
  };
  while (planes.ring_planes > distance + 1 + least_planes_ahead && takes_too_much()) {
    --planes.ring_planes;
    pad_ring(contraction, planes);
  }
  while (planes.warps_per_block > 1 && shared_bytes_of(contraction, planes) > most_shared_bytes) {
    planes.warps_per_block /= 2;
    pad_ring(contraction, planes);
  }
  planes.blocks_per_multiprocessor = std::clamp(
      shared_per_multiprocessor / shared_bytes_of(contraction, planes), 1, planes.blocks_per_multiprocessor);
  const int leads = memory_binds(contraction) ? preferred_leads_of_memory : preferred_leads_of_products;
  planes.preferred_planes = std::clamp(leads * (contraction.plane_high - contraction.plane_low),
                                       least_preferred_planes, largest_preferred_planes);
  planes.unrolled_planes = choose_unrolled_planes(contraction, planes);
  planes.shared_bytes = shared_bytes_of(contraction, planes);
  const SweepBound bound = bound_reference(
      problem.spec.dimensions, {.bytes_per_point = 2.0 * contraction.element_bytes,
                                .mmas_per_128_points = static_cast<double>(contraction.products.size())});
  return {planes, sweep_us(bound) + update_us(problem.spec, contraction), objection_to(contraction)};
}

std::string Stream3d::add(const BoundaryContribution& added) {
  if (!added.exist()) return {};
  constexpr int row_bytes_of_lanes = 32 * 16;
  const auto count = [&](int axis) { return added.near[axis][0] + 1 + added.near[axis][1]; };
  shared_bytes += count(0) * count(1) * row_bytes_of_lanes;
  if (shared_bytes <= most_shared_bytes) return {};
  return "what constants beyond faces add finds no room in shared memory";
}

}  // namespace spidergen::plan
