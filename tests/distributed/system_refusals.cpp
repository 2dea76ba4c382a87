/// What grids of systems of equations refuse: the same status on every rank, with words that say why. Four
/// ranks under mpiexec.
#include <spider/distributed.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

extern "C" const spider_kernel* half_ring_kernel();

namespace {

int failures = 0;
int checks = 0;

/// All ranks must have this status, and words with this part; those whose rank is named may have more.
void expect(const char* what, spider_status status, spider_status wanted, const std::string& words) {
  std::array<int, 2> range{status, -status};
  MPI_Allreduce(MPI_IN_PLACE, range.data(), 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  const bool told = wanted == SPIDER_OK || std::string(spider_last_error()).find(words) != std::string::npos;
  ++checks;
  if (range[0] == wanted && range[1] == -wanted && told) return;
  ++failures;
  std::fprintf(stderr, "%s: status %d, wanted %d: %s\n", what, status, wanted, spider_last_error());
}

void check(const char* what, bool is_right) {
  ++checks;
  if (is_right) return;
  ++failures;
  std::fprintf(stderr, "%s\n", what);
}

spider_status make(MPI_Comm ranks, std::int64_t rows, std::int64_t columns, spider_grid** grid) {
  const std::array<std::int64_t, 3> whole{1, rows, columns};
  return spider_grid_create(ranks, half_ring_kernel(), whole.data(), nullptr, grid);
}

/// Memory of f32 for this rank's part of a field.
class Field {
 public:
  explicit Field(const spider_grid* grid) {
    const spider_grid_layout& layout = *spider_grid_info(grid);
    const std::int64_t row = layout.low[2] + layout.extent[2] + layout.high[2];
    cells_.resize(static_cast<std::size_t>(row * (layout.low[1] + layout.extent[1] + layout.high[1])));
    view.data = cells_.data() + layout.low[1] * row + layout.low[2];
    for (int axis = 0; axis < 3; ++axis) view.extent[axis] = layout.extent[axis];
    view.stride[1] = row;
  }
  spider_field view{};

 private:
  std::vector<float> cells_;
};

void check_cuts() {
  spider_grid* grid = nullptr;
  const std::array<int, 2> parts{2, 2};
  const std::array<int, 2> none{0, 0};
  MPI_Comm blocks = MPI_COMM_NULL;
  MPI_Cart_create(MPI_COMM_WORLD, 2, parts.data(), none.data(), 0, &blocks);
  expect("an axis that is a ring for some", make(blocks, 64, 96, &grid), SPIDER_ERROR_UNSUPPORTED,
         "are periodic on axis x, and v is not: such an axis cannot be cut");
  MPI_Comm_free(&blocks);
  expect("parts narrower than the halo", make(MPI_COMM_WORLD, 3, 96, &grid), SPIDER_ERROR_EXTENT,
         "cells along y, and of 4 parts of 3 cells");
}

void check_calls() {
  spider_grid* grid = nullptr;
  expect("a grid", make(MPI_COMM_WORLD, 64, 96, &grid), SPIDER_OK, "");
  check("an axis that cannot be cut has more than a rank", spider_grid_info(grid)->parts[1] == 4);
  check("a field that is none has a grid", spider_grid_of_field(grid, 3) == nullptr &&
                                               spider_grid_of_field(grid, -1) == nullptr &&
                                               spider_grid_of_field(nullptr, 0) == nullptr);
  std::array<spider_grid*, 3> of{};
  for (std::int32_t i = 0; i < 3; ++i) of[static_cast<std::size_t>(i)] = spider_grid_of_field(grid, i);
  check("a field of one axis has the cells of another",
        spider_grid_info(of[2])->extent[1] == 1 && spider_grid_info(of[2])->extent[2] == 96);
  Field u(of[0]);
  Field v(of[1]);
  Field damp(of[2]);
  expect("a field of a system's grid", spider_grid_exchange(grid, &u.view, nullptr), SPIDER_ERROR_UNSUPPORTED,
         "is a system of equations: give one of its fields to the grid of that field");
  expect("a field's own grid", spider_grid_exchange(of[0], &u.view, nullptr), SPIDER_OK, "");
  expect("another field's", spider_grid_exchange(of[0], &damp.view, nullptr), SPIDER_ERROR_EXTENT,
         "this rank's part has");
  expect("freeing a field's", spider_grid_free(of[0]), SPIDER_ERROR_UNSUPPORTED, "free that");
  const std::array<const spider_field*, 3> fields{&u.view, &v.view, &damp.view};
  spider_sweep sweep{};
  sweep.size = sizeof sweep;
  sweep.fields = fields.data();
  expect("steps", spider_grid_run(grid, &sweep, 2, nullptr), SPIDER_OK, "");
  expect("steps of a field", spider_grid_run(of[0], &sweep, 2, nullptr), SPIDER_ERROR_UNSUPPORTED,
         "steps are the whole grid's");
  expect("two fields of a system", spider_grid_iterate(grid, &u.view, &v.view, 2, nullptr, nullptr),
         SPIDER_ERROR_UNSUPPORTED, "in, out");
  sweep.first_launch = 1;
  sweep.launch_count = 1;
  expect("a launch", spider_grid_run(grid, &sweep, 1, nullptr), SPIDER_ERROR_UNSUPPORTED,
         "runs all launches");
  sweep.first_launch = sweep.launch_count = 0;
  const std::array<const spider_field*, 3> same{&u.view, &u.view, &damp.view};
  sweep.fields = same.data();
  expect("one memory for two", spider_grid_run(grid, &sweep, 1, nullptr), SPIDER_ERROR_OVERLAP, "rank 0: ");
  std::int64_t done = -1;
  expect("no reductions to stop at", spider_grid_run_until(grid, &sweep, 1, 0, 1.0, 1, &done, nullptr),
         SPIDER_ERROR_OVERLAP, "rank 0: ");
  sweep.fields = fields.data();
  expect("a bound of nothing", spider_grid_run_until(grid, &sweep, 1, 0, 1.0, 1, &done, nullptr),
         SPIDER_ERROR_UNSUPPORTED, "no reduction 0");
  check("no step was taken", done == 0);
  double value = 0;
  expect("reductions that are none", spider_grid_read_reductions(grid, nullptr, &value, nullptr),
         SPIDER_ERROR_NULL, "null");
  spider_grid_free(grid);
}

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  check_cuts();
  check_calls();
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("%d refusals, %d failures\n", checks, failures);
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
