/// Reading and writing .npy files, all ranks at once.
#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "grid.h"
#include "host_copy.h"
#include "npy.h"

namespace spider::distributed {
namespace {

constexpr std::int64_t longest_header = 65536;

/// A file that all ranks of a communicator have open.
class File {
 public:
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (file_ != MPI_FILE_NULL) MPI_File_close(&file_);
  }

  [[nodiscard]] Outcome open(MPI_Comm communicator, const std::string& path, int mode) {
    return of_mpi(MPI_File_open(communicator, path.c_str(), mode, MPI_INFO_NULL, &file_),
                  ("opening " + path).c_str());
  }
  [[nodiscard]] Outcome close() {
    if (file_ == MPI_FILE_NULL) return {};
    return of_mpi(MPI_File_close(&file_), "closing the file");
  }
  [[nodiscard]] MPI_File get() const { return file_; }

 private:
  MPI_File file_ = MPI_FILE_NULL;
};

/// A type that is freed with its owner.
class Type {
 public:
  Type() = default;
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  ~Type() {
    if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
  }
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

/// What of a file is a part: the cells of its rows among those of the whole.
struct FileTypes {
  Type cell;
  Type row;
  Type part;
};

void make_types(const spider_grid& grid, FileTypes& types) {
  const spider_grid_layout& layout = grid.layout;
  MPI_Type_contiguous(static_cast<int>(grid.element_bytes), MPI_BYTE, &types.cell.type);
  MPI_Type_commit(&types.cell.type);
  MPI_Type_contiguous(static_cast<int>(layout.extent[2]), types.cell.type, &types.row.type);
  MPI_Type_commit(&types.row.type);
  std::array<int, 3> whole{};
  std::array<int, 3> extent{};
  std::array<int, 3> origin{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    whole[axis] = static_cast<int>(layout.part.whole[axis]);
    extent[axis] = static_cast<int>(layout.extent[axis]);
    origin[axis] = static_cast<int>(layout.part.origin[axis]);
  }
  MPI_Type_create_subarray(3, whole.data(), extent.data(), origin.data(), MPI_ORDER_C, types.cell.type,
                           &types.part.type);
  MPI_Type_commit(&types.part.type);
}

Outcome check_arguments(const spider_grid& grid, const char* path, const spider_field* field) {
  if (path == nullptr) return {SPIDER_ERROR_NULL, "the path is null"};
  if (grid.layout.part.whole[2] > std::numeric_limits<int>::max())
    return {SPIDER_ERROR_UNSUPPORTED, "files of rows with more than 2^31 - 1 cells"};
  if (Outcome has = check_has_field(grid); has.status != SPIDER_OK) return has;
  return check_part_field(grid, field, "the field");
}

int count_rows(const spider_grid_layout& layout) {
  return static_cast<int>(layout.extent[0] * layout.extent[1]);
}

/// Of ranks that have the same cells, is this the one that writes them?
bool is_writer(const spider_grid& grid) {
  for (int axis = 0; axis < 3; ++axis) {
    if (!grid.cut.axes[axis] && grid.layout.place[axis] > 0) return false;
  }
  return true;
}

/// Rank 0 reads the header; all learn where the cells begin.
Outcome find_cells(const spider_grid& grid, const File& file, const std::string& path, std::int64_t& begin) {
  Outcome known;
  begin = 0;
  if (grid.layout.rank == 0) {
    std::vector<char> bytes(static_cast<std::size_t>(longest_header));
    MPI_Status status;
    int count = 0;
    known = of_mpi(
        MPI_File_read_at(file.get(), 0, bytes.data(), static_cast<int>(longest_header), MPI_CHAR, &status),
        ("reading " + path).c_str());
    MPI_Get_count(&status, MPI_CHAR, &count);
    MPI_Offset size = 0;
    MPI_File_get_size(file.get(), &size);
    // Some file systems count what was asked for.
    count = static_cast<int>(std::min<MPI_Offset>(std::max(count, 0), size));
    const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
    NpyHeader header;
    begin = npy_data_offset(text);
    if (known.status == SPIDER_OK && (begin == 0 || begin > count))
      known = {SPIDER_ERROR_UNSUPPORTED, path + " is no .npy file, or its header is longer than 65536 bytes"};
    if (known.status == SPIDER_OK)
      known = read_npy_header(text.substr(0, static_cast<std::size_t>(begin)), header);
    if (known.status == SPIDER_OK) known = check_npy_header(header, grid.cut, grid.layout.part.whole);
    const std::int64_t* const whole = grid.layout.part.whole;
    const MPI_Offset wanted = begin + whole[0] * whole[1] * whole[2] * grid.element_bytes;
    if (known.status == SPIDER_OK && size < wanted) {
      known = {SPIDER_ERROR_EXTENT, path + " has " + std::to_string(size) +
                                        " bytes, and its header asks for " + std::to_string(wanted)};
    }
  }
  if (known = agree(grid.communicator->get(), known); known.status != SPIDER_OK) return known;
  return of_mpi(MPI_Bcast(&begin, 1, MPI_INT64_T, 0, grid.communicator->get()), "telling where cells begin");
}

}  // namespace

Outcome read_npy(const spider_grid& grid, const char* path, const spider_field* field) {
  MPI_Comm communicator = grid.communicator->get();
  Outcome fit = agree(communicator, check_arguments(grid, path, field));
  if (fit.status != SPIDER_OK) return fit;
  File file;
  if (fit = agree(communicator, file.open(communicator, path, MPI_MODE_RDONLY)); fit.status != SPIDER_OK)
    return fit;
  std::int64_t begin = 0;
  if (fit = find_cells(grid, file, path, begin); fit.status != SPIDER_OK) return fit;
  FileTypes types;
  make_types(grid, types);
  std::vector<std::byte> part;
  fit = caught([&]() -> Outcome {
    part.resize(part_bytes(grid.layout, grid.element_bytes));
    return {};
  });
  if (fit = agree(communicator, fit); fit.status != SPIDER_OK) return fit;
  fit =
      of_mpi(MPI_File_set_view(file.get(), begin, types.cell.type, types.part.type, "native", MPI_INFO_NULL),
             "finding the part in the file");
  if (fit.status == SPIDER_OK) {
    fit = of_mpi(MPI_File_read_all(file.get(), part.data(), count_rows(grid.layout), types.row.type,
                                   MPI_STATUS_IGNORE),
                 "reading the part");
  }
  if (fit.status == SPIDER_OK) fit = upload_part(part, grid.element_bytes, *field);
  return agree(communicator, fit);
}

Outcome write_npy(const spider_grid& grid, const spider_field* field, const char* path) {
  MPI_Comm communicator = grid.communicator->get();
  std::vector<std::byte> part;
  Outcome fit = check_arguments(grid, path, field);
  if (fit.status == SPIDER_OK) {
    fit = caught([&] {
      part.resize(part_bytes(grid.layout, grid.element_bytes));
      return download_part(*field, grid.element_bytes, part);
    });
  }
  if (fit = agree(communicator, fit); fit.status != SPIDER_OK) return fit;
  const std::int64_t* const whole = grid.layout.part.whole;
  const std::string header = make_npy_header(npy_type(grid.cut.storage), shape_of(grid.cut, whole));
  const std::string unfinished = std::string(path) + ".part";
  File file;
  fit = file.open(communicator, unfinished, MPI_MODE_CREATE | MPI_MODE_WRONLY);
  if (fit = agree(communicator, fit); fit.status != SPIDER_OK) return fit;
  const auto begin = static_cast<MPI_Offset>(header.size());
  fit = of_mpi(MPI_File_set_size(file.get(), begin + whole[0] * whole[1] * whole[2] * grid.element_bytes),
               "making room for the file");
  if (fit.status == SPIDER_OK && grid.layout.rank == 0) {
    fit = of_mpi(MPI_File_write_at(file.get(), 0, header.data(), static_cast<int>(header.size()), MPI_CHAR,
                                   MPI_STATUS_IGNORE),
                 "writing the header");
  }
  if (fit = agree(communicator, fit); fit.status != SPIDER_OK) return fit;
  FileTypes types;
  make_types(grid, types);
  fit =
      of_mpi(MPI_File_set_view(file.get(), begin, types.cell.type, types.part.type, "native", MPI_INFO_NULL),
             "finding the part in the file");
  if (fit.status == SPIDER_OK) {
    fit = of_mpi(MPI_File_write_all(file.get(), part.data(), is_writer(grid) ? count_rows(grid.layout) : 0,
                                    types.row.type, MPI_STATUS_IGNORE),
                 "writing the part");
  }
  Outcome closed = file.close();
  if (fit.status == SPIDER_OK) fit = closed;
  if (fit = agree(communicator, fit); fit.status != SPIDER_OK) return fit;
  if (grid.layout.rank == 0 && std::rename(unfinished.c_str(), path) != 0)
    fit = {SPIDER_ERROR_LAUNCH, unfinished + " cannot be given the name " + path};
  return agree(communicator, fit);
}

}  // namespace spider::distributed
