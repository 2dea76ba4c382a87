/// What distributed fields refuse: the same status on every rank, with words that say why. Four ranks under
/// mpiexec.
#include <spider/distributed.h>
#include <spider/memory.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

extern "C" const spider_kernel* heat2d_kernel();
extern "C" const spider_kernel* gauss2d_r7_kernel();

namespace {

int failures = 0;
int checks = 0;

int rank_of(MPI_Comm ranks) {
  int rank = 0;
  MPI_Comm_rank(ranks, &rank);
  return rank;
}

/// All ranks must have this status, and words with this part; those whose rank is named may have more.
void expect(const char* what, spider_status status, spider_status wanted, const std::string& words) {
  std::array<int, 2> range{status, -status};
  MPI_Allreduce(MPI_IN_PLACE, range.data(), 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  const bool told = wanted == SPIDER_OK || std::string(spider_last_error()).find(words) != std::string::npos;
  ++checks;
  if (range[0] == wanted && range[1] == -wanted && told) return;
  ++failures;
  std::fprintf(stderr, "rank %d: %s: status %d, wanted %d: %s\n", rank_of(MPI_COMM_WORLD), what, status,
               wanted, spider_last_error());
}

/// Memory for this rank's part of a grid, of two bytes a cell.
class Field {
 public:
  explicit Field(const spider_grid* grid) {
    const spider_grid_layout& layout = *spider_grid_info(grid);
    const std::int64_t row = layout.low[2] + layout.extent[2] + layout.high[2] + 8;
    const std::int64_t rows = layout.low[1] + layout.extent[1] + layout.high[1];
    cells_.resize(static_cast<std::size_t>(layout.extent[0] * (row * rows + 1) + 16));
    view_.data = cells_.data() + layout.low[1] * row + layout.low[2];
    for (int axis = 0; axis < 3; ++axis) view_.extent[axis] = layout.extent[axis];
    view_.stride[0] = row * rows + 1;
    view_.stride[1] = row;
  }
  [[nodiscard]] spider_field view() const { return view_; }

 private:
  std::vector<std::uint16_t> cells_;
  spider_field view_{};
};

spider_status make(MPI_Comm ranks, const spider_kernel* kernel, std::int64_t rows, std::int64_t columns,
                   spider_grid** grid, const std::int32_t* periodic = nullptr) {
  const std::array<std::int64_t, 3> whole{1, rows, columns};
  return spider_grid_create(ranks, kernel, whole.data(), periodic, grid);
}

void check_creation() {
  const int rank = rank_of(MPI_COMM_WORLD);
  spider_grid* grid = nullptr;
  expect("a null kernel", make(MPI_COMM_WORLD, nullptr, 64, 64, &grid), SPIDER_ERROR_NULL, "null");
  expect("a null communicator", make(MPI_COMM_NULL, heat2d_kernel(), 64, 64, &grid), SPIDER_ERROR_NULL,
         "communicator");
  expect("extents that differ", make(MPI_COMM_WORLD, heat2d_kernel(), 64 + rank / 2, 64, &grid),
         SPIDER_ERROR_RANKS, "rank 2: ranks differ: this one has heat2d");
  expect("kernels that differ",
         make(MPI_COMM_WORLD, rank == 1 ? gauss2d_r7_kernel() : heat2d_kernel(), 64, 64, &grid),
         SPIDER_ERROR_RANKS, "rank 1: ranks differ");
  expect("no kernel on one rank", make(MPI_COMM_WORLD, rank == 3 ? nullptr : heat2d_kernel(), 64, 64, &grid),
         SPIDER_ERROR_NULL, "rank 3: ");
  expect("an extent of 0", make(MPI_COMM_WORLD, heat2d_kernel(), 0, 64, &grid), SPIDER_ERROR_EXTENT,
         "extent 0 on axis y");
  const std::array<std::int32_t, 3> periodic{0, 1, 0};
  expect("periodic where the rule is another",
         make(MPI_COMM_WORLD, heat2d_kernel(), 64, 64, &grid, periodic.data()), SPIDER_ERROR_RANKS,
         "is periodic along y, and the rule of heat2d there is nearest");
  const std::array<int, 2> parts{4, 1};
  const std::array<int, 2> periods{1, 0};
  MPI_Comm ring = MPI_COMM_NULL;
  MPI_Cart_create(MPI_COMM_WORLD, 2, parts.data(), periods.data(), 0, &ring);
  expect("a ring where the rule is another", make(ring, heat2d_kernel(), 64, 64, &grid), SPIDER_ERROR_RANKS,
         "the Cartesian communicator is periodic along y, and the rule of heat2d there is nearest");
  MPI_Comm_free(&ring);
  const std::array<int, 2> none{0, 0};
  MPI_Comm rows = MPI_COMM_NULL;
  MPI_Cart_create(MPI_COMM_WORLD, 2, parts.data(), none.data(), 0, &rows);
  expect("parts narrower than the halo", make(rows, gauss2d_r7_kernel(), 7, 64, &grid), SPIDER_ERROR_EXTENT,
         "cells along y, and of 4 parts of 7 cells part 0 has 1");
  const std::array<int, 3> cube{4, 1, 1};
  const std::array<int, 3> no_periods{0, 0, 0};
  MPI_Comm volume = MPI_COMM_NULL;
  MPI_Cart_create(MPI_COMM_WORLD, 3, cube.data(), no_periods.data(), 0, &volume);
  expect("three dimensions for a kernel of two", make(volume, heat2d_kernel(), 64, 64, &grid),
         SPIDER_ERROR_RANKS, "has 3 dimensions, and heat2d has 2");
  MPI_Comm_free(&volume);
  MPI_Comm_free(&rows);
  const std::array<std::int64_t, 3> images{0, 64, 64};
  expect("no images", spider_grid_create(MPI_COMM_WORLD, heat2d_kernel(), images.data(), nullptr, &grid),
         SPIDER_ERROR_EXTENT, "the whole has 0 planes, which are images of the kernel heat2d");
  expect("no grid", spider_grid_exchange(nullptr, nullptr, nullptr), SPIDER_ERROR_NULL, "the grid is null");
}

void check_calls() {
  const int rank = rank_of(MPI_COMM_WORLD);
  spider_grid* grid = nullptr;
  expect("a grid", make(MPI_COMM_WORLD, heat2d_kernel(), 64, 96, &grid), SPIDER_OK, "");
  const Field a(grid);
  const Field b(grid);
  const spider_field one = a.view();
  const spider_field two = b.view();
  spider_field broken = two;
  if (rank == 2) broken.extent[1] += 1;
  expect("one rank's extent", spider_grid_iterate(grid, &one, &broken, 2, nullptr, nullptr),
         SPIDER_ERROR_EXTENT, "rank 2: the output has extent");
  broken = two;
  if (rank == 1) broken.data = nullptr;
  expect("one rank's data", spider_grid_exchange(grid, &broken, nullptr), SPIDER_ERROR_NULL, "rank 1: ");
  broken = two;
  if (rank == 0) broken.stride[1] = 1;
  expect("one rank's stride", spider_grid_exchange(grid, &broken, nullptr), SPIDER_ERROR_STRIDE, "rank 0: ");
  expect("one field for both", spider_grid_iterate(grid, &one, &one, 2, nullptr, nullptr),
         SPIDER_ERROR_OVERLAP, "rank 0: ");
  expect("steps that differ", spider_grid_iterate(grid, &one, &two, rank == 3 ? 2 : 1, nullptr, nullptr),
         SPIDER_ERROR_RANKS, "ranks differ in the number of steps");
  expect("steps below 0", spider_grid_iterate(grid, &one, &two, -1, nullptr, nullptr), SPIDER_ERROR_STEPS,
         "-1 steps");
  expect("a root that is no rank", spider_grid_gather(grid, &one, 4, nullptr), SPIDER_ERROR_RANKS,
         "root is rank 4 of 4");
  expect("a root without memory", spider_grid_scatter(grid, nullptr, 1, &one), SPIDER_ERROR_NULL, "rank 1: ");
  spider_sweep sweep{};
  sweep.size = sizeof sweep;
  sweep.in = &one;
  sweep.out = &two;
  sweep.batch = 2;
  expect("a batch", spider_grid_run(grid, &sweep, 1, nullptr), SPIDER_ERROR_UNSUPPORTED, "leave batch 0");
  expect("no steps", spider_grid_iterate(grid, &one, &two, 0, nullptr, nullptr), SPIDER_OK, "");
  expect("waiting", spider_grid_wait(grid, nullptr, 1), SPIDER_OK, "");
  spider_grid_free(grid);
}

void check_images() {
  const int rank = rank_of(MPI_COMM_WORLD);
  const std::array<std::int64_t, 3> whole{3, 64, 96};
  spider_grid* grid = nullptr;
  expect("a grid of images",
         spider_grid_create(MPI_COMM_WORLD, heat2d_kernel(), whole.data(), nullptr, &grid), SPIDER_OK, "");
  const Field a(grid);
  const Field b(grid);
  const spider_field one = a.view();
  const spider_field two = b.view();
  expect("steps of images", spider_grid_iterate(grid, &one, &two, 2, nullptr, nullptr), SPIDER_OK, "");
  spider_field broken = two;
  if (rank == 1) broken.stride[0] -= 1;
  expect("images that lie otherwise", spider_grid_iterate(grid, &one, &broken, 2, nullptr, nullptr),
         SPIDER_ERROR_STRIDE, "rank 1: the images of the output lie");
  broken = two;
  if (rank == 2) broken.stride[0] = 0;
  expect("images in one another", spider_grid_exchange(grid, &broken, nullptr), SPIDER_ERROR_STRIDE,
         "rank 2: ");
  broken = two;
  if (rank == 3) broken.extent[0] = 1;
  expect("one image", spider_grid_exchange(grid, &broken, nullptr), SPIDER_ERROR_EXTENT,
         "rank 3: the field has extent 1 along z, and this rank's part has 3");
  spider_grid_free(grid);
}

std::string path_of(const char* name) {
  return (std::filesystem::temp_directory_path() / name).string();
}

/// Numbers of 16 bits as NumPy writes them.
void write_file(const std::string& path, const std::string& dictionary, std::size_t cells) {
  std::string header = dictionary;
  header.append(63 - (header.size() + 10) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  const std::array<char, 2> length{static_cast<char>(header.size() & 0xFFU),
                                   static_cast<char>(header.size() >> 8U)};
  file.write(length.data(), 2);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  const std::vector<char> zeros(2 * cells);
  file.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
}

void check_files() {
  const int rank = rank_of(MPI_COMM_WORLD);
  spider_grid* grid = nullptr;
  expect("a grid", make(MPI_COMM_WORLD, heat2d_kernel(), 37, 96, &grid), SPIDER_OK, "");
  const Field a(grid);
  const spider_field field = a.view();
  const std::string path = path_of("spider_distributed.npy");
  struct Bad {
    const char* dictionary;
    std::size_t cells;
    spider_status status;
    const char* words;
  };
  const std::array<Bad, 7> files{
      Bad{"{'descr': '<f2', 'fortran_order': False, 'shape': (37, 96", 37 * 96, SPIDER_ERROR_EXTENT,
          "ends within its shape"},
      Bad{"{'descr': '<f2', 'fortran_order': False, 'shape': (37, 97), }", 37 * 97, SPIDER_ERROR_EXTENT,
          "has shape 37 x 97, and the whole is 37 x 96"},
      Bad{"{'descr': '<f4', 'fortran_order': False, 'shape': (37, 96), }", 2 * 37 * 96,
          SPIDER_ERROR_UNSUPPORTED, "holds <f4, and heat2d stores <f2"},
      Bad{"{'descr': '<f2', 'fortran_order': True, 'shape': (37, 96), }", 37 * 96, SPIDER_ERROR_EXTENT,
          "Fortran's order"},
      Bad{"{'descr': '<f2', 'fortran_order': False, 'shape': (37, 96), }", 36 * 96, SPIDER_ERROR_EXTENT,
          "its header asks for"},
      Bad{"{'descr': [('a', '<f2')], 'fortran_order': False, 'shape': (37, 96), }", 37 * 96,
          SPIDER_ERROR_EXTENT, "records"},
      Bad{"{'descr': '<f2'}", 37 * 96, SPIDER_ERROR_EXTENT, "lacks"}};
  for (const Bad& bad : files) {
    if (rank == 0) write_file(path, bad.dictionary, bad.cells);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(bad.dictionary, spider_grid_read_npy(grid, path.c_str(), &field), bad.status, bad.words);
  }
  if (rank == 0) std::ofstream(path) << "no numbers";
  MPI_Barrier(MPI_COMM_WORLD);
  expect("a file that is none", spider_grid_read_npy(grid, path.c_str(), &field), SPIDER_ERROR_UNSUPPORTED,
         "is no .npy file");
  expect("no such file", spider_grid_read_npy(grid, "/nonexistent/file.npy", &field), SPIDER_ERROR_RANKS,
         "opening");
  expect("no such folder", spider_grid_write_npy(grid, &field, "/nonexistent/file.npy"), SPIDER_ERROR_RANKS,
         "opening");
  if (rank == 0)
    write_file(path, "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 37, 96), }", 37 * 96);
  MPI_Barrier(MPI_COMM_WORLD);
  expect("a leading axis of one", spider_grid_read_npy(grid, path.c_str(), &field), SPIDER_OK, "");
  if (rank == 0) std::filesystem::remove(path);
  spider_grid_free(grid);
}

}  // namespace

int main(int count, char** arguments) {
  const std::array<std::int64_t, 3> whole{1, 64, 64};
  spider_grid* grid = nullptr;
  const bool early = spider_grid_create(MPI_COMM_WORLD, heat2d_kernel(), whole.data(), nullptr, &grid) ==
                         SPIDER_ERROR_RANKS &&
                     std::string(spider_last_error()).find("MPI_Init") != std::string::npos;
  MPI_Init(&count, &arguments);
  failures += early ? 0 : 1;
  check_creation();
  check_calls();
  check_images();
  check_files();
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank_of(MPI_COMM_WORLD) == 0) std::printf("%d refusals, %d failures\n", checks, failures);
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
